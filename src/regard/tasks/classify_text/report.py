"""What a report shows of a reader, and which words carried its decision on a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.batching import windows
from regard.errors import UserError
from regard.evaluation.classification import Answers, mistakes
from regard.inspection.attribution import Token, WordMaps, reader, word_maps, words_item
from regard.inspection.places import CHANNEL_WORDS, has_places
from regard.inspection.word_faithfulness import WordFaithfulness, word_faithfulness
from regard.models.text_classifier import TextClassifier
from regard.runs.session import parameters
from regard.tasks.classify_text.data import SentimentData, encoded, part_of
from regard.tasks.classify_text.loss import Shares
from regard.tasks.classify_text.metrics import Evaluation, Reader, answers_on
from regard.tasks.classify_text.predict import TextInput, own_split, shares_by_window
from regard.tasks.classify_text.words import Spelt, spelt
from regard.tasks.sections import (
    class_sections,
    faithfulness_sections,
    figures_section,
    item,
)
from regard.tasks.several import expect_one, few_names
from regard.tasks.task import Looked
from regard.visualization.document import Document, Section
from regard.visualization.figure_words import word_figure

MISTAKES = 12  # shown in a report
SAMPLES = 6  # texts of a report that were answered rightly
FAITHFUL, FEWER = 48, 16  # texts on which faithfulness is measured, and of a large model
LARGE = 5_000_000  # parameters of a large one
FAITHFUL_WORDS = (
    "Words are deleted, or put back, those first that a method holds for most important; the "
    "probability of the model's own answer is followed. An order that matters beats a random one: "
    "deletion falls sooner, insertion rises sooner. The gain is half the sum of both areas' "
    "distances from random."
)
WORDS_WORDS = (
    "How much each word carried the answer, by methods that ask different questions. Point at a "
    "word, or move with the arrow keys, for its number."
)

VOTE_WORDS = (
    "Here words vote beside the reader: leaving a word out counts both, gradient and attention the "
    "reader alone."
)


def views(trained: Reader, data: SentimentData, split: str, judged: Evaluation) -> list[Section]:
    """The sections of a report that only a reader of texts has."""
    assessment, more = judged.assessment, []
    if judged.baseline is not None:
        more.append(item("counting words", judged.baseline))
    items = "pairs" if trained.metadata.paired else "texts"
    first = figures_section(assessment, split, items, more)
    summary = f" Always the most frequent class would be right in {judged.majority:.1%}."
    if judged.baseline is not None:
        summary += (
            " Counting words is TF-IDF of words and neighbours with a logistic regression, fitted "
            "to the same texts."
        )
    if judged.alone:
        reader, votes = judged.alone
        summary += f" The reader alone is right in {reader:.1%}, the votes of words in {votes:.1%}."
    if judged.shared:
        summary += f" {judged.shared:,} of the {items} are among those learnt, letter for letter."
    first["words"] += summary
    part = part_of(data, split)
    answers = Answers(
        answers_on(trained, data, part), np.array(part.labels, np.int64), trained.metadata.classes
    )
    wrong = mistakes(answers, MISTAKES)
    right = np.flatnonzero(answers.right)
    right = right[np.linspace(0, len(right) - 1, min(SAMPLES, len(right))).astype(int)]
    sections = [first, *class_sections(assessment, trained.metadata.classes, "a text", items)]
    own = own_split(trained.metadata, data, split)
    for title, rows in (("Most confident mistakes", wrong), ("Some that were right", right)):
        texts = [own.item(int(row)) for row in rows]
        if shown := items_of(trained, texts):
            sections.append(words_section(trained, title, shown))
    return [*sections, *mattered(trained, data, split)]


def words_section(trained: Reader, title: str, items: list[dict[str, Any]]) -> Section:
    """Texts by their words, and what the methods do not show of this model."""
    words = " ".join(filter(None, (WORDS_WORDS, caveats(trained))))
    return {"view": "words", "title": title, "words": words, "data": {"items": items}}


def caveats(trained: Reader) -> str:
    """What the methods do not show of such a model, if anything."""
    places = "" if has_places(trained.model) else CHANNEL_WORDS
    votes = VOTE_WORDS if trained.config.model.ngram_buckets else ""
    return " ".join(filter(None, (places, votes)))


def items_of(trained: Reader, texts: Sequence[TextInput]) -> list[dict[str, Any]]:
    """What the view named words shows of each text."""
    items = []
    for each in texts:
        if not spelt_of(trained, each).spans:
            continue
        shown = shown_of(trained, each)
        items.append(
            words_item(
                name_of(each),
                shown.text.words,
                shown.maps,
                trained.metadata.classes,
                truth=each.truth,
                breaks=shown.text.breaks,
                note=note_of(shown, trained.metadata.classes),
                whole=shown.whole,
            )
        )
    return items


def name_of(item: TextInput) -> str:
    """What a text is called, with the tab between two of them made visible."""
    return item.name.replace("\t", " | ")


@dataclass(frozen=True, eq=False)
class Shown:
    """What is shown of a text: all of it, or the window that speaks most for its answer."""

    text: Spelt
    maps: WordMaps  # for the answer to all of the text
    whole: Shares | None = None  # the probabilities of that, where a window is shown

    def answer_text(self, classes: Sequence[str]) -> str:
        """The answer, and where a window is shown, what that came to by itself."""
        alone = self.alone(classes)
        if self.whole is None:
            return alone
        return f"{best_of(classes, self.whole)} ({self.part()} shown: {alone})"

    def part(self) -> str:
        """Which words of the text these are."""
        text = self.text
        return f"words {text.first + 1:,} to {text.first + len(text.words):,} of {text.count:,}"

    def alone(self, classes: Sequence[str]) -> str:
        """What they came to by themselves."""
        return best_of(classes, self.maps.probabilities)


def best_of(classes: Sequence[str], shares: np.ndarray) -> str:
    best = int(shares.argmax())
    return f"{classes[best]}, {shares[best]:.0%}"


def shown_of(trained: Reader, item: TextInput) -> Shown:
    """What is shown of a text, and how much each word of that carried the answer."""
    text, answers = window_of(trained, item)
    if answers is None:
        return Shown(text, maps_of(trained, text))
    return Shown(text, maps_of(trained, text, int(answers.argmax())), answers)


def window_of(trained: Reader, item: TextInput) -> tuple[Spelt, Shares | None]:
    """The window that speaks most for the answer to a long text, and the text's probabilities."""
    text = spelt_of(trained, item)
    if not text.cut or item.second is not None:  # of a pair, nothing but this is read
        return text, None
    config, words = trained.config, trained.metadata.words
    shares = shares_by_window(trained, item)
    whole: Shares = shares.mean(0)
    tokens = range(len(encoded(words, item.text)))
    places = windows(tokens, config.max_length - 2, config.window_overlap)
    start = places[int(shares[:, whole.argmax()].argmax())][0]
    return spelt(words, item.text, None, config.max_length, start), whole


