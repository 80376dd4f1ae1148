"""Figures of trainings that take longer than a look at the lab: kept with the package.

A record is a JSON file that says by which command, at which commit, on which device and with which
seeds it was made. `regard lab CLAIM --train` makes it anew.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.errors import UserError

FOLDER = Path(__file__).parent / "recorded"


def recorded(name: str) -> dict[str, Any]:
    """The record of a claim."""
    path = FOLDER / f"{name}.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"nothing is recorded of {name} yet: regard lab {name} --train") from None
    except ValueError as trouble:
        raise UserError(f"{path} cannot be read: {trouble}; regard lab {name} --train") from None
    return found


def record(name: str, figures: dict[str, Any]) -> Path:
    """Keep what a training found."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return path


def experiment(name: str) -> Any:
    """An experiment of the checkout: `benchmarks/` is no part of the installed package."""
    try:
        return import_module(f"benchmarks.experiments.{name}")
    except ModuleNotFoundError as missing:
        if missing.name and missing.name.split(".")[0] != "benchmarks":
            raise
        raise UserError(
            "this is trained by an experiment of the checkout: in its folder, "
            "python -m regard lab CLAIM --train"
        ) from None


def provenance(figures: dict[str, Any]) -> str:
    """Where a record comes from, in a line."""
    seeds = figures.get("seeds", 1)
    return (
        f"recorded {figures['date']} at {figures['commit']} on {figures['device']}, "
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}: {figures['command']}"
    )
