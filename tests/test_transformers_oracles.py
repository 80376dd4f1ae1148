"""ViT, BERT, GPT-2 and Llama of transformers, built at random, against ours with their weights."""

import math

import pytest
import torch
from torch import Tensor, nn

from regard import (
    GPT,
    MLP,
    Block,
    BlockCache,
    GPTConfig,
    KVCache,
    MultiHeadAttention,
    StackConfig,
    ViT,
    ViTConfig,
    alibi,
    attend,
    causal,
    make_blocks,
    rope,
    sinusoidal,
)
from test_torch_oracles import DTYPES, Twins, assert_same, leaf, scrambled

transformers = pytest.importorskip("transformers")
from transformers.models.bloom.modeling_bloom import build_alibi_tensor  # noqa: E402
from transformers.models.llama import modeling_llama as llama  # noqa: E402

B, N, C, H, F = 2, 6, 12, 3, 20  # batch, tokens, width, heads, feed-forward width


@pytest.fixture(autouse=True)
def _their_softmax_keeps_float64(monkeypatch):
    """Their ViT and Llama ask for a float32 softmax, which would hide all beyond 1e-7."""
    softmax = nn.functional.softmax

    def wide(x, dim=None, dtype=None):
        return softmax(x, dim=dim, dtype=torch.promote_types(dtype or x.dtype, x.dtype))

    monkeypatch.setattr(nn.functional, "softmax", wide)


