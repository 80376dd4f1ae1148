"""The tiny runs of all tasks answer as they are recorded to: nothing but names has changed."""

import json
import subprocess
import sys

import pytest

import digests
from regard.tasks import TASKS

pytestmark = [pytest.mark.slow, pytest.mark.trains]


@pytest.fixture(scope="module")
def now():
    """Measured where shapes are not checked at every call, which takes half as long."""
    command = [sys.executable, digests.__file__, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def recorded():
    return json.loads(digests.RECORD.read_text(encoding="utf-8"))


def test_every_task_is_recorded(recorded):
    assert list(recorded["tasks"]) == list(digests.CASES) and set(digests.CASES) == set(TASKS)


@pytest.mark.parametrize("task", digests.CASES)
def test_a_tiny_run_is_the_one_that_is_recorded(task, recorded, now):
    """To the last bit; with another torch or on another CPU even the first weights may differ."""
    if recorded["machine"] != now["machine"]:
        pytest.skip(f"recorded with {recorded['machine']}, and here is {now['machine']}")
    ours, theirs = now["tasks"][task], recorded["tasks"][task]
    assert digests.differences(theirs, ours, exact=True) == []
    assert ours["without_names"] == theirs["without_names"]


@pytest.mark.parametrize("exact", [True, False], ids=["in bits", "in digits"])
def test_other_weights_and_figures_are_found(recorded, exact):
    old = recorded["tasks"]["classify"]
    new = json.loads(json.dumps(old))
    assert digests.differences(old, new, exact=exact) == []
    weight, figure = next(iter(new["weights"])), "accuracy.value"
    new["weights"][weight] |= {"digest": "0", "sum": old["weights"][weight]["sum"] + 0.1}
    new["figures"][figure] += 0.01
    found = digests.differences(old, new, exact=exact)
    assert [line.partition(":")[0] for line in found] == [f"figures {figure}", f"weight {weight}"]
    assert digests.without_names(new) != digests.without_names(old)


def test_other_names_alone_are_told_from_other_values(recorded):
    old = recorded["tasks"]["classify"]
    new = json.loads(json.dumps(old))
    new["weights"] = {f"renamed.{name}": each for name, each in reversed(old["weights"].items())}
    assert digests.renamed(old, new) == [
        "weights: the same values under other names",
        *(f"{part}: the same" for part in ("metrics", "figures", "predictions")),
    ]
    new["predictions"][0]["input"] = "another"
    assert "predictions: DIFFERENT" in digests.renamed(old, new)
