"""A reader of texts from a table to a report: it learns, tells apart, shows why, and resumes."""

import io
import json
import math
import re
import shutil
import sys
from dataclasses import fields, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

import regard as rg
from checks import goes_on_bit_for_bit
from regard.cli import main
from regard.config import change
from regard.data import stored_texts
from regard.data.labelled import Labelled
from regard.data.tokenizer import TokenizerConfig, fit_vocabulary
from regard.errors import UserError
from regard.models.config import BertForPretrainingConfig
from regard.models.minilm import PACKAGE, minilm
from regard.models.pretrainer import BertForPretraining
from regard.run_folder import RunFolder
from regard.runs.recipe import choose_recipe
from regard.tasks.classify_text import data as data_module
from regard.tasks.classify_text import init_from as start_module
from regard.tasks.classify_text import predict as answers_module
from regard.tasks.classify_text import report as views_module
from regard.tasks.classify_text.config import ClassifyTextConfig
from regard.tasks.classify_text.data import TextBatch, TextBatches, in_windows, part_of, read
from regard.tasks.classify_text.loss import apart, measure, measured, scorer
from regard.tasks.classify_text.metrics import Evaluation, summary
from regard.tasks.classify_text.predict import TextInput
from regard.tasks.classify_text.report import items_of, views
from regard.tasks.classify_text.task import CLASSIFY_TEXT
from regard.tasks.classify_text.words import spelt
from regard.tasks.inputs import StandardInput, readable
from regard.tasks.pretrain_bert.config import PretrainBertConfig
from regard.tasks.pretrain_bert.data import Metadata as PretrainFacts
from regard.tasks.task import Trained
from regard.training.optim import make_optimiser
from regard.visualization.figure_curves import best_epoch, gap
from strategies import examples
from task_cases import ANY, SAY
from task_cases import labelled_texts as texts

CPU = torch.device("cpu")
MODEL = {"width": 32, "layers": 1, "heads": 2, "dropout": 0.0, "classifier_dropout": 0.0}
VOCABULARY = {"name": "word", "min_frequency": 1}
SHORT = {"batch_tokens": 256, "max_length": 16, "window_overlap": 4}
TINY = {**SHORT, "tokenizer": VOCABULARY, "model": MODEL}
LENT = {
    **SHORT,
    "model": {"dropout": 0.0, "classifier_dropout": 0.0},
}  # the rest is said by a start


@pytest.fixture(autouse=True)
def _faithfulness_is_measured_on_a_few(monkeypatch):
    monkeypatch.setattr(views_module, "FAITHFUL", 4)


def write(path: Path, rows: list[tuple[str, ...]], head: str = "text,label") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head, *map(",".join, rows)]) + "\n", encoding="utf-8")
    return path


def sst2(folder: Path) -> Path:
    """What lies there as SST-2 does."""
    folder.mkdir(parents=True)
    rows = ["sentence\tlabel", "a fine film\t1", "a dull film\t0", "fine\t1", "dull\t0"]
    for name in ("train.tsv", "dev.tsv"):
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("texts") / "own.csv", texts(300))


@pytest.fixture(scope="module")
def run(shared_run) -> rg.Run:
    """One that has learnt them."""
    return shared_run("classify-text")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    """Pairs of words, which are the same or not."""
    draw, rows = np.random.default_rng(0), []
    for _ in range(200):
        one, other = (str(word) for word in draw.choice(ANY, 2))
        same = bool(draw.integers(2)) or one == other
        rows.append((f"{one} {one}", one if same else other, "same" if same else "other"))
    return write(tmp_path_factory.mktemp("pairs") / "pairs.csv", rows, "text,with,label")


@pytest.fixture(scope="module")
def pair_run(pairs, tmp_path_factory) -> rg.Run:
    return trained(pairs, tmp_path_factory.mktemp("runs"), text_pair_column="with", epochs=2)


def trained(table: Path | str, root: Path, **changes) -> rg.Run:
    plain = root / "plain.toml"  # whatever the recipes for these data are
    plain.write_text('[recipe]\ntask = "classify-text"\n', encoding="utf-8")
    options = LENT if "init_from" in changes else TINY
    options = {"epochs": 1, "quiet": True, "report": False, "device": "cpu", **options, **changes}
    options = {"root": root, "train.ema_decay": 0.0, "train.optimizer.lr": 3e-3, **options}
    return rg.train("classify-text", data=table, recipe=plain, **options)


def configured(table: Path | str, **changes) -> ClassifyTextConfig:
    from regard.runs.run import flattened

    return change(ClassifyTextConfig(), dict(flattened({**TINY, **changes, "data": str(table)})))


def untrained(table: Path, **changes) -> tuple[Trained, object]:
    """A model as it begins, and its data."""
    config = configured(table, **changes)
    data = read(config)
    config = CLASSIFY_TEXT.resolve(config, data)
    return Trained(
        CLASSIFY_TEXT.build_model(config, data.metadata).eval(), config, data.metadata, CPU
    ), data


# From end to end


def test_texts_are_learnt_and_judged(run):
    judged = run.evaluate("validation")
    values = judged.to_values()
    assert next(iter(values)) == "accuracy" and judged.accuracy.value > 0.9
    assert values["accuracy"] == judged.accuracy._asdict() == judged.assessment.accuracy._asdict()
    assert (
        judged.baseline.value > 0.9 and values["tfidf_baseline"]["value"] == judged.baseline.value
    )
    said = summary(judged, "validation")
    assert "counting words" in said and "TF-IDF" in said and "most frequent class" in said
    best = next(line for line in reversed(run.metrics) if line["is_best"])
    assert best["val/accuracy"] == judged.assessment.accuracy.value
    assert best["val/loss"] == pytest.approx(judged.assessment.loss.value, rel=1e-5)
    labels = run.data.texts["validation"].labels
    assert judged.majority == max(labels.count(0), labels.count(1)) / len(labels)


def test_three_classes_are_told_apart(tmp_path):
    path = write(tmp_path / "three.tsv", [("\t".join(row),) for row in texts(300, classes=3)])
    path.write_text(path.read_text().replace("text,label", "text\tlabel"))
    run = trained(path, tmp_path, epochs=10)
    assert run.metadata.classes == ("negative", "neutral", "positive")
    assert run.config.model.num_classes == 3
    judged = run.evaluate("validation")
    assert judged.assessment.accuracy.value > 0.9 and judged.baseline.value > 0.8
    (said,) = run.predict("the film was plain")
    assert said.classes[0] == "neutral" and str(said).count("%") == 3


def test_it_judges_texts_files_lines_and_its_own_data(run, tmp_path, monkeypatch):
    (answer,) = run.predict("the soup was fine")
    assert answer.classes == ("positive", "negative") and answer.probabilities[0] > 0.9
    assert str(answer).split() == [
        *f"{answer.probabilities[0]:.1%} positive {answer.probabilities[1]:.1%} negative".split(),
        *["the", "soup", "was", "fine"],
    ]
    values = answer.to_values()
    assert values["answer"] == "positive" and values["text"] == "the soup was fine"
    assert sum(values["probabilities"].values()) == pytest.approx(1) and "truth" not in values
    assert json.loads(json.dumps(values)) == values

    path = tmp_path / "lines.txt"
    path.write_bytes("\ufeffdull soup\r\n\r\n  \nthe soup was fine".encode())
    said = run.predict(path)
    assert [each.classes[:1] for each in said] == [("negative",), (), (), ("positive",)]
    assert [str(each) for each in said][1:3] == ["", ""]
    assert said[1].to_values()["answer"] is None and said[1].to_values()["probabilities"] == {}
    assert said[0].name == f"{path}, line 1" and said[0].text == "dull soup"
    assert said[3].probabilities == pytest.approx(
        answer.probabilities, abs=1e-5
    )  # whatever else is asked
    assert len(run.predict(path, "fine")) == 5 and len(run.predict("", " ")) == 2
    monkeypatch.setattr(sys, "stdin", io.StringIO("fine\r\npoor\n"))
    fine, poor = run.predict(StandardInput())
    assert (fine.classes[0], poor.classes[0]) == ("positive", "negative")
    assert (fine.name, fine.text) == ("standard input, line 1", "fine")
    assert run.predict("fine\r\npoor")[0].text == "fine\r\npoor"
    (own,) = run.predict(split="validation", indices=3)
    held = run.data.texts["validation"]
    assert own.text == held.texts[3] and own.truth == run.metadata.classes[held.labels[3]]
    assert own.to_values()["truth"] == own.truth and f"(it is {own.truth})" in str(own)
    assert (
        "\n" not in str(replace(own, text="a\nb")) and str(replace(own, text="a\nb"))[-3:] == "a b"
    )
    assert run.predict("   fine  ")[0].probabilities == run.predict("fine")[0].probabilities


