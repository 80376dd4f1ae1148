"""Where each word of a text looked: at the words before it, or at the words of another text.

    maps = text_maps(model, words)[0].numpy()                  # layers heads n n
    item = reading_item("A tale", tokens, None, maps)          # for the page's view "reading"

A row belongs to the word that went in, and says where the model looked while it made the scores of
the word after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import Positions, watch
from regard.evaluate.generate import check_still
from regard.look.head_maps import HeadMaps, head_maps, joined
from regard.look.head_summaries import HeadSummary, Yardstick
from regard.model.bert import Bert
from regard.model.gpt import GPT
from regard.model.seq2seq import Sentences, Seq2Seq


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
) -> Iterator[Float[Tensor, "b heads n n"]]:
    """The same a layer at a time: all maps of a long text together are large."""
    check_still(model)
    with torch.no_grad(), watch(model, "decoder.*.attention") as seen:
        model(words, positions=positions)
    return (layer.weights() for layer in seen.values())


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
        return torch.stack([layer.weights() for layer in seen.values()], 1)


def alignment_maps(
    model: Seq2Seq,
    source: Sentences,
    words: Int[Tensor, "r n"],
    *,
    positions: Positions | None = None,
) -> Float[Tensor, "r layers heads n m"]:
    """How much each of `words` looked at each word of the sentence that it translates.

    There are as many translations, in rows that follow one another, of each sentence. Padding on
    either side, at position −1, has zeros.
    """
    check_still(model)
    with torch.no_grad(), watch(model, "decoder.*.cross") as seen:
        model(source, words, positions=positions)
        maps = torch.stack([layer.weights() for layer in seen.values()], 1)
    # Translations of one sentence were queries of one call: b layers h (k n) m → r layers h n m.
    return maps.unflatten(-2, (-1, words.shape[1])).movedim(3, 1).flatten(0, 1)


def reading_item(
    name: str,
    asked: Sequence[str],
    read: Sequence[str] | None,
    maps: Iterable[Float[np.ndarray, "heads n m"]],
    *,
    causal: bool | None = None,
    note: str = "",
) -> dict[str, Any]:
    """One text for the page's view "reading": the mean of all heads first, then each head.

    `asked` are the words that look, each with the space before it if there is one, so that they
    make the text when joined; `read` those looked at, or None where they are the same text. Maps
    are taken a layer at a time where it is known whether they are `causal`, which is to say zero
    beyond the diagonal; where it is not, all of them are looked through first.
    """
    n, m = len(asked), len(asked if read is None else read)
    if causal is None:
        maps = list(maps)
        causal = read is None and not any(np.triu(layer, 1).any() for layer in maps)
    measure = Yardstick(asked if read is None else None, n, m, causal=causal)
    packs: list[HeadMaps] = []
    summaries: list[HeadSummary] = []
    total: Any = 0
    layers = 0

    def told(heads: Float[np.ndarray, "heads n m"]) -> tuple[HeadMaps, list[HeadSummary], Any]:
        return head_maps(heads, causal=causal), [measure(head) for head in heads], heads.sum(0)

    with ThreadPoolExecutor(2) as threads:  # numpy works without the interpreter: two cores help
        for layer in maps:
            if layer.shape[1:] != (n, m):
                raise ValueError(
                    f"{n} words that look at {m} have maps of shape {layer.shape}, "
                    "not (heads, words that look, words looked at)"
                )
            for pack, found, summed in threads.map(told, filter(len, np.array_split(layer, 2))):
                packs.append(pack)
                summaries += found
                total = total + summed
            layers += 1
    if not summaries:
        raise ValueError(f"{n} words that look at {m} have maps of shape {(0, n, m)}, of no head")
    heads = len(summaries) // layers
    names = [f"layer {i + 1}, head {j + 1}" for i in range(layers) for j in range(heads)]
    if len(names) > 1:
        mean = total / len(names)
        packs.insert(0, head_maps(mean[None], causal=causal))
        summaries.insert(0, measure(mean))
        names.insert(0, "mean of all")
    return {
        "name": name,
        "asked": list(asked),
        "read": None if read is None else list(read),
        "grid": [layers, heads],
        "heads": names,
        "maps": joined(packs),
        "summaries": summaries,
        "note": note,
    }
