"""What a model is made of, as frozen dataclasses. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, fields
from typing import Literal

from regard.config import check_kinds
from regard.errors import FieldError, nearest_widths


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """The fields that every stack of blocks shares."""

    width: int = 64
    """Embedding size: numbers in each token (d_model)."""
    layers: int = 5
    """Blocks in the stack."""
    heads: int = 4
    """Query heads in each layer; they split the width."""
    kv_heads: int | None = None
    """Key and value heads that the query heads share; as many as `heads` when not said."""
    mlp_width: int | None = None
    """Width inside the feed-forward; 4 times `width` when not said (8/3 times for swiglu)."""
    activation: Literal["gelu", "gelu_tanh", "relu", "swiglu"] = "gelu"
    """Non-linearity of the feed-forward."""
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    """Kind of normalisation."""
    norm_first: bool = True
    """Norm before each sub-layer (pre-norm), or after each sum as in 2017 (post-norm)."""
    norm_eps: float = 1e-5
    """Added to the variance inside the norms."""
    bias: bool = True
    """Whether linear layers have biases."""
    dropout: float = 0.0
    """Share of numbers dropped from embeddings and residual branches in training."""
    drop_path: float = 0.0
    """Share of residual branches skipped in training; grows from 0 to this with depth."""
    init: Literal["trunc_normal", "xavier_uniform"] = "trunc_normal"
    """How weights start: small normals scaled by depth, or Xavier as in 2017."""
    mask: str | None = None
    """Attention mask: who may attend to whom, an expression such as `causal & window(64)`."""
    attention: str = "softmax"
    """Kind of attention: `softmax`, `channel`, `linear`, or such as `linear(random(64))`."""

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
        if self.kv_heads is not None and (self.kv_heads < 1 or self.heads % self.kv_heads):
            raise FieldError(
                f"heads={self.heads} do not share kv_heads={self.kv_heads} evenly", "kv_heads"
            )
        for name in ("dropout", "drop_path"):
            if not 0 <= getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: a share lies in 0 ≤ … < 1", name)
        if not self.norm_eps > 0:
            raise FieldError(
                f"norm_eps={self.norm_eps}: it keeps a variance of 0 from dividing, so above 0",
                "norm_eps",
            )
        if self.mlp_width is not None and self.mlp_width < 1:
            raise FieldError(f"mlp_width={self.mlp_width}: there must be at least 1", "mlp_width")

    @property
    def hidden_width(self) -> int:
        """The width inside the feed-forward, whether said or not."""
        if self.mlp_width is not None:
            return self.mlp_width
        if self.activation == "swiglu":  # three matrices of 8/3 cost what two of 4 do
            return -(-8 * self.width // 3 // 8) * 8
        return 4 * self.width


@dataclass(frozen=True, kw_only=True)
class ViTConfig(StackConfig):
    """A vision transformer: an image as a grid of patches, read by a stack of blocks."""

    image_size: int = 32
    """Side of the training images, in pixels; other sizes work at test time."""
    patch_size: int = 4
    """Side of a patch, in pixels."""
    stem: Literal["patch", "conv"] = "patch"
    """Tokens from patches cut out and projected, or from two small convolutions."""
    patch_norm: bool = False
    """Whether each patch's pixels pass a LayerNorm before they are projected."""
    channels: int = 3
    """Colour channels of the images: 1 is grey, 3 is RGB."""
    num_classes: int = 10
    """Classes to tell apart."""
    pool: Literal["cls", "mean"] = "cls"
    """Read the answer off a class token, or off the mean of the patches."""
    pos_embed: Literal["learned", "sinusoidal", "rope", "none"] = "learned"
    """How patches know where they are on the grid."""
    mask: str | None = None
    """Attention mask, such as `neighborhood(2, (8, 8))`; the class token comes last."""
    head_hidden: tuple[int, ...] = ()
    """Hidden widths between the pooled token and the classes; none is one linear layer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("channels", "num_classes", "patch_size"):
            if getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: there must be at least 1", name)
        if self.image_size < self.patch_size or self.image_size % self.patch_size:
            low = max(1, self.image_size // self.patch_size) * self.patch_size
            raise FieldError(
                f"image_size={self.image_size} does not split into patches of "
                f"patch_size={self.patch_size}; "
                f"nearest images are {low} and {low + self.patch_size}",
                "image_size",
            )
        if self.patch_norm and self.stem != "patch":
            raise FieldError(
                f"patch_norm=True works on patches that are cut out, and stem={self.stem!r} "
                "cuts none",
                "patch_norm",
            )
        if not all(type(width) is int and width >= 1 for width in self.head_hidden):
            raise FieldError(
                f"head_hidden={self.head_hidden}: hidden widths are whole numbers of at least 1",
                "head_hidden",
            )
        if self.pos_embed == "rope" and self.width // self.heads % 4:
            raise FieldError(
                f"pos_embed='rope' turns rows and columns in pairs, so width={self.width} over "
                f"heads={self.heads}, {self.width // self.heads}, must be divisible by 4",
                "pos_embed",
            )
        if self.pos_embed == "sinusoidal" and self.width % 4:
            raise FieldError(
                f"pos_embed='sinusoidal' needs a width divisible by 4, not {self.width}",
                "pos_embed",
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches in a training image."""
        side = self.image_size // self.patch_size
        return side, side


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(StackConfig):
    """A stack that writes: words in, the scores of the next word out."""

    vocab_size: int = 1000
    """Words of the vocabulary, those for begin, end and padding among them."""
    context_length: int = 64
    """Longest text that learned positions cover, in tokens, its start token included."""
    pos_embed: Literal["learned", "sinusoidal", "rope", "none"] = "learned"
    """How words know where they are in the text."""
    tie_embeddings: bool = True
    """Whether input embeddings and output projection share weights."""
    scale_embeddings: bool = False
    """Whether the vectors of words are multiplied by √width when read, as in 2017."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("vocab_size", 2), ("context_length", 1)):
            if getattr(self, name) < least:
                raise FieldError(
                    f"{name}={getattr(self, name)}: there must be at least {least}", name
                )
        check_pos_embed(self.pos_embed, self.width, self.heads)


@dataclass(frozen=True, kw_only=True)
class GPTConfig(DecoderConfig):
    """A stack that writes, and reads nothing but what it wrote."""


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(DecoderConfig):
    """A stack that reads a text both ways, and one that writes another while it reads that."""

    encoder_layers: int | None = None
    """Blocks that read; as many as those that write when not said."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder_layers is not None and self.encoder_layers < 1:
            raise FieldError(
                f"encoder_layers={self.encoder_layers}: there must be at least 1", "encoder_layers"
            )

    @property
    def encoder_config(self) -> StackConfig:
        """The stack that reads: as the other, but for its depth and its mask."""
        shared = {field.name: getattr(self, field.name) for field in fields(StackConfig)}
        layers = self.layers if self.encoder_layers is None else self.encoder_layers
        return StackConfig(**(shared | {"layers": layers, "mask": None}))


