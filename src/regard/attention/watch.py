"""Look at what a model reads while it runs, without changing how it runs.

    with watch(model) as seen:
        logits = model(images)
    seen["blocks.4.attention"].weights(rows=[0])

A watched model takes the same fast path as always. Each attention call is kept as references to
its q, k, v, positions, mask and bias; weights are computed afterwards, for the rows asked, by the
dense twin of the layer's attention: its `plain`, if it has one, or else softmax attention's.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.call import Call
from regard.attention.channel import ChannelCall
from regard.attention.core import AttentionOutput, plain, read_in_rows
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.positions import Positions

LARGEST_MAP = 1 << 28  # entries of a map that may be asked for at once: a gigabyte in float32


@dataclass(frozen=True)
class AttentionRecord:
    """One attention call that was watched."""

    name: str
    call: Call
    output: Float[Tensor, "*b h n e"]
    is_self_attention: bool  # whether the layer read its own sequence rather than a context
    plain: Callable[[Call], AttentionOutput] = plain  # the dense twin of the layer's attention

    def weights(
        self, rows: Sequence[int] | None = None, heads: Sequence[int] | None = None
    ) -> Float[Tensor, "*b h n m"]:
        """The attention weights of some queries (rows) and heads; all of them by default."""
        call = self._part(rows, heads)
        size = math.prod(call.q.shape[:-1]) * call.k.shape[-2]
        if size > LARGEST_MAP:
            raise ValueError(
                f"the map {tuple(call.q.shape[:-1])} × {call.k.shape[-2]} of {self.name} has "
                f"{size:,} entries, more than {LARGEST_MAP:,}: ask for fewer rows or heads"
            )
        if not isinstance(call, ChannelCall):  # whose values are read across
            call = replace(call, v=call.v[..., :0])  # nobody asks what is read, so nothing is
        with torch.no_grad():
            return self.plain(call).weights

    def error(self, rows: Sequence[int] | None = None) -> float:
        """How far the weights of these rows, times v, are from what the layer really read.

        Relative to the largest entry read: the proof that the map shown is the map used.
        """
        with torch.no_grad():
            again = read_in_rows(self.plain, self._part(rows, None))
            read = self.output if rows is None else self.output[..., [int(row) for row in rows], :]
            scale = self.output.abs().amax().clamp(min=torch.finfo(read.dtype).tiny)
            return float((again - read).abs().amax() / scale) if read.numel() else 0.0

    def _part(self, rows: Sequence[int] | None, heads: Sequence[int] | None) -> Call:
        n, h = self.call.q.shape[-2], self.call.q.shape[-3]
        call = self.call if rows is None else self.call.rows(self._chosen("rows", rows, n))
        return call if heads is None else call.heads(self._chosen("heads", heads, h))

    def _chosen(self, what: str, numbers: Sequence[int], count: int) -> list[int]:
        chosen = [int(number) for number in numbers]
        if not chosen or not all(-count <= number < count for number in chosen):
            raise ValueError(f"{what}={chosen}: {self.name} has {count}, from 0 to {count - 1}")
        return chosen


class Observer:
    """What one layer reports to, while it is watched."""

    def __init__(self, name: str, twin: Callable[[Call], AttentionOutput] = plain) -> None:
        self.name, self.plain = name, twin
        self.calls: list[AttentionRecord] = []
        self.compiled: AttentionRecord | None = None

    def __call__(self, call: Call, read: Tensor, own: bool) -> None:
        if read.is_cuda and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                f"{self.name} is being captured as a CUDA graph, whose tensors are overwritten "
                "at every replay: watch the model outside the capture"
            )
        if isinstance(call.q_pos, Tensor):  # a decoder may move its positions on in place
            call = replace(call, q_pos=call.q_pos.clone())
        if isinstance(call.k_pos, Tensor):
            call = replace(call, k_pos=call.k_pos.clone())
        seen = AttentionRecord(self.name, call, read, own, self.plain)
        if torch.compiler.is_compiling():
            # A list that grows would be compiled anew at every length: the newest call is kept.
            self.compiled = seen
        else:
            self.calls.append(seen)

    def history(self) -> list[AttentionRecord]:
        """Every call of an eager layer, the newest of a compiled one."""
        return self.calls if self.compiled is None else [*self.calls, self.compiled]


class Watch(Mapping[str, AttentionRecord]):
    """The newest call of each attention layer, by its name; `calls(name)` has the earlier ones."""

    def __init__(self, observers: Mapping[str, Observer]) -> None:
        self._observers = observers

    def calls(self, name: str) -> list[AttentionRecord]:
        """All calls of one layer, oldest first; of a compiled model the newest alone."""
        if name not in self._observers or not self._observers[name].history():
            known = _few(self) or "none"
            raise KeyError(f"no attention layer {name!r} was called; layers seen: {known}")
        return self._observers[name].history()

    def __getitem__(self, name: str) -> AttentionRecord:
        return self.calls(name)[-1]

    def __iter__(self) -> Iterator[str]:
        return (name for name, observer in self._observers.items() if observer.history())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def rollout(self, residual: float = 0.5) -> Float[Tensor, "*b n n"]:
        """How much of each input token reaches each output token (Abnar and Zuidema 2020).

        Heads are averaged, `residual` of every layer passes by unread, and the layers of
        self-attention are multiplied, first to last.
        """
        flow: Tensor | None = None
        for name, seen in self.items():
            if not seen.is_self_attention:
                continue  # what another sequence tells is not this one's
            if isinstance(seen.call, ChannelCall):
                raise ValueError(
                    f"rollout follows tokens, and in {name} channels read channels: watch the "
                    "other layers alone, by name"
                )
            n, m = seen.call.q.shape[-2], seen.call.k.shape[-2]
            if not _same(seen.call.q_pos, seen.call.k_pos):
                raise ValueError(
                    f"rollout follows whole sequences, and {name} read {m} keys with {n} queries "
                    "elsewhere: watch a pass without a cache"
                )
            weights = seen.weights().mean(-3)
            weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
            here = torch.eye(n, device=weights.device, dtype=weights.dtype)
            step = residual * here + (1 - residual) * weights
            # A query that reads nothing keeps only what passes by.
            step = step / step.sum(-1, keepdim=True)
            if flow is not None and flow.shape[-1] != n:
                raise ValueError(
                    f"rollout needs one number of tokens; {name} has {n}, not {flow.shape[-1]}"
                )
            flow = step if flow is None else step @ flow
        if flow is None:
            raise ValueError("no layer of self-attention over one sequence was seen")
        return flow

    def __repr__(self) -> str:
        lines = [
            f"  {name}: {tuple(seen.call.q.shape)} reads {tuple(seen.call.k.shape)}"
            for name, seen in self.items()
        ]
        return "\n".join([f"{len(self)} attention layers seen", *lines])


@contextmanager
def watch(model: nn.Module, *names: str) -> Iterator[Watch]:
    """Keep every attention call of `model` inside the `with` block.

    With names, or patterns such as `blocks.*.cross`, only those layers are kept. What is kept
    stays in memory: q, k, v and the read of each call, four times its tokens.
    """
    layers = {
        name.removeprefix("_orig_mod").strip(".") or type(layer).__name__: layer
        for name, layer in model.named_modules()  # torch.compile adds the prefix
        if isinstance(layer, MultiHeadAttention)
    }
    if not layers:
        raise ValueError(f"{type(model).__name__} has no MultiHeadAttention layer to watch")
    for pattern in names:
        if not fnmatch.filter(layers, pattern):
            raise ValueError(f"no attention layer is named {pattern!r}; there are {_few(layers)}")
    if names:
        wanted = {name for pattern in names for name in fnmatch.filter(layers, pattern)}
        layers = {name: layer for name, layer in layers.items() if name in wanted}
    observers = {
        name: Observer(name, getattr(layer.attention, "plain", plain))
        for name, layer in layers.items()
    }
    try:
        for name, layer in layers.items():
            layer.observers = (*layer.observers, observers[name])
        yield Watch(observers)
    finally:
        for name, layer in layers.items():
            layer.observers = tuple(o for o in layer.observers if o is not observers[name])


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed) if len(listed) < 7 else f"{', '.join(listed[:3])}, … {listed[-1]}"


def _same(a: Positions | None, b: Positions | None) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.equal(a, b)
    return a == b if isinstance(a, range) and isinstance(b, range) else a is b
