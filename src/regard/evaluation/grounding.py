"""Whether a captioner looked at a thing when it wrote the thing's name.

    looks = [Looks(maps, scene_targets(text, scene), layers=4), …]     # one for each caption
    head = choose_head(validation_looks)
    print(summary(ground(looks, head)))

Where the boxes of things are known, two figures tell how well a word's map of attention finds
the box of what the word names. *Pointing* (Zhang et al. 2016): how often the patch that was read
most lies in the box. *Mass*: how much of all that was read came from inside the box. Beside them
stand those of uniform attention, which knows nothing, and of maps shuffled between captions,
which know where things usually are but not where this one is.

A word's map is the one that produced it: the attention of the position whose *output* was the
word, where the word before it went in. Row t of `regard.inspection.caption_maps` is that of word t.

Which head to read is a choice like any other. Make it on captions that are not measured
afterwards, or the figures will be too good. Intervals are the 95% of `regard.evaluation.bootstrap`
over the choice of captions: words of one caption share an image and are no independent draws.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from operator import index
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from regard.data.synthetic.scene_drawing import boxes
from regard.data.synthetic.scene_grammar import mentioned
from regard.data.synthetic.scenes import Scene
from regard.evaluation.bootstrap import (
    ROUNDS,
    Interval,
    Statistic,
    bootstrap_of,
    interval_from,
    unseen,
)

Box: TypeAlias = tuple[float, float, float, float]  # left, top, right, bottom; shares of the image
Target: TypeAlias = tuple[int, Box]  # a word's place in its caption, and the box of what it names

TIED = 1e-6  # weights this close to the largest, as a share of it, differ by rounding alone
EDGE = 1e-9  # how far beyond the box's edge a point is still on it, for the same reason
SUM = 1e-3  # how far from 1 a map may sum, as half precision does


@dataclass(frozen=True, eq=False)
class Looks:
    """Where the words of one caption were looked for, and the boxes of those that name a thing.

    `maps` has every head of every layer, layer by layer, and a row for each word. Each map sums
    to 1 over the grid: the share of a class token is left out and made up for beforehand. A
    caption that names nothing has no targets, and is not counted.
    """

    maps: Float[np.ndarray, "heads words rows columns"]
    targets: Sequence[Target]
    layers: int = 1

    def __post_init__(self) -> None:
        shape = self.maps.shape
        if self.maps.ndim != 4 or 0 in (shape[0], *shape[2:]):
            raise ValueError(
                f"maps have shape {shape}; they should be (heads, words, rows, columns), and only "
                "words may be 0"
            )
        if self.layers < 1 or shape[0] % self.layers:
            raise ValueError(f"{shape[0]} heads are not as many in each of {self.layers} layers")
        _check_maps(self.maps)
        for word, box in self.targets:
            if not 0 <= word < shape[1]:
                raise ValueError(f"word {word} has a box, but the maps are of {shape[1]} words")
            _check_box(box)
        named = [word for word, _ in self.targets]
        if len(set(named)) < len(named):
            raise ValueError(f"words {named} have boxes; each word may name one thing only")


@dataclass(frozen=True)
class Head:
    """What is read: one head of one layer, the mean of a layer, or the mean of everything."""

    layer: int | None = None
    head: int | None = None

    def __post_init__(self) -> None:
        if self.layer is None and self.head is not None:
            raise ValueError(f"head={self.head} is of no layer; say which with layer=")
        if min(self.layer or 0, self.head or 0) < 0:
            raise ValueError(f"layer={self.layer} and head={self.head} count from 0")

    def __str__(self) -> str:
        if self.layer is None:
            return "mean of all heads"
        if self.head is None:
            return f"mean of layer {self.layer + 1}"
        return f"layer {self.layer + 1}, head {self.head + 1}"

    def among(self, heads: int, layers: int) -> slice:
        """Which of all heads, listed layer by layer, this is the mean of."""
        each = heads // layers
        if (self.layer or 0) >= layers or (self.head or 0) >= each:
            raise ValueError(f"there is no {self} in {layers} layers of {each} heads")
        if self.layer is None:
            return slice(0, heads)
        if self.head is None:
            return slice(self.layer * each, (self.layer + 1) * each)
        return slice(self.layer * each + self.head, self.layer * each + self.head + 1)


@dataclass(frozen=True)
class Aim:
    """How well maps find boxes: both are shares of 1, and more is better."""

    pointing: Interval
    mass: Interval

    def __post_init__(self) -> None:
        for name, interval in (("pointing", self.pointing), ("mass", self.mass)):
            shares = all(-EDGE <= share <= 1 + EDGE for share in interval)  # False for NaN
            if not shares or interval.low > interval.high:
                raise ValueError(
                    f"{name} is {interval.value}, from {interval.low} to {interval.high}; these "
                    "should be shares of 1 in order"
                )


@dataclass(frozen=True)
class Grounding:
    """How well words were looked for where they are, and how well by those who cannot know."""

    head: Head
    captions: int  # that name at least one thing
    words: int  # that name one
    attention: Aim
    uniform: Aim  # every patch read alike, and pointing at one at random
    shuffled: Aim  # each word with the map of a word of another caption

    def __post_init__(self) -> None:
        if not 1 <= self.captions <= self.words:
            raise ValueError(
                f"{self.words} words of {self.captions} captions; there should be at least one "
                "word in each, and one caption"
            )

    def to_values(self) -> dict[str, Any]:
        """The same as dictionaries and numbers, for JSON."""
        values = asdict(self)
        for name in ("attention", "uniform", "shuffled"):
            values[name] = {key: part._asdict() for key, part in values[name].items()}
        return values

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Grounding:
        """What `to_values` was made of."""
        try:
            return cls(
                head=Head(**values["head"]),
                captions=index(values["captions"]),
                words=index(values["words"]),
                attention=_aim(values["attention"]),
                uniform=_aim(values["uniform"]),
                shuffled=_aim(values["shuffled"]),
            )
        except (KeyError, TypeError, ValueError) as trouble:
            raise ValueError(f"these are not the values of a grounding: {trouble}") from None


def pointing(weights: Float[np.ndarray, "rows columns"], box: Box) -> bool:
    """Whether the centre of the patch that was read most lies in the box, or on its edge.

    Of patches that were read equally much, the middle between their centres decides: a map that
    prefers nothing points at the middle of the image.
    """
    weights = _checked(weights)
    _check_box(box)
    rows, columns = weights.shape
    down, across = np.nonzero(weights >= weights.max() * (1 - TIED))
    x, y = (across.mean() + 0.5) / columns, (down.mean() + 0.5) / rows
    left, top, right, bottom = box
    return bool(_between(left, x, right) & _between(top, y, bottom))


def mass(weights: Float[np.ndarray, "rows columns"], box: Box) -> float:
    """How much of what was read came from inside the box.

    A patch that the box covers in part counts by the share of its area that is covered.
    """
    weights = _checked(weights)
    _check_box(box)
    rows, columns = weights.shape
    left, top, right, bottom = (np.array(side) for side in box)
    covered = np.outer(_cover(top, bottom, rows), _cover(left, right, columns))
    return min(1.0, float((weights * covered).sum() / weights.sum()))


class Ranked(NamedTuple):
    """A head, and how well it finds the boxes."""

    head: Head
    pointing: float
    mass: float


def rank_heads(looks: Sequence[Looks]) -> list[Ranked]:
    """Every head, every layer's mean and the mean of all: the one that points best comes first.

    Those that point equally well go by their mass, and then the simpler first.
    """
    named = _gather(looks)
    ranked = []
    for head in _candidates(len(named.maps), named.layers):
        hits, masses = _aims(named.maps_of(head), named.boxes)
        ranked.append(Ranked(head, float(hits.mean()), float(masses.mean())))
    return sorted(ranked, key=lambda one: (-one.pointing, -one.mass))  # keeps the order of equals


def choose_head(looks: Sequence[Looks]) -> Head:
    """The head, or mean of heads, that points best; on captions that will not be measured."""
    return rank_heads(looks)[0].head


def ground(looks: Sequence[Looks], head: Head, *, rounds: int = ROUNDS, seed: int = 0) -> Grounding:
    """How well one head finds the boxes, and how well uniform and shuffled attention do."""
    named = _gather(looks)
    captions, words = int(named.caption[-1]) + 1, len(named.caption)
    if captions < 2:
        raise ValueError("1 caption names a thing; shuffling its maps with others needs 2 or more")
    maps = named.maps_of(head)
    counts = np.bincount(named.caption)

    def mean(values: Float[np.ndarray, "t"]) -> Interval:
        sums = np.bincount(named.caption, values)
        return bootstrap_of(captions, _ratio(sums, counts), rounds=rounds, seed=seed)

    def aim(maps: Float64[np.ndarray, "t rows columns"]) -> Aim:
        hits, masses = _aims(maps, named.boxes)
        found = mean(hits.astype(np.float64))
        if found.value in (0.0, 1.0):
            # No resample differs, which is no certainty: the exact bound for as many captions.
            hidden = unseen(captions)
            ends = (max(0.0, found.value - hidden), min(1.0, found.value + hidden))
            found = Interval(found.value, *ends)
        return Aim(found, mean(masses))

    return Grounding(
        head=head,
        captions=captions,
        words=words,
        attention=aim(maps),
        uniform=Aim(*map(mean, uniform_aims(named.boxes, *maps.shape[1:]))),
        shuffled=aim(maps[others(named.caption, seed)]),
    )


def uniform_aims(
    boxes: Float64[np.ndarray, "t 4"], rows: int, columns: int
) -> tuple[Float64[np.ndarray, "t"], Float64[np.ndarray, "t"]]:
    """For each box, the chance that the centre of a random patch lies in it, and its area."""
    left, top, right, bottom = boxes.T
    across = _between(left[:, None], (np.arange(columns) + 0.5) / columns, right[:, None])
    down = _between(top[:, None], (np.arange(rows) + 0.5) / rows, bottom[:, None])
    return across.mean(1) * down.mean(1), (right - left) * (bottom - top)


def others(caption: Int[np.ndarray, "t"], seed: int = 0) -> Int[np.ndarray, "t"]:
    """For each word a word of another caption, all equally likely; words are in order of caption.

    The same seed gives the same words.
    """
    first, count = (part[caption] for part in _runs(caption))
    drawn = np.random.default_rng(seed).integers(len(caption) - count)
    return drawn + count * (drawn >= first)  # steps over the words of its own caption


def scene_targets(caption: str, scene: Scene, pieces: Sequence[str] | None = None) -> list[Target]:
    """The words of a caption that name exactly one thing of a scene, with the boxes of the things.

    `pieces` are the entries of the vocabulary that the model wrote, where they are not
    `caption.split()`: commas apart from words, or parts of words. Then places are those of pieces,
    the first one of each word. Commas may have a space before them, as decoding leaves it.
    """
    caption = caption.replace(" ,", ",")
    named, texts = mentioned(caption, scene), caption.split()
    if not named:  # what an untrained model writes may not even be letters
        return []
    pieces = texts if pieces is None else pieces
    letters = ["".join(piece.split()) for piece in pieces]
    if "".join(letters) != "".join(texts):
        raise ValueError(f"the pieces {list(pieces)} do not spell the caption {caption!r}")
    starts = [0, *accumulate(map(len, texts))]
    ends = list(accumulate(map(len, letters)))
    places = boxes(scene, 1).tolist()
    targets = []
    for word, thing in named:
        left, top, right, bottom = places[thing]
        targets.append((bisect_right(ends, starts[word]), (left, top, right, bottom)))
    return targets


def summary(grounding: Grounding) -> str:
    """A few lines for a terminal."""
    g = grounding
    lines = [("", "pointing", "", "mass", "")]
    for name in ("attention", "shuffled", "uniform"):
        aim: Aim = getattr(g, name)
        lines.append((name, *_percent(aim.pointing), *_percent(aim.mass)))
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    aligned = [
        f"{name:<{widths[0]}}  {pointing:>{widths[1]}} {ends:<{widths[2]}}  "
        f"{mass:>{widths[3]}} {more}".rstrip()
        for name, pointing, ends, mass, more in lines
    ]
    of = f"{g.words:,} words that name a thing, in {g.captions:,} captions; {g.head}."
    return "\n".join([*aligned, of, "Ranges are 95% intervals over the choice of captions."])


class _Named(NamedTuple):
    """All words that name something, of all captions one after the other."""

    maps: Float[np.ndarray, "heads t rows columns"]
    boxes: Float64[np.ndarray, "t 4"]
    caption: Int[np.ndarray, "t"]  # 0, 1, … of the captions that name something
    layers: int

    def maps_of(self, head: Head) -> Float64[np.ndarray, "t rows columns"]:
        chosen = self.maps[head.among(len(self.maps), self.layers)]
        return chosen.mean(0, dtype=np.float64)


def _gather(looks: Sequence[Looks]) -> _Named:
    """The words to measure; every caption was looked at by the same heads, on the same grid."""
    for row, look in enumerate(looks):
        one, first = (
            (len(part.maps), part.layers, *part.maps.shape[2:]) for part in (look, looks[0])
        )
        if one != first:
            raise ValueError(
                f"looks[{row}] has (heads, layers, rows, columns) {one} and looks[0] has {first}; "
                "they should be those of one model"
            )
    naming = [look for look in looks if look.targets]
    if not naming:
        raise ValueError(f"none of {len(looks)} captions names a thing; there is nothing to find")
    maps = [look.maps[:, [word for word, _ in look.targets]] for look in naming]
    return _Named(
        np.concatenate(maps, axis=1),
        np.array([box for look in naming for _, box in look.targets], np.float64),
        np.repeat(np.arange(len(naming)), [len(look.targets) for look in naming]),
        naming[0].layers,
    )


def _candidates(heads: int, layers: int) -> Iterator[Head]:
    """Every way to read the heads, the simplest first; a mean of one is that one."""
    each = heads // layers
    if heads > 1:
        yield Head()
    if layers > 1 and each > 1:
        yield from (Head(layer) for layer in range(layers))
    yield from (Head(layer, head) for layer in range(layers) for head in range(each))


def _aims(
    maps: Float64[np.ndarray, "t rows columns"], boxes: Float64[np.ndarray, "t 4"]
) -> tuple[Bool[np.ndarray, "t"], Float64[np.ndarray, "t"]]:
    """`pointing` and `mass` of many maps at once."""
    _, rows, columns = maps.shape
    left, top, right, bottom = boxes.T
    tied = maps >= maps.max((1, 2), keepdims=True) * (1 - TIED)
    by_row, by_column = tied.sum(2), tied.sum(1)
    count = by_row.sum(1)
    x = (by_column @ np.arange(columns) / count + 0.5) / columns
    y = (by_row @ np.arange(rows) / count + 0.5) / rows
    hits = _between(left, x, right) & _between(top, y, bottom)

    down, across = _cover(top, bottom, rows), _cover(left, right, columns)
    inside = np.einsum("tr,tr->t", down, np.matmul(maps, across[:, :, None])[:, :, 0])
    return hits, np.minimum(inside / maps.sum((1, 2)), 1.0)


def _between(low: Any, point: Any, high: Any) -> Any:
    """Whether points, one or many, lie between two ends or on them."""
    return (low - EDGE <= point) & (point <= high + EDGE)


def _cover(
    low: Float64[np.ndarray, "*t"], high: Float64[np.ndarray, "*t"], count: int
) -> Float64[np.ndarray, "*t count"]:
    """Of each of `count` equal parts of 0 … 1, the share that lies between two ends."""
    starts = np.arange(count)
    below_high, below_low = (
        np.clip(np.asarray(end)[..., None] * count - starts, 0.0, 1.0) for end in (high, low)
    )
    return below_high - below_low


def _runs(caption: Int[np.ndarray, "t"]) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
    """Where the words of each caption begin, and how many they are."""
    counts = np.bincount(caption)
    return counts.cumsum() - counts, counts


def _ratio(sums: Float[np.ndarray, "n"], counts: Int[np.ndarray, "n"]) -> Statistic:
    """The statistic of a mean over words where captions are drawn, each with all of its words."""
    return lambda rows: sums.take(rows).sum(-1) / counts.take(rows).sum(-1)


def _checked(weights: Float[np.ndarray, "rows columns"]) -> Float64[np.ndarray, "rows columns"]:
    if weights.ndim != 2 or not weights.size:
        raise ValueError(f"a map has shape {weights.shape}; it should be (rows, columns)")
    _check_maps(weights[None, None])
    return weights.astype(np.float64)


def _check_maps(maps: Float[np.ndarray, "heads words rows columns"]) -> None:
    with np.errstate(invalid="ignore"):  # what is not finite is told of below
        total, least = maps.sum((2, 3), dtype=np.float64), maps.min((2, 3))
    strange = ~(np.abs(total - 1) <= SUM) | (least < 0)  # ~(… <= …) also finds NaN
    if strange.any():
        head, word = np.argwhere(strange)[0]
        raise ValueError(
            f"the map of head {head} and word {word} sums to {total[head, word]:.4g} with "
            f"{least[head, word]:.4g} as its least; it should sum to 1 with none below 0 (leave "
            "out padding; without a class token, divide by the sum)"
        )


def _check_box(box: Box) -> None:
    left, top, right, bottom = box
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):  # also finds NaN
        raise ValueError(
            f"the box from ({left:.4g}, {top:.4g}) to ({right:.4g}, {bottom:.4g}) should go from "
            "its left and top to its right and bottom within 0 … 1, the shares of an image"
        )


def _aim(values: Mapping[str, Mapping[str, float]]) -> Aim:
    return Aim(interval_from(values["pointing"]), interval_from(values["mass"]))


def _percent(interval: Interval) -> tuple[str, str]:
    value, low, high = (100 * part for part in interval)
    return f"{value:.1f}%", f"({low:.1f} to {high:.1f})"
