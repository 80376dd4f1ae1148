"""Answers as a table for spreadsheets: one row each, whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.data.listing import in_order
from regard.errors import UserError
from regard.tasks.inputs import Unreadable

Add = Callable[[Mapping[str, Any]], None]
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # with which a spreadsheet begins to compute


@contextmanager
def csv_file(path: Path) -> Iterator[Add]:
    """A function that takes the rows of a table, which is at its place when all is done.

    Columns are those of any row, so rows wait in a file of their own until all are known.
    """
    if not path.parent.is_dir() or path.is_dir():
        raise UserError(f"cannot write {path}: {path.parent} is no folder, or {path.name} is one")
    names: dict[str, None] = {}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as kept:

        def add(row: Mapping[str, Any]) -> None:
            names.update(dict.fromkeys(row))
            kept.write(json.dumps(row) + "\n")

        yield add
        kept.seek(0)
        draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
        try:
            with draft.open("w", encoding="utf-8", errors="replace", newline="") as file:
                last = [name for name in names if name != "error"] + ["error"] * ("error" in names)
                table = csv.DictWriter(file, last, lineterminator="\n")
                table.writeheader()
                for line in kept:
                    row = json.loads(line)
                    table.writerow({name: harmless(value) for name, value in row.items()})
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError as trouble:
            raise UserError(f"cannot write {path}: {trouble.strerror or trouble}") from None
        finally:
            draft.unlink(missing_ok=True)


def row_of(answer: Any) -> dict[str, Any]:
    """An answer as cells: its values, and a column for each class that has a probability."""
    if isinstance(answer, Unreadable):
        return {"input": answer.place, "error": answer.reason}
    row: dict[str, Any] = {}
    for name, value in answer.to_values().items():
        if name == "probabilities":
            if "answer" in row:
                row["probability"] = value.get(row["answer"])
            row |= {f"probability of {each}": value[each] for each in in_order({*value})}
        elif isinstance(value, list):
            row[name] = " | ".join(next(iter(each), "") for each in value)
        else:
            row[name] = value
    return row


def harmless(value: Any) -> Any:
    """A cell that a spreadsheet shows and does not compute, whoever wrote the text in it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value
