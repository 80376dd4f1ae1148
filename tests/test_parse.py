"""Flags are made from fields: names, types, defaults and words, and every value is read one way."""

import os
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

import regard as rg
from regard.cli import COMMANDS, Command, main, parse
from regard.cli.parse import POSITIONAL, REPEATED, Group
from regard.config import change
from regard.errors import UserError
from regard.fields import Leaf, Names, helps, in_full, leaves
from regard.runs.recipe import choose_recipe
from regard.tasks import TASKS, find
from side_by_side_flags import BEFORE, command_now, flag_now, flags_of, script_flags


@dataclass(frozen=True)
class Optimizer:
    name: Literal["adamw", "muon"] = "adamw"
    """Which one."""
    lr: float = 1e-3
    """How large a step is, 100% of it."""
    betas: tuple[float, float] = (0.9, 0.999)
    """How long it remembers."""


@dataclass(frozen=True)
class Train:
    epochs: int = 5
    """Passes over the data."""
    seed: int = 0
    """Where random numbers start."""
    limit: float | None = None
    """Largest norm."""
    compile: bool = True
    """Whether it is compiled,
    and then faster."""
    optimizer: Optimizer = Optimizer()
    """How parameters are moved."""


@dataclass(frozen=True)
class Stack:
    width: int = 64
    """Numbers in each token."""
    heads: int = 4
    """Query heads."""
    mlp: tuple[int, ...] = ()
    """Hidden widths."""


@dataclass(frozen=True)
class Sampling:
    seed: int = 0
    """Where drawing starts."""
    heads: int = 1
    """At once."""
    stop: tuple[str, ...] = ()
    """Where a text ends."""


@dataclass(frozen=True)
class Config:
    """Everything that decides a run."""

    data: str = "digits"
    """A name or a path."""
    skip_invalid: bool = False
    """Leave out what cannot be read."""
    weights: Literal["none", "balanced"] | tuple[float, ...] = "none"
    """How much each class counts."""
    model: Stack = Stack()
    """What is trained."""
    sampling: Sampling = Sampling()
    """How texts are drawn."""
    train: Train = Train()
    """How it is trained."""


@dataclass(frozen=True, kw_only=True)
class Options:
    run: Path = field(metadata=POSITIONAL)
    """Folder of the run."""
    inputs: tuple[str, ...] = field(default=(), metadata=POSITIONAL)
    """Texts."""
    device: Literal["auto", "cpu"] = "auto"
    """Where."""
    index: tuple[int, ...] = ()
    """Which rows."""
    vary: tuple[str, ...] = field(default=(), metadata=REPEATED)
    """Values."""
    report: bool = True
    """Whether a report is written."""
    workers: int = 0
    """How many help."""


COMMAND = Command("play", "play with a run", ("regard play run",), "regard.cli.play")


def read(line: str | list[str], **kwargs):
    words = line.split() if isinstance(line, str) else line
    return parse.parse(COMMAND, Options, words, Config(), **kwargs)


def changes(line: str | list[str]):
    return read(["run", *(line.split() if isinstance(line, str) else line)])[1]


def own(line: str | list[str]):
    return read(["run", *(line.split() if isinstance(line, str) else line)])[0]


# What a word means


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("lr", "train.optimizer.lr"),
        ("train.optimizer.lr", "train.optimizer.lr"),
        ("optimizer.lr", "train.optimizer.lr"),
        ("width", "model.width"),
        ("data", "data"),
        ("optimizer", "train.optimizer.name"),  # the kind of a table goes by the table's name
        ("train.optimizer", "train.optimizer.name"),
        ("seed", "train.seed"),  # and not sampling.seed, though it stands as near to the top
        ("name", "name"),  # of which table?
        ("no_such_thing", "no_such_thing"),
    ],
)
def test_the_end_of_a_name_is_enough(word, meant):
    assert Names(Config()).field(word) == meant


def test_what_is_in_two_tables_is_said_in_full():
    with pytest.raises(UserError, match=r"^heads is in several tables: write model\.heads or samp"):
        Names(Config()).field("heads")


@dataclass(frozen=True)
class Nested:
    stack: Stack = Stack()
    sampling: Config = Config()


