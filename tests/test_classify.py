"""From images to a report: what a run writes, answers and shows is what it learned."""

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

import regard as rg
from regard.cli import main
from regard.data.augment import Augment
from regard.data.config import AugmentConfig
from regard.data.images import ArrayImages, FileImages, Split
from regard.errors import UserError
from regard.tasks.classify.config import ClassifyConfig
from regard.tasks.classify.data import ImageBatches, Metadata, read
from regard.tasks.classify.loss import (
    loss_of,
    measure,
    objective,
    scorer,
    training_sample,
)
from regard.tasks.classify.task import CLASSIFY, settle
from regard.tasks.image_data import batch_seeds, statistics
from regard.tasks.inputs import Rows
from regard.training.config import TrainConfig

CPU = torch.device("cpu")
TINY = {
    "model": {"width": 16, "layers": 2, "heads": 2, "mlp_width": 32},
    "batch_size": 32,
}
FLAGS = [
    *("--model.width", "16", "--model.layers", "2", "--model.heads", "2"),
    *("--model.mlp-width", "32", "--batch-size", "32"),
]


@pytest.fixture(scope="module")
def run(shared_run):
    """One small run, which all tests below only read."""
    return shared_run("classify")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of colour images of many sizes in two classes: reddish and bluish."""
    draw, photos = np.random.default_rng(3), tmp_path_factory.mktemp("album") / "photos"
    for name, channel in (("red", 0), ("blue ä", 2)):
        folder = photos / name
        folder.mkdir(parents=True)
        for number in range(24):
            size = draw.integers(20, 90, 2)
            pixels = draw.integers(0, 90, (*size, 3), dtype=np.uint8)
            pixels[..., channel] += 150
            Image.fromarray(pixels).save(folder / f"{number}.png")
    return photos


@pytest.fixture(scope="module")
def photo_run(photos, tmp_path_factory):
    """One that has learnt them, where they were called by their name in the current folder."""
    out = tmp_path_factory.mktemp("runs") / "run"
    command = ["train", "classify", "--data", photos.name, "--epochs", "4", "--out", str(out)]
    how = ["--batch-size", "16", "--no-report", "--quiet", "--device", "cpu"]
    with contextlib.chdir(photos.parent):
        assert main([*command, *FLAGS, *how]) == 0
    return rg.load(out, device="cpu")


# What a run is


def test_the_attention_can_be_the_users_own(run):
    calls = []

    def mine(*args, **options):
        calls.append(1)
        return rg.attend(*args, **options).output

    other = rg.load(run.folder.path, device="cpu", attention=mine)
    ours, theirs = (
        run.predict(split="test", indices=0)[0],
        other.predict(split="test", indices=0)[0],
    )
    assert calls and ours.classes == theirs.classes
    assert ours.probabilities == pytest.approx(theirs.probabilities, abs=1e-5)


def test_a_run_can_be_trained_with_an_attention_of_ones_own(tmp_path):
    sharper = rg.LinearAttention(
        rg.attention.LearnedFeatures(8)
    )  # with weights, so that every layer has its own
    options = {"data": "digits", "quiet": True, "device": "cpu", "report": False, **TINY}
    run = rg.train("classify", epochs=1, out=tmp_path / "own", attention=sharper, **options)
    path = run.folder.path
    names = [name for name in run.model.state_dict() if name.endswith("feature.weight")]
    assert len(names) == run.config.model.layers
    again = rg.load(path, device="cpu", attention=sharper).predict(split="test", indices=0)[0]
    assert again.probabilities == run.predict(split="test", indices=0)[0].probabilities
    with pytest.raises(UserError, match=r"trained with code of your own.*attention=…\)"):
        rg.load(path, device="cpu").predict(split="test", indices=0)
    with pytest.raises(UserError, match=r"begun with code of your own.*attention=…\)"):
        rg.train("classify", epochs=2, out=path, resume=True, **options)
    more = rg.train("classify", epochs=2, out=path, resume=True, attention=sharper, **options)
    assert len(more.metrics) == 2


def test_several_processes_are_not_one_run(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(UserError, match="4 processes were started to train together"):
        rg.train("classify", data="digits", root=tmp_path, quiet=True, **TINY)
    assert not list(tmp_path.iterdir())


# Asking


def test_classes_come_by_their_shares_and_a_row_has_its_truth(run):
    own, given = run.predict(Rows("test", (5,)), run.data.images.test.images[5])
    assert own.probabilities == given.probabilities and given.truth is None
    assert own.truth == run.metadata.classes[run.data.images.test.labels[5]]
    assert sum(own.probabilities) == pytest.approx(1, abs=1e-5)
    assert list(own.probabilities) == sorted(own.probabilities, reverse=True)
    values = own.to_values()
    assert values["input"] == "digits test:5" and values["truth"] == own.truth
    assert values["answer"] == max(values["probabilities"], key=values["probabilities"].get)


# Measuring


def test_evaluate_prints_writes_and_agrees_with_counting(run, capsys, tmp_path):
    assert main(["evaluate", str(run.folder.path), "--json", "--device", "cpu"]) == 0
    values = json.loads(capsys.readouterr().out)
    test = run.data.images.test
    right = sum(answer.classes[0] == answer.truth for answer in run.predict(split="test"))
    assert values["accuracy"]["value"] == pytest.approx(right / len(test))
    assert main(["evaluate", str(run.folder.path), "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    assert f"{right / len(test):.1%}" in said and "report.html" in said
    assert f"is {right / len(test) - 0.98:+.1%}\n" in said  # what the recipe of digits promises


def test_measure_tells_training_images_from_others(run):
    data = run.data
    figures = measure(run.config, data, CPU)(run.model)
    for name, split in (("train_eval", training_sample(data)), ("val", data.images.validation)):
        logits = torch.from_numpy(scorer(split, run.metadata, CPU)(run.model))
        labels = torch.from_numpy(split.labels)
        assert figures[f"{name}/loss"] == pytest.approx(float(F.cross_entropy(logits, labels)))
        assert figures[f"{name}/accuracy"] == float((logits.argmax(-1) == labels).double().mean())
    assert next(iter(figures)) == "val/accuracy"  # the one that decides


def test_the_sample_of_training_images_is_spread_and_as_large_as_validation(run):
    sample, train = training_sample(run.data), run.data.images.train
    assert len(sample) == len(run.data.images.validation)
    assert (sample.images.pixels[0] == train.images.pixels[0]).all()
    assert (sample.images.pixels[-1] == train.images.pixels[-1]).all()


# Looking


def test_the_maps_shown_are_those_of_the_pass(run):
    from regard.tasks.classify.report import maps_of, prepared

    pictures = [*run.items(split="test", indices=[0, 1])]
    maps = maps_of(run.trained, pictures)
    with torch.no_grad(), rg.watch(run.model) as seen:
        run.model(prepared(run.trained, pictures))
    rows = seen["blocks.1.attention"].weights(rows=[-1])[:, :, 0, :-1].unflatten(-1, (4, 4))
    assert np.allclose(maps.heads[:, 1], rows.numpy(), atol=1e-6)


# Comparing


# Data on their way


def test_every_epoch_sees_each_image_at_most_once_in_an_order_of_its_own():
    split = Split(
        ArrayImages(np.arange(50, dtype=np.uint8).reshape(50, 1, 1, 1)), np.arange(50) % 3
    )
    batches = ImageBatches(split, 8, 0, CPU)
    assert len(batches) == 6

    def seen(number, start=0):
        return [batch.images.flatten().tolist() for batch in batches.epoch(number, start)]

    first, second = seen(0), seen(1)
    assert len({row for group in first for row in group}) == 48
    assert first != second
    assert seen(0) == first and seen(0, 4) == first[4:]
    for batch in batches.epoch(0, 0):
        assert batch.labels.tolist() == [row % 3 for row in batch.images.flatten().tolist()]
    assert seen(0) != [
        b.images.flatten().tolist() for b in ImageBatches(split, 8, 1, CPU).epoch(0, 0)
    ]


def test_a_set_smaller_than_a_batch_is_one_batch():
    split = Split(ArrayImages(np.zeros((5, 1, 2, 2), np.uint8)), np.zeros(5, np.int64))
    batches = ImageBatches(split, 64, 0, CPU)
    assert len(batches) == 1 and len(next(iter(batches.epoch(0, 0))).labels) == 5


def test_files_read_anew_each_time_come_in_the_same_order(photos):
    paths = tuple(sorted(photos.rglob("*.png")))
    images = FileImages(paths, 16)
    labels = np.arange(len(paths))
    kept = ArrayImages(images.take(range(len(paths))))
    anew, whole = (ImageBatches(Split(i, labels), 5, 0, CPU) for i in (images, kept))
    assert anew.pixels is None and whole.pixels is not None
    for ours, theirs in zip(anew.epoch(2, 3), whole.epoch(2, 3), strict=True):
        assert torch.equal(ours.images, theirs.images) and torch.equal(ours.labels, theirs.labels)
        assert ours.seed == theirs.seed


def test_no_two_batches_are_varied_alike():
    seeds = {b for s in range(3) for e in range(20) for b in batch_seeds(s, e, 50)}
    assert len(seeds) == 3000 and all(0 <= seed < 2**63 for seed in seeds)


def test_statistics_are_those_of_the_pixels():
    pixels = np.random.default_rng(0).integers(0, 256, (7, 3, 5, 4), dtype=np.uint8)
    pixels[:, 1] = 9
    mean, deviation = statistics(ArrayImages(pixels))
    shares = pixels / 255
    assert mean == pytest.approx(tuple(shares.mean((0, 2, 3))))
    expected = shares.std((0, 2, 3))
    assert deviation == pytest.approx((expected[0], 1.0, expected[2]))


def test_normalised_pixels_have_mean_0_and_deviation_1(run):
    pixels = torch.from_numpy(run.data.images.train.images.pixels).float() / 255
    normal = run.metadata.normalised(pixels)
    assert float(normal.mean()) == pytest.approx(0, abs=1e-4)
    assert float(normal.std()) == pytest.approx(1, abs=1e-4)


# Learning


def facts_for(classes=4):
    names = tuple(map(str, range(classes)))
    return Metadata(
        *(),
        **{"data": "toy", "digest": "", "classes": names, "size": 8, "channels": 1},
        **{"mean": (0.5,), "deviation": (0.25,), "images": (1, 1, 1)},
    )


@pytest.mark.parametrize("mixing", [{}, {"mixup_alpha": 0.4}, {"cutmix_alpha": 1.0}], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_cross_entropy_with_the_distribution_shown(mixing, smoothing):
    config = ClassifyConfig(label_smoothing=smoothing, augment=AugmentConfig(**mixing))
    logits = torch.randn(9, 4, dtype=torch.float32)
    draw = torch.Generator().manual_seed(0)
    mixed = Augment(config.augment)(torch.rand(9, 1, 8, 8), torch.arange(9) % 4, draw)
    targets = mixed.targets(4) * (1 - smoothing) + smoothing / 4
    expected = -(targets * logits.log_softmax(-1)).sum()
    torch.testing.assert_close(loss_of(logits, mixed, config), expected)


def test_the_objective_is_the_same_for_the_same_batch_and_varies_with_its_seed():
    config = ClassifyConfig(augment=AugmentConfig(crop_padding=2, hflip=True))
    pixels = np.random.default_rng(1).integers(0, 256, (40, 1, 8, 8), dtype=np.uint8)
    batches = ImageBatches(Split(ArrayImages(pixels), np.arange(40) % 4), 8, 0, CPU)
    first, second = list(batches.epoch(0, 0))[:2]
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))
    ask = objective(config, facts_for())
    loss, count = ask(model, first)
    assert count == 8 and loss == ask(model, first)[0]
    moved = type(first)(first.images, first.labels, second.seed)
    assert loss != ask(model, moved)[0]


def test_the_model_follows_the_data_and_a_contradiction_is_named(run):
    config = CLASSIFY.config(data="digits", model=rg.ViTConfig(image_size=8, patch_size=2))
    assert settle(config, run.data).model.channels == 1
    wrong = CLASSIFY.config(
        data="digits", model=rg.ViTConfig(image_size=8, patch_size=2, num_classes=7)
    )
    with pytest.raises(UserError, match=r"model\.num_classes is 7, and digits has 10"):
        settle(wrong, run.data)


def test_a_folder_of_ones_own_is_learned_and_its_names_survive(photo_run, photos):
    """Also where the current folder is another than at its training."""
    assert "2 classes, 64 × 64 pixels" in (photo_run.folder.path / "log.txt").read_text("utf-8")
    assert photo_run.metadata.classes == ("blue ä", "red") and photo_run.metadata.channels == 3
    assert photo_run.evaluate("test").accuracy.value == 1.0
    answer = photo_run.predict(photos / "red" / "3.png")[0]
    assert answer.classes[0] == "red" and answer.name.endswith("3.png")


def test_changed_data_are_noticed(photo_run, photos):
    changed = photos / "red" / "0.png"
    before = changed.read_bytes()
    Image.new("RGB", (30, 30), "red").save(changed)
    try:
        with pytest.raises(UserError, match="has changed since"):
            rg.load(photo_run.folder.path).evaluate("test")
    finally:
        changed.write_bytes(before)


def test_digits_at_another_size_work(tmp_path):
    model = {**TINY["model"], "image_size": 16, "patch_size": 4}
    run = rg.train(
        "classify",
        data="digits",
        epochs=1,
        root=tmp_path,
        quiet=True,
        report=False,
        batch_size=64,
        model=model,
    )
    assert run.metadata.size == 16 and run.predict(split="test", indices=0)


def test_reading_takes_the_size_of_the_model():
    data = read(ClassifyConfig(model=rg.ViTConfig(image_size=12, patch_size=4)))
    assert data.images.train.images.pixels.shape[1:] == (1, 12, 12)


def test_another_seed_is_another_run_in_a_folder_of_its_own(tmp_path):
    """That the same seed is the same run, tests/test_task_contract.py holds for every task."""
    options = {"data": "digits", "epochs": 1, "root": tmp_path, "quiet": True, "report": False}
    how = ({"seed": 0}, {"seed": 1, "deterministic": True})
    one, other = (rg.train("classify", **options, **TINY, train=train) for train in how)
    assert not torch.are_deterministic_algorithms_enabled()
    assert one.folder.path != other.folder.path
    ours, theirs = one.model.state_dict(), other.model.state_dict()
    assert not torch.equal(ours["head.weight"], theirs["head.weight"])


def test_a_run_can_be_carried_further(shared_run):
    path = shared_run("classify").folder.path
    further = rg.train("classify", out=path, resume=True, epochs=3, quiet=True, report=False)
    assert [line["epoch"] for line in further.metrics] == [1, 2, 3]
    with pytest.raises(UserError, match=r"started with model\.width = 16, not 32"):
        rg.train("classify", out=path, resume=True, model={"width": 32}, quiet=True)


def test_the_configuration_survives_the_folder(run):
    again = rg.load(run.folder.path).config
    assert again == run.config and isinstance(again.train, TrainConfig)
    assert (
        Path(run.folder.path / "config.toml").read_text(encoding="utf-8").startswith("format = 2")
    )


# What a person does who brings other data, or comes from elsewhere


def test_other_data_are_measured_whole_and_must_speak_of_the_same_classes(
    photo_run, photos, tmp_path
):
    mine = photo_run
    assert mine.evaluate(data=photos).count == 48
    assert mine.evaluate("test", data=photos).count == len(mine.data.images.test)
    shutil.copytree(photos / (last := mine.metadata.classes[-1]), tmp_path / "one" / last)
    judged = mine.evaluate(data=tmp_path / "one")
    assert [each.count for each in judged.per_class] == [0, 24]
    with pytest.raises(UserError, match="classes that the run does not know: 0, 1, 2"):
        mine.evaluate(data="digits")


def test_the_callers_random_numbers_are_left_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    rg.train("classify", data="digits", epochs=1, root=tmp_path, quiet=True, report=False, **TINY)
    assert torch.equal(torch.rand(3), expected)


def test_a_mask_and_numbers_of_numpy_can_be_passed_as_they_are(tmp_path):
    mask = rg.neighborhood(1, (4, 4))
    model = {**TINY["model"], "mask": mask}
    run = rg.train(
        "classify",
        data="digits",
        epochs=1,
        root=tmp_path,
        quiet=True,
        report=False,
        batch_size=np.int64(64),
        model=model,
    )
    assert run.config.model.mask == str(mask) and len(run.metrics) == 1


def test_an_array_with_alpha_is_seen_on_white_and_one_without_pixels_is_refused(run):
    clear = np.zeros((8, 8, 4), np.uint8)
    white = np.full((8, 8, 3), 255, np.uint8)
    assert run.predict(clear)[0].probabilities == run.predict(white)[0].probabilities
    with pytest.raises(UserError, match=r"shape \(0, 0\)"):
        run.predict(np.zeros((0, 0), np.uint8))


def test_results_without_a_state_are_not_overwritten(shared_run):
    options = {"quiet": True, "report": False}
    mine = shared_run("classify")
    weights = (mine.folder.path / "model.safetensors").read_bytes()
    shutil.rmtree(mine.folder.path / "state")
    with pytest.raises(UserError, match="has results but no state to go on from"):
        rg.train("classify", out=mine.folder.path, resume=True, epochs=3, **options)
    assert (mine.folder.path / "model.safetensors").read_bytes() == weights
    assert len(mine.metrics) == 2


def test_one_bad_file_in_a_folder_leaves_the_others_their_answers(run, tmp_path, capsys):
    for name in ("a.png", "b.png"):
        Image.new("L", (9, 9)).save(tmp_path / name)
    (tmp_path / "c.png").write_text("not an image", encoding="utf-8")
    with pytest.raises(UserError, match=r"c\.png is no image but text"):
        run.predict(tmp_path)
    with pytest.warns(UserWarning, match=r"left out: 1, the first as .*c\.png is no image"):
        answers = run.predict(tmp_path, skip_invalid=True)
    assert [Path(answer.name).name for answer in answers] == ["a.png", "b.png"]
    command = ["predict", str(run.folder.path), str(tmp_path), "--device", "cpu"]
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2 and f"regard: {tmp_path / 'c.png'} is no image" in err
    assert main([*command, "--skip-invalid"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
