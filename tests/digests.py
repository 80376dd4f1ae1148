"""What one tiny run of each task answers, as digests: of its weights, its figures, its predictions.

    python tests/digests.py            # run all six and compare with tests/digests.json
    python tests/digests.py --write    # record them anew, after a change that is meant
    python tests/digests.py --json     # print what they are now

Files can then be moved and renamed, and the record says whether anything else happened. Names are
allowed to change and values are not, so each part is compared twice: by name, and by its values
alone. Bits depend on the CPU and on torch; elsewhere than where they were recorded, sums and
figures are compared to five digits.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import math
import os
import platform
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: sums depend on it

RECORD = Path(__file__).with_name("digests.json")
NEAR = 1e-5
TIMES = (
    "train_seconds",
    "data_wait_seconds",
    "rows_per_second",
    "seconds",
    "waited",
)  # figures of the machine, not of the model
PLAIN = {
    "train.lr_schedule.name": "constant",
    "train.lr_schedule.warmup_ratio": 0.0,
    "train.seed": 3,
}
SMALL = {"model.width": 16, "model.layers": 1, "model.heads": 2}
GRID = {"image_size": 16, "patch_size": 4, "stem": "patch", "width": 16, "layers": 1, "heads": 2}

Record = dict[str, Any]


def story(number: int) -> str:
    """A document about one animal: text that is the same under every version of Python."""
    draw = random.Random(number)
    animal = draw.choice(["fox", "wolf", "bear", "hare", "crow", "deer"])
    told = [
        f"The {animal} {draw.choice(['slept', 'waited', 'hid', 'fed'])} near the "
        f"{draw.choice(['lake', 'hill', 'barn', 'mill'])} in {draw.randrange(1900, 1950)}."
        for _ in range(8)
    ]
    return f"# About the {animal}\n\n{' '.join(told)}\n\n"


def stories(folder: Path) -> str:
    path = folder / "stories.txt"
    path.write_text("".join(map(story, range(30))), encoding="utf-8")
    return str(path)


class Case(NamedTuple):
    """A tiny run of a task and what it is asked."""

    data: str | Callable[[Path], str]  # data that every installation has, or a way to write some
    changes: Mapping[str, Any]  # of the configuration, by dotted name
    inputs: tuple[str, ...] = ()  # texts to predict for; without any, rows of its own data


CASES = {
    "classify": Case(
        "digits", {**SMALL, "model.layers": 2, "batch_size": 512, "augment.crop_padding": 1}
    ),
    "caption": Case(
        "scenes",
        {
            **SMALL,
            **{
                "num_scenes": 64,
                "batch_size": 16,
                "captions_per_image": 2,
                "tokenizer.min_frequency": 1,
            },
            **{"model.context_length": 16, "model.encoder.mask": None},
            **{f"model.encoder.{name}": value for name, value in GRID.items()},
        },
    ),
    "language": Case(
        stories,
        {
            **{**SMALL, "model.context_length": 32, "batch_size": 16},
            **{"tokenizer.name": "char", "tokenizer.min_frequency": 1},
        },
        ("The fox", "The crow hid near"),
    ),
    "translate": Case("numerals", {**SMALL, "batch_tokens": 60_000}, ("347512", "forty-two", "7")),
    "classify-text": Case(
        "reviews",
        {**SMALL, "batch_tokens": 20_000},
        ("The soup was far from bland.", "A dull film."),
    ),
    "pretrain-bert": Case(
        stories,
        {
            **{**SMALL, "batch_tokens": 512, "max_length": 45, "pairs_per_epoch": 24},
            **{"tokenizer.name": "bpe", "tokenizer.min_frequency": 2, "tokenizer.vocab_size": 500},
        },
        ("The fox [MASK] near the barn.", "The fox hid.\tIt slept."),
    ),
}


# Running


def measured(task: str) -> Record:
    """Train the tiny run of a task, measure it, ask it, and record all three."""
    import torch

    from regard.cli import main
    from regard.runs.run import train

    case = CASES[task]
    with tempfile.TemporaryDirectory() as name, one_thread(), folders_in(Path(name)):
        folder = Path(name)
        data = case.data if isinstance(case.data, str) else case.data(folder)
        options = {"quiet": True, "report": False, "device": "cpu", "threads": 1}
        torch.manual_seed(0)
        run = train(
            task, data=data, epochs=1, out=folder / "run", **options, **PLAIN, **case.changes
        )
        judged = run.evaluate("validation").to_values()
        asked = case.inputs or ("--split", "validation", "--index", "0", "1", "2")
        seed = ("--seed", "3") if task == "language" else ()
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = main(
                ["predict", str(folder / "run"), *asked, *seed, "--json", "--device", "cpu"]
            )
        assert code == 0, f"regard predict on {task} ended with {code}"
        return {
            "weights": {n: tensor_record(t) for n, t in run.model.state_dict().items()},
            "metrics": leaves([without_times(line) for line in run.metrics], whole_lists=False),
            "figures": leaves(judged),
            "predictions": [
                json.loads(line.replace(str(folder), "")) for line in out.getvalue().splitlines()
            ],
        }


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def folders_in(folder: Path) -> Iterator[None]:
    """Cache and data in here, so that what a user has kept decides nothing."""
    mine = {"XDG_CACHE_HOME": str(folder / "cache"), "REGARD_DATA": str(folder / "data")}
    before = {name: os.environ.get(name) for name in mine}
    os.environ.update(mine)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def without_times(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in TIMES}


# Digests


def digest(values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:24]


def tensor_record(tensor: Any) -> Record:
    """The digest of a tensor's bytes, and two sums to compare where bits differ."""
    held = tensor.detach().cpu().contiguous()
    exact = hashlib.sha256(str(held.dtype).encode() + held.numpy().tobytes()).hexdigest()[:24]
    wide = held.double()
    return {
        "shape": list(held.shape),
        "digest": exact,
        "sum": float(wide.sum()),
        "norm": float(wide.norm()),
    }


