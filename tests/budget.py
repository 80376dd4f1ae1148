"""What the code weighs, beside what it may weigh: `python tests/budget.py [--write [--raise]]`.

Code tokens are what Python reads without comments, docstrings, imports and blank lines: to pack
code or to explain it changes nothing. `--write` lowers the budgets in budget.toml to what is
measured, and adds or takes away stages; `--raise` raises them as well, where a comment behind each
is to say what for.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import sys
import tempfile
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "regard"
BUDGET = Path(__file__).with_name("budget.toml")

LONG = 400  # lines of a file that is too long
ROUND = (
    100  # budgets of tokens are whole multiples of this, so that to mend a fault needs no budget
)
SLACK = 0.95  # of a budget: who needs less than this lowers it
OLD_WORDS = ("said", "told", "asked", "heard", "unheard", "deemed")

# What Python's tokenizer yields beside code.
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}

Table = dict[str, dict[str, int]]

# What stands above each table in budget.toml.
ABOUT = {
    "tokens": ["Code tokens of each stage, without comments, docstrings, imports and blank lines."],
    "long_files": ["Files of more than 400 lines, and how many they have. None is to come."],
    "old_words": ["Names that say nothing of what they hold, in the package."],
    "old_words_in_tests": ["The same in the tests."],
    "paths": [
        "Functions of ours from main to the loss while it trains, inclusive; calls of config.build",
        "in `regard train classify --epochs 1`, to its report; imports that point left.",
    ],
}


def tokens_of(text: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(text).readline)


def lines_without_code(text: str) -> set[int]:
    """The lines of imports and docstrings."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            first = node
        elif (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module)
            and ast.get_docstring(node, clean=False) is not None
        ):
            first = node.body[0]
        else:
            continue
        lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def old_words(text: str) -> Iterator[str]:
    """The old words among the names of a file."""
    for token in tokens_of(text):
        if token.type == tokenize.NAME and token.string in OLD_WORDS:
            yield token.string


def read_code(text: str) -> tuple[int, Counter[str]]:
    """How many code tokens a file has, and how often each old word is one of its names."""
    without, count, words = lines_without_code(text), 0, Counter[str]()
    for token in tokens_of(text):
        if token.type in LAYOUT:
            continue
        count += token.start[0] not in without
        if token.type == tokenize.NAME and token.string in OLD_WORDS:
            words[token.string] += 1
    return count, words


def stage_of(file: Path, package: Path) -> str:
    """The folder that a file stands in; what stands beside them is called `base`."""
    parts = file.relative_to(package).parts
    return parts[0] if len(parts) > 1 else "base"


def measure_text(package: Path = PACKAGE, tests: Path = ROOT / "tests") -> Table:
    """All that can be read off the files."""
    tokens, words, lengths = Counter[str](), Counter(dict.fromkeys(OLD_WORDS, 0)), {}
    for file in sorted(package.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        count, old = read_code(text)
        tokens[stage_of(file, package)] += count
        words.update(old)
        if (lines := text.count("\n")) > LONG:
            lengths[file.relative_to(package).as_posix()] = lines
    in_tests = Counter(dict.fromkeys(OLD_WORDS, 0))
    for file in sorted(tests.rglob("*.py")):
        in_tests.update(old_words(file.read_text(encoding="utf-8")))
    return {
        "tokens": {**dict(sorted(tokens.items())), "total": tokens.total()},
        "long_files": lengths,
        "old_words": dict(words),
        "old_words_in_tests": dict(in_tests),
    }


def measure_run(folder: Path) -> dict[str, int]:
    """What happens between `regard train classify` and its report, on data for a single step."""
    from regard import config
    from regard.cli import main

    write_squares(folder / "data")
    arguments = ["train", "classify", "--data", str(folder / "data"), "--epochs", "1"]
    with (
        frames_at_loss() as frames,
        calls_of(config.build) as calls,
        redirect_stdout(io.StringIO()),
    ):
        code = main([*arguments, "--out", str(folder / "run"), "--device", "cpu"])
    assert code == 0 and (folder / "run" / "report.html").exists()
    return {"frames_to_the_loss": max(frames), "configurations_built": len(calls)}


def write_squares(folder: Path) -> None:
    """Twenty small images of two classes: fewer than a batch."""
    from PIL import Image

    for index in range(20):
        name = ("dark", "light")[index % 2]
        (folder / name).mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), index * 3 + 150 * (index % 2)).save(folder / name / f"{index}.png")


