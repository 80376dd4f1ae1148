"""Where tokens are: a range known on the host, or a tensor in which −1 means nowhere."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Positions = range | Tensor


def locate(positions: Positions, device: torch.device | None = None) -> Int[Tensor, "*b n"]:
    """The positions as an int64 tensor; a tensor keeps its own device."""
    if isinstance(positions, range):
        stop = max(positions.start, positions.stop)  # an empty range may end before it starts
        return torch.arange(positions.start, stop, device=device)
    return positions.long()


def somewhere(positions: Positions) -> Bool[Tensor, "*b n"] | None:
    """Which tokens are anywhere at all; None when they all are, which a range promises."""
    return None if isinstance(positions, range) else positions >= 0


def check_span(name: str, positions: Positions) -> None:
    """Refuse what is neither a contiguous range nor a tensor of whole numbers."""
    if isinstance(positions, range):
        if positions.step != 1 or positions.start < 0:
            raise ValueError(f"{name}={positions} is not a contiguous range from 0 upwards")
    elif not isinstance(positions, Tensor):
        raise TypeError(f"{name} is a range or an integer tensor, not {type(positions).__name__}")
    elif positions.dtype == torch.bool or positions.is_floating_point() or positions.is_complex():
        raise TypeError(f"{name} holds {positions.dtype}; positions are integers")


def check_positions(name: str, positions: Positions, length: int, batch: tuple[int, ...]) -> None:
    """Refuse positions that do not fit `length` tokens in a batch of leading shape `batch`."""
    check_span(name, positions)
    if isinstance(positions, range):
        count = max(0, positions.stop - positions.start)
        if count != length:
            raise ValueError(f"{name}={positions} has {count} positions for {length} tokens")
        return
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


def there(positions: Positions) -> Tensor | None:
    """Which tokens are anywhere, as (*b 1 n 1), or (n 1); None where all are."""
    here = somewhere(positions)
    if here is None:
        return None
    here = here[..., None]
    return here.unsqueeze(-3) if here.ndim > 2 else here
