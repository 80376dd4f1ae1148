"""One image file to pixels, whatever its size, depth, palette, transparency or rotation.

The picture is turned upright by its EXIF mark, laid on white where it is transparent, and cut to
the largest square around its centre, which is resized: the same as resizing the shorter side and
cutting the centre, without ever making a large picture of a long thin one. 16-bit grey is scaled
to 8 bits. An animation gives its first frame.
"""

import hashlib
import re
import stat
import warnings
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from regard.errors import DataIssue

LARGEST_FILE = 2**29  # bytes
# What Pillow is asked to try: it knows more formats, and some of them start other programs.
FORMATS = ("PNG", "JPEG", "MPO", "BMP", "GIF", "TIFF", "WEBP", "PPM", "JPEG2000", "AVIF")
SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".gif", ".tif", ".tiff"),
    *(".webp", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".avif"),
)


class Decoded(NamedTuple):
    """The pixels, and the SHA-256 of the file they came from."""

    pixels: UInt8[np.ndarray, "c y x"]
    digest: str


def decode(path: Path, size: int | None = None, channels: Literal[1, 3] = 3) -> Decoded:
    """Read one image as grey (1 channel) or RGB (3), as a square of `size` or as large as it is."""
    return decode_bytes(str(path), contents(path), size, channels)


def decode_bytes(
    path: str, data: bytes, size: int | None = None, channels: Literal[1, 3] = 3
) -> Decoded:
    """The same for the bytes of an image, by a name for what is wrong with them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(data), formats=known_formats()) as image:
                pixels = fit(flatten(upright(image)), size, channels)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as bomb:
        count = re.search(r"\d+", str(bomb))
        raise DataIssue(
            f"{path} has {count[0] if count else 'too many'} pixels, more than the "
            f"{Image.MAX_IMAGE_PIXELS} that are read: make it smaller, or take it out",
            path,
            kind="size",
        ) from None
    except UnidentifiedImageError:
        raise DataIssue(f"{path} is no image{hint(data)}", path, kind="format") from None
    except UnsupportedPixels as kind:
        raise DataIssue(
            f"{path} has {kind}: save it with 8 or 16 bits a channel", path, kind="format"
        ) from None
    except Exception as damage:  # Pillow's readers raise whatever a damaged file leads them to
        raise DataIssue(
            f"{path} is damaged or cut short ({damage})", path, kind="damaged"
        ) from None
    return Decoded(pixels, hashlib.sha256(data).hexdigest())


def contents(path: Path) -> bytes:
    """All bytes of a file of a sensible size."""
    try:
        facts = path.stat()
        size = facts.st_size
        if not stat.S_ISREG(facts.st_mode):
            raise DataIssue(f"{path} is no file", path, kind="format")
        if size > LARGEST_FILE:
            raise DataIssue(
                f"{path} has {size >> 20} MiB, more than the {LARGEST_FILE >> 20} read",
                path,
                kind="size",
            )
        data = path.read_bytes()
    except OSError as trouble:
        raise DataIssue(
            f"{path} cannot be read: {trouble.strerror}", path, kind="unreadable"
        ) from None
    if not data:
        raise DataIssue(f"{path} is empty", path, kind="empty")
    return data


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(contents(path)).hexdigest()


@cache
def known_formats() -> tuple[str, ...]:
    """Those of `FORMATS` that this build of Pillow can read."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def hint(data: bytes) -> str:
    """What a file that is no image looks like, in words for the end of a sentence."""
    start = data[:512]
    if start.lstrip()[:1] == b"<":
        return " but a page or drawing in text, whatever its name says"
    if not set(start) & set(range(9)):
        return " but text, whatever its name says"
    return f" of a kind that is read ({', '.join(known_formats())})"


class UnsupportedPixels(ValueError):
    """Pixels of a kind for which no scale to 8 bits is known."""


def upright(image: Image.Image) -> Image.Image:
    """The picture as it was meant to be seen."""
    image.load()
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # a mark that cannot be read turns nothing
        return image


def flatten(image: Image.Image) -> Image.Image:
    """The same picture as 8-bit grey or RGB, on white where it is transparent."""
    if image.mode.startswith("I"):
        deep = np.asarray(image).astype(np.int32)
        if deep.min() < 0 or deep.max() > 65535:
            raise UnsupportedPixels(f"pixels from {deep.min()} to {deep.max()}")
        grey = ((deep * 255 + 32767) // 65535).astype(np.uint8)
        clear = image.info.get("transparency")  # the one value that is seen through
        return Image.fromarray(grey if clear is None else np.where(deep == clear, 255, grey))
    if image.mode == "F":
        raise UnsupportedPixels("pixels that are fractions")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def fit(
    image: Image.Image, size: int | None, channels: Literal[1, 3]
) -> UInt8[np.ndarray, "{channels} y x"]:
    """The centre of a grey or RGB picture as a square of `size`, or all of it without one."""
    image = image.convert("L" if channels == 1 else "RGB")
    if size is not None and image.size != (size, size):
        side = min(image.size)
        left, top = (image.width - side) / 2, (image.height - side) / 2
        box = (left, top, left + side, top + side)
        image = image.resize((size, size), Image.Resampling.BICUBIC, box=box)
    pixels = np.asarray(image).reshape(image.height, image.width, channels)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))
