"""A run from Python: train one, load one, ask it, measure it, look into it.

    run = rg.train("classify", data="digits", epochs=5)
    run = rg.load("runs/classify-digits-001")
    run.predict("photo.png"); run.evaluate("test"); run.look(split="test", indices=[0])

The command line calls the same functions.
"""

from __future__ import annotations

import html
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.attention import Mask
from regard.attention.multi_head import Attention
from regard.config import build, change, to_values
from regard.data.labelled_sets import LABELLED
from regard.data.registry import as_typed
from regard.errors import ConfigError, UserError
from regard.fields import Names, in_full
from regard.generation.sample import fresh_seed
from regard.hardware.device import choose_device
from regard.run_folder import RunFolder, epochs_in
from regard.run_folder.metric_lines import deciding, lower_is_better
from regard.run_folder.tensor_files import shapes_in
from regard.runs.promise import promise_kept
from regard.runs.recipe import choose_recipe
from regard.runs.report import (
    read_evaluation,
    write_curves,
    write_evaluation,
    write_report,
)
from regard.runs.session import Session, not_given
from regard.tasks import TASKS, find
from regard.tasks.bounds import expect_facts, expect_match
from regard.tasks.inputs import TextFile, few_enough, left_out, own_rows, readable
from regard.tasks.looks import Look
from regard.tasks.predict import answered, names_of, seeded_once
from regard.tasks.task import Judged, Prove, Show, Task, Trained
from regard.training.fit import put_weights
from regard.training.threads import Threads, keeping_threads
from regard.usual_names import answer_key
from regard.visualization.document import data_uri

READING = ("text_column", "label_column", "text_pair_column", "skip_invalid")  # of other data


def train(
    task: str,
    *,
    data: str | Path | None = None,
    recipe: str | Path | None = None,
    epochs: int | None = None,
    out: str | Path | None = None,
    root: str | Path = "runs",
    resume: bool = False,
    device: str = "auto",
    threads: Threads | None = None,
    quiet: bool = False,
    report: bool = True,
    test: bool = False,
    accept_edits: bool = False,
    attention: Attention | None = None,
    **changes: Any,
) -> Run:
    """Train a model and return its run, in the folder `out` or as a new one in `root`.

    Without `threads` it takes the number of CPU threads that is fastest as it begins.
    `changes` are fields of the configuration by their last part, `epochs=3, width=96`, by table,
    `model={"width": 96}`, or in full, `**{"model.width": 96}`. `test` measures on test
    in the end, beside what the recipe promises. An `attention` of your own has the arguments of
    `attend`, and `rg.load` needs it again. `accept_edits` accepts a run whose files were edited.
    """
    entry = find(task)
    if resume:
        if out is None:
            raise UserError("resume needs the run to go on with: out='runs/…'")
        opened = RunFolder.open(Path(out), accept_edits=accept_edits)
        config = opened.config(entry.load_config())
        chosen = None
    else:
        name = None if data is None else as_typed(data)
        chosen = choose_recipe(task, None if recipe is None else str(recipe), name)
        config = chosen.config(entry.load_config())
    expect_fields(config, changes)
    settings = dict(flattened(changes))
    if data is not None:
        settings["data"] = as_typed(data)
    if epochs is not None:
        settings["train.epochs"] = epochs
    if threads is not None:
        settings["train.threads"] = threads
    options = {} if attention is None else {"attention": attention}
    session = Session(
        entry.load(),
        change(config, in_full(config, settings)),
        chosen,
        quiet=quiet,
        accept_edits=accept_edits,
        options=options,
    )
    place = None if out is None else Path(out)
    return go(
        session,
        out=place,
        root=Path(root),
        resume=resume,
        device=device,
        report=report,
        test=test,
    )


def expect_fields(config: Any, changes: Mapping[str, Any]) -> None:
    """Answer a keyword of `train` that no field has, such as another library's name for one."""
    known = [field.name for field in fields(config)]
    names = Names(config)
    options = [name for name in inspect.signature(train).parameters if name != "changes"]
    for name in changes:
        if name.partition(".")[0] in known or names.meant(name):
            continue  # what is wrong inside a table is said by `change`
        if answer := answer_key(name, [*options, *names.full, *map(names.short, names.leaves)]):
            raise UserError(answer)