@contextmanager
def frames_at_loss() -> Iterator[list[int]]:
    """How many frames of ours stand between main and each cross-entropy that is differentiated."""
    import torch
    from torch.nn import functional

    original, depths = functional.cross_entropy, []

    def counting(*given: Any, **options: Any) -> torch.Tensor:
        if torch.is_grad_enabled():
            depths.append(sum(is_ours(frame) for frame in stack(sys._getframe(1))))
        return original(*given, **options)

    functional.cross_entropy = counting
    try:
        yield depths
    finally:
        functional.cross_entropy = original


def stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_ours(frame: FrameType) -> bool:
    """Whether a frame is a function of the package; later Pythons have none for comprehensions."""
    code = frame.f_code
    return code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<")


@contextmanager
def calls_of(function: Callable[..., Any]) -> Iterator[list[None]]:
    """One entry a call, by whatever name it is called."""
    calls: list[None] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is function.__code__:
            calls.append(None)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def edges_to_the_left() -> int:
    """How many exceptions the order of the stages has."""
    import test_arrows

    return len(getattr(test_arrows, "EXCEPTIONS", ()))


def budget_for(table: str, measured: int) -> int:
    return -(-measured // ROUND) * ROUND if table == "tokens" else measured


def departures(measured: Table, budget: Table) -> Iterator[str]:
    """One sentence for each number that is above its budget, or far enough below to fall."""
    for table, numbers in measured.items():
        allowed = budget.get(table, {})
        for name, number in numbers.items():
            if name not in allowed:
                yield f"{table}: {name} has no budget, and {number:,}"
            elif number > allowed[name]:
                yield f"{table}: {name} may have {allowed[name]:,}, and has {number:,}"
            elif number < SLACK * allowed[name]:
                yield f"{table}: {name} has {number:,}, so its budget of {allowed[name]:,} can fall"
        for name in allowed.keys() - numbers.keys():
            yield f"{table}: {name} is gone, and its budget with it"


def read_budget(path: Path = BUDGET) -> Table:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def render(measured: Table, before: str, *, raised: bool = False) -> str:
    """The file of budgets anew: lowered to what is measured, with the comments that stand there."""
    budget, lines = tomllib.loads(before), list[str]()
    for table, numbers in measured.items():
        lines += ["", *(f"# {line}" for line in ABOUT[table]), f"[{table}]"]
        for name, number in numbers.items():
            allowed, needed = budget.get(table, {}).get(name), budget_for(table, number)
            if allowed is not None and not (raised or needed < allowed):
                needed = allowed
            key = name if re.fullmatch(r"[\w-]+", name) else f'"{name}"'
            lines.append(f"{key} = {needed}{comment_on(table, key, before)}")
    return "\n".join(lines[1:]) + "\n"


def comment_on(table: str, key: str, text: str) -> str:
    """What is written behind a number."""
    _, _, after = text.partition(f"[{table}]\n")
    found = re.search(rf"^{re.escape(key)} = \d+(  #.*)$", after.partition("\n[")[0], re.MULTILINE)
    return found[1] if found else ""


def measure(folder: Path) -> Table:
    """Every number, by table."""
    return {**measure_text(), "paths": {**measure_run(folder), "edges": edges_to_the_left()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="lower the budgets in budget.toml")
    parser.add_argument("--raise", action="store_true", dest="raised", help="and raise them too")
    flags = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(Path(folder))
    if flags.write:
        before = BUDGET.read_text(encoding="utf-8") if BUDGET.exists() else ""
        text = render(measured, before, raised=flags.raised)
        BUDGET.write_text(text, encoding="utf-8")
    for table, numbers in measured.items():
        for name, number in numbers.items():
            print(f"{number:9,}  {table}: {name}")
    sys.exit("\n".join(departures(measured, read_budget())) or 0)


if __name__ == "__main__":
    main()
