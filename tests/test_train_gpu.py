"""Training on a GPU: recorded steps are the steps that were recorded, and a run is a run."""

import math
import signal
from dataclasses import replace

import pytest
import torch
from torch import nn

import regard as rg
from regard.data.augment import ImageBatch
from regard.data.config import AugmentConfig
from regard.models import ViT, ViTConfig
from regard.run_folder import RunFolder
from regard.tasks.classify.config import ClassifyConfig
from regard.tasks.classify.data import Metadata
from regard.tasks.classify.loss import objective
from regard.training.config import OptimizerConfig, TrainConfig
from regard.training.cuda_graph import CudaGraphStep
from regard.training.estimate import estimate
from regard.training.fit import Diverged, Progress, Trainer, train

pytestmark = pytest.mark.cuda

CONFIG = TrainConfig(
    epochs=3, ema_decay=0.9, optimizer=OptimizerConfig("muon", lr=1e-3), cuda_graph="on"
)
VARIED = AugmentConfig(
    crop_padding=2, hflip=True, random_erasing=0.3, mixup_alpha=0.4, randaugment_ops=1
)
FACTS = Metadata(
    data="noise",
    digest="",
    classes=tuple("0123456789"),
    size=16,
    channels=3,
    mean=(0.5,) * 3,
    deviation=(0.25,) * 3,
    images=(0, 0, 0),
)


