"""Keys and values already seen, with the positions they were seen at.

`append` takes the keys, values and positions of new tokens and returns all that may be read now.
Slots have no meaning of their own: a key is where its position says, in whatever slot it lies, so
a cache may drop, move or overwrite keys freely. Unfilled slots are at −1, which nothing reads.

- `KVCache()` grows by concatenation; gradients flow through it.
- `KVCache(size=n)` allocates once and writes in place. With positions as ranges it returns views
  of the filled part. With positions as tensors it returns all `n` slots at every step, which keeps
  shapes fixed for a compiled decoder.
- `keep=mask` evicts what no later query may read under that mask, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.algebra import Mask
from regard.attention.positions import Positions, contiguous, locate


class KeyValues(NamedTuple):
    """All that may be read: keys, values and where they are."""

    k: Float[Tensor, "*b g m d"]
    v: Float[Tensor, "*b g m e"]
    positions: Positions

    def read(self, attention: Callable[..., Any], q: Tensor, **options: Any) -> Any:
        """What an attention lets queries read of it."""
        return attention(q, self.k, self.v, k_pos=self.positions, **options)

    def seen(self) -> tuple[Tensor, Tensor]:
        """The keys and values themselves, for whoever watches."""
        return self.k, self.v


@runtime_checkable
class Readable(Protocol):
    """What may be read: keys and values, or what an attention made of them."""

    @property
    def positions(self) -> Positions:
        """Where the keys are."""

    def seen(self) -> tuple[Tensor, Tensor]:
        """The keys and values themselves, for whoever watches."""

    def read(self, attention: Callable[..., Any], q: Tensor, **options: Any) -> Any:
        """What an attention lets queries read of it."""


@runtime_checkable
class Cache(Protocol):
    """What a layer keeps of tokens it has seen: a `KVCache`, or an attention's own memory."""

    @property
    def kept(self) -> Readable | None:
        """What may be read now."""

    @property
    def overwrites(self) -> bool:
        """Whether a later append may change keys and values that were returned before."""

    def append(self, k: Tensor, v: Tensor, positions: Positions) -> Readable:
        """Add new tokens; return what may be read from now on."""

    def reorder(self, index: Int[Tensor, " b"]) -> None:
        """Let sequence i of the batch continue what sequence `index[i]` has seen."""


def keys_of(memory: Cache | None) -> KeyValues | None:
    """The keys and values in a memory, for those who look into one: only a `KVCache` has them."""
    kept = None if memory is None else memory.kept
    if kept is None or isinstance(kept, KeyValues):
        return kept
    raise TypeError(f"{type(memory).__name__} keeps no keys and values to look at")


