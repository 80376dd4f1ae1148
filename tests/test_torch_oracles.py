"""MultiHead, Block and a whole encoder-decoder against torch.nn's own, with the weights copied."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard import (
    MLP,
    Block,
    MultiHeadAttention,
    StackConfig,
    attend,
    attend_fused,
    causal,
    make_blocks,
)

LIMITS = {torch.float64: 1e-10, torch.float32: 1e-5}  # of the largest entry
DTYPES = pytest.mark.parametrize("dtype", LIMITS, ids=["float64", "float32"])
ORDERS = pytest.mark.parametrize("norm_first", [True, False])

B, N, M, C, H, F = 2, 5, 7, 12, 3, 20  # batch, queries, keys, width, heads, feed-forward width


class Twins:
    """Parameters of ours and theirs that hold the same numbers, and so must get one gradient."""

    def __init__(self) -> None:
        self.pairs: list[tuple[nn.Parameter, nn.Parameter, Callable[[Tensor], Tensor]]] = []

    def tie(
        self,
        ours: nn.Parameter,
        theirs: nn.Parameter,
        part: Callable[[Tensor], Tensor] = lambda whole: whole,
    ) -> None:
        """Copy theirs, or a part of it, into ours."""
        with torch.no_grad():
            assert ours.shape == part(theirs).shape
            ours.copy_(part(theirs))
        self.pairs.append((ours, theirs, part))

    def layer(self, ours: nn.Module, theirs: nn.Module) -> None:
        """Two linear layers, or two norms."""
        assert (ours.bias is None) == (theirs.bias is None)
        self.tie(ours.weight, theirs.weight)
        if ours.bias is not None:
            self.tie(ours.bias, theirs.bias)

    def heads(self, ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
        for i, (name, layer) in enumerate({"q": ours.to_q, "k": ours.to_k, "v": ours.to_v}.items()):

            def third(whole: Tensor, i: int = i) -> Tensor:
                return whole.chunk(3)[i]

            if theirs.in_proj_weight is None:  # keys and values of another width
                self.tie(layer.weight, getattr(theirs, f"{name}_proj_weight"))
            else:
                self.tie(layer.weight, theirs.in_proj_weight, third)
            if layer.bias is not None:
                self.tie(layer.bias, theirs.in_proj_bias, third)
        self.layer(ours.to_out, theirs.out_proj)

    def block(
        self, ours: Block, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
    ) -> None:
        self.heads(ours.attention, theirs.self_attn)
        self.layer(ours.attention_norm, theirs.norm1)
        if ours.cross is not None:
            self.heads(ours.cross, theirs.multihead_attn)
            self.layer(ours.cross_norm, theirs.norm2)
        self.layer(ours.mlp.fc1, theirs.linear1)
        self.layer(ours.mlp.fc2, theirs.linear2)
        self.layer(ours.mlp_norm, theirs.norm2 if ours.cross is None else theirs.norm3)

    def agree(
        self, model: nn.Module, ours: Tensor, theirs: Tensor, inputs: Sequence[Tensor]
    ) -> None:
        """Outputs are equal, and so are gradients by the inputs and by every parameter."""
        assert {id(p) for p in model.parameters()} == {id(p) for p, _, _ in self.pairs}
        assert_same(ours, theirs)
        up = torch.randn_like(ours)
        by_ours = torch.autograd.grad((ours * up).sum(), [*inputs, *(p for p, _, _ in self.pairs)])
        by_theirs = torch.autograd.grad(
            (theirs * up).sum(), [*inputs, *(p for _, p, _ in self.pairs)]
        )
        parts = [lambda whole: whole] * len(inputs) + [part for _, _, part in self.pairs]
        pairs = [(a, part(b)) for a, b, part in zip(by_ours, by_theirs, parts, strict=True)]
        # The gradient by a key bias is 0 but for rounding, which is measured by the others.
        least = max(float(b.abs().max()) for _, b in pairs) / 10
        for a, b in pairs:
            assert_same(a, b, least)


def assert_same(ours: Tensor, theirs: Tensor, least: float = 0.0) -> None:
    """No entry is further off than the dtype allows, as a share of the largest."""
    ours, theirs = ours.detach(), theirs.detach()
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    far, scale = float((ours - theirs).abs().max()), float(theirs.abs().max())
    limit = LIMITS[ours.dtype] * max(scale, least)
    assert far <= limit, f"off by {far:.3g} where the largest entry is {scale:.3g}"


def scrambled(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The model with every number drawn anew: fresh biases are 0, which hides mistakes."""
    for name, p in model.named_parameters():
        of_a_norm = p.ndim == 1 and name.endswith("weight")
        nn.init.normal_(p, mean=1.0 if of_a_norm else 0.0, std=0.3)
    return model.to(dtype).eval()


