"""Scores of translations are sacreBLEU's, and their intervals hold what they should."""

import json
import sys

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import expect_error
from regard.errors import UserError
from regard.evaluation import translation
from regard.evaluation.caption_bleu import BleuCounts
from regard.evaluation.chrf import chrf, chrf_counts, chrf_each
from regard.evaluation.translation import (
    METRICS,
    TranslationMetrics,
    assess,
    best,
    smoothed_bleu,
    summary,
    words_13a,
    words_counted,
    worst,
)

REFERENCES = [
    "Ein Mann sägt einen Baumstamm.",
    "Zwei Hunde spielen im Schnee, einer ist braun.",
    "Die Frau kauft 3,5 kg Äpfel – für 2.99 € …",
    'Ein Kind ruft: „Komm her!" (laut) & lacht.',
    "Ja.",
    "Sechs Leute fahren mit dem Fahrrad durch einen Wald bei Regen.",
]
HYPOTHESES = [
    "Ein Mann sägt einen Baum.",
    "Zwei Hunde spielen im Schnee, einer ist braun.",
    "die Frau kauft 3,5 kg äpfel für 2.99 €",
    "",
    "Nein.",
    "Sechs Leute fahren Fahrrad im Wald.",
]
WORD = st.sampled_from(
    ["a", "B", "b", "ab", "dog.", "3,5", "x-y", "“é”", "&amp;", "<skipped>", "."]
)
TEXT = st.lists(WORD, max_size=9).map(" ".join) | st.text(max_size=20)
PAIRS = st.lists(st.tuples(TEXT, TEXT.filter(lambda t: bool(t.strip()))), min_size=1, max_size=6)


def apart(pairs):
    return [one for one, _ in pairs], [other for _, other in pairs]


# Against sacreBLEU


@given(PAIRS)
@settings(deadline=None)
def test_bleu_and_chrf_are_those_of_sacrebleu(pairs):
    said, known = apart(pairs)
    for lower in (False, True):
        theirs = sacrebleu.corpus_bleu(said, [known], lowercase=lower, force=True)
        texts = [[t.lower() if lower else t for t in side] for side in (said, known)]
        counts = words_counted(words_13a(), *texts)
        assert smoothed_bleu(counts) == pytest.approx(theirs.score / 100, abs=1e-12)
        assert (counts.length.sum(), counts.wanted.sum()) == (theirs.sys_len, theirs.ref_len)
        assert counts.matched.sum(0).tolist() == theirs.counts
    letters = chrf_counts(said, known)
    wanted = sacrebleu.corpus_chrf(said, [known]).score / 100
    assert chrf(letters) == pytest.approx(wanted, abs=1e-12)
    each = [sacrebleu.sentence_chrf(one, [other]).score / 100 for one, other in pairs]
    np.testing.assert_allclose(chrf_each(letters), each, rtol=0, atol=1e-12)


def test_all_figures_are_those_of_sacrebleu_on_sentences_of_people():
    scores = assess(HYPOTHESES, REFERENCES, rounds=100)
    cased = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES])
    theirs = {
        "BLEU": cased.score,
        "bleu_lowercase": sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=True).score,
        "chrF": sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score,
        "exact_match": 100 / 6,
    }
    ours = {name: 100 * interval.value for name, interval in scores.figures.items()}
    assert ours == pytest.approx(theirs, abs=1e-9) and tuple(ours) == METRICS
    assert ours["BLEU"] < ours["bleu_lowercase"]
    assert scores.length == pytest.approx(cased.ratio) and scores.length < 1
    assert (scores.count, scores.empty) == (6, 1)


def test_what_ends_a_line_is_no_part_of_it():
    said, known = ["ein Hund -\n", "a b c d"], ["ein Hund läuft -\n", "a b c d e"]
    theirs = sacrebleu.corpus_bleu(said, [known])
    ours = words_counted(words_13a(), said, known)
    assert smoothed_bleu(ours) == pytest.approx(theirs.score / 100)
    assert ours.length.sum() == theirs.sys_len == 7


def test_signatures_are_as_sacrebleu_writes_them():
    version = sacrebleu.__version__
    assert dict(assess(["a"], ["a"], rounds=100).signatures) == {
        "BLEU": f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}",
        "bleu_lowercase": f"nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:{version}",
        "chrF": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}",
    }


def test_a_length_without_a_match_counts_half_and_the_next_a_quarter():
    counts = BleuCounts(*(np.array([x]) for x in ([4, 2, 0, 0], [5, 4, 3, 2], 5, 5)))
    by_hand = (4 / 5 * 2 / 4 * 0.5 / 3 * 0.25 / 2) ** 0.25
    assert smoothed_bleu(counts) == pytest.approx(by_hand)


# Intervals


