"""Where a model runs, and what is said when it does not fit there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

import torch

from regard.errors import UserError
from regard.hardware.memory import machine_memory


def choose_device(name: str = "auto") -> torch.device:
    """The device of this name, or the best there is."""
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(kind for kind, found in there.items() if found))
    kind = name.partition(":")[0]
    if kind not in there:
        raise UserError(f"--device {name}: choose among auto, {', '.join(there)}")
    if not there[kind]:
        raise UserError(f"--device {name}: torch {torch.__version__} sees no such device here")
    return torch.device(name)


@cache
def has_bfloat16(device: torch.device) -> bool:
    """Whether a GPU computes in bfloat16 itself; older ones emulate it, slowly."""
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_bf16_supported(including_emulation=False)


def memory_of(device: torch.device) -> Callable[[], int | None]:
    """A function that tells the most bytes held so far."""
    if device.type == "cuda":
        return lambda: torch.cuda.max_memory_reserved(device)
    return resident_memory


def memory_size(device: torch.device) -> int | None:
    """Bytes of memory that there are on a device, where that is told."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return machine_memory()  # which a Mac's GPU shares


def resident_memory() -> int | None:
    """The most memory this process has held, in bytes, where the system tells."""
    if sys.platform == "win32":
        return None
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def is_out_of_memory(trouble: BaseException) -> bool:
    """Whether an error means that memory ran out, on whichever device."""
    if isinstance(trouble, (MemoryError, torch.OutOfMemoryError)):
        return True
    words = str(trouble)
    return isinstance(trouble, RuntimeError) and (
        "can't allocate memory" in words or "out of memory" in words
    )


def largest_that_fits(fits: Callable[[int], bool], below: int) -> int:
    """The largest of below/2, below/4, … for which `fits`; 0 if not even 1 does."""
    batch = below // 2
    while batch and not fits(batch):
        batch //= 2
    return batch


def does_not_fit(batch: int, smaller: int, device: torch.device, unit: str) -> UserError:
    """What to say and to do when a batch is too large."""
    where = "this machine" if device.type == "cpu" else f"the memory of {device}"
    if not smaller:
        return UserError(f"not even a batch of 1 fits into {where}; take a smaller model")
    times = -(-batch // smaller)
    steps = "the same steps" if times * smaller == batch else f"steps of {times * smaller}"
    return UserError(
        f"a batch of {batch} {unit} does not fit into {where}; {smaller} do: "
        f"--batch-{'tokens' if unit == 'tokens' else 'size'} {smaller} --train.grad-accum-steps "
        f"{times} makes {steps}"
    )
