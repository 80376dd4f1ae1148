"""Inversions have the same words in a good order, and only beside the first can they be judged."""

import hashlib
import re
import subprocess
import sys
from collections import Counter
from string import Formatter
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from regard.data.corpus import find_corpus, read_corpus
from regard.data.sentences import documents
from regard.data.synthetic import grammar
from regard.data.synthetic.inversions import (
    WORD,
    InversionPair,
    inversion_pairs,
    inversions,
    invert,
    kind_of,
    neighbours,
    shuffle,
    shuffled,
)
from regard.data.synthetic.reviews import Draw

DIGEST = "0c1edb384edee0786be01f3bb134930fcbd7ba69fc46db37d112f38e87d56252"
KINDS = ("shuffled", "other", "changed")


def bag(text: str) -> Counter[str]:
    return Counter(WORD.findall(text.lower()))


@pytest.fixture(scope="module")
def parts():
    """Pairs of disjoint sentences of our grammar."""
    every = grammar.sentences(4_500, seed=0)
    train = inversion_pairs(every[:3_000], 0)
    return train, inversion_pairs(every[3_000:], 1, known=texts_of(train))


def texts_of(pairs: list[InversionPair]) -> set[str]:
    return {text for pair in pairs for text in pair[:2]}


# Our own grammar


def test_it_is_the_same_on_every_machine(parts):
    text = repr([tuple(pair) for pair in parts[0]])
    assert hashlib.sha256(text.encode()).hexdigest() == DIGEST
    assert grammar.sentences(10, 0) == grammar.sentences(20, 0)[:10] != grammar.sentences(10, 1)


@pytest.mark.parametrize(
    ("text", "inverted"),
    [
        ("The boy ran quickly past the mill.", "Quickly ran the boy past the mill."),
        ("The boy ran quickly past the mill.", "Quickly past the mill ran the boy."),
        ("Anna came out of the dark forest.", "Out of the dark forest came Anna."),
        ("A golden ring lay near the mill.", "Near the mill lay a golden ring."),
        ("A ring was hidden near the mill.", "Hidden near the mill was a ring."),
        ("The boy has never seen the map.", "Never has the boy seen the map."),
        ("Anna should in no way sell the map.", "In no way should Anna sell the map."),
        ("Anna did not see the map until noon.", "Not until noon did Anna see the map."),
        ("The fox could see the map only at noon.", "Only at noon could the fox see the map."),
        ("The fox was so lovely that Anna wept.", "So lovely was the fox that Anna wept."),
        ("The joy of Anna was such that nobody drew the fox.", None),  # which is no thing
        (
            "The joy of Anna was such that the fox wept.",
            "Such was the joy of Anna that the fox wept.",
        ),
        ('"The map is near the mill," Anna said.', '"The map is near the mill," said Anna.'),
        ("The poor boy lost the map at dawn.", "At dawn the poor boy lost the map."),
        ("Anna lost the map when the rain began.", "When the rain began, Anna lost the map."),
    ],
)
def test_its_sentences_are_inverted_exactly(text, inverted):
    found = grammar.inversions(text)
    assert inverted in found if inverted else not found


@pytest.mark.parametrize("name", grammar.FRAMES)
@given(st.integers(0, 10_000))
def test_phrases_are_read_as_they_were_written(name, seed):
    frame, draw = grammar.FRAMES[name], Draw(seed)
    phrases: dict[str, str] = {}

    def written(order: str, known: dict[str, str]) -> str:
        """An independent way to write: phrase by phrase, remembering those of the whole."""
        text = ""
        for words, place, *_ in Formatter().parse(order):
            text += words
            if place and place not in known:
                phrase = written(draw.one(grammar.RULES[place]), {})
                if known is phrases:
                    phrases[place] = phrase
                text += phrase
            elif place:
                text += known[place]
        return text

    def begun(text: str) -> str:
        return re.sub("[A-Za-z]", lambda letter: letter[0].upper(), text, count=1)

    plain = begun(written(frame.plain, phrases))
    assert grammar.inversions(plain) == [begun(o.format(**phrases)) for o in frame.inverted]


