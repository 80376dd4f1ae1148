"""Sizes that no machine has are refused in a sentence, before anything is read or built."""

import json
import shutil
import time
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import regard as rg
from golden import expect_error
from regard.cli import main
from regard.config import change
from regard.count.closed import costs
from regard.count.formulas import NUMBER, Sizes, held_bytes, total
from regard.count.subjects import sizes_for
from regard.errors import ConfigError, FieldError, UserError
from regard.hardware import memory
from regard.hardware.memory import cgroup_limits, machine_memory
from regard.models import (
    MODELS,
    BertConfig,
    BertForPretrainingConfig,
    CaptionerConfig,
    DaViTConfig,
    GPTConfig,
    Seq2SeqConfig,
    TextClassifierConfig,
    ViTConfig,
)
from regard.models.sizes import (
    in_bytes,
    largest_fields,
    numbers_held,
    numbers_in,
    parameters,
    random_features,
)
from regard.runs.run import Run
from regard.tasks import TASKS, bounds, find

CPU = torch.device("cpu")
ROOM = 25 * 10**9
HARMLESS = {
    "epochs": "they come one after another, and are told beforehand",
    "eval_every": "it only makes measuring rarer",
    "patience": "it only makes stopping rarer",
    "warmup_steps": "the learning rate only rises more slowly",
    "seed": "any number starts the random ones",
    "grad_accum_steps": "a step ends with its epoch",
    "batch_size": "there are only so many data, and a step of all is reckoned with once they are "
    "read",
    "batch_tokens": "so are those that are batched by their tokens",
    "min_frequency": "nothing is so frequent, and the vocabulary small",
    "tokenizer.vocab_size": "there are only so many words",
    "crop_padding": "it moves a window, which is as large as the image",
    "window_size": "a window is at most the grid",
    "no_repeat_ngram_size": "no text has so many words",
    "max_length_extra": "a translation ends with the positions of the model",
    "max_new_tokens": "a text ends with the window of the model",
    "top_k": "there are only so many words",
}
ONCE_READ = {
    ("classify-text", "max_train_samples"): "there are only so many texts",
    ("translate", "model.context_length"): "it follows `max_length`, and is to be left out",
    ("classify-text", "model.context_length"): "it follows `max_length`, and is to be left out",
    ("pretrain-bert", "model.context_length"): "it follows `max_length`, and is to be left out",
}


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 25 GB, whichever this is."""
    monkeypatch.setattr("regard.models.sizes.machine_memory", lambda: ROOM)
    monkeypatch.setattr("regard.hardware.device.machine_memory", lambda: ROOM)


CONFIGS: list[Any] = [
    *(entry.config() for entry in MODELS.values()),
    ViTConfig(
        stem="conv", pool="mean", pos_embed="rope", patch_size=8, head_hidden=(32, 16), channels=1
    ),
    ViTConfig(
        stem="conv",
        patch_size=1,
        image_size=8,
        pos_embed="sinusoidal",
        width=20,
        heads=5,
        mlp_width=7,
    ),
    ViTConfig(patch_norm=True, kv_heads=2, activation="swiglu", norm="rmsnorm", norm_first=False),
    ViTConfig(attention="linear(learned)", pool="mean", bias=False, layers=2),
    ViTConfig(attention="linear(random(16))", layers=1, num_classes=3),
    DaViTConfig(
        widths=(12, 24, 48),
        depths=(2, 1, 3),
        heads=(2, 3, 4),
        overlapping_downsample=True,
        mlp_ratio=2,
    ),
    DaViTConfig(patch_size=4, channels=1, image_size=64, num_classes=2),
    GPTConfig(tie_embeddings=False, pos_embed="rope", vocab_size=50, context_length=9),
    GPTConfig(norm_first=False, norm="rmsnorm", activation="swiglu", bias=False),
    Seq2SeqConfig(
        encoder_layers=2,
        layers=3,
        vocab_size=40,
        tie_embeddings=False,
        norm_first=False,
        kv_heads=1,
    ),
    CaptionerConfig(encoder_width=17, vocab_size=30, pos_embed="sinusoidal"),
    CaptionerConfig(
        encoder=ViTConfig(head_hidden=(9,), num_classes=7, image_size=16),
        attention="linear(learned)",
    ),
    BertConfig(pooler=True, token_types=3, pos_embed="none", norm="rmsnorm"),
    TextClassifierConfig(ngram_buckets=100, pooler=True, num_classes=5, norm_first=True),
    BertForPretrainingConfig(pair_tasks=("nsp", "inversion"), vocab_size=77),
    BertForPretrainingConfig(pooler=True, activation="swiglu"),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_parameters_are_those_of_the_model_and_of_the_closed_form(config: Any) -> None:
    build = next(entry.build for entry in MODELS.values() if type(config) is entry.config)
    with torch.device("meta"):
        model = build(**{field.name: getattr(config, field.name) for field in fields(config)})
    built = sum(weight.numel() for weight in model.parameters())
    assert parameters(config) == built
    assert parameters(config) == total(
        costs(config, Sizes(tokens=4, encoder_tokens=4)), "parameters"
    )


def tries() -> list[tuple[str, str, Any]]:
    """Every whole number of every task's configuration, with the configuration it stands in."""
    found = []
    for task in TASKS:
        kinds = [find(task).load().config()]
        if task == "classify":
            kinds.append(change(kinds[0], {"kind": "davit"}))
        for config in kinds:
            idle = [
                name for name in ("model", "davit") if name != getattr(config, "table", "model")
            ]
            hints = dict(numbers_in(config))
            found += [(task, name, config) for name in hints if name.split(".")[0] not in idle]
    return found


