"""An arrow never points left: a stage imports only itself and the stages before it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "regard"

# From left to right. Companions may import what stands left of them, and the studio the lab.
STAGES = (
    "data",
    "attention",
    "models",
    "count",
    "generation",
    "interop",
    "training",
    "evaluation",
    "inspection",
    "visualization",
    "tasks",
    "runs",
    "cli",
    "lab",
    "studio",
)
RANK = {name: rank for rank, name in enumerate(STAGES, start=1)} | {"__main__": len(STAGES)}
COMPANIONS = {"lab", "studio"}  # which nothing in the core imports

# What stands left of all imports only what does so too: it needs no line here.
BASE = {"errors", "config", "fields", "paths", "hardware", "progress", "run_folder"} | {
    "typos",
    "usual_names",
}

# Edges that still point left, by name: a landing may only shorten this list.
EXCEPTIONS = {
    ("count/__init__.py", "regard.training.step_cost"),
    ("count/counted.py", "regard.training.step_cost"),
    ("count/table.py", "regard.training.step_cost"),
    ("inspection/cache_explanation.py", "regard.visualization.cache_view"),
    ("models/__init__.py", "regard.generation.state"),
    ("models/captioner.py", "regard.generation.state"),
    ("models/decoder.py", "regard.generation.fused_decode"),
    ("models/decoder.py", "regard.generation.memory"),
    ("models/decoder.py", "regard.generation.state"),
    ("models/gpt.py", "regard.generation.state"),
    ("models/seq2seq.py", "regard.generation.state"),
    ("tasks/caption/demo.py", "regard.runs.run"),
    ("tasks/classify/demo.py", "regard.runs.run"),
    ("tasks/classify/report.py", "regard.runs.session"),
    ("tasks/classify_text/report.py", "regard.runs.session"),
    ("tasks/several.py", "regard.runs.run"),
}
END = RANK["cli"]  # the façade opens all that stands left of it


class Edge(NamedTuple):
    """An import that points left, or leaves one companion for another."""

    file: str  # below the package
    line: int
    name: str  # what is imported

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.name}, which stands to its right"


def rank_of(part: str, package: Path) -> int:
    """How far right a part of the package stands: 0 is left of all stages."""
    if part in RANK:
        return RANK[part]
    if part not in BASE:
        raise AssertionError(f"regard/{part} belongs to no stage; give it a place in STAGES")
    return 0


def imports(file: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Every `regard.…` name that a file imports, inside functions too, with its line."""
    inside = ("regard", *file.relative_to(package).parent.parts)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # One dot is the file's own folder, each further one a folder up.
            base = inside[: len(inside) + 1 - node.level] if node.level else ()
            start = ".".join((*base, *([node.module] if node.module else [])))
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "regard")


def edges_to_the_left(package: Path) -> list[Edge]:
    """Every import that breaks the order."""
    found = []
    for file in sorted(package.rglob("*.py")):
        place = file.relative_to(package)
        if place == Path("__init__.py"):  # the façade opens everything, lazily
            continue
        stage = place.parts[0].removesuffix(".py")
        here = rank_of(stage, package)
        for line, name in imports(file, package):
            part = (*name.split("."), "")[1]
            module = (package / part).is_dir() or (package / f"{part}.py").exists()
            if part.startswith("__") and part != "__main__":
                continue  # regard.__version__
            # Anything else taken from the façade could come from any stage: only the end may.
            there = rank_of(part, package) if part and module else END
            companion = module and part in COMPANIONS and stage not in COMPANIONS
            if there > here or (companion and stage != "__main__"):
                found.append(Edge(place.as_posix(), line, name))
    return found


def test_no_import_points_left_but_those_that_are_listed():
    """One that is gone leaves the list too."""
    left = edges_to_the_left(PACKAGE)
    by_name = {(edge.file, edge.name.rpartition(".")[0]): str(edge) for edge in left}
    assert [by_name[edge] for edge in sorted(by_name.keys() - EXCEPTIONS)] == []
    assert EXCEPTIONS - by_name.keys() == set(), "no longer needed"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("data/text.py", "from regard.models.vit import ViT"),
        ("data/text.py", "from regard import models"),
        ("data/text.py", "def late():\n    import regard.models.vit"),
        ("data/text.py", "from ..models import vit"),
        ("data/text.py", "from ..models.vit import ViT"),
        ("models/vit.py", "import regard as rg"),
        ("models/vit.py", "from regard import attend"),
        ("errors.py", "from regard.data import text"),
    ],
)
def test_a_planted_import_is_found(tmp_path, file, text):
    plant(tmp_path, file, text)
    assert len(edges_to_the_left(tmp_path)) == 1


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("models/vit.py", "from regard.data.text import read"),
        ("models/vit.py", "from . import gpt"),
        ("models/vit.py", "from ..errors import UserError"),
        ("models/vit.py", "from regard import __version__, errors"),
        ("models/vit.py", "import torch, regardless"),
        ("cli/demo.py", "import regard as rg"),
        ("__init__.py", "from regard import models"),
    ],
)
def test_an_import_in_order_is_left_alone(tmp_path, file, text):
    plant(tmp_path, file, text)
    assert edges_to_the_left(tmp_path) == []


def test_a_folder_without_a_stage_is_an_error(tmp_path):
    plant(tmp_path, "helpers/text.py", "")
    with pytest.raises(AssertionError, match="regard/helpers belongs to no stage"):
        edges_to_the_left(tmp_path)


def plant(package: Path, file: str, text: str) -> None:
    """A package with an empty file in three places, and `text` in one."""
    for name in ("errors.py", "data/text.py", "models/vit.py", file):
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(text if name == file else "", encoding="utf-8")
