"""What a test may need beyond Python packages, and how a run says what it could not check.

A test says `@pytest.mark.cuda` (or java, chromium, data("cifar10")) and is skipped with a reason
where that is missing. The run ends with a table of such skips. `REGARD_REQUIRE=cuda,java` turns
them into failures, for machines that are known to have the thing.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest

import plain
from durations import Durations
from trained_runs import shared_run

if TYPE_CHECKING:
    from browser import Browser, Page
    from regard.visualization.document import Document

__all__ = ["shared_run"]  # a fixture
pytest_plugins = ["golden"]  # sentences that are compared with kept ones
SOURCE = Path(__file__).parent.parent / "src"
# Bits depend on how many threads there are, so tests take one, as do the processes they start.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def modules_with_shapes() -> list[str]:
    """The modules that state shapes of arrays; types alone are checked once, by mypy."""
    files = (path for path in SOURCE.rglob("*.py") if "jaxtyping" in path.read_text("utf-8"))
    return [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in files]


# What annotations without shapes are made of. Functions that have no others are left as they are:
# to wrap them would check what mypy has checked, and takes longer than many of them do.
SHAPELESS = {"None", "Any", "Iterator", "Iterable", "Sequence", "Mapping", "Callable"} | {
    *("bool", "bytes", "class", "dict", "float", "int", "list", "set", "str", "tuple")
}


def where_shapes_are(jaxtyped: Callable[..., Any]) -> Callable[..., Any]:
    """The decorator of jaxtyping, for functions that speak of more than plain values alone."""

    def decorator(*, typechecker: Any) -> Callable[[Any], Any]:
        decorate = jaxtyped(typechecker=typechecker)
        return lambda thing: thing if is_shapeless(thing) else decorate(thing)

    return decorator


def is_shapeless(thing: Any) -> bool:
    if not isinstance(thing, FunctionType):
        return False
    notes = thing.__annotations__.values()
    words = (re.findall(r"[A-Za-z_]\w*", x if isinstance(x, str) else repr(x)) for x in notes)
    return all(SHAPELESS.issuperset(each) for each in words)


try:  # a machine lent for its GPU may have torch and pytest and little else
    import beartype  # noqa: F401
    import jaxtyping
except ModuleNotFoundError:
    pass
else:
    # Functions are wrapped to be checked. Triton cannot compile one that is, and torch's compiler
    # stumbles over some, so where there may be a GPU shapes go unchecked. Torch, which would know
    # of one for certain, takes longer to import than many a test.
    if shutil.which("nvidia-smi") is None:
        jaxtyping.jaxtyped = where_shapes_are(jaxtyping.jaxtyped)
        jaxtyping.install_import_hook(modules_with_shapes(), "beartype.beartype")

try:
    import hypothesis
except ModuleNotFoundError:
    pass
else:
    # The same examples every time, so that a red run is red again; thorough draws new ones.
    hypothesis.settings.register_profile("steady", derandomize=True, deadline=None, database=None)
    hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def lack_of_java() -> str | None:
    return None if shutil.which("java") else "no java on the path"


def lack_of_chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return None if any(map(shutil.which, names)) else f"none of {', '.join(names)} on the path"


def lack_of_cuda() -> str | None:
    import torch

    return None if torch.cuda.is_available() else f"torch {torch.__version__} sees no CUDA device"


def lack_of_data(name: str) -> str | None:
    folder = os.environ.get("REGARD_DATA")
    if not folder:
        return f"{name}: REGARD_DATA is not set"
    return None if (Path(folder) / name).exists() else f"{name} is not in REGARD_DATA ({folder})"


NEEDS: dict[str, Callable[..., str | None]] = {
    "java": lack_of_java,
    "chromium": lack_of_chromium,
    "cuda": lack_of_cuda,
    "data": lack_of_data,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-gpu", metavar="PATH", type=Path, help="write the outcomes as JSON")
    parser.addoption("--record-durations", metavar="PATH", type=Path, help="write what tests cost")


def pytest_configure(config: pytest.Config) -> None:
    for need in NEEDS:
        arguments = "(name)" if need == "data" else ""
        config.addinivalue_line("markers", f"{need}{arguments}: skipped where {need} is missing")
    if strange := required() - set(NEEDS):
        raise pytest.UsageError(
            f"REGARD_REQUIRE names {', '.join(sorted(strange))}; known are {', '.join(NEEDS)}"
        )
    config.pluginmanager.register(Durations(config.getoption("--record-durations")))
    path = config.getoption("--record-gpu")
    if path and not hasattr(config, "workerinput"):  # a worker of xdist knows its own tests alone
        from gpu_record import GpuRecord

        config.pluginmanager.register(GpuRecord(path))


def required() -> set[str]:
    """The needs whose absence is a failure."""
    return {word.strip() for word in os.environ.get("REGARD_REQUIRE", "").split(",")} - {""}


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers():
        if marker.name not in NEEDS:
            continue
        reason = NEEDS[marker.name](*marker.args)
        if reason and marker.name in required():
            pytest.fail(f"REGARD_REQUIRE has {marker.name}, but {reason}", pytrace=False)
        if reason:
            # Properties travel with the report, also from the worker processes of xdist.
            item.user_properties.append(("need", marker.name))
            pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = Counter(
        (dict(report.user_properties).get("need", "-"), reason_of(report))
        for report in terminalreporter.stats.get("skipped", [])
    )
    if not skipped:
        return
    terminalreporter.section("skipped")
    terminalreporter.line(f"{'need':<10}{'tests':>5}  reason")
    for (need, reason), count in sorted(skipped.items()):
        terminalreporter.line(f"{need:<10}{count:>5}  {reason}")


def reason_of(report: pytest.TestReport) -> str:
    """The words given to `pytest.skip`, without what pytest puts before them."""
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return words.removeprefix("Skipped: ").strip()


@pytest.fixture(autouse=True)
def _same_random_numbers_in_every_test() -> Iterator[None]:
    random.seed(0)
    # Tests of the command line never import torch, and must not wait for it here.
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
    yield


@pytest.fixture
def own_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """No test that uses this touches the user's cache or data, unless it asks for real data."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if not request.node.get_closest_marker("data"):
        monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))