@pytest.mark.parametrize("large", [10**9, 10**12, 10**30])
def test_an_absurd_number_in_any_field_is_refused_by_name_at_once(large: int) -> None:
    accepted = set()
    for task, name, config in tries():
        value = change_to(config, name, large)
        began = time.perf_counter()
        try:
            bounds.expect_room(find(task).load(), change(config, {name: value}), CPU)
        except UserError as trouble:
            assert name.split(".")[-1] in str(trouble), (task, name)
        else:
            accepted.add((task, name))
        assert time.perf_counter() - began < 1, (task, name)
    if large >= 2**63:
        assert not accepted
    known = {(task, name) for task, name in accepted if is_harmless(name)}
    assert accepted - known - set(ONCE_READ) == set()


def change_to(config: Any, name: str, large: int) -> Any:
    now = dict(numbers_in(config))[name]
    return (large,) * max(1, len(now)) if isinstance(now, tuple) else large


def is_harmless(name: str) -> bool:
    return name in HARMLESS or name.split(".")[-1] in HARMLESS


def test_every_whole_number_was_tried() -> None:
    """Fields that are declared as whole numbers, whatever their default is."""
    tried = {name for _, name, _ in tries()}

    def declared(config: Any, under: str = "") -> set[str]:
        found = set()
        for field in fields(config):
            value = getattr(config, field.name)
            if is_dataclass(value):
                found |= declared(value, f"{under}{field.name}.")
            elif "int" in str(field.type).replace("Interval", "") and value != "auto":
                found.add(under + field.name)
        return found

    for task in TASKS:
        assert declared(find(task).load().config()) - tried <= {"train.threads"}


