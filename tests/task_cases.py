"""What the tests must know of each task: one small value, and nothing else names a task's fields.

`tests/test_task_contract.py` holds every task to one contract by these, and
`tests/trained_runs.py` trains the run of each that tests share.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SEEN_TWICE = 5  # the row of digits and of scenes that is asked about as file, array and row
HELD = 24  # scenes that are held out, of the hundreds there are else


@dataclass(frozen=True)
class Bad:
    """What is no input: a way to make it, and facts that the sentence about it must hold."""

    name: str
    make: Callable[[Path], Any]
    facts: tuple[str, ...]


@dataclass(frozen=True)
class TaskCase:
    """A task at its smallest."""

    task: str
    data: str | Callable[[Path], Path]
    """Data that every installation has, or a way to write some into a folder."""
    tiny: Mapping[str, Any]
    """Fields of a model that trains in no time, by dotted name."""
    learnt: Mapping[str, Any]
    """And what lets it learn enough to be looked at."""
    steps: Mapping[str, Any]
    """Fields with which an epoch is a few steps, which draw random numbers."""
    decides: str
    """The figure by which its epochs are chosen."""
    judged: str
    """The first of its final figures."""
    says: tuple[str, ...]
    """Words of its log about its data."""
    same: Callable[[Any, Path], tuple[Any, ...]]
    """`(run, folder)`: one item in every way in which it can be given."""
    bad: tuple[Bad, ...]
    looked: str
    """Words of the page that shows where it looked."""
    damaged: tuple[Mapping[str, Any], ...] = ()
    """Values in place of which a file of figures holds others, and is refused."""
    recipe: str = ""
    """The text of a recipe, in place of the one that is made for such data."""
    asking: Mapping[str, Any] = field(default_factory=dict)
    """How it must be asked for its answers to repeat."""
    fewer: tuple[tuple[str, Any], ...] = ()
    """Sizes of its data or measurements, made smaller: dotted name and value."""
    test: bool = False
    """Whether its data have a test split."""

    def smaller(self, patch: pytest.MonkeyPatch) -> None:
        for name, value in self.fewer:
            patch.setattr(name, value() if callable(value) else value)

    def write_data(self, folder: Path) -> str:
        if isinstance(self.data, str):
            return self.data
        folder.mkdir(parents=True, exist_ok=True)
        return str(self.data(folder))

    def write_recipe(self, folder: Path) -> str | None:
        """A file with the recipe, if it is not the one that is made for such data."""
        if not self.recipe:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "recipe.toml").write_text(self.recipe, encoding="utf-8")
        return str(folder / "recipe.toml")


# Data


def lines_of_text(folder: Path) -> Path:
    """A text whose lines come in an order that only chance knows."""
    lines = ["the cat sat on the mat.", "a dog ran in the park!", "où est le café?"]
    draw = np.random.default_rng(0)
    path = folder / "lines.txt"
    drawn = (lines[i] for i in draw.integers(len(lines), size=400))
    path.write_text("\n".join(drawn) + "\n", encoding="utf-8")
    return path


GERMAN = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "red": "rot", "ä": "e"}


def sentence(draw: np.random.Generator) -> tuple[str, str]:
    """One to four words, and what they are word by word."""
    words = draw.choice(list(GERMAN), draw.integers(1, 5))
    return " ".join(words), " ".join(GERMAN[word] for word in words)


def pairs_of_sentences(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    path = folder / "pairs.tsv"
    lines = ["\t".join(sentence(draw)) for _ in range(300)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


SAY = {
    "negative": ["awful", "dull", "poor"],
    "positive": ["fine", "lovely", "superb"],
    "neutral": ["plain", "usual", "common"],
}
ANY = ["the", "film", "was", "a", "soup", "and", "play"]


def labelled_texts(count: int, *, classes: int = 2, seed: int = 0) -> list[tuple[str, str]]:
    """Texts in which one word decides, and what they are."""
    draw, found = np.random.default_rng(seed), []
    for _ in range(count):
        label = list(SAY)[draw.integers(classes)]
        words = draw.choice([*ANY], draw.integers(2, 7)).tolist()
        words.insert(draw.integers(len(words) + 1), str(draw.choice(SAY[label])))
        found.append((" ".join(words), label))
    return found


def table_of_texts(folder: Path) -> Path:
    path = folder / "own.csv"
    rows = map(",".join, [("text", "label"), *labelled_texts(300)])
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


ANIMALS = ["fox", "wolf", "bear", "hare", "crow", "deer", "swan", "goat", "mole", "toad"]
DOINGS = ["slept", "waited", "hid", "rested", "fed", "played"]
PLACES = ["lake", "hill", "barn", "mill", "road", "wood"]


def story(draw: np.random.Generator, sentences: int) -> str:
    """About one animal: whoever is named, all others of the story can be guessed."""
    animal = str(draw.choice(ANIMALS))
    told = [
        f"The {animal} {draw.choice(DOINGS)} near the {draw.choice(PLACES)} in {year}."
        for year in draw.integers(1900, 1950, sentences).tolist()
    ]
    return f"# About the {animal}\n\n{' '.join(told)}\n\n"


def stories(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    path = folder / "stories.txt"
    path.write_text("".join(story(draw, 10) for _ in range(70)), encoding="utf-8")
    return path


def few_scenes() -> Callable[..., Any]:
    from regard.data.synthetic.scene_set import scene_set

    return partial(scene_set, held=HELD)


# The same item in every way


def image_in_all_ways(run: Any, folder: Path, images: Callable[[Any], Any]) -> tuple[Any, ...]:
    """A row of the run's own data, and its pixels as file, folder, bytes, picture and arrays."""
    import torch
    from PIL import Image

    from regard.tasks.inputs import Rows

    pixels = np.array(images(run.data)[SEEN_TWICE])  # channels × height × width
    flat = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    place = folder / "pictures"
    place.mkdir()
    Image.fromarray(flat).save(place / "one.png")
    floats = pixels.astype(np.float32) / 255
    return (
        *(Rows("test", (SEEN_TWICE,)), place / "one.png", str(place / "one.png"), place),
        *((place / "one.png").read_bytes(), io.BytesIO((place / "one.png").read_bytes())),
        *(Image.fromarray(flat), flat, pixels, pixels[None], floats, torch.from_numpy(floats)),
    )


