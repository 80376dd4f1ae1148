"""What a run leaves to read: its curves as pictures, and one page with everything on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import to_values
from regard.run_folder import RunFolder, epochs_in
from regard.run_folder.manifest import CONFIG, DATA, WEIGHTS
from regard.run_folder.metric_lines import is_measured, quantity_of
from regard.runs.session import parameters
from regard.tasks.task import Judged
from regard.training.progress_line import duration
from regard.visualization.document import Document, Section, render
from regard.visualization.figure_curves import curves_figure

if TYPE_CHECKING:
    from regard.runs.run import Run


def write_curves(folder: RunFolder) -> None:
    """curves.png and curves.svg: every figure, on every split, over the epochs."""
    lines = folder.metrics()
    if lines:
        name = folder.path.name
        with folder.drafting("curves.png", "curves.svg") as paths:
            curves_figure({name: lines}, paths, title=name, marks=marks(folder))


def write_evaluation(folder: RunFolder, split: str, judged: Judged) -> None:
    """Keep figures, and of which model they are."""
    figures = judged.to_values()
    folder.write_facts(f"evaluation-{split}", {"of": model_digests(folder), "figures": figures})


def model_digests(folder: RunFolder) -> dict[str, str | None]:
    """By what a model is known: weights, and how they are to be read."""
    return {name: folder.manifest.digest(name) for name in (CONFIG, DATA, WEIGHTS)}


def read_evaluation(folder: RunFolder, split: str) -> dict[str, Any] | None:
    """The figures kept, unless the run has gone on to another model since."""
    found = folder.read_facts(f"evaluation-{split}")
    if not found or found.get("of") != model_digests(folder):
        return None
    figures = found.get("figures")
    return figures if isinstance(figures, dict) else None


def marks(folder: RunFolder) -> dict[str, dict[str, float]]:
    """The figures on test, where they have been measured, for which there are curves."""
    found, lines = read_evaluation(folder, "test"), folder.metrics()
    if not found or not lines:
        return {}
    curves = {quantity_of(key) for key in lines[-1] if is_measured(key)}
    return {
        folder.path.name: {
            name: value["value"]
            for name, value in found.items()
            if name in curves and isinstance(value, dict) and "value" in value
        }
    }


def write_report(run: Run, split: str, judged: Judged) -> Path:
    """report.html, whole or not at all."""
    name = run.folder.path.name
    lines = run.metrics
    sections: list[Section] = []
    if lines:
        run_marks = marks(run.folder).get(name, {})
        sections.append(
            {
                "view": "curves",
                "title": "Learning",
                "words": "Validation is solid and training dashed, both without augmentation.",
                "data": {"runs": [{"name": name, "lines": lines, "marks": run_marks}]},
            }
        )
    sections += run.task.report(run.trained, run.data, split, judged)
    sections.append(
        {
            "view": "facts",
            "title": "Configuration",
            "words": "config.toml of the run: what it takes to make it again.",
            "data": {"rows": config_rows(to_values(run.config))},
        }
    )
    document: Document = {
        "title": name,
        "subtitle": f"{run.task.name} · {run.config.data}",
        "about": about(run),
        "sections": sections,
    }
    run.folder.write_text("report.html", render(document))
    return run.folder.path / "report.html"


def about(run: Run) -> list[list[str]]:
    lines, facts = run.metrics, run.metadata
    rows = [
        ["data", f"{run.config.data}, SHA-256 {facts.digest[:12]}…"],
        ["parameters", f"{parameters(run.model):,}"],
        ["recipe", str(run.folder.about().get("recipe", "none"))],
        ["seed", str(run.config.train.seed)],
        ["regard", str(run.folder.about().get("regard", "?"))],
    ]
    if lines:
        rows.insert(
            2, ["trained", f"{epochs_in(lines)} epochs in {duration(lines[-1]['train_seconds'])}"]
        )
    return rows


def config_rows(values: dict[str, Any], group: str = "") -> list[list[str]]:
    """Every field with its value, grouped by the table it stands in."""
    rows, inner = [], []
    for name, value in values.items():
        if isinstance(value, dict):
            inner += config_rows(value, f"{group}.{name}" if group else name)
        else:
            rows.append([name, "none" if value is None else str(value), group or "run"])
    return rows + inner
