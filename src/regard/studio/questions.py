"""What a request asks a run about, checked and within limits: an image, a text and its pair, or
an item of the run's own data, by its split and its index. A text is a text, whatever it says.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NoReturn

from PIL import Image
from starlette.exceptions import HTTPException
from starlette.requests import Request

from regard.data.decode import known_formats
from regard.errors import UserError
from regard.runs.run import Run
from regard.studio.kinds import kind_of
from regard.tasks.inputs import Rows, Unreadable

LARGEST = 20_000_000  # bytes of an image's file
LARGEST_TABLE = 1_000_000  # bytes of JSON
PIXELS = 40_000_000
LETTERS = 20_000  # of all texts of a question
TEXTS = 32  # that are looked at together: each has maps of its own
IMAGES = {
    "image/png": ("PNG",),
    "image/jpeg": ("JPEG", "MPO"),  # as telephones write it, with two pictures in one file
    "image/webp": ("WEBP",),
    "image/gif": ("GIF",),
    "image/bmp": ("BMP",),
}
SPLIT = re.compile(r"train|validation|test\w{0,20}", re.ASCII)


@dataclass(frozen=True)
class Typed:
    """A text as somebody typed it, and its second part, if it has one."""

    text: str
    pair: str | None = None


@dataclass(frozen=True)
class Own:
    """An item of the run's own data."""

    split: str
    index: int


Question = Image.Image | Typed | Own


async def question(request: Request) -> Question:
    """What a request asks about: an image, decoded no further than its head, or a text."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in IMAGES:
        return picture(await body(request, LARGEST), kind)
    if kind != "application/json":
        raise HTTPException(400, f"ask with JSON or an image, not with {kind[:60] or 'nothing'}")
    values = await table(request)
    return own(values) if "split" in values else typed(values)


def own(values: dict[str, Any]) -> Own:
    """An item of the run's own data, by its split and its index."""
    for name in values:
        if name not in ("split", "index"):
            raise UserError(f"{name[:60]!r} is not asked for beside split; index is")
    split, index = values["split"], values.get("index")
    if not isinstance(split, str) or not SPLIT.fullmatch(split):
        raise UserError(f"split={split!r:.40} is not train, validation or test")
    if type(index) is not int or not 0 <= index < 10**12:
        raise UserError(f"index={index!r:.40} is not a whole number, from 0")
    return Own(split, index)


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


def items_of(run: Run, query: Question) -> Sequence[Any]:
    """A question as items that the run's model can be asked about, if it is one for it."""
    kind, _ = kind_of(run.task, vars(run.metadata))
    if isinstance(query, Own):
        return readable(run, [Rows(query.split, (query.index,))])
    if isinstance(query, Image.Image):
        if kind != "image":
            raise UserError("this run reads text, and was sent an image")
        return readable(run, [whole(query)])
    if query.pair is not None:
        if kind != "pair":
            raise UserError("this run is not asked about pairs: leave the second text out")
        if any(sign in part for part in (query.text, query.pair) for sign in "\t\r\n"):
            raise UserError("each text of a pair is one line, without a tab")
        return readable(run, [(query.text, query.pair)])
    return items_of_text(run, query.text)


def items_of_text(run: Run, text: str) -> Sequence[Any]:
    """A text as one item where a run writes on, or each of its lines."""
    if run.task.asks_about != "texts":
        raise UserError("this run looks at images: send one, or name a split and an index")
    lines = text.removesuffix("\n").split("\n")
    texts = [text] if run.task.stream is not None else [line.removesuffix("\r") for line in lines]
    if len(texts) > TEXTS:
        raise UserError(f"a line is a text of its own: {len(texts)} are more than {TEXTS}")
    return readable(run, texts)


def readable(run: Run, values: Sequence[Any]) -> Sequence[Any]:
    """Values as items; the first that is none is said in a sentence."""
    items = [*run.items(*values)]
    for item in items:
        if isinstance(item, Unreadable):
            what = "the text" if run.task.asks_about == "texts" else "the image"
            what = f"line {items.index(item) + 1}" if len(items) > 1 else what
            raise UserError(str(item) if isinstance(values[0], Rows) else f"{what} {item.reason}")
    return items


def whole(image: Image.Image) -> Image.Image:
    """The same image with its pixels."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image.load()
    except Exception as damage:
        raise UserError(f"the image is damaged or cut short ({damage})") from None
    return image
