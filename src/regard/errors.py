"""The one exception that is a person's mistake and not a fault of the program."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Shown as one sentence without a traceback; it names the file, line or flag, and what to do.

    Library code raises `ValueError` with the numbers in it; this one is for whatever a user typed,
    pointed to or left out.
    """


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say after a name that nobody has: the one that was meant, or all there are."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
