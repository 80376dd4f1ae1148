"""What counting words can do is what scikit-learn says it can."""

import numpy as np
import pytest
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from regard.evaluation.bag_of_words import STRENGTHS, BagOfWords

GOOD, BAD, ANY = (
    ["fine", "lovely", "superb"],
    ["dull", "awful", "poor"],
    ["the", "film", "was", "a", "soup"],
)


def rows(count: int, seed: int) -> tuple[list[str], list[str], list[int]]:
    """Texts in which one word decides, nearly always."""
    draw = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        label = int(draw.integers(2))
        said = (BAD, GOOD)[label if draw.random() < 0.9 else 1 - label]
        words = [*draw.choice(ANY, draw.integers(1, 6)), draw.choice(said)]
        texts.append(" ".join(draw.permutation(words)))
        labels.append(label)
    return texts, [], labels


TRAIN, HELD, OTHER = rows(120, 0), rows(60, 1), rows(40, 2)


def counter() -> TfidfVectorizer:
    return TfidfVectorizer(
        token_pattern=r"(?u)\w+|[^\w\s]", ngram_range=(1, 2), sublinear_tf=True, dtype=np.float32
    )


def test_probabilities_are_those_of_the_best_regression():
    count = counter().fit(TRAIN[0])
    fitted = {
        strength: LogisticRegression(C=strength, max_iter=300, tol=1e-3).fit(
            count.transform(TRAIN[0]), TRAIN[2]
        )
        for strength in STRENGTHS
    }
    right = {c: one.score(count.transform(HELD[0]), HELD[2]) for c, one in fitted.items()}
    found = BagOfWords.fit(TRAIN, HELD, classes=2)
    assert right[found.strength] == max(right.values()) and len(set(right.values())) > 1
    assert found.strength == min(c for c in STRENGTHS if right[c] == max(right.values()))
    theirs = fitted[found.strength].predict_proba(count.transform(OTHER[0]))
    ours = found.probabilities(OTHER[0])
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    np.testing.assert_allclose(ours.sum(1), 1, atol=1e-6)
    assert ours.dtype == np.float32
    assert (ours.argmax(1) == OTHER[2]).mean() > 0.7
    assert np.array_equal(BagOfWords.fit(TRAIN, HELD, classes=2).probabilities(OTHER[0]), ours)
    assert BagOfWords.fit(TRAIN, classes=2).strength == 2.0


def test_of_pairs_the_words_of_each_and_those_of_one_only_are_counted():
    texts, _, _ = TRAIN
    seconds = texts[1:] + texts[:1]
    same = [int(row % 3 == 0) for row in range(len(texts))]
    seconds = [
        text if alike else other for text, other, alike in zip(texts, seconds, same, strict=True)
    ]
    found = BagOfWords.fit((texts, seconds, same), classes=2)
    count = counter().fit([*texts, *seconds])
    one, two = count.transform(texts), count.transform(seconds)
    wide = hstack([one, two, abs(one - two)], format="csr")
    theirs = LogisticRegression(C=2.0, max_iter=300, tol=1e-3).fit(wide, same)
    ours = found.probabilities(texts, seconds)
    np.testing.assert_allclose(ours, theirs.predict_proba(wide), atol=1e-6)
    assert (ours.argmax(1) == same).all()  # the difference alone tells


def test_a_class_that_no_text_has_is_never_probable():
    texts, _, labels = TRAIN
    apart = [2 * label for label in labels]
    found = BagOfWords.fit((texts, [], apart), (texts, [], apart), classes=4)
    shares = found.probabilities(OTHER[0])
    assert shares.shape == (40, 4) and not shares[:, [1, 3]].any()
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)
    two = BagOfWords.fit((texts, [], labels), (texts, [], labels), classes=2)
    np.testing.assert_allclose(shares[:, [0, 2]], two.probabilities(OTHER[0]), atol=1e-6)


@pytest.mark.parametrize("texts", [[" ", "\t", " "], ["!", "?", "!"]], ids=["no word", "signs"])
def test_texts_without_words_are_counted_as_well(texts):
    shares = BagOfWords.fit((texts, (), (0, 1, 0)), classes=2).probabilities([*texts, "word"])
    assert np.isfinite(shares).all() and (shares[-1] > 0).all()
