"""A skip is never silent: the table at the end has it, or it fails where the need is required."""

import json
from pathlib import Path

import pytest
import torch

pytest_plugins = ["pytester"]

HERE = Path(__file__).parent


@pytest.fixture
def tests_with_needs(pytester, monkeypatch):
    """A folder with our conftest, on a machine without a GPU and without data."""
    pytester.makeconftest((HERE / "conftest.py").read_text(encoding="utf-8"))
    monkeypatch.delenv("REGARD_REQUIRE", raising=False)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def write(*needs):
        # Put together here, because whole markers are what .ci/run and the Makefile search for.
        tests = (
            f"@pytest.mark.{need}\ndef test_{i}():\n    pass\n" for i, need in enumerate(needs)
        )
        pytester.makepyfile("import pytest\n" + "\n".join(tests))

    return write


def test_a_missing_need_skips_and_the_table_says_why(tests_with_needs, pytester):
    tests_with_needs("cuda", "cuda", "data('cifar10')")
    result = pytester.runpytest("--strict-markers")
    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines(
        ["*= skipped =*", "need * tests  reason", "cuda * 2  torch * sees no CUDA device"]
    )
    result.stdout.fnmatch_lines(["data * 1  cifar10: REGARD_DATA is not set"])


def test_a_run_without_skips_has_no_table(tests_with_needs, pytester):
    tests_with_needs("filterwarnings('default')")
    result = pytester.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*= skipped =*")


def test_a_required_need_that_is_missing_fails(tests_with_needs, pytester, monkeypatch):
    monkeypatch.setenv("REGARD_REQUIRE", "cuda")
    tests_with_needs("cuda", "data('cifar10')")
    result = pytester.runpytest()
    # pytest calls a failure before the body an error.
    result.assert_outcomes(errors=1, skipped=1)
    result.stdout.fnmatch_lines(["*REGARD_REQUIRE has cuda, but torch * sees no CUDA device*"])


def test_requiring_something_unknown_is_an_error(tests_with_needs, pytester, monkeypatch):
    monkeypatch.setenv("REGARD_REQUIRE", "java, abacus")
    tests_with_needs("cuda")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*REGARD_REQUIRE names abacus; known are java, chromium, *"])


def test_data_is_found_by_name(tests_with_needs, pytester, monkeypatch):
    pytester.mkdir("cifar10")
    monkeypatch.setenv("REGARD_DATA", str(pytester.path))
    tests_with_needs("data('cifar10')", "data('mnist')")
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["data * 1  mnist is not in REGARD_DATA (*"])


def test_a_gpu_run_is_recorded(tests_with_needs, pytester, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a card")
    tests_with_needs("cuda", "data('cifar10')", "usefixtures('no_such_fixture')")
    pytester.runpytest("--record-gpu", "results/gpu.json")
    record = json.loads((pytester.path / "results" / "gpu.json").read_text(encoding="utf-8"))
    assert [test["outcome"] for test in record["tests"]] == ["passed", "skipped", "failed"]
    assert (record["passed"], record["failed"], record["skipped"]) == (1, 1, 1)
    assert (record["device"], record["torch"]) == ("a card", torch.__version__)


def test_a_run_without_a_card_leaves_the_record_alone(tests_with_needs, pytester):
    tests_with_needs("cuda")
    pytester.runpytest("--record-gpu", "gpu.json")
    assert not (pytester.path / "gpu.json").exists()
