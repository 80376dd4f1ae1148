"""The studio as an ASGI application: its addresses, its one page, and how it says what is wrong.

    app = make_app(Path("runs"))

Modules of the page come from a table that is made at the start: nothing in an address becomes a
path on the disk. Runs, likewise, are looked up by name among those that are there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from threading import Thread
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from regard.errors import UserError
from regard.studio import answers
from regard.studio import formula as ideas
from regard.studio.events import events_of
from regard.studio.forms import forms
from regard.studio.loaded import Loaded
from regard.studio.places import Places
from regard.studio.questions import table
from regard.studio.runs import Runs, has_report
from regard.studio.safety import REPORT_POLICY, Guard, page_policy
from regard.studio.training import Trainings
from regard.visualization.document import PAGE as LOOK
from regard.visualization.document import plain

HOST, PORT = "127.0.0.1", 8347
PAGE = files("regard.studio") / "page"
AHEAD = "studio/ahead.js"  # which stands in the page itself
EARLY = ("studio/studio", "studio/text", "regard/views/reading")  # where a model has most to do
IMPORTED = re.compile(r'\bfrom "((?:regard|studio)/[^"]+)"')
KINDS = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}


def make_app(
    root: Path,
    runs: Sequence[Path] = (),
    *,
    token: str | None = None,
    host: str = HOST,
    port: int = PORT,
    data: Sequence[Path] = (),
    keep_training: bool = False,
) -> Starlette:
    """The studio on the runs in `root`, and on those named; new ones are made in `root`.

    They learn from data sets by name, from what lies in `root`, and from what lies in the folders
    of `data`. With `keep_training` they go on when the studio ends, unless the page says otherwise.

    `host` and `port` are those it is served on: requests that name others are refused. With a
    `token`, so are those that do not know it.
    """
    places = Places(root, tuple(data))
    trainings = Trainings(root, places=places, keep_training=keep_training)
    known = Runs(root, runs, trainings)
    loaded = Loaded()
    static = page_table()
    version, (shell, policy) = version_of(static), page_shell(static)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        Thread(target=trainings.renew_often, name="studio-leases", daemon=True).start()
        yield
        loaded.close()
        await run_in_threadpool(trainings.stop_all)

    async def show(request: Request) -> Response:
        return Response(shell, media_type="text/html", headers={"Cache-Control": "no-cache"})

    async def module(request: Request) -> Response:
        found = static.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404, "the page has no such part")
        content, kind = found
        requested = request.query_params.get("v")  # parts of one version refer to one another by it
        kept = "private, max-age=31536000, immutable" if requested == version else "no-cache"
        return Response(content, headers={"Content-Type": kind, "Cache-Control": kept})

    async def list_runs(request: Request) -> Response:
        rows = await run_in_threadpool(known.rows)
        return answer({"root": str(root), "keep_training": keep_training, "runs": rows})

    async def show_run(request: Request) -> Response:
        return answer(await run_in_threadpool(known.whole, request.path_params["id"]))

    async def report(request: Request) -> Response:
        path = known.find(request.path_params["id"])
        if not has_report(path):
            raise HTTPException(404, f"{request.path_params['id']} has no report yet")
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return FileResponse(
            path / "report.html", media_type="text/html; charset=utf-8", headers=headers
        )

    async def recipes(request: Request) -> Response:
        return answer(await run_in_threadpool(forms, places.words()))

    async def start(request: Request) -> Response:
        wish = await table(request)
        task, recipe, changes = (wish.get(name) for name in ("task", "recipe", "changes"))
        if not (isinstance(task, str) and isinstance(recipe, str)):
            raise HTTPException(422, "task and recipe are missing, or are no words")
        if not isinstance(changes, dict | None):
            raise HTTPException(422, "changes are values by the names of their fields")
        keep = choice_of(wish)
        name = await run_in_threadpool(trainings.start, task, recipe, changes or {}, keep)
        return answer({"id": name}, 201)

    async def stop(request: Request) -> Response:
        name = request.path_params["id"]
        await run_in_threadpool(known.stop, name)
        return answer({"id": name})

    async def resume(request: Request) -> Response:
        name, keep = request.path_params["id"], choice_of(await table(request))
        await run_in_threadpool(known.resume, name, keep)
        return answer({"id": name})

    routes = [
        Route("/", show),
        Route("/page/{name:path}", module),
        Route("/api/runs", list_runs),
        Route("/api/runs", start, methods=["POST"]),
        Route("/api/recipes", recipes),
        Route("/api/runs/{id}", show_run),
        Route("/api/runs/{id}/events", partial(events_of, known)),
        Route("/api/runs/{id}/report", report),
        Route("/api/runs/{id}/stop", stop, methods=["POST"]),
        Route("/api/runs/{id}/resume", resume, methods=["POST"]),
        *answers.routes(loaded, known.find),
        *ideas.routes(),
    ]
    guard = Middleware(Guard, host=host, port=port, token=token, policy=policy)
    handlers: dict[Any, Any] = {
        HTTPException: refuse,
        UserError: correct,
        ValueError: correct,
        OverflowError: correct,
    }
    app = Starlette(
        routes=routes, middleware=[guard], exception_handlers=handlers, lifespan=lifespan
    )
    app.router.redirect_slashes = False  # an address is right or wrong
    return app


def choice_of(wish: Mapping[str, Any]) -> bool | None:
    """Whether a training is to go on when the studio ends; None where that is not said."""
    keep = wish.get("keep_training")
    if not isinstance(keep, bool | None):
        raise HTTPException(422, "keep_training is true or false")
    return keep


def page_table() -> dict[str, tuple[bytes, str]]:
    """All modules and styles of the page by their address under /page, with their types."""
    found: dict[str, tuple[bytes, str]] = {}

    def add(folder: Traversable, under: str) -> None:
        for entry in sorted(folder.iterdir(), key=lambda each: each.name):
            kind = KINDS.get(Path(entry.name).suffix)
            if entry.is_dir():
                add(entry, f"{under}{entry.name}/")
            elif kind is not None:
                found[under + entry.name] = entry.read_bytes(), kind

    add(LOOK, "regard/")
    add(PAGE, "studio/")
    return found


def version_of(static: Mapping[str, tuple[bytes, str]]) -> str:
    """A word for all parts together, so that a browser may keep them until one has changed."""
    whole = hashlib.sha256()
    for name, (content, _) in static.items():
        whole.update(f"{name} {len(content)} ".encode() + content)
    return whole.hexdigest()[:16]


def page_shell(static: Mapping[str, tuple[bytes, str]]) -> tuple[str, str]:
    """The page that loads all others, and the policy that lets in the two scripts inside it."""
    version = version_of(static)
    modules = (name for name in static if name.endswith(".js") and name != AHEAD)
    imports = {name.removesuffix(".js"): f"/page/{name}?v={version}" for name in modules}
    names, ahead = json.dumps({"imports": imports}), static[AHEAD][0].decode()
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    early = "\n".join(
        f'<link rel="modulepreload" href="{imports[name]}">' for name in needed(static, *EARLY)
    )
    parts = {"ahead": ahead, "importmap": names, "version": version, "early": early}
    for name, words in parts.items():
        text = text.replace(f"{{{{{name}}}}}", words)
    return text, page_policy(*map(digest_of, (ahead, names)))


def digest_of(script: str) -> str:
    """By what a policy knows a script that stands inside a page."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def needed(static: Mapping[str, tuple[bytes, str]], *names: str) -> list[str]:
    """These modules and all that they import, which a browser would find out one by one."""
    found: list[str] = []
    wanted = list(names)
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.append(name)
            wanted += IMPORTED.findall(static[f"{name}.js"][0].decode())
    return sorted(found)


def answer(value: Any, status: int = 200) -> Response:
    """A value as JSON, with null for numbers that JSON lacks."""
    # In ASCII, since texts of users may hold halves of letters that UTF-8 cannot say.
    return Response(
        json.dumps(plain(value), allow_nan=False), status, media_type="application/json"
    )


async def refuse(request: Request, trouble: HTTPException) -> Response:
    response = answer({"error": trouble.detail}, trouble.status_code)
    response.headers.update(trouble.headers or {})
    return response


async def correct(request: Request, trouble: Exception) -> Response:
    """A mistake of the person's, in the sentence that the terminal would show."""
    return answer({"error": str(trouble)}, 422)
