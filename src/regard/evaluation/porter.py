"""Cut a word down to its stem, so that "runs", "running" and "run" count as one.

    stem("running")      # 'run'
    stem("happily")      # 'happili': a stem need not be a word, only the same for its kin

This is Porter's second algorithm for English, "Porter2" or Snowball English (Porter 2001): a few
steps that each replace one ending, where enough of the word stands before it. The endings and the
few words taken whole are part of its definition. Apostrophes are letters to it, and words of one
or two letters are left alone. Irregular forms ("ran") stay apart.
"""

import re
from functools import lru_cache

VOWEL = "[aeiouy]"
REGION = re.compile("[aeiouy][^aeiouy]")  # what follows a vowel and a non-vowel can be an ending
DOUBLE = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")

# Words the steps would spoil.
WHOLE = {
    **{"skis": "ski", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie"},
    **{"idly": "idl", "gently": "gentl", "ugly": "ugli", "early": "earli", "only": "onli"},
    **{"singly": "singl"},
    **{word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")},
}
AFTER_PLURAL = frozenset(
    ["inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"]
)

# Ending and replacement, longer endings first where one is the end of another.
SECOND = {
    **{"ization": "ize", "ational": "ate", "fulness": "ful", "ousness": "ous", "iveness": "ive"},
    **{"tional": "tion", "biliti": "ble", "lessli": "less", "entli": "ent", "ation": "ate"},
    **{"alism": "al", "aliti": "al", "ousli": "ous", "iviti": "ive", "fulli": "ful"},
    **{"enci": "ence", "anci": "ance", "abli": "able", "izer": "ize", "ator": "ate", "alli": "al"},
    **{"bli": "ble", "ogi": "og", "li": ""},
}
THIRD = {
    **{"ational": "ate", "tional": "tion", "alize": "al", "icate": "ic", "iciti": "ic"},
    **{"ative": "", "ical": "ic", "ness": "", "ful": ""},
}
FOURTH = (
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous"),
    *("ive", "ize", "ion", "al", "er", "ic"),
)


@lru_cache(1 << 16)
def stem(word: str) -> str:
    """The stem of one word in lower case."""
    if len(word) < 3:
        return word
    if word in WHOLE:
        return WHOLE[word]
    word = word.removeprefix("'")
    word = _with_consonants(word)
    first, second = _regions(word)
    word = _without_plural(word)
    if word in AFTER_PLURAL:
        return word
    word = _without_past(word, first)
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in "aeiouy":
        word = word[:-1] + "i"
    word = _replaced(word, SECOND, first)
    word = _third(word, first, second)
    word = _fourth(word, second)
    return _without_last(word, first, second).lower()


def _with_consonants(word: str) -> str:
    """With a y that is a consonant written Y: "Yes", "boY", and from left to right "YyY"."""
    marked = ""
    for letter in word:
        consonant = letter == "y" and (not marked or marked[-1] in "aeiouy")
        marked += "Y" if consonant else letter
    return marked


def _regions(word: str) -> tuple[int, int]:
    """Where the two parts begin in which endings may be taken off."""
    if opening := re.match("gener|commun|arsen", word):
        first = opening.end()
    else:
        found = REGION.search(word)
        first = found.end() if found else len(word)
    found = REGION.search(word, first)
    return first, found.end() if found else len(word)


def _without_plural(word: str) -> str:
    for ending in ("'s'", "'s", "'"):
        if word.endswith(ending):
            word = word.removesuffix(ending)
            break
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith(("us", "ss")):
        return word
    if word.endswith("s") and re.search(VOWEL, word[:-2]):
        return word[:-1]
    return word


def _without_past(word: str, first: int) -> str:
    for ending in ("eedly", "eed"):
        if word.endswith(ending):
            return word.removesuffix(ending) + "ee" if len(word) - len(ending) >= first else word
    for ending in ("ingly", "edly", "ing", "ed"):
        if not word.endswith(ending):
            continue
        rest = word.removesuffix(ending)
        if not re.search(VOWEL, rest):
            return word
        if rest.endswith(("at", "bl", "iz")):
            return rest + "e"
        if rest.endswith(DOUBLE):
            return rest[:-1]
        return rest + "e" if first >= len(rest) and _ends_short(rest) else rest
    return word


def _ends_short(word: str) -> bool:
    """Whether the word ends in a short syllable: "hop", "at", but not "snow"."""
    return bool(re.search("(?:[^aeiouy][aeiouy][^aeiouywxY]|^[aeiouy][^aeiouy])$", word))


def _replaced(word: str, endings: dict[str, str], first: int) -> str:
    for ending, other in endings.items():
        if not word.endswith(ending):
            continue
        rest = word.removesuffix(ending)
        if len(rest) < first:
            return word
        if ending == "ogi":
            return rest + other if rest.endswith("l") else word
        if ending == "li":
            return rest if rest.endswith(tuple("cdeghkmnrt")) else word
        return rest + other
    return word


def _third(word: str, first: int, second: int) -> str:
    if word.endswith("ative") and len(word) - 5 < second:
        return word
    return _replaced(word, THIRD, first)


def _fourth(word: str, second: int) -> str:
    for ending in FOURTH:
        if word.endswith(ending):
            rest = word.removesuffix(ending)
            fits = len(rest) >= second and (ending != "ion" or rest.endswith(("s", "t")))
            return rest if fits else word
    return word


def _without_last(word: str, first: int, second: int) -> str:
    rest = word[:-1]
    if word.endswith("e"):
        drops = len(rest) >= second or (len(rest) >= first and not _ends_short(rest))
        return rest if drops else word
    return rest if word.endswith("ll") and len(rest) >= second else word
