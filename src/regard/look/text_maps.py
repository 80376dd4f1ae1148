"""Where each word of a text looked: at the words before it, or at the words of another text.

    maps = text_maps(model, words)[0].numpy()                  # layers heads n n
    item = reading_item("A tale", tokens, None, maps)          # for the page's view "reading"

A row belongs to the word that went in, and says where the model looked while it made the scores of
the word after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import Positions, watch
from regard.evaluate.generate import check_still
from regard.look.head_maps import head_maps
from regard.look.head_summaries import Yardstick
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
    check_still(model)
    with torch.no_grad(), watch(model, "decoder.*.attention") as seen:
        model(words, positions=positions)
        return torch.stack([layer.weights() for layer in seen.values()], 1)


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
    maps: Float[np.ndarray, "layers heads n m"],
    *,
    note: str = "",
) -> dict[str, Any]:
    """One text for the page's view "reading": the mean of all heads first, then each head.

    `asked` are the words that look, each with the space before it if there is one, so that they
    make the text when joined; `read` those looked at, or None where they are the same text.
    """
    layers, heads, n, m = maps.shape
    among = len(asked) if read is None else len(read)
    if (n, m) != (len(asked), among) or not layers * heads:
        raise ValueError(
            f"{len(asked)} words that look at {among} have maps of shape {maps.shape}, "
            "not (layers, heads, words that look, words looked at)"
        )
    each = list(maps.reshape(layers * heads, n, m))
    names = [f"layer {i // heads + 1}, head {i % heads + 1}" for i in range(layers * heads)]
    if len(each) > 1:
        each.insert(0, maps.mean((0, 1)))
        names.insert(0, "mean of all")
    causal = read is None and not np.triu(each[0], 1).any()  # a mean of zeros is of nothing else
    measure = Yardstick(asked if read is None else None, n, m, causal=causal)
    with ThreadPoolExecutor(1) as beside:  # numpy works without the interpreter: two cores help
        packing = beside.submit(head_maps, each, causal=causal)
        summaries = [measure(head) for head in each]
    return {
        "name": name,
        "asked": list(asked),
        "read": None if read is None else list(read),
        "grid": [layers, heads],
        "heads": names,
        "maps": packing.result(),
        "summaries": summaries,
        "note": note,
    }