def eager(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    assert model.config._attn_implementation == "eager"
    return scrambled(model, dtype)


# ViT


@DTYPES
@pytest.mark.parametrize("eps", [1e-12, 1e-3], ids="norm_eps={}".format)
def test_vit_is_their_vit_with_the_class_token_at_the_other_end(eps, dtype):
    theirs = eager(
        transformers.ViTForImageClassification(
            transformers.ViTConfig(
                hidden_size=C,
                num_hidden_layers=2,
                num_attention_heads=H,
                intermediate_size=F,
                image_size=12,
                patch_size=4,
                num_channels=2,
                num_labels=5,
                layer_norm_eps=eps,
                hidden_act="gelu",
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                attn_implementation="eager",
            )
        ),
        dtype,
    )
    config = ViTConfig(
        width=C,
        layers=2,
        heads=H,
        mlp_width=F,
        norm_eps=eps,
        image_size=12,
        patch_size=4,
        channels=2,
        num_classes=5,
    )
    ours, twins = ViT(config).to(dtype), Twins()
    embeddings, body = theirs.vit.embeddings, theirs.vit
    projection = embeddings.patch_embeddings.projection
    twins.tie(ours.patches.project.weight, projection.weight, lambda w: w.flatten(1))
    twins.tie(ours.patches.project.bias, projection.bias)
    twins.tie(ours.class_token, embeddings.cls_token, lambda w: w[0, 0])
    twins.tie(ours.pos_embed.table, embeddings.position_embeddings, lambda w: w[0, 1:])
    twins.tie(ours.pos_embed.extra, embeddings.position_embeddings, lambda w: w[0, :1])
    for mine, their in zip(ours.blocks, body.layers, strict=True):
        for name in "qkv":
            twins.layer(
                getattr(mine.attention, f"to_{name}"), getattr(their.attention, f"{name}_proj")
            )
        twins.layer(mine.attention.to_out, their.attention.o_proj)
        twins.layer(mine.attention_norm, their.layernorm_before)
        twins.layer(mine.mlp.fc1, their.mlp.fc1)
        twins.layer(mine.mlp.fc2, their.mlp.fc2)
        twins.layer(mine.mlp_norm, their.layernorm_after)
    twins.layer(ours.norm, body.layernorm)
    twins.layer(ours.head, theirs.classifier)

    images = leaf(B, 2, 12, 12, dtype=dtype)
    twins.agree(ours, ours(images), theirs(images).logits, [images])
    tokens = body(images).last_hidden_state
    assert_same(ours.features(images), tokens.roll(-1, 1))


# BERT


@DTYPES
@pytest.mark.parametrize("lengths", [(N, N), (N, 4), (2, 5)], ids="length_weight={}".format)
def test_post_norm_blocks_are_berts_layers_and_padding_is_nowhere(lengths, dtype):
    theirs = eager(
        transformers.BertModel(
            transformers.BertConfig(
                vocab_size=11,
                hidden_size=C,
                num_hidden_layers=2,
                num_attention_heads=H,
                intermediate_size=F,
                hidden_act="gelu",
                layer_norm_eps=1e-12,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                attn_implementation="eager",
            ),
            add_pooling_layer=False,
        ),
        dtype,
    )
    config = StackConfig(width=C, layers=2, heads=H, mlp_width=F, norm_first=False, norm_eps=1e-12)
    ours, twins = make_blocks(config).to(dtype), Twins()
    for mine, their in zip(ours, theirs.encoder.layer, strict=True):
        for name in ("query", "key", "value"):
            twins.layer(
                getattr(mine.attention, f"to_{name[0]}"), getattr(their.attention.self, name)
            )
        twins.layer(mine.attention.to_out, their.attention.output.dense)
        twins.layer(mine.attention_norm, their.attention.output.LayerNorm)
        twins.layer(mine.mlp.fc1, their.intermediate.dense)
        twins.layer(mine.mlp.fc2, their.output.dense)
        twins.layer(mine.mlp_norm, their.output.LayerNorm)

    tokens = leaf(B, N, C, dtype=dtype)
    theirs.embeddings.register_forward_hook(lambda *_: tokens)  # both start from these
    real = torch.arange(N) < torch.tensor(lengths)[:, None]
    words = torch.zeros(B, N, dtype=torch.long)
    right = theirs(words, attention_mask=real.long()).last_hidden_state
    x, positions = tokens, torch.where(real, torch.arange(N), -1)
    for block in ours:
        x = block(x, positions=positions)
    twins.agree(ours, x[real], right[real], [tokens])


# GPT-2


def gpt2(dtype: torch.dtype) -> tuple[GPT, nn.Module, Twins]:
    theirs = eager(
        transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=11,
                n_positions=2 * N,
                n_embd=C,
                n_layer=2,
                n_head=H,
                n_inner=F,
                activation_function="gelu_new",
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                attn_implementation="eager",
            )
        ),
        dtype,
    )
    config = GPTConfig(
        width=C,
        layers=2,
        heads=H,
        mlp_width=F,
        activation="gelu_tanh",
        vocab_size=11,
        context_length=2 * N,
    )
    ours, body, twins = GPT(config).to(dtype).eval(), theirs.transformer, Twins()

    def conv(mine: nn.Linear, their: nn.Module, part=lambda w: w) -> None:
        """Their Conv1D is a linear layer lying on its side."""
        twins.tie(mine.weight, their.weight, lambda w: part(w.T))
        twins.tie(mine.bias, their.bias, part)

    twins.tie(ours.token_embedding.weight, body.wte.weight)
    twins.tie(ours.pos_embed.table, body.wpe.weight)
    for mine, their in zip(ours.blocks, body.h, strict=True):
        attention = mine.attention
        for i, layer in enumerate((attention.to_q, attention.to_k, attention.to_v)):
            conv(layer, their.attn.c_attn, lambda w, i=i: w.chunk(3)[i])
        conv(attention.to_out, their.attn.c_proj)
        twins.layer(mine.attention_norm, their.ln_1)
        conv(mine.mlp.fc1, their.mlp.c_fc)
        conv(mine.mlp.fc2, their.mlp.c_proj)
        twins.layer(mine.mlp_norm, their.ln_2)
    twins.layer(ours.norm, body.ln_f)
    return ours, theirs, twins


@DTYPES
def test_logits_and_gradients_are_gpt2s(dtype):
    ours, theirs, twins = gpt2(dtype)
    words = torch.randint(11, (B, N))
    twins.agree(ours, ours(words), theirs(words).logits, [])


