"""The table of a benchmark: what each contender does in a second, beside what ours does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def rate_table(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    about: Sequence[str],
    unit: str,
    rates: str,
    ours: str,
    more: Mapping[str, str] | None = None,
) -> Table:
    """A section for each row, with a line for each contender.

    A line begins with the fields of its row that are named in `about`. Then come the contender,
    its rate, which the row has by name under `rates`, its quartiles, and how many times as long as
    `ours` it takes. `more` has further columns, and the field of a row with what each of them says
    of every contender.
    """
    from rich.table import Table

    more = more or {}
    table = Table(title=title)
    for column in (*about, "who", unit, "quartiles", "× time", *more):
        table.add_column(column, justify="left" if column in ("model", "who") else "right")
    for row in rows:
        for who, rate in row[rates].items():
            low, high = row["quartiles"][who]
            table.add_row(
                *(str(row[name]) for name in about),
                who,
                figure(rate),
                f"{figure(low)} … {figure(high)}",
                f"{row[rates][ours] / rate:.2f}",
                *(str(row[field][who]) for field in more.values()),
            )
        table.add_section()
    return table


def figure(rate: float) -> str:
    """A rate with three digits that mean something."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:#.3g}"
