"""An order of words gains over chance exactly as far as it finds the words a model needs."""

import json

import numpy as np
import pytest
import torch

from golden import expect_error
from regard.evaluation.bootstrap import Interval
from regard.inspection import attribution as words_module
from regard.inspection.attribution import left_out
from regard.inspection.word_faithfulness import word_faithfulness

START, END = 0, 1


def made(texts: int = 40, seed: int = 0):
    """Texts of 3 to 25 words of one or two tokens; how loud a word is, is its first token."""
    draw = np.random.default_rng(seed)
    tokens, spans, loud = [], [], []
    for _ in range(texts):
        text, places, values = [START], [], []
        for _ in range(draw.integers(3, 26)):
            value = int(draw.choice([0, 1, 2, 4, 8], p=[0.6, 0.1, 0.1, 0.1, 0.1]))
            pieces = int(draw.integers(1, 3))
            places.append((len(text), len(text) + pieces))
            text += [100 + value, 50][:pieces]
            values.append(float(value))
        tokens.append([*text, END])
        spans.append(places)
        loud.append(np.array(values))
    return tokens, spans, loud


def loudness(texts):
    """Two classes: loud and quiet. It needs loud words, and the more the louder they are."""
    sums = [sum(token - 100 for token in text if token >= 100) for text in texts]
    share = 1 - torch.exp(-torch.tensor(sums, dtype=torch.float64) / 4)
    return torch.stack((share, 1 - share), -1)


def test_the_true_order_gains_its_reverse_loses_and_noise_does_neither():
    texts, spans, loud = made()
    draw = np.random.default_rng(5)
    orders = {
        "truth": loud,
        "reversed": [-values for values in loud],
        "noise": [draw.random(len(values)) for values in loud],
        "nothing": [np.ones(len(values)) for values in loud],
    }
    found = word_faithfulness(loudness, texts, spans, orders, rounds=500)
    assert list(found.gain) == list(orders) and found.texts == 40
    assert found.gain["truth"].low > 0.1
    assert found.gain["reversed"].high < -0.1
    for name in ("noise", "nothing"):
        assert found.gain[name].low < 0 < found.gain[name].high
        assert abs(found.gain[name].value) < 0.05


def test_words_missed_when_left_out_are_words_that_matter():
    texts, spans, _ = made(20)
    answers = loudness(texts).argmax(-1).tolist()
    rows = [row for row, answer in enumerate(answers) if answer == 0]  # loud
    texts, spans = ([each[row] for row in rows] for each in (texts, spans))
    orders = {
        "left out": [
            left_out(loudness, text, places, 0) for text, places in zip(texts, spans, strict=True)
        ]
    }
    assert word_faithfulness(loudness, texts, spans, orders, rounds=200).gain["left out"].low > 0.1


def slowly(texts, spans, orders, steps):
    """Curves and areas of one order, a text and a word at a time."""
    grid = np.arange(steps + 1) / steps
    curves, areas = [], []
    for text, places, values in zip(texts, spans, orders, strict=True):
        answer = int(loudness([text])[0].argmax())
        order = sorted(range(len(places)), key=lambda word, v=values: -v[word])
        w = len(places)
        counts = sorted({round(w * step / steps) for step in range(steps + 1)})
        if w <= steps:
            counts = range(w + 1)
        both = [[], []]
        for count in counts:
            for kind, gone in enumerate((order[:count], order[count:])):
                shorter = list(text)
                for word in sorted(gone, key=lambda word, p=places: -p[word][0]):
                    del shorter[places[word][0] : places[word][1]]
                both[kind].append(loudness([shorter])[0, answer].item())
        shares = np.array(counts) / w
        curves.append([np.interp(grid, shares, curve) for curve in both])
        trapezoid = getattr(np, "trapezoid", None) or np.trapz
        areas.append([trapezoid(curve, shares) for curve in both])
    return np.mean(curves, 0), np.array(areas)


@pytest.mark.parametrize("batch", [3, 256], ids="batch={}".format)
@pytest.mark.parametrize("steps", [4, 10])
def test_all_at_once_is_what_one_word_at_a_time_gives(monkeypatch, batch, steps):
    monkeypatch.setattr(words_module, "BATCH", batch)
    texts, spans, _ = made(12)
    draw = np.random.default_rng(1)
    orders = [draw.random(len(places)) for places in spans]
    others = [draw.random(len(places)) for places in spans]
    found = word_faithfulness(
        loudness, texts, spans, {"a": orders, "b": others}, steps=steps, rounds=40
    )
    areas = {}
    for name, values in (("a", orders), ("b", others)):
        (deletion, insertion), areas[name] = slowly(texts, spans, values, steps)
        curves = found.curves[name]
        np.testing.assert_allclose(curves.shares, np.linspace(0, 1, steps + 1))
        np.testing.assert_allclose(curves.deletion, deletion, atol=1e-12)
        np.testing.assert_allclose(curves.insertion, insertion, atol=1e-12)
    # Against one another, so that what random orders did cancels.
    apart = (areas["b"] - areas["a"]).mean(0)
    expected = (apart[0] - apart[1]) / 2
    assert found.gain["a"].value - found.gain["b"].value == pytest.approx(expected, abs=1e-12)


