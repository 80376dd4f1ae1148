"""The docs run: every Python block as written, every output as shown, every link to something."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest

from test_figures import assert_legible

ROOT = Path(__file__).parent.parent
PAGES = [path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))) if path.exists()]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^ *(?P<fence>```+|~~~+) *(?P<language>[\w+-]*)[^\n`]*$")
LINK = re.compile(
    r"""!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*<?(?P<inline>[^\s)>]+)
    |(?:src|href)\s*=\s*["'](?P<html>[^"']+)
    |^\s*\[[^\]]+\]:\s*(?P<reference>\S+)""",
    re.VERBOSE | re.MULTILINE,
)

every_page = pytest.mark.parametrize(
    "page", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES]
)


class Block(NamedTuple):
    """A fenced block: its language, its text, the line it starts at, and where it ends."""

    language: str
    text: str
    line: int
    end: int


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, first to last."""
    fence, language, start, inside = "", "", 0, []
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if not fence and found:
            fence, language, start, inside = found["fence"], found["language"], number, []
        elif fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            yield Block(language.lower(), "\n".join(inside) + "\n", start + 1, number)
            fence = ""
        elif fence:
            inside.append(line)
    assert not fence, f"the block of line {start} never ends"


def prose(text: str) -> str:
    """The page with its fenced blocks emptied."""
    lines = text.splitlines()
    for block in blocks(text):
        lines[block.line - 2 : block.end] = [""] * (block.end - block.line + 2)
    return "\n".join(lines)


def run(page: Path, text: str) -> None:
    """Run the Python blocks of a page in order, in one namespace.

    A block of `>>>` lines is a doctest. Any other is run as a script, and a `text` block that
    follows with nothing between must be what it printed.
    """
    found = list(blocks(text))
    space: dict[str, Any] = {"__name__": "__docs__"}
    lines = text.splitlines()
    for block, after in zip_longest(found, found[1:]):
        if block.language not in ("python", "pycon", "py"):
            continue
        if re.search(r"^\s*>>> ", block.text, re.MULTILINE):
            check(page, block, space)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            # Lines before the block are kept empty, so that a traceback has the page's numbers.
            code = "\n" * (block.line - 1) + block.text
            exec(compile(code, str(page), "exec"), space)
        if after is None or after.language != "text" or "".join(lines[block.end : after.line - 2]):
            continue
        shown = after.text
        same = doctest.OutputChecker().check_output(shown, printed.getvalue(), OPTIONS)
        assert same, f"{page}, line {after.line}: printed\n{printed.getvalue()}shown\n{shown}"


def check(page: Path, block: Block, space: dict[str, Any]) -> None:
    """Run one block of `>>>` lines, and compare each answer."""
    test = doctest.DocTestParser().get_doctest(
        block.text, space, page.name, str(page), block.line - 1
    )
    test.globs = space  # the parser copies it, and later blocks need the names
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    runner.run(test, out=report.write, clear_globs=False)
    if runner.failures:
        pytest.fail(report.getvalue(), pytrace=False)


@every_page
def test_every_block_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")  # pages are read from the root
    run(page, page.read_text(encoding="utf-8"))


@every_page
def test_every_relative_link_and_picture_exists(page):
    text = prose(page.read_text(encoding="utf-8"))
    for link in LINK.finditer(re.sub(r"`[^`\n]*`", "code", text)):
        target = link["inline"] or link["html"] or link["reference"]
        if re.match(r"[a-z][a-z0-9+.-]*:|//", target):
            continue
        path, _, heading = unquote(target).partition("#")
        there = page if not path else page.parent / path
        assert there.exists(), f"{page.relative_to(ROOT)} links to {target}, which is not there"
        assert ROOT in (there.resolve(), *there.resolve().parents), f"{target} leaves the project"
        if heading and there.suffix == ".md":
            known = anchors(there.read_text(encoding="utf-8"))
            assert heading in known, f"{page.relative_to(ROOT)} links to {target}: no such heading"


def anchors(text: str) -> set[str]:
    """What GitHub calls the headings of a page."""
    names: set[str] = set()
    for title in re.findall(r"^#{1,6} +(.+?) *#*$", prose(text), re.MULTILINE):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        twin = sum(1 for known in names if re.fullmatch(rf"{re.escape(name)}(-\d+)?", known))
        names.add(f"{name}-{twin}" if twin else name)
    return names


def script(name: str):
    """A script of the docs, as a module."""
    path = ROOT / "docs" / name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_in_the_docs_is_drawn_by_the_script_legibly_and_small(tmp_path):
    pictures = script("pictures/make.py")
    pictures.EPOCHS = 1  # how well it learned is not the question here
    drawn = pictures.PICTURES
    stored = {path.name for path in (ROOT / "docs" / "pictures").glob("*.png")}
    assert stored == set(drawn)
    for name, draw in drawn.items():
        assert_legible(draw(tmp_path / name))
        assert (tmp_path / name).stat().st_size < 150_000, name


def test_no_figure_on_the_results_page_or_in_the_readme_is_typed_by_hand():
    results = script("make_results.py")
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == results.page()
    front = (ROOT / "README.md").read_text(encoding="utf-8")
    assert front == results.readme(front)


def test_a_page_that_is_wrong_is_found_out(tmp_path):
    page = tmp_path / "page.md"
    run(page, "```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n```sh\nexit 1\n```\n")
    run(page, "```python\nx = 1\n```\n```python\n>>> x + 1\n2\n>>> y = x\n```\n```python\ny\n```\n")
    with pytest.raises(AssertionError, match="line 5"):
        run(page, "```python\nprint(1 + 1)\n```\n```text\n3\n```\n")
    with pytest.raises(ZeroDivisionError):
        run(page, "```python\n1 / 0\n```\n")
    with pytest.raises(pytest.fail.Exception, match="Expected:\n    3"):
        run(page, "```python\n>>> 1 + 1\n3\n```\n")
    assert anchors("# One `two`, three\n```\n# no\n```\n## One two three\n") == {
        "one-two-three",
        "one-two-three-1",
    }
