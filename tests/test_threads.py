"""A run takes the fewest threads that are about as fast as any, keeps them, and leaves ours be."""

import os
import subprocess
import sys
import time
import tomllib

import pytest
import torch

import regard as rg
from golden import expect_error
from regard.cli import SHORT_WAITS, let_threads_sleep
from regard.errors import FieldTypeError, UserError
from regard.training import threads as choosing
from regard.training.config import TrainConfig
from regard.training.estimate import correction
from regard.training.fit import Progress
from regard.training.threads import (
    compare_threads,
    fewest_of_the_fast,
    keeping_threads,
    threads_to_try,
)

TINY = {"model": {"width": 16, "layers": 1, "heads": 2, "mlp_width": 32}, "batch_size": 256}


@pytest.fixture(autouse=True)
def same_threads():
    with keeping_threads():
        yield


def test_auto_tries_one_thread_and_all_unless_somebody_has_said_how_many():
    torch.set_num_threads(2)
    assert threads_to_try("auto", {}) == [1, 2]
    assert threads_to_try("auto", {"OMP_NUM_THREADS": "2"}) == [2]
    assert threads_to_try("auto", {"MKL_NUM_THREADS": "2"}) == [2]
    assert threads_to_try(5, {"OMP_NUM_THREADS": "2"}) == [5]
    torch.set_num_threads(1)
    assert threads_to_try("auto", {}) == [1]


@pytest.mark.parametrize(
    "seconds, chosen",
    [({1: 1.0, 8: 0.4}, 8), ({1: 1.0, 8: 0.9}, 1), ({1: 1.0, 8: 5.0}, 1), ({3: 2.0}, 3)],
    ids=["faster", "a tie", "beside another process", "no choice"],
)
def test_more_than_the_fewest_threads_are_taken_only_where_they_pay(seconds, chosen):
    assert fewest_of_the_fast(seconds) == chosen


def test_numbers_of_threads_take_turns_and_one_lucky_step_does_not_decide(monkeypatch):
    monkeypatch.setattr(choosing, "ROUNDS", 5)
    seen = []

    def step():
        number = torch.get_num_threads()
        seen.append(number)
        lucky = len(seen) == 6  # the third step of two threads, as if the other process slept
        time.sleep(0.002 if number == 1 else 0.0 if lucky else 0.02)

    found = compare_threads([1, 2], step)
    assert seen == [1, 2] * 6  # the first of each is a warm-up
    assert found[2] > 4 * found[1] and fewest_of_the_fast(found) == 1


def test_a_slow_step_is_not_tried_more_often_than_needed(monkeypatch):
    monkeypatch.setattr(choosing, "TRIAL", 0.0)
    seen = []
    compare_threads([1, 2], lambda: seen.append(torch.get_num_threads()))
    assert seen == [1, 2, 1, 2]


@pytest.fixture
def pretended(monkeypatch):
    """The numbers of threads that torch is told, of which it takes no notice: two are slow here."""
    numbers = [3]
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: numbers[-1])
    return numbers


@pytest.mark.parametrize("several", [2, 1], ids="faster with {}".format)
def test_a_run_keeps_the_number_it_took_and_a_resumed_one_takes_it_again(
    several, tmp_path, monkeypatch, pretended
):
    out = tmp_path / "run"
    found = {n: 1.0 if n == several else 9.0 for n in (1, 2)}
    monkeypatch.setattr("regard.training.estimate.compare_threads", lambda numbers, step: found)
    rg.train("classify", epochs=1, out=out, device="cpu", quiet=True, report=False, **TINY)
    assert pretended == [3, several, 3]  # the caller's own in the end
    kept = tomllib.loads((out / "config.toml").read_text())["run"]["train"]["threads"]
    assert kept == several
    assert f"{several} of 2 threads" in (out / "log.txt").read_text()

    tried = []
    monkeypatch.setattr(
        "regard.training.estimate.compare_threads",
        lambda numbers, step: tried.append(numbers) or dict.fromkeys(numbers, 1.0),
    )
    rg.train("classify", out=out, resume=True, epochs=2, device="cpu", quiet=True, report=False)
    assert tried == [[several]] and pretended == [3, several, 3, several, several, 3]


def test_the_number_of_threads_is_nobodys_departure_from_a_recipe(tmp_path):
    out = tmp_path / "run"
    rg.train("classify", epochs=1, out=out, threads=1, quiet=True, report=False, **TINY)
    log = (out / "log.txt").read_text()
    assert "train.threads" not in log and "of 1 threads" not in log


@pytest.mark.parametrize("given", ["two", 0, 4096, -1, 1.5])
def test_threads_that_are_no_number_of_threads_are_refused(given, tmp_path):
    with pytest.raises(UserError, match=r"threads.*auto"):
        rg.train("classify", threads=given, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_configuration_takes_auto_or_a_number():
    assert TrainConfig(threads=2).threads == 2 and TrainConfig().threads == "auto"
    with expect_error(FieldTypeError, field="threads"):
        TrainConfig(threads="Auto")


# How threads wait


def test_the_command_asks_for_short_waits_unless_the_user_has_said_how_threads_wait(monkeypatch):
    for name in ("OMP_WAIT_POLICY", *SHORT_WAITS):
        monkeypatch.delenv(name, raising=False)
    let_threads_sleep()
    assert {name: os.environ[name] for name in SHORT_WAITS} == SHORT_WAITS
    for name in SHORT_WAITS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    let_threads_sleep()
    assert not set(SHORT_WAITS) & set(os.environ)


def test_importing_regard_sets_nothing_and_the_command_sets_it_before_torch_is_loaded():
    script = (
        "import os, sys; before = dict(os.environ); import regard; assert os.environ == before; "
        "import regard.cli as cli; assert os.environ == before; cli.main(['--version']); "
        "assert 'torch' not in sys.modules; print(os.environ.get('GOMP_SPINCOUNT'))"
    )
    clean = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", *SHORT_WAITS)}
    done = subprocess.run([sys.executable, "-c", script], env=clean, capture_output=True, text=True)
    assert done.stdout.split()[-1] == SHORT_WAITS["GOMP_SPINCOUNT"], done.stderr


# Estimates that turn out wrong


def spoken(expected: float, each: float, **options) -> list[str]:
    """What is said of a run of 10 epochs of 10 steps that take so long each."""
    words: list[str] = []
    report = correction(expected, 100, words.append, **options)
    for step in range(1, 101):
        epoch, batch = divmod(step, 10)
        report(Progress(epoch=epoch, batch=batch, step=step, seconds=step * each))
    return words


def test_an_estimate_that_is_wrong_by_twice_is_corrected_once_after_the_first_epoch():
    assert spoken(100.0, 1.9) == [] and spoken(100.0, 0.6) == []
    (slower,) = spoken(100.0, 3.0)
    assert slower == "the estimate was wrong: what is left takes about 4 min, not 2 min"
    (faster,) = spoken(100.0, 0.4)
    assert faster.endswith("about 36 s, not 2 min")


def test_an_estimate_that_is_off_by_a_moment_is_left_alone():
    assert spoken(0.1, 0.01) == []
