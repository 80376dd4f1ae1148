"""What does each kind of question add? Pretrain with some of them, then learn from few labels.

    python -m benchmarks.experiments.pretrain_ablation --seeds 3 --workers 4 --record ablation.json

For every choice of questions and every seed: pretrain by a recipe, which measures
each question on validation; then fine-tune the reader on 1,000 labels of SST-2, several times with
labels drawn anew, and on SICK. Beside them stand the best small model from scratch, with the same
labels, and the same model untrained. Runs are worked on side by side, one process each; on one GPU
they share it.
"""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from scipy.special import stdtrit

from regard.cli.parse import from_terminal
from regard.errors import UserError
from regard.runs.processes import in_processes, tell, written
from regard.runs.run import Run
from regard.runs.sweep import trained
from regard.tasks.classify_text.loss import scorer
from regard.tasks.pretrain_bert.loss import MEASURED as MEASURED

MODULE = "benchmarks.experiments.pretrain_ablation"
TASK = "pretrain-bert"

QUESTIONS = ("mlm", "nsp", "inversion", "nli")
CHOICES: Mapping[str, tuple[str, ...] | None] = {
    "from scratch": None,
    "mlm": ("mlm",),
    "nsp": ("nsp",),
    "mlm, nsp": ("mlm", "nsp"),
    "mlm, inversion": ("mlm", "inversion"),
    "mlm, nli": ("mlm", "nli"),
    "all four": QUESTIONS,
    "all but mlm": QUESTIONS[1:],
}
UNTRAINED = "untrained"  # the same model with its first weights
TUNED = {"sst2": "sst2-few", "sick": "sick"}  # what is fine-tuned on, by which recipe


@dataclass(frozen=True)
class Ablation:
    """What each kind of question adds."""

    recipe: str = "wikitext-2"
    """By which recipe of pretraining."""
    only: tuple[str, ...] = tuple(CHOICES)
    """Which choices, by their names; all by default."""
    seeds: int = 3
    """Runs of each choice."""
    draws: int = 3
    """How often labels of SST-2 are drawn for each run; the mean of them counts."""
    workers: int = 1
    """Runs at a time."""
    device: str = "auto"
    """Where they are worked on."""
    epochs: int | None = None
    """Epochs of pretraining, if not those of its recipe."""
    record: Path | None = None
    """Where the figures are written, as JSON."""
    one: str = ""
    """A choice and a seed, as JSON: work on these alone, and print what came of it."""
    runs: Path | None = None
    """Where runs are kept; else they are thrown away."""


def main(how: Ablation) -> None:
    """Every choice with every seed, a table of what came of it, and perhaps a file."""
    if how.one:
        choice, seed = json.loads(how.one)
        tell(worked(how, choice, seed))
        return
    jobs = {
        named(choice, seed): flags(how, choice, seed)
        for seed in range(how.seeds)
        for choice in chosen(how)
    }
    found: list[dict[str, Any]] = []
    words = "pretraining and fine-tuning"
    for rows in in_processes(MODULE, jobs, how.workers, words=words, runs=how.runs):
        found += rows
        if how.record is not None:  # each time, so that what is done is kept
            keep(how, how.record, found)
    Console().print(drawn(summarised(found)))


def chosen(how: Ablation) -> tuple[str, ...]:
    """The choices that are asked for, or what is wrong with their names."""
    for name in how.only:
        if name not in CHOICES:
            raise UserError(f"--only {name!r}: there are {', '.join(map(repr, CHOICES))}")
    return how.only


def keep(how: Ablation, path: Path, found: Sequence[Mapping[str, Any]]) -> None:
    """Write down every run so far, and what they come to."""
    written(
        path,
        command=command(how),
        device=how.device,
        seeds=how.seeds,
        rows=list(found),
        summary=summarised(found),
    )


def flags(how: Ablation, choice: str, seed: int) -> list[str]:
    """What a process is told that works on one choice and seed."""
    words = ["--recipe", how.recipe, "--device", how.device, "--draws", str(how.draws)]
    words += ["--one", json.dumps([choice, seed])]
    return words + ([] if how.epochs is None else ["--epochs", str(how.epochs)])


def named(choice: str, seed: int) -> str:
    return f"{choice}, seed {seed}"


