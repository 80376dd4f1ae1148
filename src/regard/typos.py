"""Which name was meant where one was mistyped: `widht` is `width`.

Much stricter than likeness: `max_length` is like `lengths`, and a wrong answer is worse than the
list of all there is.
"""

from collections.abc import Iterable

from regard.usual_names import plain


def typo_of(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `name` is but for a slip of the fingers; None if there is none."""
    given = plain(name)
    slips = {each: _slips(given, plain(each)) for each in known}
    allowed = 2 if len(given) >= 14 else 1
    near = min(slips, key=lambda each: slips[each], default=None)
    return near if near is not None and len(given) > 2 and slips[near] <= allowed else None


def _slips(one: str, other: str) -> int:
    """Letters to insert, leave out, change or swap with the next until one name is the other."""
    change = 1 if len(one) > 4 else 2  # most names of four letters are one change from another
    before, rows = [0] * (len(other) + 1), list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        before, last, rows = rows, before, [i]
        for j, b in enumerate(other, start=1):
            best = min(before[j] + 1, rows[j - 1] + 1, before[j - 1] + (a != b) * change)
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, last[j - 2] + 1)
            rows.append(best)
    return rows[-1]
