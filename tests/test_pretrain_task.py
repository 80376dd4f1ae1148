"""A reader from a text file to a report: it learns from four kinds of question, and answers."""

import io
import math
import sys
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

import regard as rg
from regard.config import change
from regard.data.batching import RowPicker
from regard.data.corpus import read_corpus
from regard.data.images import SPLITS
from regard.data.sentences import documents
from regard.data.synthetic.inference import inference_pairs
from regard.errors import UserError
from regard.models.pretrainer import BertForPretraining
from regard.runs.recipe import choose_recipe
from regard.runs.run import flattened
from regard.tasks.inputs import Rows, StandardInput, readable
from regard.tasks.pretrain_bert.batches import PretrainBatch, PretrainBatches
from regard.tasks.pretrain_bert.config import LossWeightsConfig, MaskingConfig, PretrainBertConfig
from regard.tasks.pretrain_bert.data import PretrainData, apart, read, running_text
from regard.tasks.pretrain_bert.loss import answered, guesses, masking_of, measure, objective
from regard.tasks.pretrain_bert.metrics import most_frequent, summary
from regard.tasks.pretrain_bert.pairs import balanced, by_rules, paired, sentences_of, sick_for
from regard.tasks.pretrain_bert.predict import pieces, read_of, tokens_of
from regard.tasks.pretrain_bert.questions import evenly, questions_of, text_of
from regard.tasks.pretrain_bert.report import mapped
from regard.tasks.pretrain_bert.task import PRETRAIN_BERT
from regard.tasks.task import Trained
from task_cases import PLACES, stories, story

CPU = torch.device("cpu")
QUESTIONS = ("mlm", "nsp", "inversion", "nli")
SUBSETS = [some for n in range(1, 5) for some in combinations(QUESTIONS, n)]
MODEL = {"width": 32, "layers": 1, "heads": 2, "dropout": 0.0, "pos_embed": "learned"}
VOCABULARY = {"name": "bpe", "min_frequency": 2, "vocab_size": 700}
TINY = {
    "batch_tokens": 450,
    "max_length": 45,
    "pairs_per_epoch": 24,
    "tokenizer": VOCABULARY,
    "model": MODEL,
}


