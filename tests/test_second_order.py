"""Gradients of gradients, and transforms of torch.func: on every path those of the plain one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad, grad
from torch.func import functional_call, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.func import grad as grad_of
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from golden import expect_error
from regard.attention import (
    EluFeatures,
    LearnedFeatures,
    LinearAttention,
    LinearState,
    Mask,
    RandomFeatures,
    ReluFeatures,
    TaylorFeatures,
    attend,
    attend_fused,
    causal,
    explain_kernel,
    window,
)
from regard.attention.call import Call
from regard.attention.channel import attend_channels
from regard.attention.features import EluPlusOne
from regard.attention.kernels.merged import merged
from regard.attention.kernels.scattered import arrange
from regard.attention.kernels.second_order import refuse_second
from regard.models import GPT, GPTConfig

EXACT = {"rtol": 1e-9, "atol": 1e-10}
Read = Callable[..., Tensor]


class Path(NamedTuple):
    """A call, the words in which `explain` says how it is read, and the shapes of q, k and v."""

    words: str
    shapes: tuple[tuple[int, ...], ...]
    options: dict[str, Any]

    def drawn(self) -> list[Tensor]:
        torch.manual_seed(0)
        return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in self.shapes]

    def reads(self) -> tuple[Read, Read]:
        options = self.options
        return (
            lambda *qkv: attend_fused(*qkv, **options),
            lambda *qkv: attend(*qkv, **options).output,
        )


def square(n: int, d: int = 2) -> tuple[tuple[int, ...], ...]:
    return ((1, 1, n, d),) * 3


def parsed(words: str) -> dict[str, Any]:
    return {"mask": Mask.parse(words)}


POSITIONS = torch.tensor([-1, 3, 0, 1, 2, -1, 4])
MAY_READ = torch.rand(7, 7, generator=torch.Generator().manual_seed(1)) > 0.5
MAY_READ[3] = False
BIAS = torch.randn(7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
TAIL = {"mask": causal, "q_pos": range(4, 7), "k_pos": range(7)}
SMALL = {
    "everything": Path("SDPA: nothing is masked", square(7), {}),
    "another beta": Path("SDPA: nothing is masked", square(7), {"beta": 1.7}),
    "causal": Path("SDPA, causal flag", square(7), {"mask": causal}),
    "tail": Path("SDPA with a mask: causal", ((1, 1, 3, 2), *square(7)[:2]), TAIL),
    "bool": Path("SDPA with a mask: only", square(7), {"mask": MAY_READ}),
    "blind": Path("SDPA with a mask: ~causal", square(7), {"mask": ~causal}),
    "nowhere": Path("SDPA with a mask: positions", square(7), {"mask": causal, "k_pos": POSITIONS}),
    "bias": Path("SDPA with the bias", square(7), {"bias": BIAS, "mask": causal}),
    "function": Path("SDPA with a mask", square(7), {"mask": lambda q, k: q[:, None] > k}),
    "shared": Path("SDPA, causal", ((2, 4, 5, 2), *((2, 2, 5, 2),) * 2), {"mask": causal}),
    "widths": Path("SDPA: nothing", ((5, 3), (4, 3), (4, 2)), {}),
    "blocks": Path("SDPA window by window", square(7), parsed("blocks(3)")),
    "causal blocks": Path("SDPA window by window", square(7), parsed("causal & blocks(3)")),
    "windows": Path("SDPA window by window", square(12), parsed("grid_windows(2, (3, 4))")),
    "mean": Path("plain", square(7), {"beta": 0}),
    "best": Path("plain", square(7), {"beta": float("inf"), "mask": causal}),
}
LARGE = {
    "tiles": Path("SDPA tile by tile", square(600), parsed("causal & window(64)")),
    "merged": Path("SDPA part by part", square(768), parsed("causal & (window(9) | strided(64))")),
    "drawn": Path("SDPA part by part", square(512), parsed("causal & random_keys(3, 512, 1)")),
    "axial": Path("SDPA part by part", square(512), parsed("axial((8, 64))")),
}
PATHS = SMALL | LARGE


def seconds(
    read: Read, inputs: list[Tensor], *, also_of_pull: bool, kind: torch.dtype | None = None
) -> list[Tensor]:
    """The read, its gradients, and the gradients of a number made of both."""
    out = read(*inputs)
    assert kind is None or out.dtype == kind
    pull = torch.ones(out.shape, dtype=torch.float64).cumsum(-2).sin()
    pull = pull.to(out.device, out.dtype).requires_grad_(also_of_pull)
    firsts = grad(out, inputs, pull, create_graph=True, materialize_grads=True)
    number = out.double().square().mean() + sum(g.double().square().sum() for g in firsts)
    of = [*inputs, pull] if also_of_pull else inputs
    return [out, *firsts, *grad(number, of, materialize_grads=True)]


@pytest.mark.parametrize("also_of_pull", [True, False], ids=["pull", "no pull"])
@pytest.mark.parametrize("name", PATHS)
def test_gradients_of_gradients_are_those_of_attend(name, also_of_pull):
    path = PATHS[name]
    inputs = path.drawn()
    assert explain_kernel(*inputs, **path.options).startswith(path.words)
    fast, plain = (seconds(read, inputs, also_of_pull=also_of_pull) for read in path.reads())
    torch.testing.assert_close(fast, plain, **EXACT)


@pytest.mark.parametrize("name", ["everything", "bias", "merged"])
def test_gradients_of_a_penalty_may_be_asked_of_one_input_alone(name):
    """Of v, that is, where the gradients of q were penalised: the incoming gradient needs none."""
    path = PATHS[name]
    found = []
    for read in path.reads():
        q, k, v = path.drawn()
        (first,) = grad(read(q, k.detach(), v).sum(), q, create_graph=True)
        found.append(grad(first.square().sum(), v)[0])
    torch.testing.assert_close(*found, **EXACT)
    assert found[0].any()


@pytest.mark.parametrize("name", ["causal", "blind", "drawn"])
def test_third_derivatives_are_right_too(name):
    path, found = PATHS[name], []
    for read in path.reads():
        q, _, v = path.drawn()
        same = (q, 2 * q, v)  # keys that are made of the queries
        (first,) = grad(read(*same).sin().sum(), q, create_graph=True)
        (second,) = grad(first.square().sum(), q, create_graph=True)
        found.append(grad(second.square().sum(), (q, v)))
    torch.testing.assert_close(*found, rtol=1e-7, atol=1e-9)


def test_a_bias_that_is_trained_has_gradients_of_gradients():
    path, bias = PATHS["bias"], BIAS.clone().requires_grad_()
    inputs = [*path.drawn(), bias]
    fast, plain = (
        seconds(lambda q, k, v, bias, read=read: read(q, k, v, bias), inputs, also_of_pull=True)
        for read in (
            lambda q, k, v, bias: attend_fused(q, k, v, mask=causal, bias=bias),
            lambda q, k, v, bias: attend(q, k, v, mask=causal, bias=bias).output,
        )
    )
    torch.testing.assert_close(fast, plain, **EXACT)


FEATURES = {
    "elu": EluFeatures,
    "relu": ReluFeatures,
    "random": lambda: RandomFeatures(3, 8),
    "taylor": TaylorFeatures,
    "learned": lambda: LearnedFeatures(3).double(),
    "own": lambda: lambda x: x.square(),
}
LINEAR = {
    "everything": ("sums over all keys", 9, {}),
    "causal": ("causal sums by chunks", 300, {"mask": causal}),
    "tail": ("sums of the keys before", 9, TAIL),
    "sorted": ("tokens by position", 7, {"mask": causal, "q_pos": POSITIONS, "k_pos": POSITIONS}),
    "window": ("plain", 9, {"mask": window(3)}),
}


def linear_reads(attention: LinearAttention, options: dict[str, Any]) -> tuple[Read, Read]:
    return (
        lambda *qkv: attention(*qkv, **options),
        lambda *qkv: attention.plain(Call.check(*qkv, **options)).output,
    )


def torch_elu(x: Tensor) -> Tensor:
    """The plain twin of `Elu`: where torch writes the map out, all its gradients are torch's."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


