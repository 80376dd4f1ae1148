"""From captioned images to a report: what a run learns, writes and looks at is what is there."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard as rg
from regard.config import change
from regard.data.captions import CaptionSet, CaptionSplit
from regard.data.config import AugmentConfig
from regard.data.images import ArrayImages
from regard.data.synthetic.scene_captions import captions as captions_of
from regard.data.synthetic.scene_set import scene_set
from regard.data.synthetic.scenes import COLOURS, SHAPES, SIZES, scene
from regard.data.tokenizer import TokenizerConfig, fit_vocabulary
from regard.errors import UserError
from regard.evaluation.cider import cider
from regard.evaluation.ptb import words as ptb_words
from regard.models.config import CaptionerConfig, ViTConfig
from regard.models.efficientnet import PACKAGE, load_pretrained, normalise
from regard.runs.run import flattened
from regard.tasks.caption import data as reading
from regard.tasks.caption import features
from regard.tasks.caption import metrics as judging
from regard.tasks.caption import report as views
from regard.tasks.caption.config import CaptionConfig, CaptionGenerationConfig
from regard.tasks.caption.data import ROUND, CaptionBatches, CaptionData, Metadata, lined, read
from regard.tasks.caption.loss import measure, objective, sample, truths
from regard.tasks.caption.metrics import Evaluation, judge, looks_of
from regard.tasks.caption.predict import seen_of
from regard.tasks.caption.task import CAPTION, build, settle
from regard.tasks.caption.writing import Written, rules_of, words_shown, write
from regard.tasks.inputs import Rows
from regard.tasks.task import Trained

pytestmark = pytest.mark.usefixtures("own_folders")
CPU = torch.device("cpu")
EYES = {"image_size": 16, "patch_size": 4, "stem": "patch", "width": 16, "layers": 1, "heads": 2}
EYES |= {"mask": None}  # the recipe's is for another grid
MODEL = {
    "width": 16,
    "layers": 1,
    "heads": 2,
    "mlp_width": 32,
    "context_length": 16,
    "encoder": EYES,
}
TINY = {
    "num_scenes": 64,
    "batch_size": 16,
    "captions_per_image": 2,
    "model": MODEL,
    "tokenizer": {"min_frequency": 1},
}
SEEN = {**TINY, "model": {**MODEL, "encoder": {}}}  # by an encoder from elsewhere
HELD = 24
needs_weights = pytest.mark.skipif(
    find_spec(PACKAGE.replace("-", "_")) is None, reason=f"{PACKAGE} is not installed"
)


@pytest.fixture(scope="module", autouse=True)
def _few_scenes_are_held_out() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "scene_set", partial(scene_set, held=HELD))
        yield


@pytest.fixture(scope="module")
def run(shared_run, _few_scenes_are_held_out):
    """One small run, which all tests below only read."""
    return shared_run("caption")


def configured(**changes) -> CaptionConfig:
    return change(CaptionConfig(), dict(flattened({**TINY, **changes})))


def untrained(**changes) -> tuple[Trained, CaptionData]:
    """A model that knows nothing yet, and its data."""
    config = configured(**changes)
    data = read(config)
    config = settle(config, data)
    return Trained(build(config, data.metadata).eval(), config, data.metadata, CPU), data


def toy(captions, *, longest=14, kind="word") -> CaptionData:
    """Images each of one level, its row, so that a batch tells which images are in it."""
    pixels = np.zeros((len(captions), 3, 8, 8), np.uint8)
    pixels += np.arange(len(captions), dtype=np.uint8)[:, None, None, None]
    split = CaptionSplit(ArrayImages(pixels), tuple(map(tuple, captions)))
    vocabulary = fit_vocabulary(split.texts(), TokenizerConfig(name=kind, min_frequency=1))
    facts = Metadata(
        **{"data": "toy", "digest": "", "size": 8, "channels": 3, "images": (len(split), 1, 1)},
        **{"mean": (0.5,) * 3, "deviation": (0.25,) * 3},
        **{"vocabulary": vocabulary.to_text(), "longest": longest},
    )
    return CaptionData(CaptionSet("toy", split, split, split), facts)


def told(count: int, most: int = 3) -> list[list[str]]:
    """Captions of many lengths, of which each names its image and its own number."""
    return [
        [
            f"image {row} caption {at} " + "so " * (row * 7 % 9) + "on"
            for at in range(1 + row % most)
        ]
        for row in range(count)
    ]


def toy_batches(data: CaptionData, *, batch=8, texts=1, seed=0, **changes) -> CaptionBatches:
    options = {"batch_size": batch, "captions_per_image": texts, **changes}
    return CaptionBatches(configured(train={"seed": seed}, **options), data, CPU)


def rows_of(batch) -> list[int]:
    return batch.seen[:, 0, 0, 0].tolist()


# Batches


def test_every_epoch_shows_each_image_once_in_an_order_of_its_own():
    data = toy(told(50))
    batches = toy_batches(data)
    assert len(batches) == 6

    def shown(number, start=0, of=batches):
        return [
            (rows_of(batch), batch.words.tolist(), batch.seed) for batch in of.epoch(number, start)
        ]

    first, second = shown(0), shown(1)
    assert len({row for rows, _, _ in first for row in rows}) == 48
    assert shown(0) == first and shown(0, 4) == first[4:]
    assert {tuple(rows) for rows, _, _ in first} != {tuple(rows) for rows, _, _ in second}
    assert shown(0, of=toy_batches(data, seed=1)) != first
    assert not {seed for _, _, seed in first} & {seed for _, _, seed in second}


def test_a_set_smaller_than_a_batch_is_one_batch():
    batches = toy_batches(toy(told(5)), batch_size=64)
    assert len(batches) == 1 and len(next(batches.epoch(0, 0)).seen) == 5


@pytest.mark.parametrize("texts", [1, 2, 4])
def test_captions_are_their_images_own_and_none_comes_twice_before_all_came(texts):
    data = toy(told(30))
    words = data.metadata.words
    met = set()
    for epoch in range(20):
        for batch in toy_batches(data, captions_per_image=texts).epoch(epoch, 0):
            assert len(batch.words) == texts * len(batch.seen)
            lines = [words.decode(line) for line in batch.words.tolist()]
            for at, row in enumerate(rows_of(batch)):
                own = lines[at * texts : (at + 1) * texts]
                known = data.captions.train.captions[row]
                assert set(own) <= set(known)
                assert len(set(own)) == min(texts, len(known))
                met |= set(own)
    assert met == set(data.captions.train.texts())


def test_a_line_begins_and_ends_and_is_padded_no_further_than_needed():
    data = toy(told(60))
    words = data.metadata.words
    for batch in toy_batches(data, captions_per_image=2).epoch(0, 0):
        longest = 0
        for line in batch.words.tolist():
            end = line.index(words.end)
            assert line[0] == words.start and set(line[end + 1 :]) <= {words.padding}
            assert not {words.start, words.padding} & set(line[1:end])
            longest = max(longest, end)
        assert longest <= batch.words.shape[1] - 1 < longest + ROUND
        assert (batch.words.shape[1] - 1) % ROUND == 0 or batch.words.shape[1] == 16


def test_captions_of_like_lengths_come_together():
    data = toy(told(128))

    def padding(batches):
        words = torch.cat([batch.words.flatten() for batch in batches])
        return int((words == data.metadata.words.padding).sum())

    ours = padding(toy_batches(data).epoch(0, 0))
    lines = data.numbers
    order = np.random.default_rng(0).permutation(128).reshape(-1, 8)
    apart = sum(
        int((lined([lines[row][0] for row in rows], data.metadata) == 0).sum()) for rows in order
    )
    assert ours < apart / 2


def test_what_is_too_long_is_cut_and_still_ends():
    data = toy([["far " * 1000], ["near"]] * 3, longest=6)
    words = data.metadata.words
    for batch in toy_batches(data, batch_size=2).epoch(0, 0):
        assert batch.words.shape[1] <= 8
        for line in batch.words.tolist():
            assert words.end in line
    assert "6 captions (3 cut to their first 6 words)" in data.words()
    assert "cut" not in toy([["near"]]).words()


# Learning


def looped(model, facts, seen, words, smoothing=0.0):
    """The loss word by word, each caption alone and without padding."""
    total, count = 0.0, 0
    texts = len(words) // len(seen)
    for row, line in enumerate(words.tolist()):
        line = line[: line.index(facts.words.end) + 1]
        logits = model(seen[row // texts][None], torch.tensor([line[:-1]]))[0]
        for scores, wanted in zip(logits, line[1:], strict=True):
            chances = torch.exp(scores) / torch.exp(scores).sum()
            total = total - (1 - smoothing) * torch.log(chances[wanted])
            total = total - smoothing * torch.log(chances).mean()
            count += 1
    return total, count


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def toy_model(data: CaptionData):
    eyes = ViTConfig(image_size=8, patch_size=4, width=16, layers=1, heads=2, pool="mean")
    words = len(data.metadata.words)
    return rg.Captioner(
        CaptionerConfig(width=16, layers=1, heads=2, vocab_size=words, encoder=eyes)
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("texts", [1, 3])
def test_the_objective_is_a_loop_over_words_without_padding(smoothing, texts):
    data = toy(told(20))
    model = toy_model(data)
    batch = next(toy_batches(data, batch_size=5, captions_per_image=texts).epoch(0, 0))
    assert (batch.words == data.metadata.words.padding).any()
    loss, count = objective(configured(label_smoothing=smoothing), data.metadata)(model, batch)
    seen = data.metadata.normalised(batch.seen.float() / 255)
    expected, words = looped(model, data.metadata, seen, batch.words, smoothing)
    assert int(count) == words == int((batch.words[:, 1:] != 0).sum())
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-4)
    ours, theirs = gradients(model, loss), gradients(model, expected)
    for name, grad in ours.items():
        torch.testing.assert_close(grad, theirs[name], rtol=1e-4, atol=1e-4, msg=name)


def test_padding_changes_no_gradient():
    data = toy(told(20))
    model, ask = toy_model(data), objective(configured(), data.metadata)
    batch = next(toy_batches(data, batch_size=5).epoch(0, 0))
    wider = torch.nn.functional.pad(batch.words, (0, 9), value=data.metadata.words.padding)
    (loss, count), (same, again) = ask(model, batch), ask(model, replace(batch, words=wider))
    assert int(count) == int(again)
    torch.testing.assert_close(loss, same)
    ours, theirs = gradients(model, loss), gradients(model, same)
    for name, grad in ours.items():
        torch.testing.assert_close(grad, theirs[name], rtol=1e-5, atol=1e-5, msg=name)


def test_images_are_varied_by_the_seed_of_their_batch():
    data = toy(told(20))
    data.captions.train.images.pixels[:] = np.random.default_rng(0).integers(
        0, 256, data.captions.train.images.pixels.shape
    )
    model = toy_model(data)
    ask = objective(configured(augment=AugmentConfig(crop_padding=2, hflip=True)), data.metadata)
    batch = next(toy_batches(data, batch_size=5).epoch(0, 0))
    loss = ask(model, batch)[0]
    assert loss == ask(model, batch)[0] != ask(model, replace(batch, seed=batch.seed + 1))[0]


def test_features_that_were_kept_are_not_varied():
    data = toy(told(20))
    config = CaptionerConfig(
        **{"width": 16, "layers": 1, "heads": 2, "vocab_size": len(data.metadata.words)},
        encoder_width=10,
    )
    model, ask = rg.Captioner(config), objective(configured(), data.metadata)
    batch = next(toy_batches(data, batch_size=5).epoch(0, 0))
    half = torch.randn(5, 4, 10).half()
    loss, _ = ask(model, replace(batch, seen=half))
    expected, _ = looped(model, data.metadata, half.float(), batch.words)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-4)


# Measuring


def test_measure_tells_the_truth_of_scenes_and_the_loss_of_words(run):
    figures = measure(run.config, run.data, CPU)(run.model)
    assert list(figures) == [
        *(
            "val/true_captions",
            "val/loss",
            "train_eval/true_captions",
            "train_eval/loss",
        )  # the first decides
    ]
    facts = run.metadata
    for split, part in sample(run.data).items():
        seen = facts.inputs(torch.from_numpy(part.images.pixels))
        numbers = [facts.words.encode(texts[0])[: facts.longest] for texts in part.captions]
        with torch.no_grad():
            total, count = looped(run.model, facts, seen, lined(numbers, facts))
            greedy = write(run.model, seen, facts, CaptionGenerationConfig())
        name = {"validation": "val", "train": "train_eval"}[split]
        assert figures[f"{name}/loss"] == pytest.approx(float(total) / count, rel=1e-4)
        told = [text.text for text in greedy]
        assert figures[f"{name}/true_captions"] == truths(told, split).mean()
    assert len(sample(run.data)["train"]) == HELD


def test_a_caption_is_true_of_its_own_scene_and_of_few_others():
    said = [captions_of(scene(row, "test"))[1] for row in range(40)]
    assert truths(said, "test").tolist() == [1.0] * 40
    assert truths([text.replace(",", " ,") for text in said], "test").all()
    assert truths(said[1:] + said[:1], "test").mean() < 0.5
    assert not truths(["", "a a a", "<unknown>", "\ufffd"], "test").any()


def test_what_nobody_drew_is_measured_by_what_people_said(photos):
    trained, data = untrained(data=str(photos))
    figures = measure(trained.config, data, CPU)(trained.model)
    assert next(iter(figures)) == "val/CIDEr-D" and not data.drawn
    part = data.captions.validation
    seen = data.metadata.inputs(torch.from_numpy(np.array(part.images.pixels)))
    said = [
        text.text for text in write(trained.model, seen, data.metadata, CaptionGenerationConfig())
    ]
    expected = cider(
        [ptb_words(text) for text in said],
        [[ptb_words(text) for text in texts] for texts in part.captions],
    )
    assert figures["val/CIDEr-D"] == pytest.approx(float(expected.mean()))


def test_a_folder_of_ones_own_that_is_called_scenes_is_not_drawn(photos, monkeypatch):
    photos.rename(photos.with_name("scenes"))
    monkeypatch.chdir(photos.parent)
    data = read(configured(data="./scenes"))
    assert data.name == "scenes" and not data.drawn
    assert read(configured(data="scenes")).drawn


def test_a_model_that_knows_nothing_is_judged_and_names_nothing(run):
    judged = run.evaluate("test")
    said = tuple(answer.caption for answer in run.predict(split="test", indices=range(HELD)))
    assert judged.captions == said
    assert judged.truth.value == truths(said, "test").mean()
    assert judged.grounding is None
    assert judged.truth.low == 0 and judged.truth.high > 0.05  # nothing seen is no certainty
    assert "true of the scene" in CAPTION.summary(judged, "test")


def spelt(facts: Metadata, text: str) -> Written:
    """A caption as if the model had written it."""
    words = facts.words
    numbers = tuple(words.encode(text))
    return Written(numbers, tuple(map(words.entry, numbers)), words.decode(numbers), -1.0)


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_a_model_that_tells_the_truth_is_judged_so_and_its_looks_are_found(kind, monkeypatch):
    vocabulary = {"name": kind, "min_frequency": 1, "vocab_size": 300}
    trained, data = untrained(tokenizer=vocabulary, **{"model.context_length": 90})
    truth = [spelt(data.metadata, captions_of(scene(row, "validation"))[2]) for row in range(HELD)]
    monkeypatch.setattr(judging, "write_all", lambda model, source, count, *_: truth[:count])
    looks = looks_of(trained, data, "validation", truth)
    names = {*COLOURS, *SHAPES, *SIZES, "little", "big", "medium-sized", "shape"}
    starts = 0
    for look, text in zip(looks, [t for t in truth if targets_of(t, truth)], strict=True):
        assert look.maps.shape == (2, len(text.numbers), 4, 4)
        assert look.targets == targets_of(text, truth)
        for place, _ in look.targets:
            rest = "".join(text.entries[place:] if kind == "bpe" else text.entries[place])
            starts += any(rest.strip().startswith(name) for name in names)
    assert starts == sum(len(look.targets) for look in looks) > HELD / 2
    judged = judge(trained, data, "validation")
    assert judged.truth.value == 1.0 and judged.truth.low < 1
    assert judged.grounding.captions == len(looks)
    assert Evaluation.from_values(judged.to_values()).to_values() == judged.to_values()
    assert "pointing" in CAPTION.summary(judged, "validation")


def targets_of(text: Written, truth: list[Written]) -> list:
    row = truth.index(text)
    return judging.scene_targets(text.text, scene(row, "validation"), text.entries)


def test_captions_of_emoji_alone_are_no_obstacle():
    said = [["🐈"], ["a dog", "🐕"], ["…!"]]
    known = judging.comparable(said)
    assert known[1] == said[1] and known[0] == known[2] == (judging.WORDLESS,)
    scores = judging.scoring.assess(["🐈", "a dog", "a cat"], known)
    assert scores.per_image["BLEU-1"].round(6).tolist() == [0.0, 1.0, 0.0]


# Writing


@pytest.mark.parametrize("beams", [1, 3])
def test_a_score_is_the_log_probability_of_the_words(run, beams):
    facts, how = (
        run.metadata,
        CaptionGenerationConfig(num_beams=beams, length_penalty=0.5, no_repeat_ngram_size=2),
    )
    seen = facts.inputs(torch.from_numpy(run.data.captions.test.images.pixels[:4]))
    for row, text in enumerate(write(run.model, seen, facts, how)):
        line = [facts.words.start, *text.numbers]
        with torch.no_grad():
            chances = run.model(seen[row][None], torch.tensor([line]))[0].log_softmax(-1)
        ended = len(text.numbers) <= facts.longest
        wanted = [*text.numbers, facts.words.end][: len(line) if ended else -1]
        total = sum(float(chances[at, word]) for at, word in enumerate(wanted))
        length = len(wanted) ** 0.5 if beams > 1 else 1.0
        assert text.score == pytest.approx(total / length, rel=1e-4)
        pairs = list(pairwise(line))
        assert len(set(pairs)) == len(pairs)  # no run of two words is there twice
        never = {facts.words.padding, facts.words.start, facts.words.unknown}
        assert not never & set(text.numbers)
        assert text.text == " ".join(text.entries)


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_no_caption_begins_again_is_padded_or_says_that_it_knows_no_word(kind):
    facts = toy(told(9), kind=kind).metadata
    rules = rules_of(facts, CaptionGenerationConfig(no_repeat_ngram_size=3))
    words = facts.words
    unknown = {words.unknown} if kind == "word" else set()
    assert set(rules.suppress_tokens) == {words.padding, words.start} | unknown
    assert (rules.bos_id, rules.eos_id, rules.no_repeat_ngram_size) == (words.start, words.end, 3)


def test_more_beams_find_nothing_less_likely(run):
    seen = run.metadata.inputs(torch.from_numpy(run.data.captions.test.images.pixels))
    one, many = (
        write(
            run.model,
            seen,
            run.metadata,
            CaptionGenerationConfig(num_beams=beams, length_penalty=0.0),
        )
        for beams in (1, 6)
    )
    assert [text.text for text in one] != [text.text for text in many]
    assert np.mean([text.score for text in many]) > np.mean([text.score for text in one])


WRITINGS = ["a man's 👩🏽‍🚒 runs", "גבר רוכב על אופניים", "一只狗在雪地里奔跑", "naïve  café", ""]


@pytest.mark.parametrize("text", WRITINGS, ids=["emoji", "hebrew", "chinese", "accents", "empty"])
@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_words_are_shown_whole_whatever_they_are_cut_into(text, kind):
    facts = toy([[each or "a"] for each in WRITINGS], kind=kind).metadata
    written = spelt(facts, text)
    shown, places = words_shown(written, facts)
    assert len(shown) == len(places) and places == sorted(places)
    if kind == "word":
        assert shown == written.entries and places == list(range(len(shown)))
        return
    assert written.text == text
    assert "".join(shown) == "".join(text.split())
    assert len(shown) == (9 if "狗" in text else len(text.split()))
    at = 0
    for word, place in zip(shown, places, strict=True):
        at = text.index(word, at)
        before = text[:at].encode()
        pieces = [facts.words.pieces[n - 3] for n in written.numbers]
        starts = len(b"".join(pieces[:place])), len(b"".join(pieces[: place + 1]))
        assert starts[0] <= len(before) < starts[1]
        at += len(word)


def test_bytes_that_are_no_text_are_shown_too():
    facts = toy([["a dog"]], kind="bpe").metadata
    numbers = (3 + 0xFF, 3 + 0x20, 3 + 0xC3)
    entries = tuple(map(facts.words.entry, numbers))
    shown, places = words_shown(Written(numbers, entries, facts.words.decode(numbers), 0.0), facts)
    assert shown == ("\ufffd", "\ufffd") and max(places) < 3


# Asking


def test_a_row_of_its_own_data_has_its_caption_beside_it(run):
    own, given = run.predict(Rows("test", (3,)), run.data.captions.test.images[3])
    assert own.truth == run.data.captions.test.captions[3][0] and given.truth is None
    assert own.caption in str(own) and own.truth in str(own)
    values = own.to_values()
    assert values["answer"] == own.caption and values["truth"] == own.truth
    with pytest.raises(
        UserError, match=rf"index {HELD} of test is not there: test of scenes has the rows 0 to 23"
    ):
        run.predict(split="test", indices=[HELD])


def test_pictures_are_asked_about_in_groups_that_change_nothing(run):
    many = [row % 64 for row in range(70)]
    together = run.predict(split="train", indices=many)
    alone = [run.predict(split="train", indices=row)[0] for row in many[:2] + many[-2:]]
    assert [a.caption for a in together[:2] + together[-2:]] == [a.caption for a in alone]


# Looking


def test_the_maps_shown_are_those_of_the_pass(run):
    pictures = [*run.items(split="test", indices=[0, 1])]
    items = views.caption_items(run.trained, pictures)
    seen = seen_of(run.trained, pictures)
    for row, text in enumerate(write(run.model, seen, run.metadata, CaptionGenerationConfig())):
        line = torch.tensor([[run.metadata.words.start, *text.numbers]])
        with torch.no_grad(), rg.watch(run.model, "blocks.*.cross") as watched:
            run.model(seen[row][None], line)
        (layer,) = watched.values()
        expected = layer.weights()[0, :, : len(text.numbers)].unflatten(-1, (4, 4))
        assert items[row]["words"] == list(text.entries)
        shape = items[row]["maps"]["shape"]
        assert shape == [3, len(text.numbers), 4, 4]  # the mean, and two heads
        (maps,) = judging.maps_of(run.model, seen[row][None], [text], run.config, run.metadata)
        np.testing.assert_allclose(maps, expected.numpy(), atol=1e-5)
        np.testing.assert_allclose(maps.sum((2, 3)), 1, atol=1e-5)


def test_what_a_class_token_was_given_is_left_out_of_a_map():
    trained, data = untrained(**{"model.encoder.pool": "cls"})
    seen = data.metadata.inputs(torch.from_numpy(data.captions.test.images.pixels[:1]))
    text = spelt(data.metadata, "a red star")
    (maps,) = judging.maps_of(trained.model, seen, [text], trained.config, data.metadata)
    line = torch.tensor([[data.metadata.words.start, *text.numbers]])
    with torch.no_grad(), rg.watch(trained.model, "blocks.*.cross") as watched:
        trained.model(seen, line)
    (layer,) = watched.values()
    weights = layer.weights()[0, :, :3].numpy()
    assert weights.shape[-1] == 17  # the token is the last
    patches = weights[..., :16] / weights[..., :16].sum(-1, keepdims=True)
    np.testing.assert_allclose(maps.reshape(2, 3, 16), patches, atol=1e-6)


def test_the_report_shows_captions_and_what_they_are_worth(run, monkeypatch):
    page = (run.folder.path / "report.html").read_text(encoding="utf-8")
    for words in ("true of the scene", "Captions that are not true", "CIDEr-D", "Learning"):
        assert words in page
    judged = run.evaluated("validation")
    sections = views.views(run.trained, run.data, "validation", judged)
    assert [section["view"] for section in sections] == ["figures", "captions"]
    items = sections[1]["data"]["items"]
    assert len(items) == views.SHOWN
    assert items[0]["references"] == list(run.data.captions.validation.captions[0])
    assert " ".join(items[0]["words"]) == judged.captions[0]


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_the_boxes_of_things_stand_at_the_words_that_name_them(kind):
    facts = toy([captions_of(scene(row, "test")) for row in range(40)], kind=kind).metadata
    found = 0
    for row in range(10):
        text = spelt(facts, captions_of(scene(row, "test"))[0])
        words, _ = words_shown(text, facts)
        for box in views.boxes_of(words, "test", row):
            word = words[box["word"]].strip(",")
            things = scene(row, "test").things
            kinds = {name for thing in things for name in (thing.shape, thing.colour, thing.size)}
            found += 1
            assert word in kinds | {"little", "big", "medium-sized", "shape"}, word
            assert list(box["box"]) in [[side / 64 for side in thing.box] for thing in things]
    assert found > 5


# A run


def test_the_model_follows_the_data_and_a_contradiction_is_named(run):
    config = configured()
    assert settle(config, run.data).model.vocab_size == len(run.metadata.words)
    with pytest.raises(
        UserError, match=r"model\.vocab_size is 7, and the vocabulary of scenes has \d+"
    ):
        settle(configured(**{"model.vocab_size": 7}), run.data)
    for wrong, said in (
        ({"model.encoder_width": 320}, r"encoder_width=320: .* encoder='imagenet' only"),
        (
            {"model.context_length": 2},
            r"model\.context_length=2: a start, a word and an end are 3 places",
        ),
        ({"augment.mixup_alpha": 0.5}, "mixup and cutmix show two images at once"),
        (
            {"encoder": "imagenet", "augment.crop_padding": 2},
            "can be mirrored, and varied in no other",
        ),
        ({"freeze": 12}, r"freeze=12: the encoder has 9 stages"),
        ({"generation.num_beams": 0}, r"num_beams=0: at least 1"),
    ):
        with pytest.raises((UserError, ValueError), match=said):
            configured(**wrong)


# Photographs


@pytest.fixture
def photos(tmp_path) -> Path:
    """A folder of images of three colours, with captions in any writing that say which."""
    draw = np.random.default_rng(3)
    folder = tmp_path / "photos"
    folder.mkdir()
    names = {"red": "a red picture 🟥", "green": "תמונה ירוקה", "blue": "ein blaues Bild."}
    lines = ["image,caption,split"]
    for number in range(18):
        colour = list(names)[number % 3]
        pixels = draw.integers(0, 90, (*draw.integers(20, 50, 2), 3), dtype=np.uint8)
        pixels[..., number % 3] += 150
        Image.fromarray(pixels).save(folder / f"{number}.png")
        split = "validation" if number >= 15 else "test" if number >= 12 else "train"
        lines.append(f"{number}.png,{names[colour]},{split}")
    (folder / "captions.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder


def test_other_data_are_captioned_whole_in_the_runs_own_words(photos, run):
    judged = run.evaluate(data=photos)
    assert len(judged.captions) == 18 and judged.truth is None
    assert judged.scores.copied is None  # their training captions are not what this model learnt
    words = run.metadata.words
    known = {words.entry(number) for number in range(len(words))}
    assert {word for text in judged.captions for word in text.replace(",", " , ").split()} <= known
    assert run.evaluate("test", data=photos).captions == judged.captions[15:]
    assert not list(run.folder.path.glob("evaluation-all*"))
    with pytest.raises(UserError, match="numbered within their splits: say --split test"):
        run.evaluate(data="scenes")
    assert run.evaluate("test", data="scenes").captions == run.evaluate("test").captions
    with pytest.raises(UserError, match="no split 'tset'; there are train, validation, test and"):
        run.evaluate("tset")


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_captions_of_any_writing_are_learnt_and_come_back(photos, tmp_path, kind):
    run = rg.train(
        "caption",
        **{"data": photos, "root": tmp_path, "quiet": True, "device": "cpu", "epochs": 20},
        **{
            **TINY,
            "captions_per_image": 1,
            "batch_size": 3,
            "tokenizer": {"name": kind, "min_frequency": 1, "vocab_size": 300},
        },
        **{
            "encoder": "vit",
            "augment.hflip": False,
            "label_smoothing": 0.0,
            "train.ema_decay": 0.0,
        },
        **{"model.dropout": 0.0, "train.optimizer.lr": 1e-2, "train.patience": 0},
        **{"model.context_length": 32, "report": False},
    )
    wanted = {"word": ["a red picture 🟥", "תמונה ירוקה", "ein blaues bild ."]}
    wanted["bpe"] = ["a red picture 🟥", "תמונה ירוקה", "ein blaues Bild."]
    answers = run.predict(*(photos / f"{number}.png" for number in (12, 13, 14)))
    assert [answer.caption for answer in answers] == wanted[kind]
    look = run.look(photos / "13.png")
    (item,) = look.looked.document["sections"][0]["data"]["items"]
    assert item["words"] == ["תמונה", "ירוקה"]
    assert json.dumps("תמונה")[1:-1] in look.write(tmp_path / "look.html").read_text()
    run.look(photos / "12.png").write(tmp_path / "look.png")
    judged = run.evaluate("test")
    assert judged.truth is None and judged.grounding is None
    assert judged.scores.figures["CIDEr-D"].value > 3
    report = run.report("test").read_text(encoding="utf-8")
    assert "Best captions" in report and "Worst captions" in report


def test_a_run_is_used_from_any_folder_and_changed_captions_are_noticed(
    photos, tmp_path, monkeypatch
):
    monkeypatch.chdir(photos.parent)
    options = {"epochs": 1, "quiet": True, "report": False, "encoder": "vit", **TINY}
    options |= {"augment.hflip": False}
    run = rg.train("caption", data="photos", root=tmp_path / "runs", **options)
    monkeypatch.chdir(tmp_path.parent)
    assert rg.load(run.folder.path).evaluate("test").scores.count == 3
    file = photos / "captions.csv"
    file.write_text(file.read_text(encoding="utf-8").replace("a red", "one red"), encoding="utf-8")
    with pytest.raises(UserError, match="has changed since"):
        rg.load(run.folder.path).evaluate("test")


# An encoder from another run


@pytest.fixture
def seeing(photos, tmp_path) -> rg.Run:
    """A run that tells three colours apart at 16 × 16 pixels."""
    for number in range(18):
        folder = tmp_path / "classes" / "rgb"[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(photos / f"{number}.png", folder)
    options = {"quiet": True, "report": False, "epochs": 1, "model": EYES}
    return rg.train("classify", data=tmp_path / "classes", out=tmp_path / "seeing", **options)


def test_an_encoder_begins_with_the_weights_of_a_run_and_needs_it_no_more(
    photos, seeing, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    options = {**TINY, "data": str(photos), "encoder": "seeing"}
    trained, _ = untrained(**options)
    assert trained.config.encoder == str(tmp_path / "seeing")
    assert trained.metadata.mean == seeing.metadata.mean  # it knows pixels by its own scale
    theirs = seeing.model.state_dict()
    for name, weight in trained.model.encoder.state_dict().items():
        assert torch.equal(weight, theirs[name]), name
    run = rg.train(
        *("caption",),
        out="ours",
        epochs=1,
        quiet=True,
        report=False,
        **options,
        **{"augment.hflip": False},
    )
    monkeypatch.chdir(photos)
    said = run.predict(split="test", indices=0)[0]
    assert rg.load(tmp_path / "ours").predict(split="test", indices=0)[0] == said

    shutil.rmtree(tmp_path / "seeing")
    assert rg.load(tmp_path / "ours").predict(split="test", indices=0)[0] == said
    more = {"quiet": True, "report": False, "epochs": 1}
    wider = {**EYES, "width": 24}
    rg.train("classify", data=tmp_path / "classes", out=tmp_path / "seeing", model=wider, **more)
    assert (
        rg.load(tmp_path / "ours").predict(split="test", indices=0)[0] == said
    )  # another by the same name


def test_an_encoder_that_sees_other_images_is_refused_in_a_sentence(photos, seeing, run, tmp_path):
    options = {"data": str(photos), "encoder": str(tmp_path / "seeing")}
    with pytest.raises(UserError, match=r"sees 16 × 16 pixels of 3 channels, and this run reads"):
        untrained(**options, **{"model.encoder.image_size": 32})
    with pytest.raises(UserError, match="which has no ViT"):
        untrained(**{**options, "encoder": str(run.folder.path)})
    facts = tmp_path / "seeing" / "data.json"
    before = facts.read_text(encoding="utf-8")
    facts.write_text(before + " ", encoding="utf-8")
    with pytest.raises(UserError, match=r"seeing/data\.json is not the file that training wrote"):
        untrained(**options)
    facts.write_text(before, encoding="utf-8")
    (tmp_path / "seeing" / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"has no model\.safetensors yet"):
        untrained(**options)
    with pytest.raises(UserError, match="no run nowhere; --encoder takes vit, imagenet, or"):
        untrained(**{**options, "encoder": "nowhere"})


@pytest.mark.parametrize(
    ("encoder", "said", "words"),
    [
        ("seeing", {"width": 32}, r"model\.encoder\.width=32 has no .* encoder='.*seeing' has 16"),
        ("seeing", {"attention": "linear"}, "attention='linear' has no effect: .* has 'softmax'"),
        ("imagenet", {"attention": "linear"}, "attention='linear' has no .* is an EfficientNet"),
        ("imagenet", {"mask": "axial((3, 3))"}, r"encoder\.mask='axial.* is an EfficientNet"),
    ],
    ids=str,
)
def test_what_is_said_of_an_encoder_from_elsewhere_does_not_go_unheard(
    photos, seeing, tmp_path, monkeypatch, encoder, said, words
):
    monkeypatch.chdir(tmp_path)
    options = {"data": photos, "encoder": encoder, "quiet": True, "out": "ours", "epochs": 1}
    eyes = {**(EYES if encoder == "seeing" else {}), **said}
    with pytest.raises(UserError, match=words):
        rg.train("caption", **options, **{**TINY, "model": {**MODEL, "encoder": eyes}})
    assert not Path("ours").exists()


@needs_weights
def test_the_encoder_of_a_recipe_gives_way_to_one_from_elsewhere_and_that_is_told(tmp_path, capsys):
    model = {"width": 16, "layers": 1, "heads": 2, "mlp_width": 32}
    options = {"num_scenes": 8, "batch_size": 8, "epochs": 1, "report": False, "device": "cpu"}
    options |= {"encoder": "imagenet", "out": tmp_path / "run"}
    rg.train("caption", model=model, **options)
    options["out"] = tmp_path / "other"
    with pytest.raises(UserError, match=r"model\.encoder_width=5 has no effect: .* has 320; leave"):
        rg.train("caption", model={**model, "encoder_width": 5}, **options)
    (told,) = (line for line in capsys.readouterr().out.splitlines() if "decides" in line)
    assert told.startswith("encoder='imagenet' decides model.encoder.") and "scenes" in told


# An encoder that was trained on ImageNet


def squares(count: int = 3) -> ArrayImages:
    draw = np.random.default_rng(5)
    small = draw.integers(0, 256, (count, 3, 8, 8), dtype=np.uint8)
    return ArrayImages(small.repeat(28, 2).repeat(28, 3))


@needs_weights
def test_kept_features_are_those_of_the_network_mirrored_where_asked(tmp_path):
    images = squares()
    kept = features.kept_features(images, CPU, mirrored=True)
    net = load_pretrained()
    with torch.no_grad():
        plain = net.features(normalise(torch.from_numpy(images.pixels)))
        mirrored = net.features(normalise(torch.from_numpy(images.pixels).flip(-1)))
    rows, flipped = np.array([2, 0, 1]), np.array([True, False, True])
    found = kept.take(rows, flipped, CPU).float()
    expected = torch.stack([mirrored[2], plain[0], mirrored[1]])
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)
    assert found.shape == (3, 49, 320) and features.grid() == (7, 7) and features.width() == 320
    there = features.KeptFeatures([torch.from_numpy(np.array(one)) for one in kept.versions])
    picked = there.pick(torch.from_numpy(rows), torch.from_numpy(flipped))
    assert there.resident and not kept.resident
    assert torch.equal(picked.float(), found)  # as on a GPU
    assert torch.equal(there.rows(slice(1, 3), CPU), kept.rows(slice(1, 3), CPU))
    alone = features.kept_features(images, CPU, mirrored=False).take(rows, flipped, CPU)
    torch.testing.assert_close(alone.float(), plain[rows], rtol=1e-2, atol=1e-2)


@needs_weights
def test_features_of_another_stage_are_kept_apart():
    images = squares()
    eighth = features.kept_features(images, CPU, mirrored=False)
    ninth = features.kept_features(images, CPU, mirrored=False, depth=9)
    with torch.no_grad():
        plain = load_pretrained().features(normalise(torch.from_numpy(images.pixels)), 9)
    found = ninth.rows(slice(0, 3), CPU).float()
    torch.testing.assert_close(found, plain, rtol=1e-2, atol=1e-2)
    assert eighth.rows(slice(0, 3), CPU).shape[-1] == 320 and found.shape[-1] == 1280
    assert features.grid(9) == (7, 7) and features.width(9) == 1280 and features.grid(6) == (14, 14)


@needs_weights
def test_features_are_computed_once_and_again_when_they_are_damaged(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(
        *(features, "compute"),
        lambda images, device, mirrored, depth, out: (calls.append(mirrored), out.fill(len(calls))),
    )
    images = squares()
    first = features.kept(images, CPU, False, 8)
    assert features.kept(images, CPU, False, 8)[0, 0, 0] == first[0, 0, 0] == 1 and calls == [False]
    assert features.kept(images, CPU, True, 8)[0, 0, 0] == 2  # mirrored ones are another file
    assert features.kept(squares(2), CPU, False, 8)[0, 0, 0] == 3
    files = sorted((tmp_path / "cache" / "regard" / "features").iterdir())
    assert len(files) == 3 and all(file.suffix == ".npy" for file in files)
    for file in files:
        file.write_bytes(file.read_bytes()[:-7])
    assert features.kept(images, CPU, False, 8)[0, 0, 0] == 4
    files[0].write_bytes(b"")
    files[1].write_text("not an array")
    assert {float(features.kept(images, CPU, way, 8)[0, 0, 0]) for way in (True, False)} <= {
        4,
        5,
        6,
    }
    calls.clear()
    features.kept(images, CPU, False, 8)
    assert calls == []


@needs_weights
@pytest.mark.parametrize("trouble", ["a file in its place", "no space"])
def test_features_are_computed_where_nothing_can_be_kept(tmp_path, monkeypatch, trouble):
    monkeypatch.setattr(
        features, "compute", lambda images, device, mirrored, depth, out: out.fill(1.0)
    )
    if trouble == "no space":
        usage = shutil.disk_usage(tmp_path)._replace(free=1000)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    else:
        (tmp_path / "cache").write_text("no folder")
    found = features.kept(squares(), CPU, False, 8)
    assert found.shape == (3, 49, 320) and (found == 1).all()
    assert not list(tmp_path.rglob("*.npy")) and not list(tmp_path.rglob("*.draft"))


@needs_weights
def test_a_stopped_computation_leaves_nothing_behind(tmp_path, monkeypatch):
    def stopped(images, device, mirrored, depth, out):
        raise KeyboardInterrupt

    monkeypatch.setattr(features, "compute", stopped)
    with pytest.raises(KeyboardInterrupt):
        features.kept(squares(), CPU, False, 8)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@needs_weights
def test_a_decoder_is_trained_on_kept_features_alone(photos, tmp_path, monkeypatch):
    seen = []
    compute = features.compute
    monkeypatch.setattr(
        *(features, "compute"),
        lambda images, *rest: (seen.append(len(images)), compute(images, *rest)),
    )
    options = {"data": photos, "quiet": True, "device": "cpu", "out": tmp_path / "run"}
    run = rg.train("caption", epochs=1, encoder="imagenet", **options, **SEEN)
    assert sorted(seen) == [3, 12, 12]  # of training also mirrored; validation once for all uses
    assert run.model.encoder is None and run.config.model.encoder_width == 320
    assert not [name for name in run.model.state_dict() if name.startswith("encoder")]
    judged = run.evaluate("test")
    files = run.predict(*(photos / f"{number}.png" for number in (12, 13, 14)))
    assert judged.captions == tuple(answer.caption for answer in files)
    batches = CaptionBatches(run.config, run.data, CPU)
    drawn = torch.cat([batch.seen for batch in batches.epoch(0, 0)])
    plain, mirrored = (torch.from_numpy(np.array(part)) for part in batches.kept.versions)
    for vectors in drawn:
        assert any(torch.equal(vectors, one) for one in (*plain, *mirrored))
    assert run.look(photos / "12.png").write(tmp_path / "look.html").stat().st_size > 5_000


@needs_weights
def test_frozen_stages_keep_their_bits_and_later_ones_learn(photos, tmp_path):
    options = {"data": photos, "quiet": True, "device": "cpu", "out": tmp_path / "run"}
    changes = {**SEEN, "batch_size": 4, "encoder": "imagenet", "freeze": 7, "augment.hflip": False}
    run = rg.train("caption", epochs=1, report=False, **options, **changes)
    before, after = load_pretrained().state_dict(), run.model.encoder.state_dict()
    moved = {name for name, weight in before.items() if not torch.equal(weight, after[name])}
    learnt = {name for name in before if name.startswith("stages.7.") and "running" not in name}
    assert moved <= learnt and any("conv.weight" in name for name in moved)
    assert not [name for name in moved if name.split(".")[1] in "0123456"]
    again = rg.load(tmp_path / "run", device="cpu")
    assert again.predict(split="test", indices=0) == run.predict(split="test", indices=0)