@DTYPES
def test_padding_on_the_left_is_nowhere_as_in_gpt2(dtype):
    ours, theirs, twins = gpt2(dtype)
    words, real = torch.randint(11, (B, N)), torch.arange(N) >= torch.tensor([[2], [0]])
    where = real.long().cumsum(-1) - 1
    right = theirs(words, attention_mask=real.long(), position_ids=where.clamp(min=0)).logits
    twins.agree(ours, ours(words, positions=where)[real], right[real], [])


CACHES = {  # how a cache is made, and how the positions of a chunk are said
    "growing": (KVCache, range),
    "growing, evicting": (lambda: KVCache(keep=causal), range),
    "fixed size": (lambda: KVCache(size=2 * N), range),
    "growing, tensors": (KVCache, torch.arange),
    "fixed size, tensors": (lambda: KVCache(size=2 * N), torch.arange),
}


@DTYPES
@pytest.mark.parametrize("chunks", [[1] * N, [3, 1, 2]], ids=["token by token", "chunks"])
@pytest.mark.parametrize("kind", CACHES)
def test_decoding_through_a_cache_is_gpt2s_whole_pass(kind, chunks, dtype):
    ours, theirs, _ = gpt2(dtype)
    words = torch.randint(11, (B, N))
    make, said = CACHES[kind]
    caches = [BlockCache(make()) for _ in ours.blocks]
    starts = [sum(chunks[:i]) for i in range(len(chunks))]
    with torch.no_grad():
        steps = [
            ours.next_token_logits(
                words[:, at : at + size], positions=said(at, at + size), caches=caches
            )
            for at, size in zip(starts, chunks, strict=True)
        ]
        assert_same(torch.cat(steps, 1), theirs(words).logits)


# Llama


def llama_config(base: float = 10_000.0, width: int = 24):
    return transformers.LlamaConfig(
        hidden_size=width,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=width // 4,
        intermediate_size=F,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": base},
        attn_implementation="eager",
    )


