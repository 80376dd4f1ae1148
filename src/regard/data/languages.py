"""Which of two languages is read and which is written: a direction such as en-de.

chosen("de-en", ("en", "de"), "own/")       # ("de", "en")
usual(["de", "en"])                         # ("en", "de"): English is read, if it is there
header(b"en\tde")                           # ("en", "de")
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import permutations

from regard.errors import UserError

SIDES = ("source", "target")  # what languages are called where nobody says
CODES = (  # of ISO 639-1
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy "
    "da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu "
    "hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb "
    "lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om "
    "or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw "
    "ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
WORDS = (  # what else stands above such columns
    "source target src tgt trg english german french spanish italian portuguese dutch russian "
    "polish czech swedish danish norwegian finnish hungarian romanian greek turkish arabic hebrew "
    "hindi chinese japanese korean vietnamese ukrainian deutsch français español italiano eng deu "
    "ger fra fre spa ita por nld dut rus pol ces cze swe dan nor fin hun ron rum ell gre tur ara "
    "heb hin zho chi jpn kor vie ukr"
)
KNOWN = frozenset(f"{CODES} {WORDS}".split())
REGION = re.compile(r"[-_][a-z0-9]+")  # pt-BR, zh_Hans


def header(line: bytes) -> tuple[str, str] | None:
    """What a table's first line calls its two columns, if that is languages and no pair."""
    names = [name.strip() for name in line.decode(errors="replace").split("\t")]
    if len(names) != 2 or names[0].lower() == names[1].lower():
        return None
    return (names[0], names[1]) if all(map(is_language, names)) else None


def is_language(name: str) -> bool:
    """Whether a column is called by a language: en, pt-BR, german; or source, target."""
    plain = REGION.sub("", name.lower())
    return plain in KNOWN


def usual(languages: Collection[str]) -> tuple[str, str]:
    """The order of two languages where nobody gives one: from English, else as in the alphabet."""
    one, other = sorted(languages)
    return (other, one) if is_english(other) and not is_english(one) else (one, other)


def is_english(name: str) -> bool:
    return REGION.sub("", name.lower()) in ("en", "eng", "english")


@dataclass(frozen=True)
class Wanted:
    """Which direction is wanted: one that was given, or else that of a run."""

    direction: str = ""
    like: tuple[str, str] | None = None

    def of(
        self, languages: Iterable[str], otherwise: tuple[str, str], where: str
    ) -> tuple[str, str]:
        """Two of these languages, source first."""
        languages = list(languages)
        if self.direction:
            return chosen(self.direction, languages, where)
        return self.like if self.like and {*self.like} <= {*languages} else otherwise


def chosen(direction: str, languages: Iterable[str], where: str) -> tuple[str, str]:
    """The two languages that a direction names, source first; one that is not there is refused."""
    wanted = direction.strip().lower()
    pairs = list(permutations(languages, 2))
    for one, other in pairs:
        if f"{one}-{other}".lower() == wanted:
            return one, other
    known = " or ".join(f"{one}-{other}" for one, other in pairs)
    raise UserError(f"--direction {direction}: {where} can be read as {known}")
