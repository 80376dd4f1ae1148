"""A sentence praises or blames by how it is built: a reader agrees, and counting words does not."""

import re
import subprocess
import sys
from collections import Counter
from itertools import islice
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from regard.data.labelled import read_labelled
from regard.data.synthetic import reviews as module
from regard.data.synthetic.reviews import (
    HELD,
    OWN_CLAIMS,
    OWN_NAMINGS,
    OWN_NAMINGS_HELD,
    SIZES,
    STRONG,
    Draw,
    Leaf,
    Tree,
    different,
    review,
    sentence,
)

DIGEST = "4ce325528fb1a3472ae227cdf17882c0bb1c19a1bf27fbc5be0a0481ae4ff3fb"


@pytest.fixture(scope="module")
def texts():
    return read_labelled("reviews")


@pytest.fixture(scope="module")
def trees():
    """The same trees that the set is made of."""
    seen: set[str] = set()
    return {
        part: list(islice(different(seed, part == "test", seen), size))
        for seed, (part, size) in enumerate(SIZES.items())
    }


# A reader who knows nothing of trees


GOOD = """good impressive enjoyable charming delightful tasty delicious pleasant lovely superb
    excellent wonderful treat delight joy success hit enjoy save"""
BAD = """bad poor disappointing dull tedious boring bland dreary mediocre terrible awful dreadful
    disappointment letdown mess failure flop regret ruin"""
JUDGE = dict.fromkeys(re.findall(r"\w+", GOOD), True)
JUDGE |= dict.fromkeys(re.findall(r"\w+", BAD), False)
REFUSAL = re.compile(r"\b(nobody|only a fool|never|wrong|deny|doubt|dispute|reject)\b")
NEGATION = re.compile(r"\b(not|far from|hardly|never|anything but|by no means|no)\b")
MAIN = [  # what a sentence with several clauses comes down to
    r'.+ called .+ "(?P<quote>\w+)", and (they were right|I could not agree more)',
    r'.+ called .+ "(?P<unquote>\w+)", and (they were wrong|I could not disagree more)',
    r'.+ called .+ "\w+", (and|but) (?P<main>.+)',
    r'(?P<main>.+), (and|although) .+ called it "\w+"',
    r"(?:although|though|even though) [^,]+, (?P<main>.+)",
    r".+; even so, (?P<main>.+)",
    r"(?P<main>.+), (?:although|though|even though) .+",
    r".+, but (?P<main>.+)",
    r".+, and even (?P<main>.+ could not .+)",
]


def praises(text: str) -> bool:
    """What a sentence says, by its words and signs alone."""
    text = re.sub(r' "The \w+ \w+"', "", text.removesuffix("."))
    return main_praises(text[0].lower() + text[1:])


def main_praises(text: str) -> bool:
    if said := re.fullmatch(r"(.+?) that (.+)", text):
        return main_praises(said[2]) != bool(len(REFUSAL.findall(said[1])) % 2)
    if quote := re.fullmatch(r'([^",]*)"(\w+)"( were \w+)?', text):
        return JUDGE[quote[2]] != bool(re.search(r"\b(wrong|disagree)\b", quote[1] + str(quote[3])))
    for pattern in MAIN:
        if found := re.fullmatch(pattern, text, re.IGNORECASE):
            parts = found.groupdict()
            if "main" in parts:
                return main_praises(parts["main"])
            return JUDGE[parts["quote"]] if "quote" in parts else not JUDGE[parts["unquote"]]
    (word,) = [word for word in re.findall(r"\w+", text) if word in JUDGE]
    return JUDGE[word] != bool(len(NEGATION.findall(text)) % 2)


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("The film was not bad at all.", True),
        ("The film was hardly a success.", False),
        ("I would never say that the film was boring.", True),
        ("The plot was dull, but the acting did save the film.", True),
        ('The film "The Awful Duck" was by no means dull.', True),
        ('My friends called the play "dull", and I could not disagree more.', True),
        ('The critics called the hotel "lovely", but it was no treat.', False),
        ("Nobody would deny that it would be wrong to doubt that the soup was bland.", False),
        ("The wine was tasty, and even the soup could not ruin the meal.", True),
    ],
)
def test_the_reader_can_read(text, truth):
    assert praises(text) == truth


@pytest.mark.parametrize("part", SIZES)
def test_a_reader_agrees_with_every_label(texts, part):
    rows = texts[part]
    wrong = [
        text
        for text, label in zip(rows.texts, rows.labels, strict=True)
        if praises(text) != (texts.classes[label] == "positive")
    ]
    assert wrong == []


# The set


def test_it_is_the_same_on_every_machine(texts):
    assert texts.digest == DIGEST and texts.name == "reviews"
    assert texts.licence == "Apache-2.0" and texts.origin == "made by regard"


