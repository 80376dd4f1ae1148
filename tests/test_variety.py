"""Variety: by hand, against counting in the plainest way, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.evaluate.variety import Variety, variety

WORDS = st.lists(st.sampled_from("abc"), max_size=4)


def cut(*texts):
    return [text.split() for text in texts]


def test_a_case_by_hand():
    said = cut("a dog runs", "a dog", "a dog", "the cat runs a lot", "")
    got = variety(said, iter(cut("a dog", "the cat runs", "")))
    assert got == Variety(
        distinct_words=6 / 12,  # a dog runs the cat lot
        distinct_pairs=6 / 8,  # a-dog dog-runs the-cat cat-runs runs-a a-lot
        copied=2 / 5,
        repeated=2 / 5,
        vocabulary=6,
        length=12 / 5,
        count=5,
    )


@given(st.lists(WORDS, min_size=1, max_size=8), st.lists(WORDS, max_size=6))
def test_counting_one_by_one_gives_the_same(said, training):
    got = variety(said, training)
    words = [word for caption in said for word in caption]
    pairs = [caption[i : i + 2] for caption in said for i in range(len(caption) - 1)]
    for figure, all_of_them in ((got.distinct_words, words), (got.distinct_pairs, pairs)):
        seen = []
        for one in all_of_them:
            if one not in seen:
                seen.append(one)
        assert figure == (len(seen) / len(all_of_them) if all_of_them else 0)
    n = len(said)
    assert got.vocabulary == sum(letter in words for letter in "abc")
    assert got.length == pytest.approx(len(words) / n)
    assert got.copied == sum(c != [] and any(c == known for known in training) for c in said) / n
    repeats = sum(any(said[i] == said[j] for j in range(n) if j != i) for i in range(n))
    assert got.repeated == repeats / n and got.count == n


def test_saying_one_thing_always_and_never_the_same():
    same = variety(cut(*["a dog"] * 50), cut("a dog"))
    assert (same.copied, same.repeated) == (1.0, 1.0)
    assert (same.distinct_words, same.distinct_pairs) == (2 / 100, 1 / 50)
    other = variety(cut("a b", "c d"), [])
    assert (other.distinct_words, other.distinct_pairs) == (1.0, 1.0)
    assert (other.copied, other.repeated) == (0.0, 0.0)


def test_order_matters_to_copies_and_lists_are_as_good_as_tuples():
    got = variety([("dog", "a"), ("a", "dog")], [["a", "dog"]])
    assert got.copied == 0.5 and got.repeated == 0


@given(st.lists(WORDS, min_size=1, max_size=8), st.lists(WORDS, max_size=6))
def test_values_survive_json(said, training):
    got = variety(said, training)
    values = json.loads(json.dumps(got.to_values(), allow_nan=False))
    assert Variety.from_values(values) == got


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"copied": 1.5}, "copied=1.5 is not a share"),
        ({"distinct_pairs": -0.1}, "distinct_pairs=-0.1"),
        ({"repeated": float("nan")}, "repeated=nan"),
        ({"vocabulary": 99}, "2 captions of 2.0 words each cannot use 99"),
        ({"vocabulary": 1.5}, "integer"),
        ({"count": 0}, "0 captions"),
        ({"length": float("nan")}, "nan words each"),
        ({"more": 1}, "more"),
    ],
)
def test_values_of_something_else_are_refused(change, words):
    values = variety(cut("a b", "c d"), []).to_values()
    with pytest.raises(ValueError, match=f"not the values of a variety: .*{words}"):
        Variety.from_values({**values, **change})
    for name in values:
        with pytest.raises(ValueError, match="not the values of a variety"):
            Variety.from_values({key: values[key] for key in values if key != name})


def test_texts_and_nothing_are_refused():
    with pytest.raises(ValueError, match="0 captions"):
        variety([], [["a"]])
    with pytest.raises(ValueError, match=r"captions\[1\] is the text 'a dog'; cut it into words"):
        variety([["a"], "a dog"], [])
    with pytest.raises(ValueError, match=r"training\[0\] is the text 'a dog'"):
        variety([["a"]], ["a dog"])