@pytest.fixture(autouse=True)
def _folders_of_its_own(own_folders):
    pass


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    return stories(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def run(shared_run) -> rg.Run:
    """One that has learnt a little of everything."""
    return shared_run("pretrain-bert")


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> Path:
    """A text for what needs no learning."""
    draw = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("short") / "short.txt"
    path.write_text("".join(story(draw, 8) for _ in range(30)), encoding="utf-8")
    return path


def trained(text: Path | str, root: Path, **changes) -> rg.Run:
    options = {"epochs": 1, "quiet": True, "report": False, "device": "cpu", **TINY, **changes}
    options = {"root": root, "train.ema_decay": 0.0, "train.optimizer.lr": 1e-2, **options}
    options = {"train.lr_schedule.warmup_ratio": 0.05, **options}
    return rg.train("pretrain-bert", data=text, **options)


def configured(text: Path | str, *asked: str, **changes) -> PretrainBertConfig:
    """A configuration in which only some questions count, or all."""
    weights = {name: float(name in (asked or QUESTIONS)) for name in QUESTIONS}
    said = {**TINY, "loss_weights": weights, **changes, "data": str(text)}
    return change(PretrainBertConfig(), dict(flattened(said)))


@cache
def known(text: Path, *asked: str) -> tuple[PretrainBertConfig, PretrainData]:
    """A settled configuration and its data, read once for all tests."""
    config = configured(text, *asked)
    data = read(config)
    return PRETRAIN_BERT.resolve(config, data), data


def untrained(text: Path, *asked: str) -> Trained:
    config, data = known(text, *asked)
    return Trained(
        PRETRAIN_BERT.build_model(config, data.metadata).eval(), config, data.metadata, CPU
    )


def of_kind(batches: PretrainBatches) -> dict[str | None, PretrainBatch]:
    """A batch for each question."""
    return {batch.question: batch for batch in batches.epoch(0, 0)}


# From end to end


def test_a_text_is_learnt_and_judged(run):
    judged = run.evaluate("validation")
    assert list(judged.figures) == list(QUESTIONS)
    masked = judged.figures["mlm"]
    assert masked.accuracy.value > masked.chance + 0.1, "each story tells of one animal"
    assert masked.counting.value > masked.chance < 0.3 and masked.count > 50
    assert judged.perplexity < len(run.metadata.words) / 5
    for name in QUESTIONS[1:]:
        figures = judged.figures[name]
        assert figures.chance == 0.5 and 0 <= figures.counting.value <= 1
        assert sum(count for _, count in figures.kinds.values()) == figures.count
        right = sum(share * count for share, count in figures.kinds.values())
        assert right / figures.count == pytest.approx(figures.accuracy.value)
    values = judged.to_values()
    assert next(iter(values)) == "accuracy"
    assert judged.accuracy.low < judged.accuracy.value < judged.accuracy.high
    assert judged.accuracy.high - judged.accuracy.low < max(
        each.accuracy.high - each.accuracy.low for each in judged.figures.values()
    )
    assert (
        values["accuracy"]["value"]
        == judged.accuracy.value
        == pytest.approx(np.mean([values[name]["value"] for name in QUESTIONS]))
    )
    assert run.evaluated("validation").figures == judged.figures
    said = summary(judged, "validation")
    assert "perplexity of a hidden token" in said and all(name in said for name in QUESTIONS)


def test_figures_on_the_way_are_those_in_the_end(run):
    line = max(run.metrics, key=lambda line: line["val/accuracy"])
    judged = run.evaluate("validation")
    assert next(key for key in line if key.startswith("val/")) == "val/accuracy"
    assert line["val/accuracy"] == pytest.approx(judged.accuracy.value)
    assert math.exp(line["val/loss"]) == pytest.approx(judged.perplexity, rel=1e-4)
    for name in QUESTIONS:
        figures = judged.figures[name]
        assert line[f"val/{name}_accuracy"] == pytest.approx(figures.accuracy.value)


def test_missing_words_are_named(run, tmp_path, monkeypatch):
    (answer,) = run.predict("The fox slept near the [MASK] in 1920.")
    (best,) = answer.words
    assert len(best) == 5 and all(0 < share < 1 for _, share in best)
    assert [share for _, share in best] == sorted((share for _, share in best), reverse=True)
    assert {word for word, _ in best[:3]} & {*PLACES}
    assert answer.pairs == {} and f"in 1920.  →  {best[0][0]} " in str(answer)
    for other in ("The fox slept near the <mask> in 1920.", "The fox slept near  the ___ in 1920."):
        assert run.predict(other)[0].words == answer.words
    values = answer.to_values()
    assert values["words"] == [dict(best)] and "truth" not in values

    two = run.predict("The [MASK] slept near the [mask] in 1920.")[0]
    assert len(two.words) == 2 and "\n" not in str(two)
    path = tmp_path / "lines.txt"
    path.write_bytes(b"\xef\xbb\xbfThe fox slept near the [MASK] in 1920.\r\n\r\nA [MASK]\n")
    said = run.predict(path)
    assert [bool(each.words) for each in said] == [True, False, True], "lines stay aligned"
    assert said[0].words == answer.words and said[0].name == f"{path}, line 1"
    assert str(said[1]) == ""
    monkeypatch.setattr(sys, "stdin", io.StringIO("The fox slept near the [MASK] in 1920.\n"))
    assert run.predict(StandardInput())[0].words == answer.words


def test_two_sentences_are_compared(run):
    one, other = "The fox hid near the barn in 1920.", "In 1920 the fox hid near the barn."
    (answer,) = run.predict(f"{one}\t{other}")
    assert list(answer.pairs) == ["nsp", "inversion", "nli"] and answer.words == ()
    assert all(0 < share < 1 for share in answer.pairs.values())
    assert "\n" not in str(answer) and "\t" not in str(answer) and f"{one} | {other}" in str(answer)
    assert answer.to_values()["probabilities"] == answer.pairs
    both = run.predict(f"{one}\tIn 1920 the [MASK] hid.")[0]
    assert len(both.words) == 1 and len(both.pairs) == 3
    assert run.predict(f"{other}\t{one}")[0].pairs != answer.pairs


def test_a_row_of_its_own_data_has_a_word_hidden_that_it_tells(run):
    (own,) = run.predict(split="validation", indices=1)
    rows = text_of(run.config, run.data, "validation").rows
    begin, count = rows.first[1].tolist()
    whole = run.metadata.words.decode(rows.numbers[begin : begin + count].tolist()).strip()
    assert own.name == "stories.txt validation:1" and own.truth in whole
    before, after = own.text.split("[MASK]")
    assert whole.startswith(before.rstrip()) and whole.endswith(after)
    assert own.to_values()["truth"] == own.truth and f"(it is {own.truth})" in str(own)


@pytest.mark.parametrize(
    ("taught", "asked", "words"),
    [
        ("mlm", "one\ttwo", r"asked nothing about pairs: write \[MASK\]"),
        ("inversion", "a [MASK]", "taught no missing words: write two sentences and a tab"),
    ],
)
def test_what_a_run_was_not_taught_is_not_answered(text, taught, asked, words):
    model = untrained(text, taught)
    data = known(text, taught)[1]
    with pytest.raises(UserError, match=words):
        [*readable(PRETRAIN_BERT.parse_inputs(model, [asked], lambda: data))]
    own = [*PRETRAIN_BERT.parse_inputs(model, [Rows("validation", (0,))], lambda: data)]
    (row,) = PRETRAIN_BERT.predict(model, own)
    assert bool(row.words) == (taught == "mlm") and row.pairs == {} and str(row)
    judged = PRETRAIN_BERT.evaluate(model, data, "validation")
    assert list(judged.figures) == [taught] and (judged.perplexity is None) == (taught != "mlm")
    sections = PRETRAIN_BERT.report(model, data, "validation", judged)
    assert sections[0]["view"] == "figures" and sections[-1]["view"] == "reading"


def test_another_text_is_cut_as_the_run_cuts_its_own(run, tmp_path):
    other = tmp_path / "other.txt"
    draw = np.random.default_rng(5)
    other.write_text("".join(story(draw, 8) for _ in range(40)), encoding="utf-8")
    judged = run.evaluate(data=other)
    part = run.evaluate("validation", data=other)
    assert list(judged.figures) == list(part.figures) == list(QUESTIONS)
    assert judged.figures["mlm"].count > 5 * part.figures["mlm"].count
    assert all(figures.counting is None for figures in judged.figures.values())
    assert judged.figures["mlm"].accuracy.value > judged.figures["mlm"].chance
    data = PRETRAIN_BERT.load_other_data(run.config, run.metadata, str(other))
    assert data.metadata.vocabulary == run.metadata.vocabulary and not data.own
    lines = data.parts["all"].documents.lines
    assert len(lines) == 320 and data.parts["all"].documents.count == 40, "though parts cut some"
    assert run.metadata.words.decode(lines.numbers[:200].tolist()).startswith(" The ")
    # What comes from our own rules was not learnt from.
    learnt = {pair[:2] for pair in inference_pairs(24, 0)}
    asked = data.parts["all"].pairs["nli"].rows
    for (a, n), (b, m) in zip(asked.first.tolist(), asked.second.tolist(), strict=True):
        pair = (asked.numbers[a : a + n].tolist(), asked.numbers[b : b + m].tolist())
        assert tuple(run.metadata.words.decode(side).strip() for side in pair) not in learnt


def test_tokens_of_another_vocabulary_are_refused(run, text):
    facts = replace(run.metadata, vocabulary=read(configured(text, "mlm")).metadata.vocabulary)
    assert facts.vocabulary != run.metadata.vocabulary
    other = replace(run.trained, metadata=facts)
    with pytest.raises(UserError, match=r"cuts stories\.txt into other tokens .* --data"):
        PRETRAIN_BERT.evaluate(other, run.data, "validation")
    with pytest.raises(UserError, match="into other tokens"):
        [*PRETRAIN_BERT.parse_inputs(other, [Rows("validation", (0,))], lambda: run.data)]


# Looking


def test_a_map_is_of_the_tokens_that_were_read(run, tmp_path):
    (asked,) = run.items("The fox [MASK] here.\tIt hid.")
    tokens, maps = mapped(run.trained, asked)
    assert tokens[0] == " <start>" and tokens[-1] == " <end>" and tokens.count(" <end>") == 2
    assert "".join(tokens).replace(" <mask>", "[MASK]").count(" The fox[MASK] here.") == 1
    assert maps.shape[2:] == (len(tokens),) * 2
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-5)
    look = run.look("The fox [MASK] here.", "\n", split="validation", indices=0)
    (section,) = look.looked.document["sections"]
    names = [item["name"] for item in section["data"]["items"]]
    assert names == ["The fox [MASK] here.", "stories.txt validation:0"]
    assert " It is " in section["data"]["items"][1]["note"]
    with pytest.raises(UserError, match="holds one text, and 2 were given"):
        look.write(tmp_path / "look.png")
    assert look.write(tmp_path / "look.html").stat().st_size > 10_000
    with pytest.raises(UserError, match="no text to look at"):
        run.look("")


