"""Room for the words of texts at fixed addresses, so that a GPU can play a step back.

A small model's step is hundreds of launches of tiny kernels, which a GPU does faster than Python
can ask for them. Recorded as a CUDA graph they cost one launch; but a recording knows addresses,
not tensors, so keys and values must stay where they were. Here they do: slot p of a row is for
the word at position p, and slots after a row's newest word are not read. Rows may thus have
different lengths, and what a row holds may be exchanged without the recording noticing.

    room = lend(model, texts, shape, …)    # with its recordings, if other texts made them
    room.fill(caches, length, None)        # after the prompt, from caches that grew
    scores = room.step(…)                  # made the first time, recorded the second, then played

Without a GPU the same arithmetic serves texts of different lengths, unrecorded.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import MultiHeadAttention, Positions
from regard.attention.cache import Cache, keys_of
from regard.generation.fused_decode import Prepared, can_step
from regard.generation.memory import Memory, nowhere, read_some, tell
from regard.models.block import BlockCache

SLOTS = 64  # a recording reads so many, or a multiple
PLACES = 16  # by which contexts of different lengths are told apart
KEPT = 16  # rooms that a model keeps for the next texts

One = Callable[[Prepared, Int[Tensor, "r"], Memory], Float[Tensor, "r words"]]


@dataclass(frozen=True)
class Shape:
    """What decides the addresses: texts, layers, heads, slots, and the context's size."""

    items: int
    texts: int  # about each item
    layers: int
    groups: int
    slots: int
    width: int  # of a head
    context: tuple[int, int, int] | None  # groups, places, width
    ragged: bool  # whether some places of a context are nowhere
    kind: torch.dtype
    device: torch.device

    @property
    def rows(self) -> int:
        return self.items * self.texts

    @property
    def fused(self) -> bool:
        """Whether our kernel reads the slots, which needs not be told how many are filled."""
        return can_step(torch.empty(0, dtype=self.kind, device=self.device)) and self.width <= 256


