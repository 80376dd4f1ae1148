"""The studio's server: who may ask it, what it says of runs, and the trainings it starts."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch
from urllib.parse import quote

import pytest
import torch
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from golden import expect_error
from regard.cli import COMMANDS
from regard.config import build, to_values
from regard.errors import UserError
from regard.fields import helps
from regard.run_folder import RunFolder
from regard.runs.recipe import recipes
from regard.studio import training as trainings_module
from regard.studio.app import make_app, page_table, version_of
from regard.studio.command import (
    WAITING,
    Options,
    address_of,
    check_root,
    listening,
    sleeping_threads,
    studio,
)
from regard.studio.events import Seen
from regard.studio.forms import fields_of, forms, is_here, is_own
from regard.studio.leases import Lease
from regard.studio.runs import Runs, count_of, is_locked
from regard.studio.safety import LARGEST, is_loopback
from regard.studio.training import MOST, Trainings, changed, flags_of, recipe_of
from regard.tasks import TASKS, find
from regard.training.config import TrainConfig
from regard.visualization.document import write_document

HOME = "http://127.0.0.1:8347"
SMALL = {
    "train.epochs": 2,
    "model.width": 8,
    "model.layers": 1,
    "model.heads": 1,
    "model.mlp_width": 8,
    "augment.mixup_alpha": 0,
}
WISH = {"task": "classify", "recipe": "digits", "changes": SMALL}


def write_run(path: Path, *, epochs: int = 3, lines: int = 3, **train: Any) -> RunFolder:
    """The folder of a run of digits as training leaves it, without any training."""
    path.mkdir(parents=True)
    folder = RunFolder(path)
    config = build(find("classify").load_config(), {"train": {"epochs": epochs, **train}})
    folder.write_config(config, task="classify", recipe="digits")
    folder.write_facts("data", {"data": "digits", "digest": "", "classes": list("0123456789")})
    for epoch in range(1, lines + 1):
        folder.add_metrics(
            {
                "epoch": epoch,
                "train/loss": 1 / epoch,
                "is_best": epoch == 2,
                "val/accuracy": 0.9 if epoch == 2 else 0.5,
                "train_eval/accuracy": 0.6,
            }
        )
        folder.add_log(f"epoch {epoch} of {epochs}")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def client(root: Path) -> Iterator[TestClient]:
    with TestClient(make_app(root), base_url=HOME) as client:
        yield client


class Process(subprocess.Popen[bytes]):
    """In place of a process: it takes the signals that it is sent, and ends when told."""

    made: ClassVar[list[Any]] = []

    def __init__(self, arguments: list[str], **_: Any) -> None:
        self.arguments, self.returncode, self.signals = arguments, None, []
        Process.made.append(self)

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        self.signals.append(number)

    def wait(self, timeout: float = 0.0) -> int:
        self.returncode = 130
        return 130


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """No training is started, but all that would be are noted."""
    Process.made = []
    monkeypatch.setattr(trainings_module.subprocess, "Popen", Process)
    return Process.made


# Who may ask


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8347", "127.0.0.1:80", "127.0.0.1", "", "localhost.:8347"],
)
def test_another_host_is_refused(client: TestClient, host: str) -> None:
    for path in ("/", "/api/runs", "/page/regard/chart.js", "/nowhere"):
        got = client.get(path, headers={"Host": host})
        assert got.status_code == 403
        assert "error" in got.json()


@pytest.mark.parametrize(
    "host", ["localhost:8347", "127.0.0.1:8347", "[::1]:8347", "LOCALHOST:8347"]
)
def test_names_of_this_machine_are_served(client: TestClient, host: str) -> None:
    assert client.get("/api/runs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:8348", "https://127.0.0.1:8347", "", "*"],
)
def test_a_page_from_elsewhere_can_neither_ask_nor_start(
    client: TestClient, processes: list[Process], origin: str
) -> None:
    headers = {"Origin": origin}
    assert client.post("/api/runs", json=WISH, headers=headers).status_code == 403
    assert client.get("/api/runs", headers=headers).status_code == 403
    assert not processes


def test_a_browser_that_says_where_a_request_comes_from_is_believed(client: TestClient) -> None:
    for site in ("cross-site", "same-site"):
        headers = {"Sec-Fetch-Site": site}
        assert client.get("/api/runs", headers=headers).status_code == 403
        assert client.get("/", headers=headers).status_code == 200  # a link that opens the page
    assert client.get("/api/runs", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "image/svg+xml",
    ],
)
def test_no_form_can_post(client: TestClient, processes: list[Process], kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    for path in ("/api/runs", "/api/runs/x/stop", "/api/runs/x/resume"):
        got = client.post(path, content=json.dumps(WISH), headers=headers)
        assert got.status_code == 403
    assert not processes


def test_our_own_page_can_start(client: TestClient, processes: list[Process]) -> None:
    headers = {"Origin": HOME, "Sec-Fetch-Site": "same-origin"}
    kind = {"Content-Type": "application/json; charset=utf-8"}
    got = client.post("/api/runs", content=json.dumps(WISH), headers={**headers, **kind})
    assert got.status_code == 201
    assert len(processes) == 1


def test_where_others_can_come_a_token_is_asked_for(root: Path) -> None:
    with expect_error(ValueError):
        TestClient(make_app(root, host="0.0.0.0")).get("/")
    away = "http://10.1.2.3:8347"
    app = make_app(root, host="0.0.0.0", token="right-token")
    with TestClient(app, base_url=away) as stranger:
        for path in ("/", "/api/runs", "/page/regard/chart.js"):
            for query in ("", "?token=", "?token=wrong", "?token=right-toke", "?token=é"):
                got = stranger.get(path + query)
                assert got.status_code == 403
                assert "set-cookie" not in got.headers
        # The token opens the page and nothing else; the cookie does the rest.
        assert stranger.get("/api/runs?token=right-token").status_code == 403
        twice = stranger.get("/?token=right-token&token=wrong")
        assert twice.status_code == 403
        stranger.cookies.set("regard-studio-8347", "wrong")
        assert stranger.get("/api/runs").status_code == 403
        stranger.cookies.clear()
        got = stranger.get("/?token=right-token")
        assert got.status_code == 200
        cookie = got.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Domain" not in cookie
        assert stranger.get("/api/runs").status_code == 200
        # A name that points here is another's to choose, and is not taken; numbers are.
        assert stranger.get("/", headers={"Host": "evil.example:8347"}).status_code == 403


def test_loopback_is_told_from_other_addresses() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "", "10.0.0.1", "evil.localhost.example")))


def test_what_the_page_may_do_is_said_with_every_answer(client: TestClient) -> None:
    for path in ("/", "/api/runs", "/page/regard/page.css", "/nowhere", "/api/runs/none"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self' 'sha256-")
        assert "unsafe" not in policy and "connect-src 'self'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert (headers.get("cache-control") == "no-store") == path.startswith("/api")
    assert client.get("/api/runs", headers={"Host": "x"}).headers["x-content-type-options"]


def test_a_body_that_is_too_large_is_refused(client: TestClient, processes: list[Process]) -> None:
    most = LARGEST["application/json"]
    json_kind = {"Content-Type": "application/json"}
    got = client.post("/api/runs", content=b" " * (most + 1), headers=json_kind)
    assert got.status_code == 413

    def pieces() -> Iterator[bytes]:  # sent without a length
        for _ in range(most // 1000 + 1):
            yield b" " * 1000

    assert client.post("/api/runs", content=pieces(), headers=json_kind).status_code == 413
    for length in ("-1", "x", "1" * 5000):
        headers = {**json_kind, "Content-Length": length}
        got = client.post("/api/runs", content=b"{}", headers=headers)
        assert got.status_code in (400, 413)
    large = b"x" * (LARGEST["image/png"] + 1)
    got = client.post("/api/runs/x/look", content=large, headers={"Content-Type": "image/png"})
    assert got.status_code == 413
    assert not processes


def test_a_fault_of_the_program_stays_in_the_terminal(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with patch.object(Runs, "rows", side_effect=ZeroDivisionError("secret words")):
        got = client.get("/api/runs")
    assert got.status_code == 500
    assert "secret" not in got.text and "Traceback" not in got.text
    assert "secret words" in caplog.text  # where the person who started it can read it
    assert got.headers["x-content-type-options"] == "nosniff"


# The page


def test_the_shell_names_every_module_and_all_are_served(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    names = page.text.partition('<script type="importmap">')[2].partition("</script>")[0]
    imports = json.loads(names)["imports"]
    path, _, version = imports["regard/views/words"].partition("?v=")
    assert path == "/page/regard/views/words.js" and "studio/studio" in imports
    linked = re.findall(r'(?:href|src)="(/page/[^"]+)"', page.text)
    assert set(linked) & set(imports.values()) > {imports["studio/studio"], imports["regard/svg"]}
    for address in (*imports.values(), *linked):
        got = client.get(address)
        assert got.status_code == 200 and address.endswith(f"?v={version}")
        assert got.headers["content-type"].startswith(
            "text/css" if ".css?" in address else "text/javascript"
        )
        assert "immutable" in got.headers["cache-control"]


def test_a_browser_keeps_parts_of_the_page_until_one_has_changed(client: TestClient) -> None:
    for address in ("/", "/page/studio/studio.js", "/page/studio/studio.js?v=0123456789abcdef"):
        assert client.get(address).headers["cache-control"] == "no-cache"
    static = page_table()
    before = version_of(static)
    content, kind = static["studio/run.js"]
    assert version_of({**static, "studio/run.js": (content + b" ", kind)}) != before
    assert version_of(static) == before


ODD = [
    "..",
    "../app.py",
    "%2e%2e/app.py",
    "%2e%2e%2fapp.py",
    "..%2f..%2f..%2f..%2fetc%2fpasswd",
    "..%5c..%5capp.py",
    "%252e%252e%252fapp.py",
    "studio/..%2f..%2fapp.py",
    "studio/index.html",
    "studio//studio.js",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "studio/studio.js%00",
    "studio/studio.js%00.css",
    "regard",
    "",
    "%ff%fe",
    "STUDIO/STUDIO.JS",
]


@pytest.mark.parametrize("name", ODD)
def test_no_name_of_a_module_reaches_the_disk(client: TestClient, name: str) -> None:
    got = client.get(f"/page/{name}")
    if name == "..":  # which the client itself takes for /
        return
    assert got.status_code in (403, 404)
    assert "import" not in got.text and "root:" not in got.text


@pytest.mark.parametrize("name", ODD)
def test_no_name_of_a_run_leaves_the_root(root: Path, name: str) -> None:
    write_run(root.parent / "outside")
    (root.parent / "report.html").write_text("secret")
    root.mkdir()
    with TestClient(make_app(root), base_url=HOME) as client:
        for inside in (name, f"..%2foutside{name}", "..%2foutside", "%2e%2e"):
            for end in ("", "/events", "/report"):
                got = client.get(f"/api/runs/{inside}{end}", follow_redirects=False)
                assert got.status_code in (400, 403, 404) or got.json().get("runs") == []
                assert "secret" not in got.text and "accuracy" not in got.text
            for end in ("/stop", "/resume"):
                got = client.post(f"/api/runs/{inside}{end}", json={})
                assert got.status_code in (400, 403, 404, 405)


# Runs


def test_a_run_is_told_by_its_folder(root: Path, client: TestClient) -> None:
    empty = {"root": str(root), "keep_training": False, "runs": []}
    assert client.get("/api/runs").json() == empty  # no folder yet
    folder = write_run(root / "digits-001")
    folder.write_tensors("model.safetensors", {"a": torch.zeros(3, 4), "b": torch.zeros(5)})
    (row,) = client.get("/api/runs").json()["runs"]
    modified = row.pop("modified")
    assert modified.endswith("+00:00")
    assert row == {
        "id": "digits-001",
        "task": "classify",
        "data": "digits",
        "recipe": "digits",
        "state": "done",
        "epoch": 3,
        "epochs": 3,
        "figure": {"name": "val/accuracy", "value": 0.9},
        "spark": [0.5, 0.9, 0.5],
        "parameters": 17,
        "input": "image",
        "writes": False,
        "owner": None,
        "error": None,
    }
    whole = client.get("/api/runs/digits-001").json()
    assert whole["config"]["train"]["epochs"] == 3
    assert [line["epoch"] for line in whole["metrics"]] == [1, 2, 3]
    assert whole["log"].startswith("epoch 1 of 3\n")
    assert whole["report"] is False


def test_states_of_runs(root: Path, client: TestClient) -> None:
    write_run(root / "stopped", epochs=5)
    write_run(root / "patient", epochs=50, lines=4, patience=2)
    write_run(root / "waiting", epochs=50, lines=3, patience=2)
    writing = write_run(root / "training", epochs=5)
    code = (
        "import sys, pathlib; from regard.run_folder import RunFolder\n"
        "with RunFolder(pathlib.Path(sys.argv[1])).locked(): print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(writing.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        rows = {row["id"]: row["state"] for row in client.get("/api/runs").json()["runs"]}
        assert rows == {
            "stopped": "stopped",
            "patient": "done",
            "waiting": "stopped",
            "training": "training",
        }
        for verb in ("stop", "resume"):  # it belongs to another terminal
            assert client.post(f"/api/runs/training/{verb}", json={}).status_code == 409
        other.communicate(b"\n")
    assert not is_locked(writing.path)
    with writing.locked():  # asking has not kept the lock
        pass


def test_the_end_of_a_long_log_is_shown(root: Path, client: TestClient) -> None:
    folder = write_run(root / "long")
    for number in range(3000):
        folder.add_log(f"line {number} ☃")
    log = client.get("/api/runs/long").json()["log"]
    assert len(log.encode()) <= 20_000
    assert log.startswith("line ") and log.endswith("line 2999 ☃\n")


def break_config(path: Path) -> None:
    RunFolder(path).write_text("config.toml", "format = [")


def break_text(path: Path) -> None:
    RunFolder(path).write_bytes("config.toml", b"\xff\xfe\x00")


def break_format(path: Path) -> None:
    RunFolder(path).write_text("config.toml", 'format = 99\ntask = "classify"\n[run]\n')


def break_task(path: Path) -> None:
    RunFolder(path).write_text("config.toml", 'format = 2\ntask = "--help"\n[run]\n')


def break_field(path: Path) -> None:
    RunFolder(path).write_text(
        "config.toml", 'format = 2\ntask = "classify"\n[run]\nbatch = "many"\n'
    )


def break_facts(path: Path) -> None:
    RunFolder(path).write_text("data.json", "[1")


def break_facts_deeply(path: Path) -> None:
    RunFolder(path).write_text("data.json", "[" * 200_000)


def break_lines_deeply(path: Path) -> None:
    RunFolder(path).write_text("metrics.jsonl", "[" * 200_000 + "\n")


def break_by_an_edit(path: Path) -> None:
    text = (path / "config.toml").read_text()
    (path / "config.toml").write_text(text.replace("heads", "layers"))


def break_by_losing_the_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def break_kind(path: Path) -> None:
    (path / "config.toml").unlink()
    (path / "config.toml").mkdir()


BREAKS = [value for name, value in sorted(globals().items()) if name.startswith("break_")]


@pytest.mark.parametrize("spoil", BREAKS)
def test_a_broken_run_is_listed_as_broken_beside_the_others(
    root: Path, client: TestClient, spoil: Callable[[Path], None]
) -> None:
    write_run(root / "whole")
    spoil(write_run(root / "spoilt").path)
    got = client.get("/api/runs")
    assert got.status_code == 200
    rows = {row["id"]: row for row in got.json()["runs"]}
    assert rows["whole"]["state"] == "done"
    if spoil is break_kind:  # that is no run at all
        assert "spoilt" not in rows
        return
    assert rows["spoilt"]["state"] == "broken"
    assert rows["spoilt"]["error"]
    assert client.get("/api/runs/spoilt").status_code == 200
    assert client.post("/api/runs/spoilt/resume", json={}).status_code in (409, 422)
    events = client.get("/api/runs/spoilt/events")  # which ends
    assert 'event: state\ndata: "broken"' in events.text


@pytest.mark.parametrize(
    "line",
    [
        '{"epoch": "x", "is_best": 7, "val/accuracy": "high"}',
        '{"val/accuracy": NaN, "is_best": true}',
        '{"val/accuracy": [1], "train/loss": {}}',
        '{"val/accuracy": 1' + "0" * 400 + "}",
        "null",
        "{",
    ],
)
def test_odd_lines_of_figures_are_borne(root: Path, client: TestClient, line: str) -> None:
    folder = write_run(root / "odd")
    lines = (folder.path / "metrics.jsonl").read_text()
    folder.write_text("metrics.jsonl", f"{lines}{line}\n")
    (row,) = client.get("/api/runs").json()["runs"]
    assert row["state"] in ("done", "broken")
    assert client.get("/api/runs/odd").status_code == 200
    assert client.get("/api/runs/odd/events").status_code == 200


@settings(max_examples=40, deadline=None)
@given(head=st.binary(max_size=64))
def test_any_head_of_weights_is_borne(
    head: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("weights") / "model.safetensors"
    path.write_bytes(len(head).to_bytes(8, "little") + head)
    found = count_of(path)
    assert found is None or found >= 0


def test_names_are_made_fit_for_addresses_and_unique(root: Path, tmp_path: Path) -> None:
    inside = write_run(root / "same").path
    write_run(root / "with space")
    write_run(root / "with-space")
    other = write_run(tmp_path / "else" / "same").path
    (root / "no run").mkdir()
    (root / "linked").symlink_to(inside, target_is_directory=True)
    runs = Runs(
        root,
        [
            other,
            inside,
            other / "..",
        ][:2],
        Trainings(root),
    )
    found = runs.paths()
    assert found["same"].resolve() == inside.resolve() or found["linked"] == root / "linked"
    assert len(found) == 4  # one that is named twice is there once
    assert set(found) == {"same", "same-2", "with-space", "with-space-2"}
    assert found["with-space"] == root / "with-space"
    assert found["same-2"] == other
    with expect_error(UserError):
        Runs(root, [tmp_path / "missing"], Trainings(root))


def test_a_report_is_shown_in_a_sandbox(root: Path, client: TestClient) -> None:
    folder = write_run(root / "one")
    assert client.get("/api/runs/one/report").status_code == 404
    (folder.path / "report.html").write_text("<!doctype html><p>fine")
    got = client.get("/api/runs/one/report")
    assert got.text == "<!doctype html><p>fine"
    assert got.headers["content-security-policy"].startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in got.headers["content-security-policy"]
    assert "cross-origin-opener-policy" not in got.headers
    assert client.get("/api/runs/one").json()["report"] is True


def test_a_report_that_points_elsewhere_is_not_sent(root: Path, client: TestClient) -> None:
    folder = write_run(root / "one")
    (root / "secret").write_text("secret")
    (folder.path / "report.html").symlink_to(root / "secret")
    assert client.get("/api/runs/one/report").status_code == 404
    assert client.get("/api/runs/one").json()["report"] is False


# Forms


def test_forms_have_every_field_with_its_words() -> None:
    found = {(form["task"], form["name"]): form for form in forms()}
    digits = {field["name"]: field for field in found["classify", "digits"]["fields"]}
    assert found["classify", "digits"]["default"] is True
    assert digits["train.epochs"] == {
        "name": "train.epochs",
        "kind": "int",
        "default": 40,
        "help": "Passes over the training data.",
    }
    assert digits["train.keep_weights"]["kind"] == "choice"
    assert digits["train.keep_weights"]["choices"] == ["best", "last"]
    assert digits["train.optimizer.lr"]["kind"] == "float"
    assert digits["train.deterministic"]["kind"] == "bool"
    assert digits["train.optimizer.betas"]["default"] == "0.9, 0.999"
    assert all(field["help"] for form in found.values() for field in form["fields"])
    json.dumps(list(found.values()), allow_nan=False)  # plain values only
    assert helps(TrainConfig)["seed"] == "Where all random numbers of the run start."
    assert {field["name"] for field in fields_of(TrainConfig())} >= {
        "epochs",
        "lr_schedule.warmup_ratio",
    }


def test_only_recipes_that_can_be_followed_are_offered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for task in TASKS:  # each has one for a start, which needs nothing
        assert any(form["task"] == task and form["default"] for form in forms())
    monkeypatch.setattr("regard.studio.forms.is_here", lambda data: data == "digits")
    offered = {(form["task"], form["name"]) for form in forms()}
    assert ("classify", "digits") in offered and ("classify", "cifar10-small") not in offered
    assert ("classify", "own") in offered  # with data to be named
    monkeypatch.undo()
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert is_here("digits") and is_here(str(tmp_path)) and not is_here("flickr8k-of-nobody")


def test_a_recipe_for_own_data_wants_to_be_told_where_they_are(
    client: TestClient, processes: list[Process]
) -> None:
    own = next(form for form in forms() if (form["task"], form["name"]) == ("classify", "own"))
    assert next(field for field in own["fields"] if field["name"] == "data")["default"] == ""
    assert not own["default"]
    got = client.post("/api/runs", json={"task": "classify", "recipe": "own"})
    assert got.status_code == 422 and "data of your own" in got.json()["error"]
    assert not is_own(recipes("classify")["digits"], "classify")
    assert not processes


# What becomes of a wish


def parsed(arguments: list[str]) -> dict[str, Any]:
    """How the program reads these words, found out by its own parser."""
    task, options, config, _ = COMMANDS["train"].read(arguments).args
    return {"task": task, **vars(options), "config": to_values(config)}


def asked(**changes: Any) -> tuple[list[str], dict[str, Any]]:
    recipe = recipe_of("classify", "digits")
    config = recipe.config(find("classify").load_config())
    after = changed(recipe, config, changes, "classify")
    flags = flags_of(config, after)
    return ["classify", "--recipe=digits", "--out=the/run", *flags], to_values(after)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"train.epochs": 3, "train.optimizer.lr": 1e-7, "label_smoothing": 0},
        {"train.epochs": "3", "train.optimizer.lr": "1e-3"},
        {"train.deterministic": True, "model.bias": False, "skip_invalid": "yes"},
        {"train.optimizer.betas": [0.5, 0.25], "model.mask": "causal", "model.kv_heads": 2},
        {"train.optimizer.betas": "0.5, 0.25", "model.mask": "none", "model.kv_heads": "none"},
        {"model.mask": "causal & (window(3) | sinks(1))", "train.keep_weights": "best"},
        {"data": "--out=/tmp/else"},
        {"data": "--resume"},
        {"data": "-h"},
        {"data": "x --out /tmp/else"},
        {"data": "a\nb\t'\"$(touch x);`"},
        {"data": "translate"},
        {
            "augment.crop_scale": 0.5,
            "augment.hflip": True,
            "model.stem": "patch",
            "model.pool": "mean",
        },
    ],
)
def test_a_wish_is_said_in_flags_that_mean_just_that(changes: dict[str, Any]) -> None:
    try:
        words, after = asked(**changes)
    except UserError as refused:  # a field that has gone would make this test say nothing
        pytest.fail(str(refused))
    read = parsed(words)
    assert read["config"] == after
    assert read["task"] == "classify" and read["recipe"] == "digits"
    assert read["out"] == Path("the/run") and read.get("resume", False) is False


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.text(min_size=1, max_size=30).filter(lambda text: text.isprintable() or "-" in text))
def test_any_text_stays_the_value_of_its_field(data: str) -> None:
    try:
        words, after = asked(data=data)
    except UserError:
        return
    read = parsed(words)
    assert read["config"]["data"] == after["data"] == data
    assert read["out"] == Path("the/run")


@pytest.mark.parametrize(
    "changes",
    [
        {"out": "/tmp/else"},
        {"root": "/tmp/else"},
        {"resume": True},
        {"device": "cuda"},
        {"recipe": "/tmp/else.toml"},
        {"tensorboard": True},
        {"train.out": "/tmp/else"},
        {"train.epochs --out": "/tmp/else"},
        {"train.epochs=1 --out": "/tmp/else"},
        {"--out": "/tmp/else"},
        {"": 1},
        {".": 1},
        {"train.": 1},
        {"train..epochs": 1},
        {"train.epochs.more": 1},
        {"train": {"epochs": 1}},
        {"train": 1},
        {"train.epochs": {"x": 1}},
        {"train.epochs": [1]},
        {"train.epochs": None},
        {"train.epochs": 0},
        {"train.epochs": True},
        {"train.epochs": 1.5},
        {"train.epochs": "many"},
        {"train.optimizer.lr": 10**400},
        {"model.width": 10**9},
        {"model.layers": 10**6},
        {"train.seed": 10**30},
        {"train.optimizer.betas": ["--out", "/tmp/else"]},
        {"train.optimizer.betas": "--out, /tmp/else"},
        {"data": ""},
        {"data": "a\0b"},
        {"data": 7},
        {"__class__": "x"},
        {"__init__.__globals__": "x"},
    ],
)
def test_a_wish_that_is_no_field_starts_nothing(
    root: Path, client: TestClient, processes: list[Process], changes: dict[str, Any]
) -> None:
    got = client.post("/api/runs", json={**WISH, "changes": changes})
    assert got.status_code == 422
    assert len(got.json()["error"]) > 10 and "Traceback" not in got.text
    assert not processes and not root.exists()


def test_words_in_a_list_cannot_become_flags() -> None:
    recipe = recipe_of("language", "docstrings")
    config = recipe.config(find("language").load_config())
    after = changed(recipe, config, {"generation.stop_strings": ["--out", "/tmp/else"]}, "language")
    with expect_error(UserError):
        flags_of(config, after)
    fine = changed(recipe, config, {"generation.stop_strings": ["a", "b c"]}, "language")
    assert flags_of(config, fine) == ["--generation.stop-strings", "a", "b c"]


@pytest.mark.parametrize(
    "wish",
    [
        {"task": "classify", "recipe": "../../etc/passwd"},
        {"task": "classify", "recipe": "own.toml"},
        {"task": "../classify", "recipe": "digits"},
        {"task": "--help", "recipe": "digits"},
        {"task": "classify"},
        {"task": ["classify"], "recipe": "digits"},
        {"task": "classify", "recipe": {"a": 1}},
        {"task": "classify", "recipe": "digits", "changes": [1]},
        {"task": "\ud800", "recipe": "digits"},
        {},
    ],
)
def test_only_recipes_that_come_with_regard_are_followed(
    root: Path, client: TestClient, processes: list[Process], wish: dict[str, Any]
) -> None:
    got = client.post(
        "/api/runs", content=json.dumps(wish), headers={"Content-Type": "application/json"}
    )
    assert got.status_code == 422 and got.json()["error"]
    assert not processes and not root.exists()


def test_a_recipe_of_that_name_in_the_folder_is_not_read(
    client: TestClient, processes: list[Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("batch_size = 1\n")
    got = client.post("/api/runs", json={"task": "classify", "recipe": "mine.toml"})
    assert got.status_code == 422 and not processes


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"a":1e999}'])
def test_a_body_that_is_no_table_is_refused(
    client: TestClient, processes: list[Process], body: bytes
) -> None:
    got = client.post("/api/runs", content=body, headers={"Content-Type": "application/json"})
    assert got.status_code in (400, 422) and got.json()["error"]
    assert not processes


def test_trainings_are_started_without_a_shell_in_new_folders_of_the_root(
    root: Path, client: TestClient, processes: list[Process]
) -> None:
    odd = root / "--out=$(touch x); etc"
    odd.mkdir(parents=True)
    wish = {**WISH, "changes": {"data": odd.name, "train.epochs": 3}}
    names = [client.post("/api/runs", json=wish).json()["id"] for _ in range(MOST)]
    assert len(set(names)) == MOST
    for name, process in zip(names, processes, strict=True):
        assert process.arguments[:4] == [sys.executable, "-P", "-m", "regard.studio.leased"]
        assert process.arguments[4] == str(root / name)
        assert f"--data={odd}" in process.arguments
        out = next(word for word in process.arguments if word.startswith("--out="))
        assert Path(out.removeprefix("--out=")).parent == root
        assert out == f"--out={root / name}" and "/" not in name and (root / name).is_dir()
        assert client.get(f"/api/runs/{name}").json()["state"] == "training"
    got = client.post("/api/runs", json=wish)
    assert got.status_code == 409 and f"{MOST} trainings" in got.json()["error"]
    assert len(processes) == MOST


def test_stopping_withdraws_the_lease_and_insists_only_later(
    root: Path, client: TestClient, processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = client.post("/api/runs", json=WISH).json()["id"]
    lease = Lease.of(root / name)
    assert lease.renewed() is not None
    for _ in range(3):  # a double click must not break off the saving
        assert client.post(f"/api/runs/{name}/stop", json={}).status_code == 200
    (process,) = processes
    assert lease.renewed() is None and process.signals == []
    monkeypatch.setattr(trainings_module, "PATIENCE", 0.0)
    assert client.post(f"/api/runs/{name}/stop", json={}).status_code == 200
    assert process.signals == [signal.SIGINT]
    process.returncode = -2
    row = client.get(f"/api/runs/{name}").json()
    assert row["state"] == "broken" and "before it began" in row["error"]
    assert client.post(f"/api/runs/{name}/stop", json={}).status_code == 409
    assert not any(root.iterdir())  # no empty folder is left


def test_a_run_goes_on_in_its_own_folder(
    root: Path, client: TestClient, processes: list[Process]
) -> None:
    write_run(root / "half", epochs=5)
    assert client.post("/api/runs/half/resume", json={}).json() == {"id": "half"}
    (process,) = processes
    assert process.arguments[5:] == ["classify", f"--out={root / 'half'}", "--resume"]
    assert process.arguments[4] == str(root / "half")
    assert client.get("/api/runs/half").json()["state"] == "training"
    assert client.post("/api/runs/half/resume", json={}).status_code == 409  # not twice at once
    process.returncode = 0
    assert client.get("/api/runs/half").json()["state"] == "stopped"
    write_run(root / "whole")
    got = client.post("/api/runs/whole/resume", json={})
    assert got.status_code == 409 and "done" in got.json()["error"]
    assert len(processes) == 1


def test_what_trains_is_stopped_with_the_studio(root: Path, processes: list[Process]) -> None:
    with TestClient(make_app(root), base_url=HOME) as client:
        name = client.post("/api/runs", json=WISH).json()["id"]
        lease = Lease.of(root / name)
        assert lease.renewed() is not None
    assert processes[0].returncode == 130 and lease.renewed() is None
    assert not root.exists() or not any(root.iterdir())


def test_what_is_to_go_on_does_so_without_the_studio(root: Path, processes: list[Process]) -> None:
    write_run(root / "half", epochs=5)
    with TestClient(make_app(root, keep_training=True), base_url=HOME) as client:
        name = client.post("/api/runs", json={**WISH, "keep_training": False}).json()["id"]
        client.post("/api/runs/half/resume", json={})  # of which nothing is said
        rows = {row["id"]: row["owner"] for row in client.get("/api/runs").json()["runs"]}
        assert rows == {name: "studio", "half": "kept"}
    belongs, stays = processes
    assert belongs.returncode == 130 and Lease.of(root / name).renewed() is None
    assert stays.returncode is None and Lease.of(root / "half").renewed() is not None


# Events


def test_events_tell_what_is_new_and_end_when_all_is_told(root: Path) -> None:
    folder = write_run(root / "live", epochs=4, lines=1)
    seen = Seen(Runs(root, [], Trainings(root)), "live")
    first = seen.news()
    assert [text.split("\n")[0] for text in first] == [
        "event: metrics",
        "event: log",
        "event: state",
    ]
    assert seen.news() == [] and not seen.ended
    half = "naïve ☃\n".encode()
    with (folder.path / "log.txt").open("ab") as file:
        file.write(half[:8])  # in the middle of a letter
    told = "".join(seen.news())
    with (folder.path / "log.txt").open("ab") as file:
        file.write(half[8:])
    told += "".join(seen.news())
    words = [json.loads(line[6:]) for line in told.split("\n") if line.startswith("data: ")]
    assert "".join(words) == "naïve ☃\n"
    for epoch in (2, 3, 4):
        folder.add_metrics({"epoch": epoch, "train/loss": float("nan")})
    last = seen.news()
    assert [json.loads(text.split("\n")[1][6:]) for text in last] == [
        {"epoch": 2, "train/loss": None},
        {"epoch": 3, "train/loss": None},
        {"epoch": 4, "train/loss": None},
        "done",
    ]
    assert seen.ended


def test_a_run_that_goes_on_tells_its_epochs_anew(root: Path) -> None:
    folder = write_run(root / "live", epochs=9, lines=4)
    seen = Seen(Runs(root, [], Trainings(root)), "live")
    seen.news()
    folder.keep_metrics(2)
    assert seen.news() == []
    folder.add_metrics({"epoch": 3})
    (again,) = seen.news()
    assert json.loads(again.split("\n")[1][6:]) == {"epoch": 3}


def test_a_run_that_is_taken_away_ends_its_events(root: Path) -> None:
    folder = write_run(root / "live", epochs=9)
    seen = Seen(Runs(root, [], Trainings(root)), "live")
    seen.news()
    (folder.path / "config.toml").unlink()
    assert "broken" in "".join(seen.news()) and seen.ended


# Anything at all

NAMES = st.sampled_from(["one", "spoilt", "none", "..", "%2e%2e", "one%00", "ön", "%ff"])
WORDS = st.one_of(st.text(max_size=8), NAMES)
PATHS = st.one_of(
    st.builds("/api/runs/{}".format, NAMES),
    st.builds(
        "/api/runs/{}/{}".format,
        NAMES,
        st.sampled_from(["events", "report", "stop", "resume", "look", "write", "predict", "x"]),
    ),
    st.sampled_from(["/api/runs", "/api/recipes", "/api/attend", "/api/mask", "/api/lab/none"]),
    st.lists(WORDS, max_size=4).map(lambda parts: "/" + "/".join(parts)),
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.just(10**400)
)
FIELDS = st.one_of(
    st.sampled_from(["task", "recipe", "changes", "train.epochs", "data", "text", "pair", "n"]),
    st.sampled_from(["temperature", "top_p", "length", "q", "k", "v", "beta", "mask", "numbers"]),
)
BODIES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(FIELDS, st.text(max_size=5)), inner, max_size=4),
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    root = tmp_path_factory.mktemp("fuzz") / "runs"
    write_run(root / "one")
    break_config(write_run(root / "spoilt").path)
    with TestClient(make_app(root), base_url=HOME) as client:
        yield client


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(path=PATHS, body=BODIES, method=st.sampled_from(["GET", "POST", "POST", "PUT", "DELETE"]))
def test_nothing_that_is_asked_makes_the_studio_fail(
    fuzzed: TestClient, path: str, body: Any, method: str
) -> None:
    kind = {"Content-Type": "application/json"}
    content = None if method == "GET" else json.dumps(body)
    address = HOME + quote(path, safe="/%?", errors="replace")
    with patch.object(Trainings, "begin", lambda *_: None):
        got = fuzzed.request(method, address, content=content, headers=kind)
    assert got.status_code < 500, got.text
    if got.status_code >= 400 and method != "HEAD":
        said = got.json()
        assert set(said) == {"error"} and said["error"]


# The real thing: processes that train


def wait_for(what: Callable[[], Any], seconds: float = 90.0) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = what()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"nothing after {seconds} s")


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """A shell starts what runs in the background deaf to Ctrl-C, and children inherit that."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, before)