@keeping_threads()
def go(
    session: Session,
    *,
    out: Path | None,
    resume: bool,
    device: str,
    report: bool,
    test: bool = False,
    root: Path = Path("runs"),
) -> Run:
    """A sitting from the first word to the report: what `train` does here and as a command."""
    folder = session.go(out=out, root=root, resume=resume, device=device)
    write_curves(folder)
    run = load(folder.path, device=device, **session.options)
    judged, split = run.evaluate("validation"), "validation"
    session.say(run.task.summary(judged, split))
    if test and run.test_split == split:
        session.say("there is no test to measure it on")
    elif test:
        split = run.test_split
        judged = run.evaluate(split)
        session.say(run.task.summary(judged, split))
        write_curves(folder)  # with a mark where the test came out
    if report:
        session.say(f"report: {run.report(split)}")
    if split == run.test_split and (words := promise_kept(run, judged)):
        session.say(words)
    where = folder.path
    session.say(
        f"next: regard evaluate {where}    regard look {where} --split {run.test_split} --index 0"
    )
    return run


def load(
    path: str | Path, *, device: str = "auto", accept_edits: bool = False, **options: Any
) -> Run:
    """A run from its folder; `options` such as `attention=f` go to the model.

    A run of which a file was edited is refused, or loaded all the same with `accept_edits`, which
    says on stderr what was.
    """
    folder = RunFolder.open(Path(path), accept_edits=accept_edits)
    folder.expect_unedited()
    return Run(folder, choose_device(device), options)


