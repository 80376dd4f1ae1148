"""Which patches of a picture each word of its caption needs, found by deleting them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.inspection.occlusion import Occlusion, Tell, patch_falls
from regard.tasks.caption.metrics import CaptionWriter, captioner
from regard.tasks.caption.predict import encoded, images_of, written
from regard.tasks.caption.writing import grid_of, words_shown
from regard.tasks.image_inputs import Picture


@torch.no_grad()
def falls(trained: CaptionWriter, picture: Picture, tell: Tell) -> Occlusion:
    """How far the probability of each word falls without each patch, the words before it given.

    The caption stays the one that is written of the whole picture.
    """
    images = images_of(trained, [picture])
    (text,) = written(trained, encoded(trained, images))
    names, places = words_shown(text, trained.metadata)

    def probability(some: Float[Tensor, "b k y x"]) -> Float[Tensor, "b words"]:
        return word_shares(trained, encoded(trained, some), text.numbers, places)

    if not names:
        rows, columns = grid_of(trained.config)
        return Occlusion((), np.zeros(0), np.zeros((0, rows, columns)))
    whole = probability(images)[0].double().cpu().numpy()
    return Occlusion(
        names, whole, patch_falls(probability, images[0], grid_of(trained.config), tell=tell)
    )


def word_shares(
    trained: CaptionWriter, seen: Tensor, numbers: Sequence[int], places: Sequence[int]
) -> Float[Tensor, "b words"]:
    """The probability of each word of one caption, for each of several pictures.

    `places` are where words begin: one in pieces has the product of theirs.
    """
    model, start = captioner(trained), trained.metadata.words.start
    lines = torch.tensor([[start, *numbers[:-1]]], device=seen.device).expand(len(seen), -1)
    chances = model.next_token_logits(lines, model.encode(seen)).float().log_softmax(-1)
    index = torch.tensor(numbers, device=seen.device).expand(len(seen), -1)
    pieces = chances.gather(-1, index[..., None])[..., 0]
    ends = [*places[1:], len(numbers)]
    words = [pieces[:, a:b].sum(-1) for a, b in zip(places, ends, strict=True)]
    return torch.stack(words, -1).exp()
