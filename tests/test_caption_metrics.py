"""Scores of captions are those of coco-caption, and METEOR-lite is a part of METEOR."""

import json
import math
import os
import time
from itertools import combinations, permutations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import expect_error
from record_caption_fixtures import (
    FIXTURES,
    coco_scores,
    java_meteor,
    java_meteor_lite,
    java_stems,
)
from regard.evaluation import captions, meteor
from regard.evaluation.bootstrap import bootstrap_of
from regard.evaluation.caption_bleu import bleu, bleu_counts, bleu_counts_plain, bleu_each, bleu_of
from regard.evaluation.captions import (
    METRICS,
    CaptionMetrics,
    assess,
    best,
    copied,
    distinct,
    summary,
    worst,
)
from regard.evaluation.cider import cider, cider_plain
from regard.evaluation.meteor import align, meteor_counts, meteor_each, meteor_of, meteor_words
from regard.evaluation.ngram import count_ngrams, ngrams
from regard.evaluation.porter import stem
from regard.evaluation.ptb import words
from regard.evaluation.rouge import common_words, common_words_plain, rouge_l

RECORDED = json.loads(FIXTURES.read_text("utf-8"))
CORPORA = [
    (
        [text.split() for text in corpus["hypotheses"]],
        [[text.split() for text in row] for row in corpus["references"]],
        corpus,
    )
    for corpus in RECORDED["corpora"]
]
SENTENCE = st.lists(st.sampled_from("abcde"), max_size=9)
CORPUS = st.lists(st.tuples(SENTENCE, st.lists(SENTENCE, min_size=1, max_size=3)), min_size=1)


def apart(pairs):
    return [words for words, _ in pairs], [known for _, known in pairs]


# ---- against what coco-caption and the jar said -------------------------------------------------


