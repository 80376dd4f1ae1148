"""One tiny trained run of each task, trained once for all tests that only need one.

They lie in pytest's cache under a digest of the source, so that they are trained anew when that
changes, and not at each session. Whatever processes pytest runs in share them. Nobody changes
them: `shared_run("classify")` is a copy.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from regard.runs.run import Run

SOURCE = Path(__file__).parent.parent / "src"
DECIDING = (Path(__file__), Path(__file__).with_name("task_cases.py"))
KEPT_SECONDS = 3600.0  # of another source, which another session may still be testing


def source_digest() -> str:
    """A digest of everything that decides what a run becomes."""
    import torch

    digest = hashlib.sha256(f"{sys.version}, torch {torch.__version__}".encode())
    files = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.toml"), *DECIDING]
    for path in sorted(files):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing gives the lock back


def forget_others(folder: Path) -> None:
    """Take away runs of other sources that no session has used for an hour."""
    for other in folder.parent.iterdir():
        if other != folder and time.time() - other.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(other, ignore_errors=True)


def trained_in(folder: Path, task: str) -> Path:
    """The run of a task in this folder, trained if it is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    place, whole = folder / task, folder / f"{task}.whole"
    with locked(folder / f"{task}.lock"):
        if not whole.exists():
            shutil.rmtree(place, ignore_errors=True)  # what a killed session left
            place.mkdir()
            train(place, task)
            whole.touch()
    return place / "run"


def train(place: Path, task: str) -> None:
    from regard.runs.run import train as train_run
    from task_cases import CASES

    case = CASES[task]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        patch.setenv("REGARD_DATA", str(place / "nothing"))
        case.smaller(patch)
        train_run(
            task,
            data=case.write_data(place / "data"),
            recipe=case.write_recipe(place / "data"),
            out=place / "run",
            quiet=True,
            device="cpu",
            **{**case.tiny, **case.learnt},
        )


@pytest.fixture(scope="session")
def shared_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Run]:
    """`shared_run(task)`: a copy of the run of that task, to be done with as one likes."""
    assert request.config.cache is not None
    folder = request.config.cache.mkdir("trained-runs") / source_digest()
    folder.mkdir(exist_ok=True)
    forget_others(folder)

    def copy_of(task: str) -> Run:
        import regard as rg

        copy = tmp_path_factory.mktemp(task) / "run"
        shutil.copytree(trained_in(folder, task), copy)
        return rg.load(copy, device="cpu")

    return copy_of
