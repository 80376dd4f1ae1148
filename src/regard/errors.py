"""The one exception that is a person's mistake and not a fault of the program."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Shown as one sentence without a traceback; it names the file, line or flag, and what to do.

    Library code raises `ValueError` with the numbers in it; this one is for whatever a user typed,
    pointed to or left out.
    """

    def __str__(self) -> str:
        """The sentence, with half surrogate pairs and the like spelt so that it can be printed."""
        return super().__str__().encode(errors="backslashreplace").decode()


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say after a name that nobody has: the one that was meant, or all there are."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"


def nearest_widths(width: int, heads: int) -> str:
    """Which widths split into so many heads, near one that does not."""
    low = width // heads * heads
    if low == 0:
        return f"the smallest width that does is {heads}"
    return f"nearest widths are {low} and {low + heads}"