def test_standard_input_is_read_as_a_file_is(run, monkeypatch):
    said = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbffine\ngood \xff film\n"), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", said)
    with pytest.raises(UserError, match=r"standard input, line 2 is not UTF-8: a byte 0xff"):
        run.predict(StandardInput())
    said = io.TextIOWrapper(io.BytesIO("\ufefffine ä\n".encode()), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", said)
    assert [answer.text for answer in run.predict(StandardInput())] == ["fine ä"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'id,text,label\n1,"dull,\nsoup",x\n2,,\n3,fine soup,\n'),
        ("b.csv", 'label;what\n5;"dull,\nsoup"\n5;\n5;fine soup\n'),
        ("c.tsv", 'review\tn\n"dull,\nsoup"\t1\n\t2\nfine soup\t3\n'),
        ("d.CSV", '"dull,\nsoup"\n" "\nfine soup\n'),  # where one column is all there is
    ],
)
def test_of_a_table_the_column_of_texts_is_judged(run, tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    dull, *blank, fine = said = run.predict(path)
    assert [each.text for each in said if each.text] == ["dull,\nsoup", "fine soup"]
    assert len(blank) == (name != "d.CSV")
    assert (dull.classes[0], fine.classes[0]) == ("negative", "positive")
    assert fine.name.startswith(f"{path}, line ") and fine.truth is None


def test_of_a_table_of_pairs_both_columns_are_judged(pair_run, tmp_path):
    path = write(tmp_path / "more.csv", [("a", "film film", "film")], "id,text,with")
    lines = tmp_path / "lines.tsv"
    lines.write_text("film film\tfilm\n", encoding="utf-8")
    for each in (path, lines):
        (said,) = pair_run.predict(each)
        assert (said.text, said.second) == ("film film", "film")
    with pytest.raises(UserError, match="line 2 has an empty second text"):
        pair_run.predict(write(path, [("a", "film", "")], "id,text,with"))


@pytest.mark.parametrize(
    "text", ["-", "nosuch.txt", "/etc/hostname", "validation:0", "fine.", "fine\nand dull", ""]
)
def test_a_str_is_a_text_whatever_it_names(run, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)  # which nothing may wait for
    (tmp_path / "fine.").write_text("dull", encoding="utf-8")
    (answer,) = run.predict(text)
    assert answer.text == text and answer.truth is None


def test_letters_that_are_none_are_refused(table):
    bytes_of = {"tokenizer": {"name": "bpe", "min_frequency": 2, "vocab_size": 300}}
    model, _ = untrained(table, **bytes_of)
    with pytest.raises(UserError, match="no Unicode"):
        [*readable(CLASSIFY_TEXT.parse_inputs(model, ["fine \ud800"], lambda: None))]


def test_arguments_are_texts_and_files_are_named(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = '{"text": "a fine soup"}\n{"body": "dull"}\n{"text": "an awful play"}\n'
    Path("rows.jsonl").write_text(rows, encoding="utf-8")
    ask = partial(asked_of, run, capsys)
    code, (answer,), err = ask("rows.jsonl")
    assert code == 0 and answer["text"] == "rows.jsonl"
    assert "rows.jsonl is a file here, and was taken as a text" in err and "--file rows.js" in err
    code, answers, err = ask("--file", "rows.jsonl")
    assert code == 1 and [each["answer"] for each in answers] == ["positive", "negative"]
    words = "line 2 has no 'text'; there are body: name the key with --text-column"
    assert err == f"regard: rows.jsonl, {words}\n"
    code, (answer,), _ = ask("--file", "rows.jsonl", "--text-column", "body", "--skip-invalid")
    assert code == 0 and answer["answer"] == "negative"
    with pytest.warns(UserWarning, match=r"left out: 2, the first as rows\.jsonl, line 1 has no"):
        (answer,) = run.predict(Path("rows.jsonl"), text_column="body", skip_invalid=True)
    assert answer.text == "dull"
    code, (answer,), err = ask("validation:3")
    assert code == 0 and answer["text"] == "validation:3" and "--split validation --index 3" in err
    code, answers, err = ask("fine", "--split", "validation", "--index", "3", "0", "99")
    own = [None, *(each.truth for each in run.predict(split="validation", indices=[3, 0]))]
    assert code == 1 and [each.get("truth") for each in answers] == own
    assert err == (
        "regard: index 99 of validation is not there: validation of own.csv has the texts 0 to 29\n"
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO("fine\n\ndull\n"))
    assert [each["answer"] for each in ask("-")[1]] == ["positive", None, "negative"]
    assert ask("--index", "0")[2] == (
        "regard: an index counts within a split: name it, as in --split test or split=…\n"
    )
    assert "is for texts in a file: name it with --file" in ask("a", "--text-column", "x")[2]
    assert "regard predict" in ask()[2]
    assert len(run.predict(split="validation")) == 30


def asked_of(run, capsys, *words):
    """What a command prints about a run: its code, its answers, and what it has to say."""
    code = main(["predict", str(run.folder.path), *words, "--device", "cpu", "--json"])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


def test_a_text_of_too_many_windows_says_how_many(run, capsys, monkeypatch):
    monkeypatch.setattr(answers_module, "MOST_WINDOWS", 3)
    long = " ".join(["soup"] * 60)
    with pytest.raises(UserError, match=r"inputs\[1\] takes 6 windows of 16 tokens, and at most 3"):
        run.predict(["fine", long])
    code, (answer,), err = asked_of(run, capsys, "fine", long)
    assert code == 1 and answer["text"] == "fine" and "argument 2 takes 6 windows" in err
    assert len(run.predict(" ".join(["soup"] * 34))[0].classes) == 2


def test_a_look_leaves_out_what_cannot_be_read(run, tmp_path, capsys):
    path, page = tmp_path / "lines.txt", tmp_path / "look.html"
    path.write_bytes(b"fine soup\n\xff\ndull\n")
    command = ["look", str(run.folder.path), "--file", str(path), "--out", str(page)]
    assert main([*command, "--device", "cpu"]) == 1
    assert "line 2 is not UTF-8" in capsys.readouterr().err
    assert page.stat().st_size > 10_000 and main([*command, "--skip-invalid"]) == 0
    with pytest.raises(UserError, match="line 2 is not UTF-8"):
        run.look(path)


def test_an_answer_does_not_depend_on_its_neighbours(table):
    model, _ = untrained(table)
    draw = np.random.default_rng(2)
    asked = [" ".join(draw.choice(ANY, n)) for n in (3, 9, 1, 40, 8, 100)]
    together = CLASSIFY_TEXT.predict(
        model, [*CLASSIFY_TEXT.parse_inputs(model, asked, lambda: None)]
    )
    for text, said in zip(asked, together, strict=True):
        (alone,) = CLASSIFY_TEXT.predict(model, [TextInput(text, text)])
        assert alone.probabilities == pytest.approx(said.probabilities, abs=1e-6)


def test_a_run_from_a_start_goes_on_bit_for_bit_where_it_was_stopped(table, tmp_path):
    noisy = {
        "model.dropout": 0.1,
        "model.classifier_dropout": 0.1,
        "token_dropout": 0.1,
        "label_smoothing": 0.1,
    }
    noisy |= {
        "init_from": pretrained(tmp_path / "start"),
        "train.optimizer.pretrained_lr_scale": 0.1,
    }
    goes_on_bit_for_bit(partial(trained, table, tmp_path, **noisy), tmp_path)


def test_other_splits_and_other_data_are_measured_by_a_command(run, table, capsys):
    command = ["evaluate", str(run.folder.path), "--device", "cpu"]
    assert main([*command, "--split", "train"]) == 0
    assert "TF-IDF" in capsys.readouterr().out
    assert main([*command, "--data", str(table), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tfidf_baseline"] is None


# Other data


def test_other_texts_are_judged_with_the_classes_of_the_run(run, tmp_path):
    rows = [("film was fine", "positive"), ("a play", "positive"), ("dull", "negative")]
    other = write(tmp_path / "other.csv", [*rows, ("soup was lovely", "positive")])
    judged = run.evaluate(data=other)
    assert judged.assessment.count == 4 and judged.baseline is None
    learnt = {*run.data.texts["train"].texts}
    assert judged.shared == len(learnt & {text for text, _ in rows} | learnt & {"soup was lovely"})
    assert judged.majority == 0.75 and "counting" not in summary(judged, "all")
    assert CLASSIFY_TEXT.from_dict(judged.to_values()).baseline is None
    assert not (run.folder.path / "evaluation-all.json").exists()  # not of the run's own data


def test_other_texts_that_were_learnt_are_counted_while_that_can_be_known(tmp_path):
    table = write(tmp_path / "own.csv", texts(60))
    model, data = untrained(table)
    learnt = data.texts["train"].texts
    rows = [(learnt[0], "positive"), (learnt[0], "negative"), ("a new one", "positive")]
    other = write(tmp_path / "other.csv", [*rows, (data.texts["validation"].texts[0], "negative")])

    def judged() -> Evaluation:
        found = CLASSIFY_TEXT.load_other_data(model.config, model.metadata, str(other))
        return CLASSIFY_TEXT.evaluate(model, found, "all")

    assert judged().shared == 2 and "2 of the texts are among those" in summary(judged(), "all")
    fewer, _ = untrained(table, max_train_samples=20)
    some = CLASSIFY_TEXT.load_other_data(fewer.config, fewer.metadata, str(table))
    assert CLASSIFY_TEXT.evaluate(fewer, some, "all").shared >= 20, "of those that were drawn"
    assert CLASSIFY_TEXT.evaluate(model, data, "train").shared is None
    write(table, texts(60, seed=1))  # no longer what it learnt from
    assert judged().shared is None and "among those learnt" not in summary(judged(), "all")
    table.unlink()
    values = judged().to_values()
    assert values["train_overlap"] is None and CLASSIFY_TEXT.from_dict(values).shared is None
    assert CLASSIFY_TEXT.from_dict({**values, "train_overlap": 0}).shared == 0, (
        "as files of older runs say"
    )


def test_labels_of_other_texts_have_the_numbers_of_the_run(tmp_path):
    path = write(tmp_path / "three.csv", texts(60, classes=3))
    model, data = untrained(path)
    other = write(
        tmp_path / "two.csv", [row for row in texts(30, classes=3) if row[1] != "neutral"]
    )
    found = CLASSIFY_TEXT.load_other_data(model.config, model.metadata, str(other))
    assert found.metadata.classes == data.metadata.classes and not found.own
    part = part_of(found, "all")
    assert {data.metadata.classes[label] for label in part.labels} == {"negative", "positive"}
    known = dict(texts(30, classes=3))
    rows = zip(part.texts, part.labels, strict=True)
    assert all(data.metadata.classes[label] == known[text] for text, label in rows)
    assert CLASSIFY_TEXT.evaluate(model, found, "all").assessment.per_class[1].count == 0
    assert sum(found.metadata.counts) == len(found.texts["train"])


def test_other_texts_that_the_run_cannot_speak_of_are_refused(run, pair_run, pairs, tmp_path):
    rows = texts(9)
    strange = write(tmp_path / "strange.csv", [*rows, ("so so", "neutral"), ("so", "neutral")])
    with pytest.raises(
        UserError, match=r"strange\.csv has the label 'neutral', which the run does"
    ):
        run.evaluate(data=strange)
    unknown = write(tmp_path / "unknown.csv", [(*row, "x") for row in rows], "text,stars,more")
    with pytest.raises(UserError, match=r"unknown\.csv, line 1 names no label column"):
        run.evaluate(data=unknown)
    with pytest.raises(UserError, match=r"gone\.csv is not there"):
        run.evaluate(data=tmp_path / "gone.csv")
    single = write(
        tmp_path / "single.csv", [(text, "same") for text, _ in rows[:4]] + [("b", "other")] * 4
    )
    with pytest.raises(UserError, match=r"single\.csv, line 1 has no column 'with'"):
        pair_run.evaluate(data=single)
    alone = replace(pair_run.config, text_pair_column="")
    with pytest.raises(UserError, match=r"has single texts, and the run was trained on pairs"):
        CLASSIFY_TEXT.load_other_data(alone, pair_run.metadata, str(single))
    facts = replace(run.metadata, classes=pair_run.metadata.classes)
    with pytest.raises(UserError, match=r"has pairs, and the run was trained on single texts"):
        CLASSIFY_TEXT.load_other_data(pair_run.config, facts, str(pairs))


@pytest.mark.usefixtures("own_folders")
def test_columns_of_the_runs_own_file_are_not_looked_for_in_a_set_with_a_name(tmp_path):
    path = write(tmp_path / "named.csv", texts(30), "say,is")
    model, _ = untrained(path, text_column="say", label_column="is")
    sst2(tmp_path / "data" / "sst2")
    found = CLASSIFY_TEXT.load_other_data(model.config, model.metadata, "sst2")
    assert found.name == "sst2" and found.metadata.classes == ("negative", "positive")
    again = CLASSIFY_TEXT.load_other_data(model.config, model.metadata, str(path))
    assert len(part_of(again, "all")) == 30


def test_other_texts_may_be_of_one_class_that_the_run_knows(run, tmp_path):
    for rows in ([("a fine film", "positive")] * 3, [("a fine film", "positive"), ("dull", "x")]):
        path = write(tmp_path / "few.csv", rows)
        if rows[-1][1] == "x":
            with pytest.raises(UserError, match="has the label 'x', which the run does not know"):
                run.evaluate(data=path)
        else:
            assert run.evaluate(data=path).assessment.per_class[1].count == 3


def test_other_texts_are_read_as_the_user_says(run, tmp_path, capsys):
    path = write(tmp_path / "other.csv", [*texts(30), ("", "positive")], "say,is")
    where = ["evaluate", str(run.folder.path)]
    said = ["--data", str(path), "--text-column", "say", "--label-column", "is"]
    assert main([*where, *said, "--skip-invalid", "--json"]) == 0
    printed = capsys.readouterr()
    assert np.sum(json.loads(printed.out)["assessment"]["confusion"]) == 30
    assert printed.err == f"left out: 1, the first as {path}, line 32 has an empty text\n"
    assert main([*where, "--data", "reviews", "--text-column", "say"]) == 2
    assert "--text-column is for files of your own; reviews needs none" in capsys.readouterr().err
    assert main([*where, *said]) == 2 and "has an empty text" in capsys.readouterr().err
    assert main([*where, *said[2:4]]) == 2
    assert "--text-column is for other data than the run's own" in capsys.readouterr().err
    with pytest.raises(
        UserError, match="--batch-tokens: of how data are read, classify-text lets change --te"
    ):
        run.evaluate(data=path, batch_tokens=3)


# Data


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ([("a", "x"), ("b", "x")], {}, "has one label only, 'x', in 2 rows"),
        (texts(9), {"text_column": "txt"}, "has no column 'txt'; did you mean 'text'"),
        (texts(9), {"label_column": "stars"}, "has no column 'stars'"),
        (texts(9), {"text_pair_column": "second"}, "has no column 'second'"),
        (texts(9), {"text_pair_column": "text"}, "names no text column"),
        (texts(20), {"max_train_samples": 19}, r"--max-train-samples 19: own\.csv has 18 in train"),
        (
            texts(20),
            {"max_train_samples": 1},
            "--max-train-samples 1: no text of class '[a-z]+' is among them; take more",
        ),
        (
            texts(9),
            {"tokenizer": {"name": "word", "min_frequency": 99}},
            "no word occurs min_frequency=99 times",
        ),
    ],
    ids=str,
)
def test_texts_of_no_use_are_refused_in_a_sentence(tmp_path, rows, options, words):
    with pytest.raises(UserError, match=words):
        read(configured(write(tmp_path / "own.csv", rows), **options))


def test_a_set_with_a_name_needs_no_columns():
    with pytest.raises(
        UserError, match="--text-column say is for files of your own; reviews needs none"
    ):
        read(configured("reviews", text_column="say"))


def test_rows_of_no_use_are_left_out_when_asked(tmp_path):
    path = write(tmp_path / "own.csv", [*texts(30), ("", "positive"), ("fine", "")])
    with pytest.raises(UserError, match="has an empty text"):
        read(configured(path))
    data = read(configured(path, skip_invalid=True))
    assert len(data.metadata.skipped) == 2 and "2 left out" in data.words()


def test_as_few_labels_as_asked_are_drawn_by_the_seed(table):
    whole = read(configured(table))

    def drawn(count: int, seed: int = 0) -> Labelled:
        return read(configured(table, max_train_samples=count, train={"seed": seed})).texts["train"]

    some = drawn(20)
    assert len(some) == 20 and {*some.labels} == {0, 1}
    assert some.texts == drawn(20).texts != drawn(20, seed=1).texts
    assert {*some.texts} < {*drawn(40).texts} <= {*whole.texts["train"].texts}
    few = read(configured(table, max_train_samples=20))
    assert few.texts["validation"].texts == whole.texts["validation"].texts
    assert sum(few.metadata.counts) == 20 == few.metadata.texts[0]
    assert few.metadata.digest != whole.metadata.digest
    assert len(drawn(270)) == 270
    assert few.baseline.regression.n_features_in_ < whole.baseline.regression.n_features_in_


def test_what_there_is_is_said(tmp_path):
    rows = [
        *texts(60),
        (" ".join(["film"] * 40), "positive"),
        (" ".join(["soup"] * 40), "negative"),
    ]
    folder = write(tmp_path / "set" / "train.csv", rows).parent
    write(folder / "validation.csv", texts(8, seed=1))
    write(folder / "test.csv", texts(9, seed=2))
    data = read(configured(folder))
    said = data.words()
    assert "62 texts to train on" in said and "8 for validation, 9 to test" in said
    assert "2 of them are longer than 16 tokens and are read in 8 windows" in said
    many = [(f"word {n}", f"class {n:02d}") for n in range(14)]
    said = read(configured(write(tmp_path / "many.csv", [*many, ("a", "class 00")]))).words()
    assert "class 09" in said and "class 10" not in said and "and 4 more)" in said


def test_the_model_has_the_words_and_classes_of_the_data(table):
    model, data = untrained(table)
    assert (
        model.config.model.vocab_size == len(data.metadata.words)
        and model.config.model.context_length == 16
    )
    assert CLASSIFY_TEXT.resolve(model.config, data) == model.config
    for name, wrong in (("vocab_size", 7), ("context_length", 9), ("num_classes", 5)):
        with pytest.raises(
            UserError, match=rf"model\.{name} is {wrong}, and own\.csv needs \d+: lea"
        ):
            CLASSIFY_TEXT.resolve(configured(table, **{f"model.{name}": wrong}), data)


@pytest.mark.parametrize("kind", ["bpe", "char", "byte"])
def test_any_vocabulary_will_do(table, kind):
    model, data = untrained(
        table, tokenizer={"name": kind, "min_frequency": 1, "vocab_size": 300}, max_length=40
    )
    assert CLASSIFY_TEXT.evaluate(model, data, "validation").assessment.count == 30
    (item,) = items_of(model, [TextInput("x", "the soup was fine")])
    assert "".join(item["words"]) == "the soup was fine"


# Pairs


def test_pairs_are_judged_together(pair_run, pairs, tmp_path):
    assert pair_run.metadata.paired and "pairs of texts" in pair_run.data.words()
    judged = pair_run.evaluate("validation")
    assert judged.baseline is not None and judged.shared == 0  # held out by their first texts
    (said,) = pair_run.predict("film film\tsoup")
    assert said.second == "soup" and said.to_values()["second"] == "soup"
    (own,) = pair_run.predict(split="train", indices=5)
    train = pair_run.data.texts["train"]
    assert (own.text, own.second) == (train.texts[5], train.seconds[5]) and own.truth
    assert pair_run.predict("")[0].classes == ()
    for wrong in ("film film", "film\t", "\tfilm"):
        with pytest.raises(
            UserError, match=r"has an empty .* text, and this run judges pairs: put a tab betw"
        ):
            pair_run.predict(wrong)
    look = pair_run.look("film film\tsoup")
    (item,) = look.looked.document["sections"][0]["data"]["items"]
    assert item["breaks"] == [2] and item["words"] == ["film", " film", "soup"]
    assert item["name"] == "film film | soup" == look.looked.document["subtitle"]
    assert look.write(tmp_path / "look.png").stat().st_size > 5_000
    assert pair_run.report("validation").stat().st_size > 20_000


def test_pairs_that_are_too_long_are_cut_and_counted(tmp_path):
    long = " ".join(["film"] * 9), " ".join(["soup"] * 9), "x"
    for name in ("train", "validation"):
        rows = [("a film", "a soup", "x"), ("a play", "film", "y"), long]
        write(tmp_path / f"{name}.csv", rows, "text,with,label")
    data = read(configured(tmp_path, text_pair_column="with"))
    assert data.train.cut == 1 and data.train.rows.lengths.tolist() == [7, 6, 16]
    assert (data.train.rows.first[2, 1], data.train.rows.second[2, 1]) == (7, 6)
    assert "1 pairs are cut to 16 tokens" in data.words()


def test_columns_are_found_by_what_they_are_called(tmp_path):
    rows = [(label, text) for text, label in texts(20)]
    data = read(
        configured(write(tmp_path / "a.csv", rows, "is,say"), text_column="say", label_column="is")
    )
    assert data.metadata.classes == ("negative", "positive") and not data.metadata.paired
    assert {*part_of(data, "all").texts} == {text for text, _ in texts(20)}


# Long texts


def test_a_word_at_the_end_of_a_long_text_is_read(run):
    def positive(word: str) -> float:
        long = [*ANY, *ANY, *ANY[:4], word]
        assert len(long) > run.config.max_length
        (answer,) = run.predict(" ".join(long))
        return answer.to_values()["probabilities"]["positive"]

    # Two windows, of which the second alone has the word: half of the answer is its.
    assert 0.3 < positive("fine") - positive("awful") < 0.6


def test_a_long_text_has_the_mean_of_its_windows(table):
    model, data = untrained(table)
    words = data.metadata.words
    long = " ".join(np.random.default_rng(0).choice([*ANY, "fine", "dull"], 50))
    part = Labelled((long, "a soup", f"{long} film"), (1, 0, 1))
    made = in_windows(part, words, 16, 4)
    assert made.counts.tolist() == [5, 1, 5] and made.owner.tolist() == [0] * 5 + [1] + [2] * 5
    got = scorer(made, data.metadata, CPU)(model.model)
    for row, text in enumerate(part.texts):
        tokens = words.encode(f" {text}")
        n = len(tokens)
        starts = [0] if n <= 14 else [round(at) for at in np.linspace(0, n - 14, made.counts[row])]
        shares = []
        for at in starts:
            piece = torch.tensor([[words.start, *tokens[at : at + 14], words.end]])
            with torch.no_grad():
                shares.append(model.model(piece)[0].softmax(-1))
        torch.testing.assert_close(torch.from_numpy(got[row]), torch.stack(shares).mean(0))
    judged = CLASSIFY_TEXT.evaluate(model, data, "train")
    assert judged.windowed == 0
    held = replace(data, texts=replace(data.texts, parts={**data.texts.parts, "test": part}))
    judged = CLASSIFY_TEXT.evaluate(model, held, "test")
    assert judged.windowed == 2 and "2 of the texts were read in windows" in summary(judged, "test")


def test_of_very_many_texts_some_are_enough_for_words_and_that_is_said(table, monkeypatch):
    config = configured(table)
    whole = read(config)
    assert whole.counted == len(whole.texts["train"]) and "are fitted to" not in whole.words()
    monkeypatch.setattr(data_module, "FITTED", 2_000)
    monkeypatch.setattr(data_module, "COUNTED", 2_000)
    few = read(config)
    assert 20 < few.counted < 150 and few.metadata.digest == whole.metadata.digest
    assert f"these are fitted to {few.fitted:,} of them, which is enough" in few.words()
    given = few.baseline.probabilities(few.texts["validation"].texts)
    assert given.shape == (len(few.texts["validation"]), 2) and 10 < few.fitted < 150


def test_a_counter_fitted_to_some_of_the_texts_says_so(run):
    judged = replace(run.evaluate(), counted=(40, 270))
    assert "logistic regression; fitted to 40 of 270 texts" in summary(judged, "validation")
    assert Evaluation.from_values(judged.to_values()).counted == (40, 270)
    assert run.evaluate().counted is None and "counted" not in run.evaluate().to_values()


def test_tokens_in_a_file_are_those_in_memory(table, monkeypatch):
    plain = read(configured(table)).train
    monkeypatch.setattr(stored_texts, "IN_MEMORY", 100)
    stored = read(configured(table)).train
    assert stored.rows.numbers.tolist() == plain.rows.numbers.tolist()
    assert (stored.rows.first == plain.rows.first).all() and (stored.owner == plain.owner).all()
    batches = TextBatches(configured(table), read(configured(table)), CPU)
    assert len(next(iter(batches.epoch(0, 0))).labels)


def test_windows_share_the_weight_of_their_text(tmp_path):
    for name in ("train", "validation"):
        write(tmp_path / f"{name}.csv", [(" ".join([*ANY] * 6), "positive"), *texts(40)])
    config = configured(tmp_path)
    data = read(config)
    batches = TextBatches(config, data, CPU)
    total = np.zeros(len(data.texts["train"]))
    np.add.at(total, data.train.owner, batches.weights.numpy()[data.train.owner])
    np.testing.assert_allclose(total, 1, rtol=1e-6)
    assert data.train.counts.tolist() == [4] + [1] * 40


def test_longer_texts_count_as_their_tokens_to_a_power(table):
    config = configured(table, group_by_length=False)
    data = read(config)
    tokens = data.train.rows.lengths
    assert len(set(tokens)) > 1 and data.train.counts.max() == 1
    for power in (0.0, 0.5, 1.0):
        weights = TextBatches(replace(config, length_weight=power), data, CPU).weights.numpy()
        by_hand = tokens**power / (tokens**power).mean()
        np.testing.assert_allclose(weights, by_hand, rtol=1e-6)
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(UserError, match="length_weight"):
            configured(table, length_weight=wrong)


def test_lengths_are_weighed_where_a_batch_has_several_and_refused_where_it_has_one(table):
    data = read(configured(table))
    mixed = configured(table, group_by_length=False, length_weight=1.0)
    batches = list(TextBatches(mixed, data, CPU).epoch(0, 0))
    tokens = [(batch.positions >= 0).sum(-1) for batch in batches]
    assert any(len(some.unique()) > 1 for some in tokens)
    for batch, some in zip(batches, tokens, strict=True):
        torch.testing.assert_close(batch.weights / batch.weights[0], some / some[0])
    # Of one length, the weights of a step cancel; summed over several batches they do not.
    alike = configured(table, length_weight=1.0)
    with pytest.raises(UserError, match="these are all of one length: add --no-group-by-length"):
        TextBatches(alike, data, CPU)
    TextBatches(configured(table, length_weight=1.0, train={"grad_accum_steps": 2}), data, CPU)


def test_mixed_texts_are_learnt_and_gone_on_with(table, tmp_path):
    run = trained(table, tmp_path, group_by_length=False, length_weight=0.5, epochs=6)
    assert run.evaluate("validation").assessment.accuracy.value > 0.9
    assert not rg.load(run.folder.path).config.group_by_length


# Learning


def batch_of(config: ClassifyTextConfig, data: object, number: int = 0) -> TextBatch:
    return list(TextBatches(config, data, CPU).epoch(0, 0))[number]


def test_an_epoch_has_every_text_and_goes_on_from_anywhere(table):
    config, data = configured(table), read(configured(table))
    batches = TextBatches(config, data, CPU)
    whole = list(batches.epoch(2, 0))
    assert len(whole) == len(batches)
    seen = [
        (data.metadata.words.decode(words.tolist()), int(label))
        for batch in whole
        for words, label in zip(batch.words, batch.labels, strict=True)
    ]
    train = data.texts["train"]
    assert sorted(seen) == sorted(zip(train.texts, train.labels, strict=True))
    rest = list(batches.epoch(2, 3))
    assert len(rest) == len(whole) - 3
    for one, other in zip(rest, whole[3:], strict=True):
        assert torch.equal(one.words, other.words) and one.seed == other.seed
    other = list(batches.epoch(3, 0))
    assert [batch.words.tolist() for batch in other] != [batch.words.tolist() for batch in whole]
    assert len({batch.seed for batch in [*whole, *other]}) == 2 * len(whole)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("class_weights", ["none", "balanced"])
def test_the_loss_is_the_weighted_one(tmp_path, smoothing, class_weights):
    rows = [row for row in texts(90) if row[1] == "positive"] + [
        row for row in texts(30, seed=1) if row[1] == "negative"
    ]
    path = write(tmp_path / "own.csv", rows)
    model, data = untrained(path, label_smoothing=smoothing, class_weights=class_weights)
    counts = np.array(data.metadata.counts)
    weights = counts.sum() / (2 * counts) if class_weights == "balanced" else np.ones(2)
    assert counts[1] > 2 * counts[0]
    batch = batch_of(model.config, data)
    loss, count = CLASSIFY_TEXT.loss(model.config, data.metadata)(model.model, batch)
    scores = model.model(batch.words, positions=batch.positions).log_softmax(-1)
    wanted = F.one_hot(batch.labels, 2) * (1 - smoothing) + smoothing / 2
    each = -(wanted * scores).sum(-1)
    of_class = torch.tensor(weights, dtype=torch.float32)[batch.labels]
    torch.testing.assert_close(loss, (each * of_class).sum())
    torch.testing.assert_close(count, of_class.sum())
    # Over an epoch, all classes weigh the same.
    epoch = list(TextBatches(model.config, data, CPU).epoch(0, 0))
    sums = [float(sum(b.weights[b.labels == label].sum() for b in epoch)) for label in (0, 1)]
    assert sums == pytest.approx(
        [counts.sum() / 2] * 2 if class_weights == "balanced" else counts.tolist()
    )


def seen_by_the_model(config: ClassifyTextConfig, facts: object, batch: TextBatch) -> torch.Tensor:
    """The words that an objective shows a model."""
    shown = []

    class Model(torch.nn.Module):
        def forward(self, words, segments, *, positions, each):
            shown.append(words)
            return torch.zeros(1, len(words), 2)

    CLASSIFY_TEXT.loss(config, facts)(Model(), batch)
    return shown[0]


def test_two_readings_that_agree_cost_nothing_and_others_do(table):
    one, other = torch.randn(2, 7, 3, generator=torch.manual_seed(0), dtype=torch.float64)
    both = [
        F.kl_div(q.log_softmax(-1), p.softmax(-1), reduction="none").sum(-1)
        for p, q in ((one, other), (other, one))
    ]
    torch.testing.assert_close(apart(one, other), (both[0] + both[1]) / 2)
    losses = {}
    for dropped in (0.0, 0.5):
        for agree in (0.0, 1e4):
            torch.manual_seed(0)
            trained, data = untrained(
                table,
                r_drop=agree,
                **{"model.dropout": dropped, "model.classifier_dropout": dropped},
            )
            batch = batch_of(trained.config, data)
            torch.manual_seed(1)
            loss, _ = CLASSIFY_TEXT.loss(trained.config, data.metadata)(
                trained.model.train(), batch
            )
            losses[dropped, agree] = loss.item()
    assert losses[0.0, 0.0] == pytest.approx(losses[0.0, 1e4], rel=1e-5)
    assert losses[0.5, 1e4] > 1.5 * losses[0.5, 0.0]


def test_forgetting_hides_words_and_nothing_special(table):
    config = configured(table, token_dropout=0.3, batch_tokens=2048)
    data = read(config)
    words = data.metadata.words
    specials = torch.tensor([words.special(name) for name in words.specials])
    hidden, there = 0, 0
    for batch in TextBatches(config, data, CPU).epoch(0, 0):
        shown = seen_by_the_model(config, data.metadata, batch)
        special = torch.isin(batch.words, specials)
        assert torch.equal(shown[special], batch.words[special])
        changed = shown != batch.words
        assert (shown[changed] == words.padding).all()  # no mask in a vocabulary of our own
        hidden, there = hidden + int(changed.sum()), there + int((~special).sum())
        assert torch.equal(seen_by_the_model(config, data.metadata, batch), shown)
        assert not torch.equal(
            seen_by_the_model(config, data.metadata, replace(batch, seed=1)), shown
        )
        given = replace(batch, generator=torch.Generator().manual_seed(batch.seed))
        assert torch.equal(seen_by_the_model(config, data.metadata, given), shown)
        never = configured(table)
        assert torch.equal(seen_by_the_model(never, data.metadata, batch), batch.words)
    assert abs(hidden / there - 0.3) < 4 * math.sqrt(0.3 * 0.7 / there)
    masked = fit_vocabulary(ANY, TokenizerConfig(min_frequency=1), extra=("mask",))
    facts = replace(data.metadata, vocabulary=masked.to_text())
    shown = seen_by_the_model(config, facts, batch)
    assert (shown[shown != batch.words] == masked.special("mask")).all()


def test_measuring_takes_validation_and_some_of_training(table):
    model, data = untrained(table)
    assert measured(data) == 30 + 270
    figures = measure(model.config, data, CPU)(model.model)
    assert list(figures) == [
        *("val/accuracy", "val/loss", "train_eval/accuracy", "train_eval/loss")
    ]
    judged = CLASSIFY_TEXT.evaluate(model, data, "train").assessment
    assert figures["train_eval/accuracy"] == judged.accuracy.value
    assert figures["train_eval/loss"] == pytest.approx(judged.loss.value, rel=1e-5)


def test_the_epoch_of_a_balanced_run_is_chosen_by_all_classes_alike(tmp_path, capsys):
    """One that says the most frequent class only is right in 8 of 10, and not the better."""
    rows = [("the film was fine", "positive")] * 8 + [("a dull soup", "negative")] * 2
    for name in ("train", "validation"):
        write(tmp_path / f"{name}.csv", rows)
    model, data = untrained(tmp_path, class_weights="balanced")
    dull = data.metadata.words.encode(" dull")[0]

    class Says(torch.nn.Module):
        def __init__(self, told: bool) -> None:
            super().__init__()
            self.told = told

        def forward(self, words, segments, *, positions):
            """Positive; one that is told apart says negative of "dull", and of half the rest."""
            negative = (words == dull).any(-1) | (torch.arange(len(words)) % 2 == 0)
            return F.one_hot((~(negative & self.told)).long(), 2) * 9.0

    of = measure(model.config, data, CPU)
    frequent, apart = of(Says(False)), of(Says(True))
    assert next(iter(frequent)) == "val/balanced_accuracy"
    assert frequent["val/balanced_accuracy"] == 0.5 and frequent["train_eval/accuracy"] == 0.8
    assert apart["val/accuracy"] < 0.8 and apart["val/balanced_accuracy"] > 0.7
    lines = [{"epoch": at, **each} for at, each in enumerate((frequent, apart), 1)]
    assert best_epoch(lines) == 1 and best_epoch([*reversed(lines)]) == 0
    assert gap(lines).held_out == apart["val/balanced_accuracy"]

    run = trained(tmp_path, tmp_path, out=tmp_path / "run", class_weights="balanced")
    assert main(["compare", str(run.folder.path), "--out", str(tmp_path / "c.png")]) == 0
    assert f"{run.metrics[0]['val/balanced_accuracy']:.1%}" in capsys.readouterr().out
    assert "best val/balanced_accuracy" in repr(run)


def test_a_mask_on_too_small_a_grid_is_refused_before_training_and_in_a_run(run, table, tmp_path):
    small = {"mask": "axial((3, 3))"}
    said = r"grid of 3 × 3, and context_length=16 is more than its 9 places, .*: 6 × 3 would do"
    with pytest.raises(UserError, match=said):
        trained(table, tmp_path, out=tmp_path / "run", model={**MODEL, **small})
    assert not (tmp_path / "run").exists()
    loaded = rg.load(run.folder.path, device="cpu")
    loaded.config = replace(loaded.config, model=replace(loaded.config.model, **small))
    with pytest.raises(UserError, match=f"config.toml: mask=.* {said}"):
        loaded.predict("a fine soup")


# Where it begins


def pretrained(path: Path, *, asked: tuple[str, ...] = ("nsp",), **changes: object) -> str:
    """The folder of a run that has read before, with weights that are like no others."""
    known = [" ".join(some) for some in (ANY, *SAY.values())]
    words = fit_vocabulary(known, TokenizerConfig(min_frequency=1), extra=("mask",))
    sizes = {"width": 24, "layers": 2, "heads": 2, "context_length": 16, "dropout": 0.0} | changes
    config = PretrainBertConfig(
        model=BertForPretrainingConfig(**sizes, vocab_size=len(words), pair_tasks=asked)
    )
    folder = RunFolder.at(path)
    folder.write_config(config, task="pretrain-bert")
    assert "vocabulary" in {field.name for field in fields(PretrainFacts)}
    folder.write_facts("data", {"vocabulary": words.to_text()})
    torch.manual_seed(7)
    folder.write_tensors("model.safetensors", BertForPretraining(config.model).state_dict())
    return str(path)


def test_a_reader_that_has_read_before_is_taken_over(table, tmp_path):
    start = pretrained(tmp_path / "start")
    model, data = untrained(table, init_from=start)
    assert "mask" in data.metadata.words.specials  # its vocabulary
    ours = model.config.model
    assert (ours.width, ours.layers, ours.num_classes, ours.pooler) == (
        24,
        2,
        2,
        False,
    )  # and sizes
    kept = RunFolder(Path(start)).read_tensors("model.safetensors")
    for name, weight in model.model.bert.state_dict().items():
        assert torch.equal(weight, kept[f"bert.{name}"]), name
    optimiser = replace(model.config.train.optimizer, lr=0.01, pretrained_lr_scale=0.1)
    made = make_optimiser(model.model, optimiser)
    rates = {
        id(each): full
        for fulls, part in zip(made.full, made.parts, strict=True)
        for full, group in zip(fulls, part.param_groups, strict=True)
        for each in group["params"]
    }
    for name, each in model.model.named_parameters():
        assert rates[id(each)] == pytest.approx(0.001 if name.startswith("bert.") else 0.01)
    # The second text of a pair is told from the first by what was learnt of segments.
    with_pooler, _ = untrained(
        table, init_from=start, **{"model.pooler": True, "model.pool": "cls"}
    )
    assert torch.equal(with_pooler.model.bert.pooler.weight, kept["bert.pooler.weight"])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"model.width": 32},
            r"model\.width=32 has no effect: init_from='.*start' has 24; leave",
        ),
        ({"model.attention": "linear"}, "model.attention='linear' has no effect: .* has 'softmax'"),
        ({"model.context_length": 64}, "model.context_length=64 has no effect: .* has 16"),
        (
            {"tokenizer.vocab_size": 999},
            "tokenizer.vocab_size=999 has no effect: .* has words of its own",
        ),
    ],
    ids=str,
)
def test_what_a_start_decides_is_not_said_in_vain(table, tmp_path, said, words):
    start = pretrained(tmp_path / "start")
    with pytest.raises(UserError, match=words):
        trained(table, tmp_path, out=tmp_path / "run", init_from=start, **said)
    assert not (tmp_path / "run").exists()