def test_its_sentences_are_many_and_look_like_sentences():
    every = grammar.sentences(20_000, seed=3)
    assert len(set(every)) == 20_000
    words = {word for text in every for word in WORD.findall(text)}
    assert len(words) > 250
    for text in every:
        for seen in (text, *grammar.inversions(text)):
            assert re.fullmatch(r'"?[A-Z][A-Za-z ,"]+\.', seen) and "  " not in seen
            assert not re.search(r"\ba [aeiou]", seen)
            assert bag(seen) == bag(text)
        assert not set(grammar.inversions(text)) & {text}
        assert all(not grammar.inversions(other) for other in grammar.inversions(text))


def test_no_word_is_of_two_kinds():
    listed = Counter(w for words in grammar.RULES.values() for w in set(words) if w.isalpha())
    assert max(listed.values()) == 1
    assert grammar.kinds()["fox"] == grammar.kinds()["dog"] != grammar.kinds()["boy"]


# Real sentences


@pytest.mark.parametrize(
    ("text", "inverted"),
    [
        ("He left the city in 1920 .", "In 1920 he left the city ."),
        ("He left the city in 1920.", "In 1920 he left the city."),
        ("In 1920 , he left the city .", "He left the city in 1920 ."),
        ("In 1920, he left the city.", "He left the city in 1920."),
        ("In 1920 he left the city .", "He left the city in 1920 ."),
        ("It was sold for $1,000 on June 5, 1990.", "On June 5, 1990, it was sold for $1,000."),
        ("The game was won on 5 May .", "On 5 May , the game was won ."),
        ("The king slept during the long war .", "During the long war , the king slept ."),
        ("The king slept when the war began .", "When the war began , the king slept ."),
        (
            "He was happy , although it rained all day .",
            "Although it rained all day , he was happy .",
        ),
        (
            "Although it rained all day , Smith was happy .",
            "Smith was happy , although it rained all day .",
        ),
        (
            "Shortly after the death of his wife , Smith sold it .",
            "Smith sold it shortly after the death of his wife .",
        ),
        ("I left the city in May .", "In May I left the city ."),
        ('In 1920 , he wrote " Home " .', 'He wrote " Home " in 1920 .'),
    ],
)
def test_what_is_safe_is_moved_with_its_case_and_comma(text, inverted):
    assert inversions(text) == [inverted]
    assert invert(text, Draw(0)) == inverted


@pytest.mark.parametrize(
    "text",
    [
        "Lobsters left the city in 1920 .",  # who knows whether this is a name
        "It was in 1920 .",  # nothing would be left
        "It was a ship built in 1920 .",  # it is the ship's
        "It was a ship which sank in 1920 .",
        "He said that he left in 1920 .",
        "He left , and she came in 1920 .",
        "He left the city in 1920 and died .",
        "He came back only after the war .",  # that would need "did"
        "He left over the next two years later .",
        "The war lasted from 1914 to 1918 .",
        "In 1920 , 1921 and 1922 he left .",
        "In fact , he left the city .",
        "If it rained , then he left .",
        "This will determine if it is a city .",  # what it determines, not when
        "I left, though he asked me.",  # hardly anything would be left
        "At first the airline used planes , and later trains .",
        "In the 1990s Yamaha introduced cars , a new kind of planes .",
        "In 1920 , he left the city in May 1921 .",
        'He wrote " Home in 1920 .',
        "Did he leave the city in 1920 ?",
        "He left the city in 1920",
        "Mr. Smith left the city in 1920.",
        ".",
        "",
        "He left .",
    ],
)
def test_what_is_not_safe_is_left_alone(text):
    assert inversions(text) == [] and invert(text, Draw(0)) is None


@given(st.text(alphabet="aI .,\"'(1", max_size=30) | st.text(max_size=20))
def test_anything_may_be_asked_for(text):
    for seen in inversions(text + "."):
        assert bag(seen) == bag(text + ".")


