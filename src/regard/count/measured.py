"""What a real model costs, counted as it runs: parameters, operators and live memory.

Torch's own counter knows the fused attention of a GPU and reports zero for that of a CPU. So this
watches every operator on its way to the device, and counts products by the shapes that go in.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import FlopCounterMode

from regard.count.formulas import Sizes
from regard.count.live_bytes import LiveBytes
from regard.count.model import behind_a_cache, built, inputs, loss_of

LARGE = 1 << 28  # weights above which they are not made, only counted


@dataclass(frozen=True)
class Measured:
    """What was counted; by module, with * for the number of a layer, where it is a mapping."""

    weights: Mapping[str, int] | None = None
    """None, as all else, where nothing was built."""
    biases: Mapping[str, int] | None = None
    multiply_adds: Mapping[str, int] | None = None
    moved: Mapping[str, int] | None = None
    """Bytes that operators read and wrote; what only looks at memory otherwise moves nothing."""
    held: int | None = None
    """Bytes that the forward pass left in memory for the backward one, its output among them."""
    cached: int | None = None
    """Multiply-adds of one more token behind a cache."""
    cache: int | None = None
    """Bytes of that cache."""
    torch: int | None = None
    """Torch's own count, halved: it says 2 for a multiplication with its addition."""

    @property
    def parameters(self) -> int | None:
        if self.weights is None or self.biases is None:
            return None
        return sum(self.weights.values()) + sum(self.biases.values())


def measure(
    config: Any, sizes: Sizes, device: str | torch.device = "cpu", *, run: bool = True
) -> Measured:
    """Build it, run it once, and count.

    Of one that is not to be run, or too large to be made, the parameters are counted.
    """
    weights, biases = parameters(config, sizes)
    if not run or sum(weights.values()) > LARGE:
        return Measured(weights, biases)
    device = torch.device(device)
    model = built(config, sizes).to(device).eval()
    given = tree_map(lambda x: moved_to(x, device), inputs(config, sizes))
    with torch.no_grad(), Operators(model) as seen:
        model(*given)
    torchs = None
    if device.type == "cuda":  # on a CPU it sees no fused attention
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(*given)
        torchs = int(counter.get_total_flops()) // 2
    cached = cache = None
    if sizes.cached:
        with torch.no_grad():
            ready = behind_a_cache(config, model, sizes, given)
            if ready is not None:
                step, kept = ready
                with Operators(model) as one:
                    step()
                cached, cache = sum(one.multiply_adds.values()), kept()
    return Measured(
        weights,
        biases,
        dict(seen.multiply_adds),
        dict(seen.moved),
        held_bytes(model, given, device),
        cached,
        cache,
        torchs,
    )


def parameters(config: Any, sizes: Sizes) -> tuple[dict[str, int], dict[str, int]]:
    """Weights and biases by module, of a model without memory for either."""
    with torch.device("meta"):
        model = built(config, sizes)
    weights: dict[str, int] = defaultdict(int)
    biases: dict[str, int] = defaultdict(int)
    for name, parameter in model.named_parameters():
        path, _, last = name.rpartition(".")
        kind = biases if last.endswith("bias") else weights
        kind[any_layer(path)] += parameter.numel()
    return dict(weights), dict(biases)


