"""Models that tell images apart: every recorded run, and budgets compared."""

from results_page.cells import right_on_test, table
from results_page.records import made_on, recorded, runs_of


def trained() -> list[str]:
    """Every recorded run of a recipe: `regard evaluate RUN… --record results/run-NAME.json`."""
    rows = []
    for facts in runs_of("classify"):
        runs = facts["runs"]
        seconds = sum(run["seconds"] for run in runs) / len(runs)
        waited = sum(run["waited"] for run in runs) / sum(run["seconds"] for run in runs)
        gaps = [run["last"]["train.accuracy"] - run["last"]["validation.accuracy"] for run in runs]
        rows.append(
            [
                f"`{facts['command']}`",
                f"{facts['parameters']:,}",
                right_on_test(facts),
                f"{sum(gaps) / len(gaps):+.1%}",
                f"{seconds:.0f} s",
                f"{waited:.1%}",
                made_on(facts),
            ]
        )
    head = ["command", "parameters", "test accuracy", "gap", "time", "waited for data", "on"]
    return ["## Models trained", TRAINED, table(head, rows), *compared()]


TRAINED = (
    "Settings were chosen on training and validation images; the test set was read once a run, by "
    "`regard evaluate … --record`. Accuracy is the mean over seeds and their deviation; of a "
    "single run, the 95% interval over the choice of test images. The gap is accuracy on training "
    "images without augmentation minus that on validation, at the last epoch. Time is that of "
    "training with its measuring, without reading the data."
)


def compared() -> list[str]:
    """The same recipe for 10, 30 and 50 epochs, as `regard compare` draws it."""
    lines = []
    for name, words in COMPARED.items():
        if recorded(name, "png"):
            lines += [words, f"![Curves of 10, 30 and 50 epochs](../results/{name}.png)"]
    return lines


COMPARED = {
    "compare-digits-cpu": "`regard compare --task classify --data digits --epochs 10 30 50 --test` "
    "on two CPU cores, one seed; validation has 179 images, so half a percent is one of them:",
    "compare-cifar10-small-cuda": "`regard compare --task classify --recipe cifar10-small --epochs "
    "10 30 50 --test` on one H200, one seed:",
    "compare-cifar10-coursework-cuda": "`regard compare --task classify --recipe "
    "cifar10-coursework --epochs 10 30 50 --test` on one H200, one seed. Without augmentation and "
    "at a constant rate the model learns its images by heart and nothing more after 20 epochs:",
}
