"""Where each word of a text looked: at the words before it, or at the words of another text.

    maps = text_maps(model, words)[0].numpy()                  # layers heads n n
    item = reading_item("A tale", tokens, None, maps)          # for the page's view "reading"

A row belongs to the word that went in, and says where the model looked while it made the scores of
the word after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import Positions, watch
from regard.generation.sample import check_still
from regard.inspection.head_maps import HeadMaps, head_maps, joined
from regard.inspection.places import check_tokens, token_maps
from regard.inspection.summaries import HeadSummaries, Yardstick
from regard.models.bert import Bert
from regard.models.gpt import GPT
from regard.models.seq2seq import Seq2Seq, TokenBatch

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Layers(Generic[T]):
    """The maps of a text's layers, each made whenever it is its turn: all together are large.

    They can be gone through as often as one likes; what they are made of takes `size` bytes.
    """

    makers: Sequence[Callable[[], T]]
    size: int

    def __len__(self) -> int:
        return len(self.makers)

    def __iter__(self) -> Iterator[T]:
        return (make() for make in self.makers)

    def each(self, change: Callable[[T], S]) -> Layers[S]:
        """The same layers in another form."""

        def changed(make: Callable[[], T]) -> Callable[[], S]:
            return lambda: change(make())

        return Layers([changed(make) for make in self.makers], self.size)


def text_maps(
    model: GPT, words: Int[Tensor, "b n"], *, positions: Positions | None = None
) -> Float[Tensor, "b layers heads n n"]:
    """How much each word looked at each word up to itself, by every head of every layer.

    Rows look, columns are looked at. Padding, at position −1, neither looks nor is looked at: its
    rows and columns are zeros, and every other row sums to 1.
    """
    return torch.stack(list(text_layers(model, words, positions=positions)), 1)


def text_layers(
    model: GPT, words: Int[Tensor, "b n"], *, positions: Positions | None = None
) -> Layers[Float[Tensor, "b heads n n"]]:
    """The same a layer at a time."""
    check_still(model)
    with torch.no_grad(), watch(model, "blocks.*.attention") as seen:
        model(words, positions=positions)
    check_tokens(seen)
    calls = list(seen.values())
    kept = [part for each in calls for part in (each.call.q, each.call.k, each.call.v, each.output)]
    return Layers([each.weights for each in calls], sum(part.nbytes for part in kept))


def bert_maps(
    model: Bert,
    words: Int[Tensor, "b n"],
    segments: Int[Tensor, "b n"] | None = None,
    *,
    positions: Positions | None = None,
) -> Float[Tensor, "b layers heads n n"]:
    """How much each word looked at every word, by every head of every layer.

    `segments` are as the model reads them. Padding, at position −1, has zeros.
    """
    check_still(model)
    with torch.no_grad(), watch(model, "blocks.*.attention") as seen:
        model(words, segments, positions=positions)
        return token_maps(seen)


def alignment_maps(
    model: Seq2Seq,
    source: TokenBatch,
    words: Int[Tensor, "r n"],
    *,
    positions: Positions | None = None,
) -> Float[Tensor, "r layers heads n m"]:
    """How much each of `words` looked at each word of the sentence that it translates.

    There are as many translations, in rows that follow one another, of each sentence. Padding on
    either side, at position −1, has zeros.
    """
    check_still(model)
    with torch.no_grad(), watch(model, "blocks.*.cross") as seen:
        model(source, words, positions=positions)
        maps = token_maps(seen)
    # Translations of one sentence were queries of one call: b layers h (k n) m → r layers h n m.
    return maps.unflatten(-2, (-1, words.shape[1])).movedim(3, 1).flatten(0, 1)


def reading_item(
    name: str,
    queries: Sequence[str],
    read: Sequence[str] | None,
    maps: Layers[Float[np.ndarray, "heads n m"]] | Iterable[Float[np.ndarray, "heads n m"]],
    *,
    causal: bool | None = None,
    note: str = "",
) -> dict[str, Any]:
    """One text for the page's view "reading": the mean of all heads first, then each head.

    `queries` are the words that look, each with the space before it if there is one, so that they
    make the text when joined; `read` those looked at, or None where they are the same text. Where
    it is not known whether maps are `causal`, which is to say zero beyond the diagonal, all of them
    are looked through first. `Layers` are gone through once more when somebody asks what the heads
    do; of other maps that is measured at once.
    """
    n, m = len(queries), len(queries if read is None else read)
    layers = maps if isinstance(maps, Layers) else in_memory(maps)
    if causal is None:
        causal = read is None and not any(np.triu(layer, 1).any() for layer in layers)
    packs: list[HeadMaps] = []
    total: Any = 0

    def maps_and_sum(heads: Float[np.ndarray, "heads n m"]) -> tuple[HeadMaps, Any]:
        return head_maps(heads, causal=causal), heads.sum(0)

    with ThreadPoolExecutor(2) as threads:  # numpy works without the interpreter: two cores help
        for layer in layers:
            if layer.shape[1:] != (n, m):
                raise ValueError(
                    f"{n} words that look at {m} have maps of shape {layer.shape}, "
                    "not (heads, words that look, words looked at)"
                )
            for pack, summed in threads.map(maps_and_sum, filter(len, np.array_split(layer, 2))):
                packs.append(pack)
                total = total + summed
    if not packs:
        raise ValueError(f"{n} words that look at {m} have maps of shape {(0, n, m)}, of no head")
    count = sum(len(pack.blocks) for pack in packs)
    heads = count // len(layers)
    names = [f"layer {i + 1}, head {j + 1}" for i in range(len(layers)) for j in range(heads)]
    first = [total / count] if count > 1 else []
    if first:
        packs.insert(0, head_maps(first, causal=causal))
        names.insert(0, "mean of all")

    def shown() -> Iterator[Float[np.ndarray, "n m"]]:
        return chain(first, chain.from_iterable(layers))

    measure = Yardstick(queries if read is None else None, n, m, causal=causal)
    summaries = HeadSummaries(measure, shown, layers.size)
    return {
        "name": name,
        "asked": list(queries),
        "read": None if read is None else list(read),
        "grid": [len(layers), heads],
        "heads": names,
        # Maps that lie in memory should not do so for any longer.
        "summaries": summaries if layers is maps else summaries.to_values(),
        "maps": joined(packs),
        "note": note,
    }


def in_memory(maps: Iterable[Float[np.ndarray, "heads n m"]]) -> Layers[np.ndarray]:
    """Maps that are there already, as layers that are only handed out."""
    held = list(maps)
    return Layers([partial(np.asarray, each) for each in held], sum(each.nbytes for each in held))
