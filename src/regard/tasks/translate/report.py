"""What a report shows of a translator, and which words it read when it wrote each word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from regard.data.words import WordVocabulary
from regard.errors import UserError
from regard.evaluation.translation import best, worst
from regard.inspection.text_maps import alignment_maps, reading_item
from regard.tasks.several import expect_one, few_names
from regard.tasks.task import Looked
from regard.tasks.translate.data import Metadata, TranslateData, part_of
from regard.tasks.translate.metrics import (
    EXACT,
    Evaluation,
    Translator,
    Written,
    sentences,
    translate,
    translator,
)
from regard.tasks.translate.predict import Sentence, own_split
from regard.visualization.document import Document, Section
from regard.visualization.figure_text import text_figure

SHOWN = 12  # of the best, and of the worst
SAMPLES = 4  # sentences of a report whose maps are shown
FIRST = "The first of the split, with chrF: how many runs of letters are those of the reference."
BY_CHRF = "By chrF, which counts the runs of letters that a translation and its reference share."
READING = (
    "Point at a token of the translation, or move with the arrow keys, to see what the decoder "
    "read in the source just before it wrote that token. The translation is the model's own; the "
    "last token is its end. The mean is over all layers and heads."
)
DRAWN = (
    "In rows is the model's own translation, in columns its source. A row is where the decoder "
    "looked just before it wrote the row's token."
)


def views(
    trained: Translator, data: TranslateData, split: str, judged: Evaluation
) -> list[Section]:
    """The sections of a report that only a translator has."""
    part = part_of(data, split)
    if len(part) != judged.scores.count:
        raise UserError(
            f"{split} has {len(part):,} pairs by now, and figures of it are of "
            f"{judged.scores.count:,}: evaluate it again"
        )
    rows = np.linspace(0, len(part) - 1, min(SAMPLES, len(part))).astype(int).tolist()
    pairs = own_split(trained.metadata, data, split)
    sources = [
        pairs.item(row)
        for row in rows
        if len(trained.metadata.words.encode(part.source[row])) <= trained.metadata.longest
    ]
    sections: list[Section] = [
        {
            "view": "figures",
            "title": f"On {split}",
            "words": f"{judged.scores.count:,} pairs of {split}; 95% intervals over the choice of "
            f"pairs. {judged.scores.length:.2f} words were written for each word of the "
            f"references. BLEU is sacreBLEU's {judged.scores.signatures['BLEU']}."
            + (
                f" {judged.shared:,} of the pairs are among those learnt, letter for letter."
                if judged.shared
                else ""
            ),
            "data": {"items": headline(judged)},
        }
    ]
    for title, chosen in gallery(judged).items():
        if chosen:
            sections.append(
                {
                    "view": "table",
                    "title": title,
                    "words": FIRST if judged.decides == EXACT else BY_CHRF,
                    "data": {
                        "columns": ["source", "translation", "reference", "chrF"],
                        "rows": table_rows(data, split, judged, chosen),
                    },
                }
            )
    if sources:
        sections.append(
            {
                "view": "reading",
                "title": "Where it looked",
                "words": READING,
                "data": {"items": readings(trained, sources)},
            }
        )
    return sections


def headline(judged: Evaluation) -> list[dict[str, Any]]:
    """The deciding figure first."""
    figures = {judged.decides: judged.scores.figures[judged.decides], **judged.scores.figures}
    shown = {**figures, **{f"exact, {name}": found for name, found in judged.ways.items()}}
    return [{"name": name, "unit": "%", **found._asdict()} for name, found in shown.items()]


def gallery(judged: Evaluation) -> dict[str, list[int]]:
    """Which translations to show: wrong ones and right ones, or the worst and the best."""
    if judged.decides == EXACT:
        right = judged.scores.per_pair[EXACT]
        return {
            "Translations that are wrong": np.flatnonzero(right == 0)[:SHOWN].tolist(),
            "Translations that are right": np.flatnonzero(right == 1)[:SHOWN].tolist(),
        }
    return {
        "Worst translations": worst(judged.scores, SHOWN).tolist(),
        "Best translations": best(judged.scores, SHOWN).tolist(),
    }


def table_rows(
    data: TranslateData, split: str, judged: Evaluation, rows: Sequence[int]
) -> list[list[Any]]:
    part, each = part_of(data, split), judged.scores.per_pair["chrF"]
    return [
        [part.source[row], judged.translations[row], part.target[row], round(100 * each[row], 1)]
        for row in rows
    ]


def look(
    trained: Translator, sources: Sequence[Sentence], data: Callable[[], TranslateData]
) -> Looked:
    """Which words of a sentence each word of its translation read, by every head."""
    sources = [each for each in sources if each.tokens]
    if not sources:
        raise UserError("there is no sentence to look at")
    document: Document = {
        "title": "Where it looked, token by token",
        "subtitle": few_names([each.name for each in sources]),
        "sections": [
            {
                "view": "reading",
                "title": "Translating",
                "words": READING,
                "data": {"items": readings(trained, sources)},
            }
        ],
    }

    def draw(path: Path) -> None:
        expect_one(path, len(sources), "sentence")
        (translation,) = translate(trained, [sources[0].tokens])
        text_figure(
            *mapped(trained, sources[0], translation),
            path,
            title=f"{sources[0].text} → {translation.text}",
            caption=DRAWN,
        )

    return Looked(document, draw)


def readings(trained: Translator, sources: Sequence[Sentence]) -> list[dict[str, Any]]:
    """What the view named reading shows of each sentence and its translation."""
    translations = translate(trained, [each.tokens for each in sources])
    items = []
    for each, found in zip(sources, translations, strict=True):
        note = "" if each.truth is None else f"reference: {each.truth}"
        items.append(reading_item(each.name, *mapped(trained, each, found), note=note))
    return items


def mapped(
    trained: Translator, sentence: Sentence, translation: Written
) -> tuple[list[str], list[str], Float[np.ndarray, "layers heads n m"]]:
    """The tokens written, the tokens read, and how much each of the former read of the latter.

    A row of the maps belongs to what went in, and tells where the model looked for what came out:
    the row of the start is that of the first token written, and that of the last token the end's.
    """
    facts = trained.metadata
    words = facts.words
    source = sentences([sentence.tokens], facts, trained.device)
    # After the last token comes the end, unless there was no room: then it was never looked for.
    before = translation.numbers if translation.finished else translation.numbers[:-1]
    went_in = torch.tensor([[words.start, *before]], device=trained.device)
    maps = alignment_maps(translator(trained), source, went_in)[0].float().cpu().numpy()
    written = pieces(facts, translation.numbers) + [ending(facts)] * translation.finished
    return written, [*pieces(facts, sentence.tokens), ending(facts)], maps


def pieces(facts: Metadata, numbers: Sequence[int]) -> list[str]:
    """Tokens as people read them, each with the space before it, so that they join to the text."""
    words = facts.words
    shown = [words.decode([number]) or words.entry(number) for number in numbers]
    if isinstance(words, WordVocabulary):
        shown = [f" {word}" if at else word for at, word in enumerate(shown)]
    return shown


def ending(facts: Metadata) -> str:
    return f" {facts.words.entry(facts.words.end)}"
