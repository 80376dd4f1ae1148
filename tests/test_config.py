"""One grammar: dataclass → TOML → dataclass, dotted changes, and sentences for what is wrong."""

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import build, change, parse_toml, read_toml, to_toml, to_values
from regard.errors import UserError
from regard.model import ViTConfig


@dataclass(frozen=True)
class Optimiser:
    rate: float = 1e-3
    kind: Literal["adamw", "muon"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.95)


@dataclass(frozen=True)
class Recipe:
    name: str
    epochs: int = 5
    fast: bool = False
    data: Path | None = None
    steps: list[int] = field(default_factory=list)
    model: ViTConfig = field(default_factory=ViTConfig)
    optimiser: Optimiser = field(default_factory=Optimiser)


def test_what_is_written_is_read_back(tmp_path):
    recipe = Recipe(
        'näme "quoted" \\ \n tab\t',
        epochs=50,
        fast=True,
        data=Path("somewhere/else"),
        steps=[1, 2],
        model=ViTConfig(width=128, heads=8, mask="window(4) | everywhere(1)", groups=2),
        optimiser=Optimiser(rate=3e-4, kind="muon", betas=(0.8, 1.0)),
    )
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(recipe), encoding="utf-8")
    assert read_toml(Recipe, path) == recipe
    assert "[model]" in to_toml(recipe) and "hidden" not in to_toml(recipe)  # None is left out


@given(
    st.text(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False),
    st.lists(st.integers(0, 99)),
    st.booleans(),
)
def test_any_value_survives_the_file(name, epochs, rate, steps, fast):
    import tomllib

    recipe = Recipe(name, epochs, fast, steps=steps, optimiser=Optimiser(rate=rate))
    assert build(Recipe, tomllib.loads(to_toml(recipe))) == recipe


def test_what_is_left_out_keeps_its_default():
    assert build(Recipe, {"name": "a", "model": {"width": 32}}) == Recipe(
        "a", model=ViTConfig(width=32)
    )


def test_dotted_names_change_one_field_as_a_flag_would():
    recipe = Recipe("a")
    changed = change(recipe, {"model.width": "128", "optimiser.rate": "1e-2", "fast": "true"})
    assert changed.model.width == 128 and changed.optimiser.rate == 0.01 and changed.fast is True
    assert changed == dataclasses.replace(
        recipe,
        fast=True,
        model=ViTConfig(width=128),
        optimiser=Optimiser(rate=0.01),
    )
    assert change(changed, {"model.mask": "none"}).model.mask is None
    assert recipe == Recipe("a")


@pytest.mark.parametrize(
    "values, words",
    [
        ({"nam": "a"}, "there is no nam; did you mean name?"),
        (
            {"name": "a", "model": {"widht": 3}},
            "there is no model.widht; did you mean model.width?",
        ),
        ({"name": "a", "zzz": 1}, "there is no zzz; known: name, epochs"),
        ({}, "name is missing"),
        ({"name": 3}, "name = 3 is not text"),
        ({"name": "a", "epochs": 2.5}, "epochs = 2.5 is not a whole number"),
        ({"name": "a", "epochs": True}, "epochs = True is not a whole number"),
        ({"name": "a", "epochs": "many"}, "epochs = 'many' is not a whole number"),
        ({"name": "a", "fast": "maybe"}, "fast = 'maybe' is not true or false"),
        ({"name": "a", "model": 3}, "model = 3 is not ViTConfig"),
        ({"name": "a", "steps": [1, "x"]}, "steps[1] = 'x' is not a whole number"),
        ({"name": "a", "optimiser": {"rate": "fast"}}, "optimiser.rate = 'fast' is not a number"),
        (
            {"name": "a", "optimiser": {"kind": "adam"}},
            "not one of adamw, muon; did you mean adamw?",
        ),
        (
            {"name": "a", "optimiser": {"betas": [1.0]}},
            "optimiser.betas = [1.0] needs 2 values, not 1",
        ),
        (
            {"name": "a", "model": {"width": 100, "heads": 6}},
            "model: width=100 does not split into",
        ),
        ({"name": "a", "model": {"groups": "few"}}, "model.groups = 'few' is not a whole number"),
    ],
    ids=str,
)
def test_a_wrong_value_is_one_sentence_with_its_key_and_file(values, words):
    with pytest.raises(UserError) as trouble:
        build(Recipe, values, source="recipe.toml")
    assert str(trouble.value).startswith("recipe.toml: ") and words in str(trouble.value)
    assert "\n" not in str(trouble.value)


def test_whole_numbers_serve_as_numbers_and_the_ends_of_the_scale_are_numbers():
    assert build(Optimiser, {"rate": 1}).rate == 1.0
    assert math.isinf(build(Optimiser, {"rate": "inf"}).rate)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UserError, match="there is no file"):
        parse_toml(tmp_path / "missing.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("a = 1\nb = \n", encoding="utf-8")
    with pytest.raises(UserError, match=r"bad\.toml is not TOML: .*line 2"):
        parse_toml(bad)
    bad.write_bytes(b"a = '\xff'")
    with pytest.raises(UserError, match=r"bad\.toml is not UTF-8 text: byte 5"):
        parse_toml(bad)
    with pytest.raises(UserError, match=r"cannot read .*: Is a directory"):
        parse_toml(tmp_path)


def test_a_mark_of_its_encoding_may_begin_a_file(tmp_path):
    marked = tmp_path / "notepad.toml"
    marked.write_bytes("\ufeffepochs = 3\n".encode())
    assert parse_toml(marked) == {"epochs": 3}


def test_a_dotted_name_that_leads_nowhere_is_refused():
    with pytest.raises(UserError, match=r"there is no modle; did you mean model\?"):
        change(Recipe("a"), {"modle.width": 3})
    with pytest.raises(UserError, match=r"epochs = .* is not a whole number"):
        change(Recipe("a"), {"epochs.more": 3})


def test_values_come_in_the_order_of_the_fields():
    assert list(to_values(Recipe("a"))) == [f.name for f in dataclasses.fields(Recipe)]
