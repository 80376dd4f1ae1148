"""`regard demo`: the tour. Shapes, masks, and models that learn from embedded data.

It uses regard as a reader of the README would, through `import regard as rg`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import regard as rg
from regard.cli.parse import POSITIONAL, parse
from regard.errors import UserError
from regard.tasks import TASKS, find

# torch, rich and matplotlib are imported where they are used: `regard demo --help` needs none.
if TYPE_CHECKING:
    from rich.console import Console

    from regard.cli import Command

TOKENS = 25  # in the mask gallery: a grid of 4 × 6 and one class token
MASKS = {  # in words → the expression
    "nothing later": "causal",
    "near": "window(4)",
    "near, with holes": "dilated(3, 3)",
    "every fifth": "strided(5)",
    "own block": "blocks(5)",
    "the first keys": "sinks(3)",
    "the first, together": "prefix(8)",
    "the first, both ways": "global_tokens(2)",
    "drawn at random": "random_keys(4, 25, 0)",
    "near on a grid": "neighborhood(1, (4, 6))",
    "same row or column": "axial((4, 6))",
    "same window of a grid": "grid_windows(2, (4, 6), 0)",
    "the last of each block": "block_summary(5, 1)",
    "only what is later": "~causal",
    "streaming": "causal & (window(4) | sinks(2))",
    "prefix language model": "causal | prefix(8)",
    "sparse transformer": "causal & (window(5) | strided(5))",
    "the same, by blocks": "sparse_transformer_fixed(5)",
    "Longformer": "longformer(3, 2)",
    "BigBird": "bigbird(2, 2, 2, 25)",
}
ABOUT_GRIDS = (
    "On a grid: tokens 0 to 23 are 4 rows of 6; token 24, a class token, reads and is read freely."
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `regard demo`."""

    tasks: tuple[str, ...] = field(default=(), metadata=POSITIONAL)
    """Which tasks to train on embedded data; by default all."""
    out: Path = Path("demo")
    """Folder for pictures and runs; what is in it is kept, but for pictures drawn again."""
    seed: int = 0
    """Where random numbers start."""
    epochs: int | None = None
    """Passes over the data; by default those of the recipe."""


def read(command: Command, args: Sequence[str]) -> Callable[[], None]:
    """The call to be made."""
    return partial(demo, parse(command, Options, args)[0])


def demo(options: Options) -> None:
    """Take the tour."""
    tasks, out, seed, epochs = options.tasks, options.out, options.seed, options.epochs
    if epochs is not None and epochs < 1:
        raise UserError(f"--epochs {epochs}: there must be at least 1")
    if not 0 <= seed < 2**63:
        raise UserError(f"--seed {seed}: a seed lies in 0 ≤ … < 2⁶³")
    chosen = {name: find(name) for name in tasks or [each for each in TASKS if TASKS[each].demo]}
    with as_user_error(out):
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    masks = out / "masks.png"
    show_shapes(console)
    show_masks(console, masks)
    written = {f"{len(MASKS)} masks, with densities": masks}
    for number, (name, entry) in enumerate(chosen.items(), start=3):
        console.print(f"[bold]{number}  {name}[/], on data that come with regard\n")
        learn = entry.load_demo()
        with as_user_error(out):
            written |= (
                {}
                if learn is None
                else learn(
                    out, lambda words: console.print(words, markup=False), epochs=epochs, seed=seed
                )
            )

    regard = how_to_call()
    ideas = {
        "your own data": f"{regard} train {next(iter(TASKS))} --data FOLDER",
        "what this machine has": f"{regard} doctor",
        "the same in Python": "README.md",
    }
    wide = max(map(len, [*written, *ideas]))
    for title, lines in (("Written", written), ("Next", ideas)):
        console.print(f"\n[bold]{title}[/]")
        for words, thing in lines.items():
            console.print(f"  [dim]{words:<{wide}}[/]  {escape(str(thing))}")


def how_to_call() -> str:
    """What to type for `regard`: `make demo` leaves it in an environment that is not active."""
    if shutil.which("regard"):
        return "regard"
    python = Path(sys.executable)
    here = Path.cwd()
    return f"{python.relative_to(here) if python.is_relative_to(here) else python} -m regard"


@contextmanager
def as_user_error(path: Path) -> Iterator[None]:
    """Trouble with a file or folder is the user's to mend, so it is said without a traceback."""
    try:
        yield
    except OSError as trouble:
        reason = (trouble.strerror or str(trouble)).lower()
        raise UserError(
            f"cannot write to {path} ({reason}); name another folder with --out"
        ) from trouble


def show_shapes(console: Console) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    console.print("[bold]1  One multi-head call, from the live tensors[/]")
    table = Table("step", "axes", "shape", box=box.SIMPLE_HEAD, pad_edge=False)
    for step in rg.trace_shapes(tokens=5, width=768, heads=12, show=False):
        table.add_row(step.name, step.axes, escape(str(list(step.shape))))
    console.print(table)


def show_masks(console: Console, path: Path) -> None:
    from regard.visualization.figures import mask_gallery

    console.print("[bold]2  Masks compose[/]")
    masks = {words: rg.Mask.parse(expression) for words, expression in MASKS.items()}
    with as_user_error(path):
        mask_gallery(masks, path, n=TOKENS, caption=ABOUT_GRIDS)
    streaming = masks["streaming"]
    picture = streaming.picture(12)
    if not console.encoding.startswith("utf"):
        picture = picture.replace("█", "#").replace("·", ".")
    console.print(f"\n{streaming} reads {streaming.density(12):.0%} of 12 × 12:")
    console.print(f"[dim]{picture}[/]\n")