def held_bytes(model: nn.Module, given: tuple[Any, ...], device: torch.device) -> int:
    """What a forward pass leaves behind while its output is there to go back from."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        out = model(*given)
        held = torch.cuda.memory_allocated(device) - before
    else:
        with LiveBytes() as live:
            out = model(*given)
            held = live.now
    del out
    return held


def peak_of_step(config: Any, sizes: Sizes, device: str | torch.device = "cpu") -> int:
    """The most bytes in memory during a real step of AdamW, weights among them; not the batch."""
    device = torch.device(device)
    model = built(config, sizes).to(device).eval()
    given = tree_map(lambda x: moved_to(x, device), inputs(config, sizes))
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        loss_of(config, model(*given)).backward()
        optimiser.step()

    step()  # from here on the two means are there
    optimiser.zero_grad(set_to_none=True)
    if device.type == "cuda":
        batch = sum(x.nbytes for x in tree_leaves(given) if isinstance(x, Tensor))
        torch.cuda.reset_peak_memory_stats(device)
        step()
        return torch.cuda.max_memory_allocated(device) - batch
    weights = sum(weight.nbytes for weight in model.parameters())
    with LiveBytes() as live:
        step()
    return 3 * weights + live.peak


def moved_to(x: Any, device: torch.device) -> Any:
    if isinstance(x, Tensor):
        return x.to(device)
    if hasattr(x, "tokens"):  # sequences, a dataclass of tokens and where they are
        return type(x)(x.tokens.to(device), x.positions)
    return x


def any_layer(path: str) -> str:
    """blocks.3.attention → blocks.*.attention."""
    return re.sub(r"(^|\.)(blocks|decoder|encoder)\.\d+", r"\1\2.*", path)


class Operators(TorchDispatchMode):
    """Counts multiply-adds and bytes moved, by the module that is at work."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.model, self.path = model, [""]
        self.multiply_adds: dict[str, int] = defaultdict(int)
        self.moved: dict[str, int] = defaultdict(int)
        self.watching = self.followed()

    def __enter__(self) -> Operators:
        self.watching.__enter__()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *trouble: Any) -> None:
        super().__exit__(*trouble)  # type: ignore[no-untyped-call]
        self.watching.__exit__(*trouble)

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Knows which module is at work."""
        hooks = []
        for name, module in self.model.named_modules():
            here = any_layer(name)
            hooks += [
                module.register_forward_pre_hook(lambda *_, here=here: self.path.append(here)),
                module.register_forward_hook(lambda *_: self.left(), always_call=True),
            ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def left(self) -> None:
        self.path.pop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        here = self.path[-1]
        count = PRODUCTS.get(func.overloadpacket)
        if count is not None:
            self.multiply_adds[here] += count(args, kwargs, out)
        self.moved[here] += bytes_moved(func, args, kwargs, out)
        return out


def bytes_moved(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    """Inputs and outputs, each once; nothing where the output is a view of an input."""
    ins = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    outs = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
    seen = {x.untyped_storage()._cdata for x in ins}
    new = [x for x in outs if x.untyped_storage()._cdata not in seen]
    if not new and not func._schema.is_mutable:
        return 0
    if func.overloadpacket is torch.ops.aten.embedding:  # of the table only the rows are read
        ins = [*ins[1:], *outs]
    return sum(x.nbytes for x in ins) + sum(x.nbytes for x in new)


def of_matrices(args: Any, kwargs: Any, out: Any) -> int:
    """n × k by k × m, perhaps many at once: k for each number that comes out."""
    result = out if isinstance(out, Tensor) else out[0]
    matrices = [x for x in args if isinstance(x, Tensor)]
    return int(result.numel() * matrices[-1].shape[-2 if matrices[-1].ndim > 1 else -1])


def of_convolution(args: Any, kwargs: Any, out: Tensor) -> int:
    """Each number that comes out is a product with one kernel."""
    transposed = args[6]
    if transposed:
        raise ValueError("nobody has said what a transposed convolution computes; say it here")
    return int(out.numel() * args[1][0].numel())


def of_attention(args: Any, kwargs: Any, out: Any) -> int:
    """A score and a read for each pair; under the causal flag, of each query with no later key."""
    q, k, v = args[:3]
    n, m = q.shape[-2], k.shape[-2]
    # Where the flag stands differs between the kernels, but it is the only one that is True.
    flags = [x for x in (*args[3:], kwargs.get("is_causal")) if isinstance(x, bool)]
    pairs = sum(min(at + 1, m) for at in range(n)) if any(flags) else n * m
    return int(q.shape[:-2].numel() * pairs * (q.shape[-1] + v.shape[-1]))


Counter = Callable[[Any, Any, Any], int]
_aten = torch.ops.aten
PRODUCTS: dict[Any, Counter] = {
    **dict.fromkeys(
        [_aten.mm, _aten.addmm, _aten.bmm, _aten.baddbmm, _aten.baddbmm_, _aten.mv, _aten.addmv],
        of_matrices,
    ),
    _aten.dot: of_matrices,
    _aten.convolution: of_convolution,
    **dict.fromkeys(
        [
            _aten._scaled_dot_product_flash_attention_for_cpu,
            _aten._scaled_dot_product_flash_attention,
            _aten._scaled_dot_product_efficient_attention,
            _aten._scaled_dot_product_cudnn_attention,
        ],
        of_attention,
    ),
}
