"""A translator from a table of pairs to a report: it learns, translates, shows, and resumes."""

import csv
import io
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import regard as rg
from regard.cli import main
from regard.config import change
from regard.data.pair_batches import in_tokens
from regard.data.pairs import Pairs, PairSet, read_pairs
from regard.data.tokenizer import TokenizerConfig, fit_vocabulary
from regard.errors import UserError
from regard.inspection.text_maps import alignment_maps
from regard.models.seq2seq import TokenBatch
from regard.runs.recipe import choose_recipe, recipes
from regard.tasks.inputs import StandardInput, readable
from regard.tasks.task import Trained
from regard.tasks.translate.config import TranslateConfig, TranslateGenerationConfig
from regard.tasks.translate.data import PairBatches, part_of, read
from regard.tasks.translate.exchanged import typical_tokens, warning
from regard.tasks.translate.loss import measure, measured, sample
from regard.tasks.translate.metrics import (
    EXACT,
    Evaluation,
    deciding,
    rules_of,
    sentences,
    summary,
    translate,
    write,
)
from regard.tasks.translate.report import gallery, mapped, pieces, views
from regard.tasks.translate.task import TRANSLATE
from regard.training.pair_loss import pair_loss
from task_cases import pairs_of_sentences, sentence

CPU = torch.device("cpu")
MODEL = {"width": 32, "layers": 1, "heads": 2, "pos_embed": "rope", "dropout": 0.0}
VOCABULARY = {"name": "word", "min_frequency": 1}
TINY = {
    "batch_tokens": 128,
    "max_length": 20,
    "label_smoothing": 0.0,
    "tokenizer": VOCABULARY,
    "model": MODEL,
}


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """Word-by-word translations of one to four words."""
    return pairs_of_sentences(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def run(shared_run) -> rg.Run:
    """One that has learnt them."""
    return shared_run("translate")


def trained(table: Path | str, root: Path, **changes) -> rg.Run:
    options = {"epochs": 1, "quiet": True, "report": False, "device": "cpu", **TINY, **changes}
    options = {"root": root, "train.ema_decay": 0.0, "train.optimizer.lr": 3e-3, **options}
    return rg.train("translate", data=table, **options)


def configured(table: Path | str, **changes) -> TranslateConfig:
    from regard.runs.run import flattened

    return change(TranslateConfig(), dict(flattened({**TINY, **changes, "data": str(table)})))


# From end to end


def test_pairs_are_learnt_and_judged(run):
    judged = run.evaluate("validation")
    values = judged.to_values()
    assert next(iter(values)) == "BLEU" and judged.scores.figures[EXACT].value > 0.9
    assert "BLEU" in summary(judged, "validation") and not judged.cut
    line = run.metrics[-1]
    assert next(key for key in line if key.startswith("val/")) == "val/loss"


def test_it_translates_texts_files_lines_and_its_own_data(run, tmp_path, monkeypatch):
    (answer,) = run.predict("one red two")
    assert str(answer) == answer.translation == "eins rot zwei"
    values = answer.to_values()
    assert values["source"] == "one red two" and values["translation"] == "eins rot zwei"
    assert values["score"] == answer.score < 0 and "truth" not in values

    path = tmp_path / "lines.txt"
    path.write_bytes("\ufefftwo\r\n\r\n  \none red two".encode())
    said = run.predict(path)
    assert [str(each) for each in said] == ["zwei", "", "", "eins rot zwei"]
    assert said[0].name == f"{path}, line 1" and said[0].source == "two"
    assert said[3].score == pytest.approx(answer.score, abs=1e-4)  # whatever else is asked
    assert [each.translation for each in run.predict(path, "four")][3:] == [
        "eins rot zwei",
        "vier",
    ]
    monkeypatch.setattr(sys, "stdin", io.StringIO("four\nthree\n"))
    assert [str(each) for each in run.predict(StandardInput())] == ["vier", "drei"]
    (own,) = run.predict(split="validation", indices=0)
    pairs = run.data.pairs["validation"]
    assert (
        own.source == pairs.source[0] and own.truth == pairs.target[0] == own.to_values()["truth"]
    )
    assert len(run.predict("two\nthree")) == 1
    assert str(replace(own, translation="a\nb")) == "a b"


def test_letters_that_are_none_are_refused(run):
    """Words are read for what they are; bytes must be writable."""
    vocabulary = read(configured(run.config.data, **BYTES)).metadata.vocabulary
    trained = replace(run.trained, metadata=replace(run.metadata, vocabulary=vocabulary))
    with pytest.raises(UserError, match="no Unicode"):
        [*readable(TRANSLATE.parse_inputs(trained, ["one \ud800"], lambda: run.data))]


BYTES = {"tokenizer": {"name": "bpe", "min_frequency": 2, "vocab_size": 300}}


def test_one_line_that_is_too_long_leaves_the_others_their_translations(run, tmp_path, capsys):
    path, table = tmp_path / "lines.txt", tmp_path / "answers.csv"
    path.write_bytes(b"two\n" + b"one " * 21 + b"\ncaf\xe9\nthree\n")
    command = ["predict", str(run.folder.path), "--device", "cpu", "--file", str(path)]
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert out == "zwei\n\n\ndrei\n"  # line 4 is about line 4
    long, latin = err.splitlines()
    assert long.startswith(f"regard: {path}, line 2 has 21 tokens, and this run reads at most 20")
    assert latin.startswith(f"regard: {path}, line 3 is not UTF-8: a byte 0xe9")
    assert main([*command, "--skip-invalid"]) == 0
    out, err = capsys.readouterr()
    assert out == "zwei\ndrei\n" and err.count("left out: ") == 2
    assert main([*command, "--csv", str(table)]) == 1
    assert "4 rows" in capsys.readouterr().out
    with table.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [row["translation"] for row in rows] == ["zwei", "", "", "drei"]
    assert rows[1]["input"] == f"{path}, line 2" and "21 tokens" in rows[1]["error"]
    assert main([*command, "--json", "--skip-invalid"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["input"] for line in lines] == [f"{path}, line 1", f"{path}, line 4"]


def test_how_it_writes_may_be_said_when_it_is_asked(run):
    shortest = run.predict(
        "one red two", generation={"num_beams": 1, "max_length_ratio": 0.0, "max_length_extra": 1}
    )
    assert shortest[0].translation == "eins"


def test_other_pairs_are_cut_as_the_run_cuts_its_own(run, tmp_path):
    other = tmp_path / "other.tsv"
    long = " ".join(["one"] * 25)
    other.write_text(f"one two\teins zwei\nfive\tfünf\n{long}\t{long}\n", encoding="utf-8")
    judged = run.evaluate(data=other)
    assert judged.scores.count == 3 and judged.cut == 1 and not judged.shared
    assert "1 of the sources were too long" in summary(judged, "all")
    assert "eins zwei" in judged.translations


# Direction


def in_files(folder: Path, pairs: Pairs, *languages: str) -> Path:
    folder.mkdir()
    for language, texts in zip(languages, (pairs.source, pairs.target), strict=True):
        (folder / f"train.{language}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return folder


def test_the_first_line_says_what_is_put_into_what(table, tmp_path):
    own = in_files(tmp_path / "own", part_of(read(configured(table)), "all"), "de", "en")
    for direction, kept, words in (
        ("", "en-de", "translating en → de: train.en to train.de"),
        ("de-en", "de-en", "translating de → en: train.de to train.en"),
    ):
        config = configured(own, direction=direction)
        data = read(config)
        assert data.words().splitlines()[0] == words
        # Kept in full by the run, so that its own data are read in the same way again.
        settled = TRANSLATE.resolve(config, data)
        assert settled.direction == "-".join(data.metadata.languages) == kept
        assert read(settled).metadata == data.metadata
        other = TRANSLATE.load_other_data(settled, data.metadata, str(own))
        assert other.pairs["train"].source == data.pairs["train"].source
    both = read(configured("numerals"))
    assert both.words().startswith("translating digits or words → words or digits\n")
    assert both.metadata.typical == (
        (),
        (),
    )  # either side has digits and words: nothing is exchanged
    assert TRANSLATE.resolve(configured("numerals"), both).direction == ""


def test_texts_that_look_like_the_other_side_are_warned_of(run, table, tmp_path, capsys):
    part = part_of(run.data, "all")
    turned = tmp_path / "turned.tsv"
    rows = zip(part.target[:40], part.source[:40], strict=True)
    turned.write_text("".join(f"{one}\t{other}\n" for one, other in rows), encoding="utf-8")
    run.evaluate(data=table)
    run.evaluate("validation")
    run.predict("one two three four", "red one two three", "eins")
    run.predict("eins zwei")  # too little to tell by
    run.predict("validation:0", "validation:1", "validation:2")
    assert capsys.readouterr().err == ""
    run.evaluate(data=turned)
    assert capsys.readouterr().err == (
        "warning: source and target look exchanged: of the tokens of the given sources 0% are "
        "typical of source, which this run reads, and 100% of target, which it writes; of the "
        "given targets it is 100% and 0%\n"
    )
    run.predict("eins zwei drei vier", "rot eins zwei vier")
    assert capsys.readouterr().err.startswith("warning: the texts look like target and not like s")


@pytest.mark.data("multi30k")
def test_english_and_german_are_told_apart_by_a_few_tokens():
    pairs = read_pairs("multi30k")
    some, test = pairs["train"], pairs["test"]
    some = Pairs(some.source[:2000], some.target[:2000])
    words = fit_vocabulary(
        (*some.source, *some.target), TokenizerConfig(name="bpe", vocab_size=1000)
    )
    typical = typical_tokens(in_tokens(some, words), words)
    wrong = right = 0
    for one, other in zip(test.source, test.target, strict=True):
        english, german = words.encode(one), words.encode(other)
        right += bool(warning(typical, pairs.languages, [english], [german]))
        wrong += "exchanged" in warning(typical, pairs.languages, [german], [english])
    assert right == 0 and wrong > 0.5 * len(test.source)  # of single sentences, and never wrongly


# Data


def test_of_very_many_pairs_some_are_enough_for_a_vocabulary(tmp_path, monkeypatch):
    path = tmp_path / "many.tsv"
    draw = np.random.default_rng(1)
    path.write_text("".join("\t".join(sentence(draw)) + "\n" for _ in range(400)))
    whole = read(configured(path))
    assert "fitted" not in whole.words()
    monkeypatch.setattr("regard.tasks.translate.data.FITTED", 4_000)
    monkeypatch.setattr("regard.tasks.translate.exchanged.BLOCKS", 2)
    monkeypatch.setattr("regard.tasks.translate.exchanged.BLOCK", 100)
    some = read(configured(path))
    assert (
        10 < some.fitted < len(some.pairs["train"])
        and some.metadata.digest == whole.metadata.digest
    )
    assert f"these are fitted to {some.fitted} of them, which is enough" in some.words()
    assert len(some.metadata.words) == len(whole.metadata.words)  # of so few words, all are met
    assert some.train.sizes.tolist() == whole.train.sizes.tolist()
    for ours, theirs in zip(some.metadata.typical, whole.metadata.typical, strict=True):
        mine, others = some.metadata.words.decode(ours), whole.metadata.words.decode(theirs)
        assert set(mine.split()) & set(others.split())


def test_what_there_is_is_said_and_long_pairs_are_left_out(tmp_path):
    path = tmp_path / "some.tsv"
    draw = np.random.default_rng(1)
    lines = ["\t".join(sentence(draw)) for _ in range(80)]
    long = " ".join(["one"] * 21)
    path.write_text("\n".join([*lines, f"{long}\teins", f"eins\t{long}"]) + "\n", encoding="utf-8")
    data = read(configured(path))
    left = len(data.pairs["train"]) - len(data.train)
    assert left == sum(len(t.split()) > 20 for s in data.pairs["train"].source for t in [s]) + sum(
        len(t.split()) > 20 for t in data.pairs["train"].target
    )
    assert (
        left
        and f"not learnt are {left} of train, with a sentence of over 20 tokens" in data.words()
    )
    assert (
        data.words().startswith("translating source → target: column 1 to column 2\n")
        and "padding is" in data.words()
    )
    assert data.train.longer.max() <= 20
    one = read(configured(path, max_length=1))
    assert one.train.longer.max() == 1
    path.write_text(f"{long}\teins\n{long} one\teins\n", encoding="utf-8")
    with pytest.raises(UserError, match="every one of 1 pairs of train has a sentence of over"):
        read(configured(path))


def test_the_other_direction_is_the_same_pairs_turned(table):
    other = configured(table, direction="target-source")
    data, turned = read(configured(table)), read(other)
    assert turned.metadata.languages == data.metadata.languages[::-1]
    rows, back = part_of(data, "all"), part_of(turned, "all")
    assert sorted(zip(rows.target, rows.source, strict=True)) == sorted(
        zip(back.source, back.target, strict=True)
    )
    assert turned.metadata.digest != data.metadata.digest
    assert len(part_of(data, "all")) == 300
    again = TRANSLATE.load_other_data(other, turned.metadata, str(table))
    assert again.pairs["train"].source == turned.pairs["train"].source and not again.own


def test_the_model_has_the_words_of_the_data_and_room_for_the_longest(table):
    config, data = configured(table), read(configured(table))
    settled = TRANSLATE.resolve(config, data)
    assert (
        settled.model.vocab_size == len(data.metadata.words) and settled.model.context_length == 21
    )
    assert TRANSLATE.resolve(settled, data) == settled
    for name, wrong in (("vocab_size", 7), ("context_length", 9)):
        with pytest.raises(UserError, match=f"leave model.{name} out"):
            TRANSLATE.resolve(change(config, {f"model.{name}": wrong}), data)


def test_pairs_without_a_vocabulary_are_refused(table):
    with pytest.raises(UserError, match=r"pairs\.tsv: no word occurs min_frequency=1000 times"):
        read(configured(table, tokenizer={"name": "word", "min_frequency": 1000}))


@pytest.mark.parametrize("kind", ["bpe", "char", "byte"])
def test_any_vocabulary_will_do(table, tmp_path, kind):
    vocabulary = {"name": kind, "min_frequency": 1, "vocab_size": 300}
    run = trained(table, tmp_path, tokenizer=vocabulary, max_length=60)
    assert run.evaluate("validation").scores.count and run.predict("one red")
    shown = pieces(run.metadata, run.metadata.words.encode("one red"))
    assert "".join(shown) == "one red"


# Learning


@pytest.mark.parametrize("tied", [True, False], ids="tie_embeddings={}".format)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_all_scores_without_padding(table, tied, smoothing):
    config = configured(table)
    data = read(config)
    config = TRANSLATE.resolve(change(config, {"model.tie_embeddings": tied}), data)
    model = TRANSLATE.build_model(config, data.metadata)
    padding = data.metadata.words.padding
    for batch in list(PairBatches(config, data, CPU).epoch(0, 0))[:3]:
        ours = pair_loss(model, batch, smoothing)
        logits = model(TokenBatch(batch.source, batch.positions), batch.words)
        b, n = batch.words.shape
        wanted = torch.full((b * n,), padding).index_copy(0, batch.real, batch.targets)
        right = F.cross_entropy(
            logits.flatten(0, 1),
            wanted,
            ignore_index=padding,
            reduction="sum",
            label_smoothing=smoothing,
        )
        torch.testing.assert_close(ours, right)
        gradients = zip(
            torch.autograd.grad(ours, list(model.parameters())),
            torch.autograd.grad(right, list(model.parameters())),
            strict=True,
        )
        for one, other in gradients:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_padding_changes_no_loss(table):
    config = configured(table)
    data = read(config)
    model = TRANSLATE.build_model(TRANSLATE.resolve(config, data), data.metadata).double()
    together = list(PairBatches(replace(config, batch_tokens=200), data, CPU).epoch(0, 0))
    alone = list(PairBatches(replace(config, batch_tokens=1), data, CPU).epoch(0, 0))
    assert any(batch.positions is not None for batch in together)
    assert all(len(batch.source) == 1 for batch in alone)
    with torch.no_grad():
        sums = [sum(float(pair_loss(model, batch)) for batch in some) for some in (together, alone)]
    assert sums[0] == pytest.approx(sums[1])


def test_measuring_takes_validation_and_as_much_of_training(table):
    config, data = configured(table), read(configured(table))
    parts = sample(data)
    assert len(parts["validation"]) == len(parts["train"]) == len(data.validation)
    assert measured(data) == sum(int(part.sizes[:, 1].sum()) for part in parts.values())
    model = TRANSLATE.build_model(TRANSLATE.resolve(config, data), data.metadata)
    with torch.no_grad():
        figures = measure(config, data, CPU)(model)
    assert list(figures) == ["val/loss", "train_eval/loss"]
    assert figures["val/loss"] == pytest.approx(math.log(len(data.metadata.words)), rel=0.5)


# Writing


def untrained(table: Path, **changes) -> Trained:
    config = configured(table, **changes)
    data = read(config)
    config = TRANSLATE.resolve(config, data)
    return Trained(TRANSLATE.build_model(config, data.metadata).eval(), config, data.metadata, CPU)


@pytest.mark.parametrize("beams", [1, 3])
def test_a_translation_does_not_depend_on_its_neighbours(table, beams):
    model = untrained(table, generation={"num_beams": beams})
    draw = np.random.default_rng(2)
    sources = [draw.integers(4, len(model.metadata.words), n).tolist() for n in (3, 9, 1, 0, 8, 20)]
    together = translate(model, sources)
    assert together[3].numbers == () and together[3].text == ""
    for source, said in zip(sources, together, strict=True):
        (alone,) = translate(model, [source])
        assert alone.numbers == said.numbers
        assert alone.score == pytest.approx(said.score, abs=1e-4)


def test_translations_have_a_limit_that_follows_their_source(table):
    facts = untrained(table).metadata
    how = TranslateGenerationConfig(max_length_ratio=0.5, max_length_extra=3)
    assert [rules_of(facts, how, n).max_new_tokens for n in (1, 8, 9, 20)] == [7, 7, 11, 15]
    assert rules_of(facts, TranslateGenerationConfig(max_length_ratio=9.0), 20).max_new_tokens == 21
    assert {facts.words.padding, facts.words.start, facts.words.special("unknown")} == set(
        rules_of(facts, how, 1).suppress_tokens
    )


def test_exact_sets_are_decided_by_exact_matches_and_lower_case_by_its_own_bleu(table):
    model = untrained(table)
    pairs = Pairs(("12", "one"), ("twelve", "1"))
    exact = PairSet(
        "n", ("a", "b"), dict.fromkeys(("train", "validation", "test"), pairs), exact=True
    )
    data = replace(read(configured(table)), pairs=exact)
    judged = TRANSLATE.evaluate(model, data, "test")
    assert judged.decides == EXACT and list(judged.ways) == ["digits to words", "words to digits"]
    assert next(iter(judged.to_values())) == EXACT
    assert "digits to words" in summary(judged, "test") and judged.shared == 2
    assert "2 of the pairs are among those learnt" in summary(judged, "test")
    assert Evaluation.from_values(judged.to_values()).ways == judged.ways
    own = read(configured(table))
    assert deciding(model, own) == "BLEU"
    lower = replace(model, config=configured(table, tokenizer={"name": "bpe", "lowercase": True}))
    assert deciding(lower, own) == "bleu_lowercase"
    shown = gallery(judged)
    assert sum(map(len, shown.values())) == 2
    sections = views(model, data, "test", judged)
    assert sections[0]["view"] == "figures"
    assert sections[0]["data"]["items"][0]["name"] == EXACT


# Looking


def test_a_row_of_the_map_is_that_of_the_word_it_wrote(run):
    (asked,) = run.items("one red two")
    (said,) = write(run.trained, [asked.tokens])
    written, source, maps = mapped(run.trained, asked, said)
    assert written == ["eins", " rot", " zwei", " <end>"]
    assert source == ["one", " red", " two", " <end>"]
    assert maps.shape[2:] == (4, 4)
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-5)
    # A row is where the model looked when it had written the words before, and no more.
    start, numbers = run.metadata.words.start, list(said.numbers)
    read_from = sentences([asked.tokens], run.metadata, CPU)
    for at in range(4):
        so_far = torch.tensor([[start, *numbers[:at]]])
        newest = alignment_maps(run.model, read_from, so_far)[0, :, :, -1].numpy()
        np.testing.assert_allclose(maps[:, :, at], newest, atol=1e-5)
        assert at == 0 or not np.allclose(maps[:, :, at], maps[:, :, at - 1], atol=1e-3)
    unfinished = replace(said, finished=False)
    written, _, maps = mapped(run.trained, asked, unfinished)
    assert written == ["eins", " rot", " zwei"] and maps.shape[2] == 3


def test_one_picture_holds_one_sentence_and_a_page_many(run, tmp_path):
    look = run.look("one red two", ["two", "", "three"])
    (section,) = look.looked.document["sections"]
    assert [item["name"] for item in section["data"]["items"]] == ["one red two", "two", "three"]
    assert section["data"]["items"][0]["asked"] == ["eins", " rot", " zwei", " <end>"]
    with pytest.raises(UserError, match="holds one sentence, and 3 were given"):
        look.write(tmp_path / "look.png")
    assert look.write(tmp_path / "look.html").stat().st_size > 10_000
    with pytest.raises(UserError, match="no sentence to look at"):
        run.look("")
    assert run.report("validation").stat().st_size > 20_000


# Configuration and recipes


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        (TranslateGenerationConfig, {"num_beams": 0}, "num_beams=0"),
        (TranslateGenerationConfig, {"max_length_ratio": -1.0}, "max_length_ratio=-1.0"),
        (TranslateGenerationConfig, {"max_length_extra": 0}, "max_length_extra=0"),
        (TranslateGenerationConfig, {"no_repeat_ngram_size": -1}, "no_repeat_ngram_size=-1"),
        (TranslateConfig, {"data": ""}, "data is empty"),
        (TranslateConfig, {"batch_tokens": 0}, "batch_tokens=0"),
        (TranslateConfig, {"max_length": 0}, "max_length=0"),
        (TranslateConfig, {"label_smoothing": 1.0}, "label_smoothing=1.0"),
    ],
)
def test_contradicting_fields_are_named(kind, fields, words):
    with pytest.raises(ValueError, match=words):
        kind(**fields)