def test_changes_in_python_are_resolved_alike():
    given = {"lr": 0.5, "optimizer": "muon", "optimizer.betas": (0, 0), "model.heads": 2, "new": 1}
    assert in_full(Config(), given) == {
        "train.optimizer.lr": 0.5,
        "train.optimizer.name": "muon",
        "train.optimizer.betas": (0, 0),
        "model.heads": 2,
        "new": 1,  # which `build` answers
    }
    with pytest.raises(UserError, match=r"^heads is in several tables"):
        in_full(Config(), {"heads": 2})


def test_the_nearest_to_the_top_is_meant():
    assert Names(Nested()).field("width") == "stack.width"
    assert Names(Nested()).field("limit") == "sampling.train.limit"


@dataclass(frozen=True)
class Either:
    left: Stack = Stack()
    right: Sampling = Sampling()

    @property
    def idle(self) -> tuple[str, ...]:
        return ("left",)


def test_a_table_that_is_not_used_gives_way():
    names = Names(Either())
    assert names.field("heads") == "right.heads"
    assert names.field("width") == "left.width"  # which nobody else has


def test_short_and_full_names_lead_to_one_another():
    for task in TASKS:
        names = Names(choose_recipe(task).config(find(task).load_config()))
        for name in names.leaves:
            assert names.field(names.short(name)) == name


@pytest.mark.parametrize("task", TASKS)
def test_few_fields_of_a_task_have_to_be_said_in_full(task):
    """Were two tables to claim a name, only those who type it would notice."""
    names = Names(choose_recipe(task).config(find(task).load_config()))
    long = [name for name in names.leaves if "." in names.short(name)]
    hidden = (*names.idle, "model.encoder.")  # as another model, or an encoder within a model
    assert len([name for name in long if not name.startswith(hidden)]) <= 3, long
    for word in ("epochs", "seed", "width", "layers", "heads", "dropout", "patience"):
        assert len(names.meant(word)) == 1, word


def test_what_a_field_means_is_the_string_under_it():
    assert helps(Train)["compile"] == "Whether it is compiled,\nand then faster."
    assert [leaf.name for leaf in leaves(Stack())] == ["width", "heads", "mlp"]
    for task in TASKS:
        config = choose_recipe(task).config(find(task).load_config())
        assert [leaf.name for leaf in leaves(config) if not leaf.help] == []


# What is typed


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("", {}),
        ("--lr 3e-4", {"train.optimizer.lr": 3e-4}),
        ("--train.optimizer.lr=3e-4", {"train.optimizer.lr": 3e-4}),
        ("--limit -1e-3", {"train.limit": -1e-3}),
        ("--limit -.5 --seed -3", {"train.limit": -0.5, "train.seed": -3}),
        ("--limit=none", {"train.limit": None}),
        ("--betas 0.8 0.9", {"train.optimizer.betas": (0.8, 0.9)}),
        ("--betas 0.8,0.9", {"train.optimizer.betas": (0.8, 0.9)}),
        ("--betas=0.8,0.9 --lr 1", {"train.optimizer.betas": (0.8, 0.9), "train.optimizer.lr": 1}),
        ("--mlp 8", {"model.mlp": (8,)}),
        ("--mlp -8 -4 --lr 1", {"model.mlp": (-8, -4), "train.optimizer.lr": 1.0}),
        ("--mlp", {"model.mlp": ()}),
        ("--weights balanced", {"weights": "balanced"}),
        ("--weights 1 2.5", {"weights": (1.0, 2.5)}),
        ("--weights 3", {"weights": (3.0,)}),
        ("--stop a,b c", {"sampling.stop": ("a,b", "c")}),  # a comma may be what ends a text
        ("--no-compile", {"train.compile": False}),
        ("--train.no-compile", {"train.compile": False}),
        ("--compile --no-compile", {"train.compile": False}),
        ("--compile=no --skip-invalid=yes", {"train.compile": False, "skip_invalid": True}),
        ("--no-compile=false", {"train.compile": True}),
        ("--skip_invalid", {"skip_invalid": True}),
        ("--optimizer muon", {"train.optimizer.name": "muon"}),
        ("--train.optimizer muon", {"train.optimizer.name": "muon"}),
        ("--train.optimizer.name muon", {"train.optimizer.name": "muon"}),
        ("--data=--resume", {"data": "--resume"}),
        (["--data", "a = b --no-report"], {"data": "a = b --no-report"}),
        (["--data=a = b"], {"data": "a = b"}),
        ("--data=", {"data": ""}),
        ("--epochs 1 --epochs 2", {"train.epochs": 2}),
    ],
)
def test_values_are_read_by_the_types_of_their_fields(line, given):
    assert changes(line) == given


