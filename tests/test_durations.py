"""Tests that are slow or train are marked from a record, and others are held to a limit."""

import subprocess
import sys
from pathlib import Path

from durations import Cost, lines_of

HERE = Path(__file__).parent

CONFTEST = """
from pathlib import Path
import durations
durations.LIMIT = 0.1
def pytest_configure(config):
    config.addinivalue_line("markers", "slow")
    config.addinivalue_line("markers", "trains")
    config.addinivalue_line("markers", "cuda")
    config.pluginmanager.register(durations.Durations(None, Path("slow.txt")), "durations")
def pytest_collection_finish(session):
    marked = [each.name for each in session.items if {*each.keywords} & {"slow", "trains"}]
    Path("marked").write_text(" ".join(marked))
"""

TESTS = """
import time
from functools import cache
import pytest

def burn():
    began = time.process_time()
    while time.process_time() - began < 0.2: pass

@cache
def dear(): burn()

@pytest.fixture(scope="module")
def shared(): burn()

@pytest.fixture(scope="module")
def trained(): burn()

@pytest.fixture
def step(request): return request.config.pluginmanager.get_plugin("durations").count_step

def test_recorded(): burn()
def test_slow(): burn()
def test_first_of_several(): dear()
@pytest.mark.cuda
def test_on_a_gpu(): burn()
def test_idle(): time.sleep(0.3)
def test_shares(shared): pass
def test_uses_what_is_recorded(trained): pass
def test_two_steps(step): step(), step()
def test_three_steps(step): step(), step(), step()
@pytest.mark.trains
def test_known_to_train(step): step(), step(), step()
"""


def test_what_costs_much_must_be_marked_and_what_is_recorded_is(tmp_path, monkeypatch):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "slow.txt").write_text(
        "# why\ntest_it.py::test_recorded: slow\ntest_it.py::trained: slow trains\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert failed == ["test_it.py::test_slow", "test_it.py::test_three_steps"], done.stdout
    assert "s of processor time and 0 optimizer steps, and is not marked slow" in done.stdout
    assert "and 3 optimizer steps, and is not marked trains" in done.stdout
    marked = (tmp_path / "marked").read_text().split()
    assert marked == ["test_recorded", "test_uses_what_is_recorded", "test_known_to_train"]


def test_the_record_has_a_line_a_function_with_the_marks_of_its_dearest_case():
    measured = {
        "tests/test_x.py::test_a[1]": Cost(0.1, 0),
        "tests/test_x.py::test_a[2]": Cost(0.7, 0),
        "tests/test_x.py::test_b": Cost(0.1, 3),
        "tests/test_x.py::test_c": Cost(0.1, 2),
        "tests/test_x.py::run": Cost(3.0, 40),
    }
    assert list(lines_of(measured)) == [
        "tests/test_x.py::run: slow trains",
        "tests/test_x.py::test_a: slow",
        "tests/test_x.py::test_b: trains",
    ]
