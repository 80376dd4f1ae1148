"""Tasks, each one folder and one line of TASKS. Importing this imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.errors import UserError, nearest

if TYPE_CHECKING:
    from regard.tasks.task import Task


class Entry(NamedTuple):
    """What a task is, how it is typed, and where its configuration and its parts are."""

    summary: str
    examples: Mapping[str, tuple[str, ...]]  # by command
    config: str  # "module:class", without torch
    target: str  # "module:Task"
    demo: str = ""  # "module:function", its part of the tour

    def load_config(self) -> type[Any]:
        """The class of the task's configuration."""
        found: type[Any] = _named(self.config)
        return found

    def load_demo(self) -> Callable[..., Mapping[str, Path]] | None:
        """Its part of the tour, if it has one."""
        return _named(self.demo) if self.demo else None

    def load(self) -> Task[Any, Any, Any]:
        """The task itself."""
        found: Task[Any, Any, Any] = _named(self.target)
        return found


TASKS: Mapping[str, Entry] = MappingProxyType(
    {
        "classify": Entry(
            "classify images: a vision transformer on digits, CIFAR-10 or a folder of your own",
            {
                "train": (
                    "regard train classify",
                    "regard train classify --data photos/ --epochs 20",
                    "regard train classify --recipe cifar10-small --model.width 96",
                ),
                "evaluate": ("regard evaluate runs/classify-digits-001",),
                "predict": (
                    "regard predict runs/classify-digits-001 photo.png",
                    "regard predict runs/classify-digits-001 --split test --index 0 3",
                ),
                "look": ("regard look runs/classify-digits-001 photo.png --out look.png",),
                "compare": (
                    "regard compare runs/classify-digits-001 runs/classify-digits-002",
                    "regard compare --task classify --data digits --epochs 10 30 50",
                ),
            },
            "regard.tasks.classify.config:ClassifyConfig",
            "regard.tasks.classify.task:CLASSIFY",
            "regard.tasks.classify.demo:demo",
        ),
        "caption": Entry(
            "caption images, and see which words looked where: drawn scenes, Flickr8k, your own",
            {
                "train": (
                    "regard train caption",
                    "regard train caption --data photos/ --encoder imagenet",
                    "regard train caption --recipe flickr8k",
                ),
                "evaluate": ("regard evaluate runs/caption-scenes-001",),
                "predict": ("regard predict runs/caption-scenes-001 photo.png",),
                "look": ("regard look runs/caption-scenes-001 photo.png --out look.html",),
                "compare": ("regard compare --task caption --data scenes --epochs 5 10 20",),
            },
            "regard.tasks.caption.config:CaptionConfig",
            "regard.tasks.caption.task:CAPTION",
            "regard.tasks.caption.demo:demo",
        ),
        "language": Entry(
            "train a GPT and generate text: Python's docstrings, Shakespeare, a file of yours",
            {
                "train": (
                    "regard train language",
                    "regard train language --data book.txt --epochs 5",
                    "regard train language --recipe shakespeare",
                ),
                "evaluate": ("regard evaluate runs/language-docstrings-001",),
                "predict": (
                    'regard predict runs/language-docstrings-001 "Return the"',
                    'regard predict runs/language-docstrings-001 "Return the" --num-samples 3',
                ),
                "look": ('regard look runs/language-docstrings-001 "Return the" --out look.html',),
                "compare": ("regard compare --task language --data book.txt --epochs 2 4 8",),
            },
            "regard.tasks.language.config:LanguageConfig",
            "regard.tasks.language.task:LANGUAGE",
        ),
        "translate": Entry(
            "translate sentences: numbers into words, Multi30k, pairs of your own",
            {
                "train": (
                    "regard train translate",
                    "regard train translate --data own.en,own.de",
                    "regard train translate --recipe multi30k --direction de-en",
                ),
                "evaluate": ("regard evaluate runs/translate-numerals-001",),
                "predict": (
                    "regard predict runs/translate-numerals-001 347512",
                    "regard predict runs/translate-numerals-001 --file sentences.txt",
                ),
                "look": ("regard look runs/translate-numerals-001 347512 --out look.html",),
                "compare": ("regard compare --task translate --data numerals --epochs 2 4 8",),
            },
            "regard.tasks.translate.config:TranslateConfig",
            "regard.tasks.translate.task:TRANSLATE",
        ),
        "classify-text": Entry(
            "classify texts, and see which words mattered: reviews, SST-2, your own",
            {
                "train": (
                    "regard train classify-text",
                    "regard train classify-text --data own.csv --text-column review "
                    "--label-column stars",
                    "regard train classify-text --data sst2 --init-from minilm",
                ),
                "evaluate": ("regard evaluate runs/classify-text-reviews-001",),
                "predict": (
                    'regard predict runs/classify-text-reviews-001 "The soup was far from bland."',
                    "regard predict runs/classify-text-reviews-001 --file texts.csv --csv "
                    "answers.csv",
                ),
                "look": (
                    'regard look runs/classify-text-reviews-001 "The soup was far from bland."'
                    " --out look.html",
                ),
                "compare": ("regard compare --task classify-text --data reviews --epochs 2 4 8",),
                "average": ("regard average runs/classify-text-sst2-00? --test",),
            },
            "regard.tasks.classify_text.config:ClassifyTextConfig",
            "regard.tasks.classify_text.task:CLASSIFY_TEXT",
        ),
        "pretrain-bert": Entry(
            "teach a BERT to read plain text: hidden words, what follows, inversions, inferences",
            {
                "train": (
                    "regard train pretrain-bert",
                    "regard train pretrain-bert --data book.txt --loss-weights.inversion 0",
                    "regard train pretrain-bert --recipe wikitext-2",
                ),
                "evaluate": ("regard evaluate runs/pretrain-bert-docstrings-001",),
                "predict": (
                    'regard predict runs/pretrain-bert-docstrings-001 "Return the [MASK] of the '
                    'list."',
                    "regard predict runs/pretrain-bert-docstrings-001 - < pairs.tsv",
                ),
                "look": (
                    'regard look runs/pretrain-bert-docstrings-001 "Return the [MASK] of the list."'
                    " --out look.html",
                ),
                "compare": ("regard compare --task pretrain-bert --data book.txt --epochs 2 4 8",),
            },
            "regard.tasks.pretrain_bert.config:PretrainBertConfig",
            "regard.tasks.pretrain_bert.task:PRETRAIN_BERT",
        ),
    }
)


