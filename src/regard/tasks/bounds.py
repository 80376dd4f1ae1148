"""Whether a training fits this machine, found out before anything is read or built.

    expect_room(find("classify").load(), config, torch.device("cpu"))     # or a UserError

Weights, their gradients and what the optimiser keeps are counted from the configuration, and so is
what a step must hold to go backward. These are lower bounds: what is refused fits by no means, and
what is not may still be too much, which the estimate then finds out by a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch

from regard.errors import ConfigError, FieldError, UserError
from regard.hardware.device import memory_size
from regard.models import sizes
from regard.models.config import CaptionerConfig
from regard.models.sizes import NUMBER, check_depth, in_bytes, largest_fields, parameters, short
from regard.tasks.task import Task

HELD = 2_000  # scenes to choose by and to test on, drawn beside those to train on
SCENES = "scenes"
SMALL = 1_000_000  # numbers of a model that is built in no time


def expect_room(
    task: Task[Any, Any, Any], config: Any, device: torch.device, data: Any = None
) -> None:
    """Refuse a training that this machine or device cannot hold, naming the fields that matter.

    Without its data the least of them is reckoned with: a batch of one item.
    """
    model = planned(config, data)
    if not is_known(model):
        return
    try:
        check_depth(model, f"{table_of(config)}.")
    except FieldError as trouble:
        raise ConfigError(str(trouble), key=trouble.field) from None
    room, held = memory_size(device), task.held or (lambda config, data: 0)

    def needs(config: Any) -> dict[str, int]:
        return {
            "weights": weights(planned(config, data), copies(config)),
            "step": held(config, data) * width_of_numbers(config, device),
            "images": pixels_drawn(config),
        }

    needed = needs(config)
    if room is None or sum(needed.values()) <= room:
        return
    blamed = largest_fields(config, lambda other: sum(needs(other).values()))
    named = " and ".join(f"{name} = {value}" for name, value in blamed)
    makes = f"{named} make{'s' * (len(blamed) == 1)}" if blamed else "this makes"
    what = {
        "weights": f"{short(parameters(model))} parameters, {in_bytes(needed['weights'])} to train",
        "step": f"steps that hold at least {in_bytes(needed['step'])}",
        "images": f"{in_bytes(needed['images'])} of images",
    }[max(needed, key=lambda part: needed[part])]
    where = "this machine" if device.type == "cpu" else f"the memory of {device}"
    raise ConfigError(
        f"{makes} {what}; {where} has {in_bytes(room)}: take less",
        key=blamed[0][0] if blamed else "",
        value=blamed[0][1] if blamed else None,
    )


def weights(model: Any, copies: int) -> int:
    """Bytes of the weights with what training keeps of each, and of what is built only to go."""
    gone = 0
    if isinstance(model, CaptionerConfig) and model.encoder_width is None:
        gone = parameters(model.encoder) - sizes.vit_features(model.encoder)  # its head
    return NUMBER * (parameters(model) * copies + gone)


def planned(config: Any, data: Any = None) -> Any:
    """The model of a configuration, with what is decided by other fields than its own.

    Before the data are known, words that are not named are as few as there can be.
    """
    model = getattr(config, table_of(config))
    if data is not None:
        return model  # settled
    changes: dict[str, Any] = {}
    if hasattr(model, "vocab_size") and model.vocab_size == type(model)().vocab_size:
        changes["vocab_size"] = 2
    if hasattr(model, "context_length") and getattr(config, "init_from", "scratch") == "scratch":
        changes["context_length"] = getattr(config, "max_length", model.context_length)
    if hasattr(model, "encoder_width") and getattr(config, "encoder", "vit") != "vit":
        changes["encoder_width"] = model.encoder_width or 1
    for name, value in changes.items():
        model = sizes.with_field(model, [name], value)
    return model


def is_known(model: Any) -> bool:
    """Whether it can be said how many parameters a model has: one of somebody else's has any."""
    return parameters.dispatch(type(model)) is not parameters.dispatch(object)


def table_of(config: Any) -> str:
    """The field that describes the model which is trained."""
    return str(getattr(config, "table", "model"))


def copies(config: Any) -> int:
    """Numbers in memory for each weight: itself, its gradient, means of it, a running mean."""
    means = 1 if config.train.optimizer.name == "muon" else 2  # Muon keeps one of a matrix
    return 2 + means + (config.train.ema_decay > 0)


def width_of_numbers(config: Any, device: torch.device) -> int:
    """Bytes of a number in the forward pass, at the least."""
    precision = config.train.precision
    narrow = precision == "bf16" or (precision == "auto" and device.type != "cpu")
    return 2 if narrow else NUMBER


def pixels_drawn(config: Any) -> int:
    """Bytes of the images that are drawn before training begins."""
    if getattr(config, "data", "") != SCENES or not hasattr(config, "num_scenes"):
        return 0
    size: int = config.model.encoder.image_size
    return int((config.num_scenes + HELD) * 3 * size * size)


def expect_match(config: Any, shapes: Mapping[str, Sequence[int]], path: str) -> None:
    """Refuse weights for which a configuration would build a far larger model than they are.

    A small one is built all the same: its tensors are then compared one by one, and named.
    """
    model = getattr(config, table_of(config))
    if not is_known(model):
        return
    there = sum(prod(shape) for shape in shapes.values())
    try:
        check_depth(model, f"{table_of(config)}.")
        wanted = parameters(model)
    except ValueError as trouble:
        raise UserError(f"{path} belongs to another configuration: {trouble}") from None
    if wanted > max(there, SMALL):
        blamed = largest_fields(config, lambda other: parameters(getattr(other, table_of(other))))
        named = ", ".join(f"{name} = {value}" for name, value in blamed)
        raise UserError(
            f"{path} belongs to another configuration: it holds {short(there)} numbers, and the "
            f"model of config.toml has {short(wanted)}" + f" ({named})" * bool(named)
        )
    room = memory_size(torch.device("cpu"))
    if room is not None and NUMBER * there > room:
        raise UserError(
            f"{path} holds {short(there)} numbers, {in_bytes(NUMBER * there)}; this machine has "
            f"{in_bytes(room)}"
        )


def expect_facts(config: Any, facts: Any, source: str) -> None:
    """Refuse facts of data that another model must have learnt: they would number its answers."""
    model = getattr(config, table_of(config))
    try:
        words = facts.words if hasattr(type(facts), "words") else None
    except ValueError as trouble:
        raise UserError(f"{source} is damaged: {trouble}") from None
    counts = {
        "vocab_size": None if words is None else len(words),
        "num_classes": len(facts.classes) if hasattr(facts, "classes") else None,
        "image_size": facts.size
        if hasattr(facts, "size") and hasattr(model, "image_size")
        else None,
    }
    for name, count in counts.items():
        wanted = getattr(model, name, count)
        if count != wanted:
            raise UserError(
                f"{source} is of another run: its {name} is {count:,}, and {table_of(config)}."
                f"{name} in config.toml is {wanted:,}"
            )
    longest = getattr(facts, "longest", None)
    if longest is not None and not 0 < longest < model.context_length:
        raise UserError(
            f"{source} is of another run: its longest is {longest:,}, and "
            f"{table_of(config)}.context_length in config.toml is {model.context_length:,}"
        )
