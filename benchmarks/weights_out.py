"""Our decoders as models of transformers, with the very same weights.

theirs = as_captioner(ours)    # VisionEncoderDecoderModel: ViT, and GPT-2 with cross-attention
theirs = as_gpt2(ours)         # GPT2LMHeadModel
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from regard.models import GPT, Captioner
from regard.models.config import CaptionerConfig, DecoderConfig, StackConfig, ViTConfig
from regard.models.decoder import Decoder

PADDING, BEGIN, END = 0, 1, 2  # the first two are never written, as in life

# What they call it: torch's GELU, and the formula with tanh that GPT-2 came with.
ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "relu": "relu"}
SHARED = {"norm": "layernorm", "norm_first": True, "bias": True, "kv_heads": None, "mask": None}
DECODER = {"pos_embed": "learned", "tie_embeddings": True, "scale_embeddings": False}


def as_captioner(model: Captioner) -> nn.Module:
    """The `VisionEncoderDecoderModel` that computes what this captioner does.

    Their ViT has a class token, and their GPT-2 with cross-attention reads features as wide as
    itself, scores words by the vectors they are read as, and learns its positions: so must ours.
    """
    transformers: Any = import_module("transformers")
    config, seen = model.config, model.config.encoder
    check_captioner(config)
    theirs: nn.Module = transformers.VisionEncoderDecoderModel(
        encoder=transformers.ViTModel(vit_config(seen), add_pooling_layer=False),
        decoder=transformers.GPT2LMHeadModel(
            gpt2_config(config, add_cross_attention=True, is_decoder=True)
        ),
    )
    weights = dict(encoder_weights(model)) | dict(decoder_weights(model, "decoder."))
    return filled(theirs, weights, model)


def vit_config(config: ViTConfig, **more: Any) -> Any:
    """Our ViT as transformers describes one."""
    return import_module("transformers").ViTConfig(
        hidden_size=config.width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=config.hidden_width,
        hidden_act=ACTIVATIONS[config.activation],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        layer_norm_eps=config.norm_eps,
        image_size=config.image_size,
        patch_size=config.patch_size,
        num_channels=config.channels,
        attn_implementation="sdpa",
        **more,
    )


def as_gpt2(model: GPT) -> nn.Module:
    """The `GPT2LMHeadModel` that computes what this language model does."""
    transformers: Any = import_module("transformers")
    check_fits("the model", model.config, SHARED | DECODER)
    theirs = transformers.GPT2LMHeadModel(gpt2_config(model.config))
    return filled(theirs, dict(decoder_weights(model, "")), model)


def filled(theirs: nn.Module, weights: dict[str, Tensor], model: Decoder) -> nn.Module:
    like = model.token_embedding.weight
    theirs.to(like.device, like.dtype).load_state_dict(weights)
    return theirs.eval()


def gpt2_config(config: DecoderConfig, **more: Any) -> Any:
    transformers: Any = import_module("transformers")
    return transformers.GPT2Config(
        vocab_size=config.vocab_size,
        n_positions=config.context_length,
        n_embd=config.width,
        n_layer=config.layers,
        n_head=config.heads,
        n_inner=config.hidden_width,
        activation_function=ACTIVATIONS[config.activation],
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        layer_norm_epsilon=config.norm_eps,
        bos_token_id=BEGIN,
        eos_token_id=END,
        pad_token_id=PADDING,
        attn_implementation="sdpa",
        **more,
    )


def check_captioner(config: CaptionerConfig) -> None:
    """Refuse a captioner that transformers has no twin of."""
    check_fits("the decoder", config, SHARED | DECODER | {"encoder_width": None})
    seen = {"pos_embed": "learned", "pool": "cls", "stem": "patch"}
    check_fits("the encoder", config.encoder, SHARED | seen)
    if config.encoder.width != config.width:
        raise ValueError(
            f"the encoder is {config.encoder.width} wide and the decoder {config.width}: "
            "GPT-2 reads features as wide as itself"
        )


def check_fits(part: str, config: StackConfig, needs: dict[str, Any]) -> None:
    for name, wanted in needs.items():
        if getattr(config, name) != wanted:
            raise ValueError(
                f"{name}={getattr(config, name)!r} in {part}: transformers has {name}={wanted!r}"
            )
    if config.activation not in ACTIVATIONS:
        raise ValueError(
            f"activation={config.activation!r} in {part}: transformers has "
            + ", ".join(ACTIVATIONS)
        )


# Every weight under the name, and in the order of axes, that transformers has it in


def encoder_weights(model: Captioner) -> Iterator[tuple[str, Tensor]]:
    seen, own = model.encoder, model.state_dict()
    assert isinstance(seen, nn.Module)
    layer = partial(renamed, own)
    body, patches = "encoder.embeddings", own["encoder.patches.project.weight"]
    side, channels = model.config.encoder.patch_size, model.config.encoder.channels
    yield f"{body}.patch_embeddings.projection.weight", patches.unflatten(1, (channels, side, side))
    yield f"{body}.patch_embeddings.projection.bias", own["encoder.patches.project.bias"]
    yield f"{body}.cls_token", own["encoder.class_token"][None, None]
    place = torch.cat([own["encoder.pos_embed.extra"], own["encoder.pos_embed.table"]])
    yield f"{body}.position_embeddings", place[None]  # our class token is the last, theirs first
    for at in range(model.config.encoder.layers):
        there, here = f"encoder.layers.{at}", f"encoder.blocks.{at}"
        for name in "qkv":
            yield from layer(f"{there}.attention.{name}_proj", f"{here}.attention.to_{name}")
        yield from layer(f"{there}.attention.o_proj", f"{here}.attention.to_out")
        yield from layer(f"{there}.layernorm_before", f"{here}.attention_norm")
        yield from layer(f"{there}.mlp.fc1", f"{here}.mlp.fc1")
        yield from layer(f"{there}.mlp.fc2", f"{here}.mlp.fc2")
        yield from layer(f"{there}.layernorm_after", f"{here}.mlp_norm")
    yield from layer("encoder.layernorm", "encoder.norm")


def decoder_weights(model: Decoder, under: str) -> Iterator[tuple[str, Tensor]]:
    own = model.state_dict()
    layer, lying = partial(renamed, own), partial(renamed, own, lying=True)
    body, table = f"{under}transformer", own["token_embedding.weight"]
    yield f"{body}.wte.weight", table
    yield f"{under}lm_head.weight", table
    yield f"{body}.wpe.weight", own["pos_embed.table"]
    for at in range(len(model.blocks)):
        there, here = f"{body}.h.{at}", f"blocks.{at}"
        yield from lying(f"{there}.attn.c_attn", *(f"{here}.attention.to_{name}" for name in "qkv"))
        yield from lying(f"{there}.attn.c_proj", f"{here}.attention.to_out")
        yield from layer(f"{there}.ln_1", f"{here}.attention_norm")
        if model.context_width is not None:
            cross = f"{there}.crossattention"
            yield from lying(f"{cross}.q_attn", f"{here}.cross.to_q")
            yield from lying(f"{cross}.c_attn", *(f"{here}.cross.to_{name}" for name in "kv"))
            yield from lying(f"{cross}.c_proj", f"{here}.cross.to_out")
            yield from layer(f"{there}.ln_cross_attn", f"{here}.cross_norm")
        yield from lying(f"{there}.mlp.c_fc", f"{here}.mlp.fc1")
        yield from lying(f"{there}.mlp.c_proj", f"{here}.mlp.fc2")
        yield from layer(f"{there}.ln_2", f"{here}.mlp_norm")
    yield from layer(f"{body}.ln_f", "norm")


def renamed(
    own: dict[str, Tensor], there: str, *here: str, lying: bool = False
) -> Iterator[tuple[str, Tensor]]:
    """Some linear layers of ours as one of theirs; GPT-2 keeps its weights lying, (in, out)."""
    weight = torch.cat([own[f"{name}.weight"] for name in here])
    yield f"{there}.weight", weight.T if lying else weight
    yield f"{there}.bias", torch.cat([own[f"{name}.bias"] for name in here])
