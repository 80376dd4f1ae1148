"""The tour trains, tests and looks, writes real pictures, and explains what it cannot write."""

import io
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from PIL import Image

from golden import golden
from regard import attention
from regard.cli import demo, main
from regard.data.captions import CaptionSet
from regard.data.synthetic.scene_set import scene_set
from regard.tasks.caption import data as reading

PICTURES = ("masks.png", "attention.png", "caption.png")


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    """One run of the command into a folder that has been used before: the folder, what it said."""
    out = tmp_path_factory.mktemp("tour") / "pictures"
    out.mkdir()
    (out / "masks.png").write_text("an older picture", encoding="utf-8")
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    with redirect_stdout(io.StringIO()) as said, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "scene_set", few_scenes)
        assert main(["demo", "--out", str(out), "--epochs", "2"]) == 0
    return out, said.getvalue()


def few_scenes(train: int, *, size: int) -> CaptionSet:
    return scene_set(min(train, 96), held=24, size=size)


def test_the_tour_trains_tests_and_says_what_was_proved(tour):
    out, said = tour
    assert "[1, 12, 5, 5]" in said
    assert "epoch 2 of 2" in said and "359 images" in said
    assert "the logits are the same to the last bit" in said
    assert all(str(out / name) in said for name in PICTURES)


def test_the_tour_fits_a_terminal_of_a_hundred_columns(tour):
    out, said = tour
    lines = [line for line in said.splitlines() if str(out) not in line and sys.prefix not in line]
    assert max(map(len, lines)) <= 100


def test_what_to_try_next_can_be_typed_as_it_stands(monkeypatch, tmp_path):
    monkeypatch.setattr(demo.shutil, "which", lambda _: "/usr/bin/regard")
    assert demo.how_to_call() == "regard"
    monkeypatch.setattr(demo.shutil, "which", lambda _: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert demo.how_to_call() == f"{tmp_path / 'bin' / 'python'} -m regard"
    monkeypatch.chdir(tmp_path)
    assert demo.how_to_call() == f"{Path('bin', 'python')} -m regard"


@pytest.mark.parametrize("name", PICTURES)
def test_the_tour_writes_real_pictures(tour, name):
    with Image.open(tour[0] / name) as picture:
        assert picture.format == "PNG"
        assert picture.width == 1600 and picture.height > 1000
        colours = picture.convert("RGB").getcolors(picture.width * picture.height)
    assert len(colours) > 20
    assert max(count for count, _ in colours) < 0.9 * picture.width * picture.height


def test_the_tour_replaces_only_its_own_files(tour):
    out, _ = tour
    runs = ("classify-digits-001", "caption-scenes-001")
    assert sorted(path.name for path in out.iterdir()) == sorted((*PICTURES, "notes.txt", *runs))
    assert all((out / run / "report.html").is_file() for run in runs)
    assert (out / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_the_gallery_has_every_named_mask_alone_and_some_composed():
    masks = [attention.Mask.parse(expression) for expression in demo.MASKS.values()]
    alone = {str(mask).split("(")[0] for mask in masks if type(mask).__name__ not in {"And", "Or"}}
    assert alone - {"~causal"} == set(attention.MASKS)
    assert len(masks) > len(attention.MASKS) + 2


def test_a_file_in_place_of_the_folder_is_said_in_a_sentence(tmp_path, capsys):
    taken = tmp_path / "taken"
    taken.write_text("mine", encoding="utf-8")
    for out in (taken, taken / "below"):
        assert main(["demo", "--out", str(out)]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"regard: cannot write to {out} (")
        assert said.endswith("; name another folder with --out\n") and said.count("\n") == 1
    assert taken.read_text(encoding="utf-8") == "mine"


def test_a_folder_without_permission_is_said_in_a_sentence(tmp_path, capsys, monkeypatch):
    # Not by chmod: whoever runs the tests as root may write everywhere.
    def denied(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", denied)
    assert main(["demo", "--out", str(tmp_path)]) == 2
    golden(capsys.readouterr().err)


def test_a_folder_in_place_of_a_picture_is_said_in_a_sentence(tmp_path, capsys):
    (tmp_path / "masks.png").mkdir()
    assert main(["demo", "--out", str(tmp_path)]) == 2
    golden(capsys.readouterr().err)


@pytest.mark.parametrize("flag", ["--epochs 0", "--seed -1", "--seed 9223372036854775808"])
def test_a_number_that_cannot_be_is_named(tmp_path, capsys, flag):
    assert main(["demo", "--out", str(tmp_path), *flag.split()]) == 2
    golden(capsys.readouterr().err)


def test_help_of_the_tour_loads_neither_torch_nor_matplotlib():
    code = (
        "import sys\nfrom regard.cli import main\n"
        "try:\n    main(['demo', '--help'])\nexcept SystemExit:\n    pass\n"
        "sys.exit(' '.join({'torch', 'matplotlib', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True)
    assert done.stderr.strip() == ""
    assert "--epochs" in done.stdout