@pytest.mark.parametrize("form", LINEAR)
@pytest.mark.parametrize("feature", FEATURES)
def test_linear_attention_has_gradients_of_gradients(feature, form):
    words, n, options = LINEAR[form]
    options = dict(options)
    if form == "sorted":  # one tensor for both
        options["q_pos"] = options["k_pos"] = POSITIONS
    attention = LinearAttention(FEATURES[feature]())
    torch.manual_seed(0)
    shape = (1, 2, n if form != "tail" else 7, 3)
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in "qkv"]
    if form == "tail":
        inputs[0] = inputs[0].detach()[..., 4:, :].requires_grad_()
    assert attention.explain(*inputs, **options).startswith(words)
    fast, plain = linear_reads(attention, options)
    if feature == "elu":
        _, plain = linear_reads(LinearAttention(torch_elu), options)
    for also_of_pull in (True, False):
        found, right = (seconds(read, inputs, also_of_pull=also_of_pull) for read in (fast, plain))
        torch.testing.assert_close(found, right, **EXACT)


def test_elu_is_differentiated_three_times():
    x = torch.linspace(-3, 3, 12, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: EluPlusOne.apply(x, 0.7), (x,))
    found = []
    for of in (lambda x: EluPlusOne.apply(x, 0.7), lambda x: torch_elu(0.7 * x)):
        (first,) = grad(of(x).square().sum(), x, create_graph=True)
        (second,) = grad(first.square().sum(), x, create_graph=True)
        found.append(grad(second.square().sum(), x)[0])
    torch.testing.assert_close(*found, **EXACT)


