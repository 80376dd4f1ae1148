"""Models, each one file and one line of MODELS. Importing this imports no torch."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.models.config import (
    BertConfig,
    BertForPretrainingConfig,
    CaptionerConfig,
    DecoderConfig,
    GPTConfig,
    Seq2SeqConfig,
    StackConfig,
    TextClassifierConfig,
    ViTConfig,
)
from regard.models.davit_config import DaViTConfig

if TYPE_CHECKING:
    from regard.generation.state import DecodingState
    from regard.models.bert import Bert
    from regard.models.block import Block, BlockCache, make_blocks
    from regard.models.captioner import Captioner
    from regard.models.davit import DaViT
    from regard.models.decoder import Decoder
    from regard.models.gpt import GPT
    from regard.models.layers import MLP, PatchEmbed, TokenEmbedding, init_weights
    from regard.models.pretrainer import BertForPretraining
    from regard.models.seq2seq import Seq2Seq, TokenBatch
    from regard.models.text_classifier import TextClassifier
    from regard.models.vit import ViT


class Entry(NamedTuple):
    """A model's configuration, and where its class is."""

    config: type[StackConfig] | type[DaViTConfig]
    target: str  # "module:class"

    def build(self, **fields: Any) -> Any:
        """The model that these fields of its configuration describe."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)(self.config(**fields))


MODELS: Mapping[str, Entry] = MappingProxyType(
    {
        "vit": Entry(ViTConfig, "regard.models.vit:ViT"),
        "bert": Entry(BertConfig, "regard.models.bert:Bert"),
        "davit": Entry(DaViTConfig, "regard.models.davit:DaViT"),
        "captioner": Entry(CaptionerConfig, "regard.models.captioner:Captioner"),
        "gpt": Entry(GPTConfig, "regard.models.gpt:GPT"),
        "bert_for_pretraining": Entry(
            BertForPretrainingConfig, "regard.models.pretrainer:BertForPretraining"
        ),
        "text_classifier": Entry(
            TextClassifierConfig, "regard.models.text_classifier:TextClassifier"
        ),
        "seq2seq": Entry(Seq2SeqConfig, "regard.models.seq2seq:Seq2Seq"),
    }
)

_HOMES = {
    "regard.models.bert": ("Bert",),
    "regard.models.block": ("Block", "BlockCache", "make_blocks"),
    "regard.models.captioner": ("Captioner",),
    "regard.models.davit": ("DaViT",),
    "regard.models.decoder": ("Decoder",),
    "regard.models.gpt": ("GPT",),
    "regard.models.layers": ("MLP", "PatchEmbed", "TokenEmbedding", "init_weights"),
    "regard.models.pretrainer": ("BertForPretraining",),
    "regard.models.seq2seq": ("Seq2Seq", "TokenBatch"),
    "regard.models.text_classifier": ("TextClassifier",),
    "regard.models.vit": ("ViT",),
    "regard.generation.state": ("DecodingState",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "GPT",
    "MLP",
    "MODELS",
    "Bert",
    "BertConfig",
    "BertForPretraining",
    "BertForPretrainingConfig",
    "Block",
    "BlockCache",
    "Captioner",
    "CaptionerConfig",
    "DaViT",
    "DaViTConfig",
    "Decoder",
    "DecoderConfig",
    "DecodingState",
    "Entry",
    "GPTConfig",
    "PatchEmbed",
    "Seq2Seq",
    "Seq2SeqConfig",
    "StackConfig",
    "TextClassifier",
    "TextClassifierConfig",
    "TokenBatch",
    "TokenEmbedding",
    "ViT",
    "ViTConfig",
    "init_weights",
    "make_blocks",
]
