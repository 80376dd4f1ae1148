"""Grounding: against counting pixels, against loops, and what is refused."""

import json
import math
import time
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from golden import expect_error
from regard.data.synthetic.scene_captions import captions
from regard.data.synthetic.scene_grammar import mentioned
from regard.data.synthetic.scenes import scene
from regard.data.tokenizer import TokenizerConfig, fit_vocabulary
from regard.evaluation.bootstrap import Interval, unseen
from regard.evaluation.grounding import (
    Aim,
    Grounding,
    Head,
    Looks,
    choose_head,
    ground,
    mass,
    others,
    pointing,
    rank_heads,
    scene_targets,
    summary,
    uniform_aims,
)
from regard.inspection.caption_maps import caption_maps
from regard.models.captioner import Captioner
from regard.models.config import CaptionerConfig

ROUNDS = 50
WHOLE = (0.0, 0.0, 1.0, 1.0)
LEFT, RIGHT = (0.0, 0.0, 0.5, 1.0), (0.5, 0.0, 1.0, 1.0)


def shares(weights):
    """Weights as a map that sums to 1."""
    weights = np.asarray(weights, np.float64)
    return weights / weights.sum((-2, -1), keepdims=True)


@st.composite
def looked_at(draw):
    """A map of few different weights, and a box on the pixels of an image, as whole numbers."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    y, x = rows * draw(st.integers(1, 4)), columns * draw(st.integers(1, 4))
    cells = st.lists(st.integers(0, 3), min_size=rows * columns, max_size=rows * columns)
    weights = np.array(draw(cells.filter(any))).reshape(rows, columns)
    left, top = draw(st.integers(0, x - 1)), draw(st.integers(0, y - 1))
    right, bottom = draw(st.integers(left + 1, x)), draw(st.integers(top + 1, y))
    return weights, (left, top, right, bottom), (y, x)


def to_shares(box, y, x):
    left, top, right, bottom = box
    return (left / x, top / y, right / x, bottom / y)


@given(looked_at())
def test_mass_is_what_counting_pixels_gives(parts):
    weights, box, (y, x) = parts
    rows, columns = weights.shape
    left, top, right, bottom = box
    inside = Fraction(0)
    for down in range(top, bottom):
        for across in range(left, right):
            whole = int(weights[down * rows // y, across * columns // x])
            inside += Fraction(whole * rows * columns, y * x)
    expected = inside / int(weights.sum())
    assert mass(shares(weights), to_shares(box, y, x)) == pytest.approx(float(expected), abs=1e-12)


@given(looked_at())
def test_pointing_is_what_exact_arithmetic_gives(parts):
    weights, box, (y, x) = parts
    rows, columns = weights.shape
    best = [(r, c) for r in range(rows) for c in range(columns) if weights[r, c] == weights.max()]
    down = Fraction(sum(2 * r + 1 for r, _ in best), 2 * len(best) * rows)
    across = Fraction(sum(2 * c + 1 for _, c in best), 2 * len(best) * columns)
    left, top, right, bottom = box
    expected = left <= across * x <= right and top <= down * y <= bottom
    assert pointing(shares(weights), to_shares(box, y, x)) is expected


@given(looked_at())
def test_a_mirror_changes_neither(parts):
    weights, box, (y, x) = parts
    weights, (left, top, right, bottom) = shares(weights), to_shares(box, y, x)
    for seen, other in (
        (weights[:, ::-1], (1 - right, top, 1 - left, bottom)),
        (weights[::-1], (left, 1 - bottom, right, 1 - top)),
        (weights.T, (top, left, bottom, right)),
    ):
        assert pointing(seen, other) == pointing(weights, (left, top, right, bottom))
        assert mass(seen, other) == pytest.approx(mass(weights, (left, top, right, bottom)))


def test_cases_by_hand():
    weights = np.array([[0.5, 0.125], [0.25, 0.125]])
    assert mass(weights, LEFT) == 0.75 and mass(weights, RIGHT) == 0.25
    assert mass(weights, (0.25, 0.25, 0.75, 0.75)) == 0.25  # a quarter of everything
    assert mass(weights, (0.0, 0.0, 0.25, 0.5)) == 0.25  # half of a patch
    assert pointing(weights, LEFT) and not pointing(weights, RIGHT)
    assert pointing(weights, (0.25, 0.25, 0.3, 0.3)), "the edge belongs to the box"
    assert not pointing(weights, (0.251, 0.25, 0.3, 0.3))


def test_patches_read_equally_much_point_at_the_middle_between_them():
    ends = np.array([[0.5, 0.0, 0.5]])
    assert pointing(ends, (0.4, 0.0, 0.6, 1.0)) and not pointing(ends, (0.0, 0.0, 0.4, 1.0))
    nearly = np.array([[0.5, 0.0, 0.5 - 1e-9]])
    assert pointing(nearly, (0.4, 0.0, 0.6, 1.0)), "rounding broke the tie"
    clearly = np.array([[0.5 + 1e-5, 0.0, 0.5 - 1e-5]])
    assert pointing(clearly, (0.0, 0.0, 0.4, 1.0))


def some_looks(seed, captions=7, heads=6, layers=3, grid=(3, 4), dtype=np.float32):
    """Captions of 1 … 6 words, some without targets."""
    draws = np.random.default_rng(seed)
    looks = []
    for row in range(captions):
        words = int(draws.integers(1, 7))
        maps = shares(draws.integers(0, 4, (heads, words, *grid)) + 1e-3).astype(dtype)
        named = sorted(draws.choice(words, draws.integers(0, words + 1), False).tolist())
        named = named or ([0] if row < 2 else [])
        looks.append(Looks(maps, [(word, some_box(draws)) for word in named], layers))
    return looks


def some_box(draws):
    left, right = np.sort(draws.choice(13, 2, replace=False)) / 12
    top, bottom = np.sort(draws.choice(13, 2, replace=False)) / 12
    return (float(left), float(top), float(right), float(bottom))


def read_by(look, head, word):
    """The map of a word that a head read, in the plainest way."""
    each = len(look.maps) // look.layers
    chosen = [
        look.maps[layer * each + number, word].astype(np.float64)
        for layer in range(look.layers)
        for number in range(each)
        if head.layer in (None, layer) and head.head in (None, number)
    ]
    return sum(chosen) / len(chosen)


def every_head(layers, each):
    yield Head()
    for layer in range(layers):
        yield Head(layer)
        yield from (Head(layer, head) for head in range(each))


@given(st.integers(0, 10_000), st.sampled_from([np.float16, np.float32, np.float64]))
@settings(max_examples=25)
def test_ranks_and_figures_are_those_of_a_loop_over_words(seed, dtype):
    looks = some_looks(seed, grid=((3, 4), (3, 3))[seed % 2], dtype=dtype)
    targets = [(look, *target) for look in looks for target in look.targets]
    plain = {}
    for head in every_head(3, 2):
        maps = [(read_by(look, head, word), box) for look, word, box in targets]
        hits, masses = ([figure(*pair) for pair in maps] for figure in (pointing, mass))
        plain[head] = (np.mean(hits), np.mean(masses))
    ranked = rank_heads(looks)
    assert {one.head for one in ranked} == plain.keys() and len(ranked) == len(plain)
    for head, found, share in ranked:
        assert (found, share) == pytest.approx(plain[head], abs=1e-12)
    order = [(one.pointing, one.mass) for one in ranked]
    assert order == sorted(order, reverse=True) and ranked[0].head == choose_head(looks)

    got = ground(looks, ranked[0].head, rounds=ROUNDS)
    assert got.attention.pointing.value == pytest.approx(ranked[0].pointing)
    assert got.attention.mass.value == pytest.approx(ranked[0].mass)
    assert got.words == len(targets) and got.captions == sum(bool(k.targets) for k in looks)


def one_patch(*places, columns=4):
    """For each word, a map that is all on one patch of a single row."""
    return np.eye(columns)[list(places)][:, None]  # words 1 columns


def test_a_planted_head_is_chosen():
    looks = []
    for seed in range(20):
        look = some_looks(seed, 1, grid=(4, 4))[0]
        maps = look.maps.copy()
        for word, (left, top, right, bottom) in look.targets:
            x, y = np.arange(4) / 4 + 0.125, np.arange(4)[:, None] / 4 + 0.125
            far = ((x - (left + right) / 2) ** 2 + (y - (top + bottom) / 2) ** 2) * 30
            maps[3, word] = shares(np.exp(-far))
        looks.append(Looks(maps, look.targets, 3))
    assert choose_head(looks) == Head(1, 1)


def test_the_mean_of_a_layer_is_chosen_where_its_heads_agree_on_one_thing_only():
    box = (0.0, 0.0, 0.25, 1.0)
    heads = [[0.4, 0.6, 0, 0], [0.4, 0, 0.6, 0], [0, 0, 0.7, 0.3], [0.3, 0, 0.7, 0]]
    looks = [Looks(np.array(heads)[:, None, None], [(0, box)], layers=2)]
    assert choose_head(looks) == Head(0)


def test_heads_that_point_equally_well_go_by_their_mass_and_then_the_simplest():
    heads = [[0.6, 0.4], [0.9, 0.1], [0.9, 0.1]]
    looks = [Looks(np.array(heads)[:, None, None], [(0, LEFT)])]
    ranked = [one.head for one in rank_heads(looks)]
    assert ranked == [Head(0, 1), Head(0, 2), Head(), Head(0, 0)]
    alike = [Looks(np.array([[0.75, 0.25]] * 4)[:, None, None], [(0, LEFT)], layers=2)]
    assert [str(one.head) for one in rank_heads(alike)] == [
        *("mean of all heads", "mean of layer 1", "mean of layer 2"),
        *("layer 1, head 1", "layer 1, head 2", "layer 2, head 1", "layer 2, head 2"),
    ]


@pytest.mark.parametrize(("heads", "layers", "ways"), [(1, 1, 1), (3, 1, 4), (3, 3, 4), (4, 2, 7)])
def test_a_mean_of_one_is_not_ranked_beside_that_one(heads, layers, ways):
    look = Looks(np.repeat(one_patch(0)[None], heads, 0), [(0, LEFT)], layers)
    assert len({one.head for one in rank_heads([look])}) == ways == len(rank_heads([look]))


def test_captions_are_drawn_with_all_of_their_words():
    looks = [Looks(one_patch(*[i % 2] * 50)[None], [(w, LEFT) for w in range(50)]) for i in (0, 1)]
    looks = [Looks(looks[i % 2].maps[..., [0, 3, 1, 2]], looks[0].targets) for i in range(20)]
    got = ground(looks, Head(), rounds=20_000).attention.pointing
    exact = stats.binom(20, 0.5).ppf([0.025, 0.975]) / 20
    assert got.value == 0.5 and (got.low, got.high) == pytest.approx(exact)


@given(st.integers(0, 1000))
@settings(max_examples=25)
def test_intervals_are_those_of_resampling_in_a_loop(seed):
    looks = [look for look in some_looks(seed) if look.targets]
    got = ground(looks, Head(2, 1), rounds=ROUNDS, seed=3).attention.mass
    values = [[mass(look.maps[5, word], box) for word, box in look.targets] for look in looks]
    drawn = np.random.default_rng(3).integers(len(looks), size=(ROUNDS, len(looks)))
    means = [np.mean([value for row in rows for value in values[row]]) for rows in drawn]
    assert (got.low, got.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))


def test_captions_that_name_nothing_change_nothing():
    looks = some_looks(5, captions=30)
    naming = [look for look in looks if look.targets]
    assert 2 < len(naming) < 30
    empty = Looks(np.zeros((6, 0, 3, 4)), [], 3)
    assert ground([empty, *looks], Head(1), rounds=ROUNDS) == ground(naming, Head(1), rounds=ROUNDS)
    assert rank_heads([*looks, empty]) == rank_heads(naming)


def test_without_a_miss_the_exact_bound_stands_in():
    looks = [Looks(one_patch(0, 1)[None], [(0, LEFT), (1, LEFT)]) for _ in range(10)]
    assert ground(looks, Head()).attention.pointing == Interval(1.0, 1 - unseen(10), 1.0)
    looks = [Looks(one_patch(0, 1)[None], [(0, RIGHT), (1, RIGHT)]) for _ in range(10)]
    assert ground(looks, Head()).attention.pointing == Interval(0.0, 0.0, unseen(10))


@given(looked_at())
def test_uniform_attention_is_the_mean_over_all_patches(parts):
    weights, box, (y, x) = parts
    rows, columns = weights.shape
    box = to_shares(box, y, x)
    chance, area = uniform_aims(np.array([box]), rows, columns)
    single = np.eye(rows * columns).reshape(-1, rows, columns)
    assert chance[0] == pytest.approx(np.mean([pointing(one, box) for one in single]))
    assert area[0] == pytest.approx(mass(np.full((rows, columns), 1 / (rows * columns)), box))


def test_uniform_figures_are_means_over_words():
    boxes = [(0.0, 0.0, 0.25, 1.0), LEFT, (0.0, 0.0, 1.0, 0.25)]
    looks = [
        Looks(one_patch(0)[None], [(0, boxes[0])]),
        Looks(one_patch(0, 0)[None], [(0, boxes[1]), (1, boxes[2])]),
    ]
    got = ground(looks, Head(), rounds=ROUNDS).uniform
    assert got.pointing.value == pytest.approx((0.25 + 0.5 + 0) / 3)
    assert got.mass.value == pytest.approx((0.25 + 0.5 + 0.25) / 3)


def test_a_word_is_shuffled_with_words_of_other_captions_all_equally_likely():
    caption = np.repeat(np.arange(4), [1, 3, 2, 4])
    drawn = np.array([others(caption, seed) for seed in range(4000)])
    assert (others(caption, 7) == others(caption, 7)).all()
    for word, own in enumerate(caption):
        found = np.bincount(drawn[:, word], minlength=10)
        assert not found[caption == own].any()
        assert stats.chisquare(found[caption != own]).pvalue > 1e-3


def test_shuffling_takes_away_what_only_the_right_map_knows():
    draws = np.random.default_rng(0)
    looks = []
    for _ in range(300):
        place = int(draws.integers(4))
        looks.append(Looks(one_patch(place)[None], [(0, (place / 4, 0.0, (place + 1) / 4, 1.0))]))
    got = ground(looks, Head())
    assert got.attention.pointing.value == got.attention.mass.value == 1
    for chance in (got.uniform, got.shuffled):
        assert chance.pointing.low < 0.26 and chance.pointing.high > 0.24
        assert 0.15 < chance.mass.value < 0.35
    assert got == ground(looks, Head()) and got != ground(looks, Head(), seed=1)

    always = [Looks(one_patch(1)[None], [(0, LEFT)]) for _ in range(20)]  # what habit alone gives
    assert ground(always, Head()).shuffled.pointing.value == 1


def test_words_of_a_scene_are_found_with_the_boxes_of_their_things():
    found = 0
    for picture in (scene(index, "validation") for index in range(40)):
        for text in captions(picture):
            texts = text.split()
            targets = scene_targets(text, picture)
            assert len(targets) == len(mentioned(text, picture))
            for word, box in targets:
                thing = next(t for t in picture.things if tuple(s / 64 for s in t.box) == box)
                assert texts[word].strip(",") in (thing.colour, thing.shape, "shape")
                found += 1
    assert found > 300


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_places_are_those_of_the_pieces_that_the_model_writes(kind):
    pictures = [scene(index, "train") for index in range(40)]
    pairs = [(text, picture) for picture in pictures for text in captions(picture)]
    texts = [text for text, _ in pairs]
    vocabulary = fit_vocabulary(texts, TokenizerConfig(name=kind, min_frequency=1, vocab_size=420))
    moved = 0
    for text, picture in pairs:
        numbers = vocabulary.encode(text)
        pieces = [vocabulary.entry(number) for number in numbers]
        targets = scene_targets(vocabulary.decode(numbers), picture, pieces)
        known = scene_targets(text, picture)
        assert [box for _, box in targets] == [box for _, box in known]
        for (piece, _), (word, _) in zip(targets, known, strict=True):
            written = text.split()[word].strip(",")
            assert written.startswith(pieces[piece].strip()) and pieces[piece].strip()
            assert "".join("".join(pieces[:piece]).split()) == "".join(text.split()[:word])
            moved += piece != word
    assert moved > 20


def test_pieces_of_another_caption_are_refused():
    picture = scene(0, "train")
    text = next(text for text in captions(picture) if mentioned(text, picture))
    with expect_error(ValueError):
        scene_targets(text, picture, text.split()[1:])


def test_what_is_no_caption_names_nothing_however_it_is_spelt():
    assert scene_targets("red red of <unknown>", scene(0, "train"), ["?"]) == []
    assert scene_targets("", scene(0, "train")) == []


def test_maps_of_a_captioner_can_be_measured():
    torch.manual_seed(0)
    model = Captioner(
        CaptionerConfig(
            vocab_size=9, width=16, heads=2, layers=3, encoder_width=8, context_length=16
        )
    ).eval()
    words = [[4, 5, 6], [7, 8]]
    maps = caption_maps(model, torch.randn(2, 12, 8), words, begin=1).numpy()
    looks = [
        Looks(
            found[:, :, : len(text)].reshape(6, len(text), 3, 4),
            [(len(text) - 1, (0.1, 0.2, 0.7, 0.8))],
            layers=3,
        )
        for found, text in zip(maps, words, strict=True)
    ]
    got = ground(looks, Head(2, 1), rounds=ROUNDS)
    plain = [mass(maps[0, 2, 1, 2].reshape(3, 4), looks[0].targets[0][1])]
    plain.append(mass(maps[1, 2, 1, 1].reshape(3, 4), looks[1].targets[0][1]))
    assert got.attention.mass.value == pytest.approx(np.mean(plain))


def test_a_thousand_captions_take_less_than_a_second_or_two_where_others_work():
    draws = np.random.default_rng(0)
    maps = draws.dirichlet(np.ones(64), (1000, 16, 12)).reshape(1000, 16, 12, 8, 8)
    maps = maps.astype(np.float32)
    start = time.process_time()
    looks = [Looks(one, [(word, WHOLE) for word in range(12)], 4) for one in maps]
    ground(looks, choose_head(looks))
    assert time.process_time() - start < 2


@given(st.integers(0, 1000))
@settings(max_examples=25)
def test_values_survive_json(seed):
    looks = some_looks(seed)
    for head in (Head(), Head(1), Head(2, 0), choose_head(looks)):
        got = ground(looks, head, rounds=ROUNDS)
        values = json.loads(json.dumps(got.to_values(), allow_nan=False))
        assert Grounding.from_values(values) == got


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("captions", 0),
        ("captions", 1.5),
        ("words", 1),
        ("head", {"layer": None, "head": 2}),
        ("head", {"layer": -1, "head": 2}),
        ("head", {"part": 1}),
        ("attention", {}),
        ("uniform.mass", {"value": 2.0, "low": 0.0, "high": 2.0}),
        ("shuffled.pointing", {"value": 0.5, "low": 0.6, "high": 0.4}),
        ("shuffled.pointing", {"value": math.nan, "low": 0.0, "high": 1.0}),
        ("attention.mass", {"value": 0.5}),
    ],
)
def test_values_of_something_else_are_refused(path, value):
    values = ground(some_looks(0), Head(), rounds=ROUNDS).to_values()
    assert values["captions"] == 7
    *outer, last = path.split(".")
    (values[outer[0]] if outer else values)[last] = value
    with expect_error(ValueError):
        Grounding.from_values(values)
    with expect_error(ValueError):
        Grounding.from_values({})


GOOD = np.full((4, 2, 2, 2), 0.25)


def changed(value, at=(1, 1, 0, 1)):
    maps = GOOD.copy()
    maps[at] = value
    return maps


@pytest.mark.parametrize(
    "maps",
    [
        changed(math.nan),
        changed(math.inf),
        changed(-0.25),
        changed([-0.1, 0.6], (1, 1, 0)),
        changed(0.26),
        GOOD * 4,
        np.zeros((1, 1, 2, 2)),
        changed([math.inf, -math.inf], (2, 0, 0)),
    ],
)
def test_maps_that_are_no_shares_are_refused(maps):
    with expect_error(ValueError):
        Looks(maps, [])
    bad = next(m for head in maps for m in head if (m != 0.25).any())
    for figure in (pointing, mass):
        with expect_error(ValueError):
            figure(bad, WHOLE)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("side", [-0.01, 1.01, math.nan, math.inf])
def test_boxes_outside_the_image_are_refused(place, side):
    box = tuple(side if i == place else WHOLE[i] for i in range(4))
    with expect_error(ValueError):
        Looks(GOOD, [(0, box)])
    for figure in (pointing, mass):
        with expect_error(ValueError):
            figure(GOOD[0, 0], box)


@pytest.mark.parametrize("box", [(0.5, 0.0, 0.5, 1.0), (0.0, 0.6, 1.0, 0.5)])
def test_boxes_without_an_inside_are_refused(box):
    with expect_error(ValueError):
        Looks(GOOD, [(0, box)])


@pytest.mark.parametrize(
    ("targets", "layers"),
    [
        ([(2, WHOLE)], 1),
        ([(-1, WHOLE)], 1),
        ([(1, WHOLE), (1, LEFT)], 1),
        ([], 3),
        ([], 0),
    ],
)
def test_targets_and_layers_fit_the_maps(targets, layers):
    with expect_error(ValueError):
        Looks(GOOD, targets, layers)


def test_what_cannot_be_measured_is_refused():
    with expect_error(ValueError):
        rank_heads([])
    with expect_error(ValueError):
        ground([Looks(GOOD, [])] * 2, Head())
    one = Looks(GOOD, [(0, LEFT)], 2)
    with expect_error(ValueError):
        ground([one, Looks(GOOD, [], 2)], Head())
    for head in (Head(2), Head(0, 2)):
        with expect_error(ValueError):
            ground([one, one], head)
    with expect_error(ValueError):
        choose_head([one, Looks(GOOD, [])])
    with expect_error(ValueError):
        choose_head([one, Looks(np.ones((4, 1, 1, 1)), [], 2)])


def test_misshaped_maps_are_refused(in_a_new_process):
    said = in_a_new_process("""
