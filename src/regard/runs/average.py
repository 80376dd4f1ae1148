"""One run from several: the mean of their weights.

Runs that began from the same trained weights end in one valley, and their mean lies deeper in it
than they do (Wortsman et al. 2022): nearly as good as asking all of them, at the price of asking
one. Runs from scratch end in valleys of their own, and between them is a hill. So all of them are
measured on validation beside their mean, and what came of it is said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.config import to_values
from regard.errors import UserError
from regard.hardware.machine import machine
from regard.run_folder import RunFolder
from regard.run_folder.metric_lines import lower_is_better
from regard.runs.record import headline
from regard.runs.run import Run, load
from regard.runs.session import differences

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Averaged:
    """The run that was made, and what it and each of its members are worth on validation."""

    run: Run
    worth: float
    members: dict[str, float]
    lower: bool = False  # is better: they are losses

    def __str__(self) -> str:
        style, sign = (".4f", -1) if self.lower else (".2%", 1)
        lines = [f"{name:<40} {value:{style}}" for name, value in self.members.items()]
        lines += [f"{'the mean of their weights':<40} {self.worth:{style}}"]
        worth, values = sign * self.worth, [sign * value for value in self.members.values()]
        if worth >= max(values):
            verdict = "at least as good as the best of them"
        elif worth >= sum(values) / len(values):
            verdict = "better than they are on average, but not than the best of them"
        else:
            verdict = "worse than they are on average: they did not begin from the same weights?"
        return "\n".join([*lines, f"on validation it is {verdict}"])


def average(runs: Sequence[Run], out: Path | None = None) -> Averaged:
    """Write the mean of some runs' weights as a run of its own, and measure all on validation.

    It is beside the first of them unless `out` says where.
    """
    expect_alike(runs)
    first = runs[0]
    # What can fail comes before there is a folder: data that are gone, weights that are damaged.
    measure = first.task.evaluate_quick(first.config, first.data, first.device)
    mean = mean_of([run.folder.read_tensors(WEIGHTS) for run in runs])
    folder = beside(first) if out is None else RunFolder.at(out)
    about = first.folder.about() | {"averaged": str(len(runs))}
    about.pop("format")
    with folder.locked():
        folder.write_config(first.config, **about)
        folder.write_facts("data", to_values(first.metadata))
        folder.write_facts("machine", machine(first.device))
        folder.write_tensors(WEIGHTS, mean)
        made = load(folder.path, device=str(first.device))
        with torch.no_grad():
            figures = measure(made.model)
        last = [run.metrics[-1] for run in runs]
        sums = {
            key: sum(line[key] for line in last)
            for key in ("step", "train_seconds", "data_wait_seconds")
        }
        loss = sum(line["train/loss"] for line in last) / len(last)
        line = {"epoch": last[0]["epoch"], "train/loss": loss, "lr": 0.0, **sums}
        folder.add_metrics({**line, "is_best": True, **figures})
    members = {str(run.folder.path): headline(run.evaluate("validation")) for run in runs}
    judged = made.evaluate("validation")
    return Averaged(
        made, headline(judged), members, lower_is_better(next(iter(judged.to_values())))
    )


def beside(run: Run) -> RunFolder:
    """A new folder next to a run's."""
    data = Path(run.metadata.data).stem
    return RunFolder.create(f"{run.task.name}-{data}-mean", run.folder.path.parent)


def mean_of(weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor, in the numbers it has; what is not a fraction is the first's."""
    first = weights[0]
    return {
        name: torch.stack([each[name].double() for each in weights]).mean(0).to(tensor.dtype)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in first.items()
    }


def expect_alike(runs: Sequence[Run]) -> None:
    """Refuse runs whose weights do not mean the same, and what has not been trained."""
    if len(runs) < 2:
        raise UserError("a mean is of two runs at least: regard average RUN RUN…")
    if len({run.folder.path.resolve() for run in runs}) < len(runs):
        raise UserError("a run is named twice, and would count twice")
    first = runs[0]
    for run in runs:
        if not run.metrics:
            raise UserError(f"{run.folder.path} has no metrics yet: no epoch of it is over")
        for what, ours, theirs in compared(run, first):
            if ours != theirs:
                raise UserError(
                    f"{run.folder.path} has {what} {ours}, and {first.folder.path} {theirs}: the "
                    "mean of their weights would mean nothing"
                )


def compared(run: Run, first: Run) -> Iterator[tuple[str, object, object]]:
    """What must be the same of two runs, with both of their words for it; training is free."""
    yield "the task", run.task.name, first.task.name
    ours, theirs = (to_values(each.model.config) for each in (run, first))
    for name, values in differences(ours, theirs).items():
        yield f"model.{name}", *values
    # By digests: classes and words can be thousands.
    yield "data with digest", run.metadata.digest[:12], first.metadata.digest[:12]
    ours, theirs = (
        {key: value for key, value in to_values(each.metadata).items() if key in MEANING}
        for each in (run, first)
    )
    for name in ours:
        yield f"{name} with digest", short_digest(ours[name]), short_digest(theirs.get(name))


MEANING = ("classes", "vocabulary")  # facts of the data that say what numbers stand for


def short_digest(value: object) -> str:
    """A word for something long."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]
