"""One grammar: dataclass → TOML → dataclass, dotted changes, and sentences for what is wrong."""

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import expect_error
from regard.config import build, change, parse_toml, read_toml, to_toml, to_values
from regard.errors import ConfigError
from regard.models import ViTConfig


@dataclass(frozen=True)
class Optimizer:
    lr: float = 1e-3
    name: Literal["adamw", "muon"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.95)


@dataclass(frozen=True)
class Recipe:
    name: str
    epochs: int = 5
    fast: bool = False
    data: Path | None = None
    steps: list[int] = field(default_factory=list)
    model: ViTConfig = field(default_factory=ViTConfig)
    optimizer: Optimizer = field(default_factory=Optimizer)


def test_what_is_written_is_read_back(tmp_path):
    recipe = Recipe(
        'näme "quoted" \\ \n tab\t',
        epochs=50,
        fast=True,
        data=Path("somewhere/else"),
        steps=[1, 2],
        model=ViTConfig(width=128, heads=8, mask="window(4) | global_tokens(1)", kv_heads=2),
        optimizer=Optimizer(lr=3e-4, name="muon", betas=(0.8, 1.0)),
    )
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(recipe), encoding="utf-8")
    assert read_toml(Recipe, path) == recipe
    assert "[model]" in to_toml(recipe) and "mlp_width" not in to_toml(recipe)  # None is left out


@given(
    st.text(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False),
    st.lists(st.integers(0, 99)),
    st.booleans(),
)
def test_any_value_survives_the_file(name, epochs, rate, steps, fast):
    import tomllib

    recipe = Recipe(name, epochs, fast, steps=steps, optimizer=Optimizer(lr=rate))
    assert build(Recipe, tomllib.loads(to_toml(recipe))) == recipe


def test_what_is_left_out_keeps_its_default():
    assert build(Recipe, {"name": "a", "model": {"width": 32}}) == Recipe(
        "a", model=ViTConfig(width=32)
    )


def test_dotted_names_change_one_field_as_a_flag_would():
    recipe = Recipe("a")
    changed = change(recipe, {"model.width": "128", "optimizer.lr": "1e-2", "fast": "true"})
    assert changed.model.width == 128 and changed.optimizer.lr == 0.01 and changed.fast is True
    assert changed == dataclasses.replace(
        recipe,
        fast=True,
        model=ViTConfig(width=128),
        optimizer=Optimizer(lr=0.01),
    )
    assert change(changed, {"model.mask": "none"}).model.mask is None
    assert recipe == Recipe("a")


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"nam": "a"}, "nam"),
        ({"name": "a", "model": {"widht": 3}}, "model.widht"),
        ({"name": "a", "zzz": 1}, "zzz"),
        ({}, "name"),
        ({"name": 3}, "name"),
        ({"name": "a", "epochs": 2.5}, "epochs"),
        ({"name": "a", "epochs": True}, "epochs"),
        ({"name": "a", "epochs": "many"}, "epochs"),
        ({"name": "a", "fast": "maybe"}, "fast"),
        ({"name": "a", "model": 3}, "model"),
        ({"name": "a", "steps": [1, "x"]}, "steps[1]"),
        ({"name": "a", "optimizer": {"lr": "fast"}}, "optimizer.lr"),
        ({"name": "a", "optimizer": {"name": "adam"}}, "optimizer.name"),
        ({"name": "a", "optimizer": {"betas": [1.0]}}, "optimizer.betas"),
        ({"name": "a", "model": {"width": 100, "heads": 6}}, "model.width"),
        ({"name": "a", "model": {"kv_heads": "few"}}, "model.kv_heads"),
    ],
    ids=str,
)
def test_a_wrong_value_is_one_sentence_with_its_key_and_file(values, key):
    with expect_error(ConfigError, key=key, file="recipe.toml"):
        build(Recipe, values, source="recipe.toml")


def test_whole_numbers_serve_as_numbers_and_the_ends_of_the_scale_are_numbers():
    assert build(Optimizer, {"lr": 1}).lr == 1.0
    assert math.isinf(build(Optimizer, {"lr": "inf"}).lr)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with expect_error(ConfigError, file="missing.toml"):
        parse_toml(tmp_path / "missing.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("a = 1\nb = \n", encoding="utf-8")
    with expect_error(ConfigError, file="bad.toml"):
        parse_toml(bad)
    bad.write_bytes(b"a = '\xff'")
    with expect_error(ConfigError, file="bad.toml"):
        parse_toml(bad)
    with expect_error(ConfigError):
        parse_toml(tmp_path)


def test_a_mark_of_its_encoding_may_begin_a_file(tmp_path):
    marked = tmp_path / "notepad.toml"
    marked.write_bytes("\ufeffepochs = 3\n".encode())
    assert parse_toml(marked) == {"epochs": 3}


def test_a_dotted_name_that_leads_nowhere_is_refused():
    with expect_error(ConfigError, key="modle"):
        change(Recipe("a"), {"modle.width": 3})
    with expect_error(ConfigError, key="epochs"):
        change(Recipe("a"), {"epochs.more": 3})


def test_values_come_in_the_order_of_the_fields():
    assert list(to_values(Recipe("a"))) == [f.name for f in dataclasses.fields(Recipe)]
