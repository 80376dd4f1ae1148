"""Make the notebooks of the tour again: `python docs/make_tour.py`; `--pictures` draws them too.

A page is the source. Its Python blocks become code cells, all between them markdown cells, and no
output is stored, so that a notebook changes only when its page does. The pictures are those that
the pages' own code saves, which takes half a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

TOUR = Path(__file__).parent / "tour"
PAGES = tuple(sorted(TOUR.glob("*.md")))
CODE = re.compile(r"^```python\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class Part(NamedTuple):
    """A piece of a page."""

    kind: str  # "markdown" or "code"
    text: str


def parts(page: str) -> Iterator[Part]:
    """The page cut at its Python blocks, without what is empty."""
    for number, text in enumerate(CODE.split(page)):
        if text.strip():
            yield Part("code" if number % 2 else "markdown", text.strip("\n"))


def notebook(page: str) -> str:
    """The page as a notebook of nbformat 4.5."""
    cells = [cell(number, *part) for number, part in enumerate(parts(page))]
    content = {"cells": cells, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def cell(number: int, kind: str, text: str) -> dict[str, Any]:
    """One cell; its id tells place and text, so that a cell left alone keeps its id."""
    name = f"{number:02}-{sha256(text.encode()).hexdigest()[:8]}"
    if kind == "markdown":
        text = between_notebooks(text)
    made: dict[str, Any] = {
        "cell_type": kind,
        "id": name,
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def between_notebooks(text: str) -> str:
    """Links from page to page lead from notebook to notebook."""
    for page in PAGES:
        text = text.replace(f"]({page.name})", f"]({page.with_suffix('.ipynb').name})")
    return text


def pictures(page: Path, folder: Path) -> list[Path]:
    """Run a page's code where it may write, and return the pictures that it saved."""
    space: dict[str, Any] = {"__name__": "__tour__"}
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for part in parts(page.read_text(encoding="utf-8")):
            if part.kind == "code":
                exec(compile(part.text, str(page), "exec"), space)
    return sorted(folder.glob("*.png"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", action="store_true", help="run the pages and keep pictures")
    draw = parser.parse_args().pictures
    for page in PAGES:
        path = page.with_suffix(".ipynb")
        path.write_text(notebook(page.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
        print(f"wrote {path}")
        if draw:
            with tempfile.TemporaryDirectory() as folder:
                for picture in pictures(page, Path(folder)):
                    kept = TOUR / "pictures" / picture.name
                    kept.write_bytes(picture.read_bytes())
                    print(f"wrote {kept}")


if __name__ == "__main__":
    main()
