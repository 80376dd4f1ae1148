"""Words with formulas between dollars, as elements of a page: text as it is, formulas as MathML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

# Operators to latex2mathml, and given room by browsers; letters to TeX.
ORDINARY = frozenset("∂∞⊤")
TIGHT = frozenset("/|‖")
SIGNS = frozenset("+−")
CLOSING = frozenset(")]}|‖⟩!′")


def typeset(words: str) -> Iterator[str | Element]:
    """Text as it is, and what stands between dollars as MathML."""
    first, *pieces = words.split("$")
    if len(pieces) % 2 == 1:
        raise ValueError(f"a dollar has no partner in {words!r}")
    yield first
    for tex, after in zip(pieces[::2], pieces[1::2], strict=True):
        # No line begins with the comma that follows a formula.
        close = re.match(r"[^\s\w]*", after)
        assert close is not None
        yield element("span", formula(tex), close[0], class_="formula")
        yield after[close.end() :]


def formula(tex: str) -> Element:
    """MathML of a formula, with spaces as TeX would have them."""
    from latex2mathml.converter import convert

    # 1.2e-05, as Python writes small numbers, would be read as a product with a letter e.
    powers = re.sub(r"(?<=\d)e([+-]\d+)", lambda found: rf" \times 10^{{{int(found[1])}}}", tex)
    try:
        math = ElementTree.fromstring(convert(powers, xmlns=""))
    except ElementTree.ParseError:
        raise ValueError(f"the formula {tex!r} cannot be typeset") from None
    for parent in math.iter():
        before = None
        for each in parent:
            if each.tag == "mo" and each.text in ORDINARY:
                each.tag = "mi"
            elif each.tag == "mo" and each.text in TIGHT:
                each.attrib |= {"stretchy": "false", "lspace": "0", "rspace": "0"}
            elif each.tag == "mo" and each.text in SIGNS and signs(before):
                each.attrib |= {"form": "prefix", "lspace": "0", "rspace": "0"}
            before = each
    return math


def signs(before: Element | None) -> bool:
    """Whether a plus or minus after this one is a sign, and not between two terms."""
    return before is None or (before.tag == "mo" and before.text not in CLOSING)


def element(tag: str, *inside: str | Element, **attributes: str) -> Element:
    """An element of a page with text and elements in it, all of which is escaped when written."""
    made = Element(tag, {name.rstrip("_"): value for name, value in attributes.items()})
    for each in inside:
        if isinstance(each, Element):
            made.append(each)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + each
        else:
            made.text = (made.text or "") + each
    return made