def test_a_memory_of_one_size_is_differentiated_twice():
    def in_steps(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        memory, reads = LinearState(EluFeatures()), []
        for at in (slice(0, 4), slice(4, 5), slice(5, 9)):
            memory.append(k[..., at, :], v[..., at, :], range(at.start, at.stop))
            assert memory.kept is not None
            where = range(at.start, at.stop)
            reads.append(memory.kept.read(None, q[..., at, :], mask=causal, q_pos=where))
        return torch.cat(reads, -2)

    torch.manual_seed(0)
    inputs = [torch.randn(1, 2, 9, 3, dtype=torch.float64, requires_grad=True) for _ in "qkv"]
    _, plain = linear_reads(LinearAttention(torch_elu), {"mask": causal})
    fast, right = (seconds(read, inputs, also_of_pull=True) for read in (in_steps, plain))
    torch.testing.assert_close(fast, right, **EXACT)


def test_channels_are_differentiated_twice():
    torch.manual_seed(0)
    inputs = [torch.randn(1, 2, 9, 3, dtype=torch.float64, requires_grad=True) for _ in "qkv"]
    fast, plain = (
        seconds(read, inputs, also_of_pull=True)
        for read in (
            attend_channels,
            lambda *qkv: attend_channels.plain(attend_channels.check(*qkv)).output,
        )
    )
    torch.testing.assert_close(fast, plain, **EXACT)


def test_a_first_derivative_is_the_kernels_own_whether_or_not_a_second_may_follow():
    for name in ("causal", "merged"):
        inputs = PATHS[name].drawn()
        read, _ = PATHS[name].reads()
        alone = grad(read(*inputs).sum(), inputs)
        first = grad(read(*inputs).sum(), inputs, create_graph=True)
        assert all(map(torch.equal, alone, first))
        assert all(g.requires_grad for g in first)


def test_in_a_checkpoint_a_graph_of_gradients_changes_no_gradient():
    q, k, v = PATHS["causal"].drawn()

    def read(q: Tensor) -> Tensor:
        return attend_fused(q, k, v, mask=causal)

    kept = checkpoint(read, q, use_reentrant=False)
    (first,) = grad(kept.sum(), q, create_graph=True)
    assert torch.equal(first, grad(read(q).sum(), q)[0])
    with pytest.raises(RuntimeError, match="not implemented"):  # torch's own words, and no number
        first.sum().backward()


def test_somebody_elses_kernel_refuses_a_second_derivative_as_soon_as_it_matters():
    x = torch.ones(3, requires_grad=True)
    assert torch.equal(grad(refuse_second(2 * x, "their kernel").sum(), x)[0], 2 * torch.ones(3))
    with expect_error(RuntimeError):
        grad(refuse_second(2 * x, "their kernel").sum(), x, create_graph=True)


def transformed(read: Read, q: Tensor, k: Tensor, v: Tensor, *, small: bool) -> dict[str, Any]:
    """What each transform of torch.func gives of a read and of numbers made of it."""
    along, push = q.cos(), read(q, k, v).sin()
    both = torch.stack([q, q.sin()])

    def total(q: Tensor) -> Tensor:
        out = read(q, k, v)
        return (out * push).sum() + out.square().sum()

    found = {
        "grad": grad_of(total)(q),
        "vmap": vmap(lambda q: read(q, k, v))(both),
        "vmap of values": vmap(lambda v: read(q, k, v))(torch.stack([v, v.sin()])),
        "jvp": jvp(lambda q: read(q, k, v), (q,), (along,)),
        "vmap of grad": vmap(grad_of(total))(both),
        "grad of vmap": grad_of(lambda k: vmap(lambda q: read(q, k, v).square())(both).sum())(k),
        "grad of grad": grad_of(lambda q: (grad_of(total)(q) * along).sum())(q),
        "jvp of grad": jvp(grad_of(total), (q,), (along,)),
        "grad of both": grad_of(lambda q: grad_and_value(total)(q)[1].sin())(q),
        "vmap of vjp": vmap(vjp(lambda q: read(q, k, v), q)[1])(torch.stack([push, push.cos()])),
    }
    with forward_ad.dual_level():
        dual = read(forward_ad.make_dual(q, along), k, v)
        found["forward"] = forward_ad.unpack_dual(dual).tangent
    if small:
        found["jacrev"] = jacrev(lambda q: read(q, k, v))(q)
        found["jacfwd"] = jacfwd(lambda k: read(q, k, v))(k)
        found["hessian"] = hessian(total)(q)
        found["jacobian"] = torch.autograd.functional.jacobian(
            lambda q: read(q, k, v), q, vectorize=True
        )
        found["hessian by autograd"] = torch.autograd.functional.hessian(total, q, vectorize=True)
    return found


@pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:.*torch.jit.script")
@pytest.mark.parametrize("name", PATHS)
def test_transforms_of_functions_go_through_every_path(name):
    path = PATHS[name]
    inputs = [x.detach() for x in path.drawn()]
    fast, plain = path.reads()
    found = transformed(fast, *inputs, small=name in SMALL)
    right = transformed(plain, *inputs, small=name in SMALL)
    for transform in found:
        torch.testing.assert_close(
            found[transform], right[transform], **EXACT, msg=lambda m, t=transform: f"{t}: {m}"
        )


@pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:.*torch.jit.script")
@pytest.mark.parametrize("form", ["everything", "causal", "sorted", "window"])
def test_transforms_of_functions_go_through_linear_attention(form):
    _, n, options = LINEAR[form]
    torch.manual_seed(0)
    inputs = [torch.randn(1, 1, n, 2, dtype=torch.float64) for _ in "qkv"]
    fast, _ = linear_reads(LinearAttention(), options)
    _, plain = linear_reads(LinearAttention(torch_elu), options)
    found = transformed(fast, *inputs, small=n < 10)
    right = transformed(plain, *inputs, small=n < 10)
    torch.testing.assert_close(found, right, **EXACT)


def test_what_is_kept_for_later_calls_outlives_the_transform_that_asked_first():
    for words in ("causal & window(65)", "strided(65)", "~causal"):
        mask = Mask.parse(words)
        n = 9 if words == "~causal" else 520
        q, k, v = (torch.randn(1, 1, n, 2, dtype=torch.float64) for _ in "qkv")
        (inside,) = vmap(lambda q, k=k, v=v, mask=mask: attend_fused(q, k, v, mask=mask))(q[None])
        slope = grad_of(lambda q, k=k, v=v, mask=mask: attend_fused(q, k, v, mask=mask).sum())(q)
        assert slope.isfinite().all()
        torch.testing.assert_close(attend_fused(q, k, v, mask=mask), inside, **EXACT)


def test_masks_may_be_what_a_transform_varies():
    q, k, v = (x.detach() for x in PATHS["bool"].drawn())
    masks = torch.stack([MAY_READ, ~MAY_READ])
    at_once = vmap(lambda mask: attend_fused(q, k, v, mask=mask))(masks)
    one_by_one = [attend(q, k, v, mask=mask).output for mask in masks]
    torch.testing.assert_close(at_once, torch.stack(one_by_one), **EXACT)


def test_blind_queries_have_finite_slopes_where_maps_are_taken_at_once():
    q, k, v = (x.detach() for x in PATHS["blind"].drawn())

    def total(q: Tensor) -> Tensor:
        return vmap(lambda v: attend(q, k, v, mask=~causal).output)(torch.stack([v, v])).sum()

    assert grad_of(total)(q).isfinite().all()


def test_explain_says_which_path_a_transform_takes():
    q, k, v = (x.detach() for x in PATHS["merged"].drawn())
    reasons = []

    def read(q: Tensor) -> Tensor:
        reasons.append(explain_kernel(q, k, v, **PATHS["merged"].options))
        return q

    vmap(read)(q[None])
    jvp(read, (q,), (q,))
    grad_of(lambda q: read(q).sum())(q)
    assert [words.startswith("plain, in blocks of rows: torch's kernels") for words in reasons] == [
        True,
        True,
        False,
    ]


def test_a_model_gives_the_gradient_of_each_of_its_texts_at_once():
    """With padding, so that positions are data that `vmap` goes over as well."""
    torch.manual_seed(0)
    words = torch.randint(9, (3, 6))
    positions = torch.arange(6).expand(3, 6).clone()
    positions[1, 4:] = -1
    for fields in ({"mask": "causal & window(3)"}, {"attention": "linear"}):
        model = GPT(
            GPTConfig(vocab_size=9, width=8, layers=2, heads=2, context_length=6, **fields)
        ).double()
        weights = {name: one.detach() for name, one in model.eval().named_parameters()}

        def loss(weights: Any, words: Tensor, positions: Tensor, model: GPT = model) -> Tensor:
            call = ((words[None],), {"positions": positions[None]})
            return functional_call(model, weights, *call).square().sum()

        at_once = vmap(grad_of(loss), (None, 0, 0))(weights, words, positions)
        for at in range(3):
            alone = grad_of(loss)(weights, words[at], positions[at])
            torch.testing.assert_close({k: g[at] for k, g in at_once.items()}, alone, **EXACT)


GPU = {
    "everything": (128, {}),
    "causal": (128, {"mask": causal}),
    "bool": (7, {"mask": MAY_READ}),
    "blocks": (128, parsed("causal & blocks(32)")),
    "tail": (7, TAIL),
    "merged": (512, parsed("causal & strided(64)")),
}


def assert_alike(found: list[Tensor], right: list[Tensor], share: float) -> None:
    """To within a share of the greatest number of each."""
    for ours, theirs in zip(found, right, strict=True):
        most = float(theirs.detach().abs().max())
        torch.testing.assert_close(
            ours.double(), theirs.double(), rtol=0, atol=share * (most + 1e-3)
        )


def on_a_gpu(shape: tuple[int, ...], kind: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    torch.manual_seed(0)
    qkv = [torch.randn(shape, device="cuda").to(kind).requires_grad_() for _ in "qkv"]
    return qkv, [x.detach().double().requires_grad_() for x in qkv]


@pytest.mark.cuda
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", GPU)
def test_a_gpus_kernels_have_gradients_of_gradients(name, kind):
    n, options = GPU[name]
    options = {k: v.cuda() if isinstance(v, Tensor) else v for k, v in options.items()}
    qkv, exact = on_a_gpu((1, 2, n, 64), kind)
    if name == "tail":
        qkv[0], exact[0] = (x.detach()[..., 4:, :].requires_grad_() for x in (qkv[0], exact[0]))

    def read(*qkv: Tensor) -> Tensor:
        if name != "merged":
            return attend_fused(*qkv, **options)
        # Asked for by name: a GPU takes parts only where there are many thousands of tokens.
        parts = arrange(options["mask"], range(n), range(n))
        return merged(Call.check(*qkv, **options), parts)

    try:
        found = seconds(read, qkv, also_of_pull=True, kind=kind)
    except RuntimeError as error:  # a kernel that keeps nothing to begin from: words, no numbers
        assert name == "tail" and "not implemented" in str(error)
        return
    right = seconds(lambda *qkv: attend(*qkv, **options).output, exact, also_of_pull=True)
    assert_alike(found, right, 2e-3 if kind == torch.float32 else 6e-2)


@pytest.mark.cuda
def test_flex_attention_refuses_a_second_derivative_in_words():
    (q, k, v), _ = on_a_gpu((1, 2, 2048, 64), torch.float32)
    options = parsed("causal & window(64)")
    assert explain_kernel(q, k, v, **options).startswith("FlexAttention")
    with pytest.raises(RuntimeError, match=r"double backward|create_graph"):
        (first,) = grad(attend_fused(q, k, v, **options).sum(), q, create_graph=True)
        grad(first.square().sum(), q)
    x = q.detach()
    slope = grad_of(lambda x: attend_fused(x, k, v, **options).sum())(x)
    assert_alike([slope], list(grad(attend_fused(q, k, v, **options).sum(), [q])), 1e-3)


@pytest.mark.cuda
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mask", [None, causal], ids=str)
def test_kernels_of_linear_attention_have_gradients_of_gradients(mask, kind):
    qkv, exact = on_a_gpu((1, 2, 300, 32), kind)
    plain = LinearAttention(torch_elu)
    found = seconds(lambda *x: LinearAttention()(*x, mask=mask), qkv, also_of_pull=True, kind=kind)
    right = seconds(
        lambda *x: plain.plain(Call.check(*x, mask=mask)).output, exact, also_of_pull=True
    )
    assert_alike(found, right, 2e-3 if kind == torch.float32 else 6e-2)


@pytest.mark.cuda
@pytest.mark.parametrize("bias", [True, False])
def test_the_kernel_of_layer_norm_has_gradients_of_gradients(bias):
    from regard.models.norm import LayerNorm

    norm = LayerNorm(64, bias=bias, device="cuda")
    x = torch.randn(5, 64, 7, device="cuda").mT.requires_grad_()
    assert norm.pays(x)
    weights = list(norm.parameters())
    exact = [one.detach().double().requires_grad_() for one in (x, *weights)]
    found = seconds(lambda x, *_: norm(x), [x, *weights], also_of_pull=True)
    right = seconds(lambda x, *w: F.layer_norm(x, (64,), *w), exact, also_of_pull=True)
    assert_alike(found, right, 2e-3)
    torch.testing.assert_close(
        vmap(grad_of(lambda x: norm(x).square().sum()))(x.detach()),
        grad(norm(x).square().sum(), x)[0],
    )
