"""Text that every machine with Python has: the standard library's documentation, and its source.

Modules are taken in the order of their names, and the hash of its name says which part a module is
in: about eight of ten to train on, one for validation, one for test. Each version of Python has
its own text, so a figure measured on it says which.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import re
import sys
import sysconfig
import tokenize
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data.corpus import CORPORA, Corpus
from regard.data.images import SPLITS
from regard.data.text import Text
from regard.errors import UserError
from regard.paths import cache_folder
from regard.progress import progress
from regard.run_folder.drafts import clear_drafts, write_whole

RULE = 1  # raised when the same files would give another text
FEWEST = 100  # modules without which a library is not worth reading
TESTS = {"test", "tests", "idle_test"}
INSTALLED = {"site-packages", "dist-packages"}
# Tables that programs wrote, so alike that what is held out would be known from training.
TABLES = {"encodings", "pydoc_data"}
EXAMPLE = re.compile(r"^[ \t]*>>>.*(?:\n[ \t]*\S.*)*", re.MULTILINE)  # to the next empty line
GAPS = re.compile(r"\n\s*\n")
HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """One file of the standard library."""

    name: str  # as it is imported
    path: Path


def docstrings() -> Corpus:
    """What the modules, classes and functions of the standard library say about themselves.

    A docstring that is there several times, in whichever parts, is taken the first time only.
    """
    seen: set[str] = set()

    def prose(source: str) -> str:
        found = [text for text in docstrings_in(source) if text not in seen]
        seen.update(found)
        return "".join(f"{text}\n\n" for text in dict.fromkeys(found))

    return kept("docstrings", prose)


def stdlib() -> Corpus:
    """The source of the standard library, one module after the other."""
    return kept("stdlib", lambda source: f"{source.rstrip()}\n\n\n" if source.strip() else "")


def docstrings_in(source: str) -> Iterator[str]:
    """The docstrings of a module in the order of its lines, without their indentation."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the library's authors could write better
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return  # a template, or written for another Python
    for node in documented(tree):
        text = prose_of(ast.get_docstring(node) or "")
        # One that speaks of half a surrogate pair may hold one, which no file can.
        if text and not HALF.search(text):
            yield text


def prose_of(text: str) -> str:
    """A docstring without its examples, which are mostly numbers."""
    return GAPS.sub("\n\n", EXAMPLE.sub("", text)).strip()


def documented(tree: ast.Module) -> list[Documented]:
    """What may have a docstring, line by line; `ast.walk` would look into expressions too."""
    found: list[Documented] = []
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, Documented):
            found.append(node)
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            inside = getattr(node, name, None)
            left += inside if isinstance(inside, list) else ()
    return sorted(found, key=lambda node: getattr(node, "lineno", 0))


def part_of(name: str) -> str:
    """The part that a module is in, by the hash of its name."""
    tenth = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10
    return {0: "test", 1: "validation"}.get(tenth, "train")


def modules(folder: Path) -> list[Module]:
    """The modules of a standard library, without its tests and what was installed beside it."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = set(folders) - TESTS - INSTALLED - TABLES  # the others are not looked into
        for file in files:
            path = Path(place, file)
            inside = path.relative_to(folder).with_suffix("").parts
            if path.suffix == ".py" and inside[0] in sys.stdlib_module_names and path.is_file():
                name = inside[:-1] if inside[-1] == "__init__" and len(inside) > 1 else inside
                found.append(Module(".".join(name), path))
    return sorted(found)


def library() -> list[Module]:
    """The standard library of the Python that is running."""
    folder = Path(sysconfig.get_path("stdlib"))
    found = modules(folder)
    if len(found) < FEWEST:
        raise UserError(
            f"this Python has {len(found)} modules of its standard library as source in {folder}, "
            "too few to learn from; give a text file of your own"
        )
    return found


def gathered(found: list[Module], take: Callable[[str], str]) -> dict[str, str]:
    """The text of each part: what is taken from the source of its modules."""
    parts: dict[str, list[str]] = {split: [] for split in SPLITS}
    with progress("reading Python's own library", len(found)) as advance:
        for module in found:
            try:
                with tokenize.open(module.path) as file:
                    source = file.read()
            except (OSError, SyntaxError, UnicodeDecodeError):
                source = ""  # one that cannot be read is no loss
            parts[part_of(module.name)].append(take(source))
            advance(1)
    return {split: "".join(texts) for split, texts in parts.items()}


def kept(name: str, take: Callable[[str], str]) -> Corpus:
    """A corpus from the cache if it is there, else gathered and put there."""
    found = library()
    file = cache_folder() / "texts" / f"{name}-{key(found)}.json"
    parts = read_parts(file)
    if parts is None:
        parts = gathered(found, take)
        write_parts(file, parts)
    version = platform.python_version()
    return Corpus(
        f"{name} (Python {version})",
        train=Text((parts["train"],)),
        validation=Text((parts["validation"],)),
        test=Text((parts["test"],)),
        licence=CORPORA[name].licence,
        source=f"the standard library of Python {version}, in {sysconfig.get_path('stdlib')}",
    )


def key(found: list[Module]) -> str:
    """Changes when a file of the library, or the way of reading it, does."""
    text = hashlib.sha256(f"{RULE} {sys.version}".encode())
    for module in found:
        facts = module.path.stat()
        line = f"\n{module.path}\0{facts.st_size}\0{facts.st_mtime_ns}"
        text.update(line.encode(errors="surrogateescape"))
    return text.hexdigest()[:32]


def read_parts(file: Path) -> dict[str, str] | None:
    """What is kept, or None if it is not there or not whole."""
    try:
        parts = json.loads(file.read_text(encoding="utf-8"))
        return {split: str(parts[split]) for split in SPLITS}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_parts(file: Path, parts: dict[str, str]) -> None:
    """Keep the parts, if there is a place to: they can be gathered again."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        clear_drafts(file.parent)
        write_whole(file, json.dumps(parts).encode())
    except OSError:
        pass
