"""Weights that others have published, put where a model of ours has them.

    homes = {"token_embedding": "embeddings.word_embeddings", …}   # what each is called there
    model.load_state_dict(under_our_names(published, model, homes))

Nothing is guessed: a tensor that is missing, has no place or another shape is an error.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from torch import Tensor, nn


def under_our_names(
    published: Mapping[str, Tensor],
    model: nn.Module,
    homes: Mapping[str, str],
    unread: Container[str] = (),
) -> dict[str, Tensor]:
    """The published tensors under our names, if they are exactly those that the model has.

    `homes` has what each part of the model is called where it was published, or a single tensor
    by its whole name. Names in `unread` may be there, and are left behind.
    """
    own = model.state_dict()
    wanted = {}  # our names by theirs
    for name in own:
        part, _, end = name.rpartition(".")
        wanted[homes[name] if name in homes else f"{homes[part]}.{end}"] = name
    if missing := [name for name in wanted if name not in published]:
        raise ValueError(f"the weights lack {listed(missing)}")
    if strange := [name for name in published if name not in wanted and name not in unread]:
        raise ValueError(f"the weights have {listed(strange)}, for which there is no place")
    for theirs, ours in wanted.items():
        has, wants = tuple(published[theirs].shape), tuple(own[ours].shape)
        if has != wants:
            raise ValueError(f"{theirs} has the shape {has}, and {ours}, its place, has {wants}")
    return {ours: published[theirs] for theirs, ours in wanted.items()}


def listed(names: list[str]) -> str:
    """The first name, and how many more there are."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
