"""How the learning rate moves: a multiplier for each step, as a plain function of the step."""

import math

from regard.training.config import LRScheduleConfig


def rate(config: LRScheduleConfig, step: int, steps: int) -> float:
    """The multiplier at `step` of `steps`, counted from 0; 1 is the full rate.

    The first step of a warm-up of w already moves: its multiplier is 1 / w, not 0.
    """
    warmup = config.num_warmup_steps(steps)
    if step < warmup:
        return (step + 1) / warmup
    if config.name == "constant":
        return 1.0
    if config.name == "inverse_sqrt":  # min(t^-½, t·w^-3/2), scaled so that its peak is 1
        return math.sqrt(max(1, warmup) / (step + 1))
    done = (step - warmup) / max(1, steps - 1 - warmup)
    return (
        config.min_lr_ratio
        + (1 - config.min_lr_ratio) * (1 + math.cos(math.pi * min(1.0, done))) / 2
    )
