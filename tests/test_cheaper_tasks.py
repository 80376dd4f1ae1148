"""Quality at equal budget: what is compared, and one small comparison of each kind."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.experiments import cheaper_gpt as texts
from benchmarks.experiments import cheaper_vit as images
from golden import expect_error
from regard.attention import Mask
from regard.errors import UserError
from regard.models.config import GPTConfig
from regard.models.gpt import GPT
from regard.runs import sweep as side_by_side
from regard.runs.sweep import configured, worked
from results_page import records
from results_page.cheaper import cheaper


def test_sparse_choices_read_about_as_many_patches_each() -> None:
    grid = range(64)  # without the class token
    for name, choice in images.choices(images.Cheaper()).items():
        if "model.mask" in choice.changes:
            mask = Mask.parse(choice.changes["model.mask"])
            read = mask(grid, grid).sum(-1).double()
            assert 12 <= read.mean() <= 18.1, name
            assert mask(range(65), range(65))[64].all(), name  # the class token reads all
            assert mask(range(65), range(65))[:, 64].all(), name


def test_without_a_class_token_the_first_patch_is_where_tokens_meet(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('data = "digits"\n[model]\nimage_size = 8\npatch_size = 2\npool = "mean"\n')
    chosen = images.choices(images.Cheaper(recipe=str(own)))
    assert chosen["dilated"].words == "dilated(4, 3) | global_tokens(1)"


def test_masks_follow_the_patch_that_is_asked_for() -> None:
    chosen = images.choices(images.Cheaper(patch_size=2, epochs=7))
    assert chosen["axial"].changes["model.mask"] == "axial((16, 16))"
    for name, choice in chosen.items():
        _, config = configured("classify", choice.recipe, choice.changes)
        assert config.train.epochs == 7
        if name == "davit":
            assert config.kind == "davit"
        else:
            assert config.model.patch_size == 2


def test_davit_has_about_as_many_parameters_and_is_trained_alike() -> None:
    chosen = images.choices(images.Cheaper())
    full, davit = (configured("classify", chosen[name].recipe, {})[1] for name in ("full", "davit"))
    assert (full.train, full.augment, full.batch_size) == (
        davit.train,
        davit.augment,
        davit.batch_size,
    )


def test_a_recipe_for_another_model_is_refused() -> None:
    with expect_error(UserError):
        images.choices(images.Cheaper(recipe="cifar10-davit"))


def test_a_choice_that_there_is_not_is_refused() -> None:
    with expect_error(SystemExit):
        images.main(images.Cheaper(recipe="digits", variants=("window",)))


def test_a_record_that_cannot_be_written_is_refused_before_anything_is_trained() -> None:
    with expect_error(SystemExit):
        images.main(images.Cheaper(recipe="digits", record=Path("/nowhere/a.json")))


def test_what_fails_is_said_and_what_does_not_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(module: str, jobs: dict[str, list[str]], *_: object, **__: object) -> Iterator[Any]:
        assert list(jobs) == ["full, seed 0", "axial, seed 0"]
        yield [{"choice": "full", "words": "all", "accuracy": 0.5, "parameters": 7, "flops": 9}]
        raise RuntimeError("axial, seed 0: no")

    monkeypatch.setattr(side_by_side, "in_processes", half)
    monkeypatch.setattr(side_by_side, "timed", lambda how, what, chosen: {"full": {}})
    monkeypatch.setattr(side_by_side, "table", lambda lines, told: "a table")
    record = tmp_path / "a.json"
    with pytest.raises(RuntimeError, match="axial, seed 0: no"):
        images.main(
            images.Cheaper(
                recipe="digits", seeds=1, device="cpu", variants=("full", "axial"), record=record
            )
        )
    assert [line["choice"] for line in json.loads(record.read_text())["summary"]] == ["full"]
    assert record.with_suffix(".png").is_file()


def test_longer_windows_leave_as_many_tokens_in_a_batch() -> None:
    chosen = texts.choices(texts.Cheaper())
    for name, choice in chosen.items():
        _, config = configured("language", choice.recipe, choice.changes)
        assert config.model.context_length == 1024 and config.batch_size * 1024 == 32 * 128, name
    assert chosen["strided"].words == "causal & (window(64) | strided(64))"
    assert chosen["sinks"].words == "causal & (window(32) | sinks(4))"


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        ({}, 2 * 20 * 16),  # keys and values of 20 tokens
        ({"mask": "causal & window(5)"}, 2 * 5 * 16),
        ({"attention": "linear"}, 2 * 8 * (8 + 1)),  # two heads' sums, 8 features of 8 numbers
        ({"attention": "linear(learned)"}, 2 * 16 * (8 + 1)),  # 16 features
    ],
)
def test_what_is_kept_is_counted_as_by_hand(changes: dict[str, str], numbers: int) -> None:
    config = GPTConfig(vocab_size=7, context_length=20, width=16, layers=3, heads=2, **changes)
    assert texts.kept_bytes(GPT(config), 20) == 3 * 4 * numbers


def test_a_small_comparison_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "TURN", 0.01)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    record = tmp_path / "cheaper.json"
    how = images.Cheaper(
        recipe="digits", seeds=1, epochs=1, device="cpu", variants=("axial",), record=record
    )
    images.main(how)
    facts = json.loads(record.read_text())
    assert facts["command"] == (
        "python -m benchmarks.experiments.cheaper_vit --recipe digits --device cpu --epochs 1 "
        "--seeds 1 --variants axial"
    )
    (found,) = facts["rows"]
    assert (found["choice"], found["seed"], found["split"]) == ("axial", 0, "test")
    assert 0.2 < found["accuracy"] < 1 and found["epochs"] == 1
    (line,) = facts["summary"]
    assert line["items_per_second"] > 0 and line["flops"] > 1e6 and "peak_bytes" not in line
    assert record.with_suffix(".png").is_file()


def test_a_small_language_model(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question. " * 150)
    how = texts.Cheaper(
        recipe="docstrings",
        context_length=32,
        epochs=1,
        device="cpu",
        data=str(text),
        runs=tmp_path,
    )
    found = worked(how, texts.COMPARED, "sinks", texts.choices(how)["sinks"], 0)
    assert found["words"] == "causal & (window(2) | sinks(4))" and found["split"] in (
        *("validation", "test"),
    )
    assert 0 < found["loss"] < 4 and 0 < found["bits_per_byte"] < 6
    assert found["kept_bytes"] == 4 * 2 * (4 + 2) * 128 * 4  # sinks, and the window
    # Two of 12 · width² weights a layer and token are the least that it can take.
    assert 2 * 12 * 128**2 * 4 < found["flops"] < 2.2 * 12 * 128**2 * 4
    assert torch.tensor(found["validation"]).isfinite()


def test_the_page_of_results_has_a_table_once_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    assert cheaper() == []

    shared = {"choice": "axial", "words": "axial((8, 8))", "seeds": 3, "parameters": 1234}
    shared |= {"flops": 5_000_000, "items_per_second": 2e5, "peak_bytes": 3e7}
    spread = {"mean": 0.5, "low": 0.4, "high": 0.6}
    facts = dict.fromkeys(("command", "device", "torch", "python", "commit", "date"), "x")
    for name, figures in {
        "cheaper-a": {"accuracy": spread},
        "cheaper-b": {"loss": spread, "bits_per_byte": spread, "kept_bytes": 4000},
    }.items():
        text = json.dumps({**facts, "summary": [{**shared, **figures}]})
        (tmp_path / f"{name}.json").write_text(text)
    said = "\n".join(cheaper())
    assert (
        "| axial | `axial((8, 8))` | 50.0% (40.0% to 60.0%) | 1,234 | 5.00 | 200,000 | 30 |" in said
    )
    assert "| 0.500 (0.400 to 0.600) | 1,234 | 5.00 | 200,000 | 30 | 0.500 | 4 |" in said
    for line in said.splitlines():  # every row as wide as its head
        if line.startswith("|"):
            assert line.count(" | ") in (6, 8)