def test_a_reader_of_channels_answers_and_says_that_it_has_no_maps(short, tmp_path):
    model = {**MODEL, "attention": "channel"}
    run = trained(short, tmp_path, out=tmp_path / "run", model=model, report=True)
    assert "no map of places to show" in (tmp_path / "run/report.html").read_text(encoding="utf-8")
    words, wide = run.metadata.words, run.model.bert.blocks[0].attention.head_width
    text = "The fox [MASK] here." + " fox" * (
        wide - 2 - len(tokens_of(words, "The fox [MASK] here."))
    )
    read = read_of(run.trained, *run.items(text))
    assert read.words.shape == (1, wide)  # where a map of channels looks like one of words
    with pytest.raises(ValueError, match="channels read channels"):
        mapped(run.trained, *run.items(text))
    look = run.look(text)
    (section,) = look.looked.document["sections"]
    assert section["view"] == "table" and "no map of places to show" in section["words"]
    assert section["data"]["rows"] == [[str(answer)] for answer in run.predict(text)]
    look.write(tmp_path / "look.html")
    with pytest.raises(UserError, match=r"look.png: in this model channels read channels"):
        look.write(tmp_path / "look.png")


def test_a_report_has_a_table_for_each_question_with_several_rules(run):
    judged = run.evaluate("validation")
    sections = PRETRAIN_BERT.report(run.trained, run.data, "validation", judged)
    titles = [section["title"] for section in sections]
    assert titles[:2] == ["On validation", "Against those that understand nothing"]
    assert titles[2:] == ["By kind: inversion", "By kind: nli", "Where it looked"]
    assert len(sections[1]["data"]["rows"]) == 4
    assert len(sections[-1]["data"]["items"]) == 4


def test_a_report_is_made_of_few_texts_with_many_sentences(tmp_path):
    draw = np.random.default_rng(3)
    path = tmp_path / "few.txt"
    path.write_text("".join(story(draw, 60) for _ in range(10)), encoding="utf-8")
    config = configured(path, "mlm", max_length=1200)
    data = read(config)
    config = PRETRAIN_BERT.resolve(config, data)
    model = Trained(
        PRETRAIN_BERT.build_model(config, data.metadata).eval(), config, data.metadata, CPU
    )
    judged = PRETRAIN_BERT.evaluate(model, data, "validation")
    rows = text_of(config, data, "validation").rows
    items = PRETRAIN_BERT.report(model, data, "validation", judged)[-1]["data"]["items"]
    assert len(items) == len(rows) < 4


@pytest.mark.parametrize("kind", ["word", "char", "byte"])
def test_any_vocabulary_will_do(text, kind):
    changes = {
        "tokenizer": {"name": kind, "min_frequency": 1, "vocab_size": 300},
        "max_length": 130,
    }
    config = configured(text, "mlm", "nsp", **changes)
    data = read(config)
    config = PRETRAIN_BERT.resolve(config, data)
    model = Trained(
        PRETRAIN_BERT.build_model(config, data.metadata).eval(), config, data.metadata, CPU
    )
    assert PRETRAIN_BERT.evaluate(model, data, "validation").figures["mlm"].count > 50
    shown = "".join(pieces(data.metadata.words, data.metadata.words.encode(" the fox slept.")))
    assert shown == (" the fox slept ." if kind == "word" else " the fox slept.")
    given = ["the fox ___ here.", Rows("validation", (0,))]
    opened = [*PRETRAIN_BERT.parse_inputs(model, given, lambda: data)]
    blank, own = PRETRAIN_BERT.predict(model, opened)
    assert len(blank.words) == 1 and own.truth and own.text.count(" [MASK]") == 1
    if kind == "word":
        assert " [MASK] " in own.text and "  " not in own.text


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("A [MASK] sat.", ("A", " sat.")),
        ("[MASK] sat.", ("", " sat.")),
        ("A [MASK]", ("A", "")),
        ("un[MASK]ly, it", ("un", "ly, it")),
        (" A\n ___ \t sat. ", ("A", " sat.")),
    ],
)
def test_a_blank_is_one_token_and_the_rest_is_cut_as_in_a_text(run, given, plain):
    words = run.metadata.words
    before, after = plain
    wanted = (
        *(words.encode(f" {before}") if before else ()),
        words.special("mask"),
        *words.encode(after),
    )
    assert tokens_of(words, given) == wanted
    assert tokens_of(words, "  (A\n cat)") == tuple(words.encode(" (A cat)")), "as it was learnt"


