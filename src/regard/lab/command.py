"""`regard lab`: every claim checked, as a table; or one, with numbers of your own."""

from __future__ import annotations

import inspect
import json as encoder
import math
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.cli.parse import POSITIONAL, Group, parse
from regard.errors import UserError
from regard.fields import Leaf
from regard.lab.claim import Claim
from regard.lab.claims import CLAIMS, load_claim
from regard.lab.evidence import Evidence
from regard.progress import progress

if TYPE_CHECKING:
    from regard.cli import Command


class Checked(NamedTuple):
    """A claim, what was found, and how long that took."""

    claim: Claim
    evidence: Evidence
    seconds: float
    own: bool = False  # whether with numbers of the user's, of which nothing is said beforehand

    @property
    def agrees(self) -> bool:
        return self.own or self.evidence.verdict() == self.claim.verdict

    def to_values(self) -> dict[str, Any]:
        claim = self.claim
        return {
            "source": claim.source,
            "statement": claim.statement,
            "verdict": claim.verdict,
            "truth": claim.truth,
            "agrees": self.agrees,
            "seconds": round(self.seconds, 3),
            **self.evidence.to_values(),
        }


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `regard lab`."""

    claims: tuple[str, ...] = field(default=(), metadata=POSITIONAL)
    """Which of them; all when none is named."""
    json: bool = False
    """One object, with an entry a claim, for programs."""
    plot: Path | None = None
    """A folder for a picture of each claim that has one."""
    train: bool = False
    """Train anew what is otherwise read from records; needs the data."""
    device: str = "auto"
    """Where that is trained; auto takes a GPU if there is one."""
    docs: Path | None = None
    """A folder for theory.md: claim by claim, with pictures."""
    worksheet: int | None = None
    """Write a worksheet and its key, with numbers drawn by this seed."""
    grade: Path | None = None
    """Mark the answers in this file."""
    out: Path = Path(".")
    """Where a worksheet is written."""


def read(command: Command, args: Sequence[str]) -> Callable[[], int]:
    """The check to be made; where one claim is named, its numbers are flags too."""
    named = [word for word in args if word in CLAIMS]
    more = [Group(f"numbers of {named[0]}", numbers_of(named[0]))] if len(named) == 1 else []
    options, numbers = parse(command, Options, args, more=more)
    return partial(lab, options, numbers)


def numbers_of(name: str) -> tuple[Leaf, ...]:
    """What a claim is measured with, as flags: the arguments of its `measure`."""
    measure = load_claim(name).measure
    words = words_on(measure)
    return tuple(
        Leaf(each.name, each.annotation, each.default, words.get(each.name, ""))
        for each in inspect.signature(measure, eval_str=True).parameters.values()
    )


def words_on(function: Callable[..., Any]) -> dict[str, str]:
    """What the words below a signature say of each argument."""
    _, _, words = (inspect.getdoc(function) or "").partition("Args:\n")
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", words, re.MULTILINE)
    return {name: text[:1].upper() + " ".join(text[1:].split()) for name, text in found}


def lab(options: Options, numbers: dict[str, Any]) -> int:
    """Check claims, or write or mark a worksheet on them."""
    for name in options.claims:
        load_claim(name)  # says which was meant
    if options.worksheet is not None and options.grade is not None:
        raise UserError("--worksheet writes a worksheet and --grade marks one: one at a time")
    claims = options.claims or tuple(CLAIMS)
    if options.worksheet is not None or options.grade is not None:
        from regard.lab import marking, worksheet

        if options.worksheet is not None:
            return worksheet.write(options.worksheet, claims, options.out)
        assert options.grade is not None
        return marking.mark(options.grade)
    return check(
        claims, numbers, options.json, options.plot, options.train, options.device, options.docs
    )


def check(
    names: Sequence[str],
    numbers: dict[str, Any],
    json: bool,
    plot: Path | None,
    train: bool,
    device: str,
    docs: Path | None,
) -> int:
    """Check some claims and tell what was found; 1 if any is not what it is said to be."""
    for folder in (plot, docs):
        if folder is not None:
            made(folder)
    if train:
        trained(names, device)
    found = []
    with progress("checking", len(names)) as advance:
        for name in names:
            found.append(checked(load_claim(name), numbers))
            advance(1)
    if plot is not None:
        for each in found:
            if each.claim.plot is not None:
                save(each, plot / f"{each.claim.id}.png")
    if docs is not None:
        from regard.lab.theory import write

        write(found, docs)
    if json:
        values = {each.claim.id: without_nan(each.to_values()) for each in found}
        print(encoder.dumps(values, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        from regard.lab.report import tell

        tell(found)
    return int(not all(each.agrees for each in found))


def checked(claim: Claim, numbers: dict[str, Any] | None = None) -> Checked:
    """Measure a claim."""
    import torch  # which the help of the command does not need

    ours = inspect.signature(claim.measure).parameters
    own = any(value != ours[name].default for name, value in (numbers or {}).items())
    began = time.perf_counter()
    try:
        with torch.random.fork_rng(devices=[]):  # a look at the theory changes nobody's numbers
            evidence = claim.measure(**(numbers or {}))
    except Exception as trouble:  # torch has many ways to say that sizes do not fit
        if not own or isinstance(trouble, UserError):
            raise
        given = ", ".join(f"{name}={value}" for name, value in (numbers or {}).items())
        raise UserError(f"{claim.id} cannot be measured with {given}: {trouble}") from None
    return Checked(claim, evidence, time.perf_counter() - began, own)


def trained(names: Sequence[str], device: str) -> None:
    """Make the records of the claims that have one, anew."""
    from regard.lab.records import record

    claims = [claim for claim in map(load_claim, names) if claim.train is not None]
    if not claims:
        raise UserError(f"--train: nothing is trained for {', '.join(names)}")
    for claim in claims:
        assert claim.train is not None
        print(f"training for {claim.id}", file=sys.stderr)
        path = record(claim.id, claim.train(device))
        print(f"wrote {path}", file=sys.stderr)


def without_nan(value: Any) -> Any:
    """The same values, with words in place of what JSON has no number for."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(each) for each in value]
    return value


def save(found: Checked, path: Path) -> None:
    """Draw what a claim found."""
    assert found.claim.plot is not None
    found.claim.plot(found.evidence).savefig(path, dpi=160)


def made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UserError(f"{folder} is a file, and a folder is needed") from None
    except OSError as trouble:
        raise UserError(f"{folder}: {trouble.strerror}") from None