import numpy as np
from regard.evaluation.grounding import Looks, mass, pointing
for shape in ((2, 3, 4), (0, 1, 2, 2), (2, 1, 0, 2)):
    try:
        Looks(np.ones(shape), [])
    except ValueError as error:
        print(error)
for figure in (pointing, mass):
    try:
        figure(np.ones(4) / 4, (0, 0, 1, 1))
    except ValueError as error:
        print(error)
import sys
print("torch" in sys.modules)
""")
    *refused, torch_too = said.splitlines()
    assert [line.split(";")[0] for line in refused] == [
        "maps have shape (2, 3, 4)",
        "maps have shape (0, 1, 2, 2)",
        "maps have shape (2, 1, 0, 2)",
        *["a map has shape (4,)"] * 2,
    ]
    assert torch_too == "False"


def test_the_summary_in_full():
    aims = [
        Aim(Interval(0.7123, 0.68, 0.74), Interval(0.4, 0.38, 0.4211)),
        Aim(Interval(0.05, 0.04, 0.06), Interval(0.0512, 0.05, 0.055)),
        Aim(Interval(1.0, 0.95, 1.0), Interval(0.1, 0.09, 0.11)),
    ]
    assert summary(Grounding(Head(1, 2), 800, 2310, *aims)) == "\n".join(
        (
            "           pointing                   mass",
            "attention     71.2% (68.0 to 74.0)   40.0% (38.0 to 42.1)",
            "shuffled     100.0% (95.0 to 100.0)  10.0% (9.0 to 11.0)",
            "uniform        5.0% (4.0 to 6.0)      5.1% (5.0 to 5.5)",
            "2,310 words that name a thing, in 800 captions; layer 2, head 3.",
            "Ranges are 95% intervals over the choice of captions.",
        )
    )
