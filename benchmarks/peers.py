"""Other libraries' ViTs, each as near to a configuration of ours as it can be."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module, util
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from benchmarks.harness import count
from benchmarks.weights_out import vit_config
from regard.models import ViTConfig
from regard.models.layers import make_head

TRANSFORMERS, ENCODER = "transformers", "torch.nn.TransformerEncoder"
Peer = Callable[[ViTConfig], nn.Module]  # a library's nearest model to our configuration


class Sought(NamedTuple):
    """Where to look for a peer, and what to install where it is missing."""

    find: Callable[[], Peer]
    install: str


def find_peers() -> tuple[dict[str, Peer], dict[str, str]]:
    """The peers that are installed, and a sentence for each one that is not."""
    found, left_out = {}, {}
    for name, sought in PEERS.items():
        try:
            found[name] = sought.find()
        except ImportError as absent:
            left_out[name] = f"{name} is left out ({absent}): {sought.install}"
    return found, left_out


def check_fair(name: str, model: nn.Module, config: ViTConfig, wanted: int) -> None:
    """A contender that is another model must not be timed, nor one with parts that idle."""
    own = count(model)
    if abs(own - wanted) > 0.03 * wanted:
        raise RuntimeError(f"{name} has {own:,} parameters and regard {wanted:,}: not one model")
    device = next(model.parameters()).device
    logits = model(
        torch.randn(2, config.channels, config.image_size, config.image_size, device=device)
    )
    if logits.shape != (2, config.num_classes):
        raise RuntimeError(f"{name} answers {tuple(logits.shape)}, not (2, {config.num_classes})")
    logits.logsumexp(-1).sum().backward()
    idle = [part for part, weight in model.named_parameters() if weight.grad is None]
    if idle:
        raise RuntimeError(f"{name} has parts that do not learn: {', '.join(idle)}")
    model.zero_grad(set_to_none=True)


def find_transformers() -> Peer:
    transformers: Any = import_module("transformers")

    def build(config: ViTConfig) -> nn.Module:
        # Biases of q, k and v are the one kind that it can leave out.
        theirs = vit_config(config, num_labels=config.num_classes, qkv_bias=config.bias)
        model = transformers.ViTForImageClassification(theirs)
        model.classifier = make_head(config.width, config.head_hidden, config.num_classes)
        return LogitsOf(model)

    return build


class LogitsOf(nn.Module):
    """A model of transformers that answers with its logits alone, as the others do."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b classes"]:
        return self.model(images).logits


def find_vit_pytorch() -> Peer:
    """Its ViT, read from the one file that holds it: the package as a whole needs torchvision."""
    package = util.find_spec("vit_pytorch")
    if package is None or package.origin is None:
        raise ImportError("No module named 'vit_pytorch'")
    spec = util.spec_from_file_location("vit_pytorch_vit", Path(package.origin).parent / "vit.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def build(config: ViTConfig) -> nn.Module:
        model: nn.Module = module.ViT(  # its q, k and v never have biases, its other layers always
            image_size=config.image_size,
            patch_size=config.patch_size,
            num_classes=config.num_classes,
            dim=config.width,
            depth=config.layers,
            heads=config.heads,
            dim_head=config.width // config.heads,
            mlp_dim=config.hidden_width,
            channels=config.channels,
        )
        model.mlp_head = make_head(config.width, config.head_hidden, config.num_classes)
        return model

    return build


def find_torch() -> Peer:
    return EncoderViT


class EncoderViT(nn.Module):
    """What one would write around `torch.nn.TransformerEncoder`."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        width, (rows, columns) = config.width, config.grid
        self.patches = nn.Conv2d(config.channels, width, config.patch_size, config.patch_size)
        self.class_token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.place = nn.Parameter(torch.randn(1, 1 + rows * columns, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width,
            config.heads,
            config.hidden_width,
            dropout=0.0,
            activation="gelu",
            layer_norm_eps=config.norm_eps,
            batch_first=True,
            norm_first=True,
            bias=config.bias,  # which leaves the biases of its norms out as well
        )
        norm = nn.LayerNorm(width, eps=config.norm_eps)
        self.encoder = nn.TransformerEncoder(
            layer, config.layers, norm=norm, enable_nested_tensor=False
        )
        self.head = make_head(width, config.head_hidden, config.num_classes)

    def forward(self, images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b classes"]:
        patches = self.patches(images).flatten(2).mT  # b n c
        x = torch.cat([self.class_token.expand(len(images), -1, -1), patches], 1)
        return self.head(self.encoder(x + self.place)[:, 0])


PEERS = {
    TRANSFORMERS: Sought(find_transformers, "pip install transformers"),
    "vit-pytorch": Sought(find_vit_pytorch, "pip install --no-deps vit-pytorch einops"),
    ENCODER: Sought(find_torch, "pip install torch"),
}