# What tasks are called elsewhere, most of all by the pipelines of Hugging Face.
ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "image-classification": "classify",
        "image-to-text": "caption",
        "translation": "translate",
        "text-generation": "language",
        "causal-lm": "language",
        "text-classification": "classify-text",
        "sentiment": "classify-text",
        "fill-mask": "pretrain-bert",
        "masked-lm": "pretrain-bert",
    }
)


def called(name: str) -> str:
    """A task's name as it is written here, whether it is typed so or as elsewhere."""
    dashed = name.replace("_", "-")
    if dashed == "pretrain":
        raise UserError(
            f"task {name!r}: to pretrain a BERT is pretrain-bert, and to train a GPT is language"
        )
    name = ELSEWHERE.get(dashed, dashed if dashed in TASKS else name)
    if name not in TASKS:
        raise UserError(f"no task {name!r}; {nearest(name, TASKS)}")
    return name


def find(name: str) -> Entry:
    """The task of this name, or a sentence that names the nearest."""
    return TASKS[called(name)]


def examples(command: str) -> tuple[str, ...]:
    """How a command is typed, for every task."""
    return tuple(line for task in TASKS.values() for line in task.examples.get(command, ()))


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


__all__ = ["ELSEWHERE", "TASKS", "Entry", "called", "examples", "find"]
