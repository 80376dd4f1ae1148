"""`regard demo`: the tour. Shapes, masks, and a small model that learns and is looked into.

It uses regard as a reader of the README would, through `import regard as rg`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import regard as rg
from regard.errors import UserError

# torch, rich and matplotlib are imported where they are used: `regard demo --help` needs none.
if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure
    from rich.console import Console

TOKENS = 25  # in the mask gallery: a grid of 4 × 6 and one class token
MASKS = {  # in words → the expression
    "nothing later": "causal",
    "near": "window(4)",
    "near, with holes": "dilated(3, 3)",
    "every fifth": "strided(5)",
    "own block": "blocks(5)",
    "the first keys": "sinks(3)",
    "the first, together": "prefix(8)",
    "the first, both ways": "everywhere(2)",
    "drawn by lot": "random_keys(4, 25, 0)",
    "near on a grid": "neighbourhood(1, (4, 6))",
    "same row or column": "axial((4, 6))",
    "only what is later": "~causal",
    "streaming": "causal & (window(4) | sinks(2))",
    "sparse transformer": "causal & (window(5) | strided(5))",
    "prefix language model": "causal | prefix(8)",
    "BigBird": "window(2) | everywhere(2) | random_keys(2, 25, 0)",
}
ABOUT_GRIDS = (
    "On a grid: tokens 0 to 23 are 4 rows of 6; token 24, a class token, reads and is read freely."
)
ABOUT_ATTENTION = (
    "Heads and mean: the last of two layers; rollout: both multiplied. What the token read of "
    "itself is left out.\nSixteen images learned by heart: this shows the machinery, not skill."
)
IMAGES = 16
SHOWN = 10  # of them in the picture: one of each class
CLOSE = 1e-5  # of the largest entry read: what float32 leaves between two ways to compute


def demo(out: Path = Path("demo"), seed: int = 0, steps: int = 150) -> None:
    """Take the tour.

    Args:
        out: folder for the pictures; only masks.png and attention.png in it are replaced.
        seed: where the model's first weights are drawn from.
        steps: how often the model sees its sixteen digits.
    """
    if steps < 1:
        raise UserError(f"--steps {steps}: there must be at least 1")
    if not 0 <= seed < 2**63:
        raise UserError(f"--seed {seed}: a seed lies in 0 ≤ … < 2⁶³")
    with said_in_a_sentence(out):
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    masks, attention = out / "masks.png", out / "attention.png"
    show_shapes(console)
    show_masks(console, masks)
    show_learning(console, attention, seed, steps)

    regard = how_to_call()
    written = {f"{len(MASKS)} masks, with densities": masks, "where the ViT looked": attention}
    ideas = {
        "what this machine has": f"{regard} doctor",
        "how fast attention is": f"{regard} bench attention",
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
def said_in_a_sentence(path: Path) -> Iterator[None]:
    """Trouble with a file or folder is the user's to mend, so it is said without a traceback."""
    try:
        yield
    except OSError as trouble:
        reason = (trouble.strerror or str(trouble)).lower()
        raise UserError(
            f"cannot write to {path} ({reason}); name another folder with --out"
        ) from trouble


@contextmanager
def one_thread() -> Iterator[None]:
    """Tensors this small gain nothing from more, and lose much where other programs run."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
    from regard.look.figures import mask_gallery

    console.print("[bold]2  Masks compose[/]")
    masks = {words: rg.Mask.parse(expression) for words, expression in MASKS.items()}
    with said_in_a_sentence(path):
        mask_gallery(masks, path, n=TOKENS, caption=ABOUT_GRIDS)
    streaming = masks["streaming"]
    picture = streaming.picture(12)
    if not console.encoding.startswith("utf"):
        picture = picture.replace("█", "#").replace("·", ".")
    console.print(f"\n{streaming} reads {streaming.density(12):.0%} of 12 × 12:")
    console.print(f"[dim]{picture}[/]\n")


def show_learning(console: Console, path: Path, seed: int, steps: int) -> Figure:
    """Train, prove, draw; the figure is returned so that the docs can show the same one."""
    import torch

    from regard.data.embedded.digits import load_digits
    from regard.look.figures import attention_over_images

    console.print(f"[bold]3  A small ViT learns {IMAGES} handwritten digits by heart[/]\n")
    images, labels = map(torch.from_numpy, load_digits(IMAGES))
    torch.manual_seed(seed)
    model = rg.ViT(
        rg.ViTConfig(image=8, patch=2, channels=1, width=32, layers=2, heads=4, init="2017")
    )
    start = time.perf_counter()
    with one_thread():
        loss = learn(model, images, labels, steps, console)
    seconds = time.perf_counter() - start

    model.eval()
    with torch.no_grad():
        logits = model(images)
        with rg.watch(model) as seen:
            watched = model(images)
    said = logits.argmax(-1)
    size = sum(weight.numel() for weight in model.parameters())
    console.print(
        f"{int((said == labels).sum())} of {IMAGES} right, loss {loss:.4f}; "
        f"{size:,} parameters, {steps} steps, {seconds:.1f} s"
    )

    # What makes the picture worth looking at: it shows the model that ran, not another one.
    if not torch.equal(logits, watched):
        raise RuntimeError("the model gave other logits while it was watched")
    console.print("watching changed nothing: the logits are the same to the last bit")
    error = max(layer.error() for layer in seen.values())
    if error > CLOSE:
        raise RuntimeError(f"recomputed weights miss what a layer read by {error:.1e}")
    console.print(f"the maps shown were used: times v, they are what was read, to {error:.0e}")

    # The class token comes last; what it read of itself is not on the grid of patches.
    grid = model.config.grid
    heads = seen["blocks.1.attention"].weights(rows=[-1])[:SHOWN, :, 0, :-1].unflatten(-1, grid)
    views = {f"head {head + 1}": heads[:, head] for head in range(heads.shape[1])}
    views["mean"] = heads.mean(1)
    views["rollout"] = seen.rollout()[:SHOWN, -1, :-1].unflatten(-1, grid)
    with said_in_a_sentence(path):
        return attention_over_images(
            images[:SHOWN, 0].numpy(),
            {name: view.numpy() for name, view in views.items()},
            [
                f"says {guess}" if guess == label else f"says {guess},\nis {label}"
                for guess, label in zip(said.tolist(), labels.tolist(), strict=True)
            ][:SHOWN],
            path,
            title="Where the class token looked",
            caption=ABOUT_ATTENTION,
        )


def learn(
    model: rg.ViT, images: torch.Tensor, labels: torch.Tensor, steps: int, console: Console
) -> float:
    """Train on all images at once, and return the last loss."""
    import torch
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    columns = (
        TextColumn("step {task.completed} of {task.total}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=steps, loss=float("nan"))
        for _ in range(steps):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            progress.update(task, advance=1, loss=loss.item())
    return loss.item()
