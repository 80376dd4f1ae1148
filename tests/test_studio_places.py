"""What the page may name: data sets, and what lies below the folders that the studio was given."""

import json
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from golden import expect_error
from regard.errors import ConfigError, UserError
from regard.studio import training as trainings
from regard.studio.app import make_app
from regard.studio.command import Options, studio
from regard.studio.places import FIELDS, Places, names_of
from regard.studio.training import Trainings
from regard.tasks import TASKS, find

HOME = "http://127.0.0.1:8347"

# Fields whose words are no places: the names of columns, masks and attentions, words to stop at.
WORDS = {"text_column", "text_pair_column", "label_column", "direction"} | {
    f"model.{part}{name}" for part in ("", "encoder.") for name in ("mask", "attention")
}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with runs, one with photos that the studio was given, and others that it was not."""
    for name in ("runs/sets/a", "runs/pretrained", "photos/birds", "private/mail", "data/ours"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "photos" / "own.csv").write_text("text,label\n")
    (tmp_path / "photos" / "own.en").write_text("a\n")
    (tmp_path / "photos" / "own.de").write_text("b\n")
    (tmp_path / "photos" / "out").symlink_to(tmp_path / "private")
    (tmp_path / "photos" / "in").symlink_to(tmp_path / "photos" / "birds")
    (tmp_path / "runs" / "out").symlink_to(tmp_path / "private" / "mail")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def named(desk: Path, task: str, **changes: str) -> Any:
    places = Places(Path("runs"), (desk / "photos",))
    config = find(task).load_config()(**changes)
    return places.confined(task, config, changes)


ALLOWED = {
    "a name": ("digits", "digits"),
    "a name of a set that may be missing here": ("cifar10", "cifar10"),
    "a folder that was given": ("photos", "photos"),
    "below it": ("photos/birds", "photos/birds"),
    "by its whole path": ("{desk}/photos/birds/", "photos/birds"),
    "as it lies there": ("birds", "photos/birds"),
    "below the runs": ("sets/a", "runs/sets/a"),
    "a file": ("photos/own.csv", "photos/own.csv"),
    "a link that stays inside": ("photos/in", "photos/birds"),
    "a way round": ("private/../photos/birds", "photos/birds"),
    "a set of one's own by name": ("ours", "data/ours"),
}
REFUSED = {
    "a folder of the system": "/etc",
    "a file of the system": "/etc/hostname",
    "what is not there": "/nowhere/at/all",
    "below a folder, and out again": "photos/../private",
    "out by many dots": "../../../../../../etc",
    "beside the runs": "private/mail",
    "the folder where it was started": ".",
    "the folder above": "..",
    "a link that leads out": "photos/out",
    "through such a link": "photos/out/mail",
    "a link among the runs": "out",
    "home": "~",
    "a set of one's own, and out": "ours/../../private",
    "processes": "/proc/self/cwd/private",
    "one of two": "photos/own.en,/etc/hostname",
    "a name with more": "photos2",
    "nothing that is a path": "\ud800",
    "very long": "x/" * 5000,
}


@pytest.mark.parametrize("case", ALLOWED)
def test_names_and_what_lies_below_are_accepted_with_their_whole_paths(
    desk: Path, case: str
) -> None:
    given, place = ALLOWED[case]
    found = named(desk, "classify", data=given.format(desk=desk)).data
    assert found == (place if "name of" in case or case == "a name" else str(desk / place))


def test_two_files_and_the_start_of_a_model_are_places_too(desk: Path) -> None:
    found = named(desk, "translate", data="own.en, photos/own.de").data
    assert found == f"{desk}/photos/own.en,{desk}/photos/own.de"
    assert named(desk, "caption", encoder="imagenet").encoder == "imagenet"
    assert named(desk, "classify-text", init_from="minilm").init_from == "minilm"
    assert named(desk, "classify-text", init_from="pretrained").init_from == str(
        desk / "runs/pretrained"
    )
    with expect_error(ConfigError, key="init_from"):
        named(desk, "classify-text", init_from="/etc")
    with expect_error(ConfigError, key="encoder"):
        named(desk, "caption", encoder="private")


@pytest.fixture
def client(desk: Path) -> Iterator[TestClient]:
    with TestClient(make_app(Path("runs"), data=[Path("photos")]), base_url=HOME) as client:
        yield client


@pytest.mark.parametrize("case", REFUSED)
def test_anything_else_is_refused_in_the_same_words_and_nothing_starts(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(Trainings, "begin", lambda *given: started.append(given))
    given = REFUSED[case]
    wish = {"task": "classify", "recipe": "own", "changes": {"data": given}}
    kind = {"Content-Type": "application/json"}
    got = client.post("/api/runs", content=json.dumps(wish), headers=kind)
    assert got.status_code == 422 and not started
    names = ", ".join(names_of("classify"))
    assert got.json()["error"] == (
        f"data={given[:80]!r} is neither a data set by name ({names}) nor in a folder that the "
        "studio was given (runs and photos): start it with --data FOLDER to give it one more"
    )


def test_every_task_knows_its_own_names() -> None:
    for task in TASKS:
        assert find(task).load_config()().data in names_of(task)
    assert "sst2" in names_of("classify-text") and "sst2" not in names_of("classify")


def test_the_form_says_what_may_be_named(client: TestClient) -> None:
    forms = client.get("/api/recipes").json()
    helps = [field["help"] for form in forms for field in form["fields"] if field["name"] == "data"]
    assert helps and all("`runs` or `photos`" in words for words in helps)


def test_no_field_that_may_name_a_place_is_forgotten() -> None:
    """A new field of text is either listed as a place, or here as one that is none."""

    def texts(kind: Any, under: str = "") -> Iterator[str]:
        hints = typing.get_type_hints(kind)
        for each in fields(kind):
            hint = hints[each.name]
            if is_dataclass(hint):
                yield from texts(hint, f"{under}{each.name}.")
            elif hint in (str, str | None, Path, Path | None):
                yield f"{under}{each.name}"

    found = {name for task in TASKS for name in texts(find(task).load_config())}
    assert found - WORDS == set(FIELDS)


def test_a_folder_of_data_that_is_not_there_is_named(tmp_path: Path) -> None:
    with expect_error(UserError):
        studio(Options(root=tmp_path, data=(tmp_path / "nowhere",), open_browser=False))


# Numbers


@pytest.mark.parametrize(
    "changes",
    [
        {"model.width": 10**18},
        {"batch": 2**53 + 1},
        {"train.epochs": 10**300},
        {"train.seed": 10**18},
    ],
)
def test_a_number_that_no_machine_has_room_for_starts_nothing(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, changes: dict[str, int]
) -> None:
    monkeypatch.setattr(trainings.subprocess, "Popen", None)
    wish = {"task": "classify", "recipe": "digits", "changes": changes}
    got = client.post("/api/runs", json=wish)
    (name,) = changes
    assert got.status_code == 422 and name in got.json()["error"]
