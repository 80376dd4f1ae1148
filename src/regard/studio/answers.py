"""What runs are asked over HTTP: to look at something, to answer, to write on.

`look` and `predict` take an image as the bytes of its file, or JSON with a `text` and, for runs
that read two, its `pair`. `test:3` as the text is that row of the run's own data. `write` goes on
with a text, a token at a time, each with what else could have stood there.

`falls` says how far the answer falls when each patch of an image is deleted, and `reads`, with
`?patch=` a number, what that patch read. All of these but `write` tell their progress as well, to
those who accept events.

A text that is typed into a page is never taken for the name of a file, as it would be on the
command line.
"""

from __future__ import annotations

import json
import logging
import os
import re
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn
from zlib import crc32

import torch
from PIL import Image
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from torch import Tensor

from regard.data.decode import known_formats
from regard.data.vocabulary import Vocabulary
from regard.errors import UserError
from regard.evaluate.generate import Rules, Writer, check_still, narrowed
from regard.evaluate.rules import Gate, log_chances
from regard.look.document import plain
from regard.studio.events import event
from regard.studio.kept import Kept
from regard.studio.kinds import kind_of
from regard.studio.loaded import AskerGone, Loaded
from regard.studio.progress import Tell, progress, told, unheard
from regard.tasks.run import Run

LARGEST = 20_000_000  # bytes of an image's file
LARGEST_TABLE = 1_000_000  # bytes of JSON
PIXELS = 40_000_000
LETTERS = 20_000  # of all texts of a question
TEXTS = 32  # that are looked at together: each has maps of its own
TOKENS = 4_000  # that are written at most
SHOWN = 10  # tokens that could have stood in a place
COLDEST, HOTTEST = 0.01, 100.0  # temperatures, but for 0
IMAGES = {
    "image/png": ("PNG",),
    "image/jpeg": ("JPEG", "MPO"),  # as telephones write it, with two pictures in one file
    "image/webp": ("WEBP",),
    "image/gif": ("GIF",),
    "image/bmp": ("BMP",),
}
ROW = re.compile(r"(train|validation|test\w*):(\d{1,12})")
BROKEN = "\ufffd"  # what stands for bytes that are no letter, or not yet

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
        path, asked = place(request), await question(request)
        return await answered(request, path, lambda run, tell: looked(run, asked, tell))

    async def predict(request: Request) -> Response:
        path, asked = place(request), await question(request)
        return await answered(request, path, lambda run, _: {"answers": predicted(run, asked)})

    async def falls(request: Request) -> Response:
        path, asked = place(request), await question(request)
        return await answered(request, path, lambda run, tell: fallen(run, asked, tell))

    async def reads(request: Request) -> Response:
        path, patch = place(request), patch_of(request)
        asked = await question(request)
        return await answered(request, path, lambda run, _: read(run, asked, patch))

    async def answered(request: Request, path: Path, ask: Callable[[Run, Tell], Any]) -> Response:
        def encoded(run: Run, tell: Tell = unheard) -> str:
            # In the thread too: maps of images may be megabytes.
            return json_of(kept.parked(ask(run, tell)))

        if "text/event-stream" in request.headers.get("accept", ""):
            return told(loaded, path, encoded)
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


# Questions


@dataclass(frozen=True)
class Typed:
    """A text as somebody typed it, and its second part, if it has one."""

    text: str
    pair: str | None = None


Question = Image.Image | Typed


