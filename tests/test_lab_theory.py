"""The lab as a page: every claim with its figures, links that lead somewhere, always the same."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from regard.lab import theory
from regard.lab.claim import SOURCES, Claim
from regard.lab.claims import load_claim
from regard.lab.command import Checked, checked
from regard.lab.evidence import Evidence, at_least, at_most, shown

NAMES = ("softmax-jacobian", "beta-limits", "small-vit")


@pytest.fixture(scope="module")
def found() -> list[Checked]:
    return [checked(load_claim(name)) for name in NAMES]


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("docs")
    theory.write(found, where)
    return where


@pytest.fixture(scope="module")
def page(folder) -> str:
    return (folder / "theory.md").read_text(encoding="utf-8")


def cells(line: str) -> list[str]:
    """What a row of a table holds, as a reader sees it."""
    return [each.replace("\\|", "|").strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]]


def section(page: str, name: str) -> str:
    _, _, rest = page.partition(f"### {name}\n")
    return re.split(r"\n##+ ", rest)[0]


def test_every_claim_stands_under_its_document_with_all_that_is_said_of_it(page, found):
    headings = re.findall(r"^(##+ .*)$", page, re.MULTILINE)
    assert headings == [
        "## B: CSCI-GA 2572, homework 4",
        "### beta-limits",
        "## C: exercise 05, vision transformers",
        "### small-vit",
        "## E: chapter 12, problems on transformers",
        "### softmax-jacobian",
    ]
    for each in found:
        part = section(page, each.claim.id)
        assert f"> {each.claim.statement}" in part and each.claim.truth in part
        assert f"{each.claim.source}: **{each.claim.verdict}**" in part


def test_the_tables_hold_every_figure_and_mark_the_controls(page, found):
    for each in found:
        rows = [cells(line) for line in section(page, each.claim.id).splitlines() if "|" in line]
        checks = [(w, check) for w, checks in each.evidence.groups() for check in checks]
        assert len(rows) == 2 + len(checks)
        for row, (words, check) in zip(rows[2:], checks, strict=True):
            assert (row[0] == "control") == (words == "controls")
            assert row[1] == check.words and row[2] == shown(check.value)
            assert row[3].endswith(shown(check.bound))
            assert row[4] == ("yes" if check.ok else "no")


def test_the_summary_links_to_every_section_and_counts_the_verdicts(page):
    assert re.findall(r"^\| \[(.*?)\]\(#(.*?)\)", page, re.MULTILINE) == [(n, n) for n in NAMES]
    assert "3 statements: 1 hold, 1 corrected, 1 depend." in page
    assert "regard lab --docs docs" in page.split("\n## ")[0]


def test_letters_of_documents_are_explained_before_the_table_that_uses_them(page, found):
    before, _, _ = page.partition("\n| claim | where |")
    explained = re.findall(r"^- \*\*([A-E])\*\*, (.+?): ", before, re.MULTILINE)
    assert explained == [(letter, SOURCES[letter]) for letter in "BCE"]
    assert set(theory.ABOUT) == set(SOURCES)
    assert theory.sources([replaced(found[0], "A 2.1, B 1.1c, d")])[2:] == [
        f"- **{letter}**, {SOURCES[letter]}: {theory.ABOUT[letter]}." for letter in "AB"
    ]


def replaced(each: Checked, source: str) -> Checked:
    """The same claim, said to come from elsewhere."""
    return each._replace(claim=replace(each.claim, source=source))


def test_pictures_are_where_the_page_looks_for_them_and_small(page, folder):
    named = re.findall(r"!\[.+?\]\((.*?)\)", page)
    assert named == [f"theory/{name}.png" for name in ("beta-limits", "small-vit", NAMES[0])]
    for name in named:
        with Image.open(folder / name) as picture:
            assert picture.width >= 600 and len(picture.convert("RGB").getcolors(256)) > 8
        assert (folder / name).stat().st_size < 2_000_000 / 53


def test_made_twice_it_is_the_same_to_the_byte(folder, tmp_path):
    theory.write([checked(load_claim(name)) for name in NAMES], tmp_path)  # measured anew
    files = [path.relative_to(folder) for path in folder.rglob("*.*")]
    assert len(files) == 4
    for name in files:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_a_note_says_where_records_come_from(page):
    assert "- recorded 20" in section(page, "small-vit")


def test_what_is_typed_is_what_measures_with_the_defaults(page):
    assert "`regard lab softmax-jacobian --z -3 1 100 5 -1`" in page
    assert "`regard lab beta-limits --keys 6 --width 8 --seed 0`" in page


def odd(value: float) -> Checked:
    """A claim full of letters that Markdown has a use for, and with no picture."""

    def measure(near: float = 0.5) -> Evidence:
        return Evidence(
            deciding="a | b",
            written=(at_most("|x| of a <unk> in *stars*", value, 1.0),),
            controls=(at_least("never", 0.0, 1.0),),
            notes=("see a_b and `c`",),
        )

    claim = Claim(
        id="odd",
        source="D",
        statement="If $a < b * c_1$ then *not* $|d|$ <br>.",
        verdict="holds",
        truth="So.",
        measure=measure,
    )
    return Checked(claim, measure(), 0.1)


def test_formulas_stay_and_other_letters_are_no_markup(tmp_path):
    theory.write([odd(0.5)], tmp_path)
    page = (tmp_path / "theory.md").read_text(encoding="utf-8")
    assert r"> If $a < b * c_1$ then \*not\* $|d|$ &lt;br>." in page
    row = next(line for line in page.splitlines() if line.startswith("| as written"))
    assert len(cells(row)) == 5 and r"\|x\| of a &lt;unk> in \*stars\*" in row
    assert r"- see a\_b and \`c\`" in page
    assert "| [odd](#odd) | D | holds | a \\| b |" in page
    assert "![" not in page and "`regard lab odd --near 0.5`" in page
    assert "1 statement: 1 hold." in page


def test_what_is_not_as_stated_is_said_at_the_top(tmp_path):
    theory.write([odd(2.0)], tmp_path)
    page = (tmp_path / "theory.md").read_text(encoding="utf-8")
    assert "Not as stated: [odd](#odd)." in page.split("\n| ")[0]
    assert "**disputed, and should be: holds**" in page