def test_every_resample_is_scored_by_the_same_rule():
    rows = np.array([[0, 1, 2, 3, 4, 5], [5, 5, 1, 0, 2, 2]])
    letters = chrf_counts(HYPOTHESES, REFERENCES)
    words = words_counted(words_13a(), HYPOTHESES, REFERENCES)
    for row, bleu_, chrf_ in zip(
        rows,
        translation.smoothed_bleu_of(words)(rows),
        translation.chrf_of(letters)(rows),
        strict=True,
    ):
        said, known = ([texts[at] for at in row] for texts in (HYPOTHESES, REFERENCES))
        assert 100 * bleu_ == pytest.approx(sacrebleu.corpus_bleu(said, [known]).score, abs=1e-9)
        assert 100 * chrf_ == pytest.approx(sacrebleu.corpus_chrf(said, [known]).score, abs=1e-9)


def test_intervals_hold_the_figure_and_narrow_with_more_sentences():
    few = assess(HYPOTHESES * 5, REFERENCES * 5)
    many = assess(HYPOTHESES * 80, REFERENCES * 80)
    for name in METRICS:
        (value, low, high), wide = many.figures[name], few.figures[name]
        assert low < value < high and value == pytest.approx(wide.value)
        assert (high - low) * 3 < wide.high - wide.low
    again = assess(HYPOTHESES * 5, REFERENCES * 5)
    assert again.figures == few.figures != assess(HYPOTHESES * 5, REFERENCES * 5, seed=1).figures


def test_all_right_and_all_wrong_are_the_ends():
    right = assess(REFERENCES, REFERENCES)
    assert all(interval.value == pytest.approx(1) for interval in right.figures.values())
    assert right.length == 1 and 0.4 < right.figures["exact_match"].low < 1  # six prove little
    wrong = assess(["", " ", "x", "", "", "%"], REFERENCES)
    assert all(wrong.figures[name].value == 0 for name in ("BLEU", "bleu_lowercase", "exact_match"))
    assert wrong.figures["chrF"].value < 0.01 and wrong.empty == 4


@given(PAIRS)
@settings(deadline=None, max_examples=20)
def test_any_texts_have_figures_between_0_and_1(pairs):
    scores = assess(*apart(pairs), rounds=50)
    for value, low, high in scores.figures.values():
        assert -1e-9 <= low <= high <= 1 + 1e-9 and -1e-9 <= value <= 1 + 1e-9


def test_spaces_between_words_are_no_mistake_but_case_is():
    scores = assess(["two  hundred ", "Two hundred"], ["two hundred", "two hundred"], rounds=100)
    assert scores.per_pair["exact_match"].tolist() == [1.0, 0.0]


# Looking, keeping, telling


def test_the_worst_come_first_and_ties_by_row():
    scores = assess(HYPOTHESES, REFERENCES, rounds=100)
    each = scores.per_pair["chrF"]
    assert worst(scores, 6).tolist() == np.argsort(each, kind="stable").tolist()
    assert worst(scores, 1).tolist() == [3] and best(scores, 1).tolist() == [1]
    assert worst(scores, 99).size == 6 and best(scores, 0).size == 0
    same = assess(["a"] * 4, ["a"] * 4, rounds=100)
    assert worst(same, 3).tolist() == best(same, 3).tolist() == [0, 1, 2]
    with expect_error(ValueError):
        worst(scores, -1)


def test_scores_are_kept_as_json():
    scores = assess(HYPOTHESES, REFERENCES, rounds=100)
    again = TranslationMetrics.from_values(json.loads(json.dumps(scores.to_values())))
    assert again.to_values() == scores.to_values() and summary(again) == summary(scores)
    assert again.figures == scores.figures and again.count == 6
    for damaged in ({}, {**scores.to_values(), "figures": {"BLEU": {}}}):
        with expect_error(ValueError):
            TranslationMetrics.from_values(damaged)


def test_the_summary_says_what_is_what():
    scores = assess(HYPOTHESES * 200, REFERENCES * 200, rounds=100)
    told = summary(scores, "captions").splitlines()
    assert [line.split()[0] for line in told[:6]] == [*METRICS, "length", "empty"]
    bleu = 100 * scores.figures["BLEU"].value
    assert told[0].split()[1] == f"{bleu:.1f}" and "1,200 captions" in told[0]
    assert told[4].split()[1] == f"{scores.length:.2f}" and told[5].split()[1] == "200"
    assert told[-1].endswith(f"tok:13a|smooth:exp|version:{sacrebleu.__version__}")
    assert "empty" not in summary(assess(["a"], ["b"], rounds=100))


# What is refused


@pytest.mark.parametrize(
    ("said", "known"),
    [
        (["a"], ["a", "b"]),
        ([], []),
        (["a", "b"], ["a", " \n"]),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(said, known):
    with expect_error(ValueError):
        assess(said, known)


def test_without_sacrebleu_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with expect_error(UserError):
        assess(["a"], ["a"])
