"""Side by side with other libraries in one run, as ratios."""

from importlib import import_module
from pathlib import Path
from typing import Literal

from regard.errors import UserError

BENCHES = {
    "attention": "benchmarks.attention",
    "watch": "benchmarks.watch",
    "training": "benchmarks.training",
    "captions": "benchmarks.captions",
    "decoding": "benchmarks.decoding",
    "translation": "benchmarks.translation",
    "efficient-attention": "benchmarks.sparse",
    "time-to-accuracy": "benchmarks.time_to_accuracy",
}


def bench(
    *names: str,
    quick: bool = False,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    out: Path | None = None,
) -> None:
    """Measure, print ratios, and keep the figures.

    Args:
        names: which benchmarks to run; all of them when none is named.
        quick: fewer sizes and rounds, for a first impression.
        device: where to run; auto takes a GPU when there is one.
        out: a folder for the figures as JSON and PNG; nothing is written without it.
    """
    import torch

    for name in names:
        if name not in BENCHES:
            raise UserError(f"no benchmark {name!r}; there are {', '.join(BENCHES)}")
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: torch sees no CUDA device here")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as trouble:
            raise UserError(f"--out {out}: {trouble.strerror}") from None
    for name in names or BENCHES:
        import_module(BENCHES[name]).run(torch.device(device), quick=quick, out=out)
