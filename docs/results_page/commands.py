"""How a recorded run is named on the page, and what to type to see its figure."""

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
    """The recipe, and how many flags changed it."""
    flags = changes(facts).count("--")
    return f"`{facts['recipe']}`" + (f" + {flags} flags" if flags else "")


def changes(facts: Facts) -> str:
    """What was typed after the recipe."""
    return str(facts["command"].partition(f"--recipe {facts['recipe']}")[2].strip())


def changed(found: Sequence[Facts]) -> list[str]:
    """The flags of those that changed a recipe."""
    return [f"{label(facts)}: `{changes(facts)}`." for facts in found if changes(facts)]


def gives(facts: Facts) -> str:
    """The command that prints the figure of a row.

    Training ends with validation, and with test where --test is said; other splits are asked for.
    """
    command, split = facts["command"], facts["split"]
    trains = command.startswith("regard train")
    if trains and split == "validation":
        lines = [command]
    elif trains and split == "test":
        lines = [f"{command} --test"]
    else:
        lines = [command, f"regard evaluate RUN --split {split}"]
    return "<br>".join(f"`{line}`" for line in lines)