def test_train_refuses_before_it_reads(tmp_path: Path) -> None:
    with expect_error(ConfigError, key="model.width"):
        rg.train("classify", data="not there", model={"width": 10**9}, root=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_command_says_it_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["train", "language", "--model.layers", "1000000", "--out", str(tmp_path / "run")]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said == "regard: model.layers = 1000000: at most 4,096 layers are built\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (ViTConfig(width=10**9), ""),
        (GPTConfig(vocab_size=10**12), ""),
        (BertConfig(context_length=10**10), ""),
        (DaViTConfig(widths=(4, 10**9), heads=(2, 4)), ""),
        (DaViTConfig(depths=(1, 10**6)), "depths"),
        (Seq2SeqConfig(encoder_layers=10**6), "encoder_layers"),
        (CaptionerConfig(encoder=ViTConfig(layers=10**6)), "encoder.layers"),
        (GPTConfig(attention="linear(random(count=10000000))"), "attention"),
        (TextClassifierConfig(ngram_buckets=10**11, num_classes=9), ""),
    ],
)
def test_a_model_of_the_library_is_refused_before_its_first_weight(config: Any, name: str) -> None:
    entry = next(entry for entry in MODELS.values() if type(config) is entry.config)
    began = time.perf_counter()
    with expect_error(FieldError, field=name) if name else expect_error(ValueError):
        entry.build(**vars(config))
    assert time.perf_counter() - began < 1


def test_without_memory_a_model_may_be_of_any_size() -> None:
    with torch.device("meta"):
        assert rg.ViT(ViTConfig(width=2**20, layers=1)).head.in_features == 2**20


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bounds")
    run = rg.train(
        "classify",
        model={"width": 8, "layers": 1, "heads": 2, "image_size": 8},
        epochs=1,
        root=root,
        report=False,
        quiet=True,
        threads=1,
    )
    return run.folder.path


