"""What counting words can do: TF-IDF and a logistic regression, to stand beside a model.

    simple = BagOfWords.fit((texts, (), labels), (held_texts, (), held_labels), classes=2)
    simple.probabilities(others)                    # n classes

A model of texts that does no better than this has learnt nothing but words. Words and pairs of
neighbours are counted, each weighed by how rare it is; of a pair of texts, those of each text and
those that only one of them has. How strongly the regression is held back is chosen on held-out
texts. scikit-learn does the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32

AT_ONCE = 10_000  # texts whose words are counted at a time
STRENGTHS = (0.5, 2.0, 8.0, 32.0)  # inverse to how strongly weights are held back
WORD = r"(?u)\w+|[^\w\s]"
Rows = tuple[Sequence[str], Sequence[str], Sequence[int]]  # texts, second texts or none, labels


@dataclass(frozen=True, eq=False)
class BagOfWords:
    """A fitted counter of words."""

    counter: Any  # TfidfVectorizer
    regression: Any  # LogisticRegression
    classes: int
    strength: float

    @classmethod
    def fit(cls, train: Rows, held: Rows | None = None, *, classes: int) -> BagOfWords:
        """The regression that does best on the texts held out, or that of strength 2."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        texts, seconds, labels = train
        counter = TfidfVectorizer(
            token_pattern=WORD, ngram_range=(1, 2), sublinear_tf=True, dtype=np.float32
        )
        try:
            counter.fit([*texts, *seconds])
        except ValueError:  # not one word in all the texts
            counter = TfidfVectorizer(analyzer="char").fit([*texts, *seconds, "."])
        seen = features(counter, texts, seconds)
        best: tuple[float, BagOfWords] | None = None
        for strength in STRENGTHS if held is not None else (2.0,):
            regression = LogisticRegression(C=strength, max_iter=300, tol=1e-3)
            made = cls(counter, regression.fit(seen, np.asarray(labels)), classes, strength)
            right = 0.0
            if held is not None:
                given = made.probabilities(held[0], held[1]).argmax(-1)
                right = float((given == np.asarray(held[2])).mean())
            if best is None or right > best[0]:
                best = right, made
        assert best is not None
        return best[1]

    def probabilities(
        self, texts: Sequence[str], seconds: Sequence[str] = ()
    ) -> Float32[np.ndarray, "n classes"]:
        """Of every class, those that no text to learn from had included."""
        found = np.zeros((len(texts), self.classes), np.float32)
        for at in range(0, len(texts), AT_ONCE):
            some = slice(at, at + AT_ONCE)
            counts = features(self.counter, texts[some], seconds[some])
            found[some, self.regression.classes_] = self.regression.predict_proba(counts)
        return found / found.sum(1, keepdims=True)


def features(counter: Any, texts: Sequence[str], seconds: Sequence[str]) -> Any:
    """A sparse row a text, or a pair: the words of each, and how far they differ in each word."""
    from scipy.sparse import hstack

    first = counter.transform(texts)
    if not seconds:
        return first
    second = counter.transform(seconds)
    return hstack([first, second, abs(first - second)], format="csr")
