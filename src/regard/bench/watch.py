"""`regard bench watch`: what watching a model costs while it runs.

The same ViT takes turns with and without an observer on every layer. Watching keeps references
and computes nothing, so the two should be level; the maps are paid for when they are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from regard.attention import watch
from regard.bench.measure import interleave, machine
from regard.model import ViT, ViTConfig


def run(device: torch.device, *, quick: bool, out: Path | None) -> None:
    """Measure forward and forward + backward, print the ratios, and keep them when asked."""
    from rich.console import Console

    batch = 1024 if device.type == "cuda" else 64
    model = ViT(ViTConfig(width=64, layers=5, heads=4, hidden=128)).to(device)
    images = torch.randn(batch, 3, 32, 32, device=device)

    def forward() -> None:
        with torch.no_grad():
            model(images)

    def both() -> None:
        model.zero_grad()
        model(images).sum().backward()

    def watched(step: Callable[[], None]) -> None:
        with watch(model) as seen:
            step()
        if len(seen) != model.config.layers:
            raise RuntimeError(f"{len(seen)} of {model.config.layers} layers were seen")

    rows = {}
    console = Console()
    for name, step in (("forward", forward), ("forward + backward", both)):
        contenders: dict[str, Callable[[], None]] = {
            "plain": step,
            "watched": partial(watched, step),
        }
        timing = interleave(contenders, device, rounds=5 if quick else 25, seconds=0.1)
        ratio = timing["watched"].median / timing["plain"].median
        rows[name] = {k: t.median for k, t in timing.items()} | {"ratio": ratio}
        console.print(
            f"{name}: {timing['plain'].median * 1e3:.2f} ms, watched "
            f"{timing['watched'].median * 1e3:.2f} ms, {ratio - 1:+.1%}"
        )
    if out is not None:
        path = out / f"bench-watch-{device.type}.json"
        command = f"regard bench watch --device {device.type}" + (" --quick" if quick else "")
        facts = {"command": command, **machine(device), "batch": batch, "rows": rows}
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        console.print(f"wrote {path}")