def leaves(value: object, name: str = "", *, whole_lists: bool = True) -> dict[str, Any]:
    """Values by dotted name; a list of many is one digest of what it holds, whatever its keys."""
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for key, inner in value.items():
            found |= leaves(inner, f"{name}.{key}".lstrip("."), whole_lists=whole_lists)
        return found
    if isinstance(value, list | tuple):
        if whole_lists and len(value) > 4:
            return {name: f"{len(value)} values: {digest(inner_values(value))}"}
        return leaves({str(at): one for at, one in enumerate(value)}, name, whole_lists=whole_lists)
    return {name: value}


def inner_values(value: object) -> list[object]:
    """What is in a nested value, in order and without the keys of its tables."""
    if isinstance(value, Mapping):
        return [leaf for inner in value.values() for leaf in inner_values(inner)]
    if isinstance(value, list | tuple):
        return [leaf for inner in value for leaf in inner_values(inner)]
    return [value]


def without_names(record: Record) -> dict[str, str]:
    """A digest of each part in which names and their order do not count."""
    parts = ("weights", "metrics", "figures", "predictions")
    return {part: digest(sorted(map(repr, values_of(part, record)))) for part in parts}


def machine() -> dict[str, str]:
    """What decides bits: torch and the CPU. What decides data: numpy."""
    import numpy
    import torch

    return {
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "cpu": cpu_model(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


# Comparing


def differences(recorded: Record, now: Record, *, exact: bool) -> list[str]:
    """What differs in one task's record, a line each; of names too."""
    found = []
    old, new = recorded["weights"], now["weights"]
    found += names_that_differ("weight", old, new)
    for name in old.keys() & new.keys():
        if not same_tensor(old[name], new[name], exact):
            found.append(f"weight {name}: {old[name]} is now {new[name]}")
    for part in ("metrics", "figures"):
        old, new = recorded[part], now[part]
        found += names_that_differ(part, old, new)
        for name in old.keys() & new.keys():
            if not same_value(old[name], new[name], exact):
                found.append(f"{part} {name}: {old[name]!r} is now {new[name]!r}")
    # Where numbers are a little different, so may words be that were drawn by them.
    if exact and recorded["predictions"] != now["predictions"]:
        found.append(f"predictions: {recorded['predictions']} are now {now['predictions']}")
    return sorted(found)


def names_that_differ(part: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    gone = [f"{part} {name}: is gone" for name in old.keys() - new.keys()]
    return gone + [f"{part} {name}: is new" for name in new.keys() - old.keys()]


def same_tensor(old: Record, new: Record, exact: bool) -> bool:
    if old["shape"] != new["shape"]:
        return False
    if exact:
        return bool(old["digest"] == new["digest"])
    # A sum of many numbers of both signs is near 0, so the norm says what is near.
    room = NEAR * max(1.0, old["norm"])
    return all(math.isclose(old[k], new[k], rel_tol=NEAR, abs_tol=room) for k in ("sum", "norm"))


def same_value(old: object, new: object, exact: bool) -> bool:
    if exact or not isinstance(old, float) or not isinstance(new, int | float):
        return old == new or (not exact and isinstance(old, str) and " values: " in old)
    return math.isclose(old, new, rel_tol=NEAR, abs_tol=NEAR)


def renamed(recorded: Record, now: Record) -> list[str]:
    """For each part of a task: the same, the same under other names, or how many values differ."""
    old, new, words = without_names(recorded), without_names(now), []
    for part in old:
        if recorded[part] == now[part]:
            words.append(f"{part}: the same")
        elif old[part] == new[part]:
            words.append(f"{part}: the same values under other names")
        else:
            before, after = (Counter(map(repr, values_of(part, each))) for each in (recorded, now))
            words.append(f"{part}: DIFFERENT")
            words += [f"    only before: {value}" for value in (before - after).elements()]
            words += [f"    only now:    {value}" for value in (after - before).elements()]
    return words


def values_of(part: str, record: Record) -> list[object]:
    if part == "weights":
        return [(each["shape"], each["digest"]) for each in record[part].values()]
    return inner_values(record[part])


def main_of(args: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"record anew in {RECORD.name}")
    parser.add_argument("--json", action="store_true", help="print the digests of now")
    parser.add_argument("tasks", nargs="*", help="tasks; by default all")
    given = parser.parse_args(args)
    tasks = given.tasks or list(CASES)
    now = {task: measured(task) for task in tasks}
    for record in now.values():
        record["without_names"] = without_names(record)
    if given.json:
        print(json.dumps({"machine": machine(), "tasks": now}))
        return 0
    if given.write:
        before = json.loads(RECORD.read_text("utf-8"))["tasks"] if given.tasks else {}
        text = as_text({"machine": machine(), "tasks": {**before, **now}})
        RECORD.write_text(text, encoding="utf-8")
        print(f"written: {RECORD}")
        return 0
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    for name, value in machine().items():
        if recorded["machine"][name] != value:
            print(f"{name} is {value}, recorded with {recorded['machine'][name]}: bits may differ")
    changed = False
    for task, record in now.items():
        words = renamed(recorded["tasks"][task], json.loads(json.dumps(record)))
        changed |= any("DIFFERENT" in word for word in words)
        print(f"{task}\n  " + "\n  ".join(words))
    return int(changed)


def as_text(record: Record) -> str:
    """JSON with a line for each tensor, figure and answer."""

    def written(value: object, depth: int) -> str:
        flat = json.dumps(value, ensure_ascii=False)
        if depth == 4 or not isinstance(value, dict | list) or not value:
            return flat
        space, (opening, closing) = " " * (depth + 1), "{}" if isinstance(value, dict) else "[]"
        inner = (
            [f"{json.dumps(k)}: {written(v, depth + 1)}" for k, v in value.items()]
            if isinstance(value, dict)
            else [written(each, depth + 1) for each in value]
        )
        return f"{opening}\n{space}" + f",\n{space}".join(inner) + f"\n{space[1:]}{closing}"

    return written(record, 0) + "\n"


if __name__ == "__main__":
    sys.exit(main_of(sys.argv[1:]))
