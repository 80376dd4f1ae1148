"""What runs are asked over HTTP: to look at something, to answer, to write on.

`look` and `predict` take an image as the bytes of its file, or JSON with a `text` and, for runs
that read two, its `pair`, or with a `split` and an `index`: an item of the run's own data. `write`
goes on with a text, a token at a time, each with what else could have stood there.

`falls` says how far the answer falls when each patch of an image is deleted, and `reads`, with
`?patch=` a number, what that patch read. All of these but `write` tell their progress as well, to
those who accept events.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from regard.errors import UserError
from regard.runs.run import Run
from regard.studio.events import event
from regard.studio.kept import Kept
from regard.studio.loaded import AskerGone, Loaded
from regard.studio.progress import Tell, event_stream, progress, silent
from regard.studio.questions import Question, items_of, question, table
from regard.studio.writing import Continuation, wish_of
from regard.visualization.document import plain

log = logging.getLogger("regard.studio")


def routes(loaded: Loaded, find: Callable[[str], Path]) -> list[Route]:
    """The addresses of what runs are asked; `find` gives the folder of a run by its name."""
    kept = Kept()

    def place(request: Request) -> Path:
        try:
            return find(request.path_params["id"])
        except LookupError:
            raise HTTPException(404, f"there is no run {request.path_params['id']!r}") from None

    async def look(request: Request) -> Response:
        path, query = place(request), await question(request)
        return await answered(request, path, lambda run, tell: looked(run, query, tell))

    async def predict(request: Request) -> Response:
        path, query = place(request), await question(request)
        return await answered(request, path, lambda run, _: {"answers": predicted(run, query)})

    async def falls(request: Request) -> Response:
        path, query = place(request), await question(request)
        return await answered(request, path, lambda run, tell: fallen(run, query, tell))

    async def reads(request: Request) -> Response:
        path, patch = place(request), patch_of(request)
        query = await question(request)
        return await answered(request, path, lambda run, _: read(run, query, patch))

    async def answered(request: Request, path: Path, ask: Callable[[Run, Tell], Any]) -> Response:
        def encoded(run: Run, tell: Tell = silent) -> str:
            # In the thread too: maps of images may be megabytes.
            return json_of(kept.parked(ask(run, tell)))

        if "text/event-stream" in request.headers.get("accept", ""):
            return event_stream(loaded, path, encoded)
        try:
            text = await loaded.ask(path, encoded, gone=request.is_disconnected)
        except AskerGone:
            return Response(status_code=204)
        return Response(text, media_type="application/json")

    async def write(request: Request) -> Response:
        path, wish = place(request), wish_of(await table(request))
        try:
            # What is wrong with the wish is found out here, where it can still be refused.
            tokens = await loaded.ask(
                path, lambda run: Continuation(run, wish), gone=request.is_disconnected
            )
        except AskerGone:
            return Response(status_code=204)

        async def events() -> AsyncIterator[str]:
            # Each token is made when it is asked for: nobody asks once the connection is closed.
            try:
                while (token := await loaded.within(path, lambda: next(tokens, None))) is not None:
                    yield event("token", asdict(token))
                yield event("end", {"why": "room" if tokens.full else "length"})
            except (UserError, ValueError) as trouble:
                yield event("end", {"why": "error", "error": str(trouble)})
            except Exception:
                log.exception("%s could not write on", path)
                words = "the studio failed at this; its terminal says why"
                yield event("end", {"why": "error", "error": words})

        return StreamingResponse(events(), media_type="text/event-stream")

    return [
        Route("/api/runs/{id}/look", look, methods=["POST"]),
        Route("/api/runs/{id}/predict", predict, methods=["POST"]),
        Route("/api/runs/{id}/falls", falls, methods=["POST"]),
        Route("/api/runs/{id}/reads", reads, methods=["POST"]),
        Route("/api/runs/{id}/write", write, methods=["POST"]),
        *kept.routes(),
    ]


def looked(run: Run, query: Question, tell: Tell = silent) -> dict[str, Any]:
    """Where a run looked, what it answers, and what else its page may ask about the same.

    A run that goes on with texts is asked for that elsewhere.
    """
    progress(tell, "looking")
    task, items = run.task, items_of(run, query)
    answers: list[Any] = []
    if task.speak is not None and len(items) == 1:
        spoken = task.speak(run.trained, items[0], lambda piece: tell("piece", {"text": piece}))
        answers = [spoken.to_values()]
    elif task.stream is None:
        answers = values_of(run, items)
    document = task.look(run.trained, items, no_measuring).document
    offered = {"falls": task.occlusion, "reads": task.reads}
    more = [name for name, find in offered.items() if find is not None]
    return {"document": document, "answers": answers, "more": more}


def fallen(run: Run, query: Question, tell: Tell = silent) -> dict[str, Any]:
    """How far the answer falls without each patch of an image."""
    find = run.task.occlusion
    if find is None:
        raise UserError(f"{run.folder.path.name} looks at no image, so that none has patches")
    (item,) = items_of(run, query)
    words = "deleting one patch after another"
    return find(run.trained, item, lambda done, of: progress(tell, words, done, of)).to_values()


def read(run: Run, query: Question, patch: int) -> dict[str, Any]:
    """What one patch of an image read."""
    find = run.task.reads
    if find is None:
        raise UserError(f"{run.folder.path.name} does not say what a patch of an image read")
    (item,) = items_of(run, query)
    return find(run.trained, item, patch)


def patch_of(request: Request) -> int:
    words = request.query_params.get("patch", "")
    if not re.fullmatch(r"\d{1,9}", words, re.ASCII):
        raise UserError(f"patch={words[:40]!r} is not the number of a patch, which count from 0")
    return int(words)


def no_measuring() -> NoReturn:
    """In place of the run's data: what needs all of them would take seconds at every look."""
    raise UserError("that takes a while, and is in the run's report")


def predicted(run: Run, query: Question) -> list[Any]:
    return values_of(run, items_of(run, query))


def values_of(run: Run, items: Sequence[Any]) -> list[Any]:
    return [answer.to_values() for answer in run.task.predict(run.trained, items)]


def json_of(value: Any) -> str:
    """JSON in ASCII, so that no name of a file can spoil it; null for numbers that it lacks."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
