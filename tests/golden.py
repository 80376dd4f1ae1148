"""The sentences that tests provoke, kept as lists: a reworded one is reviewed there, in no test.

    with expect_error(ConfigError, key="model.width"):      # the type and the fields: the test's
        config.change(ViTConfig(), {"model.width": "wide"})
    golden(capsys.readouterr().err)                         # any other words

Each is compared with what `tests/golden/AREA.txt` has under the name of the test, where AREA is its
file. `make golden` writes the lists anew and names what no test says any more; the difference is
for whoever reviews the change. Folders, and what `vary` matches, are left out of a sentence.
"""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from regard.errors import UserError

FOLDER = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[1]
TEMPORARY = re.escape(tempfile.gettempdir())
VARYING = (
    (re.compile(rf"{TEMPORARY}/pytest-of-[^/]+/pytest-\d+/(popen-gw\d+/)?[\w-]+"), "TMP"),
    (re.compile(rf"{TEMPORARY}/tmp\w+"), "TMP"),
    (re.compile(re.escape(str(ROOT))), "REPOSITORY"),
    (re.compile(r"(\S{1,2}?)\1{39,}"), r"\1\1\1…"),  # names that are too long, and the like
    (re.compile(r"(127\.0\.0\.1:|port )\d{4,5}\b"), r"\1PORT"),
    (re.compile(r" at 0x[0-9a-f]+"), " at ADDRESS"),
    (re.compile(r"torch \d+\.\d+\.\d+(\+\w+)?"), "torch VERSION"),
)
HEAD = "# What tests/test_{area}.py provokes. Written by `make golden`: never by hand.\n"


class Place(NamedTuple):
    """Where a sentence is kept: the list of an area, and the name there."""

    area: str
    name: str


@dataclass
class Session:
    """The test that runs now, and what was met: sentences by area and name, and how tests ended."""

    item: pytest.Item | None = None
    count: int = 0  # of the sentences of this test
    met: dict[str, dict[str, str]] = field(default_factory=dict)
    ended: dict[Place, bool] = field(default_factory=dict)  # True where a test passed


SESSION = Session()


