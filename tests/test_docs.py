"""The docs run: every Python block as written, every output as shown, every link to something."""

from __future__ import annotations

import contextlib
import doctest
import gzip
import importlib.util
import io
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
import torch
from PIL import Image

import regard
from benchmarks import BENCHES
from regard.attention import Mask, attend, masks, named
from regard.cli import COMMANDS, main
from regard.cli.data import CAPTIONED
from regard.data.corpus import CORPORA
from regard.data.labelled import LABELLED
from regard.data.pairs import PAIRS
from regard.data.registry import EMBEDDED, KNOWN
from regard.errors import UserError
from regard.hardware.device import does_not_fit
from regard.models import MODELS
from regard.run_folder import RunFolder
from regard.tasks import TASKS
from regard.tasks.caption.features import frozen_encoder
from regard.tasks.language.config import LanguageConfig
from test_figures import assert_legible

ROOT = Path(__file__).parent.parent
PAGES = [path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))) if path.exists()]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
RUN = "runs/classify-digits-001"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^ *(?P<fence>```+|~~~+) *(?P<language>[\w+-]*)[^\n`]*$")
LINK = re.compile(
    r"""!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*<?(?P<inline>[^\s)>]+)
    |(?:src|href)\s*=\s*["'](?P<html>[^"']+)
    |^\s*\[[^\]]+\]:\s*(?P<reference>\S+)""",
    re.VERBOSE | re.MULTILINE,
)

every_page = pytest.mark.parametrize(
    "page", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES]
)


class Block(NamedTuple):
    """A fenced block: its language, its text, the line it starts at, and where it ends."""

    language: str
    text: str
    line: int
    end: int


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, first to last."""
    fence, language, start, inside = "", "", 0, []
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if not fence and found:
            fence, language, start, inside = found["fence"], found["language"], number, []
        elif fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            yield Block(language.lower(), "\n".join(inside) + "\n", start + 1, number)
            fence = ""
        elif fence:
            inside.append(line)
    assert not fence, f"the block of line {start} never ends"


def prose(text: str) -> str:
    """The page with its fenced blocks emptied."""
    lines = text.splitlines()
    for block in blocks(text):
        lines[block.line - 2 : block.end] = [""] * (block.end - block.line + 2)
    return "\n".join(lines)


def run(page: Path, text: str) -> None:
    """Run the Python blocks of a page in order, in one namespace.

    A block of `>>>` lines is a doctest. Any other is run as a script, and a `text` block that
    follows with nothing between must be what it printed.
    """
    found = list(blocks(text))
    space: dict[str, Any] = {"__name__": "__docs__"}
    lines = text.splitlines()
    for block, after in zip_longest(found, found[1:]):
        if block.language not in ("python", "pycon", "py"):
            continue
        if re.search(r"^\s*>>> ", block.text, re.MULTILINE):
            check(page, block, space)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            # Lines before the block are kept empty, so that a traceback has the page's numbers.
            code = "\n" * (block.line - 1) + block.text
            exec(compile(code, str(page), "exec"), space)
        if after is None or after.language != "text" or "".join(lines[block.end : after.line - 2]):
            continue
        shown = after.text
        same = doctest.OutputChecker().check_output(shown, printed.getvalue(), OPTIONS)
        assert same, f"{page}, line {after.line}: printed\n{printed.getvalue()}shown\n{shown}"


def check(page: Path, block: Block, space: dict[str, Any]) -> None:
    """Run one block of `>>>` lines, and compare each answer."""
    test = doctest.DocTestParser().get_doctest(
        block.text, space, page.name, str(page), block.line - 1
    )
    test.globs = space  # the parser copies it, and later blocks need the names
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    runner.run(test, out=report.write, clear_globs=False)
    if runner.failures:
        pytest.fail(report.getvalue(), pytrace=False)


@every_page
def test_every_block_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")  # pages are read from the root
    run(page, page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", [*PAGES, CONTRIBUTING], ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_relative_link_and_picture_exists(page):
    text = prose(page.read_text(encoding="utf-8"))
    for link in LINK.finditer(re.sub(r"`[^`\n]*`", "code", text)):
        target = link["inline"] or link["html"] or link["reference"]
        if re.match(r"[a-z][a-z0-9+.-]*:|//", target):
            continue
        path, _, heading = unquote(target).partition("#")
        there = page if not path else page.parent / path
        assert there.exists(), f"{page.relative_to(ROOT)} links to {target}, which is not there"
        assert ROOT in (there.resolve(), *there.resolve().parents), f"{target} leaves the project"
        if heading and there.suffix == ".md":
            known = anchors(there.read_text(encoding="utf-8"))
            assert heading in known, f"{page.relative_to(ROOT)} links to {target}: no such heading"


def anchors(text: str) -> set[str]:
    """What GitHub calls the headings of a page."""
    names: set[str] = set()
    for title in re.findall(r"^#{1,6} +(.+?) *#*$", prose(text), re.MULTILINE):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        twin = sum(1 for known in names if re.fullmatch(rf"{re.escape(name)}(-\d+)?", known))
        names.add(f"{name}-{twin}" if twin else name)
    return names


def script(name: str):
    """A script of the docs, as a module."""
    path = ROOT / "docs" / name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_in_the_docs_is_drawn_by_the_script_legibly_and_small(tmp_path):
    pictures = script("pictures/make.py")
    pictures.EPOCHS = 1  # how well it learned is not the question here
    drawn = pictures.PICTURES
    stored = {path.name for path in (ROOT / "docs" / "pictures").glob("*.png")}
    assert stored == set(drawn)
    for name, draw in drawn.items():
        assert_legible(draw(tmp_path / name))
        assert (tmp_path / name).stat().st_size < 150_000, name


def test_no_figure_on_the_pages_of_results_or_in_the_readme_is_typed_by_hand():
    results = script("make_results.py")
    for name, page in (("results.md", results.page()), ("tried.md", results.tried_page())):
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page
    front = (ROOT / "README.md").read_text(encoding="utf-8")
    assert front == results.readme(front)


# Commands


def command_lines(text: str) -> Iterator[str]:
    """The lines of a page's blocks that are to be typed, without what only shows the grammar."""
    for block in blocks(text):
        for line in block.text.splitlines():
            typed = line.strip().removeprefix("$ ").split(" < ")[0]
            if re.match(r"regard [a-z-]", typed) and "FLAGS]" not in typed and "…" not in typed:
                yield typed