@pytest.mark.parametrize("said, known, recorded", CORPORA)
def test_bleu_rouge_and_cider_are_those_of_coco_caption(said, known, recorded):
    counts = bleu_counts(said, known)
    np.testing.assert_allclose(bleu(counts), recorded["bleu"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(bleu_each(counts), recorded["bleu_each"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(rouge_l(said, known), recorded["rouge"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(cider(said, known), recorded["cider"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("said, known, recorded", CORPORA)
def test_meteor_lite_is_the_jar_with_two_matchers_and_our_function_words(said, known, recorded):
    counts = meteor_counts(said, known)
    each = recorded["meteor_of_two_matchers_each"]
    np.testing.assert_allclose(meteor_each(counts), each, rtol=0, atol=1e-12)
    assert meteor.meteor(counts) == pytest.approx(recorded["meteor_of_two_matchers"], abs=1e-12)
    # Made-up sentences have few synonyms; Flickr8k's are further from METEOR (see below).
    assert abs(recorded["meteor"] - meteor.meteor(counts)) < 0.015


def test_stems_are_those_of_snowball():
    assert {word: stem(word) for word in RECORDED["stems"]} == RECORDED["stems"]


@pytest.mark.java
@given(CORPUS)
def test_random_corpora_score_as_in_coco_caption(pairs):
    pytest.importorskip("pycocoevalcap")
    said, known = apart(pairs)
    if not any(reference for row in known for reference in row):
        return  # there it stops with an error
    theirs = coco_scores(*([" ".join(w) for w in said], [[" ".join(w) for w in r] for r in known]))
    counts = bleu_counts(said, known)
    np.testing.assert_allclose(bleu(counts), theirs["bleu"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(bleu_each(counts), theirs["bleu_each"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(cider(said, known), theirs["cider"], rtol=0, atol=1e-9)
    ours = rouge_l(said, known)
    for row, (text, row_known) in enumerate(pairs):
        # Nothing against nothing: there 1, here 0.
        wanted = 0.0 if not text and [] in row_known else theirs["rouge"][row]
        assert ours[row] == pytest.approx(wanted, abs=1e-9)


# ---- fast against plain -------------------------------------------------------------------------


@given(CORPUS)
def test_fast_counts_are_the_plain_ones(pairs):
    said, known = apart(pairs)
    for fast, plain in zip(bleu_counts(said, known), bleu_counts_plain(said, known), strict=True):
        np.testing.assert_array_equal(fast, plain)
    np.testing.assert_allclose(cider(said, known), cider_plain(said, known), rtol=0, atol=1e-9)


@given(st.lists(SENTENCE, max_size=5))
def test_ngrams_of_many_sentences_are_those_of_each(sentences):
    for n, grams in enumerate(count_ngrams(sentences), start=1):
        for row, sentence in enumerate(sentences):
            times = sorted(grams.times[grams.sentence == row].tolist())
            assert times == sorted(ngrams(sentence, n).values())
        assert len(set(grams.gram.tolist())) == len(set().union(*(ngrams(s, n) for s in sentences)))


@given(SENTENCE, SENTENCE)
def test_common_words_by_bits_and_by_table_agree(a, b):
    assert common_words(a, b) == common_words_plain(a, b) == common_words(b, a)


def test_alignments_of_all_short_sentences_are_the_best_there_are():
    short = [list(words) for n in range(4) for words in product(["dog", "dogs", "run"], repeat=n)]
    for a, b in product(short, short):
        found = align(a, b)
        pairs = {(here, there) for here, there, _ in found}
        assert len({here for here, _ in pairs}) == len({there for _, there in pairs}) == len(found)
        for here, there, worth in found:
            assert worth == (1.0 if a[here] == b[there] else 0.6)
        certain = {
            (here, there)
            for here, there in product(range(len(a)), range(len(b)))
            if stem(a[here]) == stem(b[there])
            and sum(stem(word) == stem(a[here]) for word in (*a, *b)) == 2
        }
        ways = [way for way in every_alignment(a, b) if certain <= way]
        assert pairs in ways and cost(a, b, pairs) == min(cost(a, b, way) for way in ways)


def test_a_chunk_goes_on_past_forty_words_that_would_also_do():
    assert align([*["dog"] * 50, "cat", "dog"], ["cat", "dog"]) == [(50, 0, 1.0), (51, 1, 1.0)]


def every_alignment(a, b):
    for size in range(min(len(a), len(b)) + 1):
        for firsts in combinations(range(len(a)), size):
            for seconds in permutations(range(len(b)), size):
                way = set(zip(firsts, seconds, strict=True))
                if all(stem(a[here]) == stem(b[there]) for here, there in way):
                    yield way


def cost(a, b, way):
    """Fewest is best: equal words, negative, and then chunks."""
    equal = sum(a[here] == b[there] for here, there in way)
    chunks = sum((here - 1, there - 1) not in way for here, there in way)
    return -equal, chunks


# ---- what the figures mean ----------------------------------------------------------------------


def test_a_known_bleu_by_hand():
    counts = bleu_counts([["a", "a", "b"]], [[["a", "b", "c", "d"], ["a"] * 9]])
    assert counts.matched.tolist() == [[3, 2, 0, 0]]  # a a, a b
    assert counts.wanted.tolist() == [4]
    assert bleu(counts)[0] == pytest.approx(math.exp(1 - 4 / 3))
    assert bleu(counts)[1] == pytest.approx(math.exp(1 - 4 / 3))


def test_the_shorter_of_two_references_as_near_is_the_measure():
    assert bleu_counts([["a"] * 4], [[["a"] * 5, ["a"] * 3]]).wanted.tolist() == [3]


def test_a_known_rouge_by_hand():
    (score,) = rouge_l([["a", "x", "b"]], [[["a", "b"], ["z"]]])
    precision, recall = 2 / 3, 1.0
    assert score == pytest.approx(2.44 * precision * recall / (recall + 1.44 * precision))


def test_what_only_these_people_say_scores_ten_and_what_all_say_nothing():
    known = [[["red", "dog", "runs", "fast"]] * 2, [["blue", "cat", "sits", "still"]] * 2]
    assert cider([row[0] for row in known], known) == pytest.approx([10.0, 10.0])
    assert cider([known[0][0]] * 2, [known[0]] * 2).tolist() == [0.0, 0.0]
    assert cider([known[0][0]], known[:1]).tolist() == [0.0]  # one image: nothing is rare


def test_meteor_prefers_one_piece_and_the_whole():
    known = [[["a", "dog", "runs", "on", "grass"]]] * 4
    said = ["a dog runs on grass", "a dog runs on", "grass on runs dog a", "a dog ran on grass"]
    same, short, turned, irregular = meteor_each(meteor_counts([s.split() for s in said], known))
    assert same == 1.0 > short > turned
    assert irregular < 1.0


def test_function_words_weigh_a_quarter_and_others_three():
    (score,) = meteor_each(meteor_counts([["the", "dog"]], [[["a", "dog"]]]))
    assert score == pytest.approx(0.75 * (1 - 0.6))  # one word in one piece
    (score,) = meteor_each(meteor_counts([["the", "dog"]], [[["the", "cat"]]]))
    assert score == pytest.approx(0.25 * (1 - 0.6))


def test_every_function_word_is_listed_once_and_as_words_come():
    listed = [word for row in meteor.FUNCTION_WORDS_BY_KIND.values() for word in row.split()]
    assert len(listed) == len(meteor.FUNCTION_WORDS)
    assert all(word == word.lower() for word in listed)
    sentence = "They don't (I'll, it's) and we've, he'd, I'm, you're: can't!"
    assert meteor.FUNCTION_WORDS.issuperset(meteor_words(words(sentence)))


def test_the_best_reference_counts_in_meteor():
    counts = meteor_counts([["a", "dog"]], [[["cats"], ["a", "dog"], ["a"]]])
    assert meteor.meteor(counts) == 1.0


def test_meteor_cuts_words_once_more():
    cut = meteor_words(words("a t-shirt's don't U.S. (and/or o'clock 3.5 st. end st."))
    assert " ".join(cut) == "a t shirt ' s do n 't us -lrb- and / or o 'clock 3.5 st. end st ."


@pytest.mark.parametrize("n", [1, 4])
def test_intervals_of_bleu_resample_the_whole(n):
    said, known, recorded = CORPORA[0]
    counts = bleu_counts(said, known)
    rows = np.array([[0, 3, 3, 9], [1, 2, 4, 8]])
    for line, value in zip(rows, bleu_of(counts, n)(rows), strict=True):
        again = bleu(bleu_counts([said[r] for r in line], [known[r] for r in line]))
        assert value == pytest.approx(again[n - 1], abs=1e-12)
    assert bootstrap_of(len(said), bleu_of(counts, n)).value == recorded["bleu"][n - 1]


def test_intervals_of_meteor_resample_the_whole():
    said, known, _ = CORPORA[0]
    rows = np.array([[0, 3, 3, 9]])
    (value,) = meteor_of(meteor_counts(said, known))(rows)
    again = meteor_counts([said[r] for r in rows[0]], [known[r] for r in rows[0]])
    assert value == pytest.approx(meteor.meteor(again), abs=1e-12)


# ---- all of it together -------------------------------------------------------------------------


def test_assess_gives_what_each_metric_gives():
    said, known, recorded = CORPORA[0]
    texts, others = recorded["hypotheses"], recorded["references"]
    scores = assess(texts, others, training=[texts[8].upper() + " .", "never said"], rounds=200)
    assert tuple(scores.figures) == tuple(scores.per_image) == METRICS
    values = [figure.value for figure in scores.figures.values()]
    wanted = [*recorded["bleu"], recorded["meteor_of_two_matchers"]]
    wanted += [np.mean(recorded["rouge"]), np.mean(recorded["cider"])]
    assert values == pytest.approx(wanted, abs=1e-12)
    assert all(low <= value <= high for value, low, high in scores.figures.values())
    assert scores.copied == 1 / 40 and scores.empty == 1 and scores.count == 40
    assert scores.length == sum(map(len, said)) / 40
    assert scores.distinct == (distinct(said, 1), distinct(said, 2))
    np.testing.assert_allclose(scores.per_image["CIDEr-D"], cider(said, known), atol=1e-12)


def test_best_and_worst_rows_in_order():
    _, _, recorded = CORPORA[0]
    scores = assess(recorded["hypotheses"], recorded["references"], rounds=100)
    values = scores.per_image["ROUGE-L"]
    high, low = best(scores, 3, "ROUGE-L"), worst(scores, 3, "ROUGE-L")
    assert values[high].tolist() == sorted(values, reverse=True)[:3]
    assert values[low].tolist() == sorted(values)[:3] and 1 in low  # row 1 is empty
    assert len(best(scores, 100)) == 40 and len(worst(scores, 0)) == 0
    with expect_error(ValueError):
        best(scores, 1, "SPICE")
    with expect_error(ValueError):
        worst(scores, -1)


def test_scores_survive_json_and_are_told():
    _, _, recorded = CORPORA[1]
    scores = assess(recorded["hypotheses"], recorded["references"], ["a"], rounds=100)
    again = CaptionMetrics.from_values(json.loads(json.dumps(scores.to_values())))
    assert again.to_values() == scores.to_values()
    text = summary(scores)
    assert summary(again) == text
    assert "CIDEr-D" in text and "METEOR-lite" in text and "15 images" in text and "empty" in text
    with expect_error(ValueError):
        CaptionMetrics.from_values({"figures": {}})


def test_distinct_and_copied_by_hand():
    said = [["a", "dog"], ["a", "dog"], ["a"], []]
    assert distinct(said, 1) == 2 / 5 and distinct(said, 2) == 1 / 2
    assert distinct([[]], 1) == 0.0
    assert copied(said, {("a",), ()}) == 1 / 4


# ---- input that is hardly one -------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " . ! ", "😀", "\n"], ids=repr)
def test_a_hypothesis_without_words_scores_nothing(text):
    scores = assess([text, "a dog"], [["a dog runs"], ["a dog runs"]], rounds=100)
    for name in METRICS:
        assert scores.per_image[name][0] == pytest.approx(0.0, abs=1e-6), name
    assert scores.empty == 1


@pytest.mark.parametrize(
    "text",
    ["word " * 1000, "the dog " * 500, "שלום עולם מרחבא", "a 😀 dog 👍🏽 runs"],
    ids=lambda t: t[:9],
)
def test_long_foreign_and_decorated_sentences_match_themselves(text):
    start = time.perf_counter()
    scores = assess([text, "a cat"], [[text], ["a cat sits"]], rounds=100)
    assert time.perf_counter() - start < 20
    assert scores.per_image["ROUGE-L"][0] == pytest.approx(1.0)
    assert scores.per_image["BLEU-1"][0] == pytest.approx(1.0, abs=1e-6)
    assert scores.per_image["METEOR-lite"][0] == pytest.approx(1.0)


def test_a_reference_without_words_is_borne_beside_others():
    scores = assess(["a dog"], [["...", "a dog"]], rounds=100)
    assert scores.per_image["ROUGE-L"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ([], []),
        (["a"], []),
        (["a", "b"], [["a"], []]),
        (["a"], [["!", ""]]),
    ],
)
def test_what_cannot_be_compared_is_refused(said, known):
    with expect_error(ValueError):
        assess(said, known)


def test_one_text_in_place_of_a_list_is_refused():
    with expect_error(ValueError):
        captions.assess(["a"], ["a dog"])


@pytest.mark.parametrize("metric", [bleu_counts, rouge_l, cider, meteor_counts])
def test_every_metric_refuses_rows_without_references_and_uncut_text(metric):
    with expect_error(ValueError):
        metric([["a"], ["b"]], [[["a"]], []])
    with expect_error(ValueError):
        metric(["a dog"], [[["a"]]])
    with expect_error(ValueError):
        metric([["a"]], [[["a"]]] * 2)


def test_all_references_empty_is_no_error_of_a_single_metric():
    assert bleu(bleu_counts([["a"]], [[[]]])).tolist() == pytest.approx([0] * 4, abs=1e-3)
    assert rouge_l([[]], [[[]]]).tolist() == [0.0]
    assert cider([["a"], []], [[[]], [[]]]).tolist() == [0.0, 0.0]
    assert meteor.meteor(meteor_counts([[]], [[[]]])) == 0.0


# ---- speed, and Java alive ----------------------------------------------------------------------


def test_five_thousand_images_take_seconds(in_a_plain_process):
    told = in_a_plain_process(
        "import random, time\n"
        "from regard.evaluation.cider import cider\n"
        "draw = random.Random(0)\n"
        "vocabulary = [f'w{int(draw.paretovariate(0.8))}' for _ in range(20000)]\n"
        "say = lambda: draw.sample(vocabulary, 11)\n"
        "said = [say() for _ in range(5000)]\n"
        "known = [[say() for _ in range(5)] for _ in said]\n"
        "start = time.process_time()\n"
        "cider(said, known)\n"
        "print(time.process_time() - start)\n"
    )
    assert float(told) < 10  # about 1.3 s on a quiet core


@pytest.mark.java
def test_stems_of_many_made_up_words_are_still_those_of_the_jar():
    pytest.importorskip("pycocoevalcap")
    starts = words("hop run control national happ fizz snow cr general y boy arsen")
    ends = words("ing ed s es ies y ly li ally ation ational izer ness fulness ement er ion e ll")
    made = [a + b + c for a in starts for b in ends for c in ("", *ends)]
    assert [stem(word) for word in made] == java_stems(made)


@pytest.mark.java
@pytest.mark.data("flickr8k")
def test_how_far_meteor_lite_is_from_meteor_on_flickr8k():
    """People's first captions against their other four: 23.91 for 25.00."""
    pytest.importorskip("pycocoevalcap")
    folder = Path(os.environ["REGARD_DATA"]) / "flickr8k/Flickr8k_text"
    every: dict[str, list[str]] = {}
    for line in (folder / "Flickr8k.token.txt").read_text("utf-8").splitlines():
        place, text = line.split("\t")
        every.setdefault(place.split("#")[0], []).append(" ".join(words(text)))
    rows = [every[name] for name in (folder / "Flickr_8k.testImages.txt").read_text().split()]
    said, known = [row[0] for row in rows], [row[1:] for row in rows]
    ours = meteor_counts([s.split() for s in said], [[s.split() for s in row] for row in known])
    two, each = java_meteor_lite(said, known)
    full, _ = java_meteor(said, known)
    assert meteor.meteor(ours) == pytest.approx(two, abs=1e-4)
    assert (np.abs(meteor_each(ours) - each) < 1e-9).mean() > 0.995
    assert full - meteor.meteor(ours) == pytest.approx(0.0110, abs=0.0005)