@contextmanager
def expect_error(
    expected: type[BaseException] | tuple[type[BaseException], ...],
    /,
    *,
    vary: str = "",
    **fields: Any,
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """An error of this very type with these fields, and the sentence that is kept of it.

    A `file` is compared by its name alone.
    """
    __tracebackhide__ = True
    with pytest.raises(expected) as caught:
        yield caught
    error = caught.value
    if not isinstance(expected, tuple) and type(error) is not expected:
        pytest.fail(f"a {type(error).__name__} was raised, not a {expected.__name__}: {error}")
    if "file" in fields:
        fields["file"] = Path(fields["file"]).name
    found = {name: getattr(error, name, None) for name in fields}
    if "file" in found:
        found["file"] = Path(found["file"]).name
    assert found == fields, str(error)
    if isinstance(error, UserError):
        assert "\n" not in str(error), "what a user did wrong is one sentence"
    golden(str(error), vary=vary)


def golden(words: str, *, vary: str = "") -> None:
    """Compare words with what is kept of this test, or keep them where lists are written."""
    __tracebackhide__ = True
    assert SESSION.item is not None, "golden sentences are for tests that pytest runs"
    place, now = next_place(SESSION.item), plain(words, vary)
    SESSION.item.user_properties.append(("golden", (*place, now)))  # travels with the report
    if SESSION.item.config.getoption("--golden") == "write":
        return
    before = read(place.area).get(place.name)
    if before is None:
        pytest.fail(f"nothing is kept of {place.name}: run make golden. It says: {now}")
    if now != before:
        pytest.fail(
            f"{place.name} says\n    {now}\nand tests/golden/{place.area}.txt has\n    {before}\n"
            "If the new words are meant, run make golden."
        )


def next_place(item: pytest.Item) -> Place:
    """The name of the test; from its second sentence on with a number."""
    file, _, name = item.nodeid.partition("::")
    SESSION.count += 1
    count = SESSION.count
    return Place(Path(file).stem.removeprefix("test_"), name + f" ({count})" * (count > 1))


def owner_of(name: str) -> str:
    """The test that an entry is named after."""
    return re.sub(r" \(\d+\)$", "", name)


def plain(words: str, vary: str = "") -> str:
    """Words without what differs from machine to machine, as they are kept."""
    base = SESSION.item.config.getoption("basetemp") if SESSION.item else None
    if base:
        words = re.sub(rf"{re.escape(str(base))}/(popen-gw\d+/)?[\w-]+", "TMP", words)
    for pattern, instead in VARYING:
        words = pattern.sub(instead, words)
    if vary:
        words = re.sub(vary, "…", words)
    return "\n".join(line.rstrip() for line in words.strip().splitlines())


# The lists


def path_of(area: str) -> Path:
    return FOLDER / f"{area}.txt"


KEPT: dict[str, dict[str, str]] = {}  # by area, read once


def read(area: str) -> dict[str, str]:
    """The sentences of an area by name: a name stands at the margin, its sentence further in."""
    if area not in KEPT:
        path, name = path_of(area), ""
        entries: dict[str, list[str]] = {}
        for line in path.read_text("utf-8").split("\n") if path.exists() else []:
            if line.startswith("    ") or not line:
                entries.setdefault(name, []).append(line[4:])
            elif not line.startswith("#"):
                name = line
        entries.pop("", None)
        KEPT[area] = {name: "\n".join(lines).strip("\n") for name, lines in entries.items()}
    return KEPT[area]


def write(area: str, entries: dict[str, str]) -> None:
    """One entry after the other, by name."""
    path = path_of(area)
    if not entries:
        path.unlink(missing_ok=True)
        return
    FOLDER.mkdir(exist_ok=True)
    text = HEAD.format(area=area)
    for name in sorted(entries, key=natural):
        lines = [f"    {line}".rstrip() for line in entries[name].split("\n")]
        text += "\n".join(["", name, *lines, ""])
    path.write_text(text, "utf-8")


def natural(name: str) -> list[Any]:
    """2 before 10."""
    parts = re.split(r"(\d{1,9})", name)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


# What pytest calls


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden",
        choices=("compare", "write"),
        default="compare",
        help="compare the sentences with tests/golden, or write them there",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where lists are written, run only the tests that say something for them."""
    if config.getoption("--golden") == "write":
        speak = {path: speakers(path.read_text("utf-8")) for path in {item.path for item in items}}
        silent = [item for item in items if item_name(item) not in speak[item.path]]
        items[:] = [item for item in items if item_name(item) in speak[item.path]]
        config.hook.pytest_deselected(items=silent)


def item_name(item: pytest.Item) -> str:
    return getattr(item, "originalname", item.name)


def speakers(source: str) -> set[str]:
    """The functions of a module that call ours, or one of its own that does."""
    used = {
        function.name: {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        | {argument.arg for argument in function.args.args}
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef)
    }
    found = {"expect_error", "golden"}
    while more := {name for name, names in used.items() if names & found} - found:
        found |= more
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    SESSION.item = item
    SESSION.count = 0


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Gather what a test has said; of tests that other processes run, the first one gathers."""
    file, _, name = report.nodeid.partition("::")
    test = Place(Path(file).stem.removeprefix("test_"), name)
    if report.when == "call" or not report.passed:
        SESSION.ended[test] = report.passed
    for label, value in report.user_properties:
        if label == "golden":
            area, entry, words = value
            SESSION.met.setdefault(area, {})[entry] = words


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the lists, and say what is new, what is other and what is gone."""
    config = terminalreporter.config
    if config.getoption("--golden") != "write":
        return
    whole = not (config.option.keyword or config.option.markexpr) and not any(
        "::" in argument for argument in config.args
    )
    terminalreporter.section("golden sentences")
    for area in sorted({test.area for test in SESSION.ended}):
        before, met = read(area), SESSION.met.get(area, {})
        gone = [name for name in before if name not in met and is_gone(area, name, whole)]
        after = {name: words for name, words in before.items() if name not in gone} | met
        if not after and not before:
            continue
        write(area, after)
        other = [name for name in before if name in met and met[name] != before[name]]
        new = [name for name in met if name not in before]
        terminalreporter.line(
            f"{area}: {len(after)} kept, {len(new)} new, {len(other)} other, {len(gone)} stale"
        )
        for name in gone:
            terminalreporter.line(f"  stale, and taken out: {name}")


def is_gone(area: str, name: str, whole: bool) -> bool:
    """Whether nothing says this any more: its test passed without it, or there is no such test."""
    return SESSION.ended.get(Place(area, owner_of(name)), whole)