def parsed(words: list[str]) -> Any:
    """What the command line makes of these words, short of doing it."""
    return COMMANDS[words[0]].read(words[1:])


def test_every_command_line_in_the_pages_can_be_typed(workplace, monkeypatch):
    monkeypatch.chdir(workplace)  # what can be said of a run depends on the run
    lines: dict[str, Path] = {}
    for page in (*PAGES, CONTRIBUTING):
        for line in command_lines(page.read_text(encoding="utf-8")):
            lines.setdefault(line, page)
    assert len(lines) > 100
    wrong = []
    for line, page in lines.items():
        words = [word for word in shlex.split(line, comments=True)[1:] if word != "--resume"]
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parsed(words)
        except (SystemExit, Exception) as trouble:
            wrong.append(f"{page.relative_to(ROOT)}: {line}: {trouble} {said.getvalue()}")
    assert not wrong, "\n".join(wrong)


def test_a_command_line_that_is_wrong_is_found_out(capsys):
    text = "```\nregard lab [NAME…] [FLAGS]\n$ regard lab --jsn  # why\nno\n```\nregard x\n"
    assert list(command_lines(text)) == ["regard lab --jsn  # why"]
    with pytest.raises(UserError, match="did you mean --json"):
        parsed(["lab", "--jsn"])
    assert parsed(["lab", "--json"]).args[0].json


def test_the_page_of_commands_is_what_the_commands_say():
    made = script("make_commands.py")
    page = made.PAGE.read_text(encoding="utf-8")
    assert page == made.page(), "python docs/make_commands.py writes it again"
    for name in COMMANDS:
        assert f"## `regard {name}`\n" in page


@pytest.mark.parametrize("words", [*([name] for name in COMMANDS), *(["train", t] for t in TASKS)])
def test_every_flag_on_the_page_of_commands_is_in_the_help(words, capsys):
    made = script("make_commands.py")
    page = made.PAGE.read_text(encoding="utf-8")
    section = page.split(f"`regard {' '.join(words)}`\n", 1)[1].split("\n#", 1)[0]
    flags = set(re.findall(r"^\| `(--[\w-]+)", section, re.MULTILINE))
    asked = [*words, made.NAMED[words[0]]] if words[0] in made.NAMED and not words[1:] else words
    with pytest.raises(SystemExit):
        main([*asked, "--help"])
    shown = capsys.readouterr().out
    assert flags and [flag for flag in flags if flag not in shown] == []


# What is listed is all there is


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("docs/data.md", (*EMBEDDED, *KNOWN, *CAPTIONED, *CORPORA, *PAIRS, *LABELLED)),
        ("docs/model.md", MODELS),
        ("docs/bench.md", BENCHES),
        ("README.md", TASKS),
    ],
)
def test_a_page_names_everything_that_there_is(page, names):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_list_of_pages_has_every_page():
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert [name for name in pages if f"]({name})" not in text] == []


def test_the_page_on_installing_lists_the_extras_and_the_citation_has_the_version():
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert [x for x in facts["optional-dependencies"] if f"| `{x}` |" not in text] == []
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for line in (f"version: {regard.__version__}", f"license: {facts['license']}"):
        assert line in cited.splitlines()


