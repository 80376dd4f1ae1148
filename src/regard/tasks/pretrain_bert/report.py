"""What a report shows of a pretrained reader, and which tokens of a text read which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.errors import UserError
from regard.inspection.places import CHANNEL_WORDS, expect_places, has_places
from regard.inspection.text_maps import bert_maps, reading_item
from regard.tasks.pretrain_bert.data import MASKED, PretrainData
from regard.tasks.pretrain_bert.metrics import Evaluation, Reader, reader
from regard.tasks.pretrain_bert.predict import TextInput, from_row, pieces, predict, read_of
from regard.tasks.pretrain_bert.questions import text_of
from regard.tasks.several import expect_one, few_names
from regard.tasks.task import Looked
from regard.visualization.document import Document, Section
from regard.visualization.figure_text import text_figure

SAMPLES = 4  # texts of a report whose maps are shown
READING = (
    "Point at a token, or move with the arrow keys, to see what it read of all others. A hidden "
    "token is guessed from what it reads. The mean is over all layers and heads."
)
DRAWN = "A row is what its token read of every token; a hidden one is guessed from what it reads."
QUESTIONS = {
    MASKED: "which words are hidden",
    "nsp": "does the second text follow the first in its document",
    "inversion": "is the second sentence the first, inverted",
    "nli": "is the second sentence true if the first is",
}


def views(trained: Reader, data: PretrainData, split: str, judged: Evaluation) -> list[Section]:
    """The sections of a report that only a pretrained reader has."""
    sections: list[Section] = [
        {
            "view": "figures",
            "title": f"On {split}",
            "words": "How often each kind of question is answered rightly; 95% intervals over the "
            "choice of questions."
            + (
                ""
                if judged.perplexity is None
                else f" The perplexity of a hidden token is {judged.perplexity:.1f}."
            ),
            "data": {
                "items": [
                    {"name": name, "unit": "%", **each.accuracy._asdict()}
                    for name, each in judged.figures.items()
                ]
            },
        },
        {
            "view": "table",
            "title": "Against those that understand nothing",
            "words": "Chance always gives the most frequent answer. Counting is a logistic "
            "regression on the words of both texts and on those that only one of them has; for "
            "hidden words, naive Bayes on the ten words to either side. Both learn from the same "
            "text.",
            "data": {
                "columns": ["question", "right, %", "chance, %", "counting, %", "asked"],
                "rows": [
                    [
                        QUESTIONS.get(name, name),
                        round(100 * each.accuracy.value, 1),
                        round(100 * each.chance, 1),
                        None if each.counting is None else round(100 * each.counting.value, 1),
                        each.count,
                    ]
                    for name, each in judged.figures.items()
                ],
            },
        },
    ]
    for name, each in judged.figures.items():
        if len(each.kinds) > 1:
            sections.append(
                {
                    "view": "table",
                    "title": f"By kind: {name}",
                    "words": "The share that was answered rightly of the pairs made by each rule.",
                    "data": {
                        "columns": ["kind", "right, %", "asked"],
                        "rows": [
                            [kind, round(100 * right, 1), count]
                            for kind, (right, count) in each.kinds.items()
                        ],
                    },
                }
            )
    if len(data.parts[split].documents.lines):
        rows = text_of(trained.config, data, split).rows
        texts = [
            from_row(trained, f"{data.name} {split}:{row}", rows, row)
            for row in range(min(SAMPLES, len(rows)))
        ]
        sections.append(reading_section(trained, texts))
    return sections


def reading_section(trained: Reader, texts: Sequence[TextInput]) -> Section:
    """What each token read of others, or where no token read any, what was answered alone."""
    if not has_places(trained.model):
        answers = [[str(answer)] for answer in predict(trained, texts)]
        return {
            "view": "table",
            "title": "What it answers",
            "words": CHANNEL_WORDS,
            "data": {"columns": ["text and answer"], "rows": answers},
        }
    return {
        "view": "reading",
        "title": "Where it looked",
        "words": READING,
        "data": {"items": readings(trained, texts)},
    }


def readings(trained: Reader, texts: Sequence[TextInput]) -> list[dict[str, Any]]:
    """What the view named reading shows of each text."""
    items = []
    for each, answer in zip(texts, predict(trained, texts), strict=True):
        tokens, maps = mapped(trained, each)
        named = [", ".join(word for word, _ in best) for best in answer.words]
        known = "" if each.truth is None else f" It is {each.truth}."
        note = f"hidden: {'; '.join(named)}?{known}" if named else ""
        items.append(reading_item(each.name, tokens, None, maps, note=note))
    return items


def mapped(
    trained: Reader, text: TextInput
) -> tuple[list[str], Float[np.ndarray, "layers heads n n"]]:
    """The tokens of a text, and how much each read of each."""
    read = read_of(trained, text)
    maps = bert_maps(reader(trained).bert, read.words, read.segments, positions=read.positions)
    tokens = pieces(trained.metadata.words, read.words[0].tolist())
    return tokens, maps[0].float().cpu().numpy()


def look(trained: Reader, texts: Sequence[TextInput], data: Callable[[], PretrainData]) -> Looked:
    """Which tokens of a text read which, by every head."""
    texts = [each for each in texts if each.first]
    if not texts:
        raise UserError("there is no text to look at")
    document: Document = {
        "title": "Where it looked, token by token",
        "subtitle": few_names([each.name for each in texts]),
        "sections": [reading_section(trained, texts)],
    }

    def draw(path: Path) -> None:
        expect_places(path, trained.model)
        expect_one(path, len(texts), "text")
        tokens, maps = mapped(trained, texts[0])
        text_figure(tokens, tokens, maps, path, title=texts[0].text, caption=DRAWN)

    return Looked(document, draw)
