"""Images are decoded once, by one process or many, and what is kept is checked before use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from golden import expect_error
from official import write_photos
from regard.cli import main
from regard.data import cache as store
from regard.data import workers
from regard.data.cache import at_size, store_folder
from regard.data.decode import decode
from regard.data.images import SPLITS, ArrayImages, FileImages
from regard.data.registry import read_images
from regard.errors import DataIssue


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_photos(tmp_path / "photos", {"cat": 10, "dog": 10})
    return tmp_path / "photos"


def decodings(monkeypatch) -> list[int]:
    """Counts the files of each call to the decoder from now on."""
    seen: list[int] = []
    plain = workers.decode_all

    def counted(paths, target, **options):
        seen.append(len(paths))
        return plain(paths, target, **options)

    monkeypatch.setattr(store, "decode_all", counted)
    return seen


def test_what_is_kept_is_what_decoding_gives(photos):
    images = read_images(photos)
    small = at_size(images, 8)
    for split in SPLITS:
        kept = small[split].images
        assert isinstance(kept.pixels, np.memmap)
        for row, path in enumerate(images[split].images.paths):
            np.testing.assert_array_equal(kept[row], decode(path, 8).pixels)
        np.testing.assert_array_equal(small[split].labels, images[split].labels)
    assert small.digest == images.digest


def test_several_processes_give_the_same_as_one(photos):
    paths = read_images(photos).train.images.paths
    outcomes = []
    for number in (1, 2, 3):
        file = photos / f"{number}.npy"
        target = workers.Target(str(file), store.begin(file, (len(paths), 3, 8, 8)), 8, 3)
        outcomes.append(workers.decode_all(paths, target, workers=number))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    one, two, three = (np.load(photos / f"{number}.npy") for number in (1, 2, 3))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


def test_a_script_without_a_guard_may_use_several_processes(photos, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from regard.data.registry import read_images\n"
        "from regard.data.cache import at_size\n"
        "print(len(at_size(read_images(sys.argv[1]), 8, workers=2).train))\n"
    )
    (tmp_path / "json.py").write_text("1 / 0")  # no worker takes this for Python's own
    done = subprocess.run(
        (sys.executable, "-P", script, photos), cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("14\n", "")


def test_a_worker_that_dies_is_a_sentence_with_the_file(photos, monkeypatch):
    paths = read_images(photos).train.images.paths
    monkeypatch.setattr(workers, "START", "import os; os._exit(7)")
    with pytest.raises(DataIssue) as crash:  # about the first file of either process
        workers.decode_all(paths, None, workers=2)
    assert crash.value.kind == "crash" and crash.value.file in set(map(str, paths))
    assert "ended with code 7; take this file out and try again" in str(crash.value)


def test_a_second_time_nothing_is_decoded(photos, monkeypatch):
    seen = decodings(monkeypatch)
    first = at_size(read_images(photos), 8)
    assert seen == [14, 2, 4]
    assert at_size(read_images(photos), 8).digest == first.digest
    assert seen == [14, 2, 4]
    at_size(read_images(photos), 9)
    at_size(read_images(photos), 8, 1)
    assert len(seen) == 9


def test_a_changed_file_is_decoded_again(photos, monkeypatch):
    at_size(read_images(photos), 8)
    seen = decodings(monkeypatch)
    path = read_images(photos).train.images.paths[0]
    os.utime(path, ns=(1, 1))
    at_size(read_images(photos), 8)
    assert seen == [14]


def spoil_by_cutting(entry: Path) -> None:
    os.truncate(entry / "pixels.npy", 1000)


def spoil_facts(entry: Path) -> None:
    (entry / "facts.json").write_text('{"shape": [14, 3')


def spoil_shape(entry: Path) -> None:
    facts = json.loads((entry / "facts.json").read_text())
    (entry / "facts.json").write_text(json.dumps({**facts, "shape": [1, 3, 8, 8]}))


def spoil_head(entry: Path) -> None:
    with (entry / "pixels.npy").open("r+b") as file:
        file.write(b"not an array")


def spoil_by_losing(entry: Path) -> None:
    (entry / "pixels.npy").unlink()


@pytest.mark.parametrize(
    "spoil", [spoil_by_cutting, spoil_facts, spoil_shape, spoil_head, spoil_by_losing]
)
def test_a_damaged_entry_is_made_again(photos, monkeypatch, spoil):
    images = read_images(photos)
    expected = at_size(images, 8).train.images.take(range(14))
    for entry in store_folder().iterdir():
        spoil(entry)
    seen = decodings(monkeypatch)
    np.testing.assert_array_equal(at_size(images, 8).train.images.take(range(14)), expected)
    assert seen == [14, 2, 4]
    assert (
        sorted(file.name for file in store_folder().glob("*/*"))
        == ["facts.json"] * 3 + ["pixels.npy"] * 3
    )


def test_nothing_half_written_is_ever_in_place(photos, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "decode_all", stopped)
    with pytest.raises(KeyboardInterrupt):
        at_size(read_images(photos), 8)
    assert list(store_folder().iterdir()) == []


def test_a_bad_file_stops_or_is_skipped_and_named(photos):
    bad = read_images(photos).train.images.paths[3]
    bad.write_text("no image")
    (photos / "dog" / "3.png").write_bytes(b"")
    images = read_images(photos)
    for _ in range(2):  # decoded, then kept
        with expect_error(DataIssue, kind="image", file="4.png"):
            at_size(images, 8)
        some = at_size(images, 8, skip_bad=True)
        assert sorted(some.skipped)[0].startswith(str(bad)) and len(some.skipped) == 2
        assert sum(len(some[split]) for split in SPLITS) == 18
        paths = [path for path in images.train.images.paths if path != bad]
        np.testing.assert_array_equal(some.train.images[5], decode(paths[5], 8).pixels)


def test_a_class_of_which_nothing_can_be_read_is_an_error(photos):
    for path in (photos / "dog").iterdir():
        path.write_bytes(b"")
    with expect_error(DataIssue, kind="empty"):
        at_size(read_images(photos), 8, skip_bad=True)


def unwritable(monkeypatch, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))


def full(monkeypatch, tmp_path) -> None:
    def no_space(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(workers, "write_all", no_space)


def small_disk(monkeypatch, tmp_path) -> None:
    usage = store.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: usage._replace(free=100))


@pytest.mark.parametrize("trouble", [unwritable, full, small_disk])
@pytest.mark.parametrize("limit", [2**30, 0], ids=["in memory", "again each time"])
def test_without_a_place_to_keep_them_images_are_still_read(
    photos, tmp_path, monkeypatch, trouble, limit
):
    expected = at_size(read_images(photos), 8)
    main(["data", "clean"])
    (photos / "cat" / "0.png").write_bytes(b"")
    trouble(monkeypatch, tmp_path)
    monkeypatch.setattr(store, "IN_MEMORY", limit)
    found = at_size(read_images(photos), 8, skip_bad=True)
    assert type(found.test.images) is (ArrayImages if limit else FileImages)
    assert len(found.skipped) == 1
    same = next(split for split in SPLITS if len(found[split]) == len(expected[split]))
    np.testing.assert_array_equal(
        found[same].images.take([0, 1]), expected[same].images.take([0, 1])
    )


def test_a_full_disk_in_a_worker_is_an_error_and_not_a_crash(photos):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    paths = read_images(photos).train.images.paths
    with pytest.raises(OSError, match="No space left"):
        workers.decode_all(paths, workers.Target(str(full), 0, 8, 3), workers=2)


def test_arrays_are_resized_by_the_same_rule():
    digits = read_images("digits")
    assert at_size(digits, 8, 1).train.images is digits.train.images
    large = at_size(digits, 16)
    assert large.test.images.pixels.shape == (359, 3, 16, 16)
    assert large.digest == digits.digest
    assert at_size(large, 16, 1).test.images.pixels.shape == (359, 1, 16, 16)


def test_clean_shows_and_frees_what_is_kept(photos, capsys):
    at_size(read_images(photos), 8)
    left = store_folder() / ".draft-4711-0123abcd-left"
    left.mkdir()
    (store_folder() / "elsewhere").mkdir()  # this folder may be a link to one with other things
    (store_folder() / "somebody's.txt").write_text("kept")
    assert main(["data", "clean", "--dry-run"]) == 0
    assert "would be freed" in capsys.readouterr().out
    assert len(list(store_folder().iterdir())) == 6
    assert main(["data", "clean"]) == 0
    assert capsys.readouterr().out.count("MiB") == 5
    left = sorted(path.name for path in store_folder().iterdir())
    assert left == ["elsewhere", "somebody's.txt"]
