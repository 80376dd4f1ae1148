"""What the lab found, for a terminal: a table of many claims, or all there is of one."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from regard.lab.claim import SOURCES
from regard.lab.evidence import DISPUTED

if TYPE_CHECKING:
    from regard.lab.command import Checked

STYLES = {"holds": "green", "corrected": "yellow", "depends": "cyan", "answered": "blue"}
OTHERWISE = "with your numbers: neither way; what the statement is about is not the case there"
GROUPS = {
    "written": "as written",
    "corrected": "corrected",
    "inside": "where its condition is met",
    "outside": "where it is not",
    "answer": "the answer",
    "controls": "controls, which must fail",
}


def tell(found: Sequence[Checked]) -> None:
    """Print it."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    if len(found) == 1:
        whole(console, found[0])
        return
    table = Table(title="The theory, checked")
    for head in ("claim", "verdict", "the deciding figure", "s"):
        table.add_column(head, justify="right" if head == "s" else "left")
    for each in found:
        stated = each.claim.verdict
        verdict = f"[{STYLES[stated]}]{stated}[/]"
        if not each.agrees:
            verdict = f"[red]{each.evidence.verdict()}, and should be: {stated}[/]"
        table.add_row(each.claim.id, verdict, each.evidence.deciding, f"{each.seconds:.1f}")
    console.print(table)
    wrong = [each.claim.id for each in found if not each.agrees]
    total = sum(each.seconds for each in found)
    counts = ", ".join(
        f"{sum(each.claim.verdict == name for each in found)} {name}" for name in STYLES
    )
    console.print(f"{len(found)} claims in {total:.0f} s: {counts}")
    if wrong:
        console.print(f"[red]not as stated: {', '.join(wrong)}[/]")


def whole(console: Console, each: Checked) -> None:
    """All there is of one claim."""
    claim, evidence = each.claim, each.evidence
    letter = claim.source.split()[0]
    console.print(f"[bold]{claim.id}[/]  {claim.source}, {SOURCES[letter]}", highlight=False)
    console.print(f"as published: {plain(claim.statement)}", highlight=False, markup=False)
    for words, checks in evidence.groups():
        console.print(f"\n{GROUPS[words]}", style="bold")
        for check in checks:
            mark = "✓" if check.ok else "✗"
            console.print(f"  {mark} {check}", highlight=False, markup=False)
    verdict = evidence.verdict()
    if each.own:
        sentence = f"with your numbers: {verdict}" if verdict != DISPUTED else OTHERWISE
    else:
        sentence = f"verdict: {verdict}" + (
            "" if each.agrees else f", and should be {claim.verdict}"
        )
    console.print(f"\n{sentence}", highlight=False)
    console.print(plain(claim.truth), highlight=False, markup=False)
    for note in evidence.notes:
        console.print(note, style="dim", highlight=False, markup=False)


def plain(words: str) -> str:
    """Formulas as one can type them: without dollars, braces and names of commands."""
    words = re.sub(r"\\, *", " ", words.replace("$", "").replace("\\ ", " "))
    for tex, letter in LETTERS.items():
        words = re.sub(re.escape(tex) + r"(?![a-zA-Z])", letter, words)
    words = re.sub(r"\\(?:mathrm|mathbf|text|operatorname)\{([^}]*)\}", r"\1", words)
    words = re.sub(r"([\^_])\{([^{}]*[^{}\w][^{}]*)\}", r"\1(\2)", words)
    words = re.sub(r"\\sqrt\{([^}]*)\}", r"√(\1)", words)
    words = re.sub(r"\\frac\{([^}]*)\}\{([^}]*)\}", r"\1 / \2", words)
    return words.replace("{", "").replace("}", "").replace("\\", "")


LETTERS = {
    "\\beta": "β",
    "\\alpha": "α",
    "\\epsilon": "ε",
    "\\varepsilon": "ε",
    "\\sigma": "σ",
    "\\delta": "δ",
    "\\Delta": "Δ",
    "\\varphi": "φ",
    "\\phi": "φ",
    "\\theta": "θ",
    "\\partial": "∂",
    "\\sum": "Σ",
    "\\max": "max",
    "\\exp": "exp",
    "\\cdot": "·",
    "\\times": "×",
    "\\to": "→",
    "\\infty": "∞",
    "\\ne": "≠",
    "\\neq": "≠",
    "\\le": "≤",
    "\\ge": "≥",
    "\\approx": "≈",
    "\\in": "∈",
    "\\top": "T",
    "\\lVert": "‖",
    "\\rVert": "‖",
    "\\mathbb{R}": "ℝ",
    "\\ldots": "…",
    "\\perp": "⊥",
    "\\tfrac12": "½",
    "\\tfrac": "",
    "\\left": "",
    "\\right": "",
}
