"""Trainings and their studios: what becomes of one when the other is gone, with real processes."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.run_folder import RunFolder
from regard.studio import alive, leases
from regard.studio.alive import Process, is_running, started_at, this_process
from regard.studio.app import make_app
from regard.studio.leased import AGAIN, GONE, LOOK, look_after
from regard.studio.leases import STARTING, Lease, Record, leases_in
from regard.studio.training import Trainings

HOME = "http://127.0.0.1:8347"
WISH = {
    "task": "classify",
    "recipe": "digits",
    "changes": {
        "train.epochs": 5000,
        "model.width": 8,
        "model.layers": 1,
        "model.heads": 1,
        "model.mlp_width": 8,
        "augment.mixup_alpha": 0,
    },
}
RECORD = Record(
    task="classify",
    data="digits",
    recipe="digits",
    epochs=3,
    began="2026-01-01T00:00:00+00:00",
    keep=False,
    seconds=15.0,
    studio=Process(1, "long ago"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def lease(root: Path) -> Lease:
    found = Lease.of(root / "one")
    found.run.mkdir(parents=True)
    found.grant(RECORD)
    return found


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of somebody's."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def wait_for(what: Callable[[], Any], seconds: float = 60.0) -> Any:
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)
    return found


# Which process is meant


def test_a_process_is_known_by_its_number_and_its_start(sleeper: "subprocess.Popen[bytes]") -> None:
    me, other = this_process(), Process(sleeper.pid, started_at(sleeper.pid) or "")
    assert is_running(me) and is_running(other)
    assert not is_running(
        replace(other, started=f"{other.started} or so")
    )  # the number is another's
    assert not is_running(replace(other, started=""))
    assert not is_running(replace(me, pid=-1))
    sleeper.kill()
    wait_for(lambda: not is_running(other))  # also before anybody has asked how it ended
    sleeper.wait()
    assert started_at(sleeper.pid) is None


def test_a_start_is_known_without_linux_too(
    sleeper: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(alive, "PROC", tmp_path)
    assert is_running(Process(sleeper.pid, started_at(sleeper.pid) or ""))
    sleeper.kill()
    sleeper.wait()
    assert started_at(sleeper.pid) is None


# How long a training trains on


class Over(Exception):
    """The test has seen enough."""


def looked_after(
    lease: Lease, record: Record, between: Callable[[int], float], looks: int
) -> list[int]:
    """At which looks a process interrupts itself; `between` acts, and says how long it took."""
    clock, count, told = [0.0], [0], []

    def wait(seconds: float) -> None:
        if seconds == AGAIN or count[0] == looks:
            raise Over
        count[0] += 1
        clock[0] += between(count[0])

    with pytest.raises(Over):
        look_after(
            lease,
            record,
            interrupt=lambda: told.append(count[0]),
            clock=lambda: clock[0],
            wait=wait,
        )
    return told


def renewed(lease: Lease, number: int) -> None:
    os.utime(lease.path, ns=(number, number))  # a clock as coarse as that of some disks


def test_a_training_stops_when_its_lease_is_not_renewed(lease: Lease) -> None:
    folder = RunFolder(lease.run)
    folder.write_text("config.toml", "")
    looks = int(RECORD.seconds / LOOK)

    def between(look: int) -> float:
        if look <= 100:
            renewed(lease, look)
        return LOOK

    assert looked_after(lease, RECORD, between, 500) == [100 + looks + 1]
    assert (lease.run / "log.txt").read_text() == f"{GONE}\n"
    assert looked_after(lease, replace(RECORD, keep=True), lambda _: LOOK, 500) == []


def test_a_lease_that_is_withdrawn_ends_any_training_at_once(lease: Lease) -> None:
    def between(look: int) -> float:
        if look == 7:
            lease.withdraw()
        lease.renew()  # as a studio that has not heard of it: it does not come back
        return LOOK

    assert looked_after(lease, replace(RECORD, keep=True), between, 50) == [7]
    assert lease.renewed() is None


def test_after_a_laptop_was_asleep_its_studio_has_time_to_renew(lease: Lease) -> None:
    """Clocks that go on in sleep have both sides late, and the training may wake first."""

    def between(look: int) -> float:
        if look in (10, 40):
            return 8 * 3600.0  # asleep
        if look % 6 == 0:
            renewed(lease, look)
        return LOOK

    assert looked_after(lease, RECORD, between, 100) == []


# Who renews


def test_a_studio_renews_what_is_its_own_and_what_nobody_renews_any_more(
    root: Path, lease: Lease, sleeper: "subprocess.Popen[bytes]"
) -> None:
    trainings = Trainings(root)
    trainer = Process(sleeper.pid, started_at(sleeper.pid) or "")

    def renewal(record: Record) -> tuple[bool, Process]:
        lease.write(record)
        renewed(lease, 1)
        trainings.renew()
        found = lease.read()
        assert found is not None
        return lease.renewed() != 1, found.studio

    mine = replace(RECORD, trainer=trainer, studio=trainings.me)
    assert renewal(mine) == (True, trainings.me)
    # The studio of another, which is there: this one leaves its trainings alone.
    assert renewal(replace(mine, studio=trainer)) == (False, trainer)
    # One that is gone, and what it left: it is taken over, or was to go on in any case.
    gone = replace(mine, studio=Process(sleeper.pid, "before"))
    assert renewal(gone) == (True, trainings.me)
    assert renewal(replace(gone, keep=True)) == (False, gone.studio)


def test_records_of_trainings_that_are_over_are_cleared(
    root: Path, lease: Lease, sleeper: "subprocess.Popen[bytes]"
) -> None:
    trainings = Trainings(root)
    trainings.renew()
    assert lease.read() is not None  # it has just been started, and has not said who it is
    old = time.time() - STARTING - 1
    os.utime(lease.record_path, (old, old))
    trainings.renew()
    assert not (root / ".studio").exists()
    lease.grant(replace(RECORD, trainer=Process(sleeper.pid, "another time")))
    trainings.renew()
    assert not (root / ".studio").exists()
    lease.grant(RECORD)
    lease.record_path.write_text("[" * 100_000)  # whatever it was
    os.utime(lease.record_path, (old, old))
    assert trainings.paths() == [] and len(list(leases_in([root]))) == 1
    trainings.renew()
    assert not (root / ".studio").exists()


def test_no_process_is_signalled_whatever_a_record_says(
    root: Path, lease: Lease, sleeper: "subprocess.Popen[bytes]"
) -> None:
    """A folder from elsewhere may name any process, even with its start."""
    trainer = Process(sleeper.pid, started_at(sleeper.pid) or "")
    with TestClient(make_app(root), base_url=HOME) as client:
        lease.write(replace(RECORD, trainer=replace(trainer, started="another")))
        assert client.post("/api/runs/one/stop", json={}).status_code == 404
        lease.grant(replace(RECORD, trainer=trainer, studio=trainer))
        (row,) = client.get("/api/runs").json()["runs"]
        assert (row["id"], row["state"], row["owner"]) == ("one", "training", "studio")
        assert row["task"] == "classify" and row["epochs"] == 3
        assert client.post("/api/runs/one/stop", json={}).status_code == 200
        assert lease.renewed() is None
    assert sleeper.poll() is None and is_running(trainer)


# Real processes


def test_a_training_without_its_studio_saves_and_says_why(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole training, whose studio is one that does not renew by itself."""
    monkeypatch.setattr(leases, "SECONDS", 1.0)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    client = TestClient(make_app(root), base_url=HOME)
    name = client.post("/api/runs", json=WISH).json()["id"]
    lease = Lease.of(root / name)

    def begun() -> bool:
        lease.renew()
        return client.get(f"/api/runs/{name}").json()["epoch"] >= 1

    wait_for(begun)
    assert client.get(f"/api/runs/{name}").json()["state"] == "training"
    wait_for(lambda: client.get(f"/api/runs/{name}").json()["state"] == "stopped", 20)
    log = (root / name / "log.txt").read_text()
    after = log.partition(f"{GONE}\n")[2]
    assert "stopped; what is done is saved. Go on: regard train classify" in after
    assert RunFolder(root / name).latest_state() is not None
    assert client.get(f"/api/runs/{name}").json()["error"] is None
    assert not (root / ".studio").exists()