def test_a_mask_and_an_attention_are_a_file_and_a_line_as_contributors_are_told(monkeypatch):
    (block,) = (b for b in blocks(CONTRIBUTING.read_text(encoding="utf-8")) if b.language)
    exec(block.text, space := dict(vars(masks)))
    monkeypatch.setitem(masks.MASKS, "every_other", space["EveryOther"])
    made = Mask.parse("causal & every_other()")
    assert str(made) == "causal & every_other()" and made.density(4) == 6 / 16

    def mine(*args: Any, **options: Any) -> torch.Tensor:
        return attend(*args, **options).output

    known = {**named.ATTENTIONS, "mine": lambda expression, head_width, call: mine}
    monkeypatch.setattr(named, "ATTENTIONS", known)
    model = regard.GPT(regard.GPTConfig(width=8, heads=2, layers=1, vocab_size=9, attention="mine"))
    assert model(torch.zeros(1, 3, dtype=torch.long)).shape == (1, 3, 9)


# Messages: the page of what can fail quotes them, and each is provoked here


def messages() -> list[str]:
    """What faq.md says that regard says."""
    text = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    said = [block.text.strip() for block in blocks(text) if not block.language]
    return [words for words in said if words.startswith(("regard: ", "stopped; "))]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs, one of which has only begun, photos with captions, texts with labels."""
    place = tmp_path_factory.mktemp("workplace")
    rows = ["image,caption"]
    for number in range(12):
        colour = ("red", "green")[number % 2]
        path = place / "photos" / colour / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8 + number), colour).save(path)
        rows.append(f"{colour}/{number}.png,a {colour} square")
    (place / "photos" / "captions.csv").write_text("\n".join(rows), encoding="utf-8")
    table = "text,label\n" + "".join(f"film {n},{n % 2}\n" for n in range(12))
    (place / "own.csv").write_text(table, encoding="utf-8")
    with contextlib.chdir(place):
        regard.train("classify", epochs=1, quiet=True, report=False)
        small = {"width": 16, "layers": 1, "heads": 2, "image_size": 8, "patch_size": 4}
        regard.train("classify", data="photos", epochs=1, quiet=True, report=False, model=small)
    for name in ("RUN", "runs/language-docstrings-001"):
        RunFolder.at(place / name).write_config(LanguageConfig(), task="language")
    return place


GO_ON = f"train classify --out {RUN} --resume"


def typed(line: str) -> None:
    main(line.split())


def lacks(module: str, line: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A command where a module cannot be imported."""

    def provoke(patch: pytest.MonkeyPatch) -> None:
        patch.setitem(sys.modules, module, None)
        typed(line)

    return provoke