def test_a_changed_configuration_is_one_that_python_could_have_made():
    config = change(Config(), changes("--lr 3e-4 --model.heads 2"))
    assert config.model.heads == 2 and config.train.optimizer.lr == 3e-4


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("run", {"run": Path("run")}),
        ("run a b", {"run": Path("run"), "inputs": ("a", "b")}),
        ("run --index 0 3 --device cpu a b", {"index": (0, 3), "inputs": ("a", "b")}),
        ("--no-report run a --lr 3 b", {"report": False, "inputs": ("a", "b")}),
        ("--skip-invalid run a", {"run": Path("run"), "inputs": ("a",)}),  # no switch takes a word
        ("run - -- --device -x", {"inputs": ("-", "--device", "-x"), "device": "auto"}),
        ("run -- -- a", {"inputs": ("--", "a")}),
        ("-- run -h", {"run": Path("run"), "inputs": ("-h",)}),
        (["run", "-x and more"], {"inputs": ("-x and more",)}),
        ("run -5", {"inputs": ("-5",)}),
        ("run --vary a=1,2 --vary b=3", {"vary": ("a=1,2", "b=3")}),
    ],
)
def test_words_in_their_places_may_stand_before_and_behind_flags(line, given):
    found = read(line)[0]
    assert {name: getattr(found, name) for name in given} == given


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "regard play: RUN is missing: regard play RUN [INPUT …] [FLAGS]"),
        ("run --lr", "--lr needs a value: --lr X; one that begins with - is typed --lr=-…"),
        ("run --train.optimizer.lr --report", "--train.optimizer.lr needs a value: --train.opt"),
        ("run --lr fast", "--lr = 'fast' is not a number"),
        ("run --train.optimizer.lr fast", "--train.optimizer.lr = 'fast' is not a number"),
        ("run --epochs 2.5", "--epochs = '2.5' is not a whole number"),
        ("run --epochs 99999999999999999999", "--epochs is too large: a whole number is at most"),
        ("run --betas 1", "--betas = ['1'] needs 2 values, not 1"),
        ("run --betas 1,x", "--betas[1] = 'x' is not a number"),
        ("run --optimizer adam", "--optimizer = 'adam' is not one of adamw, muon; did you mean ad"),
        ("run --device gpu", "--device = 'gpu' is not one of auto, cpu"),
        ("run --report=maybe", "--report = 'maybe' is not true or false"),
        ("run --index x", "--index[0] = 'x' is not a whole number"),
        ("run --heads 3", "--heads is in several tables: type --model.heads or --sampling.heads"),
        ("run --widht 3", "there is no --widht; did you mean --width?"),
        ("run --modle.width 3", "there is no --modle.width; did you mean --model.width?"),
        (
            "run --optimizer.beta 3",
            "there is no --optimizer.beta; did you mean --train.optimizer.b",
        ),
        (
            "run --model.depth 3",
            "there is no --model.depth; in [model] there are --model.width, --",
        ),
        ("run --no-reprot", "there is no --no-reprot; did you mean --no-report?"),
        ("run --learning-rate 3", "--learning-rate is called --lr here"),
        ("run -x", "there is no -x; regard play has"),
        ("run --lr.x 3", "there is no --lr.x"),
        ("run --dev cpu", "there is no --dev;"),  # nothing is guessed from how a flag begins
    ],
)
def test_a_mistake_is_a_sentence_that_names_what_was_typed(line, sentence):
    with pytest.raises(UserError) as mistake:
        read(line)
    assert str(mistake.value).startswith(sentence) and "\n" not in str(mistake.value)


