"""SIGTERM and a closed terminal end a process as Ctrl-C does, and only the `regard` process."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from regard.cli import doctor, main
from regard.run_folder import RunFolder
from regard.training.signals import Stopped, deferred, listening

if os.name == "nt":
    pytest.skip("Windows sends no signals", allow_module_level=True)

ENDED = {signal.SIGTERM: (143, "stopped by SIGTERM"), signal.SIGHUP: (129, "stopped by SIGHUP")}


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", ENDED)
def test_a_command_stops_in_a_line_with_the_code_of_its_signal(number, monkeypatch, capsys):
    before, after = signal.getsignal(number), []

    def ended(_) -> None:
        try:
            send(number)
        finally:
            send(number)  # said again while it saves: not heard
            after.append("saved")

    monkeypatch.setattr(doctor, "doctor", ended)
    code, words = ENDED[number]
    assert main(["doctor"]) == code
    assert capsys.readouterr().err == f"regard: {words}\n"
    assert after == ["saved"] and signal.getsignal(number) == before


def test_what_a_process_was_started_to_ignore_stays_ignored(monkeypatch):
    """`nohup regard train …` outlives its terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr(doctor, "doctor", lambda _: send(signal.SIGHUP))
        assert main(["doctor"]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_library_hears_ctrl_c_alone():
    """What SIGTERM does to a process that imports regard is for that process to say."""
    heard: list[int] = []
    before = signal.getsignal(signal.SIGTERM)
    with deferred(heard.append):
        assert signal.getsignal(signal.SIGTERM) == before
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
    assert heard == [signal.SIGINT]


def test_what_is_deferred_is_noted_once_and_repeated_signals_break_nothing_off():
    heard: list[int] = []
    with listening():
        with deferred(heard.append):
            send(signal.SIGTERM)
            send(signal.SIGTERM)
            send(signal.SIGHUP)
        send(signal.SIGTERM)  # while the run says that it was stopped
    assert heard == [signal.SIGTERM]
    with pytest.raises(Stopped), listening():
        send(signal.SIGTERM)


def test_another_thread_installs_nothing():
    seen: list[object] = []

    def work() -> None:
        with listening(), deferred(seen.append):
            seen.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


IN_A_TERMINAL = """
import sys, time
from regard.training.signals import Stopped, listening
with listening():
    try:
        print("ready", flush=True)
        time.sleep(60)
    except Stopped as stop:
        print("saved", flush=True)
        print("saved", file=sys.stderr, flush=True)
        open(sys.argv[1], "w").write(str(stop))
"""


def test_what_is_said_to_a_terminal_that_was_closed_keeps_nothing_from_being_saved(tmp_path):
    master, slave = os.openpty()
    command = [sys.executable, "-c", IN_A_TERMINAL, tmp_path / "said"]
    with subprocess.Popen(command, stdout=slave, stderr=slave) as process:
        os.close(slave)
        assert b"ready" in os.read(master, 100)
        os.close(master)
        process.send_signal(signal.SIGHUP)
    assert process.returncode == 0
    assert (tmp_path / "said").read_text() == "stopped by SIGHUP"


RECIPE = """
data = "digits"
batch_size = 128
model = { image_size = 8, patch_size = 2, width = 16, layers = 1, heads = 2 }
train = { epochs = 1000 }
"""


def test_a_training_that_is_terminated_saves_logs_and_says_how_to_go_on(tmp_path):
    """As Slurm ends one: the same as at Ctrl-C, and the code of SIGTERM."""
    (tmp_path / "tiny.toml").write_text(RECIPE)
    command = ["train", "classify", "--recipe", "tiny.toml", "--no-report", "--out", "run"]
    run = RunFolder(tmp_path / "run")
    with subprocess.Popen(
        [sys.executable, "-m", "regard", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        try:
            until = time.monotonic() + 60
            while not run.metrics() and process.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            began = run.latest_state()
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, err) == (143, "regard: stopped by SIGTERM\n")
    words = "stopped; what is done is saved. Go on: regard train classify --out run --resume"
    assert words in out and words in (run.path / "log.txt").read_text()
    assert run.latest_state()[0] > began[0]
    run.expect_unedited()
    assert not [name for name in os.listdir(run.path) if name.startswith(".draft")]
