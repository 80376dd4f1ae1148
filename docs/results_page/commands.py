"""How a recorded run is named on the page, and what to type to see its figure."""

import re
from collections.abc import Sequence

from results_page.records import Facts

DATA = {
    "cifar10": "CIFAR-10",
    "fashion-mnist": "Fashion-MNIST",
    "flickr8k": "Flickr8k",
    "multi30k": "Multi30k",
    "sst2": "SST-2",
    "tiny_shakespeare": "tiny Shakespeare",
    "wikitext-2": "WikiText-2",
}
KNOWN_AS = {("multi30k", "test"): "test (test2016)", ("sst2", "test"): "test (dev.tsv)"}


def data_name(facts: Facts) -> str:
    return DATA.get(facts["data"], str(facts["data"]))


def split_name(facts: Facts) -> str:
    """The split as commands call it, and as papers do where that differs."""
    return KNOWN_AS.get((facts["data"], facts["split"]), str(facts["split"]))


def label(facts: Facts) -> str:
    """The recipe, how many flags changed it, and of how many runs it is the mean."""
    flags, (members, _) = changes(facts).count("--"), training(facts)
    name = f"`{facts['recipe']}`" + (f" + {flags} flag{'s' * (flags > 1)}" if flags else "")
    return f"mean of {members} runs of {name}" if members > 1 else name


def changes(facts: Facts) -> str:
    """What was typed after the recipe."""
    return training(facts)[1].partition(f"--recipe {facts['recipe']}")[2].strip()


def training(facts: Facts) -> tuple[int, str]:
    """How many runs were averaged, 1 where none were, and the command that trains one."""
    averaged = re.fullmatch(r"regard average \((\d+) runs of (.+)\)", facts["command"])
    return (int(averaged[1]), averaged[2]) if averaged else (1, facts["command"])


def changed(found: Sequence[Facts]) -> list[str]:
    """The flags of those that changed a recipe."""
    return [f"{label(facts)}: `{changes(facts)}`." for facts in found if changes(facts)]


def gives(facts: Facts) -> str:
    """The command that prints the figure of a row.

    Training ends with validation, and with test where --test is said; other splits are asked for.
    """
    (members, command), split = training(facts), facts["split"]
    lines = [f"`{command}`"]
    if members > 1:
        lines = [f"`{command} --train.seed SEED` for {members} seeds", "`regard average RUNS`"]
    if split == "test":
        lines[-1] = lines[-1].removesuffix("`") + " --test`"
    elif split != "validation":
        lines.append(f"`regard evaluate RUN --split {split}`")
    return "<br>".join(lines)