def spelt_of(trained: Reader, item: TextInput) -> Spelt:
    """A text as far as it is read at once."""
    return spelt(trained.metadata.words, item.text, item.second, trained.config.max_length)


def maps_of(trained: Reader, text: Spelt, answer: int | None = None) -> WordMaps:
    model = model_of(trained)
    return word_maps(model, text.tokens, text.spans, segments=text.segments, answer=answer)


def note_of(shown: Shown, classes: Sequence[str]) -> str:
    notes = []
    if shown.whole is not None:
        notes.append(
            f"Of this text, {shown.part()} are shown: the window that speaks most for "
            f"{classes[shown.maps.answer]}. By itself it came to {shown.alone(classes)}; the "
            "answer is the mean of all windows."
        )
    elif shown.text.cut:
        notes.append("The pair was cut to what is read at once, and only that is shown.")
    if shown.maps.gradient_error > 0.01:
        notes.append(f"The gradient's sum lacks {shown.maps.gradient_error:.0%} of what words add.")
    return " ".join(notes)


def measure_faithfulness(
    trained: Reader, data: SentimentData, split: str
) -> WordFaithfulness | None:
    """Whether deleting what carried the answer hurts most, on some texts of a split.

    None where no text has two words, of which one could matter more.
    """
    part = part_of(data, split)
    most = min(len(part), FAITHFUL if parameters(trained.model) < LARGE else FEWER)
    rows = np.unique(np.linspace(0, len(part) - 1, most).astype(np.int64))
    items = [*map(own_split(trained.metadata, data, split).item, map(int, rows))]
    texts = [text for each in items if len((text := window_of(trained, each)[0]).spans) > 1]
    if not texts:
        return None
    maps = [maps_of(trained, text).by_method() for text in texts]
    return word_faithfulness(
        reader(model_of(trained)),
        [tokens_of(text) for text in texts],
        [text.spans for text in texts],
        {method: [each[method] for each in maps] for method in maps[0]},
        random_orders=3,
    )


def tokens_of(text: Spelt) -> list[Token]:
    """Tokens, each with its segment where there are two texts."""
    if text.segments is None:
        return list(text.tokens)
    return list(zip(text.tokens, text.segments, strict=True))


def mattered(trained: Reader, data: SentimentData, split: str) -> list[Section]:
    """Whether the words that carried answers mattered; nothing where no text has two words."""
    found = measure_faithfulness(trained, data, split)
    if found is None:
        return []
    about = f"Measured on {found.texts} texts of {split}; above 0 is better than random."
    if (data.windowed(part_of(data, split), trained.metadata).counts > 1).any():
        about += (
            " Of a text that is read in windows, only the one that speaks most for its answer is "
            "measured, and the answer followed is that window's own."
        )
    return faithfulness_sections(
        found,
        "Are these the words that mattered?",
        f"{about} {FAITHFUL_WORDS}",
        parts="words",
        verb="put back",
    )


def look(trained: Reader, texts: Sequence[TextInput], data: Callable[[], SentimentData]) -> Looked:
    """Which words carried the decision, and whether the run's data say that they did."""
    texts = [each for each in texts if spelt_of(trained, each).spans]
    if not texts:
        raise UserError("there is no text to look at")
    sections = [words_section(trained, "Which words carried it", items_of(trained, texts))]
    try:
        sections += mattered(trained, data(), "validation")
    except UserError as gone:  # the data may be on another machine
        sections[0]["words"] += f" Faithfulness was not measured: {gone}."
    document: Document = {
        "title": "Which words carried the answer",
        "subtitle": few_names([name_of(each) for each in texts]),
        "sections": sections,
    }

    def draw(path: Path) -> None:
        expect_one(path, len(texts), "text")
        classes = trained.metadata.classes
        shown = shown_of(trained, texts[0])
        notes = (name_of(texts[0])[:100], note_of(shown, classes), caveats(trained))
        word_figure(
            shown.text.words,
            shown.maps.by_method(),
            path,
            title=shown.answer_text(classes),
            caption=" · ".join(filter(None, notes)),
            answer=classes[shown.maps.answer],
            breaks=shown.text.breaks,
        )

    return Looked(document, draw)


def model_of(trained: Reader) -> TextClassifier:
    assert isinstance(trained.model, TextClassifier)
    return trained.model