async def question(request: Request) -> Question:
    """What a request asks about: an image, decoded no further than its head, or a text."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in IMAGES:
        return picture(await body(request, LARGEST), kind)
    if kind != "application/json":
        raise HTTPException(400, f"ask with JSON or an image, not with {kind[:60] or 'nothing'}")
    return typed(await table(request))


def picture(data: bytes, kind: str) -> Image.Image:
    """An image from the bytes of its file, if it is none too large; its pixels come later."""
    if not data:
        raise UserError("the image is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow's own limit, which is larger than ours
            formats = [name for names in IMAGES.values() for name in names]
            readable = [name for name in formats if name in known_formats()]
            found = Image.open(BytesIO(data), formats=readable)
    except Image.DecompressionBombError:
        raise too_many(f"over {PIXELS:,}") from None
    except Exception:  # Pillow's readers raise whatever a damaged file leads them to
        raise UserError(f"this is no image of the type {kind}, or it is damaged") from None
    if found.width * found.height > PIXELS:
        raise too_many(f"{found.width:,} × {found.height:,}")
    return found


def too_many(count: str) -> HTTPException:
    return HTTPException(413, f"the image has {count} pixels, and {PIXELS:,} are read at most")


def typed(values: dict[str, Any]) -> Typed:
    """A text, and its second part where that is said, if there is not too much of it."""
    for name in values:
        if name not in ("text", "pair"):
            raise UserError(f"{name[:60]!r} is not asked for; text and pair are")
    text, pair = values.get("text"), values.get("pair")
    if not isinstance(text, str) or not isinstance(pair, str | None):
        raise UserError("text is missing, or text or pair is no text")
    check_text(text, pair or "")
    return Typed(text, pair)


def check_text(*texts: str) -> None:
    count = sum(map(len, texts))
    if count > LETTERS:
        raise HTTPException(
            413, f"the text has {count:,} characters, and {LETTERS:,} are read at most"
        )
    if any("\ud800" <= sign <= "\udfff" for text in texts for sign in text):
        raise UserError("the text has half a character in it, a surrogate without the other")


async def table(request: Request) -> dict[str, Any]:
    """The table that a request says in JSON."""
    try:
        found = json.loads(await body(request, LARGEST_TABLE), parse_constant=no_number)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not JSON") from None
    if not isinstance(found, dict):
        raise HTTPException(400, "the body is JSON, but no table")
    return found


def no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


async def body(request: Request, most: int) -> bytes:
    """The bytes of a request, of which no more are kept than are allowed."""
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > most:
            raise HTTPException(413, f"the body has over {most:,} bytes")
    return bytes(found)


# Answers


def looked(run: Run, asked: Question, tell: Tell = unheard) -> dict[str, Any]:
    """Where a run looked, what it answers, and what else its page may ask about the same.

    A run that goes on with texts is asked for that elsewhere.
    """
    progress(tell, "looking")
    task, opened = run.task, opened_by(run, asked)
    answers: list[Any] = []
    if task.speak is not None and len(opened) == 1:
        spoken = task.speak(run.trained, opened[0], lambda piece: tell("piece", {"text": piece}))
        answers = [spoken.to_values()]
    elif task.stream is None:
        answers = values_of(run, opened)
    document = task.look(run.trained, opened, no_measuring).document
    more = [name for name in ("falls", "reads") if getattr(task, name) is not None]
    return {"document": document, "answers": answers, "more": more}


def fallen(run: Run, asked: Question, tell: Tell = unheard) -> dict[str, Any]:
    """How far the answer falls without each patch of an image."""
    find = run.task.falls
    if find is None:
        raise UserError(f"{run.folder.path.name} looks at no image, so that none has patches")
    (opened,) = opened_by(run, asked)
    words = "deleting one patch after another"
    return find(run.trained, opened, lambda done, of: progress(tell, words, done, of)).to_values()


def read(run: Run, asked: Question, patch: int) -> dict[str, Any]:
    """What one patch of an image read."""
    find = run.task.reads
    if find is None:
        raise UserError(f"{run.folder.path.name} does not say what a patch of an image read")
    (opened,) = opened_by(run, asked)
    return find(run.trained, opened, patch)


def patch_of(request: Request) -> int:
    words = request.query_params.get("patch", "")
    if not re.fullmatch(r"\d{1,9}", words, re.ASCII):
        raise UserError(f"patch={words[:40]!r} is not the number of a patch, which count from 0")
    return int(words)


def no_measuring() -> NoReturn:
    """In place of the run's data: what needs all of them would take seconds at every look."""
    raise UserError("that takes a while, and is in the run's report")