class Noise:
    """Batches of random images on the GPU; the last may be smaller."""

    def __init__(self, count: int = 328, batch: int = 32) -> None:
        draw = torch.Generator("cuda").manual_seed(0)
        self.batch = batch
        self.images = torch.randint(
            256, (count, 3, 16, 16), generator=draw, device="cuda", dtype=torch.uint8
        )
        self.labels = torch.randint(10, (count,), generator=draw, device="cuda")

    def __len__(self) -> int:
        return -(-len(self.labels) // self.batch)

    def epoch(self, number: int, start: int):
        order = torch.randperm(len(self.labels), generator=torch.Generator().manual_seed(number))
        for at, rows in enumerate(order.cuda().split(self.batch)[start:], start):
            yield ImageBatch(self.images[rows], self.labels[rows], seed=1000 * number + at)


def model(dropout: float = 0.1) -> nn.Module:
    torch.manual_seed(0)
    return ViT(
        ViTConfig(image_size=16, width=32, layers=2, heads=2, num_classes=10, dropout=dropout)
    ).cuda()


def learn():
    return objective(ClassifyConfig(augment=VARIED, label_smoothing=0.1), FACTS)


def nothing(_: nn.Module) -> dict[str, float]:
    return {}


def trained(path, config: TrainConfig, **options) -> Trainer:
    run = RunFolder.at(path)
    trainer = Trainer(model(), Noise(), learn(), nothing, config, run, **options)
    trainer.go()
    return trainer


@pytest.mark.parametrize("kind", ["muon", "adamw"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_recorded_steps_give_the_weights_of_steps_that_were_made(tmp_path, kind, accumulate):
    config = replace(
        CONFIG, grad_accum_steps=accumulate, optimizer=replace(CONFIG.optimizer, name=kind)
    )
    made = trained(tmp_path / "made", replace(config, cuda_graph="off"))
    played = trained(tmp_path / "played", config)
    assert isinstance(played.step, CudaGraphStep) and not played.step.trouble
    assert len(played.step.recordings) == 2  # of full batches, and of the last one of an epoch
    for name, weight in made.model.state_dict().items():
        torch.testing.assert_close(played.model.state_dict()[name], weight, msg=name)
        assert torch.equal(played.model.state_dict()[name], weight), name
    assert made.average is not None and played.average is not None
    for name, weight in made.average.weights.items():
        assert torch.equal(played.average.weights[name], weight), name
    losses = [RunFolder(tmp_path / who).metrics() for who in ("made", "played")]
    assert [line["train/loss"] for line in losses[0]] == [line["train/loss"] for line in losses[1]]


@pytest.mark.parametrize("capture", ["on", "off"])
def test_a_run_that_goes_on_is_the_run_that_was_not_stopped(tmp_path, capture):
    config = replace(CONFIG, cuda_graph=capture, deterministic=True)
    through, again, run = model(), model(), RunFolder.at(tmp_path / "b")
    train(through, Noise(), learn(), nothing, config, RunFolder.at(tmp_path / "a"))

    def interrupt(at: Progress) -> None:
        if at.step in (7, 25):
            signal.raise_signal(signal.SIGINT)

    for resume in (False, True):
        with pytest.raises(KeyboardInterrupt):
            train(model(), Noise(), learn(), nothing, config, run, resume=resume, report=interrupt)
    train(again, Noise(), learn(), nothing, config, run, resume=True)
    for name, weight in through.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight), name


@pytest.mark.parametrize("capture", ["on", "off"])
def test_a_loss_that_is_no_number_is_told_with_its_own_step_though_it_is_read_late(
    tmp_path, capture
):
    ask = learn()

    def poisoned(net, batch):
        loss, count = ask(net, batch)
        dark = batch.images.float().mean() < 1
        return loss / torch.where(dark, 0.0, 1.0), count

    class Dark(Noise):
        def epoch(self, number, start):
            for at, batch in enumerate(super().epoch(number, start), start):
                dark = number == 1 and at == 6
                yield replace(batch, images=batch.images * 0) if dark else batch

    # A state after the first epoch is written only if the one before took little time.
    told = r"at step 18 \(epoch 2, batch 7\); the state after step (0|11) is kept"
    with pytest.raises(Diverged, match=told):
        train(
            model(),
            Dark(),
            poisoned,
            nothing,
            replace(CONFIG, cuda_graph=capture),
            RunFolder.at(tmp_path / "run"),
        )


def test_a_step_that_waits_for_the_device_is_made_as_before(tmp_path):
    ask = learn()

    def waiting(net, batch):
        loss, count = ask(net, batch)
        assert math.isfinite(float(loss.detach()))  # cannot be recorded
        return loss, count

    net = model(dropout=0.0)
    run = RunFolder(tmp_path)
    trainer = Trainer(net, Noise(), waiting, nothing, CONFIG, run)
    trainer.go()
    assert isinstance(trainer.step, CudaGraphStep) and trainer.step.trouble
    assert not trainer.step.recordings and trainer.progress.step == 33
    assert torch.ones(3, device="cuda").sum() == 3


def test_batches_without_seeds_are_not_recorded(tmp_path):
    class Pairs(Noise):
        def epoch(self, number, start):
            for batch in super().epoch(number, start):
                yield batch.images, batch.labels

    def plain(net, pair):
        logits = net(FACTS.inputs(pair[0]))
        return nn.functional.cross_entropy(logits, pair[1], reduction="sum"), len(pair[1])

    trainer = Trainer(model(), Pairs(), plain, nothing, CONFIG, RunFolder(tmp_path))
    trainer.go()
    assert isinstance(trainer.step, CudaGraphStep)
    assert trainer.step.trouble == "its batches have no seed and generator"


def test_the_estimate_says_whether_recording_pays_and_leaves_no_memory_behind():
    net, held = model(), []
    for capture in ("auto", "on", "off") * 2:
        of = estimate(net, Noise(), learn(), replace(CONFIG, cuda_graph=capture), measured=100)
        assert 0 < of.seconds < 60 and of.bytes and of.bytes < 8e9
        assert of.capture is (capture != "off")  # so small a model is all launches
        held.append(torch.cuda.memory_allocated())
    assert max(held[3:]) <= max(held[:3])  # the first time, libraries take their workspaces


def test_a_state_from_a_gpu_goes_on_on_a_cpu_and_back(tmp_path):
    out = tmp_path / "run"
    for epochs, device in ((1, "cuda"), (2, "cpu"), (3, "cuda")):
        run = rg.train(
            "classify",
            data="digits",
            out=out,
            resume=epochs > 1,
            epochs=epochs,
            device=device,
            quiet=True,
        )
    assert len(RunFolder(out).metrics()) == 3
    assert run.evaluate(split="validation").accuracy.value > 0.5


def test_digits_are_learned_on_a_gpu_as_on_a_cpu(tmp_path):
    run = rg.train("classify", data="digits", out=tmp_path / "run", device="cuda", quiet=True)
    assert run.evaluate(split="validation").accuracy.value > 0.96
    here = rg.load(tmp_path / "run", device="cpu")
    there, ours = (one.predict(split="validation", indices=3)[0] for one in (run, here))
    assert there.classes[0] == ours.classes[0]
    assert there.probabilities[0] == pytest.approx(ours.probabilities[0], abs=1e-3)
