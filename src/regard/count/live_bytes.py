"""How much memory tensors take at the peak, on a CPU, where no allocator says it."""

from __future__ import annotations

import weakref
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of every storage that is made inside, from its birth to its death.

    A view shares its storage and adds nothing, and so does whatever was there before. It works in
    one thread, in which the backward pass of a CPU runs too.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: dict[int, int] = {}  # by the address of the storage's own record
        self.now = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for tensor in tree_leaves((args, kwargs)):
            self.see(tensor, new=False)
        out = func(*args, **kwargs)
        for tensor in tree_leaves(out):
            self.see(tensor, new=True)
        return out

    def see(self, tensor: Any, *, new: bool) -> None:
        if not isinstance(tensor, Tensor):
            return
        storage = tensor.untyped_storage()
        if storage._cdata in self.sizes:
            return
        size = storage.nbytes() if new else 0
        self.sizes[storage._cdata] = size
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self.forget, storage._cdata)

    def forget(self, storage: int) -> None:
        self.now -= self.sizes.pop(storage)