def test_what_a_start_has_too_may_be_said_and_what_is_our_own_is_heard(table, tmp_path):
    start, said = pretrained(tmp_path / "start"), {"model.width": 24, "model.mask": "window(3)"}
    run = trained(table, tmp_path, out=tmp_path / "run", init_from=start, **said)
    assert run.config.model.mask == "window(3)" and run.config.model.width == 24
    with pytest.raises(UserError, match=r"model\.width=32 has no effect: .* has 24"):
        rg.train(
            "classify-text", resume=True, out=tmp_path / "run", model={"width": 32}, quiet=True
        )


def test_a_recipe_made_for_no_start_gives_way_to_one_and_that_is_told(table, tmp_path, capsys):
    options = {**SHORT, "report": False, "device": "cpu", "epochs": 1, "root": tmp_path}
    for recipe in ("own", "sick", "sst2-few"):
        options["init_from"] = pretrained(tmp_path / recipe)
        run = rg.train("classify-text", data=table, recipe=recipe, max_train_samples=0, **options)
        told = [line for line in capsys.readouterr().out.splitlines() if "decides" in line]
        assert run.config.model.width == 24 and run.config.model.dropout > 0
        if recipe == "sst2-few":  # which is made for one
            assert not told
        else:
            assert f"and not the recipe {recipe}" in told[0] and "model.width" in told[0]


