"""Training: images a second of whole training loops, beside other libraries' ViTs.

Everyone reads the same images and moves by the same AdamW, in the same arithmetic. Ours runs in
`regard.training.fit`, which on a GPU replays recorded steps, and again in the plain loop that the
others run in: the distance between the two is what our loop costs or saves, the state it writes at
the end of a turn included. (A turn on a CPU is shorter than an epoch, so there the end weighs more
than in life.) All vary their images with `regard.data.augment`, a batch at a time; the usual way,
image by image in worker processes, would only make the others slower. On a GPU the largest batch
is also trained with compiled models. What happens once, compiling and recording, is not timed.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.harness import count, interleave, version
from benchmarks.peers import ENCODER, TRANSFORMERS, Peer, check_fair, find_peers
from regard.data.augment import Augment, ImageBatch
from regard.data.config import AugmentConfig
from regard.hardware.machine import machine
from regard.models import ViT, ViTConfig
from regard.run_folder import RunFolder
from regard.training.config import LRScheduleConfig, OptimizerConfig, TrainConfig
from regard.training.fit import Batches, Trainer
from regard.training.step import Objective


class Subject(NamedTuple):
    """A model to train, and in what portions. On a GPU a turn goes through all images."""

    config: ViTConfig
    turn: int  # batches in a turn on a CPU
    batches: dict[str, list[int]]  # by device; on a GPU the last is also compiled


MODELS = {
    "140,618 parameters": Subject(
        ViTConfig(mlp_width=64, bias=False, head_hidden=(64, 64)),
        24,
        {"cpu": [128], "cuda": [512, 2048]},
    ),
    "width 192, 6 layers": Subject(
        ViTConfig(width=192, layers=6, heads=3), 4, {"cpu": [128], "cuda": [1024]}
    ),
}
ROUNDS = {"cpu": 7, "cuda": 3}
IMAGES = 45_000  # what CIFAR-10 leaves to train on
OURS, OURS_PLAIN = "regard", "regard, plain loop"
AUGMENT = AugmentConfig(crop_padding=4, hflip=True)
TRAIN = TrainConfig(
    epochs=1,
    optimizer=OptimizerConfig(lr=1e-4),
    lr_schedule=LRScheduleConfig(name="constant", warmup_ratio=0.0),
)


def run(device: torch.device, *, quick: bool, out: Path | None) -> None:
    """Measure every model at every batch size, print the table, and keep it when asked."""
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 120)
    peers, left_out = find_peers()
    for sentence in left_out.values():
        console.print(sentence)
    pixels, labels = noise(IMAGES // 5 if quick else IMAGES, device)
    pairs = [
        (name, batch)
        for name, subject in MODELS.items()
        for batch in subject.batches[device.type][: 1 if quick else None]
    ]
    rows = []
    for name, batch in track(pairs, "measuring", transient=True):
        config, few, sizes = MODELS[name]
        most = max(1, few // 4 if quick else few) if device.type == "cpu" else None
        batches = ShuffledImages(pixels, labels, batch, most)
        compiled = device.type == "cuda" and batch == sizes["cuda"][-1] and not quick
        rounds = 3 if quick else ROUNDS[device.type]
        seen = measure(config, batches, peers, device, rounds, compiled)
        rows.append({"model": name, "batch": batch, "images": batch * len(batches), **seen})

    table = Table(title=f"training, images a second: {arithmetic_name(device)}, {device}")
    for column in ("model", "batch", "who", "parameters", "images/s", "quartiles", "× time"):
        table.add_column(column, justify="left" if column in ("model", "who") else "right")
    for row in rows:
        for who, rate in row["images_per_second"].items():
            low, high = row["quartiles"][who]
            table.add_row(
                row["model"],
                str(row["batch"]),
                who,
                f"{row['parameters'][who]:,}",
                f"{rate:,.0f}",
                f"{low:,.0f} … {high:,.0f}",
                f"{row['images_per_second'][OURS] / rate:.2f}",
            )
        table.add_section()
    console.print(table)
    console.print("× time: how many times as long as regard's own loop this one takes.")
    if out is not None:
        path = out / f"bench-training-{device.type}.json"
        command = f"python -m benchmarks training --device {device.type}" + (
            " --quick" if quick else ""
        )
        facts = {
            "command": command,
            **machine(device),
            "dtype": arithmetic_name(device),
            "versions": {name: version(name) for name in peers if name != ENCODER},
            "left_out": left_out,
            "rows": rows,
        }
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        console.print(f"wrote {path}")


def measure(
    config: ViTConfig,
    batches: Batches,
    peers: Mapping[str, Peer],
    device: torch.device,
    rounds: int,
    compiled: bool = False,
) -> dict[str, Any]:
    """Images a second of each contender in the loop it runs in, and how many parameters it has."""
    ours = {OURS: ViT(config), OURS_PLAIN: ViT(config)}
    models = {**ours, **{name: peer(config) for name, peer in peers.items()}}
    if compiled:
        models[f"{OURS}, compiled"] = ViT(config)
        if TRANSFORMERS in peers:
            models[f"{TRANSFORMERS}, compiled"] = peers[TRANSFORMERS](config)
    parameters = {name: count(model) for name, model in models.items()}
    contenders: dict[str, Callable[[], None]] = {}
    with TemporaryDirectory(prefix="regard-bench-") as folder:
        for at, (name, model) in enumerate(models.items()):
            model.to(device)
            check_fair(name, model, config, parameters[OURS])
            if name.endswith(", compiled"):
                model.compile()
            if name.partition(",")[0] == OURS and name != OURS_PLAIN:
                contenders[name] = regards_loop(model, batches, Path(folder) / str(at))
            else:
                contenders[name] = partial(plain_loop, model, batches, device)
        # A turn is many steps long: what the one before it left in caches is nothing beside that.
        timings = interleave(contenders, device, rounds=rounds, seconds=0.0, settle=False)
    images = sum(len(batch.labels) for batch in batches.epoch(0, 0))
    return {
        "parameters": parameters,
        "images_per_second": {name: images / seen.median for name, seen in timings.items()},
        "quartiles": {name: [images / t.high, images / t.low] for name, t in timings.items()},
    }


# The loops


def regards_loop(model: nn.Module, batches: Batches, folder: Path) -> Callable[[], None]:
    """A run of regard that goes on for an epoch each time: checked, counted, written and saved."""
    folder.mkdir()
    trainer = Trainer(model, batches, make_objective(), no_figures, TRAIN, RunFolder(folder))

    def one_epoch() -> None:
        trainer.one_epoch()
        trainer.finish_epoch()

    return one_epoch


def plain_loop(model: nn.Module, batches: Batches, device: torch.device) -> None:
    """One epoch as one would write it for torch: nothing but steps, and no wait until the end."""
    objective, optimiser = make_objective(), plain_adamw(model)
    total = torch.zeros((), device=device)
    model.train()
    for batch in batches.epoch(0, 0):
        with torch.autocast(device.type, torch.bfloat16, enabled=in_bfloat16(device)):
            loss, items = objective(model, batch)
        optimiser.zero_grad(set_to_none=True)
        (loss / items).backward()
        nn.utils.clip_grad_norm_(model.parameters(), TRAIN.grad_clip)
        optimiser.step()
        total += loss.detach()
    if not math.isfinite(float(total)):
        raise RuntimeError(f"the loss became {float(total)}: what was timed is no training")


def plain_adamw(model: nn.Module) -> torch.optim.AdamW:
    """The optimiser of `TRAIN`, with its decay on whatever is not a vector."""
    of, parameters = TRAIN.optimizer, list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": of.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=of.lr, betas=of.betas, fused=True)


def make_objective() -> Objective:
    """Bytes to varied and centred numbers, through the model, to a summed loss; for every loop."""
    augment = Augment(AUGMENT)

    def objective(model: nn.Module, batch: ImageBatch) -> tuple[Tensor, int]:
        images = augment(batch.images.float() / 255, batch.labels, batch.numbers()).images
        logits = model((images - 0.5) / 0.25)
        return F.cross_entropy(logits.float(), batch.labels, reduction="sum"), len(batch.labels)

    return objective


def no_figures(model: nn.Module) -> dict[str, float]:
    """What regard's loop is given to measure at the end of an epoch: the others do not either."""
    return {}


