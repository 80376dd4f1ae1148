"""Pairs of sentences with an answer to learn: is one the other inverted, does it follow from it?

Those of each part of the data are made of sentences that no earlier part has. With SICK that holds
of pairs only: its authors divided pairs and not sentences, and most sentences of its TRIAL and TEST
are in its TRAIN too, in other pairs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from regard.data.images import SPLITS
from regard.data.labelled import LabelledSet, read_labelled
from regard.data.synthetic import grammar
from regard.data.synthetic.inference import inference_pairs
from regard.data.synthetic.inversions import inversion_pairs
from regard.errors import UserError
from regard.tasks.pretrain_bert.config import PretrainBertConfig

HELD_SHARE = 10  # for so many pairs to learn from, one is held out for validation and one for test
FEWEST = 12  # pairs that are held out for each
GROWN = 400  # sentences of our own grammar, at the least: a tenth of them is held out for each
INVERTED, INFERENCE = "inversion", "nli"

Texts = Mapping[str, list[list[str]]]  # documents, as sentences, by part
LabelledPair = tuple[str, str, bool, str]  # two sentences, the answer, and what decided it
Found = dict[str, list[LabelledPair]]  # pairs by question


def paired(
    config: PretrainBertConfig,
    split: str,
    texts: Sequence[Sequence[str]],
    sick: LabelledSet | None,
    known: Collection[str] = frozenset(),
) -> Found:
    """The pairs of a split for each question that counts, but that about what follows.

    No inversion has one of the `known` sentences.
    """
    count = (
        config.pairs_per_epoch
        if split == "train"
        else max(FEWEST, config.pairs_per_epoch // HELD_SHARE)
    )
    found: Found = {}
    if config.loss_weights.inversion:
        sentences = [each for document in texts for each in document]
        own_grammar = grown(max(GROWN, 2 * config.pairs_per_epoch))[split]
        found[INVERTED] = inverted(sentences, own_grammar, count, SPLITS.index(split), known)
    if config.loss_weights.nli:
        found[INFERENCE] = inferred(config, split, count, sick)
    return found


def inverted(
    sentences: Sequence[str],
    own_grammar: Sequence[str],
    count: int,
    seed: int,
    known: Collection[str],
) -> list[LabelledPair]:
    """Half from the text itself, as far as that has some, and the rest from our own grammar."""
    of_text, of_grammar = (inversion_pairs(some, seed, known) for some in (sentences, own_grammar))
    kept = balanced(of_text, max(count // 2, count - len(of_grammar)))
    return [*kept, *balanced(of_grammar, count - len(kept))]


@lru_cache(maxsize=1)
def grown(count: int) -> dict[str, list[str]]:
    """Sentences of our own grammar by part: eight of ten to train on, as their hash decides."""
    parts: dict[str, list[str]] = {name: [] for name in SPLITS}
    for sentence in grammar.sentences(count, 0):
        digit = hashlib.sha256(sentence.encode()).digest()[0] % 10
        parts[SPLITS[max(0, digit - 7)]].append(sentence)
    return parts


def inferred(
    config: PretrainBertConfig, split: str, count: int, sick: LabelledSet | None
) -> list[LabelledPair]:
    """Premises and conclusions from our own rules, from SICK, or half from each.

    Where SICK has fewer than half, our own rules make up for it.
    """
    found: list[LabelledPair] = []
    if sick is not None:
        found = balanced(from_sick(sick, split), count if config.nli_data == "sick" else count // 2)
    if config.nli_data != "sick":
        found += by_rules(split, count)[: count - len(found)]
    return found


def by_rules(split: str, count: int) -> Sequence[LabelledPair]:
    """So many pairs of our own rules; of what is held back, validation and test have a half each.

    Sentences are divided, not pairs: no two parts have one in common.
    """
    try:
        if split == "train":
            return inference_pairs(count, 0)
        return inference_pairs(count, 1, held=True, half=SPLITS[1:].index(split))
    except ValueError as trouble:
        raise UserError(f"--pairs-per-epoch asks for too many inferences: {trouble}") from None


def sick_for(config: PretrainBertConfig) -> LabelledSet | None:
    """SICK, if inferences are to come from it."""
    wanted = config.loss_weights.nli and config.nli_data != "rules"
    return read_labelled("sick") if wanted else None


def from_sick(sick: LabelledSet, split: str) -> list[LabelledPair]:
    """SICK's pairs, of which those of entailment follow."""
    part, yes = sick[split], sick.classes.index("entailment")
    return [
        (first, second, label == yes, f"SICK, {sick.classes[label]}")
        for first, second, label in zip(part.texts, part.seconds, part.labels, strict=True)
    ]


def balanced(pairs: Sequence[LabelledPair], count: int) -> list[LabelledPair]:
    """At most so many, true and false in turn."""
    true, false = ([pair for pair in pairs if pair[2] is answer] for answer in (True, False))
    couples = zip(true, false, strict=False)
    return [pair for _, both in zip(range(count // 2), couples, strict=False) for pair in both]


def sentences_of(found: Iterable[Found]) -> Iterator[str]:
    """Both sentences of every pair."""
    for pairs in found:
        for some in pairs.values():
            for first, second, *_ in some:
                yield from (first, second)
