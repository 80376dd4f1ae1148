"""The field's words can be found: each is a heading, an entry of the glossary, or a flag's help."""

import re
from pathlib import Path

import pytest

from regard.config import to_values
from regard.tasks import TASKS, find

DOCS = Path(__file__).parents[1] / "docs"
GLOSSARY = (DOCS / "glossary.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^\| ([^|`]+?) \| (.+?) \|", re.MULTILINE)

WORDS = (
    *("weight decay", "gradient clipping", "gradient accumulation", "length penalty"),
    *("vocab size", "vocabulary size", "context length", "checkpoint", "optimizer", "BPE"),
    *("warmup", "throughput", "hyperparameter", "batch size", "early stopping"),
    *("mixed precision", "top-k", "top-p", "temperature", "scheduler", "learning rate", "EMA"),
    *("fine-tuning", "tokenizer", "beam search", "attention maps", "attention mask", "KV cache"),
    *("occlusion", "perplexity", "label smoothing", "layer decay", "augmentation", "resume"),
    *("efficient attention", "text classification", "image captioning", "ablation", "dropout"),
)


def headings() -> list[str]:
    pages = [*DOCS.glob("*.md"), DOCS.parent / "README.md"]
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    return [line.lstrip("# ") for line in lines if re.match(r"#+ ", line)]


def entries() -> dict[str, str]:
    """What stands in the first column of the glossary, and what it is called here."""
    return {word: here for word, here in ENTRY.findall(GLOSSARY) if word not in ("word", "---")}


def flag_help() -> list[str]:
    """The lines of the page of commands that tell of a flag."""
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    return [line for line in page.splitlines() if line.startswith("| `-")]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_the_field_is_found(word: str) -> None:
    whole = re.compile(rf"\b{re.escape(word)}s?\b", re.IGNORECASE)
    dashed = re.compile(rf"--\S*{re.escape(word.replace(' ', '-'))}\b", re.IGNORECASE)
    places = [*headings(), *entries(), *flag_help()]
    assert any(whole.search(place) or dashed.search(place) for place in places)


def fields_known() -> set[str]:
    """Every field of every task, by its full name and by its parts from the end."""
    known: set[str] = set()

    def walk(values: dict, path: tuple[str, ...]) -> None:
        for name, value in values.items():
            whole = (*path, name)
            known.update(".".join(whole[at:]) for at in range(len(whole)))
            if isinstance(value, dict):
                walk(value, whole)

    for task in TASKS:
        walk(to_values(find(task).load_config()()), ())
    return known


def test_what_the_glossary_calls_a_field_is_one() -> None:
    known = fields_known()
    named = re.compile(r"`((?!rg\.)(?:[a-z_]+\.)*[a-z]+_?[a-z_]*)(?: = [^`]+)?`")
    files = re.compile(r"\.(safetensors|png|html|md)$|^(gelu_tanh|inverse_sqrt)$")
    found = [
        name
        for here in entries().values()
        for name in named.findall(here)
        if ("." in name or "_" in name) and not files.search(name)
    ]
    assert len(found) > 40
    assert [name for name in found if name not in known] == []


def test_the_glossary_is_in_alphabetical_order_and_has_no_word_twice() -> None:
    for table in GLOSSARY.split("\n## ")[1:]:
        words = [word.lower() for word, _ in ENTRY.findall(table) if word not in ("word", "---")]
        assert len(words) == len(set(words)) and len(words) >= 5
