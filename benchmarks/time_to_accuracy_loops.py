"""The loops that race: regard's own, and transformers' Trainer, around one model and its images."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset

from benchmarks.course import Course
from regard.errors import UserError
from regard.inspection.maps import evaluating
from regard.run_folder import RunFolder
from regard.tasks.image_data import shared
from regard.training.fit import Progress, Trainer

AT_ONCE = 1000  # images asked together


class Goal(NamedTuple):
    """How right a model is to become, how often it is asked, and for how long it may try."""

    accuracy: float
    every: int
    limit: float


class Learner:
    """A model with its first weights, which the seed alone decides, and what it is to learn."""

    def __init__(self, task: Any, config: Any, data: Any, device: torch.device) -> None:
        self.task, self.config, self.data, self.device = task, config, data, device
        torch.manual_seed(config.train.seed)
        self.model: nn.Module = task.build_model(config, data.metadata).to(device)

    def images(self, split: str) -> Images:
        """The images of a split as the model wants them, and their labels."""
        part = self.data.images[split]
        pixels = shared(part.images.take(np.arange(len(part))))
        return Images(self.data.metadata.inputs(pixels), torch.from_numpy(part.labels))

    def begin(self, goal: Goal) -> Course:
        """Start the clock on a course to the goal on validation."""
        seen = self.images("validation")

        def accuracy(model: nn.Module) -> float:
            right = 0
            with evaluating(model), torch.no_grad():
                for images, labels in zip(*(each.split(AT_ONCE) for each in seen), strict=True):
                    answers = model(images.to(self.device)).argmax(-1).cpu()
                    right += int((answers == labels).sum())
            return right / len(seen.labels)

        return Course(accuracy, goal=goal.accuracy, every=goal.every, limit=goal.limit)


class Images(NamedTuple):
    """Images as a model wants them, and the numbers of their classes."""

    images: Float[Tensor, "n k y x"]
    labels: Int64[Tensor, "n"]


# Ours


class Enough(Exception):
    """The course is over: nothing more is to be learnt."""


def by_regard(learner: Learner, goal: Goal) -> Course:
    """Regard's own loop, with all that it checks, writes and saves."""
    task, config, data, model = learner.task, learner.config, learner.data, learner.model
    batches = task.batches(config, data, learner.device)
    objective = task.loss(config, data.metadata)
    in_a_step = batches.batch * config.train.grad_accum_steps
    course = learner.begin(goal)

    def report(at: Progress) -> None:
        course.saw(model, at.step * in_a_step)
        if course.over:
            raise Enough

    with TemporaryDirectory(prefix="regard-bench-") as folder:
        run = RunFolder(Path(folder))
        trainer = Trainer(model, batches, objective, no_figures, config.train, run, report)
        with suppress(Enough):
            trainer.go()
    return course


def no_figures(model: nn.Module) -> dict[str, float]:
    """What regard's loop measures after an epoch: nothing, for the course asks on its own."""
    return {}


# Theirs


def load_trainer() -> Any:
    """transformers, if its Trainer can be made here."""
    for name in ("transformers", "accelerate"):
        try:
            import_module(name)
        except ImportError:
            raise UserError(
                f"python -m benchmarks time-to-accuracy needs {name}, which is not installed; in "
                "the "
                "folder of regard: pip install '.[bench]' -c constraints.txt"
            ) from None
    return import_module("transformers")


class WithLoss(nn.Module):
    """A model as the Trainer wants it: given the answers too, it says how far off it was."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, pixel_values: Float[Tensor, "b k y x"], labels: Int64[Tensor, "b"]
    ) -> dict[str, Tensor]:
        logits = self.model(pixel_values)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


class Rows(Dataset[dict[str, Tensor]]):
    """Images one by one, as the Trainer asks for them; normalised beforehand, in memory."""

    def __init__(self, images: Images) -> None:
        self.images, self.labels = images

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"pixel_values": self.images[row], "labels": self.labels[row]}


def by_trainer(learner: Learner, goal: Goal, settings: Mapping[str, Any]) -> Course:
    """transformers' Trainer with its defaults, but for what is said."""
    transformers, rows = load_trainer(), Rows(learner.images("train"))
    model = WithLoss(learner.model)
    course = learner.begin(goal)

    def after_a_step(args: Any, state: Any, control: Any, **_: Any) -> None:
        course.saw(learner.model, round(state.epoch * len(rows)))
        control.should_training_stop = control.should_training_stop or course.over

    with TemporaryDirectory(prefix="regard-bench-") as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            seed=learner.config.train.seed,
            use_cpu=learner.device.type == "cpu",
            dataloader_pin_memory=learner.device.type == "cuda",
            **QUIETLY,
            **settings,
        )
        trainer = transformers.Trainer(
            model, arguments, train_dataset=rows, callbacks=[callback(after_a_step)]
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    return course


# Nothing written and nothing said, which only makes it faster.
QUIETLY = {
    "save_strategy": "no",
    "logging_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
}


def callback(after_a_step: Any) -> Any:
    """A callback of the Trainer's own kind around a function."""
    members = {"on_step_end": staticmethod(after_a_step)}
    return type("AfterStep", (load_trainer().TrainerCallback,), members)()