def leaf(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def padded(lengths: Sequence[int], size: int) -> tuple[Tensor, Tensor]:
    """Where tokens are, −1 for padding, and torch.nn's mask, which is True for padding."""
    positions = torch.arange(size).expand(len(lengths), -1)
    padding = positions >= torch.tensor(lengths)[:, None]
    return positions.masked_fill(padding, -1), padding


def future(n: int) -> Tensor:
    """torch.nn's causal mask, which is True where a query may *not* read."""
    return torch.ones(n, n, dtype=torch.bool).triu(1)


@DTYPES
@pytest.mark.parametrize("bias", [True, False], ids="bias={}".format)
@pytest.mark.parametrize("attention", [attend, attend_fused])
@pytest.mark.parametrize("kind", ["self", "causal", "padded", "causal and padded"])
def test_multihead_is_torchs_self_attention(kind, attention, bias, dtype):
    theirs = scrambled(nn.MultiheadAttention(C, H, bias=bias, batch_first=True), dtype)
    mask = causal if "causal" in kind else None
    ours = MultiHeadAttention(C, H, bias=bias, attention=attention, mask=mask).to(dtype)
    twins = Twins()
    twins.heads(ours, theirs)
    x = leaf(B, N, C, dtype=dtype)
    positions, padding = padded([N, 3], N) if "padded" in kind else (None, None)
    real = torch.ones(B, N, dtype=torch.bool) if padding is None else ~padding
    right, _ = theirs(
        x,
        x,
        x,
        key_padding_mask=padding,
        attn_mask=None if mask is None else future(N),
        need_weights=False,
    )
    twins.agree(ours, ours(x, positions=positions)[real], right[real], [x])


@DTYPES
@pytest.mark.parametrize("bias", [True, False], ids="bias={}".format)
@pytest.mark.parametrize("context_width", [C, 8], ids="context_width={}".format)
@pytest.mark.parametrize("kind", ["whole", "padded"])
def test_multihead_is_torchs_cross_attention(kind, context_width, bias, dtype):
    w = context_width
    theirs = scrambled(
        nn.MultiheadAttention(C, H, bias=bias, kdim=w, vdim=w, batch_first=True), dtype
    )
    ours = MultiHeadAttention(C, H, bias=bias, context_width=w).to(dtype)
    twins = Twins()
    twins.heads(ours, theirs)
    x, context = leaf(B, N, C, dtype=dtype), leaf(B, M, w, dtype=dtype)
    positions, padding = padded([4, M], M) if kind == "padded" else (None, None)
    right, _ = theirs(x, context, context, key_padding_mask=padding, need_weights=False)
    twins.agree(ours, ours(x, context, context_positions=positions), right, [x, context])


def test_weights_are_torchs_weights_head_by_head():
    theirs = scrambled(nn.MultiheadAttention(C, H, batch_first=True), torch.float64)
    seen = []

    def look(*args, **options):
        seen.append(attend(*args, **options))
        return seen[-1]

    ours = MultiHeadAttention(C, H, attention=look, mask=causal).double()
    Twins().heads(ours, theirs)
    x = leaf(B, N, C, dtype=torch.float64)
    ours(x)
    _, weights = theirs(x, x, x, attn_mask=future(N), average_attn_weights=False)
    assert_same(seen[0].weights, weights)


@DTYPES
@ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("kind", ["whole", "causal", "padded"])
def test_a_block_is_torchs_encoder_layer(kind, activation, norm_first, dtype):
    options = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    theirs = scrambled(nn.TransformerEncoderLayer(C, H, F, activation=activation, **options), dtype)
    ours = Block(
        MultiHeadAttention(C, H, mask=causal if kind == "causal" else None),
        MLP(C, F, activation),
        norm=partial(nn.LayerNorm, C),
        norm_first=norm_first,
    ).to(dtype)
    twins = Twins()
    twins.block(ours, theirs)
    x = leaf(B, N, C, dtype=dtype)
    positions, padding = padded([3, N], N) if kind == "padded" else (None, None)
    real = torch.ones(B, N, dtype=torch.bool) if padding is None else ~padding
    mask = future(N) if kind == "causal" else None
    right = theirs(x, src_mask=mask, src_key_padding_mask=padding)
    twins.agree(ours, ours(x, positions=positions)[real], right[real], [x])


@DTYPES
@ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("kind", ["whole", "padded context"])
def test_a_block_with_cross_attention_is_torchs_decoder_layer(kind, activation, norm_first, dtype):
    options = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    theirs = scrambled(nn.TransformerDecoderLayer(C, H, F, activation=activation, **options), dtype)
    ours = Block(
        MultiHeadAttention(C, H, mask=causal),
        MLP(C, F, activation),
        cross=MultiHeadAttention(C, H),
        norm=partial(nn.LayerNorm, C),
        norm_first=norm_first,
    ).to(dtype)
    twins = Twins()
    twins.block(ours, theirs)
    x, context = leaf(B, N, C, dtype=dtype), leaf(B, M, C, dtype=dtype)
    positions, padding = padded([4, M], M) if "padded" in kind else (None, None)
    right = theirs(x, context, tgt_mask=future(N), memory_key_padding_mask=padding)
    twins.agree(ours, ours(x, context, context_positions=positions), right, [x, context])


class EncoderDecoder(nn.Module):
    """Two stacks, each with a norm at its end: the transformer of 2017 without its embeddings."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.encoder = make_blocks(config)
        self.decoder = make_blocks(config, mask=causal, context_width=config.width)
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(C), nn.LayerNorm(C)

    def forward(self, source: Tensor, x: Tensor, source_positions: Tensor) -> Tensor:
        for block in self.encoder:
            source = block(source, positions=source_positions)
        source = self.encoder_norm(source)
        for block in self.decoder:
            x = block(x, source, context_positions=source_positions)
        return self.decoder_norm(x)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@DTYPES
@ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_two_stacks_are_torchs_transformer(activation, norm_first, dtype):
    theirs = scrambled(
        nn.Transformer(C, H, 2, 2, F, 0.0, activation, batch_first=True, norm_first=norm_first),
        dtype,
    )
    config = StackConfig(
        width=C, heads=H, layers=2, mlp_width=F, activation=activation, norm_first=norm_first
    )
    ours, twins = EncoderDecoder(config).to(dtype), Twins()
    for mine, their in zip(ours.encoder, theirs.encoder.layers, strict=True):
        twins.block(mine, their)
    for mine, their in zip(ours.decoder, theirs.decoder.layers, strict=True):
        twins.block(mine, their)
    twins.layer(ours.encoder_norm, theirs.encoder.norm)
    twins.layer(ours.decoder_norm, theirs.decoder.norm)

    source, x = leaf(B, M, C, dtype=dtype), leaf(B, N, C, dtype=dtype)
    positions, padding = padded([M, 4], M)
    right = theirs(
        source,
        x,
        tgt_mask=future(N),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    twins.agree(ours, ours(source, x, positions), right, [source, x])


# torch.nn has no block with RMSNorm and SwiGLU, so here is one in NumPy.


def rms(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def heads_by_hand(w: dict[str, np.ndarray], x: np.ndarray, heads: int, groups: int) -> np.ndarray:
    """Causal attention of one sequence (n c), head by head and query by query."""
    n, d = len(x), w["attention.to_q.weight"].shape[0] // heads
    q, k, v = (x @ w[f"attention.to_{name}.weight"].T for name in "qkv")
    read = np.zeros((n, heads * d))
    for head in range(heads):
        own = head // (heads // groups)
        mine, theirs = slice(head * d, (head + 1) * d), slice(own * d, (own + 1) * d)
        for i in range(n):
            scores = k[: i + 1, theirs] @ q[i, mine] / d**0.5
            weights = np.exp(scores - scores.max())
            read[i, mine] = weights / weights.sum() @ v[: i + 1, theirs]
    return read @ w["attention.to_out.weight"].T


def swiglu_by_hand(w: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    hidden = x @ w["mlp.fc1.weight"].T
    gated = hidden / (1 + np.exp(-hidden)) * (x @ w["mlp.gate.weight"].T)
    return gated @ w["mlp.fc2.weight"].T


@ORDERS
@pytest.mark.parametrize("groups", [4, 2, 1], ids="kv_heads={}".format)
def test_a_block_with_rmsnorm_and_swiglu_is_the_one_written_by_hand(groups, norm_first):
    config = StackConfig(
        width=16,
        heads=4,
        kv_heads=groups,
        layers=1,
        activation="swiglu",
        norm="rmsnorm",
        norm_first=norm_first,
        norm_eps=1e-3,
        bias=False,
    )
    (block,) = make_blocks(config, mask=causal)
    scrambled(block, torch.float64)
    parameters = dict(block.named_parameters())
    x = leaf(N, 16, dtype=torch.float64)

    def by_hand(numbers: dict[str, np.ndarray]) -> np.ndarray:
        w, x = numbers, numbers["x"]
        steps = [
            ("attention_norm.weight", partial(heads_by_hand, w, heads=4, groups=groups)),
            ("mlp_norm.weight", partial(swiglu_by_hand, w)),
        ]
        for norm, sublayer in steps:
            if norm_first:
                x = x + sublayer(x=rms(x, w[norm], config.norm_eps))
            else:
                x = rms(x + sublayer(x=x), w[norm], config.norm_eps)
        return x

    ours = block(x)
    numbers = {name: p.detach().numpy() for name, p in (parameters | {"x": x}).items()}
    assert_same(ours.detach(), torch.from_numpy(by_hand(numbers)))

    # The slope of a loss along a direction through all numbers, by hand and by our gradients.
    up, step = torch.randn_like(ours), 1e-5
    grads = torch.autograd.grad((ours * up).sum(), [*parameters.values(), x])
    for name, grad in zip(numbers, grads, strict=True):
        way = np.random.default_rng(0).normal(size=grad.shape)
        high, low = (
            (by_hand(numbers | {name: numbers[name] + sign * step * way}) * up.numpy()).sum()
            for sign in (1, -1)
        )
        slope = float((grad * torch.from_numpy(way)).sum())
        assert slope == pytest.approx((high - low) / (2 * step), rel=1e-6, abs=1e-6), name