SCRAPS = "In in 1920 , he The was left when it May 5 city of on the war after"


@given(st.lists(st.sampled_from(SCRAPS.split())))
def test_no_word_is_lost(words):
    text = " ".join([*words, "."])
    for seen in inversions(text):
        assert bag(seen) == bag(text) and seen.endswith(" .") and seen != text


@pytest.mark.skipif(not find_corpus("wikitext-2"), reason="WikiText-2 is not on this machine")
def test_one_sentence_of_wikipedia_in_twenty_can_be_inverted():
    found = [line for one in documents(read_corpus("wikitext-2").validation) for line in one]
    seen = {line: inversions(line) for line in found}
    assert 0.04 < sum(map(bool, seen.values())) / len(found) < 0.08
    assert all(bag(line) == bag(other) for line, others in seen.items() for other in others)


# Pairs


def test_half_are_true_and_what_is_false_is_so_in_three_ways(parts):
    for pairs in parts:
        times = Counter(pair.kind for pair in pairs)
        assert times["inverted"] * 2 == len(pairs)
        assert max(times[kind] for kind in KINDS) - min(times[kind] for kind in KINDS) <= 1
        assert all(pair.inverted == (pair.kind == "inverted") for pair in pairs)


def test_each_first_sentence_occurs_with_both_answers(parts):
    for pairs in parts:
        answers = sorted((pair.first, pair.inverted) for pair in pairs)
        firsts = sorted({pair.first for pair in pairs})
        assert answers == [(first, truth) for first in firsts for truth in (False, True)]


def test_each_kind_is_what_it_says(parts):
    for pairs in parts:
        truth = {pair.first: pair.second for pair in pairs if pair.inverted}
        longest = max(truth.items(), key=lambda pair: (len(WORD.findall(pair[1])), pair))[1]
        for first, second, inverted, kind in pairs:
            right = truth[first]
            assert (second in inversions(first)) == inverted
            if kind == "shuffled":
                assert bag(second) == bag(first)
                assert not neighbours(second) & (neighbours(first) | neighbours(right))
                assert re.sub(r"\w", "", second).replace(" ", "") == re.sub(r"[\w ]", "", right)
            if kind == "other":
                assert second in truth.values() and bag(second) != bag(first)
                if right != longest:  # which is followed by the shortest
                    assert len(WORD.findall(second)) - len(WORD.findall(right)) in (0, 1)
            if kind == "changed":
                ours, theirs = WORD.findall(second), WORD.findall(right)
                ((new, old),) = [(a, b) for a, b in zip(ours, theirs, strict=True) if a != b]
                assert kind_of(new) == kind_of(old) and new not in theirs


def test_signs_are_the_same_for_both_answers(parts):
    for pairs in parts:
        for sign in (",", '"', ".", "[A-Z]"):
            shares = [
                sum(bool(re.search(sign, p.second)) for p in pairs if p.inverted == truth)
                for truth in (True, False)
            ]
            assert abs(shares[0] - shares[1]) < 0.03 * len(pairs)
        assert all(re.match(r'"?[A-Z]', p.second) and p.second.endswith(".") for p in pairs)


def test_no_sentence_is_in_two_parts(parts):
    train, test = map(texts_of, parts)
    assert not train & test
    assert len(parts[1]) > 2 * 1_490  # hardly any had to be left out


def test_nothing_known_is_in_a_pair():
    some = grammar.sentences(200, 0)
    known = texts_of(inversion_pairs(some, 0))
    assert inversion_pairs(some, 1, known) == []
    changed = {pair.second for pair in inversion_pairs(some, 0) if pair.kind == "changed"}
    assert len(changed) > 60
    for one in sorted(changed)[:5]:
        assert one not in texts_of(inversion_pairs(some, 0, {one}))


