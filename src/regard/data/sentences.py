"""Running text as documents, and documents as sentences, by rules that need no other library.

    split('He met Dr. Hall at 5 p.m. and asked: "Why?" She left.')      # two sentences
    for document in documents(corpus.train): ...                        # lists of sentences

A blank line ends a paragraph, and with it a sentence; a heading is no sentence, and one of the
highest level (`# Title`, `= Title =`, `Chapter 1`, or underlined by ===) begins another document.
Text whose words and signs are separated by spaces, as in WikiText, is read as well, and so is text
in which a sentence ends by 。！？ or । and the next begins without a space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

BRACKET = 200  # characters within which an open bracket has to close for us to believe it


def listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words before a dot that does not end a sentence,
NEVER = listed(
    """v mr mrs ms messrs mme mlle dr prof rev fr hon st ste mt ft gen col maj capt cpt cmdr lt
    sgt cpl pvt adm gov sen rep pres supt vs e.g i.e cf viz approx ca esp incl resp var ssp
    subsp"""
)
# nor before a number,
BEFORE_NUMBER = listed(
    """no nos nr op p pp vol vols fig figs ch sec art eq c jan feb mar apr jun jul aug sep sept
    oct nov dec"""
)
# nor, if the next word is not one of those that so often begin one.
DOUBTFUL = listed("etc inc ltd co corp bros jr sr al ed eds dept est min max ave blvd")
OFTEN_FIRST = listed(
    """a after all also although an and another as at because before both but by despite during
    each every for from further he her here his how however i if in instead it its later many
    meanwhile more most no nobody not of on once one other our several she since so some such
    than that the their then there these they this those though through to two under unlike
    until upon we what when where whether which while who why with within without yet you"""
)

STOP = re.compile(r"""([.!?…]+)["'”’»)\]}*`]*(?= )|[。！？।]+["'”’»)\]}」』）】]*""")
QUOTES = ("「」", "『』", "（）")  # inside these, a stop without a space ends nothing
CLOSING = re.compile(r""" ["'”’»)\]}](?= |$)""")
STRAIGHT = {' "': '"', " '": " ' "}  # an apostrophe inside a word is no quote
NEXT = re.compile(r""" (?:["'“‘«(\[{<*`_~$£€#] ?)*(\w\S*)""")
LETTERS = re.compile(r"[^\W\d_]|(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")  # x, U.S, a.m, Ph.D
NUMBERED = re.compile(r"[(\[]?(?:\d{1,2}|[A-Za-z])[)\]]?")
CODE = re.compile(r"\w*[_(.]\w")  # a name that begins a sentence without a capital
UNKNOWN = "unk>"  # WikiText's word for rare ones, which may be names

HEADING = re.compile(
    r"""\s*(?:
        (?P<equals>=+(?:\ =)*)\ \S(?:.*\S)?\ (?P=equals)     # = Title =, = = Section = =
        | (?P<hashes>\#{1,6})\ .*                             # # Title, ## Section
        | (?i:chapter|book|part|act)\ (?:\d+|[IVXLC]+)\.?     # Chapter 38
    )\s*""",
    re.VERBOSE,
)
RULE = re.compile(r"[-=~*_+^#|][-=~*_+^#|\s]+[-=~*_+^#|]")
UNDERLINES = {"=": 1, "-": 2}  # the levels of headings above them
ITEM = re.compile(r"\s*(?:[-*•]|\(?\d{1,2}[.)])\s+\S")


def documents(text: Iterable[str]) -> Iterator[list[str]]:
    """The sentences of one document after the other, from blocks that may end anywhere.

    A text without headings is one document.
    """
    found: list[str] = []
    for level, paragraph in paragraphs(text):
        if level == 1 and found:
            yield found
            found = []
        elif not level:
            found += split(paragraph)
    if found:
        yield found


def split(paragraph: str) -> list[str]:
    """The sentences of a paragraph; they have its words in its order, one space between two.

    Where no space follows a stop that needs none, there is none to drop.
    """
    text = " ".join(paragraph.split())
    found, begin = [], 0
    for stop in STOP.finditer(text):
        end = closed(text, stop.end())
        if ends(text, begin, stop, end):
            found.append(text[begin:end])
            begin = end + text.startswith(" ", end)
    return [*found, text[begin:]] if text[begin:] else found


def paragraphs(text: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Paragraphs, each with its level if it is a heading, or else with 0."""
    held: list[str] = []
    blank = True  # whether the line above is
    for line in chain(lines(text), [""]):
        bare = line.strip()
        heading = HEADING.fullmatch(line) if blank or line.startswith("#") else None
        rule = RULE.fullmatch(bare)
        alone = not bare or heading or rule or spaced(line)
        if held and (alone or ITEM.match(line)):
            underlined = UNDERLINES.get(bare[0], 0) if rule and len(held) == 1 else 0
            yield underlined, "\n".join(held)
            held = []
        if heading:
            signs = heading["hashes"] or heading["equals"] or "#"
            yield len(signs.replace(" ", "")), bare
        elif bare and not rule and spaced(line):
            yield 0, line
        elif not alone:
            held.append(line)
        blank = not bare


def lines(text: Iterable[str]) -> Iterator[str]:
    """Lines, wherever the blocks are cut."""
    held = ""
    for block in text:
        *whole, held = (held + block).split("\n")
        yield from whole
    yield held


def spaced(line: str) -> bool:
    """Whether a line is a whole paragraph: WikiText puts a space on either side of them."""
    return line.startswith(" ") and line.endswith(" ")


def closed(text: str, end: int) -> int:
    """Where a sentence ends that has a stop before `end`: behind what closes after it.

    Where signs stand alone, a straight quote may close or open; it closes if one is open.
    """
    while sign := CLOSING.match(text, end):
        if sign[0] in STRAIGHT and text.count(STRAIGHT[sign[0]], 0, end) % 2 == 0:
            break
        end = sign.end()
    return end


def ends(text: str, begin: int, stop: re.Match[str], end: int) -> bool:
    """Whether a stop ends the sentence that began at `begin`; if so, it ends at `end`."""
    if not stop[1]:  # one that needs no space
        return not any(in_bracket(text, begin, stop.start(), stop.start(), *q) for q in QUOTES)
    following = NEXT.match(text, end)
    if not following:
        return False
    after = following[1]
    lower = after[0].islower() and after != UNKNOWN
    if (lower and not CODE.match(after)) or in_bracket(text, begin, stop.start(), end):
        return False
    at = text.rfind(" ", 0, stop.start()) + 1
    word = text[at : stop.start()].lstrip("\"'“‘«([{*`")
    if stop[1] != "." or not word:
        return True
    bare = word.lower()
    if bare in NEVER or (bare in BEFORE_NUMBER and (after[0].isdigit() or after == UNKNOWN)):
        return False
    if (len(word) == 1 and word.isupper()) or (at <= begin and NUMBERED.fullmatch(word)):
        return False  # an initial, or the number of an item
    if bare in DOUBTFUL or LETTERS.fullmatch(word):
        return after.lower().rstrip(",") in OFTEN_FIRST
    return True


def in_bracket(
    text: str, begin: int, stop: int, end: int, opening: str = "(", closing: str = ")"
) -> bool:
    """Whether a stop is inside a bracket that is closed soon after."""
    if text.rfind(opening, begin, stop) <= text.rfind(closing, begin, stop):
        return False
    close = text.find(closing, end, end + BRACKET)
    return close >= 0 and opening not in text[end:close]
