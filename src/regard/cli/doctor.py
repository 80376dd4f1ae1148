"""`regard doctor`: what this machine has for regard to work with, and one piece of advice.

Facts are gathered into one nested dictionary, section by section; the table, the JSON and the
advice are three readings of it. Whatever is missing is reported as missing, never as a crash.
"""

from __future__ import annotations

import getpass
import json as encoder
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import __version__
from regard.cli.parse import parse
from regard.data.workers import usable_cores
from regard.hardware.machine import cpu_name
from regard.paths import cache_folder, data_folders

if TYPE_CHECKING:
    from regard.cli import Command

Facts = dict[str, dict[str, Any]]

OPTIONAL = {  # import name → name on the package index
    "transformers": "transformers",
    "starlette": "starlette",
    "tensorboard": "tensorboard",
    "triton": "triton",
    "fla": "flash-linear-attention",
}

KERNEL_SHAPES = {  # what is attended → (heads, queries, keys, width of a head, mask)
    "small images, 65 tokens": (4, 65, 65, 16, None),
    "text, causal, 1024 tokens": (8, 1024, 1024, 64, "causal"),
    "decoding, 1 query, 1024 keys": (8, 1, 1024, 64, "causal"),
    "long text, window of 256 in 4096": (8, 4096, 4096, 64, "causal & window(256)"),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `regard doctor`."""

    json: bool = False
    """Print one JSON object instead of a table."""


def read(command: Command, args: Sequence[str]) -> Callable[[], None]:
    """The call to be made."""
    return partial(doctor, parse(command, Options, args)[0])


def doctor(options: Options) -> None:
    """Report what this machine has."""
    facts = examine()
    if options.json:
        print(encoder.dumps({**facts, "advice": advise(facts)}, indent=2))
    else:
        show(facts, advise(facts))


def examine() -> Facts:
    """Everything known about this machine, by section."""
    sections: dict[str, Callable[[], dict[str, Any]]] = {
        "software": software,
        "cpu": cpu,
        "gpu": gpu,
        "kernels": kernels,
        "packages": packages,
        "data": data,
        "caches": caches,
    }
    facts: Facts = {}
    for name, section in sections.items():
        try:
            facts[name] = section()
        except Exception as trouble:  # a broken driver is a finding, not the end of the report
            facts[name] = {"error": f"{type(trouble).__name__}: {trouble}"}
    return facts


def software() -> dict[str, Any]:
    import torch

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "regard": __version__,
        "torch": str(torch.__version__),
        "torch build": f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only",
    }


def cpu() -> dict[str, Any]:
    import torch

    can = capabilities()
    return {
        "name": cpu_name(),
        "cores": usable_cores(),
        "torch threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "bfloat16": bool(can.get("avx512_bf16") or can.get("amx_bf16") or can.get("bf16")),
    }


def capabilities() -> dict[str, Any]:
    """The processor's instruction sets by name; older versions of torch cannot say."""
    import torch

    ask = getattr(torch.cpu, "get_capabilities", dict)
    return dict(ask())


def gpu() -> dict[str, Any]:
    import torch

    cards = {}
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        card = torch.cuda.get_device_properties(index)
        cards[f"cuda:{index}"] = (
            f"{card.name}, {card.total_memory / 2**30:.0f} GiB, "
            f"compute capability {card.major}.{card.minor}"
        )
    return {
        **cards,
        "mps": torch.backends.mps.is_available(),
        "NVIDIA driver": bool(shutil.which("nvidia-smi")) or Path("/proc/driver/nvidia").exists(),
    }


def kernels() -> dict[str, Any]:
    return {name: kernel_for(*shape) for name, shape in KERNEL_SHAPES.items()}


def kernel_for(heads: int, n: int, m: int, d: int, mask: str | None) -> str:
    """In words, the kernel that `attend_fused` would choose for the last n of m positions."""
    import torch

    from regard.attention.algebra import Mask
    from regard.attention.core import explain_kernel

    on_gpu = torch.cuda.is_available()
    # The choice is made by shape, kind and device alone, so nothing need be in the tensors.
    q, k = (
        torch.empty(
            (1, heads, length, d),
            dtype=torch.bfloat16 if on_gpu else torch.float32,
            device="cuda" if on_gpu else "cpu",
        )
        for length in (n, m)
    )
    predicate = Mask.parse(mask) if mask else None
    return explain_kernel(q, k, k, mask=predicate, q_pos=range(m - n, m), k_pos=range(m))


def packages() -> dict[str, Any]:
    return {name: installed_version(index_name) for name, index_name in OPTIONAL.items()}


def installed_version(index_name: str) -> str | None:
    try:
        return metadata.version(index_name)
    except metadata.PackageNotFoundError:
        return None


def data() -> dict[str, Any]:
    """The names found in each folder that is searched; None for a folder that is not there."""
    return {
        "REGARD_DATA": os.environ.get("REGARD_DATA", "not set"),
        **{str(folder): names_in(folder) for folder in data_folders()},
    }


def names_in(folder: Path) -> list[str] | None:
    if not folder.is_dir():
        return None
    return sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))