def test_what_is_far_from_every_flag_is_answered_with_what_there_is():
    """With the flags of the command, the fields that stand in no table, and the tables."""
    with pytest.raises(UserError) as mistake:
        read("run --quantum")
    words = str(mistake.value)
    assert all(f"--{name}" in words for name in ("report", "device", "data", "skip-invalid"))
    assert "[model]" in words and "[train.optimizer]" in words and "--width" not in words
    assert words.endswith(": regard play --help")


def test_more_flags_than_those_of_fields_can_be_added():
    more = [Group("numbers", (Leaf("keys", int, 7, "How many."), Leaf("z", tuple[float, ...], ())))]
    line = ["run", "--z", "-3", "1e2", "-inf", "--keys", "3"]
    _, given = parse.parse(COMMAND, Options, line, more=more)
    assert given == {"z": (-3.0, 100.0, float("-inf")), "keys": 3}


def test_a_command_whose_flags_clash_is_a_fault_of_ours():
    @dataclass(frozen=True)
    class Clash:
        width: int = 3

    # What the command calls its own is its own, and the field keeps its full name …
    _, given = parse.parse(COMMAND, Clash, ["--model.width", "9"], Config())
    assert given == {"model.width": 9}
    found, given = parse.parse(COMMAND, Clash, ["--width", "9"], Config())
    assert found.width == 9 and not given

    # … but two that are one and the same cannot be told apart.
    @dataclass(frozen=True)
    class Twice:
        data: int = 3

    with pytest.raises(ValueError, match="--data would set data, and data"):
        parse.parse(COMMAND, Twice, [], Config())


# The help


@pytest.fixture
def shown(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "90")
    with pytest.raises(SystemExit) as leaving:
        read("--lr nonsense --help")  # whatever else is typed
    assert not leaving.value.code
    return capsys.readouterr().out


def test_the_help_has_short_names_first_and_says_which_field_each_sets(shown):
    assert shown.startswith("usage: regard play RUN [INPUT …] [FLAGS]\n\nplay with a run\n")
    for line in (
        r"^  RUN +Folder of the run\.$",
        r"^  --device \{auto,cpu\} +Where\. \(default: auto\)$",
        r"^  --report, --no-report +Whether a report is written\. \(default: true\)$",
        r"^  --workers N +How many help\. \(default: 0\)$",
        r"^\[train\.optimizer\] How parameters are moved:$",
        r"^  --lr X +How large a step is, 100% of it\. \(train\.optimizer\.lr = 0\.001\)$",
        r"^  --optimizer \{adamw,muon\}\n? +Which one\. \(train\.optimizer\.name = adamw\)$",
        r"^  --betas X … +How long it remembers\. \(train\.optimizer\.betas = 0\.9 0\.999\)$",
        r"^  --compile, --no-compile\n? +Whether it is compiled, and then faster\.",
        r"^  --sampling\.heads N +At once\. \(sampling\.heads = 1\)$",
        r"^  --limit X +Largest norm\. \(train\.limit = none\)$",
    ):
        assert re.search(line, shown, re.MULTILINE), line
    assert shown.endswith("examples:\n  regard play run\n")


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize(
    "words", [*([name] for name in COMMANDS), *(["train", task] for task in TASKS)], ids=" ".join
)
def test_the_help_of_every_command_fits_its_terminal(words, columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    head, _, _ = capsys.readouterr().out.partition("\nexamples:")
    if words in (["train"], ["count"]):  # a list in the words of recipes and of parts
        return
    assert max(map(len, head.splitlines())) <= min(columns, 100)


# What is before is after


@pytest.mark.parametrize("command", BEFORE)
def test_every_flag_and_every_place_of_before_is_there(command):
    """What is called as it was sets the field of that name, and a switch is what it was."""
    before, now = BEFORE[command], command_now(command)
    assert before["flags"] or before["words"]
    if now.startswith("python -m "):
        assert {flag_now(command, flag) for flag in before["flags"]} <= script_flags(now)
        return
    flags = flags_of(now)
    for flag in (*before["flags"], *before["off"]):
        leaf, on = flags.known[flag_now(command, flag)]
        if flag_now(command, flag) == flag:
            assert on == (flag not in before["off"])
            *path, last = leaf.name.replace("_", "-").split(".")
            last = last if on else f"no-{last}"
            assert flag in (f"--{last}", f"--{'.'.join([*path, last])}")
    assert not {*before.get("refused", ())} & {*flags.known}
    places = [each.name for each in flags.places]
    first = ("task",) if command.split()[0] == "train" else ()  # which is read before all else
    assert [each for each in before["words"] if each not in first] == places


def test_the_list_of_before_has_every_command_and_task():
    assert {command.split()[0] for command in BEFORE} >= {*COMMANDS}
    assert {f"{name} {task}" for name in ("train", "predict") for task in TASKS} <= {
        command_now(command) for command in BEFORE
    }


# Where the task stands


def words_of(line: str):
    task, options, config, recipe = COMMANDS["train"].read(line.split()).args
    return task, options, config, recipe


def test_the_task_is_the_first_word_and_no_switch_swallows_it():
    for line in ("classify --no-bias", "--no-bias classify", "--no-bias --quiet classify"):
        task, _, config, recipe = words_of(line)
        assert (task, config.model.bias, recipe.name) == ("classify", False, "digits")
    assert words_of("--epochs 3 classify")[2].train.epochs == 3


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "which task? choose classify"),
        ("clasify", "no task 'clasify'; did you mean 'classify'"),
        ("--data translate classify", "--data needs a value"),
        ("classify translate", "regard train classify has no place for 'translate'"),
        ("classify --recipe no-such", "no recipe 'no-such' for classify"),
        ("classify --resume=yes", "--resume needs the run to go on with"),
        ("classify --heads 3 --width 16", "model: width=16 does not split into heads=3"),
    ],
)
def test_a_training_that_is_not_clear_is_explained(line, sentence):
    with pytest.raises(UserError) as mistake:
        words_of(line)
    assert str(mistake.value).startswith(sentence)


