"""`regard bench captions`: from images to words, beside transformers with the very same weights.

A captioner is drawn at random, and a `VisionEncoderDecoderModel` of transformers (its ViT, and its
GPT-2 with cross-attention) is given the same weights. Both see the same images, in float32, and
write the likeliest words or with beams: the same words, which is checked before anything is timed.

Random weights do not know when to stop, so a rule lets both write exactly as many words for every
image. Sums are made in different orders, and two words may be so close that rounding decides: one
text in ten may differ, and how many did is kept. In life texts end at different lengths. Ours then
leave the batch and theirs wait for the longest one, which is not counted here. On a GPU there is
a second way for transformers, a cache of fixed size around a compiled decoder, and both are timed;
compiling is not.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.bench.measure import interleave
from regard.bench.training import count, version
from regard.evaluate.generate import Rules, beam_search, greedy
from regard.machine import machine
from regard.model import Captioner, CaptionerConfig, ViTConfig

PADDING, BEGIN, END = 0, 1, 2  # the first two are never written, as in life


class Subject(NamedTuple):
    """A captioner, and how many words it writes about each image."""

    config: CaptionerConfig
    words: int


MODELS = {
    "width 128, 100 words": Subject(
        CaptionerConfig(
            width=128,
            layers=3,
            heads=4,
            words=100,
            length=32,
            encoder=ViTConfig(width=128, layers=3, heads=4, image=64, patch=8),
        ),
        12,
    ),
    "width 256, 5,000 words": Subject(
        CaptionerConfig(
            width=256,
            layers=3,
            heads=8,
            words=5000,
            length=32,
            encoder=ViTConfig(width=256, layers=3, heads=8, image=224, patch=32),
        ),
        20,
    ),
}
BATCHES = [1, 32]
BEAMS = [1, 5]  # one beam is greedy
ROUNDS = {"cpu": 15, "cuda": 9}
OURS, TRANSFORMERS, STATIC = "regard", "transformers", "transformers, static cache, compiled"

Words = list[list[int]]  # of each text, in the order of the images
Write = Callable[[Tensor, Rules, int], Words]  # images, rules and beams in


def run(device: torch.device, *, quick: bool, out: Path | None) -> None:
    """Measure every model, batch and number of beams, print the table, and keep it when asked."""
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        import_module("transformers")
        left_out = {}
    except ImportError as absent:
        left_out = {
            TRANSFORMERS: f"{TRANSFORMERS} is left out ({absent}): pip install transformers"
        }
        console.print(left_out[TRANSFORMERS])

    cases = [
        (name, batch, beams)
        for name in list(MODELS)[: 1 if quick else None]
        for batch in BATCHES
        for beams in BEAMS
    ]
    rows: list[dict[str, Any]] = []
    ours: Captioner | None = None
    for name, batch, beams in track(cases, "measuring", transient=True):
        config, words = MODELS[name]
        if ours is None or ours.config != config:
            ours = drawn(config).to(device)
            theirs = None if left_out else as_transformers(ours)
        rounds = 3 if quick else ROUNDS[device.type]
        seen = measure(writers(ours, theirs), config, words, batch, beams, device, rounds)
        rows.append(
            {
                "model": name,
                "parameters": count(ours),
                "batch": batch,
                "beams": beams,
                "words": words,
                **seen,
            }
        )

    table = Table(title=f"captions a second: float32, {device}")
    for column in ("model", "batch", "beams", "who", "captions/s", "quartiles", "× time"):
        table.add_column(column, justify="left" if column in ("model", "who") else "right")
    for row in rows:
        rates = row["captions_per_second"]
        for who, rate in rates.items():
            low, high = row["quartiles"][who]
            table.add_row(
                row["model"],
                str(row["batch"]),
                str(row["beams"]),
                who,
                figure(rate),
                f"{figure(low)} … {figure(high)}",
                f"{rates[OURS] / rate:.2f}",
            )
        table.add_section()
    console.print(table)
    strayed = max(max(row["other_words"].values()) for row in rows)
    console.print(
        "× time: how many times as long as regard this one takes. Every text has "
        + " or ".join(dict.fromkeys(f"{row['words']} words ({row['model']})" for row in rows))
        + (f"; up to {strayed} texts differ by a near tie." if strayed else "; all write the same.")
    )
    if out is not None:
        path = out / f"bench-captions-{device.type}.json"
        command = f"regard bench captions --device {device.type}" + (" --quick" if quick else "")
        facts = {
            "command": command,
            **machine(device),
            "dtype": "float32",
            "versions": {} if left_out else {TRANSFORMERS: version(TRANSFORMERS)},
            "left_out": left_out,
            "rows": rows,
        }
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        console.print(f"wrote {path}")


def measure(
    contenders: Mapping[str, Write],
    config: CaptionerConfig,
    words: int,
    batch: int,
    beams: int,
    device: torch.device,
    rounds: int,
) -> dict[str, Any]:
    """Captions a second of each contender, all about the same images, if they say the same."""
    images = noise(batch, config.encoder).to(device)
    rules = Rules(begin=BEGIN, end=END, longest=words, shortest=words, never=(PADDING, BEGIN))
    said = {name: write(images, rules, beams) for name, write in contenders.items()}
    other = check_words(said, words, forgiven=0.1)
    timings = interleave(
        {name: partial(write, images, rules, beams) for name, write in contenders.items()},
        device,
        rounds=rounds,
        seconds=0.1,
    )
    return {
        "different": len(set(map(tuple, said[OURS]))),
        "other_words": other,
        "captions_per_second": {name: batch / seen.median for name, seen in timings.items()},
        "quartiles": {name: [batch / t.high, batch / t.low] for name, t in timings.items()},
    }


def check_words(said: Mapping[str, Words], words: int, forgiven: float = 0.0) -> dict[str, int]:
    """Those who write something else, or too little, must not be timed.

    Returns about how many images each one differs from ours, of which a share is forgiven.
    """
    found = {}
    for name, texts in said.items():
        short = next((text for text in texts if len(text) != words), None)
        if short is not None:
            raise RuntimeError(f"{name} writes {len(short)} words where {words} are the rule")
        pairs = zip(texts, said[OURS], strict=True)
        other = [at for at, (text, right) in enumerate(pairs) if text != right]
        found[name] = len(other)
        if len(other) > forgiven * len(texts):
            raise RuntimeError(
                f"{name} writes other words than {OURS} about {len(other)} of {len(texts)} images, "
                f"the first of them image {other[0]}: not one model, or not one search"
            )
    return found


# The writers


def writers(ours: Captioner, theirs: nn.Module | None) -> dict[str, Write]:
    """Everyone who takes part; on a GPU transformers does so in two ways."""
    found: dict[str, Write] = {OURS: partial(write, ours)}
    if theirs is not None:
        found[TRANSFORMERS] = partial(write_theirs, theirs)
        if next(theirs.parameters()).is_cuda:
            found[STATIC] = partial(write_theirs, theirs, cache_implementation="static")
    return found


def write(model: Captioner, images: Float[Tensor, "b k y x"], rules: Rules, beams: int) -> Words:
    """Captions by regard; one beam is greedy."""
    if beams == 1:
        return greedy(model, images, rules).words
    return beam_search(model, images, rules, beams=beams).words


def write_theirs(
    model: Any, images: Float[Tensor, "b k y x"], rules: Rules, beams: int, **options: Any
) -> Words:
    """Captions by transformers, under the same rules."""
    texts = model.generate(
        images,
        decoder_start_token_id=rules.begin,
        eos_token_id=rules.end,
        pad_token_id=PADDING,
        do_sample=False,
        num_beams=beams,
        min_new_tokens=rules.shortest,
        max_new_tokens=rules.longest,
        suppress_tokens=list(rules.never),
        **options,
    )
    words: Words = texts[:, 1:].tolist()
    return words


# The models


def drawn(config: CaptionerConfig) -> Captioner:
    """A captioner with weights wide enough that every image gets a text of its own.

    First weights as training starts from them say one word for ever. Drafts would then never
    change places, and a search with beams would have less to do than in life.
    """
    draw = torch.Generator().manual_seed(0)
    model = Captioner(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            std = 2 / math.sqrt(parameter.shape[-1])  # twice what keeps the size of its input
            nn.init.normal_(parameter, std=std, generator=draw)
    return model


def noise(images: int, config: ViTConfig) -> Float[Tensor, "b k y x"]:
    """Images that mean nothing, drawn on the CPU so that every device sees the same."""
    draw = torch.Generator().manual_seed(1)
    return torch.randn(images, config.channels, config.image, config.image, generator=draw)


def as_transformers(model: Captioner) -> nn.Module:
    """The `VisionEncoderDecoderModel` that computes what this captioner does, with its weights.

    Their ViT has a class token, and their GPT-2 with cross-attention reads features as wide as
    itself, scores words by the vectors they are read as, and learns its positions: so must ours.
    """
    transformers: Any = import_module("transformers")
    config, seen = model.config, model.config.encoder
    check_fits(config)
    encoder = transformers.ViTConfig(
        hidden_size=seen.width,
        num_hidden_layers=seen.layers,
        num_attention_heads=seen.heads,
        intermediate_size=seen.hidden_width,
        hidden_act=ACTIVATIONS[seen.feed_forward],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        layer_norm_eps=seen.eps,
        image_size=seen.image,
        patch_size=seen.patch,
        num_channels=seen.channels,
        attn_implementation="sdpa",
    )
    decoder = transformers.GPT2Config(
        vocab_size=config.words,
        n_positions=config.length,
        n_embd=config.width,
        n_layer=config.layers,
        n_head=config.heads,
        n_inner=config.hidden_width,
        activation_function=ACTIVATIONS[config.feed_forward],
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        layer_norm_epsilon=config.eps,
        add_cross_attention=True,
        is_decoder=True,
        bos_token_id=BEGIN,
        eos_token_id=END,
        pad_token_id=PADDING,
        attn_implementation="sdpa",
    )
    theirs: nn.Module = transformers.VisionEncoderDecoderModel(
        encoder=transformers.ViTModel(encoder, add_pooling_layer=False),
        decoder=transformers.GPT2LMHeadModel(decoder),
    )
    like = model.embed.table.weight
    theirs.to(like.device, like.dtype).load_state_dict(dict(renamed(model)))
    return theirs.eval()


def check_fits(config: CaptionerConfig) -> None:
    """Refuse a captioner that transformers has no twin of."""
    needs: dict[str, dict[str, Any]] = {
        "the decoder": {"place": "learned", "tied": True, "scaled": False, "context_width": None},
        "the encoder": {"place": "learned", "pool": "class", "stem": "patch"},
    }
    shared = {"norm": "layer", "order": "pre", "bias": True, "groups": None, "mask": None}
    for part, of in (("the decoder", config), ("the encoder", config.encoder)):
        for name, wanted in (needs[part] | shared).items():
            if getattr(of, name) != wanted:
                raise ValueError(
                    f"{name}={getattr(of, name)!r} in {part}: transformers has {name}={wanted!r}"
                )
        if of.feed_forward not in ACTIVATIONS:
            raise ValueError(
                f"feed_forward={of.feed_forward!r} in {part}: transformers has "
                + ", ".join(ACTIVATIONS)
            )
    if config.encoder.width != config.width:
        raise ValueError(
            f"the encoder is {config.encoder.width} wide and the decoder {config.width}: "
            "GPT-2 reads features as wide as itself"
        )


def renamed(model: Captioner) -> Iterator[tuple[str, Tensor]]:
    """Every weight under the name, and in the order of axes, that transformers has it in."""
    seen, own = model.encoder, model.state_dict()
    assert isinstance(seen, nn.Module)

    def layer(there: str, *here: str, lying: bool = False) -> Iterator[tuple[str, Tensor]]:
        """Some linear layers of ours as one of theirs; GPT-2 keeps its weights lying, (in, out)."""
        weight = torch.cat([own[f"{name}.weight"] for name in here])
        yield f"{there}.weight", weight.T if lying else weight
        yield f"{there}.bias", torch.cat([own[f"{name}.bias"] for name in here])

    body, patches = "encoder.embeddings", own["encoder.patches.project.weight"]
    side, channels = model.config.encoder.patch, model.config.encoder.channels
    yield f"{body}.patch_embeddings.projection.weight", patches.unflatten(1, (channels, side, side))
    yield f"{body}.patch_embeddings.projection.bias", own["encoder.patches.project.bias"]
    yield f"{body}.cls_token", own["encoder.class_token"][None, None]
    place = torch.cat([own["encoder.place.extra"], own["encoder.place.table"]])
    yield f"{body}.position_embeddings", place[None]  # our class token is the last, theirs first
    for at in range(model.config.encoder.layers):
        there, here = f"encoder.layers.{at}", f"encoder.blocks.{at}"
        for name in "qkv":
            yield from layer(f"{there}.attention.{name}_proj", f"{here}.attention.to_{name}")
        yield from layer(f"{there}.attention.o_proj", f"{here}.attention.to_out")
        yield from layer(f"{there}.layernorm_before", f"{here}.attention_norm")
        yield from layer(f"{there}.mlp.fc1", f"{here}.feed_forward.to_hidden")
        yield from layer(f"{there}.mlp.fc2", f"{here}.feed_forward.to_out")
        yield from layer(f"{there}.layernorm_after", f"{here}.feed_forward_norm")
    yield from layer("encoder.layernorm", "encoder.norm")

    lying = partial(layer, lying=True)
    body, table = "decoder.transformer", own["embed.table.weight"]
    yield f"{body}.wte.weight", table
    yield "decoder.lm_head.weight", table
    yield f"{body}.wpe.weight", own["place.table"]
    for at in range(model.config.layers):
        there, here = f"{body}.h.{at}", f"decoder.{at}"
        yield from lying(f"{there}.attn.c_attn", *(f"{here}.attention.to_{name}" for name in "qkv"))
        yield from lying(f"{there}.attn.c_proj", f"{here}.attention.to_out")
        yield from layer(f"{there}.ln_1", f"{here}.attention_norm")
        yield from lying(f"{there}.crossattention.q_attn", f"{here}.cross.to_q")
        yield from lying(
            f"{there}.crossattention.c_attn", *(f"{here}.cross.to_{name}" for name in "kv")
        )
        yield from lying(f"{there}.crossattention.c_proj", f"{here}.cross.to_out")
        yield from layer(f"{there}.ln_cross_attn", f"{here}.cross_norm")
        yield from lying(f"{there}.mlp.c_fc", f"{here}.feed_forward.to_hidden")
        yield from lying(f"{there}.mlp.c_proj", f"{here}.feed_forward.to_out")
        yield from layer(f"{there}.ln_2", f"{here}.feed_forward_norm")
    yield from layer(f"{body}.ln_f", "norm")


# What they call it: torch's GELU, and the formula with tanh that GPT-2 came with.
ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "relu": "relu"}


def figure(rate: float) -> str:
    """A rate with three digits that mean something."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:#.3g}"