def in_bfloat16(device: torch.device) -> bool:
    """What `precision="auto"` of regard's loop does, for the plain one."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported()


def arithmetic_name(device: torch.device) -> str:
    return "bfloat16" if in_bfloat16(device) else "float32"


# The data


class ShuffledImages:
    """Batches of images that lie on the device, in an order that the epoch's number decides.

    45,000 small images take 138 megabytes, so nobody needs to load anything along the way.
    `most` ends an epoch after so many batches.
    """

    def __init__(
        self,
        pixels: UInt8[Tensor, "n k y x"],
        labels: Int64[Tensor, "n"],
        batch: int,
        most: int | None = None,
    ) -> None:
        if len(pixels) < batch:
            raise ValueError(f"{len(pixels)} images do not fill one batch of {batch}")
        self.pixels, self.labels, self.batch = pixels, labels, batch
        whole = len(pixels) // batch
        self.count = whole if most is None else min(most, whole)

    def __len__(self) -> int:
        return self.count

    def epoch(self, number: int, start: int) -> Iterator[ImageBatch]:
        device = self.pixels.device
        shuffle = torch.Generator(device).manual_seed(number)
        order = torch.randperm(len(self.pixels), generator=shuffle, device=device)
        for at, rows in enumerate(order.split(self.batch)[start : self.count], start):
            yield ImageBatch(self.pixels[rows], self.labels[rows], seed=number * self.count + at)


def noise(
    images: int, device: torch.device
) -> tuple[UInt8[Tensor, "n 3 32 32"], Int64[Tensor, "n"]]:
    """Images and labels that mean nothing: speed does not depend on what is seen."""
    draw = torch.Generator(device).manual_seed(0)
    shape = (images, 3, 32, 32)
    pixels = torch.randint(256, shape, generator=draw, device=device, dtype=torch.uint8)
    return pixels, torch.randint(10, (images,), generator=draw, device=device)
