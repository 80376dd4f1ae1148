"""What a measurement shows: figures, each with the bound it is held against, and a verdict.

A verdict is worked out from the figures, never stated with them. It takes four shapes:

- `holds`: the statement passes as it is written;
- `corrected`: it fails as written, and its correction passes;
- `depends`: it passes inside a condition and fails outside of it;
- `answered`: the document leaves it open, and the answer passes.

Anything else is `disputed`: a figure is not what it must be, or a negative control, in which what
the statement needs was broken on purpose, passes all the same, so that the check proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, SupportsFloat

Verdict = Literal["holds", "corrected", "depends", "answered"]
DISPUTED = "disputed"
SIGNS = {"at most": "≤", "at least": "≥", "equal": "="}


class Check(NamedTuple):
    """One figure and its bound."""

    words: str  # what the figure is
    value: float
    relation: Literal["at most", "at least", "equal"]
    bound: float

    @property
    def ok(self) -> bool:
        """Whether the figure is within its bound; one that is no number never is."""
        if math.isnan(self.value):
            return False
        match self.relation:
            case "at most":
                return self.value <= self.bound
            case "at least":
                return self.value >= self.bound
            case "equal":
                return self.value == self.bound

    def __str__(self) -> str:
        sign = SIGNS[self.relation] if self.ok else f"not {SIGNS[self.relation]}"
        return f"{self.words}: {shown(self.value)} {sign} {shown(self.bound)}"


def at_most(words: str, value: SupportsFloat, bound: SupportsFloat) -> Check:
    """A figure that must not be above a bound: an error, say."""
    return Check(words, float(value), "at most", float(bound))


def at_least(words: str, value: SupportsFloat, bound: SupportsFloat) -> Check:
    """A figure that must not be below a bound: a difference that must be seen."""
    return Check(words, float(value), "at least", float(bound))


def equal(words: str, value: SupportsFloat, expected: SupportsFloat) -> Check:
    """A figure that must be exactly so: a count."""
    return Check(words, float(value), "equal", float(expected))


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that one measurement found."""

    deciding: str  # the figure that decides, in a few words: for the table
    controls: tuple[Check, ...]  # the same checks with their ground taken away: all must fail
    written: tuple[Check, ...] = ()  # of the statement as it is written
    corrected: tuple[Check, ...] = ()  # of its correction
    inside: tuple[Check, ...] = ()  # of the statement, where its condition is met
    outside: tuple[Check, ...] = ()  # of the statement, where it is not: these fail
    answer: tuple[Check, ...] = ()  # of our answer, where a document leaves it open
    series: Mapping[str, Any] = field(default_factory=dict)  # numbers behind it, for a picture
    notes: tuple[str, ...] = ()  # where recorded figures come from, and what they are not

    def verdict(self) -> str:
        """What these figures come to."""
        figures = [check.value for _, checks in self.groups() for check in checks]
        if any(map(math.isnan, figures)):  # no number passes nothing, and so it fails nothing
            return DISPUTED
        if not self.controls or any(control.ok for control in self.controls):
            return DISPUTED
        if self.answer:
            return "answered" if all_pass(self.answer) else DISPUTED
        if self.inside and self.outside:
            apart = all_pass(self.inside) and not any(check.ok for check in self.outside)
            return "depends" if apart else DISPUTED
        if self.written and all_pass(self.written):
            # A correction of what passes as written would have nothing to correct.
            return "holds" if not self.corrected else DISPUTED
        if self.written and self.corrected and all_pass(self.corrected):
            return "corrected"
        return DISPUTED

    def groups(self) -> Iterator[tuple[str, tuple[Check, ...]]]:
        """The figures by what they are of, in the order in which one would tell them."""
        for words in ("written", "corrected", "inside", "outside", "answer", "controls"):
            if found := getattr(self, words):
                yield words, found

    def to_values(self) -> dict[str, Any]:
        """All of it as values for JSON."""
        return {
            "found": self.verdict(),
            "deciding": self.deciding,
            "checks": {
                words: [{**check._asdict(), "ok": check.ok} for check in found]
                for words, found in self.groups()
            },
            "series": dict(self.series),
            "notes": list(self.notes),
        }


def all_pass(checks: tuple[Check, ...]) -> bool:
    return all(check.ok for check in checks)


def shown(value: float) -> str:
    """A number as people write it: whole ones whole, others with four digits."""
    if math.isfinite(value) and value == round(value) and abs(value) < 1e15:
        return f"{round(value):,}"
    return f"{value:.4g}"
