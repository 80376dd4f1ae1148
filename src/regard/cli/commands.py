"""The verbs on runs, as they are typed: train, evaluate, predict, look, compare."""

from __future__ import annotations

import json as encoder
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from regard.cli.signatures import Device, unchecked, value_of, with_default, without
from regard.errors import UserError
from regard.runs.recipe import Recipe, choose_recipe, recipes
from regard.tasks import TASKS, find

MOST = 8  # runs on one figure: so many colours can be told apart


def train_for(args: Sequence[str]) -> Callable[..., None]:
    """The command `train` with the flags of the task and the defaults of the recipe in `args`."""
    from tyro.conf import arg

    name = next((word for word in args if word in TASKS), None)
    if name is None and args and not args[0].startswith("-"):
        name = args[0]
    if name is None or name not in TASKS:
        if name is None and not {"-h", "--help"} & set(args):
            raise UserError(
                f"train what? there are {', '.join(TASKS)}: regard train {first_task()}"
            )
        if name is not None:
            find(name)  # says which was meant
        vars(choose_a_task)["description"] = overview_of_tasks()
        return choose_a_task
    entry = find(name)
    kind = entry.load_config()
    chosen: Recipe | None = None
    if "--resume" in args:
        from regard.run_folder import RunFolder

        path = value_of(args, "--out")
        if value_of(args, "--recipe") is not None:
            raise UserError("--resume goes on with the run's own configuration; leave --recipe out")
        if path is None:
            raise UserError("--resume needs the run to go on with: --out runs/…")
        accepted = "--accept-edits" in args
        default = RunFolder.open(Path(path), accept_edits=accepted).config(kind)
    else:
        chosen = choose_recipe(name, value_of(args, "--recipe"), value_of(args, "--data"))
        default = chosen.config(kind)

    def train(
        task: str,
        config: Any,
        recipe: str | None = None,
        epochs: int | None = None,
        out: Path | None = None,
        resume: bool = False,
        device: Device = "auto",
        threads: str | None = None,
        quiet: bool = False,
        tensorboard: bool = False,
        report: bool = True,
        test: bool = False,
        accept_edits: bool = False,
    ) -> None:
        """Train.

        Args:
            task: what to learn.
            config: everything that decides the run.
            recipe: a recipe by name, or a file.toml; by default the one made for the data.
            epochs: passes over the data; the same as --train.epochs.
            out: folder of the run; by default runs/TASK-DATA-NNN.
            resume: go on with the run in --out, exactly where it was.
            device: where to train; auto takes a GPU if there is one.
            threads: CPU threads, auto or a number; the same as --train.threads. A number reproduces
                a run to the last bit, where auto may choose another one.
            quiet: say nothing but errors.
            tensorboard: write the figures for TensorBoard too, into the run.
            report: write report.html at the end.
            test: measure on test too in the end, and say how far that is from what the recipe
                promises; for a run by which nothing more is to be chosen.
            accept_edits: go on with a run, or begin from one, although files of it were edited.
        """
        from regard.config import build, change, to_values
        from regard.runs.run import go
        from regard.runs.session import Session

        config = build(kind, to_values(config))
        if epochs is not None:
            config = change(config, {"train.epochs": epochs})
        if threads is not None:
            config = change(config, {"train.threads": threads})
        session = Session(
            entry.load(),
            config,
            chosen,
            quiet=quiet,
            tensorboard=tensorboard,
            accept_edits=accept_edits,
        )
        go(session, out=out, resume=resume, device=device, report=report, test=test)

    vars(train)["examples"] = entry.examples["train"]
    fields = unchecked(kind)
    train.__annotations__["config"] = Annotated[fields, arg(name="")]
    vars(train)["description"] = (
        f"{entry.summary}\n\nDefaults below are those of the recipe {chosen.name}: "
        f"{chosen.about.words}."
        if chosen
        else entry.summary
    )
    return with_default(train, "config", fields(**vars(default)))


def choose_a_task() -> None:
    """Only `regard train --help` comes here, since every other use names a task."""


def first_task() -> str:
    return next(iter(TASKS))


def overview_of_tasks() -> str:
    """Tasks and their recipes, for `regard train --help`."""
    lines = [
        "Train a model: regard train TASK, and regard train TASK --help for all its flags.",
    ]
    for name, entry in TASKS.items():
        found = recipes(name)
        wide = max(map(len, found), default=0)
        lines += ["", f"{name}: {entry.summary}"]
        lines += [f"  --recipe {one:<{wide}} {read.about.words}" for one, read in found.items()]
    return "\n".join(lines)