def test_the_model_that_is_trained_has_the_short_names():
    assert words_of("classify --heads 2")[2].model.heads == 2
    davit = words_of("classify --recipe cifar10-davit --heads 1 2")[2].davit
    assert davit.heads == (1, 2)
    with pytest.raises(UserError, match=r"^model\.\w+=\S+ has no effect: kind='davit'"):
        words_of("classify --kind davit --heads 1 2")  # of a recipe for the other


def test_python_has_the_same_short_names(monkeypatch):
    kept = []
    monkeypatch.setattr("regard.runs.run.go", lambda session, **_: kept.append(session.config))
    rg.train("classify", data="digits", seed=3, width=32, quiet=True)
    rg.train("classify", data="digits", train={"seed": 3}, **{"model.width": 32})
    rg.train("classify", recipe="cifar10-davit", data="digits", heads=(1, 2))
    assert kept[0] == kept[1]
    assert kept[0].train.seed == 3 and kept[0].model.width == 32
    assert kept[2].davit.heads == (1, 2)


# How long it takes

HEAVY = ("torch", "numpy", "rich", "scipy", "matplotlib", "pandas", "sklearn", "tokenizers", "tyro")


@pytest.mark.parametrize("words", ["--help", "train --help", *(f"train {x} --help" for x in TASKS)])
def test_help_loads_little(words):
    """Modules are counted, since their number does not depend on who else uses the machine."""
    code = (
        "import sys\nfrom regard.cli import main\ntry:\n"
        f"    main({words.split()!r})\nexcept SystemExit:\n    pass\n"
        "print(len(sys.modules), *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    count, *names = done.stderr.split()
    assert not {name.split(".")[0] for name in names} & set(HEAVY)
    assert int(count) < (130 if words == "--help" else 190), count


@pytest.mark.skipif(os.name == "nt", reason="Windows does not say what a child has used")
def test_help_is_quick(record_property):
    """In seconds of a core, which others on this machine do not change, above a bare Python's."""

    def used(*words: str) -> float:
        seconds = []
        for _ in range(5):
            before = os.times()
            subprocess.run((sys.executable, *words), capture_output=True, check=True)
            after = os.times()
            seconds.append(sum(after[2:4]) - sum(before[2:4]))
        return statistics.median(seconds)

    bare = used("-c", "pass")
    for words, most in (("--help", 0.15), ("train classify --help", 0.3)):
        apart = used("-m", "regard", *words.split()) - bare
        record_property(f"seconds of regard {words}", round(apart, 3))
        assert apart < most, (words, apart)