def predicted(run: Run, asked: Question) -> list[Any]:
    return values_of(run, opened_by(run, asked))


def values_of(run: Run, opened: Sequence[Any]) -> list[Any]:
    return [answer.to_values() for answer in run.task.predict(run.trained, opened)]


def opened_by(run: Run, asked: Question) -> Sequence[Any]:
    """A question as inputs of the run's model, if it is one for it."""
    kind, _ = kind_of(run.task, vars(run.facts))
    if isinstance(asked, Image.Image):
        if kind != "image":
            raise UserError("this run reads text, and was sent an image")
        return run.task.open(run.trained, [whole(asked)], lambda: run.data)
    text = asked.text
    if asked.pair is not None:
        if kind != "pair":
            raise UserError("this run is not asked about pairs: leave the second text out")
        if any(sign in part for part in (asked.text, asked.pair) for sign in "\t\r\n"):
            raise UserError("each text of a pair is one line, without a tab")
        text = f"{asked.text}\t{asked.pair}"
    return opened_text(run, text)


def opened_text(run: Run, text: str) -> Sequence[Any]:
    """A text, or a row of the run's own data, as inputs; the files of this machine are none."""
    kind, _ = kind_of(run.task)
    if not ROW.fullmatch(text):
        if kind == "image":
            raise UserError("this run looks at images: send one, or name a row such as test:0")
        if text == "-" or names_file(text):
            raise UserError(f"{text[:60]!r} alone would name a file: write something with it")
    opened = run.task.open(run.trained, [text], lambda: run.data)
    if len(opened) > TEXTS:
        raise UserError(f"a line is a text of its own: {len(opened)} are more than {TEXTS}")
    return opened


def names_file(text: str) -> bool:
    return len(text) < 4096 and os.path.isfile(text)