# Learning


@pytest.mark.parametrize("asked", SUBSETS, ids="+".join)
def test_every_set_of_questions_is_taught(short, asked):
    config, data = known(short, *asked)
    torch.manual_seed(0)
    model = PRETRAIN_BERT.build_model(config, data.metadata)
    assert set(model.pair_heads) == {*asked} - {"mlm"}
    assert (model.bert.pooler is None) == (asked == ("mlm",))
    assert set(data.parts["train"].pairs) == {*asked} - {"mlm", "nsp"}
    batches = PretrainBatches(config, data, CPU)
    loss_of = objective(config, data.metadata)
    kinds = of_kind(batches)
    running = {"nsp"} if "nsp" in asked else {None} if "mlm" in asked else set()
    assert set(kinds) == running | set(data.parts["train"].pairs)
    optimiser = torch.optim.SGD(model.parameters(), 0.05)
    before, after = [], []
    for found in (before, after):
        optimiser.zero_grad()
        for batch in kinds.values():
            loss, rows = loss_of(model, batch)
            (loss / rows).backward()
            found.append(loss.item() / rows)
            assert rows == len(batch.words)
        optimiser.step()
    assert sum(after) < sum(before)
    taught = {name for name, weight in model.named_parameters() if weight.grad is not None}
    heads = {name.split(".")[0] for name in taught}
    assert ("mlm_dense" in heads) == ("mlm" in asked)
    assert ("pair_heads" in heads) == (asked != ("mlm",))
    figures = measure(config, data, CPU)(model.eval())
    assert next(iter(figures)) == "val/accuracy" and np.isfinite([*figures.values()]).all()
    assert list(figures) == [
        f"{part}/{name}"
        for part in ("val", "train_eval")
        for name in ("accuracy", "loss", *(f"{question}_accuracy" for question in asked))
    ]


def by_hand(
    model: BertForPretraining, batch: PretrainBatch, config: PretrainBertConfig, facts
) -> float:
    """The weighted sum of the means of each question, row by row."""
    weights, words = config.loss_weights, batch.words
    total = 0.0
    if batch.question in (None, "nsp"):
        masked = masking_of(config, facts)(words, batch.numbers())
        shown = masked.words
        scores = model(shown, batch.segments, positions=batch.positions).log_softmax(-1)
        asked = [
            (row, int(place))
            for row in range(len(words))
            for place in masked.places[row][masked.real[row]]
        ]
        losses = [-float(scores[row, place, words[row, place]]) for row, place in asked]
        total += weights.mlm * float(np.mean(losses)) if weights.mlm else 0.0
        words = shown if weights.mlm else words
    if batch.question:
        hidden = model.hidden_states(words, batch.segments, positions=batch.positions)
        yes = model.pair_logits(batch.question, hidden).softmax(-1)[:, 1].tolist()
        truth = getattr(batch, batch.question).tolist()
        losses = [-math.log(p if t else 1 - p) for p, t in zip(yes, truth, strict=True)]
        total += getattr(weights, batch.question) * float(np.mean(losses))
    return total * len(words)


@pytest.mark.parametrize(
    "weights",
    [
        {"mlm": 1.0, "nsp": 1.0, "inversion": 1.0, "nli": 1.0},
        {"mlm": 0.5, "nsp": 2.0, "inversion": 3.0, "nli": 0.25},
        {"mlm": 0.0, "nsp": 2.0, "inversion": 3.0, "nli": 1.0},
        {"mlm": 2.0, "nsp": 0.0, "inversion": 0.5, "nli": 1.0},
    ],
    ids=str,
)
@torch.no_grad()
def test_the_loss_is_the_weighted_sum_written_out(text, weights):
    named = [name for name in QUESTIONS if weights[name]]
    config, data = known(text, *named)
    config = change(config, {f"loss_weights.{name}": value for name, value in weights.items()})
    model = PRETRAIN_BERT.build_model(config, data.metadata).double()
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) / 5)
    for batch in of_kind(PretrainBatches(config, data, CPU)).values():
        loss, rows = objective(config, data.metadata)(model, batch)
        assert float(loss) == pytest.approx(by_hand(model, batch, config, data.metadata), rel=1e-5)
        assert rows == len(batch.words)


@torch.no_grad()
def test_padding_and_neighbours_change_no_answer(text):
    model = untrained(text)
    data = known(text)[1]
    pairs = data.parts["validation"].pairs["inversion"]
    together = answered(model.model, "inversion", pairs.rows, data.metadata, CPU)
    for row in range(6):
        alone = pairs.rows.only(np.array([row]))
        (yes,) = answered(model.model, "inversion", alone, data.metadata, CPU)
        assert yes == pytest.approx(together[row], abs=1e-6)