# A studio whose trainings learn nothing, but save when they are interrupted.
STUDIO = """
import fcntl, signal, sys, termios
from pathlib import Path
from regard.studio import leases, training as trainings
from regard.studio.command import Options, studio

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever this test was started with
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if sys.stdin.isatty():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the terminal of this session
leases.SECONDS, leases.RENEW = 1.5, 0.2
trainings.PROGRAM = (sys.executable, "-c", sys.argv[2])
studio(Options(root=Path(sys.argv[1]), port=0, open_browser=False))
"""
TRAINER = """
import signal, sys, time
from pathlib import Path
from regard.studio import leased

def main(arguments):
    signal.signal(leased.STOP, signal.default_int_handler)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        (Path(sys.argv[1]) / "saved").touch()
    return 130

leased.main = main
sys.exit(leased.leased(Path(sys.argv[1]), sys.argv[2:]))
"""


def kill(process: "subprocess.Popen[bytes]", terminal: int) -> None:
    process.kill()


def terminate(process: "subprocess.Popen[bytes]", terminal: int) -> None:
    process.terminate()


def close_terminal(process: "subprocess.Popen[bytes]", terminal: int) -> None:
    os.close(terminal)


@pytest.mark.parametrize("end", [kill, terminate, close_terminal])
def test_what_trains_ends_with_its_studio_however_that_ends(
    root: Path, end: Callable[["subprocess.Popen[bytes]", int], None]
) -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", STUDIO, str(root), TRAINER],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        said = b""
        while b"\n" not in said:
            said += os.read(ours, 1000)
        port = int(said.decode().partition("127.0.0.1:")[2].partition("/")[0])

        def train(keep: bool) -> Path:
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            wish = json.dumps({**WISH, "keep_training": keep})
            link.request("POST", "/api/runs", wish, {"Content-Type": "application/json"})
            path = root / json.loads(link.getresponse().read())["id"]
            wait_for(lambda: Lease.of(path).running())
            return path

        belongs, stays = train(False), train(True)
        record = Lease.of(stays).running()
        assert record is not None and record.trainer is not None
        end(process, ours)
        process.wait(30)
        wait_for(lambda: (belongs / "saved").exists(), 20)
        wait_for(lambda: not Lease.of(belongs).running(), 20)
        assert is_running(record.trainer) and not (stays / "saved").exists()
        with TestClient(make_app(root), base_url=HOME) as client:  # another studio
            rows = {row["id"]: row for row in client.get("/api/runs").json()["runs"]}
            assert rows[stays.name]["state"] == "training"
            assert rows[stays.name]["owner"] == "kept"
            assert client.post(f"/api/runs/{stays.name}/stop", json={}).status_code == 200
            wait_for(lambda: (stays / "saved").exists(), 20)
            wait_for(lambda: not Lease.of(stays).running(), 20)
            assert client.get("/api/runs").json()["runs"] == []
    finally:
        process.kill()
        process.wait()
        for lease in leases_in([root]):
            lease.withdraw()


def test_a_choice_that_is_none_starts_nothing(root: Path) -> None:
    with TestClient(make_app(root), base_url=HOME) as client:
        for odd in ("yes", 1, [True]):
            got = client.post("/api/runs", json={**WISH, "keep_training": odd})
            assert got.status_code == 422 and "keep_training" in got.json()["error"]
        assert client.get("/api/runs").json()["keep_training"] is False
    assert not root.exists()
    with TestClient(make_app(root, keep_training=True), base_url=HOME) as client:
        assert client.get("/api/runs").json()["keep_training"] is True
