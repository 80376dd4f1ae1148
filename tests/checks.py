"""A few quick checks that no fault in attention should survive, as plain functions.

`test_mutants.py` runs them on the real source, as tests, and on copies with a fault planted in
each. As a script it runs them on every source tree named on the command line, in one process,
and prints as JSON which checks failed on which tree. Two more stand behind them: one needs a
process of its own, the other a task to train.
"""

import importlib
import json
import math
import operator
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from regard.attention import (
    KVCache,
    MultiHeadAttention,
    alibi,
    attend,
    attend_fused,
    blocks,
    causal,
    relative_bias,
    rope,
    sinks,
    window,
)
from regard.attention.call import Call
from regard.attention.kernels import sdpa
from regard.attention.kernels import tiles as sparse

EXACT = {"rtol": 0.0, "atol": 1e-12}


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def case(n: int = 5, m: int = 7) -> SimpleNamespace:
    """Four query heads on two key heads; the last queries of a longer sequence."""
    return SimpleNamespace(
        q=randn(2, 4, n, 8),
        k=randn(2, 2, m, 8),
        v=randn(2, 2, m, 3),
        q_pos=range(m - n, m),
        k_pos=range(m),
    )


def by_hand(c: SimpleNamespace, reads: Callable[[int, int], bool], bias: Tensor | None) -> Tensor:
    """The read of every query, one at a time, in Python's own floats."""
    (b, h, n, d), (g, m) = c.q.shape, c.k.shape[1:3]
    q, k, v = c.q.tolist(), c.k.tolist(), c.v.tolist()
    added = torch.zeros(h, n, m).tolist() if bias is None else bias.tolist()

    def one(i: int, j: int, row: int) -> list[float]:
        keys, values = k[i][j * g // h], v[i][j * g // h]
        weights = [
            math.exp(
                sum(map(operator.mul, q[i][j][row], keys[column])) / math.sqrt(d)
                + added[j][row][column]
            )
            if reads(c.q_pos[row], c.k_pos[column])
            else 0.0
            for column in range(m)
        ]
        whole = sum(weights) or 1.0
        columns = zip(*values, strict=True)
        return [sum(map(operator.mul, weights, column)) / whole for column in columns]

    return torch.tensor(
        [[[one(i, j, row) for row in range(n)] for j in range(h)] for i in range(b)],
        dtype=torch.float64,
    )


def both(c: SimpleNamespace, **options) -> list[Tensor]:
    """The read of the plain path and of the fast one."""
    where = {"q_pos": c.q_pos, "k_pos": c.k_pos} | options
    return [attend(c.q, c.k, c.v, **where).output, attend_fused(c.q, c.k, c.v, **where)]


def check_attention_is_the_formula() -> None:
    for c in (case(), case(6, 6)):
        bias = randn(4, len(c.q_pos), len(c.k_pos))
        for mask, reads in [
            (None, lambda q, k: True),
            (causal, lambda q, k: k <= q),
            (causal & window(3), lambda q, k: 0 <= q - k < 3),
            (~causal, lambda q, k: k > q),  # the last query is blind
        ]:
            for added in (None, bias):
                wanted = by_hand(c, reads, added)
                for read in both(c, mask=mask, bias=added):
                    torch.testing.assert_close(read, wanted, **EXACT)


def check_weights_sum_to_one_or_to_nothing() -> None:
    c = case()
    for bias in (None, randn(4, 5, 7)):
        weights = attend(
            c.q, c.k, c.v, mask=~causal, q_pos=c.q_pos, k_pos=c.k_pos, bias=bias
        ).weights
        sums = torch.tensor([1.0, 1, 1, 1, 0], dtype=torch.float64).expand(2, 4, 5)
        torch.testing.assert_close(weights.sum(-1), sums, **EXACT)


def check_a_masked_key_is_not_read_however_bad_the_others_are() -> None:
    c = case(3, 3)
    c.q, c.k = torch.ones_like(c.q), torch.full_like(c.k, -1e12)
    c.k[:, :, 2] = 0.0  # its score is the best by far, and the first two queries may not see it
    for bias in (None, torch.zeros(3, 3, dtype=torch.float64)):
        for read in both(c, mask=causal, bias=bias):
            torch.testing.assert_close(read[:, ::2, 0], c.v[:, :, 0], **EXACT)
            torch.testing.assert_close(read[:, ::2, 1], c.v[:, :, :2].mean(2), **EXACT)


def check_nowhere_is_never_read() -> None:
    c, holes = case(), torch.tensor([0, -1, 2, 3, -1, 5, 6])
    for mask in (None, causal, ~causal, ~(causal & window(2)), torch.ones(5, 7).bool()):
        clean = both(c, mask=mask, k_pos=holes)
        kept = [i for i, at in enumerate(holes) if at >= 0]
        cut = case()
        cut.q, cut.k, cut.v = c.q, c.k[:, :, kept], c.v[:, :, kept]
        less = mask[:, kept] if isinstance(mask, Tensor) else mask
        for read, wanted in zip(clean, both(cut, mask=less, k_pos=holes[kept]), strict=True):
            torch.testing.assert_close(read, wanted, **EXACT)
        nan = case()
        nan.q, nan.k, nan.v = c.q, c.k.clone(), c.v.clone()
        nan.k[:, :, holes < 0] = nan.v[:, :, holes < 0] = torch.nan
        for read, wanted in zip(both(nan, mask=mask, k_pos=holes), clean, strict=True):
            torch.testing.assert_close(read, wanted, **EXACT)
    for mask in (causal, ~causal, window(9), ~window(2)):
        read = mask(torch.tensor([3, -1]), torch.tensor([-1, 1, 3, 5]))
        assert not read[:, 0].any() and not read[1].any() and read[0].any()


def check_every_fast_path_reads_what_the_plain_one_reads() -> None:
    c = case()
    for path, mask, n in [
        (sdpa.whole, None, 5),
        (sdpa.causal_square, causal, 7),
        (sdpa.causal_tail, causal, 5),
        (sdpa.dense, causal & window(3), 5),
        (sdpa.dense, ~causal, 5),
    ]:
        c = case(n, 7)
        call = Call.check(c.q, c.k, c.v, mask, c.q_pos, c.k_pos)
        wanted = attend(c.q, c.k, c.v, mask=mask, q_pos=c.q_pos, k_pos=c.k_pos).output
        torch.testing.assert_close(path(call), wanted, **EXACT)
    q, k, v = randn(1, 500, 4), randn(1, 700, 4), randn(1, 700, 4)
    for mask in (causal & window(100), causal & (window(60) | sinks(3)), blocks(150), ~causal):
        where = {"mask": mask, "q_pos": range(200, 700), "k_pos": range(700)}
        call = Call.check(q, k, v, **where)
        wanted = attend(q, k, v, **where).output
        torch.testing.assert_close(sparse.tiled(call), wanted, **EXACT)


def check_chunks_read_what_one_pass_reads() -> None:
    x = randn(2, 12, 16)
    for place in (None, rope(), alibi(4), relative_bias(4, 6)):
        for parameter in place.parameters() if place else ():
            torch.nn.init.normal_(parameter)
        for mask in (causal, causal & window(4), causal & (blocks(3) | sinks(1))):
            layer = MultiHeadAttention(16, 4, kv_heads=2, pos_embed=place, mask=mask).double()
            once = layer(x, positions=range(12))
            for keep, size in [(None, None), (mask, None), (None, 12), (mask, 12)]:
                for as_tensor in (False, True):
                    cache, out = KVCache(size=size, keep=keep), []
                    for chunk in (range(5), range(5, 6), range(6, 9), range(9, 12)):
                        where = torch.tensor(chunk) if as_tensor else chunk
                        out.append(layer(x[:, chunk], positions=where, cache=cache))
                    torch.testing.assert_close(torch.cat(out, 1), once, **EXACT)


def check_beams_continue_what_they_were_given() -> None:
    layer = MultiHeadAttention(16, 4, pos_embed=rope(), mask=causal).double()
    x, index = randn(3, 6, 16), torch.tensor([2, 0, 2])
    once = layer(torch.cat([x[index, :4], x[:, 4:]], 1), positions=range(6))[:, 4:]
    for size in (None, 6):
        cache = KVCache(size=size)
        layer(x[:, :4], positions=range(4), cache=cache)
        cache.reorder(index)
        torch.testing.assert_close(
            layer(x[:, 4:], positions=range(4, 6), cache=cache), once, **EXACT
        )


def check_far_keys_weigh_less_under_alibi() -> None:
    c = case()
    c.k = torch.zeros_like(c.k)
    weights = attend(c.q, c.k, c.v, bias=alibi(4).bias(c.q_pos, c.k_pos)).weights
    assert (weights[..., -1, :].diff() > 0).all()


def check_rotary_scores_depend_on_the_distance_alone() -> None:
    q, k = randn(1, 1, 1, 8).expand(1, 1, 9, 8), randn(1, 1, 1, 8).expand(1, 1, 9, 8)
    turned_q, turned_k = rope().rotate(q, k, range(9), range(9))
    scores = (turned_q @ turned_k.mT)[0, 0]
    torch.testing.assert_close(scores[1:, 1:], scores[:-1, :-1], **EXACT)
    assert scores[0].std() > 0.01
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm(dim=-1), **EXACT)
    # Later keys turn further: at distance one the first pair of dimensions is an angle of one.
    one = torch.zeros(1, 1, 1, 8, dtype=torch.float64)
    one[..., 0] = 1.0
    turned, _ = rope().rotate(one, one, range(1, 2), range(1, 2))
    wanted = torch.tensor([math.cos(1), math.sin(1)], dtype=torch.float64)
    torch.testing.assert_close(turned[0, 0, 0, [0, 4]], wanted, **EXACT)


