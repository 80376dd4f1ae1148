"""The best runs of each task, in a few words: for the README, and to open the page."""

from collections.abc import Callable

from regard.tasks.pretrain_bert.report import QUESTIONS
from results_page.cells import percent, spread, table, took
from results_page.commands import data_name, gives, split_name, training
from results_page.courses import with_courses
from results_page.records import Facts, mean_of, runs_of, seen

# What a task is called, and the data sets it is shown on: the first opens the page.
SHOWN = {
    "classify": ("image classification", ("cifar10", "fashion-mnist")),
    "caption": ("captioning", ("flickr8k", "scenes")),
    "translate": ("translation", ("multi30k",)),
    "language": ("language model", ("wikitext-2", "tiny_shakespeare")),
    "classify-text": ("text classification", ("sst2", "reviews")),
    "pretrain-bert": ("pretraining", ("wikitext-2",)),
}

HEAD = ["task", "command", "parameters", "measured", "time"]


def in_short() -> str:
    """The best run of each task on its first data set, for the README."""
    rows = []
    for task, (name, (data, *_)) in SHOWN.items():
        rows += [row(f"{name} (`{task}`)", facts) for facts in best(task, data)[:1]]
    return table(HEAD, rows)


def in_full() -> str:
    """The best runs of each task on all its data sets, and of CIFAR-10 all that are on a board."""
    rows = []
    for task, (name, data) in SHOWN.items():
        found = [facts for each in data for facts in shown(task, each)]
        for number, facts in enumerate(found):
            rows.append(row(f"{name} (`{task}`)" if number == 0 else "", facts))
    return table(HEAD, rows)


def row(group: str, facts: Facts) -> list[str]:
    """A run, with the command that gives its figure."""
    place = facts["device"].removeprefix("NVIDIA ")
    cells = [group, gives(facts), f"{facts['parameters']:,}"]
    return [*cells, result(facts), f"{took(facts)}, {place}"]


def shown(task: str, data: str) -> list[Facts]:
    """The best of each split; and of CIFAR-10 all that are on a board."""
    boarded = [facts for _, facts in with_courses() if facts["data"] == data]
    return boarded or best(task, data)


def best(task: str, data: str) -> list[Facts]:
    """The run with the highest mean of each split."""
    splits: dict[str, Facts] = {}
    for facts in runs_of(task):  # the best first
        if facts["data"] == data:
            splits.setdefault(facts["split"], facts)
    return list(splits.values())


def result(facts: Facts) -> str:
    """On what it was measured, and what it came to."""
    runs, (members, _) = len(facts["runs"]), training(facts)
    seeds = ("1 {}" if runs == 1 else f"{runs} {{}}s").format("seed" if members == 1 else "mean")
    return f"{data_name(facts)} {split_name(facts)}: {TOLD[facts['task']](facts)}, {seeds}"


def accuracy(facts: Facts) -> str:
    return f"accuracy {percent(seen(facts, 'accuracy'), 2 if facts['task'] == 'classify' else 1)}"


def caption(facts: Facts) -> str:
    if "true_captions" in facts["runs"][0]["figures"]:
        pointing = percent(seen(facts, "pointing_game, attention"))
        return f"true captions {percent(seen(facts, 'true_captions'))}, pointing {pointing}"
    return ", ".join(f"{name} {spread(seen(facts, name))}" for name in ("BLEU-4", "CIDEr-D"))


def translation(facts: Facts) -> str:
    return f"BLEU {spread(seen(facts, 'BLEU'))}"


def language(facts: Facts) -> str:
    bits = f"bits per byte {mean_of(facts, 'bits_per_byte'):.2f}"
    if facts["data"] != "wikitext-2":
        return f"loss {spread(seen(facts, 'loss'), 3, 1)}, {bits}"
    published = mean_of(facts, "word_perplexity_with_eos")
    own = spread(seen(facts, "word_perplexity"), 1, 1)
    return f"perplexity per word {own}, with line ends as words {published:.1f}, {bits}"


def answers(facts: Facts) -> str:
    return "accuracy " + ", ".join(f"{name} {mean_of(facts, name):.1%}" for name in QUESTIONS)


TOLD: dict[str, Callable[[Facts], str]] = {
    "classify": accuracy,
    "caption": caption,
    "translate": translation,
    "language": language,
    "classify-text": accuracy,
    "pretrain-bert": answers,
}