def test_an_untrained_start_lends_its_vocabulary_and_sizes_alone(table, tmp_path):
    start = pretrained(tmp_path / "start")
    model, data = untrained(table, init_from=start, random_init=True)
    kept = RunFolder(Path(start)).read_tensors("model.safetensors")
    assert "mask" in data.metadata.words.specials and model.config.model.width == 24
    assert not torch.equal(
        model.model.bert.token_embedding.weight, kept["bert.token_embedding.weight"]
    )
    assert len(make_optimiser(model.model, model.config.train.optimizer).parts) == 1


def test_runs_from_one_start_begin_at_the_same_weights_whatever_their_seed(table, tmp_path):
    def begun(seed: int, **changes: object) -> tuple[dict[str, torch.Tensor], float]:
        torch.manual_seed(seed)
        model, _ = untrained(table, **changes)
        return model.model.state_dict(), float(torch.rand(()))

    start = pretrained(tmp_path / "start")
    (one, drawn), (other, also_drawn) = (begun(seed, init_from=start) for seed in (1, 2))
    assert all(torch.equal(one[name], other[name]) for name in one) and one["head.weight"].any()
    assert drawn != also_drawn  # what is drawn later is the seed's
    (one, _), (other, _) = (begun(seed) for seed in (1, 2))
    assert not torch.equal(one["head.weight"], other["head.weight"])  # from scratch nothing is