class Fixed:
    """Keys and values of all layers, and the recordings that read and write them."""

    def __init__(self, shape: Shape, prepared: Prepared, weights: tuple[int, ...]) -> None:
        self.shape, self.prepared, self.weights = shape, prepared, weights
        zeros = partial(torch.zeros, dtype=shape.kind, device=shape.device)
        self.words = torch.zeros(shape.rows, dtype=torch.long, device=shape.device)
        self.next = torch.zeros_like(self.words)  # where each row's next word goes
        self.store = zeros((shape.layers, 2, shape.rows, shape.groups, shape.slots, shape.width))
        self.seen: Tensor | None = None
        self.hidden: Tensor | None = None  # what keeps places that are nowhere from being read
        if shape.context is not None:
            g, m, d = shape.context
            self.seen = zeros((shape.layers, 2, shape.items, g, m, d))
            if shape.ragged:
                self.hidden = zeros((shape.items, 1, 1, m))
        self.recordings: dict[int, Recording] = {}
        self.warm: set[int] = set()
        self.user: weakref.ref[object] | None = None

    @property
    def free(self) -> bool:
        """Whether nobody's texts are here."""
        return self.user is None or self.user() is None

    def step(
        self, one: One, words: Int[Tensor, "r"], length: int, *, record: bool
    ) -> Float[Tensor, "r words"]:
        """Append a word to each text, of which the longest has `length`; scores of the next."""
        count = len(words)
        self.words[:count] = words
        if self.prepared.observed or not record:
            return self.make(one, length + 1, count)[:count]
        slots = self.shape.slots if self.shape.fused else -(-(length + 1) // SLOTS) * SLOTS
        if slots not in self.recordings:
            if slots not in self.warm:  # libraries choose their kernels in the first step
                self.warm.add(slots)
                return self.make(one, slots)[:count]
            self.recordings[slots] = Recording(lambda: self.make(one, slots))
        return self.recordings[slots].play()[:count].clone()

    def make(self, one: One, slots: int, shown: int | None = None) -> Tensor:
        """The step itself, over so many slots; observers are shown so many rows."""
        scores = one(self.prepared, self.words, Slots(self, slots, shown))
        self.next += 1
        return scores

    def take(
        self,
        other: Fixed,
        length: int,
        rows: Int[Tensor, "r"],
        items: Int[Tensor, "b"] | None,
    ) -> None:
        """Hold what rows of another room, or of this, hold; `items` where the contexts change."""
        count = len(rows)
        self.store[:, :, :count, :, :length] = other.store[..., :length, :].index_select(2, rows)
        self.next[:count] = other.next.index_select(0, rows)
        self.next[count:] = 0  # rows of nobody, which a step moves on too
        if items is not None and self.seen is not None and other.seen is not None:
            self.seen[:, :, : len(items)] = other.seen.index_select(2, items)
            if self.hidden is not None and other.hidden is not None:
                self.hidden[: len(items)] = other.hidden.index_select(0, items)

    def fill(
        self, caches: Sequence[BlockCache], lengths: Tensor | int, where: Positions | None
    ) -> None:
        """Hold what caches have grown to hold."""
        new, old = [], []
        for at, cache in enumerate(caches):
            for kind, found in enumerate(kept(cache.attention)):
                # A cache of one size has more slots than words: those past all texts stay behind.
                found = found[:, :, : self.shape.slots]
                rows, _, n, _ = found.shape
                new.append(self.store[at, kind, :rows, :, :n])
                old.append(found)
            if self.seen is not None:
                for kind, found in enumerate(kept(cache.cross)):
                    new.append(self.seen[at, kind, : len(found), :, : found.shape[2]])
                    old.append(found)
        torch._foreach_copy_(new, old)
        self.next.zero_()
        self.next[: len(old[0])] = lengths
        if self.hidden is not None and isinstance(where, Tensor):
            items, _, m, _ = kept(caches[0].cross)[0].shape
            self.hidden.fill_(-torch.inf)
            self.hidden[:items, ..., :m] = nowhere(where, self.hidden)


class Slots:
    """A room as the memory of one step, which reads no more than the first `count` slots."""

    def __init__(self, room: Fixed, count: int, shown: int | None) -> None:
        self.room, self.count, self.shown = room, count, shown
        self.items = room.shape.items
        self.here = room.next[:, None]  # r 1
        self.positions: Positions = self.here
        self.fused = room.shape.fused and not room.prepared.observed
        self.ahead: Tensor | None = None  # r 1 1 m
        if not self.fused:
            slots = torch.arange(count, device=self.here.device)
            zero = torch.zeros((), dtype=room.shape.kind, device=self.here.device)
            self.ahead = torch.where(slots <= self.here, zero, -torch.inf)[:, None, None]

    def own(self, at: int, layer: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        store = self.room.store[at]
        if self.ahead is None:
            from regard.generation.kernels_triton import read_on

            return read_on(q, k, v, store, self.room.next)
        index = self.here[:, :, None, None].expand(k.shape)
        store[0].scatter_(2, index, k)
        store[1].scatter_(2, index, v)
        k, v = store[:, :, :, : self.count]
        read = read_some(q, k, v, self.ahead)
        if layer.observers:
            rows = slice(self.shown)
            slots = torch.arange(self.count, device=k.device)
            where = torch.where(slots <= self.here, slots, -1)[rows]
            k, v = k[rows].clone(), v[rows].clone()
            tell(layer, q[rows], k, v, read[rows], self.here[rows], where, own=True)
        return read

    def context(self, at: int, layer: MultiHeadAttention, q: Tensor) -> Tensor:
        room = self.room
        assert room.seen is not None
        k, v = room.seen[at]
        if room.hidden is None:
            read = F.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])
        else:
            read = read_some(q, k, v, room.hidden)
        if layer.observers:
            texts = q.shape[2]
            items = slice(None if self.shown is None else self.shown // texts)
            where: Positions = range(k.shape[2])
            if room.hidden is not None:
                slots = torch.arange(k.shape[2], device=k.device)
                where = torch.where(torch.isneginf(room.hidden[items, 0, 0]), -1, slots)
            here = self.here[: self.shown]
            k, v = k[items], v[items]
            tell(layer, q[items], k, v, read[items], here, where, own=False)
        return read


class Recording:
    """One step as a CUDA graph, and the scores that it writes."""

    def __init__(self, make: Callable[[], Tensor]) -> None:
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.scores = make()

    def play(self) -> Tensor:
        self.graph.replay()
        return self.scores


# Rooms outlive the texts in them: the next ones find their recordings made.
ROOMS: weakref.WeakKeyDictionary[nn.Module, list[Fixed]] = weakref.WeakKeyDictionary()


def lend(model: nn.Module, user: object, shape: Shape, prepare: Callable[[], Prepared]) -> Fixed:
    """A room of this shape for `user`, until it is forgotten: one that stands empty, or a new one.

    Recordings know where weights lie. They may have changed there, but not moved.
    """
    if shape.device.type != "cuda":  # nothing is recorded, so there is nothing to keep
        return Fixed(shape, prepare(), ())
    rooms = ROOMS.setdefault(model, [])
    weights = tuple(weight.data_ptr() for weight in model.parameters())
    for room in rooms:
        if room.free and room.shape == shape and room.weights == weights:
            room.prepared.renew()
            break
    else:
        with torch.inference_mode(False):  # or only inference could ever write here
            room = Fixed(shape, prepare(), weights)
        rooms.insert(0, room)
        for other in [other for other in rooms[KEPT:] if other.free]:
            rooms.remove(other)
    room.user = weakref.ref(user)
    return room


def kept(cache: Cache | None) -> tuple[Tensor, Tensor]:
    """The keys and values of a cache that has some."""
    found = keys_of(cache)
    assert found is not None
    return found.k, found.v