def worked(how: Ablation, choice: str, seed: int) -> list[dict[str, Any]]:
    """Pretrain with a choice of questions, and fine-tune; the figures of that on test."""
    assert how.runs is not None
    questions = CHOICES[choice]
    rows: dict[str, Any] = {}
    pretrained: dict[str, Any] = {}
    starts: dict[str, dict[str, Any]] = {choice: {}}
    if questions is not None:
        changes: dict[str, Any] = {
            f"loss_weights.{name}": float(name in questions) for name in QUESTIONS
        }
        changes |= {} if how.epochs is None else {"train.epochs": how.epochs}
        run = trained(
            "pretrain-bert", how.recipe, {**changes, "train.seed": seed}, how.device, how.runs
        )
        last = run.metrics[-1]
        pretrained = {
            "questions": {name: last[f"val/{name}_accuracy"] for name in questions},
            "seconds": last["train_seconds"],
        }
        starts = {choice: {"init_from": str(run.folder.path)}}
        if choice == "mlm":
            starts[UNTRAINED] = {"init_from": str(run.folder.path), "random_init": True}
    for name, start in starts.items():
        rows[name] = {"choice": name, "seed": seed, **(pretrained if name == choice else {})}
        for data, recipe in TUNED.items():
            chosen = f"{recipe}-scratch" if questions is None and data == "sst2" else recipe
            draws = how.draws if data == "sst2" else 1
            tuned = [
                trained(
                    "classify-text", chosen, {**start, "train.seed": number}, how.device, how.runs
                )
                for number in range(seed * draws, (seed + 1) * draws)
            ]
            each = [right(run) for run in tuned]
            best = [max(line["val/accuracy"] for line in run.metrics) for run in tuned]
            rows[name] |= {data: mean(each), f"{data} validation": mean(best)}
            rows[name] |= {f"{data} each": each} if draws > 1 else {}
    return list(rows.values())


def right(run: Run) -> float:
    """The share of test texts that a run is right about, and nothing that takes longer."""
    part = run.data.windowed(run.data.texts["test"], run.metadata)
    shares = scorer(part, run.metadata, run.device)(run.model)
    return float((shares.argmax(-1) == part.labels).mean())


def summarised(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A line a choice: means over the seeds, and by how much each is above scratch."""
    order = [*list(CHOICES)[:1], UNTRAINED, *list(CHOICES)[1:]]
    base = {row["seed"]: row for row in rows if row["choice"] == order[0]}
    lines = []
    for choice in order:
        mine = [row for row in rows if row["choice"] == choice]
        if not mine:
            continue
        line: dict[str, Any] = {"choice": choice, "seeds": len(mine)}
        questions = mine[0].get("questions", {})
        line["questions"] = {q: mean([row["questions"][q] for row in mine]) for q in questions}
        for data in TUNED:
            values = [row[data] for row in mine]
            line[data] = {"mean": mean(values), "low": min(values), "high": max(values)}
            gains = [row[data] - base[row["seed"]][data] for row in mine if row["seed"] in base]
            line[data]["gain"] = interval(gains) if choice != order[0] and gains else None
        lines.append(line)
    return lines


def interval(values: Sequence[float]) -> dict[str, float]:
    """The mean and its 95% interval by Student's t, over a few seeds."""
    middle, n = mean(values), len(values)
    if n < 2:
        return {"value": middle, "low": -math.inf, "high": math.inf}
    spread = math.sqrt(sum((value - middle) ** 2 for value in values) / (n - 1))
    half = float(stdtrit(n - 1, 0.975)) * spread / math.sqrt(n)
    return {"value": middle, "low": middle - half, "high": middle + half}


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def drawn(lines: Sequence[Mapping[str, Any]]) -> Table:
    """The summary as a table for a terminal."""
    table = Table(
        title="What each kind of question adds (%): questions on validation, the rest on test"
    )
    for name in ("pretrained on", *QUESTIONS, "SST-2, 1,000 labels", "over scratch", "SICK"):
        table.add_column(name, justify="left" if name == "pretrained on" else "right")
    for line in lines:
        gain = line["sst2"]["gain"]
        gain_text = "" if gain is None else f"{100 * gain['value']:+.1f}"
        if gain is not None and math.isfinite(gain["low"]):
            gain_text += f" ({100 * gain['low']:+.1f} to {100 * gain['high']:+.1f})"
        shares = [line["questions"].get(name) for name in QUESTIONS]
        table.add_row(
            line["choice"],
            *("" if value is None else f"{100 * value:.1f}" for value in shares),
            f"{100 * line['sst2']['mean']:.1f}",
            gain_text,
            f"{100 * line['sick']['mean']:.1f}",
        )
    return table


def command(how: Ablation) -> str:
    line = f"python -m {MODULE} --seeds {how.seeds} --draws {how.draws}"
    line += f" --recipe {how.recipe}" if how.recipe != Ablation.recipe else ""
    line += f" --only {shlex.join(how.only)}" if how.only != Ablation.only else ""
    return line + (f" --epochs {how.epochs}" if how.epochs else "")


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        main(from_terminal(Ablation, __doc__ or ""))
    except UserError as trouble:
        raise SystemExit(str(trouble)) from None