def test_curves_go_from_the_whole_text_to_none_and_back():
    texts, spans, loud = made()
    found = word_faithfulness(loudness, texts, spans, {"truth": loud}, rounds=40)
    whole = loudness(texts).max(-1).values.mean().item()
    empty = loudness([[START, END]])[0]
    answers = loudness(texts).argmax(-1)
    bare = empty[answers].mean().item()
    for curves in found.curves.values():
        np.testing.assert_allclose(curves.deletion[[0, -1]], [whole, bare], atol=1e-12)
        np.testing.assert_allclose(curves.insertion[[0, -1]], [bare, whole], atol=1e-12)


def test_random_orders_are_many_and_every_one_is_as_likely():
    """Where one word decides, it is still there as often as words are."""

    def needs(texts):
        there = torch.tensor([float(7 in text) for text in texts], dtype=torch.float64)
        return torch.stack((there, 1 - there), -1)

    text, spans = [0, 7, 8, 8, 8, 1], [(place, place + 1) for place in range(1, 5)]
    found = word_faithfulness(
        needs, [text], [spans], {"a": [np.zeros(4)]}, steps=4, random_orders=600, rounds=40
    )
    left = 1 - np.arange(5) / 4
    np.testing.assert_allclose(found.curves["random"].deletion, left, atol=0.06)
    np.testing.assert_allclose(found.curves["random"].insertion, 1 - left, atol=0.06)


def test_the_same_seed_gives_the_same_and_orders_do_not_touch_each_other():
    texts, spans, loud = made(15)
    ties = [np.minimum(values, 1.0) for values in loud]
    run = lambda orders, seed: word_faithfulness(  # noqa: E731
        loudness, texts, spans, orders, seed=seed, rounds=50
    )
    one, two = run({"ties": ties}, 4), run({"loud": loud, "ties": ties}, 4)
    other = run({"ties": ties}, 5)
    assert one.gain["ties"] == two.gain["ties"] != other.gain["ties"]


def test_pairs_of_number_and_segment_pass_through_untouched():
    texts, spans, loud = made(8)
    pairs = [[(token, at % 2) for at, token in enumerate(text)] for text in texts]

    def of_pairs(given):
        assert all(isinstance(token, tuple) for text in given for token in text)
        return loudness([[token for token, _ in text] for text in given])

    one = word_faithfulness(loudness, texts, spans, {"a": loud}, rounds=40)
    two = word_faithfulness(of_pairs, pairs, spans, {"a": loud}, rounds=40)
    assert one.gain == two.gain


def test_values_can_be_written_and_read_as_json():
    texts, spans, loud = made(5)
    found = word_faithfulness(loudness, texts, spans, {"a": loud}, steps=2, rounds=40)
    values = json.loads(json.dumps(found.to_values()))
    assert values["texts"] == 5 and set(values["curves"]) == {"a", "random"}
    assert Interval(**values["gain"]["a"]) == found.gain["a"]
    assert values["curves"]["a"]["shares"] == [0, 0.5, 1]
    assert values["curves"]["a"]["insertion"] == found.curves["a"].insertion.tolist()


TEXTS, SPANS, LOUD = made(3)


@pytest.mark.parametrize(
    "changes",
    [
        {"texts": [], "spans": []},
        {"orders": {}},
        {"spans": SPANS[:2]},
        {"spans": [*SPANS[:2], []]},
        {"spans": [*SPANS[:2], [(0, 99)]]},
        {"orders": {"random": LOUD}},
        {"orders": {"a": LOUD[:1]}},
        {"orders": {"a": [LOUD[0], LOUD[1], np.ones(99)]}},
        {"orders": {"a": [values * np.nan for values in LOUD]}},
        {"steps": 0},
        {"random_orders": 0},
        {"probability": lambda texts: 3 * loudness(texts)},
        {"probability": lambda texts: loudness(texts)[0]},
    ],
)
def test_what_does_not_fit_is_said_with_numbers(changes):
    asked = {"probability": loudness, "texts": TEXTS, "spans": SPANS, "orders": {"a": LOUD}}
    with expect_error(ValueError):
        word_faithfulness(**{**asked, **changes})