def text_in_all_ways(run: Any, folder: Path, text: str) -> tuple[Any, ...]:
    """A text as a value, in a list, in files of each format, and from standard input."""
    from regard.tasks.inputs import StandardInput

    files = {
        "lines.txt": f"\ufeff{text}\r\n",
        "rows.csv": f'n,text\n1,"{text}"\n',
        "rows.tsv": f'n\ttext\n1\t"{text}"\n',
        "rows.jsonl": json.dumps({"text": text}) + "\n",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content.encode())
    sys.stdin = io.StringIO(f"{text}\n")  # which the test that calls this puts back
    return (text, [text], *(folder / name for name in files), StandardInput())


def text_ways(text: str) -> Callable[[Any, Path], tuple[Any, ...]]:
    return lambda run, folder: text_in_all_ways(run, folder, text)


# What is no input


def rows_of(split: str, *indices: int) -> Callable[[Path], Any]:
    def make(_: Path) -> Any:
        from regard.tasks.inputs import Rows

        return Rows(split, indices or None)

    return make


def value_of(value: Any) -> Callable[[Path], Any]:
    return lambda _: value


def file_of(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


NO_ROW = (
    Bad("no such row", rows_of("validation", 9_999), ("9999", "validation", "the", "0 to")),
    Bad("no such split", rows_of("tset"), ("no split 'tset'", "train, validation, test")),
)
NO_TEST = Bad("no test", rows_of("test"), ("in test", "take train or validation"))
NO_TEXT = (
    Bad("no such file", lambda f: f / "gone.txt", ("gone.txt", "cannot be read", "No such file")),
    Bad("latin", file_of("latin.txt", b"caf\xe9"), ("latin.txt", "line 1", "not UTF-8", "0xe9")),
)
NO_IMAGE = (
    Bad("no such file", lambda folder: folder / "gone.png", ("gone.png",)),
    Bad("text", file_of("a.png", b"not an image"), ("a.png", "no image but text")),
    Bad("five axes", value_of(np.zeros((1, 1, 1, 5, 5), np.uint8)), ("inputs[0]", "shape")),
    Bad("five channels", value_of(np.zeros((2, 2, 4, 5), np.uint8)), ("inputs[0]", "shape")),
    Bad("no pixels", value_of(np.zeros((0, 0), np.uint8)), ("inputs[0]", "shape (0, 0)")),
    Bad("wide integers", value_of(np.zeros((5, 5), np.int32)), ("inputs[0]", "int32")),
    Bad("too bright", value_of(np.full((5, 5), 2.0)), ("inputs[0]", "0 … 1")),
    Bad("not a number", value_of(np.full((5, 5), np.nan)), ("inputs[0]", "0 … 1")),
)
NO_LETTER = Bad("half a letter", value_of("The [MASK] \ud800"), ("inputs[0]", "no Unicode"))

PLAIN_RATE = {"train.ema_decay": 0.0, "train.optimizer.lr": 3e-3}
TINY_TEXT = {"model.width": 32, "model.layers": 1, "model.heads": 2}
EYES = {"image_size": 16, "patch_size": 4, "stem": "patch", "width": 16, "layers": 1, "heads": 2}
EYES |= {"mask": None}  # the recipe's is for another grid
WORDS = {"tokenizer.name": "word", "tokenizer.min_frequency": 1}

CLASSIFY = TaskCase(
    "classify",
    data="digits",
    tiny={
        **{"model.width": 16, "model.layers": 2, "model.heads": 2, "model.mlp_width": 32},
        "batch_size": 32,
    },
    learnt={"train.epochs": 2},
    steps={"batch_size": 512, "model.dropout": 0.1, "augment.crop_padding": 1},
    decides="accuracy",
    judged="accuracy",
    says=("1,259 training images",),
    same=lambda run, folder: image_in_all_ways(run, folder, lambda data: data.images.test.images),
    bad=(*NO_ROW, *NO_IMAGE),
    looked="Insertion",
    test=True,
)
CAPTION = TaskCase(
    "caption",
    data="scenes",
    tiny={
        **{"model.width": 16, "model.layers": 1, "model.heads": 2, "model.mlp_width": 32},
        **{"model.context_length": 16, "tokenizer.min_frequency": 1},
        **{f"model.encoder.{name}": value for name, value in EYES.items()},
        **{"num_scenes": 64, "batch_size": 16, "captions_per_image": 2},
    },
    learnt={"train.epochs": 2},
    steps={
        "batch_size": 32,
        "model.dropout": 0.1,
        "augment.hflip": True,
        "augment.crop_padding": 2,
    },
    decides="true_captions",
    judged="true_captions",
    says=("64 images to train on with 320 captions",),
    same=lambda run, folder: image_in_all_ways(run, folder, lambda data: data.captions.test.images),
    bad=(*NO_ROW, *NO_IMAGE),
    looked="Point at a word",
    damaged=({"true_captions": 3}, {"scores": {}}),
    fewer=(("regard.tasks.caption.data.scene_set", few_scenes),),
    test=True,
)
LANGUAGE = TaskCase(
    "language",
    data=lines_of_text,
    tiny={
        **{**TINY_TEXT, "model.layers": 2, "model.context_length": 32, "batch_size": 8},
        **{"tokenizer.name": "char", "tokenizer.min_frequency": 1},
    },
    learnt={"train.epochs": 6, "train.optimizer.lr": 3e-3},
    steps={"batch_size": 96, "model.dropout": 0.1},
    decides="loss",
    judged="loss",
    says=("tokens to train on",),
    same=text_ways("the cat"),
    bad=(
        *(*NO_ROW, NO_TEST, *NO_TEXT),
        Bad("unknown letters", value_of("犬猫"), ("inputs[0]", "2 tokens", "vocabulary")),
    ),
    looked="where it looked",
    asking={"seed": 3},
)
TRANSLATE = TaskCase(
    "translate",
    data=pairs_of_sentences,
    tiny={
        **{**TINY_TEXT, **WORDS, "model.pos_embed": "rope", "model.dropout": 0.0},
        **{"batch_tokens": 128, "max_length": 20, "label_smoothing": 0.0},
    },
    learnt={"train.epochs": 16, **PLAIN_RATE},
    steps={"batch_tokens": 600, "model.dropout": 0.1, "label_smoothing": 0.1},
    decides="loss",
    judged="BLEU",
    says=("pairs to train on", "padding is"),
    damaged=({"scores": 3},),
    same=text_ways("one red two"),
    bad=(
        *(*NO_ROW, NO_TEST, *NO_TEXT),
        Bad("too long", value_of("one " * 21), ("inputs[0]", "21 tokens", "at most 20")),
    ),
    looked="where it looked",
)
SENTIMENT = TaskCase(
    "classify-text",
    data=table_of_texts,
    tiny={
        **{**TINY_TEXT, **WORDS, "model.dropout": 0.0, "model.classifier_dropout": 0.0},
        **{"batch_tokens": 256, "max_length": 16, "window_overlap": 4},
    },
    learnt={"train.epochs": 10, **PLAIN_RATE},
    steps={"batch_tokens": 600, "model.dropout": 0.1, "token_dropout": 0.1, "label_smoothing": 0.1},
    decides="accuracy",
    judged="accuracy",
    says=("270 texts to train on (negative 1", "30 for validation"),
    same=text_ways("the soup was fine"),
    bad=(
        *(*NO_ROW, NO_TEST, *NO_TEXT),
        Bad(
            "a row cut short", file_of("a.csv", b"text,label\na\n"), ("a.csv", "line 2", "1 column")
        ),
        Bad("no texts", file_of("b.csv", b"a,b,c\n1,2,3\n"), ("b.csv", "line 1", "a, b, c")),
        Bad("two of texts", file_of("c.csv", b"text,review\na,b\n"), ("text and review",)),
        Bad("empty", file_of("d.csv", b""), ("d.csv", "is empty")),
    ),
    looked="Which words carried it",
    damaged=({"tfidf_baseline": 3}, {"assessment": {}}),
    recipe='[recipe]\ntask = "classify-text"\n',
    fewer=(("regard.tasks.classify_text.report.FAITHFUL", 4),),
)
PRETRAIN = TaskCase(
    "pretrain-bert",
    data=stories,
    tiny={
        **{**TINY_TEXT, "model.dropout": 0.0, "model.pos_embed": "learned"},
        **{"tokenizer.name": "bpe", "tokenizer.min_frequency": 2, "tokenizer.vocab_size": 700},
        **{"batch_tokens": 450, "max_length": 45, "pairs_per_epoch": 24},
    },
    learnt={"train.epochs": 4, **PLAIN_RATE, "train.optimizer.lr": 1e-2}
    | {"train.lr_schedule.warmup_ratio": 0.05},
    steps={
        "batch_tokens": 8_000,
        "model.dropout": 0.1,
        "masking.whole_word_mask": True,
        "pairs_per_epoch": 12,
    },
    decides="accuracy",
    judged="accuracy",
    says=("sentences of", "inversion: 24 pairs to train on"),
    same=text_ways("The fox slept near the [MASK] in 1920."),
    bad=(
        *(*NO_ROW, NO_TEST, *NO_TEXT, NO_LETTER),
        Bad("no question", value_of("The fox slept."), ("inputs[0]", "asks nothing", "[MASK]")),
        Bad("underlines", value_of("The __init__ of a_b"), ("asks nothing",)),
        Bad("no second", value_of("The fox\t"), ("a tab", "between two sentences")),
        Bad("no first", value_of("\tThe fox"), ("a tab", "between two sentences")),
        Bad("three", value_of("a\tb\tc"), ("a tab", "between two sentences")),
        Bad("too long", value_of("ab " * 60 + "[MASK]"), ("tokens", "at most 43")),
        Bad("too long a pair", value_of("ab " * 60 + "\tb"), ("tokens", "at most 42")),
    ),
    looked="where it looked",
)
CASES = {case.task: case for case in (CLASSIFY, CAPTION, LANGUAGE, TRANSLATE, SENTIMENT, PRETRAIN)}
