"""Which tests are slow and which train, as slow.txt has it, so that `make quick` does without.

`make slow` runs everything, counts processor time and optimizer steps, and writes the record anew.
Every other run reads it: what it names is marked `slow` or `trains` as it is collected. A test that
is neither, and yet takes more than five seconds of processor time or more than two optimizer steps,
is run a second time (the first may have paid for an import, or for what its neighbours share), and
fails the run if it does so again. Seconds are the processor's, never the clock's: a busy machine
makes no test slow.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

RECORD = Path(__file__).with_name("slow.txt")
SLOW = 0.2  # seconds of processor time from which a test is recorded as slow
LIMIT = 5.0  # seconds that a test may take which is not recorded
NEEDS = ("chromium", "cuda", "data", "java")  # tests with these marks are held to no limit
STEPS = 2  # optimizer steps that a test may take which is not recorded

HEADER = (
    "# Tests and shared fixtures that are slow or train: written by `make slow`, not by hand.",
    f"# slow: more than {SLOW} s of processor time; trains: more than {STEPS} optimizer steps.",
)


class Cost(NamedTuple):
    """What a test, or the setting up of a shared fixture, took."""

    seconds: float = 0.0  # of the processor, this process's and those of processes it waited for
    steps: int = 0  # of any optimizer of torch

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.seconds - other.seconds, self.steps - other.steps)

    def __add__(self, other: object) -> Cost:
        assert isinstance(other, Cost)
        return Cost(self.seconds + other.seconds, self.steps + other.steps)

    def marks(self, limit: float) -> list[str]:
        """How a test with this cost is marked."""
        return [
            *(["slow"] if self.seconds > limit else []),
            *(["trains"] if self.steps > STEPS else []),
        ]


class Durations:
    """Marks what the record names, measures every test, and holds the others to their limit."""

    def __init__(self, raw: Path | None, record: Path = RECORD) -> None:
        self.raw, self.record = raw, read_record(record)
        self.measured: dict[str, Cost] = {}
        self.steps = 0
        self.began = self.shared = Cost()
        self.own = Cost()

    @pytest.hookimpl(tryfirst=True)  # before -m chooses among them
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in sorted({mark for key in keys(item) for mark in self.record.get(key, ())}):
                item.add_marker(mark)
        if "torch" in sys.modules:  # by then some test has imported it
            from torch.optim.optimizer import register_optimizer_step_post_hook

            register_optimizer_step_post_hook(self.count_step)

    def count_step(self, *_: object) -> None:
        self.steps += 1

    def now(self) -> Cost:
        times = os.times()
        return Cost(
            sum((times.user, times.system, times.children_user, times.children_system)), self.steps
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        """What several tests share is counted by itself, not with the first that needs it."""
        began, shared = self.now(), self.shared
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                cost = self.now() - began
                self.shared = shared + cost  # with what it asked for meanwhile
                properties = request._pyfuncitem.user_properties
                properties.append(("cost", (key_of(fixturedef), *cost)))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, None, None]:
        self.began, self.shared = self.now(), Cost()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        try:
            return (yield)
        finally:
            self.own = self.now() - self.began - self.shared
            item.user_properties.append(("cost", (item.nodeid, *self.own)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        self.own = Cost()
        result = yield
        if not self.raw and self.excess(item):
            item._initrequest()  # type: ignore[attr-defined]
            again = runtestprotocol(item, log=False, nextitem=nextitem)
            if excess := self.excess(item):
                call = next(report for report in again if report.when == "call")
                call.outcome, call.longrepr = (
                    "failed",
                    (
                        f"{item.nodeid} took {self.own.seconds:.1f} s of processor time and "
                        f"{self.own.steps} optimizer steps, and is not marked {excess[0]}: "
                        "make it smaller, or have `make slow` write it down"
                    ),
                )
                item.ihook.pytest_runtest_logreport(report=call)
        return result

    def excess(self, item: pytest.Item) -> list[str]:
        """The marks that it should have and lacks."""
        if any(item.get_closest_marker(need) for need in NEEDS):
            return []  # where the record was written it may have been skipped
        return [m for m in self.own.marks(LIMIT) if item.get_closest_marker(m) is None]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.raw and report.when == "teardown":  # has come from the workers of xdist
            for name, value in report.user_properties:
                if name == "cost":
                    key, *cost = value
                    known = self.measured.get(key, Cost())
                    self.measured[key] = Cost(*map(max, known, cost))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.raw and not hasattr(session.config, "workerinput"):
            self.raw.write_text(json.dumps(self.measured, indent=0, sort_keys=True), "utf-8")


def keys(item: pytest.Item) -> list[str]:
    """The names a test may have in the record: its own, and those of the fixtures it uses."""
    named = [item.nodeid, function_of(item.nodeid)]
    info = getattr(item, "_fixtureinfo", None)
    fixtures = info.name2fixturedefs.values() if info else ()
    return [*named, *(key_of(each) for chain in fixtures for each in chain)]


def key_of(fixture: pytest.FixtureDef[Any]) -> str:
    return f"{fixture.baseid or 'tests'}::{fixture.argname}"


def function_of(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def read_record(path: Path) -> dict[str, list[str]]:
    """The marks of each name in it."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    rows = [line.rsplit(": ", 1) for line in lines if line and not line.startswith("#")]
    return {name: marks.split() for name, marks in rows}


def lines_of(measured: dict[str, Cost]) -> Iterable[str]:
    """The record's lines, one a function whose dearest case is worth a mark."""
    costs: dict[str, Cost] = defaultdict(Cost)
    for nodeid, cost in measured.items():
        name = function_of(nodeid)
        costs[name] = Cost(*map(max, costs[name], cost))
    for name, cost in sorted(costs.items()):
        if marks := cost.marks(SLOW):
            yield f"{name}: {' '.join(marks)}"


def main(path: Path) -> None:
    measured = {name: Cost(*cost) for name, cost in json.loads(path.read_text("utf-8")).items()}
    lines = list(lines_of(measured))
    RECORD.write_text("\n".join([*HEADER, *lines, ""]), encoding="utf-8")
    print(
        f"{RECORD.name}: {len(lines)} of {len(set(map(function_of, measured)))} tests and fixtures"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
