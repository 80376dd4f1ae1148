"""How a table breaks its lines: never inside a short figure, nor inside a range in brackets.

Code is left as it is, for it is there to be copied.
"""

import re

FIGURE = 13  # characters that stay on one line, if a digit is among them
CODE = re.compile(r"(`[^`]*`)")
RANGE = re.compile(r"\([^()]{1,26}\)")
SPACE = "\N{NO-BREAK SPACE}"


def typeset(text: str) -> str:
    """A page whose tables are easier to read; their words stay the same."""
    lines = text.split("\n")
    return "\n".join(row(line) if line.startswith("| ") else line for line in lines)


def row(line: str) -> str:
    cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
    return "| " + " | ".join(map(cell, cells)) + " |"


def cell(words: str) -> str:
    return "".join(part if part.startswith("`") else kept(part) for part in CODE.split(words))


def kept(words: str) -> str:
    if len(words) <= FIGURE:
        return unbroken(words)
    return RANGE.sub(lambda found: unbroken(found[0]), words)


def unbroken(words: str) -> str:
    return words.replace(" ", SPACE) if re.search(r"\d", words) else words