def test_a_training_that_cannot_begin_says_why(root: Path, client: TestClient) -> None:
    (root / "no-images").mkdir(parents=True)
    wish = {**WISH, "changes": {**SMALL, "data": "no-images"}}
    name = client.post("/api/runs", json=wish).json()["id"]
    wait_for(lambda: client.get(f"/api/runs/{name}").json()["state"] != "training")
    found = client.get(f"/api/runs/{name}").json()
    assert found["state"] == "broken"
    assert "no-images" in found["error"] and "Traceback" not in found["log"]
    assert 'data: "broken"' in client.get(f"/api/runs/{name}/events").text
    assert [path.name for path in root.iterdir()] == ["no-images"]


def test_the_command_serves_tells_live_and_ends_in_order(root: Path) -> None:
    """One real server, asked over the network, while one real training goes on to its end."""
    code = (
        "import sys, pathlib; from regard.studio.command import Options, studio\n"
        "studio(Options(root=pathlib.Path(sys.argv[1]), port=0, open_browser=False))"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", code, str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        port = int(line.partition("127.0.0.1:")[2].partition("/")[0])

        def ask(method: str, path: str, value: Any = None, **headers: str) -> tuple[int, bytes]:
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            body = None if value is None else json.dumps(value)
            link.request(method, path, body, {"Content-Type": "application/json", **headers})
            answer = link.getresponse()
            return answer.status, answer.read()

        assert ask("GET", "/")[0] == 200
        assert ask("GET", "/", Host=f"evil.example:{port}")[0] == 403
        assert ask("POST", "/api/runs", WISH, Origin="http://evil.example")[0] == 403
        for path in ("/page/../app.py", "/page/studio/../../app.py", "/page/%2e%2e/app.py"):
            assert ask("GET", path)[0] in (400, 404)  # sent as they stand

        name = json.loads(ask("POST", "/api/runs", WISH)[1])["id"]
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
        link.request("GET", f"/api/runs/{name}/events")
        answer = link.getresponse()
        assert answer.getheader("Content-Type", "").startswith("text/event-stream")
        heard: list[tuple[str, Any]] = []
        while line := answer.readline().decode():
            if line.startswith("event: "):
                data = answer.readline().decode().removeprefix("data: ")
                heard.append((line[7:].strip(), json.loads(data)))
        states = [value for kind, value in heard if kind == "state"]
        assert states == ["training", "done"]  # the stream ended by itself, after the last word
        assert [value["epoch"] for kind, value in heard if kind == "metrics"] == [1, 2]
        kinds = [kind for kind, _ in heard]
        assert kinds[0] == "state"  # it was heard before there was anything to hear
        assert kinds.index("metrics") < len(kinds) - 1
        log = "".join(value for kind, value in heard if kind == "log")
        assert log == (root / name / "log.txt").read_text()
        assert ask("GET", f"/api/runs/{name}/report")[0] == 200

        # Another training is under way when the terminal says Ctrl-C.
        wish = {**WISH, "changes": {**SMALL, "train.epochs": 5000}}
        second = json.loads(ask("POST", "/api/runs", wish)[1])["id"]
        wait_for(lambda: json.loads(ask("GET", f"/api/runs/{second}")[1])["epoch"] >= 1)
        server.send_signal(signal.SIGINT)
        _, words = server.communicate(timeout=60)
        assert server.returncode == 0
        assert f"stopping {second}" in words and "Traceback" not in words
        assert RunFolder(root / second).latest_state() is not None
        assert not is_locked(root / second)
    finally:
        server.kill()
        server.wait()


def test_a_port_that_is_taken_is_told_in_a_sentence() -> None:
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with expect_error(UserError):
            listening("127.0.0.1", port)
    with expect_error(UserError):
        listening("no host at all", 1)
    with pytest.raises(UserError):
        listening("127.0.0.1", 70_000)


def test_a_root_that_cannot_be_a_folder_of_runs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("")
    with expect_error(UserError):
        studio(Options(root=file))
    with expect_error(UserError):
        check_root(file / "runs")
    with expect_error(UserError):
        check_root(tmp_path / "none" / "runs")
    check_root(tmp_path)
    check_root(tmp_path / "runs")
    check_root(Path("runs-that-are-not-there-yet"))


def test_a_studio_without_its_server_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with expect_error(UserError):
        studio(Options(root=tmp_path, open_browser=False))


def test_threads_of_what_is_loaded_sleep_and_nobody_inherits_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for before, inside in ((None, "passive"), ("active", "active")):
        monkeypatch.delenv(WAITING, raising=False)
        if before is not None:
            monkeypatch.setenv(WAITING, before)
        with sleeping_threads():
            assert os.environ[WAITING] == inside
        assert os.environ.get(WAITING) == before


def test_the_address_is_what_a_browser_takes() -> None:
    assert address_of("127.0.0.1", 8347, None) == "http://127.0.0.1:8347/"
    assert address_of("::1", 1, None) == "http://[::1]:1/"
    assert address_of("0.0.0.0", 1, "abc").endswith(":1/?token=abc")


@pytest.mark.chromium
def test_a_report_draws_itself_but_cannot_ask_the_studio(root: Path, tmp_path: Path) -> None:
    from tests.browser import Browser

    folder = write_run(root / "one")
    items = [{"label": "accuracy", "value": 0.9}]
    section: Any = {"view": "figures", "title": "Results", "data": {"items": items}}
    write_document(folder.path / "report.html", {"title": "A run", "sections": [section]})
    listener = listening("127.0.0.1", 0)
    port = listener.getsockname()[1]
    config = uvicorn.Config(make_app(root, port=port), log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        with Browser(tmp_path / "chromium") as browser:
            page = browser.open(f"http://127.0.0.1:{port}/api/runs/one/report")
            assert "Results" in page.text() and page.errors == []
            assert page.evaluate("window.origin") == "null"
            ask = "fetch('/api/runs').then(() => 'heard', () => 'refused')"
            assert page.evaluate(ask) == "refused"
            page.close()
    finally:
        server.should_exit = True
        thread.join(10)