def test_hidden_words_are_always_the_same_and_said_in_order(text):
    model, data = untrained(text), known(text)[1]
    rows = text_of(model.config, data, "validation").rows
    torch.manual_seed(1)
    one = guesses(model.model, rows, model.config, data.metadata, CPU)
    torch.manual_seed(2)
    again = guesses(model.model, rows, model.config, data.metadata, CPU)
    assert np.array_equal(one.truth, again.truth) and np.array_equal(one.predicted, again.predicted)
    truth = [words[at] for words, places, _ in one.rows for at in places.tolist()]
    assert truth == one.truth.tolist()
    specials = len(data.metadata.words.specials)
    for words, _, seen in one.rows:
        assert (words[seen] != data.metadata.words.padding).all()
    assert (one.truth >= specials).all() and np.isfinite(one.loss).all()
    mean = float(one.loss.mean())
    assert mean == pytest.approx(math.log(len(data.metadata.words)), rel=0.2)


def test_a_text_of_unknown_words_is_said_to_be_one(text):
    model, data = untrained(text), known(text)[1]
    rows = text_of(model.config, data, "validation").rows
    blank = replace(rows, numbers=np.full_like(rows.numbers, data.metadata.words.special("mask")))
    with pytest.raises(UserError, match="no word can be hidden"):
        guesses(model.model, blank, model.config, data.metadata, CPU)


@pytest.mark.parametrize(("count", "most"), [(5, 8), (8, 8), (16, 8), (1_024, 512), (999, 512)])
def test_some_rows_stand_for_all_and_answers_stay_balanced(count, most):
    kept = evenly(count, most)
    assert len(kept) == len(set(kept.tolist())) == min(count, most)
    assert kept.max() < count and kept.max() >= count - 2 - count / most * 2
    answers = np.arange(count) % 2
    assert abs(answers[kept].mean() - 0.5) <= 0.5 / len(kept)


def test_some_questions_stay_with_their_answers(text):
    config, data = known(text)
    whole = dict(questions_of(config, data, "train"))
    some = dict(questions_of(config, data, "train", 20))
    assert [len(pairs) for pairs in some.values()] == [20] * 4
    for name, pairs in some.items():
        rows = whole[name].rows.first.tolist()
        at = [rows.index(row) for row in pairs.rows.first.tolist()]
        assert pairs.answers.mean() == 0.5
        if name in ("inversion", "nli"):
            assert pairs.answers.tolist() == whole[name].answers[at].tolist()
            assert pairs.kinds == tuple(whole[name].kinds[row] for row in at)
    assert most_frequent(np.array([3, 1, 3, 0])) == 0.5


# Batches