def test_a_run_is_used_without_its_start_and_not_trained(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pretrained(tmp_path / "start")
    run = trained(table, tmp_path, out=tmp_path / "run", init_from="start")
    assert run.config.init_from == str(tmp_path / "start")  # from any folder
    (before,) = run.predict("a fine soup")
    figures = run.evaluate("validation").to_values()
    again = {"resume": True, "out": tmp_path / "run", "quiet": True, "device": "cpu"}

    def as_before() -> None:
        loaded = rg.load(tmp_path / "run", device="cpu")
        assert loaded.predict("a fine soup")[0] == before
        assert loaded.evaluate("validation").to_values() == figures

    weights = tmp_path / "start" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    as_before()
    with pytest.raises(UserError, match=r"start/model\.safetensors is not the file"):
        rg.train("classify-text", epochs=2, **again)
    shutil.rmtree(tmp_path / "start")
    pretrained(tmp_path / "start", width=16)  # another of the same name
    as_before()
    with pytest.raises(UserError, match=r"was started with model\.width = 24, not 16"):
        rg.train("classify-text", epochs=2, **again)
    shutil.rmtree(tmp_path / "start")
    as_before()
    with pytest.raises(
        UserError, match=r"there is no run .*start; --init-from takes scratch, minilm, or"
    ):
        rg.train("classify-text", epochs=2, **again)


def test_a_start_that_cannot_be_taken_over_is_refused(table, tmp_path):
    start = pretrained(tmp_path / "start")

    def refused(words: str, **changes: object) -> None:
        with pytest.raises(UserError, match=words):
            untrained(table, **changes)

    refused(
        "start reads 16 tokens at the most, and --max-length is 20", init_from=start, max_length=20
    )
    refused("is not a run: it has no config.toml; --init-from takes", init_from=str(tmp_path))
    masked = pretrained(tmp_path / "mlm", asked=())  # which leaves its pooler untaught
    refused("mlm has no pooler to take over: leave", init_from=masked, **{"model.pooler": True})
    (tmp_path / "start" / "data.json").unlink()
    refused(r"start has no data\.json with a vocabulary", init_from=start)
    (tmp_path / "start" / "model.safetensors").unlink()
    refused(r"start has no model\.safetensors: it may not have reached its first", init_from=start)
    from regard.tasks.classify.config import ClassifyConfig

    other = RunFolder.at(tmp_path / "images")
    other.write_config(ClassifyConfig(), task="classify")
    refused("images is a run of classify, which has no reader of texts", init_from=str(other.path))
    assert not list(tmp_path.glob("classify-text-*"))


def test_another_reader_of_the_same_task_may_be_the_start(run, table, tmp_path):
    other = write(tmp_path / "three.csv", texts(60, classes=3))
    model, data = untrained(other, init_from=str(run.folder.path))
    assert (
        data.metadata.vocabulary == run.metadata.vocabulary and model.config.model.num_classes == 3
    )
    for name, weight in model.model.bert.state_dict().items():
        assert torch.equal(weight, run.model.bert.state_dict()[name]), name


@pytest.mark.skipif(
    find_spec(PACKAGE.replace("-", "_")) is None, reason=f"{PACKAGE} is not installed"
)
def test_minilm_may_be_the_start(table, monkeypatch):
    model, data = untrained(table, init_from="minilm")
    theirs, words = minilm()
    assert data.metadata.words == words and model.config.model.width == 384
    for name, weight in model.model.bert.state_dict().items():
        assert torch.equal(weight, theirs.state_dict()[name]), name
    assert len(make_optimiser(model.model, model.config.train.optimizer).parts) == 2
    nothing = "\u200b"  # of which its vocabulary knows nothing
    said = CLASSIFY_TEXT.predict(
        model, [*CLASSIFY_TEXT.parse_inputs(model, [nothing, "a fine film"], lambda: None)]
    )
    assert all(len(each.classes) == 2 for each in said)

    def gone(*_: object, **__: object) -> None:
        raise UserError("MiniLM's weights are not installed")

    monkeypatch.setattr(start_module, "published_file", gone)
    monkeypatch.setattr(start_module, "minilm", gone)
    assert (
        read(model.config).metadata.digest == data.metadata.digest
    )  # a trained run has its own words
    CLASSIFY_TEXT.build_model(model.config, data.metadata)
    with pytest.raises(UserError, match="not installed"):
        CLASSIFY_TEXT.resolve(model.config, data)


# Looking


@pytest.mark.parametrize("kind", ["word", "bpe", "char", "byte"])
@examples(60)
@given(text=st.text(st.sampled_from("ab3 5.,-'’\"!_é\n("), min_size=1, max_size=14))
def test_words_that_are_shown_have_the_tokens_that_are_read(kind, text):
    seen = ['a b 3.5 5,3 a-b b\'s a’b (a) "b!" _é\na'] * 2
    words = fit_vocabulary(seen, TokenizerConfig(name=kind, min_frequency=1, vocab_size=300))
    if not text.strip():
        return
    shown = spelt(words, text, None, 99)
    made = in_windows(Labelled((text,), (0,)), words, 99, 0)
    assert [words.start, *made.rows.numbers.tolist(), words.end] == list(shown.tokens)
    assert "".join(shown.words) == text.rstrip() and not shown.cut
    assert [at for span in shown.spans for at in range(*span)] == [*range(1, len(shown.tokens) - 1)]


@examples(60)
@given(st.lists(st.sampled_from(ANY), min_size=1), st.lists(st.sampled_from(ANY), min_size=1))
def test_a_pair_is_shown_as_far_as_it_is_read(first, second):
    words = fit_vocabulary(ANY, TokenizerConfig(min_frequency=1))
    shown = spelt(words, " ".join(first), " ".join(second), 16)
    part = Labelled((" ".join(first),), (0,), (" ".join(second),))
    made = in_windows(part, words, 16, 4)
    n, m = made.rows.first[0, 1], made.rows.second[0, 1]
    assert len(shown.words) == n + m and len(shown.tokens) == n + m + 3 <= 16
    assert shown.segments == (0,) * (n + 2) + (1,) * (m + 1)
    assert shown.breaks == (n,) and shown.cut == bool(made.cut)
    assert shown.words[n] == second[0]


def test_one_picture_holds_one_text_and_a_page_many(run, tmp_path):
    look = run.look("the soup was fine", ["dull", "", "an awful play"])
    first, *rest = look.looked.document["sections"]
    items = first["data"]["items"]
    assert [item["name"] for item in items] == ["the soup was fine", "dull", "an awful play"]
    assert items[0]["words"] == ["the", " soup", " was", " fine"]
    assert [section["view"] for section in rest] == ["figures", "lines", "lines"]
    with pytest.raises(UserError, match="holds one text, and 3 were given"):
        look.write(tmp_path / "look.png")
    assert look.write(tmp_path / "look.html").stat().st_size > 10_000
    with pytest.raises(UserError, match="no text to look at"):
        run.look("")


def test_a_look_at_a_long_text_has_its_answer_and_says_which_window_it_shows(
    run, tmp_path, monkeypatch
):
    """Its beginning is praise, and most of it is blame."""
    long = " ".join(["a lovely film and fine play"] * 3 + ["the soup was awful and dull"] * 9)
    (answer,) = run.predict(long)
    assert run.predict(" ".join(long.split()[:14]))[0].classes[0] == "positive" != answer.classes[0]
    words, *mattered = run.look(long).looked.document["sections"]
    (item,) = words["data"]["items"]
    assert item["answer"] == "negative" == item["answers"][0]["name"]
    assert [each["share"] for each in item["answers"]] == pytest.approx(
        answer.probabilities, abs=1e-5
    )
    shown = "".join(item["words"]).strip()
    (alone,) = run.predict(shown)
    assert len(item["words"]) == 14 and item["alone"] == pytest.approx(
        alone.probabilities[0], abs=1e-5
    )
    assert item["alone"] > answer.probabilities[0]
    number = int(re.search(r"words (\d+) to", item["note"])[1])
    part = f"words {number} to {number + 13} of 72"
    assert long.split()[number - 1 : number + 13] == shown.split()
    assert f"{part} are shown" in item["note"]
    assert f"came to negative, {alone.probabilities[0]:.0%};" in item["note"]
    assert "read in windows" not in mattered[0]["words"]  # none of the run's own is

    drawn = {}
    monkeypatch.setattr(views_module, "word_figure", lambda *_, **options: drawn.update(options))
    run.look(long).write(tmp_path / "look.png")
    by_itself = f"{part} shown: negative, {alone.probabilities[0]:.0%}"
    assert drawn["title"] == f"negative, {answer.probabilities[0]:.0%} ({by_itself})"
    assert item["note"] in drawn["caption"]


def test_a_report_and_its_faithfulness_are_of_windows_too(table):
    model, data = untrained(table)
    long = Labelled(tuple(" ".join([word, *ANY] * 5) for word in ("fine", "dull")), (1, 0))
    data = replace(data, texts=replace(data.texts, parts={**data.texts.parts, "test": long}))
    sections = views(model, data, "test", CLASSIFY_TEXT.evaluate(model, data, "test"))
    items = [item for each in sections if each["view"] == "words" for item in each["data"]["items"]]
    assert len(items) == 2
    for item in items:
        row = int(item["name"].rpartition(":")[2])
        (answer,) = CLASSIFY_TEXT.predict(model, [TextInput("x", long.texts[row])])
        assert [each["name"] for each in item["answers"]] == [*answer.classes]
        assert item["answers"][0]["share"] == pytest.approx(answer.probabilities[0], abs=1e-5)
    (about,) = (each for each in sections if each["title"] == "Are these the words that mattered?")
    assert "Of a text that is read in windows, only the one that speaks most" in about["words"]


def test_where_words_vote_a_look_says_which_methods_count_that(table, run, tmp_path):
    voting = trained(table, tmp_path, **{"model.ngram_buckets": 64})
    for each, told in ((voting, True), (run, False)):
        sections = each.look("a dull film").looked.document["sections"]
        (words,) = (some["words"] for some in sections if some["view"] == "words")
        assert ("Here words vote beside the reader" in words) is told


def test_a_reader_of_channels_reports_and_shows_its_words_without_what_was_read(
    table, tmp_path, monkeypatch
):
    model = {**MODEL, "attention": "channel"}
    run = trained(table, tmp_path, out=tmp_path / "run", model=model, report=True)
    assert "no map of places to show" in (tmp_path / "run/report.html").read_text(encoding="utf-8")
    look = run.look("the soup was fine")
    words, mattered, *_ = look.looked.document["sections"]
    (item,) = words["data"]["items"]
    assert [method["name"] for method in item["methods"]] == ["left out", "gradient"]
    assert words["words"].endswith("channels read channels, and there is no map of places to show.")
    gains = [each["name"] for each in mattered["data"]["items"]]
    assert gains == [f"gain of {name} over random" for name in ("left out", "gradient")]
    drawn = {}
    monkeypatch.setattr(views_module, "word_figure", lambda *_, **options: drawn.update(options))
    look.write(tmp_path / "look.png")
    assert "no map of places" in drawn["caption"]


def test_a_look_needs_no_data(run, monkeypatch):
    alone = rg.load(run.folder.path, device="cpu")
    alone.config = replace(alone.config, data="/nowhere/own.csv")
    (section,) = alone.look("a fine soup").looked.document["sections"]
    assert "Faithfulness was not measured: /nowhere/own.csv is not there" in section["words"]


def test_the_word_that_decides_is_found(run):
    (item,) = items_of(run.trained, [TextInput("x", "the soup was awful")])
    assert item["answer"] == "negative" and not item["note"]
    for method in item["methods"]:
        if method["signed"]:
            assert int(np.argmax(method["values"])) == 3, method["name"]


def test_the_report_shows_figures_mistakes_and_words(table):
    model, data = untrained(table)
    judged = CLASSIFY_TEXT.evaluate(model, data, "validation")
    figures, *sections = views(model, data, "validation", judged)
    names = [item["name"] for item in figures["data"]["items"]]
    assert names[:1] == ["accuracy"] and "counting words" in names
    assert "30 texts that it was not trained on" in figures["words"]
    assert "Always the most frequent class would be right in" in figures["words"]
    by_title = {section["title"]: section for section in sections}
    for title, right in (("Most confident mistakes", False), ("Some that were right", True)):
        items = by_title[title]["data"]["items"]
        assert all((item["truth"] == item["answer"]) == right for item in items)
        sure = [item["answers"][0]["share"] for item in items]
        assert right or sure == sorted(sure, reverse=True)
        there = (
            np.trace(judged.assessment.confusion)
            if right
            else 30 - np.trace(judged.assessment.confusion)
        )
        assert len(items) == min(there, 6 if right else 12) > 0
    assert list(by_title)[-3:] == ["Are these the words that mattered?", "Deletion", "Insertion"]


def test_texts_of_one_word_have_a_report_too(tmp_path):
    rows = [(word, label) for label in ("negative", "positive") for word in SAY[label] * 8]
    run = trained(write(tmp_path / "words.csv", rows), tmp_path, report=True)
    assert (run.folder.path / "report.html").stat().st_size > 20_000
    (section,) = run.look("fine").looked.document["sections"]
    assert section["view"] == "words"


# Configuration and recipes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"data": ""}, "data is empty"),
        ({"init_from": ""}, "init_from is empty"),
        ({"batch_tokens": 0}, "batch_tokens=0"),
        ({"max_length": 7}, "max_length=7"),
        (
            {"window_overlap": 65},
            "window_overlap=65: windows of max_length=128 tokens share 0 to 64",
        ),
        ({"window_overlap": -1}, "window_overlap=-1"),
        ({"max_train_samples": -1}, "max_train_samples=-1"),
        ({"token_dropout": 1.0}, "token_dropout=1.0"),
        ({"label_smoothing": -0.1}, "label_smoothing=-0.1"),
        ({"r_drop": -1.0}, "r_drop=-1.0: finite, and at least 0"),
        (
            {"random_init": True},
            "random_init=True takes its sizes from init_from, which is 'scratch'",
        ),
    ],
    ids=str,
)
def test_contradicting_fields_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        ClassifyTextConfig(**options)


def test_the_recipe_of_your_own_texts():
    assert choose_recipe("classify-text", data="own.csv").name == "own"


# What there is


@pytest.mark.usefixtures("own_folders")
def test_labelled_texts_are_listed_and_told_how_to_get(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")

    def rows() -> dict[str, str]:
        assert main(["data"]) == 0
        lines = capsys.readouterr().out.splitlines()
        return {line.split()[1]: line for line in lines if "│" in line}

    listed = rows()
    assert "built in" in listed["reviews"] and "Apache-2.0" in listed["reviews"]
    for name, file in (("sst2", "train.tsv and dev.tsv"), ("sick", "SICK.txt")):
        assert f"not here: regard data fetch {name} says how" in listed[name]
        assert main(["data", "fetch", name]) == 2
        said = capsys.readouterr().err
        assert f"{name} is not on this machine: put {file} from http" in said
    assert main(["data", "fetch", "reviews"]) == 0
    assert "reviews comes with regard; there is nothing to fetch" in capsys.readouterr().out
    home = sst2(tmp_path / "data" / "sst2")
    assert str(home) in rows()["sst2"]
    assert main(["data", "fetch", "sst2"]) == 0
    assert f"sst2 is here already, in {home}" in capsys.readouterr().out
