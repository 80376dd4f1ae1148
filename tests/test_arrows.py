"""An arrow never points left: a stage imports only itself and the stages before it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "regard"

STAGES = (
    {"data"},
    {"attention"},
    {"model"},
    {"train", "interop"},
    {"evaluate"},
    {"look"},
    {"tasks"},
    {
        "cli",
        "commands",
        "answering",
        "studio",
        "lab",
        "bench",
        "demo",
        "doctor",
        "data_command",
        "count",
        "__main__",
    },
)
RANK = {name: rank for rank, names in enumerate(STAGES, start=1) for name in names}
END = len(STAGES)


def rank_of(part: str, package: Path) -> int:
    """How far right a part of the package stands; modules beside the stages stand left of all."""
    if part in RANK:
        return RANK[part]
    if (package / part).is_dir():
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


def arrows_to_the_left(package: Path) -> list[str]:
    """One sentence for each import that breaks the order."""
    found = []
    for file in sorted(package.rglob("*.py")):
        place = file.relative_to(package)
        if place == Path("__init__.py"):  # the façade opens everything, lazily
            continue
        here = rank_of(place.parts[0].removesuffix(".py"), package)
        for line, name in imports(file, package):
            part = (*name.split("."), "")[1]
            module = (package / part).is_dir() or (package / f"{part}.py").exists()
            if part.startswith("__") and part != "__main__":
                continue  # regard.__version__
            # Anything else taken from the façade could come from any stage: only the end may.
            there = rank_of(part, package) if part and module else END
            if there > here:
                found.append(f"{place.as_posix()}:{line} imports {name}, which stands to its right")
    return found


def test_no_import_points_left():
    assert arrows_to_the_left(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("data/text.py", "from regard.models.vit import ViT"),
        ("data/text.py", "from regard import model"),
        ("data/text.py", "def late():\n    import regard.models.vit"),
        ("data/text.py", "from ..model import vit"),
        ("data/text.py", "from ..model.vit import ViT"),
        ("model/vit.py", "import regard as rg"),
        ("model/vit.py", "from regard import attend"),
        ("errors.py", "from regard.data import text"),
    ],
)
def test_a_planted_import_is_found(tmp_path, file, text):
    plant(tmp_path, file, text)
    assert len(arrows_to_the_left(tmp_path)) == 1


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("model/vit.py", "from regard.data.text import read"),
        ("model/vit.py", "from . import gpt"),
        ("model/vit.py", "from ..errors import UserError"),
        ("model/vit.py", "from regard import __version__, errors"),
        ("model/vit.py", "import torch, regardless"),
        ("demo.py", "import regard as rg"),
        ("__init__.py", "from regard import model"),
    ],
)
def test_an_import_in_order_is_left_alone(tmp_path, file, text):
    plant(tmp_path, file, text)
    assert arrows_to_the_left(tmp_path) == []


def test_a_folder_without_a_stage_is_an_error(tmp_path):
    plant(tmp_path, "helpers/text.py", "")
    with pytest.raises(AssertionError, match="regard/helpers belongs to no stage"):
        arrows_to_the_left(tmp_path)


def plant(package: Path, file: str, text: str) -> None:
    """A package with an empty file in three places, and `text` in one."""
    for name in ("errors.py", "data/text.py", "model/vit.py", file):
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(text if name == file else "", encoding="utf-8")