@pytest.mark.parametrize("asked", [QUESTIONS, ("mlm",), ("inversion", "nli")], ids="+".join)
def test_an_epoch_has_as_many_batches_and_goes_on_anywhere(text, asked):
    config, data = known(text, *asked)
    batches = PretrainBatches(config, data, CPU)
    for number in (0, 1, 2):
        whole = list(batches.epoch(number, 0))
        assert len(whole) == len(batches)
        for start in (1, len(whole) // 2, len(whole)):
            rest = list(batches.epoch(number, start))
            assert len(rest) == len(whole) - start
            for one, other in zip(whole[start:], rest, strict=True):
                assert same(one, other)
        assert len({batch.seed for batch in whole}) == len(whole)
    again = PretrainBatches(config, data, CPU)
    assert all(map(same, again.epoch(2, 0), whole)), "whatever was asked before"
    other = list(batches.epoch(3, 0))
    assert not all(map(same, whole, other))
    shapes = {(batch.question, batch.words.shape) for batch in whole}
    assert len(shapes) == batches.shapes


def same(one: PretrainBatch, other: PretrainBatch) -> bool:
    names = ("words", "segments", "positions", "nsp", "inversion", "nli")
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    return one.seed == other.seed and all(
        a is b if a is None or b is None else torch.equal(a, b) for a, b in pairs
    )


def test_two_epochs_at_once_do_not_disturb_each_other(text):
    config, data = known(text)
    batches = PretrainBatches(config, data, CPU)
    alone = [list(batches.epoch(number, 0)) for number in (0, 1)]
    together = zip(batches.epoch(0, 0), batches.epoch(1, 0), strict=True)
    for at, both in enumerate(together):
        assert all(same(batch, alone[number][at]) for number, batch in enumerate(both))


def sides(batch: PretrainBatch, words) -> list[tuple[str, ...]]:
    """The texts of each row, as they were written."""
    found = []
    for row, positions in zip(batch.words.tolist(), batch.positions.tolist(), strict=True):
        real = [token for token, at in zip(row, positions, strict=True) if at >= 0]
        assert real[0] == words.start and real[-1] == words.end
        inner = real[1:-1]
        cut = [at for at, token in enumerate(inner) if token == words.end]
        parts = [inner[: cut[0]], inner[cut[0] + 1 :]] if cut else [inner]
        found.append(tuple(words.decode(part).strip() for part in parts))
    return found


def test_answers_belong_to_their_rows(text):
    config, data = known(text)
    words = data.metadata.words
    stories = text.read_text(encoding="utf-8").split("# About")
    told = {question: answers_of(data, question) for question in ("inversion", "nli")}
    counts = dict.fromkeys(QUESTIONS[1:], 0)
    for batch in PretrainBatches(config, data, CPU).epoch(0, 0):
        answers = getattr(batch, batch.question).tolist()
        counts[batch.question] += len(answers)
        for pair, yes in zip(sides(batch, words), answers, strict=True):
            if batch.question == "nsp":
                assert any(" ".join(pair) in story for story in stories) == bool(yes)
            else:
                assert yes in told[batch.question][pair]
        width = batch.words.shape[1]
        assert (
            width == config.max_length
            if batch.running
            else width * len(answers) <= config.batch_tokens
        )
    assert counts["inversion"] == len(data.parts["train"].pairs["inversion"])
    assert counts["nli"] == 24 and counts["nsp"] > 100


def answers_of(data: PretrainData, question: str) -> dict[tuple[str, ...], set[int]]:
    """The answers to each pair, from the rows that were made of them."""
    pairs, words = data.parts["train"].pairs[question], data.metadata.words
    pick = RowPicker(pairs.rows, words, CPU)
    read_all = pick(torch.arange(len(pairs)), int(pairs.rows.lengths.max()))
    found: dict[tuple[str, ...], set[int]] = {}
    rows = sides(PretrainBatch(*read_all), words)
    for pair, answer in zip(rows, pairs.answers.tolist(), strict=True):
        found.setdefault(pair, set()).add(answer)
    return found


def test_batches_are_made_of_as_little_as_two_rows(tmp_path):
    path = tmp_path / "short.txt"
    draw = np.random.default_rng(0)
    path.write_text("".join(story(draw, 3) for _ in range(30)), encoding="utf-8")
    config = configured(path, "nsp", batch_tokens=100_000)
    data = read(config)
    batches = PretrainBatches(config, data, CPU)
    assert len(batches) == batches.running == 1
    for number in range(20):
        (batch,) = batches.epoch(number, 0)
        assert len(batch.words) == batches.at_once and batch.segments.any()


# Data


def test_no_sentence_is_in_two_parts():
    texts = {
        "train": [["a", "b", "a"], ["c"]],
        "validation": [["a", "d"], ["b"], ["e", "d"]],
        "test": [["d", "f", "c"], ["e"]],
    }
    assert apart(texts) == {
        "train": [["a", "b", "a"], ["c"]],
        "validation": [["d"], ["e", "d"]],
        "test": [["f"]],
    }


def parts_of(text: Path, *asked: str, **changes) -> dict[str, dict]:
    """The pairs of every part, as `read` makes them."""
    config = configured(text, *asked, **changes)
    corpus, sick, pairs = read_corpus(config.data), sick_for(config), {}
    texts = apart({name: [*documents(corpus[name])] for name in SPLITS})
    for name in SPLITS:
        learnt = {*sentences_of(pairs.values())}
        pairs[name] = paired(config, name, texts[name], sick, learnt)
    return pairs


@pytest.mark.parametrize("pairs", [12, 600])
def test_pairs_are_balanced_and_no_two_parts_share_one(text, pairs):
    found = parts_of(text, pairs_per_epoch=pairs)
    seen: dict[str, set] = {"inversion": set(), "nli": set()}
    for split in SPLITS:
        for question, some in found[split].items():
            count = pairs if split == "train" else max(12, pairs // 10)
            assert count - 2 <= len(some) <= count
            assert [answer for _, _, answer, _ in some] == [True, False] * (len(some) // 2)
            both = {pair[:2] for pair in some}
            assert not both & seen[question]
            seen[question] |= both
    learnt = {*sentences_of([{"inversion": found["train"]["inversion"]}])}
    for split in SPLITS[1:]:
        assert not learnt & {*sentences_of([{"inversion": found[split]["inversion"]}])}
    of_text = [pair for pair in found["train"]["inversion"] if " near the " in pair[0]]
    assert len(of_text) >= pairs // 3, "about half is of the text itself"


@pytest.mark.parametrize("count", [400, 2_000])
def test_no_two_parts_share_a_sentence_of_our_own_rules(count):
    parts = [by_rules("train", 5 * count), by_rules("validation", count), by_rules("test", count)]
    told = [{*sentences_of([{"nli": list(part)}])} for part in parts]
    assert not any(one & other for one, other in combinations(told, 2))
    assert [len(part) for part in parts] == [5 * count, count, count]


def test_a_sentence_that_is_known_is_in_no_inversion(text):
    config = configured(text, "inversion")
    texts = [*documents(read_corpus(config.data)["validation"])]
    found = paired(config, "validation", texts, None)
    learnt = {*list(sentences_of([found]))[::2][:6], *list(sentences_of([found]))[1::2][-6:]}
    again = paired(config, "validation", texts, None, learnt)
    assert len(again["inversion"]) == 12 and not learnt & {*sentences_of([again])}


def test_a_text_without_inversions_is_made_up_for_by_the_grammar(tmp_path):
    path = tmp_path / "plain.txt"
    path.write_text("\n\n".join(f"Fox {n} slept." for n in range(200)), encoding="utf-8")
    found = parts_of(path, pairs_per_epoch=40)
    assert len(found["train"]["inversion"]) == 40 and len(found["validation"]["inversion"]) == 12


def test_pairs_are_taken_true_and_false_in_turn():
    pairs = [(str(n), "", n % 3 == 0, "") for n in range(9)]  # three are true
    assert [pair[0] for pair in balanced(pairs, 9)] == ["0", "1", "3", "2", "6", "4"]
    assert [pair[0] for pair in balanced(pairs, 5)] == ["0", "1", "3", "2"]
    assert balanced(pairs, 1) == balanced([], 9) == []


def test_too_many_pairs_are_said_to_be_too_many(monkeypatch):
    monkeypatch.setattr("regard.data.synthetic.inference.TRIES", 1)
    with pytest.raises(
        UserError, match=r"--pairs-per-epoch asks for too many .* has no more pairs after"
    ):
        by_rules("train", 100_000)


def test_the_data_say_what_there_is(text):
    config, data = known(text)
    facts = data.metadata
    assert facts.documents[0] == 63 and facts.documents[2] == 0
    assert 620 <= facts.sentences[0] <= 632 and facts.parts == facts.sentences
    assert facts.tokens[0] == len(data.parts["train"].documents.lines.numbers)
    assert facts.pairs == (48, 24, 24)
    said = data.words()
    assert f"stories.txt: {facts.sentences[0]} sentences of 63 documents to train on" in said
    assert "inversion: 24 pairs to train on, 12 for validation" in said and "to test" not in said
    assert read(config).metadata == facts, "the same each time"
    for part in data.parts.values():
        for pairs in part.pairs.values():
            assert pairs.rows.lengths.max() <= config.max_length


def sick_file(folder: Path, rows: int = 20) -> None:
    head = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\tSemEval_set"
    head = head.replace("entailment_judgment", "entailment_label")
    labels = ("ENTAILMENT", "NEUTRAL", "CONTRADICTION")
    lines = [
        f"{n}\tThe man {n} of {part} is singing\tA man {n} sings\t3\t{labels[n % 3]}\t{part}"
        for part in ("TRAIN", "TRIAL", "TEST")
        for n in range(rows if part == "TRAIN" else rows // 2)
    ]
    folder.mkdir(parents=True)
    (folder / "SICK.txt").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def test_inferences_come_from_sick_if_it_is_there(text, tmp_path, monkeypatch):
    config = configured(text, "nli", nli_data="sick")
    with pytest.raises(UserError, match=r"sick is not on this machine: put SICK\.txt from .* into"):
        read(config)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "sets"))
    sick_file(tmp_path / "sets" / "sick")
    data = read(config)
    train = data.parts["train"].pairs["nli"]
    assert len(train) == 14 and train.answers.mean() == 0.5  # seven of twenty follow
    kinds = dict(zip(train.kinds, train.answers.tolist(), strict=True))
    assert kinds == {"SICK, entailment": 1, "SICK, neutral": 0, "SICK, contradiction": 0}
    plain = read(configured(text, "nli"))
    assert data.metadata.digest != plain.metadata.digest
    assert read(configured(text, "mlm", nli_data="sick")).metadata.digest == plain.metadata.digest


@pytest.mark.parametrize("rows", [20, 400], ids="rows={}".format)
def test_of_both_sources_half_is_taken_from_each(text, tmp_path, monkeypatch, rows):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "sets"))
    sick_file(tmp_path / "sets" / "sick", rows)
    found = parts_of(text, "nli", nli_data="both", pairs_per_epoch=400)
    seen: set = set()
    for split, (count, given) in zip(
        SPLITS, [(400, rows), (40, rows // 2), (40, rows // 2)], strict=True
    ):
        pairs = found[split]["nli"]
        of_sick = [pair for pair in pairs if pair[3].startswith("SICK")]
        follow = -(-given // 3)
        assert len(pairs) == count and len(of_sick) == 2 * min(count // 4, follow)
        assert sum(pair[2] for pair in pairs) == count // 2
        assert not seen & {pair[:2] for pair in pairs}
        seen |= {pair[:2] for pair in pairs}


def test_parts_of_different_size_share_no_rule_pair(text, tmp_path, monkeypatch):
    """SICK may have few pairs to choose by and many to test on; our own rules make up for it."""
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "sets"))
    sick_file(tmp_path / "sets" / "sick", 400)
    path = tmp_path / "sets" / "sick" / "SICK.txt"
    lines = path.read_text("utf-8").splitlines()
    trial = [line for line in lines if line.endswith("TRIAL")]
    path.write_text("\n".join(line for line in lines if line not in trial[3:]) + "\n", "utf-8")
    found = parts_of(text, "nli", nli_data="both", pairs_per_epoch=400)
    one, other = ({pair[:2] for pair in found[s]["nli"]} for s in ("validation", "test"))
    assert len(one) == len(other) == 40 and not one & other


KNOWN_ALREADY = (
    r"validation of bad\.txt has not one sentence of its own: an earlier part has all 3 of them$"
)
LONG = " ".join(f"word{n}" for n in range(400))


@pytest.mark.parametrize(
    ("content", "asked", "words"),
    [
        ("", QUESTIONS, "is empty"),
        ("A fox slept.", QUESTIONS, r"bad\.txt has too little text, [12] sentences? of 1 doc"),
        ("A fox slept. " * 30, ("nsp",), KNOWN_ALREADY),
        ("A fox slept. " * 30, ("mlm",), KNOWN_ALREADY),
    ],
    ids=["empty", "one sentence", "again and again", "the same, read"],
)
def test_texts_that_are_no_use_are_said_in_a_sentence(tmp_path, content, asked, words):
    path = tmp_path / "bad.txt"
    path.write_text(content, encoding="utf-8")
    weights = {name: float(name in asked) for name in QUESTIONS}
    with pytest.raises(UserError, match=words):
        trained(path, tmp_path, loss_weights=weights)
    assert not list(tmp_path.glob("pretrain-bert-*"))


def read_in_an_epoch(config: PretrainBertConfig, data: PretrainData) -> float:
    """The share of the tokens to train on that some text of an epoch has."""
    found = data.parts["train"].documents
    rows = running_text(found, config, np.random.default_rng(0)).rows
    seen = np.zeros(found.tokens, bool)
    for begin, count in (*rows.first.tolist(), *(() if rows.second is None else rows.second)):
        seen[begin : begin + count] = True
    return float(seen.mean())


@pytest.mark.parametrize(
    ("content", "sentences"),
    [
        (LONG, 1),
        ("".join(f"{n}番目の狐は湖の近くで眠っていた。" for n in range(200)), 180),
        ("".join(f"狐が{n}匹、" for n in range(400)), 1),
    ],
    ids=["no stop", "stops without spaces", "neither"],
)
def test_all_of_a_text_is_read_whatever_ends_its_sentences(tmp_path, content, sentences):
    path = tmp_path / "own.txt"
    path.write_text(content, encoding="utf-8")
    config = configured(path, "mlm")
    data = read(config)
    assert data.metadata.sentences[0] == pytest.approx(sentences, abs=1)
    assert read_in_an_epoch(config, data) == 1
    assert ("are longer than 43 tokens and are read in" in data.words()) == (sentences == 1)
    config = configured(path, "mlm", "nsp")  # where a run of one sentence has no pair
    assert read_in_an_epoch(config, read(config)) > 0.5


def test_it_is_said_which_sentences_are_left_out_or_read_by_chance(tmp_path):
    path, draw = tmp_path / "own.txt", np.random.default_rng(0)
    sizes = draw.integers(2, 18, 250).tolist()
    told = [f"Fox {' '.join(map(str, range(n, n + size)))}." for n, size in enumerate(sizes)]
    path.write_text(" ".join([*told, *told[:3]]), encoding="utf-8")
    vocabulary = {"name": "word", "min_frequency": 1}
    data = read(configured(path, "mlm", "nsp", max_length=24, tokenizer=vocabulary))
    found = data.parts["train"].documents
    assert data.left_out["validation"] > 0 == data.left_out["test"]
    assert data.words().splitlines()[1:] == [
        "sentences left out, as an earlier part has them too: "
        f"{data.left_out['validation']} of validation",
        f"{found.alone(21):.0%} of the tokens to train on are in sentences that no neighbour fits "
        "beside within --max-length 24: they are read only as texts that do not follow; a larger "
        "--max-length, or --loss-weights.nsp 0, reads them in their place",
    ]
    assert "reads them" not in read(configured(path, "mlm", tokenizer=vocabulary)).words()


def test_a_test_that_training_has_is_said_to_be_known(tmp_path):
    draw = np.random.default_rng(0)
    stories = "".join(story(draw, 8) for _ in range(20))
    for name, told in (("train", stories), ("valid", story(draw, 60)), ("test", stories)):
        (tmp_path / f"{name}.txt").write_text(told, encoding="utf-8")
    config = configured(tmp_path, "mlm")
    with pytest.raises(UserError, match=r"^test of .* of its own: an earlier part has all 160 of"):
        text_of(config, read(config), "test")


def test_of_another_text_that_is_too_short_only_more_is_asked(run, tmp_path):
    path = tmp_path / "one.txt"
    path.write_text("A fox slept.", encoding="utf-8")
    with pytest.raises(UserError, match=r"the second does not follow: it needs more$"):
        run.evaluate(data=path)


def test_a_text_without_headings_is_one_document_and_will_do(tmp_path):
    draw = np.random.default_rng(0)
    path = tmp_path / "plain.txt"
    told = " ".join(story(draw, 10).split("\n\n")[1] for _ in range(30))
    path.write_text(told, encoding="utf-8")
    data = read(configured(path))
    assert data.metadata.documents[0] == 1
    for split in ("train", "validation"):
        assert text_of(configured(path), data, split).answers.mean() == 0.5


def test_the_model_has_the_words_of_the_data_and_the_questions_that_count(text):
    config, data = known(text, "mlm", "inversion")
    assert config.model.vocab_size == len(data.metadata.words) and config.model.context_length == 45
    assert config.model.pair_tasks == ("inversion",) and config.model.pooler
    assert PRETRAIN_BERT.resolve(config, data) == config
    assert not known(text, "mlm")[0].model.pooler
    for name, wrong in (("vocab_size", 7), ("context_length", 9), ("pair_tasks", ("nsp",))):
        with pytest.raises(UserError, match=rf"model\.{name} is .*: leave it out"):
            PRETRAIN_BERT.resolve(change(config, {f"model.{name}": wrong}), data)


# Configuration and recipes


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        (LossWeightsConfig, dict.fromkeys(QUESTIONS, 0.0), "every weight is 0: there is nothing"),
        (LossWeightsConfig, {"nsp": -1.0}, "nsp=-1.0: a weight cannot be negative"),
        (LossWeightsConfig, {"nsp": math.inf}, "nsp=inf: it must be a finite number"),
        (MaskingConfig, {"mlm_probability": 0.0}, "mlm_probability=0.0"),
        (MaskingConfig, {"mlm_probability": 1.0}, "mlm_probability=1.0"),
        (
            MaskingConfig,
            {"mask_token_prob": 0.95},
            "mask_token_prob=0.95 and random_token_prob=0.1",
        ),
        (MaskingConfig, {"random_token_prob": -0.1}, "random_token_prob=-0.1"),
        (PretrainBertConfig, {"data": ""}, "data is empty"),
        (PretrainBertConfig, {"pairs_per_epoch": 11}, "pairs_per_epoch=11: at least 12"),
        (PretrainBertConfig, {"batch_tokens": 0}, "batch_tokens=0: at least 1"),
        (PretrainBertConfig, {"max_length": 15}, "max_length=15: at least 16"),
    ],
)
def test_contradicting_fields_are_named(kind, fields, words):
    with pytest.raises(ValueError, match=words):
        kind(**fields)


def test_weights_decide_what_is_asked():
    assert LossWeightsConfig().pair_tasks == ("nsp", "inversion", "nli")
    only = LossWeightsConfig(nsp=0.0, inversion=0.0)
    assert only.pair_tasks == ("nli",) and only.reads
    assert not LossWeightsConfig(mlm=0.0, nsp=0.0).reads
    assert LossWeightsConfig(mlm=0.0).reads


def test_any_text_has_a_recipe():
    assert choose_recipe("pretrain-bert", data="own.txt").config(
        PretrainBertConfig
    ).loss_weights == (LossWeightsConfig())
