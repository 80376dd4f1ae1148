"""Image classification: every recorded run, and budgets compared."""

from statistics import fmean

from results_page.cells import folded, percent, table, took
from results_page.commands import changed, label
from results_page.courses import with_courses
from results_page.origins import origins
from results_page.records import notes, read, recorded, runs_of, seen


def trained() -> list[str]:
    """Every recorded run of a recipe: `regard evaluate RUN… --save-results
    results/run-NAME.json`."""
    found = runs_of("classify")
    if not found:
        return []
    marks, line = origins(found)
    rows = []
    for facts, mark in zip(found, marks, strict=True):
        runs = facts["runs"]
        last = [run["last"] for run in runs]
        gap = fmean(each["train_eval/accuracy"] - each["val/accuracy"] for each in last)
        waited = sum(run["waited"] for run in runs) / sum(run["seconds"] for run in runs)
        cells = [label(facts) + mark, f"{facts['parameters']:,}"]
        cells += [percent(seen(facts, "accuracy"), 2), f"{len(runs)}", f"{gap:+.1%}"]
        rows.append([*cells, took(facts), f"{waited:.1%}"])
    head = ["recipe", "parameters", "test accuracy", "seeds", "gap", "time", "waiting"]
    boards = [facts["recipe"] for _, facts in with_courses()]
    elsewhere = [facts for facts in found if facts["recipe"] not in boards]
    return [
        "## Image classification (`classify`)",
        TRAINED,
        table(head, rows),
        line,
        *changed(found),
        *notes(elsewhere),
        *compared(),
    ]


TRAINED = (
    "By `regard train classify --recipe RECIPE --test`. The *gap* is accuracy on training images "
    "without augmentation minus accuracy on validation, after the last epoch. *Waiting* is the "
    "share of the time that was spent waiting for data. CIFAR-10 has more below: "
    "[accuracy against time](#cifar-10-accuracy-against-time)."
)


def compared() -> list[str]:
    """The same recipe for 10, 30 and 50 epochs, as `regard compare` draws it."""
    lines = []
    for name, words in COMPARED.items():
        if recorded(name, "png"):
            lines += [
                words.format(images=validation_images()),
                f"![Accuracy and loss after 10, 30 and 50 epochs](../results/{name}.png)",
            ]
    return folded("Trained for 10, 30 and 50 epochs: curves", *lines) if lines else []


def validation_images() -> int:
    """Of digits, which are few."""
    return int(read("run-digits-cpu")["parts"][1])


COMPARED = {
    "compare-digits-cpu": "`regard compare --task classify --data digits --epochs 10 30 50 --test` "
    "on two CPU cores, one seed. Validation has only {images} images.",
    "compare-cifar10-small-cuda": "`regard compare --task classify --recipe cifar10-small --epochs "
    "10 30 50 --test` on one H200, one seed.",
    "compare-cifar10-coursework-cuda": "`regard compare --task classify --recipe "
    "cifar10-coursework --epochs 10 30 50 --test` on one H200, one seed. Without augmentation and "
    "at a constant learning rate the model memorises its training images.",
}
