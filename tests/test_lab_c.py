"""Claims of the lab about what attention can be, and about the parts around it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from golden import expect_error
from regard.attention import MultiHeadAttention, attend, attend_fused, causal, learned_2d, window
from regard.attention.pos_embed import Learned, RelativeBias
from regard.attention.watch import AttentionRecord
from regard.errors import UserError
from regard.lab.claims import as_convolution, as_pointwise, graph, load_claim, parallel_rnn
from regard.lab.claims.norm_place import last_gradients
from regard.lab.claims.vit_masks import measure as vit_masks
from regard.lab.counting import chain
from regard.models import MLP, Block, PatchEmbed
from regard.models.layers import NORMS

CLAIMS = (
    "as-identity",
    "as-pointwise",
    "as-convolution",
    "parallel-rnn",
    "ffn",
    "layernorm-axis",
    "norm-place",
    "patch-conv",
    "vit-masks",
    "learned-positions",
    "map-shape",
    "graph",
)


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("name", CLAIMS)
def test_what_is_found_is_what_is_said(name: str, seed: int) -> None:
    claim = load_claim(name)
    assert claim.id == name
    found = claim.measure(seed=seed)
    assert found.verdict() == claim.verdict
    assert found.controls
    assert not any(control.ok for control in found.controls)
    assert len(found.deciding) <= 45
    assert json.loads(json.dumps(found.to_values()))["found"] == claim.verdict
    assert claim.plot is not None
    assert claim.plot(found).axes


@pytest.mark.parametrize("name", CLAIMS)
def test_questions_know_their_answers(name: str) -> None:
    for question in map(asked(name), range(5)):
        assert question.right(question.answer)
        wrong = question.answer
        wrong = wrong + 1 if isinstance(wrong, float) else (wrong[0] + 1, *wrong[1:])
        assert not question.right(wrong)
        assert not question.right("four")


def asked(name: str) -> Callable[[int], Any]:
    ask = load_claim(name).ask
    assert ask is not None
    return lambda seed: ask(np.random.default_rng(seed))


# Answers worked out by the library or by torch from the words of the question alone.


def numbers_in(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"(?<![\w_])-?\d+(?:\.\d+)?", text)]


@pytest.mark.parametrize("seed", range(4))
def test_the_asked_beta_lets_tokens_read_themselves(seed: int) -> None:
    question = asked("as-identity")(seed)
    n, _, cosine, share = numbers_in(question.text)
    n = int(n)
    products = torch.full((n, n), cosine, dtype=torch.float64).fill_diagonal_(1.0)
    tokens = torch.linalg.cholesky(products)
    weights = attend(tokens, tokens, tokens, beta=question.answer).weights
    torch.testing.assert_close(weights.diagonal(), torch.full((n,), share, dtype=torch.float64))


@pytest.mark.parametrize("seed", range(4))
def test_asked_edges_are_those_of_masks(seed: int) -> None:
    question = asked("graph")(seed)
    n, before = map(int, numbers_in(question.text))
    tokens = range(n)
    near = (causal & window(before + 1))(tokens, tokens)
    assert question.answer == (n * n, int(causal(tokens, tokens).sum()), int(near.sum()))


@pytest.mark.parametrize("seed", range(4))
def test_the_asked_norms_are_torchs(seed: int) -> None:
    question = asked("layernorm-axis")(seed)
    x = torch.tensor(numbers_in(question.text)[:6], dtype=torch.float64).view(2, 3)
    layer = F.layer_norm(x, (3,), eps=0.0)[0, 0]
    batch = F.batch_norm(x, None, None, training=True, eps=1e-12)[0, 0]
    assert question.right((float(layer), float(batch)))


@pytest.mark.parametrize("seed", range(4))
def test_the_asked_feed_forward_is_the_librarys(seed: int) -> None:
    question = asked("ffn")(seed)
    a, b, c, d, x = (numbers_in(question.text)[at] for at in (0, 1, 2, 3, 4))
    layer = MLP(1, 2, "relu", bias=False)
    layer.fc1.weight.data = torch.tensor([[a], [b]])
    layer.fc2.weight.data = torch.tensor([[c, d]])
    assert layer(torch.tensor([[x]])).item() == question.answer[0]
    layer.activation = nn.Identity()
    assert layer(torch.tensor([[x]])).item() == question.answer[1]


@pytest.mark.parametrize("seed", range(4))
def test_the_asked_patch_embedding_is_torchs(seed: int) -> None:
    question = asked("patch-conv")(seed)
    side, _, patch, _, width = map(int, numbers_in(question.text)[:5])
    conv = nn.Conv2d(3, width, patch, stride=patch)
    count = sum(weight.numel() for weight in conv.parameters())
    assert question.answer == (count, (side // patch) ** 2)


@pytest.mark.parametrize("seed", range(4))
def test_the_asked_positions_are_those_of_a_table(seed: int) -> None:
    question = asked("learned-positions")(seed)
    side, _, patch, _, width = map(int, numbers_in(question.text)[:5])
    table = learned_2d((side // patch, side // patch), width, extra=1)
    assert question.answer == (sum(weight.numel() for weight in table.parameters()), 0)


def test_the_published_vit_learns_as_many_numbers() -> None:
    # ViT-B/16 has 151,296 at 224 pixels: here the same grid, and a sixteenth of its width.
    found = load_claim("learned-positions").measure(image=28, patch=2, width=48)
    assert found.written[0].value == 151_296 / 16
    assert found.verdict() == "holds"


def test_chains_are_counted() -> None:
    x = torch.ones(2, requires_grad=True)
    assert chain(x * 2) == 2  # the leaf, and the product
    assert chain(((x * 2) + x).sin()) == 4
    assert chain((x * 2) * (x + 1).exp().log()) == 5


def test_nine_heads_filter_as_scipy_does() -> None:
    from scipy.ndimage import correlate

    picture = as_convolution.picture()
    kernel = torch.tensor(as_convolution.SOBEL, dtype=torch.float64)
    with torch.no_grad():
        ours = as_convolution.on_a_grid(kernel[None, None], picture[None])[0]
    theirs = correlate(picture.numpy(), kernel.numpy())
    np.testing.assert_allclose(ours[1:-1, 1:-1], theirs[1:-1, 1:-1], atol=1e-12)


def test_no_single_head_learns_an_edge() -> None:
    """Gradient descent from several starts does not beat the nearest taps of one sign."""
    torch.manual_seed(0)
    logits = torch.randn(20, 3, dtype=torch.float64, requires_grad=True)
    scale = torch.randn(20, 1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([logits, scale], lr=0.2)
    edge = torch.tensor(as_convolution.EDGE, dtype=torch.float64)
    *_, searched = as_convolution.best_alone(edge.view(1, 1, 3))
    assert searched == pytest.approx(0.5**0.5)
    for _ in range(150):
        off = (logits.softmax(-1) * scale - edge).norm(dim=-1) / edge.norm()
        optimiser.zero_grad()
        off.sum().backward()
        optimiser.step()
    assert float(off.detach().min()) >= 0.5**0.5 - 1e-9
    assert float(off.detach().min()) <= 0.5**0.5 + 0.02


def test_deeper_is_flat_after_and_shrinks_before() -> None:
    after, before = (last_gradients(first, (6, 48), 32, 11) for first in (False, True))
    assert 0.7 < after[1] / after[0] < 1.4
    assert before[1] / before[0] == pytest.approx((6 / 48) ** 0.5, rel=0.4)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("as-identity", {"tokens": 2}),
        ("as-identity", {"tokens": 20}),
        ("as-convolution", {"width": 1}),
        ("as-convolution", {"tokens": 3}),
        ("vit-masks", {"larger": 16}),
        ("norm-place", {"width": 7}),
        ("norm-place", {"draws": 0}),
        ("norm-place", {"depths": (0, 1)}),
        ("norm-place", {"depths": (6,)}),
        ("kernel-trick", {"longer": (64,)}),
        ("kernel-trick", {"longer": ()}),
        ("beta-limits", {"keys": 1}),
        ("key-stretch", {"keys": 1}),
        ("shapes-projection", {"width": 1}),
        ("divide-by-dk", {"keys": 4}),
        ("pretraining-tasks", {"pairs": 0}),
        ("key-noise-mean", {"sigma": 0.0}),
        ("graph", {"tokens": 1}),
        ("residual", {"depths": (0, 1)}),
        ("cheaper-vit", {"sides": ()}),
        ("softmax-jacobian", {"z": ()}),
    ],
)
def test_numbers_that_cannot_show_it_are_refused(name: str, numbers: dict[str, Any]) -> None:
    with expect_error((UserError, ValueError)):
        load_claim(name).measure(**numbers)


def test_other_numbers_may_be_typed() -> None:
    assert load_claim("as-identity").measure(tokens=3, width=5).verdict() == "holds"
    assert load_claim("as-pointwise").measure(tokens=5, heads=4).verdict() == "corrected"
    assert load_claim("graph").measure(tokens=5, share=0.6).verdict() == "holds"
    assert vit_masks(image=16, larger=32, patch=8).verdict() == "depends"


# A fault planted in the library turns the verdict.


def disputed(name: str) -> bool:
    return load_claim(name).measure().verdict() == "disputed"


def test_positions_that_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Learned, "embed", lambda self, x, positions: x)
    assert disputed("as-identity")


def test_a_window_that_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_pointwise, "window", lambda w: window(w + 1))
    assert disputed("as-pointwise")


def test_offsets_the_wrong_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    right = RelativeBias.bias
    monkeypatch.setattr(RelativeBias, "bias", lambda self, q, k: right(self, q, k).mT)
    assert disputed("as-convolution")


def test_attention_that_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stepping(nn.LSTM):
        def __init__(self, width: int, heads: int, **options: Any) -> None:
            super().__init__(width, width, batch_first=True)

        def forward(self, x: torch.Tensor, *rest: Any) -> torch.Tensor:  # type: ignore[override]
            return x.cumsum(-2) if x.ndim == 2 else parallel_rnn.one_by_one(self, x)

    monkeypatch.setattr(parallel_rnn, "MultiHeadAttention", Stepping)
    assert disputed("parallel-rnn")


def test_a_feed_forward_that_looks_around(monkeypatch: pytest.MonkeyPatch) -> None:
    right = MLP.forward
    monkeypatch.setattr(MLP, "forward", lambda self, x: right(self, x + x.mean(-2)))
    assert disputed("ffn")


def test_a_norm_over_tokens_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wide(nn.Module):
        def __init__(self, width: int, eps: float) -> None:
            super().__init__()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.layer_norm(x, x.shape[-2:])

    monkeypatch.setitem(NORMS, "layernorm", Wide)
    assert disputed("layernorm-axis")


def test_a_norm_that_always_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def before(self: Block, x: torch.Tensor, norm: nn.Module, sublayer: Any) -> torch.Tensor:
        return x + sublayer(norm(x))

    monkeypatch.setattr(Block, "add", before)
    assert disputed("norm-place")


def test_patches_read_column_by_column(monkeypatch: pytest.MonkeyPatch) -> None:
    right = PatchEmbed.forward
    monkeypatch.setattr(PatchEmbed, "forward", lambda self, images: right(self, images.mT))
    assert disputed("patch-conv")


def test_a_linear_layer_that_sees_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wide(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + super().forward(x.roll(1, -2))

    right = MultiHeadAttention.__init__

    def wide(self: MultiHeadAttention, width: int, *rest: Any, **options: Any) -> None:
        right(self, width, *rest, **options)
        self.to_q = Wide(width, self.to_q.out_features)

    monkeypatch.setattr(MultiHeadAttention, "__init__", wide)
    assert disputed("patch-conv")


def test_the_largest_derivative_is_that_of_the_largest_weight() -> None:
    found = load_claim("softmax-jacobian").measure()
    jacobian = np.abs(found.series["jacobian"])
    assert np.unravel_index(jacobian.argmax(), jacobian.shape) == (2, 2)
    assert jacobian[2, 2] == pytest.approx(5.638e-42, rel=1e-3)
    assert found.series["∂y3/∂z3 by autograd in float64"] == 0.0


def test_blocks_that_forget_where_padding_is(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Block.forward
    monkeypatch.setattr(Block, "forward", lambda self, x, **said: right(self, x))
    assert disputed("vit-masks")


def test_a_table_that_is_not_interpolated(monkeypatch: pytest.MonkeyPatch) -> None:
    right = F.interpolate
    monkeypatch.setattr(F, "interpolate", lambda x, size, **how: right(x, size=size))
    assert disputed("learned-positions")


def test_a_map_on_its_side(monkeypatch: pytest.MonkeyPatch) -> None:
    right = AttentionRecord.weights
    monkeypatch.setattr(AttentionRecord, "weights", lambda self: right(self).mT)
    assert disputed("map-shape")


def test_attention_that_does_not_hear_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, mask: Any = None) -> Any:
        others = ~torch.eye(len(q), dtype=torch.bool)
        if mask is not None:
            others &= mask if isinstance(mask, torch.Tensor) else mask(range(len(q)), range(len(q)))
        return attend(q, k, v, mask=others)

    monkeypatch.setattr(graph, "attend", deaf)
    assert disputed("graph")


def test_both_paths_of_attention_are_the_graph() -> None:
    """The messages of the lab against the fast path, which measure() does not take."""
    torch.manual_seed(5)
    q, k, v = torch.randn(3, 9, 4, dtype=torch.float64)
    pairs = graph.edges_of(causal(range(9), range(9)))
    heard = graph.messages(pairs, q, k, v)
    torch.testing.assert_close(heard, attend_fused(q, k, v, mask=causal), atol=1e-12, rtol=0)