def whole(image: Image.Image) -> Image.Image:
    """The same image with its pixels."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image.load()
    except Exception as damage:
        raise UserError(f"the image is damaged or cut short ({damage})") from None
    return image


# Writing


@dataclass(frozen=True)
class Wish:
    """How a text is to be gone on with; without a seed, the same text gives the same."""

    text: str
    temperature: float = 0.8
    top_p: float = 1.0
    length: int = 200
    seed: int | None = None


@dataclass(frozen=True)
class Token:
    """What a token adds to the text, its probability, and the likeliest with theirs.

    The probabilities are those that were drawn by, after temperature and top_p. What is added may
    be nothing, as long as a letter is not whole.
    """

    text: str
    probability: float
    top: list[tuple[str, float]]


def wish_of(values: dict[str, Any]) -> Wish:
    """What a request wants written, within limits."""
    known = Wish.__dataclass_fields__
    for name in values:
        if name not in known:
            raise UserError(f"{name[:60]!r} is not asked for; {', '.join(known)} are")
    text = values.get("text")
    if not isinstance(text, str):
        raise UserError("text is missing, or is no text")
    check_text(text)
    temperature, top_p, length, seed = (
        values.get(name, known[name].default) for name in ("temperature", "top_p", "length", "seed")
    )
    if not (is_number(temperature) and (temperature == 0 or COLDEST <= temperature <= HOTTEST)):
        raise UserError(
            f"temperature={temperature!r:.40} is neither 0, for the likeliest token each time, nor "
            f"in {COLDEST} … {HOTTEST:g}"
        )
    if not (is_number(top_p) and 0 < top_p <= 1):
        raise UserError(f"top_p={top_p!r:.40} is not a share in 0 < … ≤ 1")
    if type(length) is not int or not 1 <= length <= TOKENS:
        raise UserError(f"length={length!r:.40} is not a number of tokens in 1 … {TOKENS:,}")
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**32):
        raise UserError(f"seed={seed!r:.40} is not a whole number in 0 … {2**32 - 1:,}")
    return Wish(text, float(temperature), float(top_p), length, seed)


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)


class Continuation(Iterator[Token]):
    """The tokens that a run writes after a text: those that `predict` draws, one at a time.

    Of a text longer than half a window the model reads the end, and it writes no further than to
    the end of the window.
    """

    def __init__(self, run: Run, wish: Wish) -> None:
        model, task = run.model, run.task
        if task.stream is None or not isinstance(model, Writer):
            raise UserError(f"{run.folder.path.name} does not write on: ask it for an answer")
        check_still(model)
        (prompt,) = opened_text(run, wish.text)
        words: Vocabulary = run.facts.words
        window: int = run.config.model.length
        tokens = list(prompt.tokens)[-(window // 2) :] or words.encode("\n") or [words.start]
        count = min(wish.length, window - len(tokens))
        never = [words.special(name) for name in ("unknown",) if name in words.specials]
        never += [words.padding, words.start]
        # A text has no end that could be learnt, so it goes on until there is no more room.
        self.rules = Rules(
            begin=words.start, end=words.end, longest=count, shortest=count, never=tuple(never)
        )
        self.model, self.words, self.wish = model, words, wish
        self.full = count < wish.length
        self.top_k: int | None = getattr(getattr(run.config, task.asking), "top_k", 0) or None
        self.before, self.tokens, self.shown = tokens, list[int](), 0
        self.next = torch.tensor([tokens], device=run.device)
        self.gate = Gate(self.rules, self.next, None)
        self.state: Any = None
        seed = crc32(prompt.text.encode("utf-8", "replace")) if wish.seed is None else wish.seed
        self.draw = torch.Generator().manual_seed(seed)

    @torch.inference_mode()
    def __next__(self) -> Token:
        if len(self.tokens) >= self.rules.longest:
            raise StopIteration
        if self.state is None:
            self.state = self.model.start(1)
        scores = log_chances(self.model, self.next, self.state, None, self.rules)
        self.gate.shut(scores, len(self.tokens))
        chances = self.chances(scores)
        chosen = torch.multinomial(chances.cpu(), 1, generator=self.draw).to(scores.device)
        self.tokens.append(int(chosen))
        self.gate.note(chosen)
        self.next = chosen
        best = scores[0].topk(min(SHOWN, int(scores.isfinite().sum()))).indices
        top = zip(best.tolist(), chances[0, best].tolist(), strict=True)
        return Token(
            self.added(),
            float(chances[0, self.tokens[-1]]),
            [(self.spelt(number), share) for number, share in top],
        )

    def chances(self, scores: Tensor) -> Tensor:
        """The probabilities that are drawn by; at temperature 0, all is on the likeliest."""
        if self.wish.temperature == 0:
            return torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
        return narrowed(scores / self.wish.temperature, self.top_k, self.wish.top_p).softmax(-1)

    def added(self) -> str:
        """What can be shown that was not yet: a letter that is not whole waits, but not for ever.

        Tokens are read together with those before, or words would stand without the space between.
        """
        prompt = self.words.decode(self.before)
        text = self.words.decode([*self.before, *self.tokens])
        whole = text.startswith(prompt)  # or the prompt ended within a letter
        text = text[len(prompt) :] if whole else self.words.decode(self.tokens)
        if len(self.tokens) < self.rules.longest:
            text = text.rstrip(BROKEN)
        found, self.shown = text[self.shown :], max(self.shown, len(text))
        return found

    def spelt(self, number: int) -> str:
        """A token as people read it."""
        return self.words.decode([number]) or self.words.entry(number)


# JSON


def json_of(value: Any) -> str:
    """JSON in ASCII, so that no name of a file can spoil it; null for numbers that it lacks."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