@dataclass(frozen=True, kw_only=True)
class BertConfig(StackConfig):
    """A stack that reads a text both ways: every word may read all others (Devlin et al. 2019)."""

    norm_first: bool = False
    """Norm before each sub-layer (pre-norm), or after each sum as in 2017 (post-norm)."""
    norm_eps: float = 1e-12
    """Added to the variance inside the norms."""
    vocab_size: int = 1000
    """Words of the vocabulary, those for start, end, padding and the like among them."""
    context_length: int = 512
    """Longest text that its learned positions reach, start and end counted."""
    pos_embed: Literal["learned", "sinusoidal", "rope", "none"] = "learned"
    """How words know where they are in the text."""
    token_types: int = 2
    """Kinds of text in one input: 2 where two sentences are read as a pair."""
    pooler: bool = False
    """Whether a further layer makes one vector of the text from its first word."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("vocab_size", 2), ("context_length", 1), ("token_types", 1)):
            if getattr(self, name) < least:
                raise FieldError(
                    f"{name}={getattr(self, name)}: there must be at least {least}", name
                )
        check_pos_embed(self.pos_embed, self.width, self.heads)


@dataclass(frozen=True, kw_only=True)
class TextClassifierConfig(BertConfig):
    """A stack that reads a text, or a pair of texts, and says which class it belongs to."""

    num_classes: int = 2
    """Classes to tell apart."""
    pool: Literal["cls", "mean", "max"] = "mean"
    """Read the answer off the first word, or off the mean or the greatest of all words."""
    classifier_dropout: float = 0.0
    """Share of the pooled numbers dropped in training."""
    ngram_buckets: int = 0
    """Hash buckets of bigrams, which vote on the class beside the encoder, as words do; 0: none."""
    ngram_weight: float = 1.0
    """What the votes count for, where the reader counts for 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_classes < 2:
            raise FieldError(
                f"num_classes={self.num_classes}: there must be at least 2", "num_classes"
            )
        if self.ngram_buckets < 0:
            raise FieldError(
                f"ngram_buckets={self.ngram_buckets}: a number of rows cannot be negative",
                "ngram_buckets",
            )
        if self.ngram_weight < 0:
            raise FieldError(
                f"ngram_weight={self.ngram_weight}: votes cannot count for less than nothing",
                "ngram_weight",
            )
        if not 0 <= self.classifier_dropout < 1:
            raise FieldError(
                f"classifier_dropout={self.classifier_dropout}: a share lies in 0 ≤ … < 1",
                "classifier_dropout",
            )


@dataclass(frozen=True, kw_only=True)
class BertForPretrainingConfig(BertConfig):
    """A stack that reads, and is asked which words are hidden, and about pairs of sentences."""

    pooler: bool = True
    """Whether a further layer makes one vector of the text from its first word."""
    pair_tasks: tuple[str, ...] = ()
    """Questions with the answers no and yes that it is asked about pairs, by name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.pair_tasks)) < len(self.pair_tasks):
            raise FieldError(f"pair_tasks={self.pair_tasks}: each name once", "pair_tasks")
        if self.pair_tasks and not self.pooler:
            raise FieldError(
                f"pair_tasks={self.pair_tasks} about pairs is answered by the pooler: have one",
                "pair_tasks",
            )


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig(DecoderConfig):
    """An image encoder, and a decoder that reads its patches while it writes."""

    encoder: ViTConfig = ViTConfig(pool="mean")
    """The model that sees, built unless an `encoder_width` is said."""
    encoder_width: int | None = None
    """Width of features that come from elsewhere: another encoder, or computed beforehand."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder_width is not None and self.encoder_width < 1:
            raise FieldError(
                f"encoder_width={self.encoder_width}: there must be at least 1", "encoder_width"
            )

    @property
    def features_width(self) -> int:
        """The width of the features that are read, whether said or the encoder's."""
        return self.encoder.width if self.encoder_width is None else self.encoder_width


def check_pos_embed(place: str, width: int, heads: int) -> None:
    """Refuse a width that does not split as these positions need it to."""
    if place == "rope" and width // heads % 2:
        raise FieldError(
            f"pos_embed='rope' turns numbers in pairs, so width={width} over "
            f"heads={heads}, {width // heads}, must be even",
            "pos_embed",
        )
    if place == "sinusoidal" and width % 2:
        raise FieldError(f"pos_embed='sinusoidal' needs an even width, not {width}", "pos_embed")