def caches() -> dict[str, Any]:
    """Bytes in each folder of things that can be made again."""
    return {str(folder): size_of(folder) for folder in (cache_folder(), inductor_folder())}


def inductor_folder() -> Path:
    """Where torch keeps compiled code; asking torch itself would import its whole compiler."""
    if named := os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        return Path(named)
    user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    return Path(tempfile.gettempdir()) / f"torchinductor_{user}"


def size_of(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for file in files:
            # Another process may be cleaning up, so a file can be gone since it was listed.
            try:
                total += os.lstat(os.path.join(place, file)).st_size
            except OSError:
                continue
    return total


def advise(facts: Facts) -> str:
    """The one sentence that helps most here: what is wrong first, then what is comfortable."""
    cards = [name for name in facts["gpu"] if name.startswith("cuda:")]
    named = facts["data"].get("REGARD_DATA", "not set")
    cores, threads = facts["cpu"].get("cores", 1), facts["cpu"].get("torch threads", 1)
    if "torch" not in facts["software"]:
        return f"torch does not load here ({facts['software']['error']}): install it again."
    if named != "not set" and facts["data"].get(str(Path(named))) is None:
        return f"REGARD_DATA is {named}, which is not a folder: correct it or unset it."
    if facts["gpu"].get("NVIDIA driver") and not cards:
        if facts["software"]["torch build"] == "CPU only":
            return (
                f"There is an NVIDIA driver, but torch {facts['software']['torch']} is built for "
                "the CPU: install the CUDA build that pytorch.org names for this system."
            )
        return "There is an NVIDIA driver, but torch sees no card: check what nvidia-smi says."
    if cards:
        return f"{cards[0]} will be used: {facts['gpu'][cards[0]]}."
    if facts["gpu"].get("mps"):
        return "mps will be used; pass --device cpu for results that repeat to the last bit."
    if 2 * threads <= cores:
        return f"torch uses {threads} of {cores} cores: set OMP_NUM_THREADS={cores}, or unset it."
    return (
        f"No GPU: {cores} cores are comfortable with the built-in data and models of about "
        "width 64 and 5 layers; for more, use a machine with a GPU."
    )


def show(facts: Facts, advice: str) -> None:
    """Print the facts as one table, with a rule between sections and the advice below."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "what", title="regard doctor", title_justify="left")
    table.add_column("here", overflow="fold")  # a path is of no use without its end
    for section, entries in facts.items():
        for row, (name, value) in enumerate(entries.items()):
            # As Text, because a name in brackets would be read as markup.
            cells = (section if row == 0 else "", name, in_words(section, value))
            table.add_row(*map(Text, cells))
        table.add_section()
    console = Console()
    console.print(table)
    console.print(Text(f"Advice: {advice}"))


def in_words(section: str, value: Any) -> str:
    if value is None:
        return "not there"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or "empty"
    if section == "caches" and isinstance(value, int):
        return f"{value / 2**20:.1f} MiB"
    return str(value)