def test_both_classes_are_alike_in_number_and_no_sentence_recurs(texts):
    for part, size in SIZES.items():
        assert texts.counts(part) == (size // 2, size // 2)
    every = [text for rows in texts.parts.values() for text in rows.texts]
    assert len(set(every)) == len(every) == 27_000
    assert texts.weights() == (1.0, 1.0)


def test_sentences_look_like_sentences(texts):
    for rows in texts.parts.values():
        for text in rows.texts:
            assert re.fullmatch(r'[A-Z][A-Za-z ,;"]+\.', text) and "  " not in text
            assert text.count('"') % 2 == 0 and len(text) < 160
            assert not re.search(r"\b(\w+) \1\b|\ba [aeiou]|\bs (was)\b", text)


def test_the_trees_are_those_of_the_set(texts, trees):
    for part, some in trees.items():
        assert texts[part].texts == tuple(map(sentence, some))
        assert texts[part].labels == tuple(int(tree.good) for tree in some)


def test_every_sentence_of_the_test_is_built_anew_from_known_words(texts, trees):
    learnt = {t for part in ("train", "validation") for tree in trees[part] for t in tree.templates}
    assert not learnt & HELD
    for tree in trees["test"]:
        assert tree.depth > 4 or tree.templates - learnt
    known = set(re.findall(r"\w+", " ".join(texts["train"].texts).lower()))
    assert set(re.findall(r"\w+", " ".join(texts["test"].texts).lower())) <= known


def test_negations_grow_deeper_in_the_test(trees):
    depths = {part: Counter(tree.depth for tree in some) for part, some in trees.items()}
    assert {*depths["train"]} == {*depths["validation"]} == {0, 1, 2, 3, 4}
    assert {*depths["test"]} == {0, 1, 2, 3, 4, 5}
    assert min(depths["train"].values()) > 500 and min(depths["test"].values()) > 40
    assert depths["test"][5] == 124


def test_every_template_that_is_held_back_is_tested(trees):
    tested = {template for tree in trees["test"] for template in tree.templates}
    assert tested >= HELD


def test_what_would_leave_a_doubt_is_never_negated(trees):
    strong = {*STRONG[True], *STRONG[False]}
    alone = {way.template for way in (*OWN_CLAIMS, *OWN_NAMINGS, *OWN_NAMINGS_HELD)}

    def check(tree: Tree | Leaf, denied: bool) -> None:
        if isinstance(tree, Leaf):
            assert not (denied and tree.text in strong)
            return
        assert not (denied and tree.template in alone)
        for part in tree.parts:
            check(part, denied or " that {0}" in tree.template or bool(tree.flips))

    for some in trees.values():
        for tree in some:
            if not tree.template.endswith("could not {2} {3}"):  # which negates its verb alone
                check(tree, False)


@pytest.mark.parametrize("grams", [(1, 1), (1, 2), (1, 3)], ids="up to {0[1]} words".format)
def test_counting_words_is_not_enough(texts, grams):
    counted = TfidfVectorizer(ngram_range=grams)
    learner = LogisticRegression(C=1.0, max_iter=1_000)
    learner.fit(counted.fit_transform(texts["train"].texts), texts["train"].labels)
    for part in ("validation", "test"):
        right = learner.score(counted.transform(texts[part].texts), texts[part].labels)
        assert 0.4 < right < 0.75


def test_no_word_gives_a_class_away(texts):
    times = {label: Counter() for label in (0, 1)}
    for text, label in zip(texts["train"].texts, texts["train"].labels, strict=True):
        times[label].update(set(re.findall(r"\w+", text.lower())))
    for word in times[0] | times[1]:
        total = times[0][word] + times[1][word]
        assert total >= 20 and max(times[0][word], times[1][word]) / total < 0.8, word


def test_several_thousand_are_made_in_a_second():
    # In a process of its own, as here each call has its types checked.
    code = """
        import time
        from regard.data.synthetic.reviews import reviews
        start = time.process_time()
        print(sum(map(len, reviews().parts.values())) / (time.process_time() - start))
    """
    ran = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, check=True)
    assert float(ran.stdout) > 2_000


# Trees


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_a_tree_says_what_was_asked_for(seed, wanted, held):
    tree = review(Draw(seed, held), wanted)
    assert tree.good == wanted == praises(sentence(tree))
    assert review(Draw(seed, held), wanted) == tree
    assert held or not tree.templates & HELD


@given(st.booleans(), st.lists(st.integers(0, 3)))
def test_each_negation_turns_it_round(wanted, flips):
    tree = Leaf("word", wanted)
    for n in flips:
        tree = Tree("{1} {0}", (tree, Leaf("other", not wanted, depth=9)), 0, n)
    assert tree.good == (wanted if sum(flips) % 2 == 0 else not wanted)
    assert tree.depth == sum(flips)


def test_only_the_part_that_decides_counts():
    dull, fine = Leaf("it was dull", False), Leaf("I liked it", True)
    assert Tree("{0}, but {1}", (dull, fine), 1).good
    assert not Tree("{0}, but {1}", (fine, dull), 1).good
    assert sentence(Tree("{0}, but {1}", (dull, fine), 1)) == "It was dull, but I liked it."
    assert Tree("a {0}", (Tree("b {0}", (dull,), 0),), 0).templates == {"a {0}", "b {0}"}


def test_templates_say_how_often_they_negate():
    for way in module.SPEECHES + module.SPEECHES_HELD:
        assert way.flips == len(REFUSAL.findall(way.template))
    for way in (*module.CLAIMS, *module.CLAIMS_HELD, *module.NAMINGS, *module.OWN_CLAIMS):
        assert way.flips == len(NEGATION.findall(way.template))
    assert len({way.template for way in module.SPEECHES + module.SPEECHES_HELD}) == 80
