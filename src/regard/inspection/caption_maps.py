"""Where a captioner looked at an image when it wrote each word."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import watch
from regard.generation.sample import check_still
from regard.inspection.places import token_maps
from regard.models.captioner import Captioner


def caption_maps(
    model: Captioner,
    context: Float[Tensor, "b m width"],
    words: Sequence[Sequence[int]],
    *,
    begin: int,
) -> Float[Tensor, "r layers heads n m"]:
    """Where the model looked when it wrote each word of each text, and then where at its end.

    One pass over the finished texts gives the weights that writing them word by word had. Row t
    belongs to word t; the row after the last word to the end; rows beyond it are zeros.
    """
    n = 1 + max(map(len, words), default=0)
    lines = [[begin, *text, *[begin] * (n - 1 - len(text))] for text in words]
    where = [[*range(len(text) + 1), *[-1] * (n - 1 - len(text))] for text in words]
    device = context.device
    check_still(model)
    with torch.no_grad(), watch(model, "blocks.*.cross") as seen:
        model.next_token_logits(
            torch.tensor(lines, device=device),
            context,
            positions=torch.tensor(where, device=device),
        )
        maps = token_maps(seen)
    # Texts about one image were queries of one call: b layers h (k n) m → (b k) layers h n m.
    return maps.unflatten(-2, (-1, n)).movedim(3, 1).flatten(0, 1)
