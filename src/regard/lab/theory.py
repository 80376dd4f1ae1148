"""The lab as a page: claim by claim, what is published, what was found, and a picture of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from regard.lab.claim import SOURCES, Claim
from regard.lab.command import save
from regard.lab.evidence import SIGNS, Check, shown

if TYPE_CHECKING:
    from regard.lab.command import Checked

COMMAND = "regard lab --docs docs"
COLOURS = 64  # of a picture: few lines and shades, so that more would only make it larger
OF = {
    "written": "as written",
    "corrected": "corrected",
    "inside": "inside",
    "outside": "outside",
    "answer": "answer",
    "controls": "control",
}
COUNTED = {"holds": "hold", "corrected": "corrected", "depends": "depend", "answered": "answered"}
OPENING = f"""\
# The theory, checked

Statements about attention from five course documents, each turned into figures that can fail.
This page is written by `{COMMAND}`, which measures everything anew, but for trainings:
their figures are read from records, and a note says where they come from.

A verdict follows from the figures. A statement *holds* if it passes as written. It is *corrected*
if it fails as written and its correction passes. It *depends* if it passes inside a condition and
fails outside of it. Where a document leaves a question open, it is *answered*. A *control* is the
same check with its ground taken away: every control must fail, and so must what is checked outside
of a condition.
"""
ABOUT = {  # what each document asks for
    "A": "self-attention by hand with all its shapes, beside convolutions, and a classifier "
    "trained for 10, 30 and 50 epochs",
    "B": "questions on β, heads, positions, attention as other layers, the Transformer and the ViT",
    "C": "a small ViT in code, with its maps, residuals and accuracy",
    "D": "a captioner in code, with the formulas of scaling, positions and heads",
    "E": "problems that count, prove and differentiate, and ask what could be cheaper",
}


def write(found: Sequence[Checked], folder: Path) -> None:
    """Write theory.md to a folder, and its pictures to a folder beside it."""
    pictures = folder / "theory"
    pictures.mkdir(parents=True, exist_ok=True)
    for each in found:
        if each.claim.plot is not None:
            path = pictures / f"{each.claim.id}.png"
            save(each, path)
            shrink(path)
    page = "\n".join(line for part in parts(found) for line in (*part, ""))
    (folder / "theory.md").write_text(page.rstrip("\n") + "\n", encoding="utf-8", newline="\n")


def parts(found: Sequence[Checked]) -> Iterator[list[str]]:
    """The page in blocks, each of which is followed by an empty line."""
    yield OPENING.splitlines()
    yield [counts(found)]
    yield sources(found)
    yield summary(found)
    for letter, document in SOURCES.items():
        of_document = [each for each in found if each.claim.source.startswith(letter)]
        if of_document:
            yield [f"## {letter}: {document}"]
        for each in of_document:
            yield from section(each)


def counts(found: Sequence[Checked]) -> str:
    """How many of each verdict, and which are not what they should be."""
    number = {name: sum(each.claim.verdict == name for each in found) for name in COUNTED}
    tally = ", ".join(f"{number[name]} {words}" for name, words in COUNTED.items() if number[name])
    wrong = [link(each.claim) for each in found if not each.agrees]
    exceptions = f" Not as stated: {', '.join(wrong)}." if wrong else ""
    return f"{len(found)} {'statement' if len(found) == 1 else 'statements'}: {tally}.{exceptions}"


def sources(found: Sequence[Checked]) -> list[str]:
    """What the letters of the next table stand for."""
    named = " ".join(each.claim.source for each in found)
    letters = [letter for letter in SOURCES if re.search(rf"\b{letter}\b", named)]
    return [
        "*Where* is a letter for the document, and the number of the question in it if it has one:",
        "",
        *(f"- **{letter}**, {SOURCES[letter]}: {ABOUT[letter]}." for letter in letters),
    ]


def summary(found: Sequence[Checked]) -> list[str]:
    """A line a claim, with a link to its section."""
    return [
        "| claim | where | verdict | the deciding figure |",
        "| --- | --- | --- | --- |",
        *(
            f"| {link(each.claim)} | {each.claim.source} | {verdict(each)} | "
            f"{cell(each.evidence.deciding)} |"
            for each in found
        ),
    ]


def section(each: Checked) -> Iterator[list[str]]:
    """All there is of one claim."""
    claim, evidence = each.claim, each.evidence
    yield [f"### {claim.id}"]
    yield [f"{claim.source}: **{verdict(each)}**"]
    yield [f"> {text(claim.statement)}"]
    yield [text(claim.truth)]
    if claim.plot is not None:
        yield [f"![What {claim.id} found](theory/{claim.id}.png)"]
    yield [
        "| of | figure | value | bound | passes |",
        "| --- | --- | ---: | ---: | :---: |",
        *(row(OF[words], check) for words, checks in evidence.groups() for check in checks),
    ]
    if evidence.notes:
        yield [f"- {text(note)}" for note in evidence.notes]
    yield [f"`{command(claim)}`"]


def row(of: str, check: Check) -> str:
    bound = f"{SIGNS[check.relation]} {shown(check.bound)}"
    return (
        f"| {of} | {cell(check.words)} | {shown(check.value)} | {bound} | "
        f"{'yes' if check.ok else 'no'} |"
    )


def verdict(each: Checked) -> str:
    stated = each.claim.verdict
    return stated if each.agrees else f"{each.evidence.verdict()}, and should be: {stated}"


def link(claim: Claim) -> str:
    return f"[{claim.id}](#{claim.id})"


def command(claim: Claim) -> str:
    """What to type to see this claim alone, with every number that may be another."""
    words = ["regard", "lab", claim.id]
    for name, each in inspect.signature(claim.measure).parameters.items():
        values = each.default if isinstance(each.default, tuple) else (each.default,)
        words += [f"--{name.replace('_', '-')}", *map(typed, values)]
    return " ".join(words)


def typed(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# Letters that Markdown would take for its own


def text(words: str) -> str:
    """Prose in which formulas stay as they are, and nothing else is taken for markup."""
    pieces = re.split(r"(\$[^$]*\$)", words)
    return "".join(piece if at % 2 else escaped(piece) for at, piece in enumerate(pieces))


def cell(words: str) -> str:
    """The same within a table, where a bar would end the cell."""
    return text(words).replace("|", "\\|")


def escaped(words: str) -> str:
    return re.sub(r"([\\`*_\[\]])", r"\\\1", words).replace("<", "&lt;")


def shrink(path: Path) -> None:
    """Keep a picture in few colours, which takes a third of the bytes and looks the same."""
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