@pytest.mark.parametrize("grams", [(1, 1), (1, 2)], ids="up to {0[1]} words".format)
@pytest.mark.parametrize("kind", ["other", "changed"])
def test_the_second_sentence_alone_tells_nothing(parts, kind, grams):
    assert 0.45 < judged_alone(*parts, kind, grams) < 0.55


def test_a_shuffle_is_seen_at_once(parts):
    assert judged_alone(*parts, "shuffled", (1, 2)) > 0.9


@pytest.mark.skipif(not find_corpus("wikitext-2"), reason="WikiText-2 is not on this machine")
@pytest.mark.parametrize("kind", ["other", "changed"])
def test_nor_does_it_in_real_sentences(kind):
    corpus = read_corpus("wikitext-2")
    texts = [
        [line for one in documents(corpus[part]) for line in one] for part in ("test", "train")
    ]
    parts = inversion_pairs(texts[1][:20_000], 0), inversion_pairs(texts[0], 1)
    assert 0.4 < judged_alone(*parts, kind, (1, 2)) < 0.6


def judged_alone(
    train: list[InversionPair], test: list[InversionPair], kind: str, grams: tuple[int, int]
) -> float:
    """How often counting words of the second sentence gives the answer."""
    chosen = []
    for pairs in (train, test):
        firsts = {pair.first for pair in pairs if pair.kind == kind}
        rows = [pair for pair in pairs if pair.first in firsts]
        chosen.append(([pair.second for pair in rows], [pair.inverted for pair in rows]))
    counted = TfidfVectorizer(ngram_range=grams, lowercase=False, token_pattern=r"\w+|[^\w\s]")
    learner = LogisticRegression(max_iter=1_000)
    learner.fit(counted.fit_transform(chosen[0][0]), chosen[0][1])
    return learner.score(counted.transform(chosen[1][0]), chosen[1][1])


def test_few_sentences_give_few_pairs():
    assert inversion_pairs([], 0) == []
    assert inversion_pairs(["Nothing to move .", "He left ."], 0) == []
    one, other = "He left the city in 1920 .", "She sold the house in May ."
    pairs = inversion_pairs([one, one, other, "In 1920 , he left the city ."], 0)
    assert Counter(pair.first for pair in pairs) == {one: 2, other: 2}
    (alone,) = [pair for pair in inversion_pairs([one], 0) if not pair.inverted]
    assert alone.kind == "shuffled"


def test_the_seed_decides():
    some = grammar.sentences(60, 0)
    assert inversion_pairs(some, 4) == inversion_pairs(some, 4) != inversion_pairs(some, 5)


def test_words_of_a_kind_can_stand_in_the_same_place():
    assert kind_of("walking") == kind_of("talking") != kind_of("talked")
    assert kind_of("island") != kind_of("husband")  # of which one follows "an"
    assert kind_of("Walking") != kind_of("walking")
    assert kind_of("1920") == kind_of("1845") != kind_of("12")
    assert kind_of("May") == kind_of("April")
    assert kind_of("the") == kind_of("which") == kind_of("during") == kind_of("@-@") == ""


def test_a_shuffle_that_cannot_be_is_none():
    assert shuffle("a a a a a .", "a a a a a .", Draw(0)) is None


@given(st.lists(st.integers()), st.integers(0, 99))
def test_shuffling_loses_nothing(items, seed):
    assert sorted(shuffled(items, Draw(seed))) == sorted(items)


def test_every_order_is_as_likely():
    draw = Draw(0)
    times = Counter(tuple(shuffled("abc", draw)) for _ in range(6_000))
    assert len(times) == 6 and max(times.values()) < 1_150 and min(times.values()) > 850


def test_several_thousand_are_made_in_a_second():
    # In a process of its own, as here each call has its types checked.
    code = """
        import time
        from regard.data.synthetic.grammar import sentences
        from regard.data.synthetic.inversions import inversion_pairs
        start = time.process_time()
        print(len(inversion_pairs(sentences(3_000, 0), 0)) / (time.process_time() - start))
    """
    ran = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, check=True)
    assert float(ran.stdout) > 2_000
