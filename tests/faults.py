"""Kill a training run at random moments, go on with it until it is done, and compare it, bit for
bit, with the same run never stopped.

    make faults                                   # 20 rounds
    python tests/faults.py --rounds 3 --seed 7

A round begins a run and kills it (SIGKILL) one to three times: anywhere between its start and its
end, or at the first sight of a file that is half written. What must be the same afterwards: the
weights, the metrics apart from times, the state to go on from, and the figures on validation.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path

# Before torch is imported: sums depend on the number of threads, and a fork must have one.
os.environ["OMP_NUM_THREADS"] = "1"

import torch

from regard.cli import main
from regard.run_folder import RunFolder
from regard.run_folder.drafts import DRAFT

# What a sitting imports when it needs it: forked from here, it has it at once.
NEEDED = ["regard.tasks.classify.task", "regard.runs.report", "rich.progress"]
NEEDED += ["sklearn.datasets", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg"]
NEEDED += ["torch._dynamo"]

# Everything that must survive: random numbers of augmentation and dropout, and a mean of weights.
RECIPE = """
data = "digits"
batch_size = 128
model = { image_size = 8, patch_size = 2, width = 16, layers = 1, heads = 2, dropout = 0.1 }
augment = { crop_padding = 1, mixup_alpha = 0.2 }
train = { epochs = 3, ema_decay = 0.9, checkpoint_seconds = 0 }
"""


class Sitting:
    """One process that trains in a folder: begins the run there, or goes on with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.words = folder, folder.with_suffix(".txt")
        self.process = os.fork()
        if not self.process:
            self.train()

    def train(self) -> None:
        """What the new process does, and all that it does."""
        code, begun = 1, (self.folder / "config.toml").is_file()
        how = ["--resume"] if begun else ["--recipe", str(self.folder.with_name("recipe.toml"))]
        try:
            with (
                self.words.open("w") as said,
                contextlib.redirect_stderr(said),
                contextlib.redirect_stdout(said),
            ):
                code = main(["train", "classify", *how, "--out", str(self.folder), "--no-report"])
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def ended(self) -> bool:
        """Whether it ended by itself; one that failed is the end of this script too."""
        if not self.process:
            return True
        process, status = os.waitpid(self.process, os.WNOHANG)
        if not process:
            return False
        self.process = 0
        if status:
            sys.exit(f"a sitting failed with {status}:\n{self.words.read_text()}")
        return True

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)

    def finish(self) -> None:
        while not self.ended():
            time.sleep(0.005)


def play(folder: Path, draw: random.Random, lasts: float) -> list[str]:
    """Train in a folder with kills in between; says where each one struck."""
    struck: list[str] = []
    for _ in range(draw.randint(1, 3)):
        stale, sitting, writing = drafts(folder), Sitting(folder), draw.random() < 0.5
        until = time.monotonic() + draw.uniform(0, lasts)
        while not sitting.ended() and (
            time.monotonic() < until or (writing and not drafts(folder) - stale)
        ):
            time.sleep(0.0002)
        if sitting.ended():
            break
        sitting.kill()
        struck.append(place(folder, drafts(folder) - stale))
    if struck:
        Sitting(folder).finish()
        return struck
    shutil.rmtree(folder)  # it was too fast
    return play(folder, draw, lasts)


def drafts(folder: Path) -> set[str]:
    """Files and states that are half written."""
    entries = listed(folder) + listed(folder / "state")
    return {each.name for each in entries if DRAFT.fullmatch(each.name) or each.suffix == ".draft"}


def listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def place(folder: Path, half: set[str]) -> str:
    """Where a run was when it was killed, and what it was writing."""
    state = RunFolder(folder).latest_state()
    where = f"after step {state[0]}" if state else "before its first state"
    return f"{where}, {min(half)} half written" if half else where


def compare(folder: Path, whole: Path) -> list[str]:
    """What differs between a run that was killed and one that was not."""
    wrong = [
        name
        for name in ("model.safetensors", "evaluation-validation.json", "config.toml", "data.json")
        if (folder / name).read_bytes() != (whole / name).read_bytes()
    ]
    if metrics(folder) != metrics(whole):
        wrong.append("metrics.jsonl")
    (_, ours, _), (_, theirs, _) = RunFolder(folder).read_state(), RunFolder(whole).read_state()
    if any(not torch.equal(ours[name], theirs[name]) for name in theirs):
        wrong.append("the state")
    if edits := RunFolder(folder, accept_edits=True).edits():
        wrong.append("; ".join(edits))
    left = drafts(folder)
    if left or len(listed(folder / "state")) != 1:
        wrong.append(f"what was left behind: {left}, {listed(folder / 'state')}")
    return wrong


def metrics(folder: Path) -> list[dict[str, float]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    times = ("train_seconds", "data_wait_seconds")
    return [{name: x for name, x in line.items() if name not in times} for line in lines]


def rounds(count: int, seed: int, base: Path) -> int:
    """Play so many rounds; the number of those in which something was lost."""
    for module in NEEDED:
        import_module(module)
    (base / "recipe.toml").write_text(RECIPE)
    began = time.monotonic()
    Sitting(base / "whole").finish()
    lasts, lost = time.monotonic() - began, 0
    for number in range(1, count + 1):
        folder = base / f"round-{number}"
        struck = play(folder, random.Random(f"{seed} {number}"), lasts)
        wrong = compare(folder, base / "whole")
        lost += bool(wrong)
        result = f"DIFFERS in {', '.join(wrong)}" if wrong else "the same bits"
        print(f"round {number} of {count}: killed {'; '.join(struck)}: {result}", flush=True)
    return lost


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="where the random moments start")
    asked = parser.parse_args()
    # Memory will do: what a killed process has written is there, whether a disk has it or not.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="regard-faults-", dir=memory) as temporary:
        sys.exit(1 if rounds(asked.rounds, asked.seed, Path(temporary)) else 0)
