"""Worksheets with numbers of their own, and their keys.

A seed draws the numbers of every question, and of each claim by itself, so that a question is the
same whichever others are on the sheet:

    regard lab --worksheet 7 --out week3     worksheet-7.html, key-7.html, answers-7.json
    regard lab --grade answers-7.json    marks the form once it is filled in

Each claim gives two points: one for what becomes of the published statement, and one for a
question with numbers.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, NamedTuple, get_args
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np

import regard
from regard.errors import UserError
from regard.lab.claim import SOURCES, Claim
from regard.lab.claims import CLAIMS, load_claim
from regard.lab.evidence import Verdict
from regard.lab.question import Question
from regard.lab.typeset import element, typeset
from regard.run_folder import RunFolder
from regard.visualization.document import ICON, PAGE

VERDICTS: dict[str, str] = {
    "holds": "true as it is written",
    "corrected": "not true as it is written, but something near it is",
    "depends": "true where a condition is met, and not where it is not",
    "answered": "not a statement but an open question, and it has an answer",
}
assert tuple(VERDICTS) == get_args(Verdict)
PARTS = ("verdict", "answer")
BESIDE = files("regard.lab")


class Exercise(NamedTuple):
    """A claim and the question that a seed draws from it."""

    claim: Claim
    question: Question


def write(seed: int, names: Sequence[str], out: Path) -> int:
    """Write a worksheet, its key and a blank form into a folder, and say where they are.

    The same seed and claims give the same files, so what is there already is written over.
    """
    if seed < 0:
        raise UserError(f"--worksheet {seed}: a seed is a whole number from 0 on")
    exercises = [each for name in dict.fromkeys(names) if (each := ask(seed, name))]
    if not exercises:
        raise UserError(f"--worksheet {seed}: there is no question yet on {', '.join(names)}")
    texts = {
        f"worksheet-{seed}.html": page(seed, exercises, key=False),
        f"key-{seed}.html": page(seed, exercises, key=True),
        f"answers-{seed}.json": json.dumps(form(seed, exercises), indent=1) + "\n",
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as trouble:
        raise UserError(f"cannot write into {out}: {trouble.strerror}") from None
    folder = RunFolder(out)
    for name, text in texts.items():
        folder.write_text(name, text)
        print(out / name)
    return 0


def ask(seed: int, name: str) -> Exercise | None:
    """The question on a claim, if it has one; its numbers hang on the seed and the claim alone."""
    claim = load_claim(name)
    if claim.ask is None:
        return None
    return Exercise(claim, claim.ask(np.random.default_rng([seed, CLAIMS.index(name)])))


def form(seed: int, exercises: Sequence[Exercise]) -> dict[str, Any]:
    """What a student fills in."""
    names = [claim.id for claim, _ in exercises]
    return {
        "seed": seed,
        "claims": names,
        "answers": {name: dict.fromkeys(PARTS) for name in names},
    }


# Answers, as they are written


def shown(question: Question) -> str:
    """What is right, formulas between dollars: for a key."""
    if isinstance(question.answer, str):
        return question.answer
    if isinstance(question.answer, tuple):
        return ", ".join(digits(float(each), question) for each in question.answer)
    return digits(float(question.answer), question)


def digits(value: float, question: Question) -> str:
    """A number with four digits, or as many more as it takes to be a right answer."""
    if value.is_integer() and abs(value) < 1e15:
        return f"${int(value)}$"
    texts = (f"{value:.{count}g}" for count in range(4, 18))
    return f"${next(text for text in texts if question.near(float(text), value))}$"


def rule(question: Question) -> str:
    """How near an answer has to be, and in which order if it is several numbers."""
    if isinstance(question.answer, str):
        return "one of these" if question.choices else "a word"
    near = f"within {100 * question.tolerance:g}\u00a0%" if question.tolerance else "exact"
    if isinstance(question.answer, tuple):
        return f"in order, each {near}"
    return near


# Pages


def page(seed: int, exercises: Sequence[Exercise], key: bool) -> str:
    """A worksheet, or its key, as HTML that needs nothing else, scripts included."""
    style = "\n".join(
        each.read_text(encoding="utf-8") for each in (PAGE / "page.css", BESIDE / "worksheet.css")
    )
    # The style by its digest and the icon are all that the page may use.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    title = f"Key to worksheet {seed}" if key else f"Worksheet {seed}"
    questions = (section(count, each, key) for count, each in enumerate(exercises, start=1))
    body = element(
        "body",
        heading(seed, title, exercises, key),
        element("main", *questions),
        element("footer", f"regard {regard.__version__} · regard lab --worksheet {seed}"),
        class_="sheet solutions" if key else "sheet",
    )
    shell = Template((BESIDE / "worksheet.html").read_text(encoding="utf-8"))
    return shell.substitute(
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:",
        title=html.escape(title),
        icon=ICON,
        style=style,
        body=ElementTree.tostring(body, encoding="unicode", method="html"),
    )


def heading(seed: int, title: str, exercises: Sequence[Exercise], key: bool) -> Element:
    """What the sheet is, whose it is, and how it is answered."""
    number = len(exercises)
    count = f"{number} {'claim' if number == 1 else 'claims'}, {2 * number} points"
    header = element(
        "header",
        element("h1", title),
        element(
            "p", f"Statements on attention as they were published: {count}.", class_="subtitle"
        ),
    )
    if key:
        return header
    header.append(element("p", element("span", "Name"), element("span", "Date"), class_="person"))
    meanings = [
        each
        for word, meaning in VERDICTS.items()
        for each in (element("dt", word), element("dd", meaning))
    ]
    header.append(
        element(
            "div",
            element("p", "Say what becomes of each statement, then answer the question on it."),
            element("dl", *meanings, class_="meanings"),
            element(
                "p",
                f"To have it marked, fill in answers-{seed}.json: a verdict and an answer to each, "
                "in quotation marks if it is a word, and several numbers as a list, [1, 2.5].",
            ),
            class_="how",
        )
    )
    return header


def section(count: int, exercise: Exercise, key: bool) -> Element:
    """One claim: its statement, the verdict on it, and its question."""
    claim, question = exercise
    verdict = [element("p", "What becomes of this statement?")]
    verdict.append(boxes(tuple(VERDICTS), claim.verdict if key else None, "boxes four"))
    asks = [element("p", *typeset(question.text))]
    if question.choices:
        asks.append(boxes(question.choices, str(question.answer) if key else None, "boxes"))
    if key:
        verdict.append(element("p", *typeset(claim.truth), class_="because"))
        if not question.choices:
            near = element("span", rule(question), class_="nearness")
            asks.append(element("p", "Answer ", *typeset(shown(question)), near, class_="solved"))
        if question.why:
            asks.append(element("p", *typeset(question.why), class_="because"))
    elif question.choices:
        asks.append(element("p", rule(question), class_="nearness"))
    else:
        several = len(question.answer) if isinstance(question.answer, tuple) else 1
        blanks = [element("i") for _ in range(several)]
        near = element("span", rule(question), class_="nearness")
        asks.append(element("div", class_="room"))
        asks.append(element("p", "Answer", *blanks, near, class_="blanks"))
    return element(
        "section",
        element("h2", element("span", str(count)), claim.id),
        element("p", f"{claim.source} · {documents(claim.source)}", class_="origin"),
        element("blockquote", *typeset(claim.statement), class_="statement"),
        *(
            element("div", element("b", name), element("div", *inside), class_="part")
            for name, inside in (("a", verdict), ("b", asks))
        ),
        class_="question",
        id=claim.id,
    )


def documents(source: str) -> str:
    """The titles of all documents that a source names by letter."""
    letters = dict.fromkeys(re.findall(r"\b[A-Z]\b", source))
    return "; ".join(SOURCES[letter] for letter in letters if letter in SOURCES)


def boxes(words: Sequence[str], right: str | None, kind: str) -> Element:
    """Things to choose from, each with a box to tick; the right one is ticked in a key."""
    return element(
        "ul",
        *(
            element(
                "li", element("span", *typeset(each)), **({"class_": "right"} if ticked else {})
            )
            for each in words
            for ticked in [right is not None and each.lower() == right.lower()]
        ),
        class_=kind,
    )
