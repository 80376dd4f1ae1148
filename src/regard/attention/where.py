"""Where tokens are: a range known on the host, or a tensor in which −1 means nowhere."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Positions = range | Tensor


def locate(positions: Positions, device: torch.device | None = None) -> Int[Tensor, "*b n"]:
    """The positions as an int64 tensor; a tensor keeps its own device."""
    if isinstance(positions, range):
        return torch.arange(positions.start, positions.stop, device=device)
    return positions.long()


def somewhere(positions: Positions) -> Bool[Tensor, "*b n"] | None:
    """Which tokens are anywhere at all; None when they all are, which a range promises."""
    return None if isinstance(positions, range) else positions >= 0


def check_positions(name: str, positions: Positions, length: int, batch: tuple[int, ...]) -> None:
    """Refuse positions that do not fit `length` tokens in a batch of leading shape `batch`."""
    if isinstance(positions, range):
        if positions.step != 1 or positions.start < 0:
            raise ValueError(f"{name}={positions} is not a contiguous range from 0 upwards")
        if len(positions) != length:
            raise ValueError(f"{name}={positions} has {len(positions)} positions for {length}")
        return
    if not isinstance(positions, Tensor):
        raise TypeError(f"{name} is a range or an integer tensor, not {type(positions).__name__}")
    if positions.dtype == torch.bool or positions.is_floating_point() or positions.is_complex():
        raise TypeError(f"{name} holds {positions.dtype}; positions are integers")
    *lead, count = positions.shape if positions.ndim else (0,)
    fits = len(lead) <= len(batch) and all(
        have in (1, want) for have, want in zip(reversed(lead), reversed(batch), strict=False)
    )
    if count != length or not fits:
        raise ValueError(
            f"{name} has shape {tuple(positions.shape)}; {length} tokens in a batch of shape "
            f"{batch} need ({length},) or {(*batch, length)}"
        )


def contiguous(positions: Tensor, device: torch.device | None = None) -> Positions:
    """The range that a tensor on the host spells out, or else the tensor on the device."""
    if positions.ndim == 1 and len(positions):
        values = positions.tolist()
        run = range(values[0], values[0] + len(values))
        if run.start >= 0 and values == list(run):
            return run
    return positions.to(device)
