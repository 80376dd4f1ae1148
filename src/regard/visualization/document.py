"""Reports and viewers as one HTML file that needs nothing else: no network, no server, no fonts.

A document is a title and sections; each section names a view, a module in `page/views` that draws
its `data`:

    write_document(Path("report.html"), {
        "title": "Digits",
        "about": [["images", 360]],
        "sections": [{"view": "figures", "title": "Results", "data": {"items": […]}}],
    })

Names, captions and labels are whatever a user's files say. They travel as JSON in which no
character can end the script, and the page shows them as text, never as markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from regard.run_folder.drafts import clear_drafts, write_whole

PAGE = files("regard.visualization") / "page"
ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E"
    "%3Ccircle cx='4' cy='4' r='3' fill='none' stroke='%231f5fa8' stroke-width='1.2'/%3E"
    "%3Ccircle cx='4' cy='4' r='1.2' fill='%231f5fa8'/%3E%3C/svg%3E"
)
# What JSON may hold but a script element may not: these could end it, or begin a comment in it.
ESCAPES = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"})

# Comments that have their lines to themselves: for those who read the modules, not the report.
COMMENTS = re.compile(r"^ *(?:/\*\*[\s\S]*?\*/|//.*)\n", re.MULTILINE)
IMPORTED = re.compile(r'\bfrom "(regard/[^"]+)"')


class Section(TypedDict):
    """One view of the page; `words` say in a sentence how to read it."""

    view: str
    title: str
    data: Mapping[str, Any]
    words: NotRequired[str]


class Document(TypedDict):
    """All that a page shows; `about` is a list of names and values under the heading."""

    title: str
    sections: Sequence[Section]
    subtitle: NotRequired[str]
    about: NotRequired[Sequence[Sequence[Any]]]


def write_document(path: Path, document: Document) -> None:
    """Write the document as one HTML file, whole or not at all."""
    text = render(document)
    clear_drafts(path.parent)
    write_whole(path, text.encode())


def render(document: Document) -> str:
    """The document as HTML: style, modules and data inside, and nothing fetched from anywhere.

    The same document gives the same text, byte for byte.
    """
    data = json_in_html(document)
    modules = modules_for([section["view"] for section in document["sections"]])
    # The last line gives a module its name in the browser's tools and error messages.
    imports = {
        name: data_uri("text/javascript", f"{COMMENTS.sub('', text)}//# sourceURL={name}.js\n")
        for name, text in modules.items()
    }
    style = (PAGE / "page.css").read_text(encoding="utf-8")
    title = html.escape(document["title"].encode("utf-8", "replace").decode())

    # The policy lets only scripts and styles with this word run. It depends on all that the page
    # holds, so nothing that the page holds can have been written to contain it.
    nonce = hashlib.sha256("\0".join((title, data, style, *imports.values())).encode()).hexdigest()
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="{ICON}">
<style nonce="{nonce}">
{style}</style>
</head>
<body>
<noscript>This page draws its figures with JavaScript, all of it in this file.</noscript>
<script type="application/json" id="document">{data}</script>
<script type="importmap" nonce="{nonce}">{json.dumps({"imports": imports})}</script>
<script type="module" nonce="{nonce}">
import {{ show }} from "regard/main";
show(JSON.parse(document.getElementById("document").textContent), document.body);
</script>
</body>
</html>
"""


def modules_for(views: Sequence[str]) -> dict[str, str]:
    """The source of the page and of these views, by the name that they import each other by.

    The name of page/views/table.js is regard/views/table, wherever it is served from.
    """
    known = views_known()
    for view in views:
        if view not in known:
            raise ValueError(f"there is no view {view!r}; there are {', '.join(known)}")
    found: dict[str, str] = {}
    wanted = ["regard/main", *(f"regard/views/{view}" for view in views)]
    while wanted:
        name = wanted.pop()
        if name not in found:
            path = f"{name.removeprefix('regard/')}.js"
            found[name] = (PAGE / path).read_text(encoding="utf-8")
            wanted += IMPORTED.findall(found[name])
    return dict(sorted(found.items()))


def views_known() -> tuple[str, ...]:
    """The names of all views."""
    names = (entry.name for entry in (PAGE / "views").iterdir())
    return tuple(sorted(name.removesuffix(".js") for name in names if name.endswith(".js")))


def json_in_html(value: Any) -> str:
    """JSON that can stand in a script element, whatever its strings hold.

    Arrays become lists; numbers that JSON lacks, such as a loss that is NaN, become null.
    """
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def plain(value: Any) -> Any:
    """The same value in the types that JSON has; what can say itself in values does."""
    if hasattr(value, "to_values"):
        value = value.to_values()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def png_uri(image: UInt8[np.ndarray, "y x"] | UInt8[np.ndarray, "y x c"]) -> str:
    """An image, grey or with 1 (grey), 3 (colours) or 4 (and alpha) channels, as a PNG to embed."""
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[:, :, 0]
    if 0 in image.shape or (image.ndim == 3 and image.shape[2] not in (3, 4)):
        raise ValueError(f"an image of shape {image.shape} is not y × x, y × x × 3 or y × x × 4")
    memory = BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(memory, format="PNG", optimize=True)
    return data_uri("image/png", memory.getvalue())


def packed(maps: Float[np.ndarray, "*maps rows columns"]) -> dict[str, Any]:
    """Maps of shares as bytes, for the page to unpack: value = byte × scale.

    Each map, the last two axes, has its own scale, so that a head which reads everything a little
    keeps as many shades as one that reads a single patch; the error is at most half a step, 1/510
    of the map's greatest value. A map alone has a number as its scale, several have a list.
    """
    if maps.size and not (np.isfinite(maps).all() and maps.min() >= 0):
        raise ValueError(
            f"maps go from {maps.min():.3g} to {maps.max():.3g}; shares are finite and not negative"
        )
    rows, columns = maps.shape[-2:]
    flat = maps.reshape(math.prod(maps.shape[:-2]), rows * columns).astype(np.float64)
    scales = flat.max(1, initial=0.0) / 255
    # Dividing by a scale too small for float64's reciprocal would overflow; such maps are zero.
    steps = np.where(scales > 0, scales, 1.0)[:, None]
    levels = np.rint(flat / steps).clip(0, 255).astype(np.uint8)
    return {
        "shape": list(maps.shape),
        "scale": scales.tolist() if maps.ndim > 2 else float(scales[0]),
        "base64": base64.b64encode(levels.tobytes()).decode(),
    }


def data_uri(kind: str, content: str | bytes) -> str:
    """Content as an address that holds it."""
    content = content.encode() if isinstance(content, str) else content
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