def evaluate(
    *runs: Path,
    data: str | None = None,
    split: str | None = None,
    text: str | None = None,
    label: str | None = None,
    pair: str | None = None,
    skip_bad: bool = False,
    device: Device = "auto",
    record: Path | None = None,
    json: bool = False,
    accept_edits: bool = False,
) -> None:
    """Measure runs.

    Args:
        runs: folders of runs; of several, the mean and the spread are said too.
        data: other data than they were trained on, of classes that they know.
        split: train, validation, test or all; by default test (validation if there is no test),
            and all of other data.
        text: the column of other data that holds the texts, if it is not as the runs' own.
        label: the column that holds the labels.
        pair: the column that holds the second texts.
        skip_bad: leave out of other data what is of no use.
        device: where to run them.
        record: write the figures of all, with command, hardware and seeds, to this .json.
        json: print the figures as JSON, one object a line.
        accept_edits: load runs although files of theirs were edited.
    """
    from regard.runs.promise import promise_kept
    from regard.runs.record import headline, recorded, spread
    from regard.runs.report import write_curves
    from regard.runs.run import load
    from regard.tasks.several import one_task

    if not runs:
        raise UserError("evaluate what? regard evaluate RUN…")
    if data is not None and record is not None:
        raise UserError("--record keeps figures on a run's own data; leave --data out")
    found = [load(run, device=device, accept_edits=accept_edits) for run in runs]
    one_task(found)
    split = split or (found[0].held_out if data is None else "all")
    reading = {"text": text, "label": label, "pair": pair, "skip_bad": skip_bad or None}
    said = {name: value for name, value in reading.items() if value is not None}
    judged = []
    for run in found:
        used = None if data is None else run.other(data, **said)
        if used is not None and run is found[0] and (skipped := getattr(used.facts, "skipped", ())):
            print(f"left out: {len(skipped):,}, the first as {skipped[0]}", file=sys.stderr)
        judged.append(run.evaluate(split, data=used, **(said if data is None else {})))
    for run, figures in zip(found, judged, strict=True):
        if json:
            print(encoder.dumps(figures.to_values()))
            continue
        words = split if data is None else f"{data}, {split}"
        print(run.task.summary(figures, words if len(runs) == 1 else f"{run.folder.path}: {words}"))
        if data is None:
            write_curves(run.folder)
            print(f"report: {run.report(split)}")
            if split == run.held_out and (kept := promise_kept(run, figures)):
                print(kept)
    same = data is not None or len({run.facts.digest for run in found}) == 1
    if len(runs) > 1 and same and not json:
        print(spread([headline(figures) for figures in judged]))
    if record is not None:
        try:
            text = encoder.dumps(recorded(found, judged, split), indent=1) + "\n"
            record.write_text(text, encoding="utf-8")
        except OSError as trouble:
            raise UserError(f"cannot write {record}: {trouble.strerror}") from None
        print(f"written: {record}", file=sys.stderr)


def predict_for(args: Sequence[str]) -> Callable[..., int]:
    """The command `predict`, with the flags that say how the run in `args` answers."""
    from tyro.conf import arg

    from regard.cli.answering import how_it_answers

    def predict(
        run: Path,
        *inputs: str,
        file: Path | None = None,
        text_column: str | None = None,
        split: str | None = None,
        index: tuple[int, ...] = (),
        asking: Any = None,
        seed: int | None = None,
        num_samples: int | None = None,
        device: Device = "auto",
        json: bool = False,
        csv: Path | None = None,
        skip_invalid: bool = False,
        check_cache: bool = False,
        explain_cache: bool = False,
        accept_edits: bool = False,
    ) -> int:
        """Ask a run.

        Args:
            run: folder of the run.
            inputs: texts as they stand here, or images and folders of images; - is standard input.
            file: a file of texts, a .txt by line, a .csv or .tsv by row, a .jsonl by object.
            text_column: the column or key of its texts, if it is not as the run's own.
            split: ask about the run's own data, train, validation or test.
            index: which items of that split, from 0; by default all.
            asking: how it answers, as the run was told unless said otherwise.
            seed: draw by this seed, which gives the same texts again; by default a new one.
            num_samples: texts that are drawn for each prompt.
            device: where to run it.
            json: print one JSON object a line.
            csv: write a table with a row for each answer to this file.
            skip_invalid: leave out what cannot be read; the exit code is 0 all the same.
            check_cache: prove on these texts that scores through the cache are those without.
            explain_cache: show what one more token computes anew.
            accept_edits: load the run although files of it were edited.
        """
        from regard.cli.answering import items_typed, print_answers, prove, what_to_name
        from regard.runs.run import load

        found = load(run, device=device, accept_edits=accept_edits)
        items = items_typed(found, inputs, file, text_column, split, index)
        if check_cache or explain_cache:
            return prove(found, items, check=check_cache, explain=explain_cache, json=json)
        if not (inputs or file or split):
            raise UserError(f"predict what? regard predict {what_to_name(found)}")
        drawing = {"seed": seed, "num_samples": num_samples}
        changes = {} if asking is None else {found.task.asking: asking}
        changes |= {name: value for name, value in drawing.items() if value is not None}
        return print_answers(found, items, changes, json=json, csv=csv, skip_invalid=skip_invalid)

    name, default = how_it_answers(args)
    if default is None:
        return without(predict, "asking")
    for drawn in ("seed", "num_samples"):
        if not hasattr(default, drawn):
            without(predict, drawn)
    fields = unchecked(type(default))
    predict.__annotations__["asking"] = Annotated[fields, arg(name=name)]
    return with_default(predict, "asking", fields(**vars(default)))