class KVCache:
    """The keys and values of one attention layer."""

    def __init__(self, *, size: int | None = None, keep: Mask | None = None) -> None:
        if size is not None and size < 1:
            raise ValueError(f"a cache of {size} slots holds nothing; give it at least 1")
        if keep is not None and not isinstance(keep, Mask):
            raise TypeError(f"keep is a mask expression, which can say what it needs; not {keep!r}")
        self.size, self.keep = size, keep
        self.kept: KeyValues | None = None
        self._store: KeyValues | None = None  # what was allocated, when a size was given
        self._placed = False  # whether positions came as tensors, so that all slots are returned

    def __len__(self) -> int:
        """How many slots are returned at present, evicted and unfilled ones not counted."""
        if self.kept is None:
            return 0
        positions = self.kept.positions
        if isinstance(positions, range):
            return len(positions)
        return int((positions >= 0).sum(-1).max())

    def append(
        self, k: Float[Tensor, "*b g n d"], v: Float[Tensor, "*b g n e"], positions: Positions
    ) -> KeyValues:
        """Add new tokens; return all keys, values and positions that may be read from now on."""
        if k.shape[:-1] != v.shape[:-1]:
            raise ValueError(f"keys are {tuple(k.shape)} and values {tuple(v.shape)}")
        if _count(positions) != k.shape[-2]:
            raise ValueError(f"{_count(positions)} positions for {k.shape[-2]} keys")
        if self.size is None:
            self.kept = self._grow(k, v, positions)
        elif isinstance(positions, range):
            self.kept = self._fill(k, v, positions)
        else:
            self.kept = self._place(k, v, positions)
        return self.kept

    def reorder(self, index: Int[Tensor, " b"]) -> None:
        """Let sequence i of the batch continue what sequence `index[i]` has seen, as beams do."""

        def pick(kept: KeyValues) -> KeyValues:
            k, v, positions = kept
            if isinstance(positions, Tensor) and positions.ndim > 1:
                positions = positions.index_select(0, index)
            return KeyValues(k.index_select(0, index), v.index_select(0, index), positions)

        if self._store is not None and self.kept is not None:
            self._store = pick(self._store)
            filled = self.kept.positions
            if isinstance(filled, Tensor) and filled.ndim > 1:
                filled = filled.index_select(0, index)
            self.kept = self._view(filled)
        elif self.kept is not None:
            self.kept = pick(self.kept)

    @property
    def overwrites(self) -> bool:
        """Whether a later append may change keys and values that were returned before."""
        return self._placed or (self.size is not None and self.keep is not None)

    def allocate(self, k: Tensor, v: Tensor, *, clean: bool = True) -> None:
        """Make room for `size` keys and values like these, before a decoder is compiled."""
        if self.size is None:
            raise ValueError("a growing cache allocates nothing; give it a size")
        room = torch.zeros if clean else torch.empty
        k, v = (  # the last slot is for −1
            room(*x.shape[:-2], self.size + 1, x.shape[-1], dtype=x.dtype, device=x.device)
            for x in (k, v)
        )
        self._store = KeyValues(k, v, torch.full((self.size + 1,), -1, device=k.device))

    def _grow(self, k: Tensor, v: Tensor, positions: Positions) -> KeyValues:
        if self.kept is None:  # a caller may move its tensor of positions on in place
            return KeyValues(k, v, positions if isinstance(positions, range) else positions.clone())
        old = self._evicted(self.kept, positions)
        return KeyValues(
            torch.cat([old.k, k], -2),
            torch.cat([old.v, v], -2),
            _joined(old.positions, positions, k.device),
        )

    def _evicted(self, kept: KeyValues, coming: Positions) -> KeyValues:
        """What queries at the coming positions, or later ones, may still read."""
        if self.keep is None or not kept.k.shape[-2]:
            return kept
        # Two ranges are settled on the host; anything else where the keys are.
        host = isinstance(kept.positions, range) and isinstance(coming, range)
        where = locate(kept.positions, None if host else kept.k.device)
        needed = self.keep.needs(where, _earliest(coming))
        columns = needed if needed.ndim == 1 else needed.flatten(0, -2).any(0)
        if bool(columns.all()):
            return kept
        rows = columns.nonzero()[:, 0]
        where = torch.where(needed, where, -1)[..., rows]
        rows = rows.to(kept.k.device)
        return KeyValues(
            kept.k.index_select(-2, rows),
            kept.v.index_select(-2, rows),
            contiguous(where, kept.k.device) if host else where,
        )

    def _fill(self, k: Tensor, v: Tensor, positions: range) -> KeyValues:
        """Write behind what is there; when the end is reached, first close up what is kept."""
        assert self.size is not None
        if self._placed:
            raise ValueError("this cache was given positions as tensors: go on with tensors")
        if self._store is None:
            self.allocate(k, v, clean=False)  # only what is filled will be seen
        filled = self.kept.positions if self.kept is not None else range(0)
        start = _count(filled)
        if self.keep is None and positions.start != start:
            raise ValueError(f"the next position of the cache is {start}, not {positions.start}")
        if start + len(positions) > self.size and self.kept is not None:
            filled = self._close_up(self._evicted(self.kept, positions))
            start = _count(filled)
        stop = start + len(positions)
        if stop > self.size:
            raise ValueError(
                f"{len(positions)} more tokens need {stop} slots and the cache has {self.size}; "
                "give it a larger size"
                + (", or a mask to evict by (keep=)" if self.keep is None else "")
            )
        assert self._store is not None
        self._store.k[..., start:stop, :] = k
        self._store.v[..., start:stop, :] = v
        return self._view(_joined(filled, positions, k.device))

    def _close_up(self, old: KeyValues) -> Positions:
        """Move what is kept to the front of new storage: views of the old may be in use."""
        assert self._store is not None
        count = old.k.shape[-2]
        k, v, positions = (torch.zeros_like(x) for x in self._store)  # type: ignore[arg-type]
        k[..., :count, :], v[..., :count, :] = old.k, old.v
        positions.fill_(-1)[..., :count] = locate(old.positions, k.device)
        self._store = KeyValues(k, v, positions)
        return old.positions

    def _view(self, filled: Positions) -> KeyValues:
        assert self._store is not None
        count = _count(filled)
        return KeyValues(self._store.k[..., :count, :], self._store.v[..., :count, :], filled)

    def _place(self, k: Tensor, v: Tensor, positions: Tensor) -> KeyValues:
        """Write each token into a free slot, with no step that depends on a tensor's values."""
        assert self.size is not None
        if self._store is None:
            self.allocate(k, v)
        assert self._store is not None
        store_k, store_v, store_pos = self._store
        assert isinstance(store_pos, Tensor)
        if not self._placed and self.kept is not None:  # so far all came in ranges
            count = _count(self.kept.positions)
            store_pos[..., :count] = locate(self.kept.positions, store_pos.device)
            store_k[..., count:, :], store_v[..., count:, :] = 0, 0  # all slots are seen from now
        if positions.ndim > store_pos.ndim:  # sequences go separate ways from here on
            store_pos = store_pos.expand(*positions.shape[:-1], -1).clone()
            self._store = KeyValues(store_k, store_v, store_pos)
        positions = positions.expand(*store_pos.shape[:-1], -1).to(store_pos.dtype)

        slots = self._slots(store_pos, positions)
        at = slots.unsqueeze(-2) if slots.ndim > 1 else slots  # b n → b 1 n, one for all heads
        store_k.scatter_(-2, at[..., None].expand(k.shape), k)
        store_v.scatter_(-2, at[..., None].expand(v.shape), v)
        store_pos.scatter_(-1, slots, positions)
        self._placed = True
        return KeyValues(
            store_k[..., : self.size, :],
            store_v[..., : self.size, :],
            store_pos[..., : self.size].clone(),  # a later append must not move an earlier answer
        )

    def _slots(self, stored: Tensor, positions: Tensor) -> Tensor:
        """A slot for each new token: its position, or with eviction the first that is free."""
        assert self.size is not None
        here = positions >= 0
        if self.keep is None:
            torch._assert_async(
                (positions < self.size).all(),
                f"a position lies past the {self.size} slots of the cache",
            )
            return positions.masked_fill(~here, self.size)
        kept = self.keep.needs(stored[..., : self.size], _earliest(positions))
        torch._assert_async(
            ((~kept).sum(-1) >= here.sum(-1)).all(),
            f"the {self.size} slots of the cache are full of keys that may still be read",
        )
        stored[..., : self.size].masked_fill_(~kept, -1)
        free = kept.int().argsort(dim=-1, stable=True)
        order = (here.int().cumsum(-1) - 1).clamp(0, self.size - 1)
        return free.gather(-1, order).masked_fill(~here, self.size)


def _count(positions: Positions) -> int:
    return len(positions) if isinstance(positions, range) else positions.shape[-1]


def _joined(old: Positions, new: Positions, device: torch.device) -> Positions:
    if _count(old) == 0:  # a caller may move its tensor on in place
        return new if isinstance(new, range) else new.clone()
    if isinstance(old, range) and isinstance(new, range) and old.stop == new.start:
        return range(old.start, new.stop)
    a, b = locate(old, device), locate(new, device)
    lead = torch.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    return torch.cat([a.expand(*lead, -1), b.expand(*lead, -1)], -1)


def _earliest(positions: Positions) -> int | Tensor:
    """The first position of each sequence; 0, which evicts nothing, where all are nowhere."""
    if isinstance(positions, range):
        return positions.start
    here = positions >= 0
    far = positions.masked_fill(~here, torch.iinfo(positions.dtype).max).amin(-1, keepdim=True)
    return torch.where(here.any(-1, keepdim=True), far, 0)