def turns(config, positions: range, x: Tensor) -> tuple[Tensor, Tensor]:
    """The cosines and sines that Llama turns by; its module makes them in float32 only."""
    where = torch.tensor([list(positions)])
    if x.dtype == torch.float32:
        return llama.LlamaRotaryEmbedding(config)(x, where)
    base, d = config.rope_parameters["rope_theta"], config.head_dim
    angles = [[t / base ** (2 * i / d) for i in range(d // 2)] * 2 for t in positions]
    angles = torch.tensor([angles], dtype=torch.float64)
    return angles.cos(), angles.sin()


@DTYPES
@pytest.mark.parametrize("base", [10_000.0, 500.0], ids="base={:g}".format)
@pytest.mark.parametrize("start", [0, 17], ids="start={}".format)
def test_rotary_turns_as_llama_does(start, base, dtype):
    q, k = leaf(B, 4, N, 6, dtype=dtype), leaf(B, 2, N, 6, dtype=dtype)
    positions, config = range(start, start + N), llama_config(base)
    right = llama.apply_rotary_pos_emb(q, k, *turns(config, positions, q))
    for where in (positions, torch.tensor(positions), torch.tensor([list(positions)] * B)):
        ours = rope(base).rotate(q, k, where, where)
        for a, b in zip(ours, right, strict=True):
            assert_same(a, b)
            up = torch.randn_like(a)
            slopes = (
                torch.autograd.grad(
                    (x * up).sum(), (q, k), materialize_grads=True, retain_graph=True
                )
                for x in (a, b)
            )
            for mine, their in zip(*slopes, strict=True):
                assert_same(mine, their)


def tie_llama(twins: Twins, ours: MultiHeadAttention, theirs: nn.Module) -> None:
    for name, layer in {"q": ours.to_q, "k": ours.to_k, "v": ours.to_v, "o": ours.to_out}.items():
        twins.layer(layer, getattr(theirs, f"{name}_proj"))


def unreadable(n: int, dtype: torch.dtype) -> Tensor:
    """A causal mask as transformers adds it to the scores."""
    return torch.full((n, n), torch.finfo(dtype).min, dtype=dtype).triu(1)[None, None]


@DTYPES
@pytest.mark.parametrize("start", [0, 9], ids="start={}".format)
def test_grouped_heads_with_rotary_positions_are_llamas_attention(start, dtype):
    config, positions = llama_config(), range(start, start + N)
    theirs = eager(llama.LlamaAttention(config, layer_idx=0), dtype)
    ours = MultiHeadAttention(24, 4, kv_heads=2, bias=False, pos_embed=rope(), mask=causal).to(
        dtype
    )
    twins = Twins()
    tie_llama(twins, ours, theirs)
    x = leaf(B, N, 24, dtype=dtype)
    right, _ = theirs(x, turns(config, positions, x), unreadable(N, dtype))
    twins.agree(ours, ours(x, positions=positions), right, [x])


def test_a_block_with_rmsnorm_and_swiglu_is_llamas_layer():
    # In float32 only: their norm computes in nothing wider. NumPy is the proof in float64.
    config, dtype = llama_config(), torch.float32
    theirs = scrambled(llama.LlamaDecoderLayer(config, layer_idx=0), dtype)
    ours = Block(
        MultiHeadAttention(24, 4, kv_heads=2, bias=False, pos_embed=rope(), mask=causal),
        MLP(24, F, "swiglu", bias=False),
        norm=lambda: nn.RMSNorm(24, eps=1e-5),
    )
    twins = Twins()
    tie_llama(twins, ours.attention, theirs.self_attn)
    twins.tie(ours.attention_norm.weight, theirs.input_layernorm.weight)
    twins.layer(ours.mlp.fc1, theirs.mlp.gate_proj)
    twins.layer(ours.mlp.gate, theirs.mlp.up_proj)
    twins.layer(ours.mlp.fc2, theirs.mlp.down_proj)
    twins.tie(ours.mlp_norm.weight, theirs.post_attention_layernorm.weight)
    x = leaf(B, N, 24, dtype=dtype)
    right = theirs(
        x,
        attention_mask=unreadable(N, dtype),
        position_embeddings=turns(config, range(N), x),
    )
    twins.agree(ours, ours(x), right, [x])


# Positions that are added


@pytest.mark.parametrize("heads", [1, 2, 4, 6, 8, 12, 16], ids="heads={}".format)
def test_alibi_falls_at_blooms_slopes(heads):
    theirs = build_alibi_tensor(torch.ones(1, N), heads, torch.float32)  # h 1 m
    ours = alibi(heads)
    assert ours.slopes() == pytest.approx(theirs[:, 0, 1].tolist(), rel=1e-6)
    bias = ours.bias(range(N), range(N))
    # Theirs grows along the keys; a constant for each query makes no difference to a softmax.
    assert_same(bias[:, -1:], theirs - theirs[..., -1:])
    q, k, v = (torch.randn(heads, N, 4) for _ in "qkv")
    right = attend(q, k, v, mask=causal, bias=theirs).output
    assert_same(attend(q, k, v, mask=causal, bias=ours.bias).output, right)


@pytest.mark.parametrize("start", [0, 1000], ids="start={}".format)
@pytest.mark.parametrize("base", [10_000.0, 50.0], ids="base={:g}".format)
def test_sinusoidal_positions_are_the_formula_of_2017(base, start):
    width, positions = 10, range(start, start + N)
    right = torch.zeros(N, width, dtype=torch.float64)
    for row, pos in enumerate(positions):
        for i in range(width // 2):
            right[row, 2 * i] = math.sin(pos / base ** (2 * i / width))
            right[row, 2 * i + 1] = math.cos(pos / base ** (2 * i / width))
    x = torch.randn(B, N, width, dtype=torch.float64)
    place = sinusoidal(width, base)
    assert_same(place.embed(x, positions), x + right)
    assert_same(place.embed(x, torch.tensor(positions)), x + right)
    nowhere = torch.full((N,), -1)
    assert torch.equal(place.embed(x, nowhere), x)