def test_the_recipe_follows_the_data_and_2017_is_as_written():
    assert choose_recipe("translate").name == "numerals"
    assert choose_recipe("translate", data="multi30k").name == "multi30k"
    assert choose_recipe("translate", data="own.tsv").name == "own"
    model = recipes("translate")["multi30k"].config(TranslateConfig).model
    assert (model.norm_first, model.pos_embed, model.init) == (
        False,
        "sinusoidal",
        "xavier_uniform",
    )
    assert model.scale_embeddings and model.tie_embeddings and model.activation == "relu"


@pytest.mark.data("multi30k")
def test_multi30k_is_read_and_begun():
    written = recipes("translate")["multi30k"].config(TranslateConfig)
    data = read(written)
    assert data.metadata.pairs == (29_000, 1_014, 1_000) and len(part_of(data, "test2017")) == 1_000
    for name in ("multi30k", "multi30k-modern"):
        config = recipes("translate")[name].config(TranslateConfig)
        assert (config.tokenizer, config.max_length) == (written.tokenizer, written.max_length)
        config = TRANSLATE.resolve(config, data)
        model = TRANSLATE.build_model(config, data.metadata)
        batches = PairBatches(config, data, CPU)
        for _, batch in zip(range(2), batches.epoch(0, 0), strict=False):
            loss = pair_loss(model, batch, config.label_smoothing)
            loss.backward()
            assert 5 < loss.item() / len(batch.targets) < 30