CHECKS: dict[str, Callable[[], None]] = {
    name: check for name, check in list(globals().items()) if name.startswith("check_")
}


def compiled_decoding() -> None:
    """A compiled step over a fixed cache reads what one pass reads, and is compiled once.

    It stands here because a graph cannot hold the shape checks that pytest adds to the source.
    """
    for keep in (None, causal & window(4)):
        for batched in (False, True):
            decode_compiled(KVCache(size=12, keep=keep), batched)


def decode_compiled(cache: KVCache, batched: bool) -> None:
    torch._dynamo.reset()
    layer = MultiHeadAttention(
        16, 4, kv_heads=2, pos_embed=rope(), mask=causal & window(4)
    ).double()
    x, graphs = randn(2, 10, 16), []

    def counted(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        graphs.append(graph)
        return graph.forward

    @torch.compile(fullgraph=True, backend=counted)
    def step(token: Tensor, where: Tensor) -> Tensor:
        return layer(token, positions=where, cache=cache)

    with torch.no_grad():
        once = layer(x, positions=range(10))
        prompt = torch.arange(3).expand(2, -1).clone() if batched else torch.arange(3)
        out = [layer(x[:, :3], positions=prompt, cache=cache)]
        for at in range(3, 10):
            where = torch.full((2, 1), at) if batched else torch.tensor([at])
            out.append(step(x[:, at : at + 1].clone(), where))
    torch.testing.assert_close(torch.cat(out, 1), once, **EXACT)
    assert len(graphs) == 1, f"{len(graphs)} graphs for seven steps"


def goes_on_bit_for_bit(train: Callable[..., Any], folder: Path) -> None:
    """A run that stops after one epoch of two ends as one does that never stopped.

    `train(out=…, epochs=…, **changes)` makes a new run.
    """
    from regard import train as train_on

    # A rate that does not depend on how many epochs are planned.
    level = {"train.ema_decay": 0.9, "train.lr_schedule": {"name": "constant", "warmup_ratio": 0.0}}
    whole = train(out=folder / "whole", epochs=2, **level)
    part = train(out=folder / "part", epochs=1, **level)
    options = {"resume": True, "epochs": 2, "quiet": True, "device": "cpu", "report": False}
    again = train_on(part.task.name, out=folder / "part", **options)
    theirs = whole.model.state_dict()
    for name, weight in again.model.state_dict().items():
        assert torch.equal(weight, theirs[name]), name
    assert [line["val/loss"] for line in again.metrics] == [
        line["val/loss"] for line in whole.metrics
    ]


def failures() -> dict[str, str]:
    """The checks that fail, each with the first line of why."""
    found = {}
    for name, check in CHECKS.items():
        torch.manual_seed(0)
        try:
            check()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"
    return found


def failures_of(tree: str) -> dict[str, str]:
    """The checks that fail when `regard` is imported from another source tree."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("regard", "checks")]:
        del sys.modules[name]
    sys.path.insert(0, tree)
    try:
        importlib.invalidate_caches()
        checks = importlib.import_module("checks")
        home = sys.modules["regard"].__file__
        assert home is not None and home.startswith(tree), f"{home} is not in {tree}"
        return checks.failures()
    except Exception as error:  # a fault that cannot even be imported is found too
        return {"import": f"{type(error).__name__}: {error}"}
    finally:
        sys.path.remove(tree)


if __name__ == "__main__":
    print(json.dumps({tree: failures_of(tree) for tree in sys.argv[1:]}))
