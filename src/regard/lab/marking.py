"""Marks for a worksheet that was filled in: `regard lab --grade answers-7.json`."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.errors import UserError, nearest
from regard.lab.claim import Claim
from regard.lab.claims import CLAIMS
from regard.lab.question import Question
from regard.lab.report import plain
from regard.lab.worksheet import PARTS, VERDICTS, ask, shown


class Mark(NamedTuple):
    """What one part of an answer is worth, and what there is to say of it."""

    right: bool
    words: str


def mark(answers: Path) -> int:
    """Mark a filled form: a table, and the points in all."""
    seed, names, given = read_form(answers)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    table = Table(title=f"Worksheet {seed}")
    for head in ("claim", "verdict", "answer", "points", "expected"):
        table.add_column(head, justify="right" if head == "points" else "left")
    total = 0
    for name in names:
        exercise = ask(seed, name)
        if exercise is None:
            raise UserError(f"{answers}: there is no question on {name}")
        claim, question = exercise
        entry = given.get(name) or {}
        marks = (
            mark_verdict(entry.get("verdict"), claim),
            mark_answer(entry.get("answer"), question),
        )
        points = sum(each.right for each in marks)
        total += points
        wanted = (claim.verdict, plain(shown(question)))
        missed = [want for want, each in zip(wanted, marks, strict=True) if not each.right]
        # As text, since a form may hold what the table would read as its own markup.
        cells = [Text(each.words, style="green" if each.right else "red") for each in marks]
        table.add_row(name, *cells, f"{points} of 2", Text("; ".join(missed)))
    console.print(table)
    console.print(f"{total} of {2 * len(names)} points")
    return 0


def mark_verdict(given: object, claim: Claim) -> Mark:
    """Whether the statement was judged as the lab does."""
    if unanswered(given):
        return Mark(False, "not answered")
    word = given.strip().lower() if isinstance(given, str) else None
    if word not in VERDICTS:
        return Mark(False, f"wrong: {typed(given)} is none of the four")
    return Mark(True, "right") if word == claim.verdict else Mark(False, "wrong")


def mark_answer(given: object, question: Question) -> Mark:
    """Whether a question was answered rightly; an answer of another kind is wrong, and said so."""
    if unanswered(given):
        return Mark(False, "not answered")
    if isinstance(question.answer, str):
        if not isinstance(given, str):
            return Mark(False, f"wrong: {typed(given)} is not a word")
        return Mark(True, "right") if question.right(given) else Mark(False, "wrong")
    if isinstance(question.answer, tuple):
        wanted = len(question.answer)
        if not isinstance(given, list):
            return Mark(False, f"wrong: {typed(given)} is not a list of {wanted} numbers")
        if len(given) != wanted:
            return Mark(False, f"wrong: a list of {len(given)}, not of {wanted} numbers")
    several = given if isinstance(given, list) and isinstance(question.answer, tuple) else [given]
    numbers = []
    for each in several:
        if (value := number(each)) is None:
            return Mark(False, f"wrong: {typed(each)} is not a number")
        numbers.append(value)
    right = question.right(numbers if isinstance(question.answer, tuple) else numbers[0])
    return Mark(True, "right") if right else Mark(False, "wrong")


def unanswered(given: object) -> bool:
    return given is None or (isinstance(given, str) and not given.strip())


def number(given: object) -> float | None:
    """A number as JSON has it or as text, with a typesetter's minus too; NaN is none."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        value = float(given.replace("−", "-") if isinstance(given, str) else given)
    except (ValueError, OverflowError):  # a whole number of JSON may be too large for a float
        return None
    return None if math.isnan(value) else value


def typed(given: object) -> str:
    """What a form holds, cut where it is long; nothing in it can move a terminal's cursor."""
    words = repr(given) if isinstance(given, str) else json.dumps(given)
    return words if len(words) <= 24 else f"{words[:23]}…"


def read_form(path: Path) -> tuple[int, list[str], dict[str, Any]]:
    """The seed, the claims and the answers of a form."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file") from None
    except OSError as trouble:
        raise UserError(f"{path}: {trouble.strerror}") from None
    except (ValueError, RecursionError) as trouble:
        raise UserError(f"{path} is not JSON: {trouble}") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} is not a form: --worksheet writes one that can be filled in")
    seed, names, given = found.get("seed"), found.get("claims"), found.get("answers", {})
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise UserError(f"{path} has no seed: a whole number from 0 on, as on the worksheet")
    if not isinstance(names, list) or not names:
        raise UserError(f"{path} has no claims: a list of those on the worksheet")
    if not isinstance(given, dict):
        raise UserError(f"{path}: its answers are {typed(given)}, not an entry for each claim")
    for name in (*names, *given):
        if name not in CLAIMS:
            raise UserError(f"{path}: there is no claim {name!r}; {nearest(str(name), CLAIMS)}")
    for name, entry in given.items():
        if name not in names:
            raise UserError(f"{path} answers {name}, which is not among its claims")
        if entry is not None and not isinstance(entry, dict):
            wanted = json.dumps(dict.fromkeys(PARTS))
            raise UserError(f"{path}: {name} has {typed(entry)} where {wanted} goes")
        for part in entry or ():
            if part not in PARTS:
                raise UserError(f"{path}: {name} has {part!r}; {nearest(part, PARTS)}")
    return seed, list(dict.fromkeys(names)), given
