"""Parts that can be counted alone, as frozen dataclasses. No torch here: `--help` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.config import check_kinds
from regard.errors import nearest_widths
from regard.models.config import StackConfig


@dataclass(frozen=True, kw_only=True)
class AttentionPart:
    """One attention layer: four projections around softmax(q kᵀ) v."""

    width: int = 64
    """Numbers in each token, D."""
    heads: int = 4
    """Query heads, H."""
    kv_heads: int | None = None
    """Key and value heads that the query heads share; as many as `heads` when not said."""
    head_width: int | None = None
    """Numbers in each head: width / heads when not said, or the full width in each."""
    bias: bool = True
    """Whether the projections have biases."""
    causal: bool = False
    """Whether no token reads a later one."""
    axis: Literal["token", "channel"] = "token"
    """What reads what: tokens read tokens, or the channels of each head read one another."""

    def __post_init__(self) -> None:
        check_kinds(self)
        at_least_one(self, "width", "heads", "kv_heads", "head_width")
        if self.head_width is None and self.width % self.heads:
            near = nearest_widths(self.width, self.heads)
            raise ValueError(f"width={self.width} does not split into heads={self.heads}; {near}")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(f"heads={self.heads} do not share kv_heads={self.kv_heads} evenly")
        if self.causal and self.axis == "channel":
            raise ValueError("causal=True is between tokens, and axis='channel' reads channels")

    @property
    def each(self) -> int:
        """Numbers in each head."""
        return self.width // self.heads if self.head_width is None else self.head_width


@dataclass(frozen=True, kw_only=True)
class MLPPart:
    """The MLP of a block: two linear layers with a non-linearity between, on each token alone."""

    width: int = 64
    """Numbers in each token."""
    mlp_width: int | None = None
    """Width inside; 4 times `width` when not said (8/3 times for swiglu)."""
    activation: Literal["gelu", "gelu_tanh", "relu", "swiglu"] = "gelu"
    """Non-linearity."""
    bias: bool = True
    """Whether the linear layers have biases."""

    def __post_init__(self) -> None:
        check_kinds(self)
        at_least_one(self, "width", "mlp_width")

    @property
    def hidden_width(self) -> int:
        """The width inside, whether said or not."""
        return StackConfig(
            width=self.width, heads=1, mlp_width=self.mlp_width, activation=self.activation
        ).hidden_width


@dataclass(frozen=True, kw_only=True)
class BlockPart(StackConfig):
    """One block: norms, an attention layer and an MLP, around the residual stream."""

    layers: int = 1
    """Blocks."""
    encoder_width: int | None = None
    """Width of a context that each also reads; none when not said."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, "encoder_width")


@dataclass(frozen=True, kw_only=True)
class EmbeddingPart:
    """The table of words, and learned positions."""

    vocab_size: int = 1000
    """Words of the vocabulary."""
    width: int = 64
    """Numbers in each token."""
    context_length: int = 64
    """Longest text that the positions reach."""
    pos_embed: Literal["learned", "sinusoidal", "none"] = "learned"
    """How words know where they are."""

    def __post_init__(self) -> None:
        check_kinds(self)
        at_least_one(self, "vocab_size", "width", "context_length")
        if self.pos_embed == "sinusoidal" and self.width % 2:
            raise ValueError(f"pos_embed='sinusoidal' needs an even width, not {self.width}")


@dataclass(frozen=True, kw_only=True)
class PatchesPart:
    """What makes tokens of an image: patches cut out and projected, or two convolutions."""

    image_size: int = 32
    """Side of the images, in pixels."""
    patch_size: int = 4
    """Side of a patch, in pixels."""
    channels: int = 3
    """Colours of a pixel."""
    width: int = 64
    """Numbers in each token."""
    stem: Literal["patch", "conv"] = "patch"
    """Patches cut out and projected, or two small convolutions."""

    def __post_init__(self) -> None:
        check_kinds(self)
        at_least_one(self, "image_size", "patch_size", "channels", "width")
        if self.image_size % self.patch_size:
            raise ValueError(
                f"image_size={self.image_size} does not split into patches of {self.patch_size}"
            )


@dataclass(frozen=True, kw_only=True)
class HeadPart:
    """What tells classes apart: from one vector to a score each."""

    width: int = 64
    """Numbers in the vector."""
    head_hidden: tuple[int, ...] = ()
    """Hidden widths between; none is one linear layer."""
    num_classes: int = 10
    """Classes to tell apart."""

    def __post_init__(self) -> None:
        check_kinds(self)
        at_least_one(self, "width", "num_classes")
        if not all(type(width) is int and width >= 1 for width in self.head_hidden):
            raise ValueError(f"head_hidden={self.head_hidden}: whole numbers of at least 1")


@dataclass(frozen=True, kw_only=True)
class DensePart:
    """One dense layer over all numbers of all tokens, D · N of them, for comparison."""

    width: int = 64
    """Numbers in each token, D."""
    bias: bool = True
    """Whether it has biases."""

    def __post_init__(self) -> None:
        check_kinds(self)
        at_least_one(self, "width")


def at_least_one(part: object, *names: str) -> None:
    for name in names:
        value = getattr(part, name)
        if value is not None and value < 1:
            raise ValueError(f"{name}={value}: there must be at least 1")
