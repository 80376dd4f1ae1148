"""Drafts of processes that are gone are cleared, those of processes that live never are."""

import os
import signal
import subprocess
import sys
import time

import pytest

from official import write_photos
from regard.data.cache import at_size, store_folder
from regard.data.registry import read_images
from regard.run_folder import drafts
from regard.run_folder.drafts import clear_drafts, draft_folder, drafts_of, write_whole

WRITING = """
import sys, time
from pathlib import Path
from regard.run_folder.drafts import draft_folder, drafts_of
place = Path(sys.argv[1])
with draft_folder(place / "entry") as folder, drafts_of(place / "report.html") as (draft,):
    (folder / "pixels").write_bytes(b"half")
    draft.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_drafts_stay_while_their_process_lives_and_go_when_it_was_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WRITING, tmp_path], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"writing\n"
        clear_drafts(tmp_path)
        assert len(list(tmp_path.iterdir())) == 2
        process.kill()
        process.wait()
        assert len(list(tmp_path.iterdir())) == 2
        with draft_folder(tmp_path / "entry") as folder:  # the next one that writes there
            assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []


def test_several_drafts_take_their_names_together_or_none_does(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    write_whole(one, b"old")
    with pytest.raises(KeyError), drafts_of(one, two) as paths:
        paths[0].write_bytes(b"new")
        raise KeyError
    assert {path.name for path in tmp_path.iterdir()} == {"one"} and one.read_bytes() == b"old"
    with drafts_of(one, two) as paths:
        paths[0].write_bytes(b"new")
        paths[1].write_bytes(b"too")
    assert (one.read_bytes(), two.read_bytes()) == (b"new", b"too")


def test_one_that_clears_between_making_and_holding_a_draft_costs_no_more_than_a_second_one(
    tmp_path, monkeypatch
):
    plain, cleared = drafts.lock, []

    def lock(descriptor: int, **options: bool) -> bool:
        if not cleared:
            cleared.append(descriptor)
            clear_drafts(tmp_path)  # another process does
        return plain(descriptor, **options)

    monkeypatch.setattr(drafts, "lock", lock)
    write_whole(tmp_path / "file", b"whole")
    cleared.clear()
    with draft_folder(tmp_path / "folder") as folder:
        assert folder.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_draft_is_never_written_through_a_link_that_bears_its_name(tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    names = iter([tmp_path / "taken", tmp_path / "free"])
    (tmp_path / "taken").symlink_to(outside)
    monkeypatch.setattr(drafts, "name_for", lambda path: next(names))
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "file", b"whole")
    assert outside.read_text() == "mine"


# Images that several processes decode


READING = """
import sys
from regard.data import cache as store, workers
from regard.data.registry import read_images
from regard.training.signals import listening
pause = "open(job['target']['file'] + '.' + str(os.getpid()), 'w').close(); time.sleep(60)"
workers.START = workers.START.replace("work(**job)", f"import os, time; {pause}")
with listening():
    store.at_size(read_images(sys.argv[1]), 8, workers=2)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signals")
@pytest.mark.parametrize("way", ["killed", "terminated", "terminated with its group"])
def test_workers_end_with_their_caller_and_the_next_one_clears_up(own_folders, tmp_path, way):
    write_photos(tmp_path / "photos", {"cat": 8, "dog": 8})
    with subprocess.Popen(
        [sys.executable, "-c", READING, tmp_path / "photos"],
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        until, workers = time.monotonic() + 60, []
        while len(workers) < 2 and time.monotonic() < until:
            time.sleep(0.01)
            workers = [int(path.suffix[1:]) for path in store_folder().glob(".draft*/*.npy.*")]
        send = os.killpg if way == "terminated with its group" else os.kill
        send(process.pid, signal.SIGKILL if way == "killed" else signal.SIGTERM)
        process.wait()
        for worker in workers if way == "killed" else ():
            os.kill(worker, signal.SIGKILL)  # these sleep; at work they end at the next image
        said = process.communicate()[1]
    if way == "killed":
        assert len(list(store_folder().iterdir())) == 1
    else:
        assert "Stopped" in said and "take this file out" not in said
        assert not [worker for worker in workers if alive(worker)]
        assert list(store_folder().iterdir()) == []
    at_size(read_images(tmp_path / "photos"), 8)
    assert not list(store_folder().glob(".draft*"))


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