def without(package: str, line: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A command where a package of weights is not there for the module that looks for it."""

    def provoke(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(f"{package}.find_spec", lambda name: None)
        frozen_encoder.cache_clear()  # which another test may have loaded
        typed(line)

    return provoke


def no_card(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch.cuda, "is_available", lambda: False)
    typed("train classify --device cuda")


def too_large(patch: pytest.MonkeyPatch) -> None:
    print(f"regard: {does_not_fit(512, 256, torch.device('cuda'), 'images')}", file=sys.stderr)


def memory_gone(patch: pytest.MonkeyPatch) -> None:
    from regard.runs import session

    real, calls = session.estimate, []

    def once_too_much(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("out of memory")
        return real(*args, **options)

    patch.setattr(session, "estimate", once_too_much)
    typed("train classify --batch-size 512 --epochs 1")


def with_a_word(patch: pytest.MonkeyPatch) -> None:
    path = Path(RUN) / "metrics.jsonl"
    kept = path.read_text(encoding="utf-8")
    path.write_text('{"epoch": 1, "train/loss": "low"}\n', encoding="utf-8")
    try:
        typed(f"compare {RUN} --accept-edits")
    finally:
        path.write_text(kept, encoding="utf-8")


def interrupted(patch: pytest.MonkeyPatch) -> None:
    def stop(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    patch.setattr("regard.runs.session.train", stop)
    typed("train classify --epochs 1")


def changed_data(patch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (9, 9), "red").save("photos/red/more.png")
    try:
        typed("train classify --out runs/classify-photos-001 --resume --epochs 2")
    finally:
        Path("photos/red/more.png").unlink()


def beside_a_folder(patch: pytest.MonkeyPatch) -> None:
    Path("mnist").mkdir()
    typed("train classify --data mnist")


def held(patch: pytest.MonkeyPatch) -> None:
    with RunFolder(Path(RUN)).locked():
        typed(f"{GO_ON} --epochs 2")


def edited(patch: pytest.MonkeyPatch) -> None:
    path = Path(RUN) / "config.toml"
    before = path.read_bytes()
    try:
        path.write_bytes(before.replace(b"heads", b"header"))
        typed(f"predict {RUN} --split test --index 0")
    finally:
        path.write_bytes(before)


def without_manifest(patch: pytest.MonkeyPatch) -> None:
    path = Path(RUN) / "manifest.json"
    before = path.read_bytes()
    try:
        path.unlink()
        typed(f"look {RUN} --split test --index 0")
    finally:
        path.write_bytes(before)


def leading_out(patch: pytest.MonkeyPatch) -> None:
    path, aside = Path(RUN) / "log.txt", Path("log.txt")
    path.rename(aside)
    try:
        path.symlink_to(aside.absolute())
        typed(f"{GO_ON} --epochs 2")
    finally:
        path.unlink()
        aside.rename(path)


def unpacks_too_far(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("regard.data.packed.FREE", 2**20)
    Path("bomb.csv.gz").write_bytes(gzip.compress(b"a" * 2**23))
    typed("train classify-text --data bomb.csv.gz")


def an_unknown_split(patch: pytest.MonkeyPatch) -> None:
    Path("split.csv").write_text("text,label,split\na,x,train\nb,y,holdout\n")
    typed("train classify-text --data split.csv")


# By a few words of the message: what provokes it, and whether it wants a folder without runs.
PROVOKED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], bool]] = {
    "or put train-images": (lambda _: typed("train classify --data mnist"), False),
    "write ./mnist": (beside_a_folder, True),
    "is an address": (
        lambda _: typed("train classify --data https://example.org/photos.zip"),
        False,
    ),
    "sst2 is not on": (lambda _: typed("train classify-text --data sst2"), False),
    "has unpacked to": (unpacks_too_far, True),
    "has split": (an_unknown_split, True),
    "ImageNet weights": (
        without("regard.models.efficientnet", "train caption --data photos --epochs 1"),
        False,
    ),
    "MiniLM's weights": (
        without("regard.models.minilm", "train classify-text --data own.csv --init-from minilm"),
        False,
    ),
    "TensorBoard": (lacks("torch.utils.tensorboard", "train classify --tensorboard"), False),
    "the studio needs": (lacks("uvicorn", "studio"), False),
    "--device cuda": (no_card, False),
    "does not fit": (too_large, False),
    "memory ran out": (memory_gone, False),
    "model.width = 1000000": (lambda _: typed("train classify --model.width 1000000"), True),
    "model.layers = 100000": (lambda _: typed("train classify --model.layers 100000"), True),
    "and no number": (with_a_word, False),
    "became nan": (lambda _: typed("train classify --train.optimizer.lr 1e20"), True),
    "stopped;": (interrupted, True),
    "was started with": (lambda _: typed(f"{GO_ON} --model.width 32"), False),
    "has changed since": (changed_data, False),
    "is not the file": (edited, False),
    "has no manifest.json": (without_manifest, False),
    "is a link": (leading_out, False),
    "is not empty": (lambda _: typed(f"train classify --out {RUN}"), False),
    "test:3 cannot": (lambda _: main(["predict", RUN, "test:3"]), False),
    "another process": (held, False),
}


def test_every_message_on_the_page_is_provoked_once():
    for message in messages():
        assert sum(words in message for words in PROVOKED) == 1, message
    assert len(messages()) == len(PROVOKED)


@pytest.mark.parametrize("words", PROVOKED)
def test_what_is_quoted_is_what_is_said(words, workplace, tmp_path, monkeypatch, capsys):
    provoke, anew = PROVOKED[words]
    monkeypatch.chdir(tmp_path if anew else workplace)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setattr("regard.data.registry.DEBIAN", tmp_path)
    provoke(monkeypatch)
    (message,) = (each for each in messages() if words in each)
    pattern = ".*".join(map(re.escape, message.split("…")))
    said = capsys.readouterr()
    assert re.search(f"^{pattern}$", said.err + said.out, re.MULTILINE), said.err


def test_a_page_that_is_wrong_is_found_out(tmp_path):
    page = tmp_path / "page.md"
    run(page, "```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n```sh\nexit 1\n```\n")
    run(page, "```python\nx = 1\n```\n```python\n>>> x + 1\n2\n>>> y = x\n```\n```python\ny\n```\n")
    with pytest.raises(AssertionError, match="line 5"):
        run(page, "```python\nprint(1 + 1)\n```\n```text\n3\n```\n")
    with pytest.raises(ZeroDivisionError):
        run(page, "```python\n1 / 0\n```\n")
    with pytest.raises(pytest.fail.Exception, match="Expected:\n    3"):
        run(page, "```python\n>>> 1 + 1\n3\n```\n")
    assert anchors("# One `two`, three\n```\n# no\n```\n## One two three\n") == {
        "one-two-three",
        "one-two-three-1",
    }
