"""Every recorded command has its words of today beside it, and these can be typed today."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.config import to_values
from regard.tasks import TASKS, find

ROOT = Path(__file__).parents[1]
FILES = sorted(ROOT.glob("results/*.json"))
FILES += sorted(Path(regard.__file__).parent.rglob("recorded/*.json"))
OF_TRAIN = {"recipe", "seed", "epochs", "data", "device", "threads", "test", "out", "quiet"}
OF_COUNT = {"recipe", "device", "steps", "verify", "json", "cached", "vary", "batch_size"}
OF_COUNT |= {"tokens", "encoder_tokens"}


def commands_in(values: Any) -> Iterator[tuple[str, str]]:
    """Each command as it was run, and as it is typed today."""
    if isinstance(values, dict):
        if isinstance(values.get("command"), str):
            yield values["command"], values.get("command_today", "")
        for value in values.values():
            yield from commands_in(value)
    elif isinstance(values, list):
        for value in values:
            yield from commands_in(value)


CASES = [
    pytest.param(then, now, id=f"{path.stem} {at}")
    for path in FILES
    for at, (then, now) in enumerate(commands_in(json.loads(path.read_text(encoding="utf-8"))))
]


def parts_of(command: str) -> list[list[str]]:
    """The commands in a line of prose: `regard average (5 runs of regard train …)` has two."""
    begin = r"(?=\bregard (?:train|count|lab|average)\b|\bpython (?:-m )?[\w./]+)"
    starts = re.split(begin, command)
    return [shlex.split(part.strip(" ();,").replace("…", "")) for part in starts if part.strip()]


def names_of(config: Any) -> set[str]:
    """Dotted names of a configuration's fields, and their last parts."""
    found: set[str] = set()

    def walk(values: dict[str, Any], under: str) -> None:
        for name, value in values.items():
            found.update((f"{under}{name}", name))
            if isinstance(value, dict):
                walk(value, f"{under}{name}.")

    walk(to_values(config), "")
    return found


def flags_of(words: list[str]) -> list[str]:
    """Flags as the names of their fields."""
    found = [word[2:].partition("=")[0].rstrip(",") for word in words if word.startswith("--")]
    return [flag.replace("-", "_") for flag in found]


def is_known(flag: str, names: set[str]) -> bool:
    *path, last = flag.split(".")
    return flag in names or ".".join([*path, last.removeprefix("no_")]) in names


def check(words: list[str]) -> None:
    match words:
        case ["regard", "train", task, *flags]:
            assert task in TASKS
            names = names_of(find(task).load_config()()) | OF_TRAIN
            assert [flag for flag in flags_of(flags) if not is_known(flag, names)] == []
        case ["regard", "count", name, *flags]:
            from regard.models import MODELS

            names = OF_COUNT | (
                {field.name for field in fields(MODELS[name].config)} if name in MODELS else set()
            )
            assert name == "" or name in MODELS or not flags_of(flags) or name.startswith("-")
            assert [flag for flag in flags_of(flags) if not is_known(flag, names)] == []
        case ["regard", "lab", claim, *_]:
            from regard.lab.claims import load_claim

            assert load_claim(claim).id == claim
        case ["regard", "average", *_]:
            pass
        case ["python", "-m", "benchmarks", name, *_]:
            from benchmarks import BENCHES

            assert name in BENCHES
        case ["python", "-m", module, *_]:
            assert find_spec(module) is not None
        case ["python", script, *_]:
            assert (ROOT / script).is_file()
        case _:
            raise AssertionError(words)


@pytest.mark.parametrize(("then", "now"), CASES)
def test_a_recorded_command_can_be_typed_today(then: str, now: str) -> None:
    assert now, f"{then} has no command_today beside it"
    for words in parts_of(now):
        check(words)


def test_a_command_with_a_flag_of_before_is_found_out() -> None:
    with pytest.raises(AssertionError):
        check(shlex.split("regard train classify --train.optimiser.rate 1e-3"))
    with pytest.raises(AssertionError):
        check(shlex.split("regard train sentiment"))
    assert len(CASES) > 60
