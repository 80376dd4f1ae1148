"""`regard lab`: every claim checked, as a table; or one, with numbers of your own."""

from __future__ import annotations

import inspect
import json as encoder
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.claims import CLAIMS, load_claim
from regard.lab.evidence import Evidence
from regard.progress import progress


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


def lab_for(args: Sequence[str]) -> Callable[..., int]:
    """The command, with the numbers of a claim as flags where exactly one is named."""
    named = [word for word in args if word in CLAIMS]
    own: dict[str, inspect.Parameter] = {}
    if len(named) == 1:
        own = dict(inspect.signature(load_claim(named[0]).measure, eval_str=True).parameters)

    def lab(
        *claims: str,
        json: bool = False,
        plot: Path | None = None,
        train: bool = False,
        device: str = "auto",
        docs: Path | None = None,
        sheet: int | None = None,
        grade: Path | None = None,
        out: Path = Path("."),
        **numbers: Any,
    ) -> int:
        """Check claims.

        Args:
            claims: which of them; all when none is named.
            json: one object, with an entry a claim, for programs.
            plot: a folder for a picture of each claim that has one.
            train: train anew what is otherwise read from records; needs the data.
            device: where that is trained; auto takes a GPU if there is one.
            docs: a folder for theory.md: claim by claim, with pictures.
            sheet: write a worksheet and its key, with numbers drawn by this seed.
            grade: mark the answers in this file.
            out: where a worksheet is written.
        """
        for name in claims:
            load_claim(name)  # says which was meant
        if sheet is not None and grade is not None:
            raise UserError("--sheet writes a worksheet and --grade marks one: one at a time")
        if sheet is not None or grade is not None:
            from regard.lab import marking, worksheet

            if sheet is not None:
                return worksheet.write(sheet, claims or CLAIMS, out)
            assert grade is not None
            return marking.mark(grade)
        return check(claims or CLAIMS, numbers, json, plot, train, device, docs)

    signature = inspect.signature(lab, eval_str=True)
    kept = [each for name, each in signature.parameters.items() if name != "numbers"]
    for name, each in own.items():
        if name in signature.parameters:
            raise ValueError(f"{named[0]} measures with {name}, which is a flag of the lab itself")
        kept.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    vars(lab)["__signature__"] = signature.replace(parameters=kept)
    lab.__annotations__ = {each.name: each.annotation for each in kept} | {"return": int}
    lab.__doc__ = described(lab.__doc__ or "", named, own)
    return lab


def described(words: str, named: Sequence[str], own: dict[str, inspect.Parameter]) -> str:
    """The help of the lab, with the words that a claim has for its numbers."""
    if not own:
        return words
    told = inspect.getdoc(load_claim(named[0]).measure) or ""
    _, _, arguments = told.partition("Args:\n")
    indented = "\n".join(f"        {line}" for line in arguments.splitlines())
    return f"{words.rstrip()}\n{indented}\n"


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
