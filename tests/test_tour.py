"""The tour: notebooks are their pages, and pages lead somewhere. test_docs runs their code."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from regard.lab.claims import CLAIMS
from test_docs import LINK, PAGES, ROOT, blocks, script

TOUR = ROOT / "docs" / "tour"
NAMES = ("1-attention", "2-heads-and-positions", "3-vit", "4-captioner")

make = script("make_tour.py")
every_page = pytest.mark.parametrize("name", NAMES)


def read(name: str, suffix: str) -> str:
    return (TOUR / f"{name}{suffix}").read_text(encoding="utf-8")


def code(page: str) -> list[str]:
    """The Python blocks of a page, as test_docs finds and runs them."""
    return [block.text.strip("\n") for block in blocks(page) if block.language == "python"]


def test_the_tour_has_four_pages_which_test_docs_runs():
    assert {path.stem for path in TOUR.glob("*.md")} == set(NAMES)
    assert {path.stem for path in TOUR.glob("*.ipynb")} == set(NAMES)
    assert {TOUR / f"{name}.md" for name in NAMES} <= set(PAGES)


@every_page
def test_a_notebook_on_disk_is_what_its_page_makes(name):
    made = make.notebook(read(name, ".md"))
    assert read(name, ".ipynb") == made, "python docs/make_tour.py makes the notebooks again"


@every_page
def test_a_notebook_is_valid_nbformat(name):
    assert_valid(json.loads(read(name, ".ipynb")))


@every_page
def test_a_notebook_has_the_code_that_was_run_and_nothing_of_a_page_is_lost(name):
    page, cells = read(name, ".md"), json.loads(read(name, ".ipynb"))["cells"]
    kinds = [cell["cell_type"] for cell in cells]
    assert ["".join(c["source"]) for c in cells if c["cell_type"] == "code"] == code(page)
    assert kinds[0] == "markdown" and "markdown markdown" not in " ".join(kinds)
    told = "".join("".join(cell["source"]) for cell in cells).replace(".ipynb", ".md")
    fenced = re.sub(r"^```python\n(.*?)^```$", r"\1", page, flags=re.MULTILINE | re.DOTALL)
    assert re.sub(r"\s", "", told) == re.sub(r"\s", "", fenced.replace(".ipynb", ".md"))


@every_page
def test_links_in_a_notebook_lead_to_what_exists(name):
    for cell in json.loads(read(name, ".ipynb"))["cells"]:
        if cell["cell_type"] == "markdown":
            for link in LINK.finditer(re.sub(r"`[^`]*`", "code", "".join(cell["source"]))):
                assert (TOUR / link["inline"]).exists(), link["inline"]
                assert Path(link["inline"]).stem not in NAMES or ".md" not in link["inline"]


@every_page
def test_a_page_compares_itself_with_the_library_and_can_fail(name):
    whole = "\n".join(code(read(name, ".md")))
    tree = ast.parse(whole)
    asserts = [ast.unparse(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert sum("allclose" in each for each in asserts) >= 2
    if name != "1-attention":  # the others train, and must have learned
        assert any(re.search(r"accuracy|right|hits", each) for each in asserts)
    assert "torch.manual_seed(" in whole
    assert max(map(len, whole.splitlines())) <= 100


@every_page
def test_a_page_ends_with_three_exercises_that_the_lab_checks(name):
    last = read(name, ".md").split("## Exercises")[1]
    assert re.findall(r"^(\d)\. ", last, re.MULTILINE) == ["1", "2", "3"]
    asked = re.findall(r"`regard lab ([\w-]+)`", last)
    assert len(asked) == len(set(asked)) == 3
    assert set(asked) <= set(CLAIMS)


def test_every_picture_is_shown_once_saved_by_its_page_and_small():
    shown = []
    for name in NAMES:
        page = read(name, ".md")
        for picture in re.findall(r"!\[[^\]]+\]\(pictures/([\w-]+\.png)\)", page):
            assert f'Path("{picture}")' in "\n".join(code(page)), picture
            shown.append(picture)
    stored = list((TOUR / "pictures").iterdir())
    assert sorted(shown) == sorted(path.name for path in stored)
    for path in stored:
        assert path.stat().st_size < 100_000, path.name


def test_a_page_of_code_and_prose_becomes_cells_in_turn(tmp_path):
    page = "# One\n\n```python\nx = 1\n```\n\n```text\n1\n```\n\nSee [two](3-vit.md).\n"
    made = json.loads(make.notebook(page))
    assert_valid(made)
    sources = [(cell["cell_type"], "".join(cell["source"])) for cell in made["cells"]]
    assert sources == [
        ("markdown", "# One"),
        ("code", "x = 1"),
        ("markdown", "```text\n1\n```\n\nSee [two](3-vit.ipynb)."),
    ]
    assert make.notebook(page) == make.notebook(page)
    (tmp_path / "page.md").write_text("```python\nopen('a.png', 'w').close()\n```\n")
    assert make.pictures(tmp_path / "page.md", tmp_path) == [tmp_path / "a.png"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: made.pop("metadata"),
        lambda made: made.update(nbformat_minor=4),
        lambda made: made["cells"][0].pop("id"),
        lambda made: made["cells"][1].update(id=made["cells"][0]["id"]),
        lambda made: made["cells"][0].update(outputs=[]),
        lambda made: made["cells"][1].pop("execution_count"),
        lambda made: made["cells"][1].update(source=1),
    ],
)
def test_a_notebook_that_is_not_valid_is_found_out(spoil):
    made = json.loads(make.notebook("# One\n\n```python\nx = 1\n```\n"))
    spoil(made)
    with pytest.raises(AssertionError):
        assert_valid(made)


def assert_valid(made) -> None:
    """What the schema of nbformat 4.5 demands of notebooks with markdown and unrun code."""
    assert set(made) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert made["metadata"]["kernelspec"].keys() >= {"name", "display_name"}
    assert made["metadata"]["language_info"]["name"] == "python"
    for cell in made["cells"]:
        own = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            assert set(cell) == own | {"execution_count", "outputs"}
            assert cell["execution_count"] is None and cell["outputs"] == []
        else:
            assert cell["cell_type"] == "markdown" and set(cell) == own
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"])
        assert isinstance(cell["metadata"], dict)
        assert isinstance(cell["source"], list)
        assert all(isinstance(line, str) for line in cell["source"])
    ids = [cell["id"] for cell in made["cells"]]
    assert len(set(ids)) == len(ids)
