"""`python -m benchmarks watch`: what watching a model costs while it runs.

The same ViT takes turns with and without observers. Watching keeps references and computes
nothing; the maps are paid for when they are asked for. What is kept cannot be used again, though:
in a pass that keeps nothing otherwise, a CPU pays for fresh pages of memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.harness import interleave
from regard.attention import watch
from regard.hardware.machine import machine
from regard.models import ViT, ViTConfig

MODELS = {  # what → (configuration, images at once on a CPU, on a GPU)
    "width 64, 5 layers, 65 tokens": (ViTConfig(heads=4, mlp_width=128), 64, 1024),
    "width 192, 12 layers, 197 tokens": (
        ViTConfig(width=192, layers=12, heads=3, image_size=224, patch_size=16),
        4,
        128,
    ),
}


def run(device: torch.device, *, quick: bool, out: Path | None) -> None:
    """Measure forward and forward + backward, print the ratios, and keep them when asked."""
    from rich.console import Console

    console, rows = Console(), []
    for name, (config, few, many) in MODELS.items():
        batch = many if device.type == "cuda" else few
        model = ViT(config).to(device)
        images = torch.randn(batch, 3, config.image_size, config.image_size, device=device)
        last = f"blocks.{config.layers - 1}.attention"
        for way, step in (("forward", forward), ("forward + backward", both)):
            plain = partial(step, model, images)
            contenders: dict[str, Callable[[], None]] = {
                "plain": plain,
                "watched": partial(watched, model, plain),
                "last layer watched": partial(watched, model, plain, last),
            }
            timing = interleave(
                contenders, device, rounds=3 if quick else 25, seconds=0.01 if quick else 0.1
            )
            seconds = {key: seen.median for key, seen in timing.items()}
            base = seconds["plain"]
            rows.append({"model": name, "batch": batch, "pass": way, "seconds": seconds})
            console.print(
                f"{name}, batch {batch}, {way}: {base * 1e3:.1f} ms; watched "
                f"{seconds['watched'] / base - 1:+.1%}, the last layer alone "
                f"{seconds['last layer watched'] / base - 1:+.1%}"
            )
    if out is not None:
        path = out / f"bench-watch-{device.type}.json"
        command = f"python -m benchmarks watch --device {device.type}" + (
            " --quick" if quick else ""
        )
        facts = {"command": command, **machine(device), "rows": rows}
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        console.print(f"wrote {path}")


def forward(model: ViT, images: Tensor) -> None:
    with torch.no_grad():
        model(images)


def both(model: ViT, images: Tensor) -> None:
    model.zero_grad()
    model(images).sum().backward()


def watched(model: ViT, step: Callable[[], None], *names: str) -> None:
    with watch(model, *names) as seen:
        step()
    if len(seen) != (len(names) or model.config.layers):
        raise RuntimeError(f"{len(seen)} of {model.config.layers} layers were seen")