class Run:
    """A trained model and everything that is known about it."""

    def __init__(
        self, folder: RunFolder, device: torch.device, options: Mapping[str, Any] | None = None
    ) -> None:
        self.folder, self.device, self.options = folder, device, dict(options or {})
        name = folder.about().get("task")
        if name is None:
            raise UserError(f"{folder.path / 'config.toml'} does not say which task it is for")
        self.task: Task[Any, Any, Any] = find(str(name)).load()
        self.config = folder.config(self.task.config)

    @cached_property
    def metadata(self) -> Any:
        """What the run knows of its data."""
        values = self.folder.read_facts("data")
        if values is None:
            raise UserError(f"{self.folder.path} has no data.json: its training never began")
        source = str(self.folder.path / "data.json")
        facts = build(self.task.metadata, values, source=source)
        expect_facts(self.config, facts, source)
        return facts

    @cached_property
    def model(self) -> nn.Module:
        """The weights that were best on validation."""
        if missing := not_given(self.folder, self.options):
            raise UserError(
                f"{self.folder.path} was trained with code of your own, which a run does not keep: "
                f"rg.load({str(self.folder.path)!r}, {missing}=…)"
            )
        path = self.folder.path / "model.safetensors"
        expect_match(self.config, shapes_in(path), str(path))
        try:
            with torch.random.fork_rng(devices=[]):  # first weights are drawn, to be written over
                model = self.task.build_model(self.config, self.metadata, **self.options)
        except ValueError as trouble:
            raise UserError(f"{self.folder.path / 'config.toml'}: {trouble}") from None
        weights = self.folder.read_tensors("model.safetensors")
        try:
            put_weights(model, weights)
        except ValueError as trouble:
            raise UserError(f"{path} belongs to another configuration: {trouble}") from None
        for name, weight in weights.items():
            if weight.is_floating_point() and not weight.isfinite().all():
                raise UserError(f"{path} is damaged: {name} holds numbers that are not finite")
        return model.to(self.device).eval()

    @cached_property
    def data(self) -> Any:
        """The data the run was trained on, if they are still there."""
        data = self.task.load_data(self.config)
        if data.metadata.digest != self.metadata.digest:
            raise UserError(
                f"{self.config.data} has changed since {self.folder.path} was trained on it; "
                "name the data to use with --data"
            )
        return data

    @property
    def test_split(self) -> str:
        """The split to measure on in the end: test, or validation where the data have no test."""
        return "test" if self.metadata.parts[2] else "validation"

    @property
    def trained(self) -> Trained[Any, Any]:
        return Trained(self.model, self.config, self.metadata, self.device)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """One line an epoch."""
        return self.folder.metrics()

    def predict(
        self,
        *inputs: Any,
        split: str | None = None,
        indices: int | Iterable[int] | None = None,
        text_column: str = "",
        skip_invalid: bool = False,
        stream: Show | None = None,
        **changes: Any,
    ) -> list[Any]:
        """A list of answers, in the order of what is asked about.

        `inputs` are values or iterables of values. For texts a str is a text, and a `Path` a file
        of them, by line, row or object (`text_column` names the column or key). For images a str
        or a `Path` is a path; bytes, open files, PIL images and arrays, alone or in batches, will
        do too. `split` and `indices` name items of the run's own data, all of them without
        `indices`. What cannot be read is an error that says where it stands, or is left out with
        a warning by `skip_invalid`.

        `stream` is called with each piece of text as it is written, a line's end after each
        answer. `changes` are fields of the configuration that decide how answers are made, such as
        `seed=7` or `generation={"max_new_tokens": 50}`.
        """
        items = self.items(*inputs, split=split, indices=indices, text_column=text_column)
        read = left_out(items) if skip_invalid else readable(items)
        return list(self.answers(read, show=stream, **changes))

    def items(
        self,
        *inputs: Any,
        split: str | None = None,
        indices: int | Iterable[int] | None = None,
        text_column: str = "",
    ) -> Iterator[Any]:
        """What is asked about as items of the task, an `Unreadable` in place of what is none."""
        if text_column:
            inputs = tuple(
                TextFile(each, text_column) if isinstance(each, Path) else each for each in inputs
            )
        rows = own_rows(split, indices)
        return self.task.parse_inputs(self.trained, (*inputs, *rows), lambda: self.data)

    def answers(
        self, items: Iterable[Any], *, show: Show | None = None, **changes: Any
    ) -> Iterator[Any]:
        """The answers to items as they are made; an `Unreadable` stays where it is."""
        trained = seeded_once(self.changed(changes), self.task.asking, fresh_seed())
        return answered(self.task, trained, items, show)

    def changed(self, changes: Mapping[str, Any]) -> Trained[Any, Any]:
        """The trained model, with other words on how it answers."""
        asking = self.task.asking
        short = names_of(getattr(self.config, asking, None)) if asking else frozenset()
        settings = {
            f"{asking}.{name}" if name in short else name: value
            for name, value in flattened(changes)
        }
        for name in settings:
            if not asking or name.split(".")[0] != asking:
                may = f"only {asking}.…" if asking else "nothing"
                raise ConfigError(
                    f"{name} is settled: a run that is asked can change {may}",
                    key=name,
                    value=settings[name],
                )
        return replace(self.trained, config=change(self.config, settings))

    def check_cache(self, *inputs: Any, **rows: Any) -> list[Any]:
        """Whether scores through the cache are those without: for texts, or for windows of data.

        Each proof prints itself, and `holds` or does not. `rows` are `split` and `indices`.
        """
        return self.proven("check_cache", self.task.check_cache, inputs, rows)

    def explain_cache(self, *inputs: Any, **rows: Any) -> list[Any]:
        """Which entries of its map a text's next word computes anew, and what is kept for it."""
        return self.proven("explain_cache", self.task.explain_cache, inputs, rows)

    def proven(
        self,
        name: str,
        prove: Prove[Any, Any, Any] | None,
        inputs: Sequence[Any],
        rows: Mapping[str, Any],
    ) -> list[Any]:
        if prove is None:
            able = [task for task, entry in TASKS.items() if getattr(entry.load(), name)]
            raise UserError(
                f"--{name.replace('_', '-')} is for runs of {' or '.join(able)}, and "
                f"{self.folder.path} is a run of {self.task.name}"
            )
        items = [*readable(self.items(*inputs, **rows))] if inputs or rows else []
        return prove(self.trained, items, lambda: self.data)

    def evaluate(
        self, split: str | None = None, *, data: str | Path | Any = None, **reading: str | bool
    ) -> Judged:
        """The final figures on a split, kept in the run: that held out, or `all` of other data.

        Other data are named, and read as `other` says, or are what that has read already.
        """
        split = split or (self.test_split if data is None else "all")
        if data is None:
            self.reading(reading, others=False)
            judged = self.task.evaluate(self.trained, self.data, split)
            write_evaluation(self.folder, split, judged)
            return judged
        used = self.other(data, **reading) if isinstance(data, str | Path) else data
        return self.task.evaluate(self.trained, used, split)

    def other(self, data: str | Path, **reading: str | bool) -> Any:
        """Other data than the run's own, of which it can speak; `metadata.skipped` is left out.

        `reading` says how they are read, where that is not as the run's own: `text_column`,
        `label_column` and `text_pair_column` name columns, and `skip_invalid` leaves out what is
        of no use.
        """
        config = self.reading(reading, others=True)
        columns = [name for name in reading if name != "skip_invalid"]
        if columns and str(data) in LABELLED:
            raise UserError(
                f"--{columns[0].replace('_', '-')} is for files of your own; {data} needs none"
            )
        return self.task.load_other_data(config, self.metadata, str(data))

    def reading(self, changes: Mapping[str, str | bool], others: bool) -> Any:
        """The configuration by which other data are read."""
        for name in changes:
            flag = f"--{name.replace('_', '-')}"
            if name not in READING or not hasattr(self.config, name):
                may = [
                    f"--{each.replace('_', '-')}" for each in READING if hasattr(self.config, each)
                ]
                raise UserError(
                    f"{flag}: of how data are read, {self.task.name} lets change "
                    f"{', '.join(may) or 'nothing'}"
                )
            if not others:
                raise UserError(f"{flag} is for other data than the run's own: name them by --data")
        return change(self.config, changes)

    def evaluated(self, split: str) -> Judged | None:
        """What `evaluate` last said of a split."""
        values = read_evaluation(self.folder, split)
        try:
            return None if values is None else self.task.from_dict(values)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as trouble:
            path = self.folder.path / f"evaluation-{split}.json"
            raise UserError(f"{path} is damaged: {trouble!s:.500}") from None

    def look(
        self,
        *inputs: Any,
        split: str | None = None,
        indices: int | Iterable[int] | None = None,
        text_column: str = "",
        skip_invalid: bool = False,
    ) -> Look:
        """Where the model looked at what `predict` takes; shows itself in a notebook."""
        items = self.items(*inputs, split=split, indices=indices, text_column=text_column)
        read = left_out(items) if skip_invalid else readable(items)
        return Look(self.task.look(self.trained, few_enough(read), lambda: self.data))

    def report(self, split: str = "validation") -> Path:
        """Write report.html, with the figures on a split."""
        judged = self.evaluated(split) or self.evaluate(split)
        return write_report(self, split, judged)

    def __repr__(self) -> str:
        lines = self.metrics
        best = ""
        if lines and (name := deciding(lines[-1])):
            choose = min if lower_is_better(name) else max
            best = f", best {name} {choose(line[name] for line in lines if name in line):.4g}"
        return f"<{self.task.name} run {self.folder.path}: {epochs_in(lines)} epochs{best}>"

    def _repr_html_(self) -> str:
        curves = self.folder.path / "curves.svg"
        picture = ""
        if curves.is_file():  # as an image, in which no script runs: a run may come from anywhere
            picture = f'<img alt="curves" src="{data_uri("image/svg+xml", curves.read_bytes())}">'
        return f"<p>{html.escape(repr(self))}</p>{picture}"


def flattened(changes: Mapping[str, Any], under: str = "") -> list[tuple[str, Any]]:
    """Nested changes by dotted name."""
    found: list[tuple[str, Any]] = []
    for name, value in changes.items():
        dotted = f"{under}{name}"
        if isinstance(value, Mapping):
            found += flattened(value, f"{dotted}.")
        elif isinstance(value, Mask):
            found.append((dotted, str(value)))
        elif hasattr(value, "__dataclass_fields__"):
            found += flattened(to_values(value), f"{dotted}.")
        else:
            found.append((dotted, value))
    return found