@pytest.fixture(scope="session")
def forks() -> multiprocessing.context.BaseContext:
    """Makes processes that have torch already: to load it takes longer than most scripts do."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([plain.__name__, *plain.LOADED])
    return context


@pytest.fixture
def in_a_plain_process(
    forks: multiprocessing.context.BaseContext, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], str]:
    """Runs a script where shapes are not checked at every call, as users and compilers have it."""

    def run(script: str) -> str:
        folder = tmp_path_factory.mktemp("plain")
        process = forks.Process(target=plain.run, args=(script, folder))
        process.start()
        process.join(300)
        assert process.exitcode == 0, (folder / "errors").read_text()[-3000:]
        return (folder / "out").read_text()

    return run


@pytest.fixture
def in_a_new_process() -> Callable[[str], str]:
    """Runs a script where nothing has been imported yet."""

    def run(script: str) -> str:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    from browser import Browser

    with Browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """A headless Chromium in which nobody has been before."""
    yield chromium
    chromium.forget()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Writes a document, opens it, and at the end demands that nothing went wrong in it."""
    from regard.visualization.document import write_document

    pages = []

    def open_document(document: Document, address: str = "", **options: Any) -> Page:
        path = tmp_path / f"page {len(pages)}.html"
        write_document(path, document)
        page = browser.open(path.as_uri() + address, **options)
        pages.append((page, path))
        return page

    yield open_document
    for page, path in pages:
        outside = [url for url in page.requests if not url.startswith(("data:", "blob:"))]
        page.close()
        assert page.errors == []
        assert {url.partition("#")[0] for url in outside} == {path.as_uri()}