def edited(run: Path) -> Run:
    """A run as its files are now, whatever they were."""
    return rg.load(run, device="cpu", accept_edits=True)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("width = 8", "width = 1000000000"),
        ("layers = 1", "layers = 1000000"),
        ("layers = 1", "layers = 3000"),
        ("num_classes = 10", "num_classes = 1000000000"),
        ("width = 8", f"width = 1{'0' * 30}"),
        ("width = 8", f"width = 1{'0' * 5000}"),
        ("width = 8", f"width = {'[' * 100_000}"),
    ],
)
def test_a_foreign_run_is_refused_before_its_model_is_built(
    trained: Path, tmp_path: Path, line: str, other: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    text = (run / "config.toml").read_text(encoding="utf-8")
    assert line in text
    (run / "config.toml").write_text(text.replace(line, other, 1), encoding="utf-8")
    began = time.perf_counter()
    with expect_error((ConfigError, UserError)) as trouble:
        edited(run).model  # noqa: B018
    assert time.perf_counter() - began < 1
    assert str(run) in str(trouble.value)


@pytest.mark.parametrize(
    "facts",
    [
        {"size": 10**6},
        {"size": 16},
        {"classes": ["a"]},
        {"classes": 3},
        {"mean": [0.5, 0.5]},
        {"deviation": [0.0]},
        {"deviation": ["x"]},
        {"channels": 10**400},
        {"images": [1, 2]},
    ],
)
def test_facts_that_are_not_of_this_run_are_refused(
    trained: Path, tmp_path: Path, facts: dict[str, Any]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    kept = json.loads((run / "data.json").read_text(encoding="utf-8"))
    (run / "data.json").write_text(json.dumps(kept | facts), encoding="utf-8")
    with expect_error((ConfigError, UserError)) as trouble:
        edited(run).metadata  # noqa: B018
    assert str(run / "data.json") in str(trouble.value)


def test_a_batch_counts_once_its_data_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    task = find("classify").load()
    config = change(task.config(), {"batch_size": 10**9})
    data = task.load_data(config)
    config = task.resolve(config, data)
    bounds.expect_room(task, config, CPU, data)  # of digits there are 1,437: that fits
    monkeypatch.setattr("regard.hardware.device.machine_memory", lambda: 2 * 10**8)
    with expect_error(ConfigError, key="batch_size"):
        bounds.expect_room(task, config, CPU, data)
    bounds.expect_room(task, replace(config, batch_size=16), CPU, data)


def test_a_model_of_somebody_elses_is_left_to_the_estimate() -> None:
    task = find("classify").load()
    config = replace(task.config(), batch_size=2)
    object.__setattr__(config, "model", Place())
    bounds.expect_room(task, config, CPU)
    bounds.expect_match(config, {"table": (3, 4)}, "model.safetensors")


class Place:
    """A configuration that nobody knows the parameters of."""


def test_images_that_memory_does_not_hold_are_not_resized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.tasks.classify.data.machine_memory", lambda: 10**8)
    with expect_error(ConfigError, key="model.image_size"):
        task = find("classify").load()
        task.load_data(change(task.config(), {"model.image_size": 512, "model.patch_size": 64}))


def test_more_batches_than_an_epoch_has_are_one_step(tmp_path: Path) -> None:
    run = rg.train(
        "classify",
        model={"width": 8, "layers": 1, "heads": 2, "image_size": 8},
        batch_size=512,
        root=tmp_path,
        epochs=1,
        report=False,
        quiet=True,
        threads=1,
        **{"train.grad_accum_steps": 10**12},
    )
    assert run.metrics[-1]["step"] == 1


def test_fields_that_make_a_model_large_are_named_largest_first() -> None:
    config = ViTConfig(width=4096, layers=200, num_classes=11)
    assert [name for name, _ in largest_fields(config, parameters)] == ["width", "layers"]
    assert largest_fields(ViTConfig(layers=15), parameters) == [("layers", 15)]
    assert largest_fields(ViTConfig(), parameters) == []


@pytest.mark.parametrize(
    ("count", "words"),
    [(999, "999 bytes"), (10**6, "1.0 MB"), (25 * 10**9, "25 GB"), (3 * 10**20, "3.0e08 TB")],
)
def test_bytes_are_told_with_few_digits(count: int, words: str) -> None:
    assert in_bytes(count) == words


@pytest.mark.parametrize(
    ("expression", "count"),
    [("softmax", 0), ("linear(random(7))", 7), ("linear(random(count=9))", 9), ("((", 0)],
)
def test_random_features_are_counted_in_their_expression(expression: str, count: int) -> None:
    assert random_features(expression) == count


def test_memory_is_what_the_process_was_confined_to(tmp_path: Path) -> None:
    found = machine_memory()
    assert found is not None and 10**8 < found < 10**15
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "a/memory.max").write_text("3000\n")
    (tmp_path / "a/b/memory.max").write_text("5000\n")
    (tmp_path / "memory/c").mkdir(parents=True)
    (tmp_path / "memory/c/memory.limit_in_bytes").write_text("2000\n")
    groups = tmp_path / "groups"
    groups.write_text("0::/a/b\n4:cpu,memory:/c\n5:pids:/a\n")
    assert sorted(cgroup_limits(tmp_path, groups)) == [2000, 3000, 5000]
    assert list(cgroup_limits(tmp_path, tmp_path / "none")) == []


def test_the_least_of_all_limits_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "cgroup_limits", lambda: iter([10**6, 0]))
    assert machine_memory() == 10**6


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_what_a_step_holds_is_never_overrated(config: Any) -> None:
    """Or a training that fits would be refused: the closed form has what is held to the number."""
    sizes = sizes_for(config, 3, 4 if hasattr(config, "vocab_size") else None)
    if isinstance(config, CaptionerConfig):
        seen = sizes.encoder_tokens if config.encoder_width is None else 0
        least = numbers_held(config.encoder, 3 * seen) + numbers_held(config, 3 * sizes.tokens)
    elif isinstance(config, Seq2SeqConfig):
        least = numbers_held(config, 3 * (sizes.tokens + sizes.encoder_tokens))
    else:
        least = numbers_held(config, 3 * sizes.tokens)
    assert 0 < NUMBER * least <= held_bytes(costs(config, sizes))
