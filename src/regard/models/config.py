"""What a model is made of, as frozen dataclasses. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, fields
from typing import Literal

from regard.config import check_kinds
from regard.errors import FieldError, nearest_widths


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """The fields that every stack of blocks shares."""

    width: int = 64
    """Numbers in each token."""
    layers: int = 5
    """Blocks in the stack."""
    heads: int = 4
    """Query heads in each layer; they split the width."""
    groups: int | None = None
    """Key and value heads that the query heads share; as many as `heads` when not said."""
    hidden: int | None = None
    """Width inside the feed-forward; 4 times `width` when not said (8/3 times for swiglu)."""
    feed_forward: Literal["gelu", "gelu_tanh", "relu", "swiglu"] = "gelu"
    """Non-linearity of the feed-forward."""
    norm: Literal["layer", "rms"] = "layer"
    """Kind of normalisation."""
    order: Literal["pre", "post"] = "pre"
    """Norm before each sub-layer, or after each sum as in 2017."""
    eps: float = 1e-5
    """Added to the variance inside the norms."""
    bias: bool = True
    """Whether linear layers have biases."""
    dropout: float = 0.0
    """Share of numbers dropped from embeddings and residual branches in training."""
    drop_path: float = 0.0
    """Share of residual branches skipped in training; grows from 0 to this with depth."""
    init: Literal["modern", "2017"] = "modern"
    """How weights start: small normals scaled by depth, or Xavier as in 2017."""
    mask: str | None = None
    """Who may read whom, as an expression such as `causal & window(64)`."""
    attention: str = "softmax"
    """How tokens are weighed: `softmax`, `linear` or such as `linear(random(64))`, `channels`."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("width", "layers", "heads"):
            if getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: there must be at least 1", name)
        if self.width % self.heads:
            raise FieldError(
                f"width={self.width} does not split into heads={self.heads}; "
                + nearest_widths(self.width, self.heads),
                "width",
            )
        if self.groups is not None and (self.groups < 1 or self.heads % self.groups):
            raise FieldError(
                f"heads={self.heads} do not share groups={self.groups} evenly", "groups"
            )
        for name in ("dropout", "drop_path"):
            if not 0 <= getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: a share lies in 0 ≤ … < 1", name)
        if not self.eps > 0:
            raise FieldError(
                f"eps={self.eps}: it keeps a variance of 0 from dividing, so above 0", "eps"
            )
        if self.hidden is not None and self.hidden < 1:
            raise FieldError(f"hidden={self.hidden}: there must be at least 1", "hidden")

    @property
    def hidden_width(self) -> int:
        """The width inside the feed-forward, whether said or not."""
        if self.hidden is not None:
            return self.hidden
        if self.feed_forward == "swiglu":  # three matrices of 8/3 cost what two of 4 do
            return -(-8 * self.width // 3 // 8) * 8
        return 4 * self.width


@dataclass(frozen=True, kw_only=True)
class ViTConfig(StackConfig):
    """A vision transformer: an image as a grid of patches, read by a stack of blocks."""

    image: int = 32
    """Side of the training images, in pixels; other sizes work at test time."""
    patch: int = 4
    """Side of a patch, in pixels."""
    stem: Literal["patch", "conv"] = "patch"
    """Tokens from patches cut out and projected, or from two small convolutions."""
    normalise_patches: bool = False
    """Whether each patch's pixels pass a LayerNorm before they are projected."""
    channels: int = 3
    """Colours of a pixel."""
    classes: int = 10
    """Classes to tell apart."""
    pool: Literal["class", "mean"] = "class"
    """Read the answer off a class token, or off the mean of the patches."""
    place: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    """How patches know where they are on the grid."""
    mask: str | None = None
    """Who may read whom, such as `neighbourhood(2, (8, 8))`; the class token comes last."""
    head: tuple[int, ...] = ()
    """Hidden widths between the pooled token and the classes; none is one linear layer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("channels", "classes", "patch"):
            if getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: there must be at least 1", name)
        if self.image < self.patch or self.image % self.patch:
            low = max(1, self.image // self.patch) * self.patch
            raise FieldError(
                f"image={self.image} does not split into patches of patch={self.patch}; "
                f"nearest images are {low} and {low + self.patch}",
                "image",
            )
        if self.normalise_patches and self.stem != "patch":
            raise FieldError(
                f"normalise_patches=True works on patches that are cut out, and stem={self.stem!r} "
                "cuts none",
                "normalise_patches",
            )
        if not all(type(width) is int and width >= 1 for width in self.head):
            raise FieldError(
                f"head={self.head}: hidden widths are whole numbers of at least 1", "head"
            )
        if self.place == "rotary" and self.width // self.heads % 4:
            raise FieldError(
                f"place='rotary' turns rows and columns in pairs, so width={self.width} over "
                f"heads={self.heads}, {self.width // self.heads}, must be divisible by 4",
                "place",
            )
        if self.place == "sinusoidal" and self.width % 4:
            raise FieldError(
                f"place='sinusoidal' needs a width divisible by 4, not {self.width}", "place"
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches in a training image."""
        side = self.image // self.patch
        return side, side


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(StackConfig):
    """A stack that writes: words in, the scores of the next word out."""

    words: int = 1000
    """Words of the vocabulary, those for begin, end and padding among them."""
    length: int = 64
    """Longest text that learned positions reach, its begin counted."""
    place: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    """How words know where they are in the text."""
    tied: bool = True
    """Whether a word is scored by the same vector that it is read as."""
    scaled: bool = False
    """Whether the vectors of words are multiplied by √width when read, as in 2017."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("words", 2), ("length", 1)):
            if getattr(self, name) < least:
                raise FieldError(
                    f"{name}={getattr(self, name)}: there must be at least {least}", name
                )
        check_place(self.place, self.width, self.heads)


@dataclass(frozen=True, kw_only=True)
class GPTConfig(DecoderConfig):
    """A stack that writes, and reads nothing but what it wrote."""


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(DecoderConfig):
    """A stack that reads a text both ways, and one that writes another while it reads that."""

    reading_layers: int | None = None
    """Blocks that read; as many as those that write when not said."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reading_layers is not None and self.reading_layers < 1:
            raise FieldError(
                f"reading_layers={self.reading_layers}: there must be at least 1", "reading_layers"
            )

    @property
    def reading(self) -> StackConfig:
        """The stack that reads: as the other, but for its depth and its mask."""
        shared = {field.name: getattr(self, field.name) for field in fields(StackConfig)}
        layers = self.layers if self.reading_layers is None else self.reading_layers
        return StackConfig(**(shared | {"layers": layers, "mask": None}))


@dataclass(frozen=True, kw_only=True)
class BertConfig(StackConfig):
    """A stack that reads a text both ways: every word may read all others (Devlin et al. 2019)."""

    order: Literal["pre", "post"] = "post"
    """Norm before each sub-layer, or after each sum as in 2017."""
    eps: float = 1e-12
    """Added to the variance inside the norms."""
    words: int = 1000
    """Words of the vocabulary, those for start, end, padding and the like among them."""
    length: int = 512
    """Longest text that its learned positions reach, start and end counted."""
    place: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    """How words know where they are in the text."""
    segments: int = 2
    """Kinds of text in one input: 2 where two sentences are read as a pair."""
    pooler: bool = False
    """Whether a further layer makes one vector of the text from its first word."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("words", 2), ("length", 1), ("segments", 1)):
            if getattr(self, name) < least:
                raise FieldError(
                    f"{name}={getattr(self, name)}: there must be at least {least}", name
                )
        check_place(self.place, self.width, self.heads)


@dataclass(frozen=True, kw_only=True)
class TextClassifierConfig(BertConfig):
    """A stack that reads a text, or a pair of texts, and says which class it belongs to."""

    classes: int = 2
    """Classes to tell apart."""
    pool: Literal["first", "mean", "max"] = "mean"
    """Read the answer off the first word, or off the mean or the greatest of all words."""
    head_dropout: float = 0.0
    """Share of the pooled numbers dropped in training."""
    votes: int = 0
    """Rows for pairs of neighbouring words, which vote beside the reader, as words do; 0: none."""
    say: float = 1.0
    """What the votes count for, where the reader counts for 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes < 2:
            raise FieldError(f"classes={self.classes}: there must be at least 2", "classes")
        if self.votes < 0:
            raise FieldError(f"votes={self.votes}: a number of rows cannot be negative", "votes")
        if self.say < 0:
            raise FieldError(f"say={self.say}: votes cannot count for less than nothing", "say")
        if not 0 <= self.head_dropout < 1:
            raise FieldError(
                f"head_dropout={self.head_dropout}: a share lies in 0 ≤ … < 1", "head_dropout"
            )


@dataclass(frozen=True, kw_only=True)
class PretrainerConfig(BertConfig):
    """A stack that reads, and is asked which words are hidden, and about pairs of sentences."""

    pooler: bool = True
    """Whether a further layer makes one vector of the text from its first word."""
    asked: tuple[str, ...] = ()
    """Questions with the answers no and yes that it is asked about pairs, by name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.asked)) < len(self.asked):
            raise FieldError(f"asked={self.asked}: each name once", "asked")
        if self.asked and not self.pooler:
            raise FieldError(
                f"asked={self.asked} about pairs is answered by the pooler: have one", "asked"
            )


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig(DecoderConfig):
    """An image encoder, and a decoder that reads its patches while it writes."""

    encoder: ViTConfig = ViTConfig(pool="mean")
    """The model that sees, built unless a `context_width` is said."""
    context_width: int | None = None
    """Width of features that come from elsewhere: another encoder, or computed beforehand."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.context_width is not None and self.context_width < 1:
            raise FieldError(
                f"context_width={self.context_width}: there must be at least 1", "context_width"
            )

    @property
    def features_width(self) -> int:
        """The width of the features that are read, whether said or the encoder's."""
        return self.encoder.width if self.context_width is None else self.context_width


def check_place(place: str, width: int, heads: int) -> None:
    """Refuse a width that does not split as these positions need it to."""
    if place == "rotary" and width // heads % 2:
        raise FieldError(
            f"place='rotary' turns numbers in pairs, so width={width} over "
            f"heads={heads}, {width // heads}, must be even",
            "place",
        )
    if place == "sinusoidal" and width % 2:
        raise FieldError(f"place='sinusoidal' needs an even width, not {width}", "place")