def look(
    run: Path,
    *inputs: str,
    file: Path | None = None,
    text_column: str | None = None,
    split: str | None = None,
    index: tuple[int, ...] = (),
    out: Path | None = None,
    skip_invalid: bool = False,
    device: Device = "auto",
    accept_edits: bool = False,
) -> int:
    """See where a run looked.

    Args:
        run: folder of the run.
        inputs: texts as they stand here, or images and folders of images; - is standard input.
        file: a file of texts, a .txt by line, a .csv or .tsv by row, a .jsonl by object.
        text_column: the column or key of its texts, if it is not as the run's own.
        split: look at the run's own data, train, validation or test.
        index: which items of that split, from 0.
        out: .html with every layer and head to choose from, or .png, .svg, .pdf.
        skip_invalid: leave out what cannot be read; the exit code is 0 all the same.
        device: where to run it.
        accept_edits: load the run although files of it were edited.
    """
    from regard.cli.answering import items_typed, readable_items, what_to_name
    from regard.runs.run import load

    path = out or Path("look.html")
    found = load(run, device=device, accept_edits=accept_edits)
    if not (inputs or file or split):
        raise UserError(f"look at what? regard look {what_to_name(found)}")
    items = items_typed(found, inputs, file, text_column, split, index)
    given, code = readable_items(items, skip_invalid)
    if not given:
        raise UserError("nothing of this can be looked at")
    try:
        print(f"written: {found.look(*given).write(path)}")
    except OSError as trouble:
        raise UserError(f"cannot write {path}: {trouble.strerror or trouble}") from None
    return code


def compare(
    *runs: Path,
    task: str | None = None,
    recipe: str | None = None,
    data: str | None = None,
    epochs: tuple[int, ...] = (),
    test: bool = False,
    out: Path = Path("compare.png"),
    device: Device = "auto",
    accept_edits: bool = False,
) -> None:
    """Put the curves of several runs on one figure, and say how much each has memorised.

    Args:
        runs: folders of runs.
        task: train this first, once for each of --epochs.
        recipe: the recipe to train with; by default the one made for the data.
        data: the data to train on.
        epochs: how long to train, for example 10 30 50.
        test: also measure on test the runs that have not been yet.
        out: the figure, as .png, .svg or .pdf.
        device: where to run.
        accept_edits: load runs although files of theirs were edited.
    """
    from regard.runs.compare import draw_comparison, rows_of, table_of
    from regard.runs.run import load, train
    from regard.tasks.several import one_task

    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UserError(f"{out}: a comparison is drawn as .png, .svg or .pdf")
    if epochs and task is None:
        raise UserError(f"--epochs needs --task: regard compare --task {first_task()} --epochs …")
    if len(runs) + len(epochs) > MOST:
        raise UserError(f"{len(runs) + len(epochs)} runs: {MOST} can be told apart on a figure")
    found = [load(run, device=device, accept_edits=accept_edits) for run in runs]
    for count in epochs if task else ():
        found.append(train(task or "", data=data, recipe=recipe, epochs=count, device=device))
    if not found:
        raise UserError("compare what? regard compare RUN RUN…, or --task with --epochs 10 30 50")
    one_task(found)
    for run in found:
        if test and run.evaluated("test") is None:
            run.evaluate("test")
    print(table_of(rows_of(found)))
    try:
        draw_comparison(found, out)
    except OSError as trouble:
        raise UserError(f"cannot write {out}: {trouble.strerror or trouble}") from None
    print(f"written: {out}")


def average(
    *runs: Path,
    out: Path | None = None,
    device: Device = "auto",
    test: bool = False,
    accept_edits: bool = False,
) -> None:
    """Make one run of several: the mean of their weights.

    For runs that began from the same trained weights and differ in their seeds or in how they
    were trained. All are measured on validation beside their mean.

    Args:
        runs: folders of runs.
        out: the folder of the new one; by default beside the first of them.
        device: where they are measured.
        test: also measure the new one on test.
        accept_edits: load runs although files of theirs were edited.
    """
    from regard.runs.average import average as made_of
    from regard.runs.run import load

    loaded = [load(run, device=device, accept_edits=accept_edits) for run in runs]
    found = made_of(loaded, out)
    print(found)
    run = found.run
    if test and run.held_out == "validation":
        print("there is no test to measure it on")
    elif test:
        print(run.task.summary(run.evaluate(run.held_out), run.held_out))
    where = run.folder.path
    shown = f"regard look {where} --split {run.held_out} --index 0"
    print(f"next: regard evaluate {where}    {shown}")
