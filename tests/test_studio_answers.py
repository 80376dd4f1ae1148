"""The studio's answers: what runs of every task say over HTTP, and what they are not told to do."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import os
import re
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from golden import expect_error

pytest.importorskip("starlette")

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.testclient import TestClient

import regard as rg
from regard.errors import UserError
from regard.runs.run import Run
from regard.studio import answers, questions
from regard.studio.answers import routes
from regard.studio.kinds import kind_of
from regard.studio.loaded import AskerGone, Loaded, size_of
from regard.studio.writing import Continuation, Wish
from regard.tasks import TASKS
from regard.tasks.caption import data as scenes

SMALL = {"width": 16, "layers": 1, "heads": 2}
EYES = {**SMALL, "image_size": 16, "patch_size": 4, "stem": "patch", "mask": None}
QUICK = {"epochs": 1, "quiet": True, "report": False, "device": "cpu"}


# Runs of every task, as small as they come


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """A run of each task, one of pairs and one of bytes; trained, so to speak."""
    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(root / "cache"))
        patch.setenv("REGARD_DATA", str(root / "data"))
        patch.setattr(scenes, "scene_set", partial(scenes.scene_set, held=12))
        write_texts(root)
        words = {"tokenizer": {"name": "word", "min_frequency": 1}}
        made = {
            "classify": {"data": "digits", "model": {**SMALL, "patch_size": 4}},
            "caption": {
                **{"data": "scenes", "num_scenes": 24, "batch_size": 8, "captions_per_image": 1},
                "model": {**SMALL, "mlp_width": 32, "context_length": 16, "encoder": EYES},
                "tokenizer": {"min_frequency": 1},
            },
            "language": {
                **{
                    "data": root / "lines.txt",
                    "batch_size": 8,
                    "model": {**SMALL, "context_length": 64},
                },
                "tokenizer": {"name": "char", "min_frequency": 1},
            },
            "translate": {"data": root / "pairs.tsv", "max_length": 12, "model": SMALL, **words},
            "classify-text": {
                "data": root / "labels.csv",
                "max_length": 16,
                "window_overlap": 4,
                **words,
            },
            "pretrain-bert": {
                **{
                    "data": root / "stories.txt",
                    "batch_tokens": 450,
                    "max_length": 45,
                    "pairs_per_epoch": 24,
                },
                "model": {**SMALL, "pos_embed": "learned"},
                "tokenizer": {"name": "bpe", "min_frequency": 2, "vocab_size": 500},
            },
        }
        made["classify-text"] |= {"model": SMALL, "recipe": plain_recipe(root)}
        paths = {
            name: rg.train(name, out=root / name, **QUICK, **options).folder.path
            for name, options in made.items()
        }
        paths["of pairs"] = rg.train(
            "classify-text",
            **{**QUICK, **made["classify-text"], "data": root / "two.csv"},
            **{"text_pair_column": "with", "out": root / "of-pairs"},
        ).folder.path
        raw = {"tokenizer": {"name": "byte", "vocab_size": 300, "min_frequency": 1}}
        paths["of bytes"] = rg.train(
            "language", out=root / "of-bytes", **QUICK, **{**made["language"], **raw}
        ).folder.path
        yield paths


def write_texts(root: Path) -> None:
    draw = np.random.default_rng(0)
    lines = ["the cat sat on the mat.", "a dog ran in the park!", "où est le café?"]
    write(root / "lines.txt", [lines[i] for i in draw.integers(3, size=80)])
    numbers = {"one": "eins", "two": "zwei", "red": "rot"}
    sentences = [draw.choice(list(numbers), 3).tolist() for _ in range(80)]
    write(
        root / "pairs.tsv",
        [f"{' '.join(s)}\t{' '.join(numbers[word] for word in s)}" for s in sentences],
    )
    things = ["film", "soup", "play", "song", "book", "walk", "road", "lake", "hill", "mill"]
    said = [(thing, *says) for thing in things for says in (("fine", "good"), ("dull", "bad"))]
    write(root / "labels.csv", ["text,label", *[f"a {a} {of},{is_}" for of, a, is_ in said] * 2])
    twos = [f"{a} {b},{c},{'same' if a == c else 'other'}" for a in things for b, c in [("red", a)]]
    twos += [f"{a} red,dull,other" for a in things]
    write(root / "two.csv", ["text,with,label", *twos * 2])
    stories = []
    for animal in draw.choice(["fox", "wolf", "bear", "hare", "crow", "deer"], 30):
        told = [
            f"The {animal} {draw.choice(['slept', 'hid', 'fed'])} near the {draw.choice(things)} in"
            f" {year}."
            for year in draw.integers(1900, 1950, 8)
        ]
        stories.append(f"# About the {animal}\n\n{' '.join(told)}\n")
    write(root / "stories.txt", stories)


def write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def plain_recipe(root: Path) -> Path:
    path = root / "plain.toml"
    path.write_text('[recipe]\ntask = "classify-text"\n', encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def loaded() -> Iterator[Loaded]:
    found = Loaded(device="cpu")
    yield found
    found.close()


@pytest.fixture(scope="module")
def client(runs: dict[str, Path], loaded: Loaded) -> Iterator[TestClient]:
    with TestClient(app_of(runs, loaded)) as found:
        yield found


def app_of(runs: dict[str, Path], loaded: Loaded) -> Starlette:
    """Our routes alone, with what the studio makes of errors."""

    async def refuse(request: Any, trouble: HTTPException) -> JSONResponse:
        return JSONResponse({"error": trouble.detail}, trouble.status_code)

    async def correct(request: Any, trouble: Exception) -> JSONResponse:
        return JSONResponse({"error": str(trouble)}, 422)

    handlers: dict[Any, Any] = {HTTPException: refuse, UserError: correct, ValueError: correct}
    return Starlette(routes=routes(loaded, runs.__getitem__), exception_handlers=handlers)


def image(kind: str = "PNG", size: tuple[int, int] = (20, 30)) -> bytes:
    pixels = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    memory = BytesIO()
    Image.fromarray(pixels).save(memory, format=kind)
    return memory.getvalue()


def post(client: TestClient, run: str, what: str, said: Any, kind: str = "image/png") -> Any:
    if isinstance(said, bytes):
        return client.post(f"/api/runs/{run}/{what}", content=said, headers={"Content-Type": kind})
    return client.post(f"/api/runs/{run}/{what}", json=said)


def refused(answer: Any, status: int, words: str) -> None:
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"] and words in answer.json()["error"], answer.text


# Kinds


def test_kinds_follow_from_what_tasks_open():
    found = {name: kind_of(name) for name in TASKS}
    assert found == {
        "classify": ("image", False),
        "caption": ("image", False),
        "language": ("text", True),
        "translate": ("text", False),
        "classify-text": ("text", False),
        "pretrain-bert": ("pair", False),
    }
    assert {name: kind_of(entry.load()) for name, entry in TASKS.items()} == found
    assert kind_of("of a later version") == (None, False)


def test_facts_say_whether_a_run_reads_pairs(runs):
    facts = {
        name: rg.run_folder.RunFolder.open(path).read_facts("data") for name, path in runs.items()
    }
    assert kind_of("classify-text", facts["classify-text"])[0] == "text"
    assert kind_of("classify-text", facts["of pairs"])[0] == "pair"
    assert kind_of("classify", facts["classify"])[0] == "image"
    assert kind_of("classify-text", {"paired": None})[0] == "text"  # damaged


# Looks


ASKED = {
    "classify": b"",
    "caption": b"",
    "language": {"text": "the cat"},
    "translate": {"text": "one red"},
    "classify-text": {"text": "a fine film"},
    "pretrain-bert": {"text": "The [MASK] slept near the lake."},
    "of pairs": {"text": "red film", "pair": "red"},
    "of bytes": {"text": "où est"},
}


@pytest.mark.parametrize("name", ASKED)
def test_a_look_is_the_one_of_the_run_and_the_answers_those_of_predict(name, runs, client):
    said = ASKED[name] or image()
    answer = post(client, name, "look", said)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    run = rg.load(runs[name], device="cpu")
    given = Image.open(BytesIO(said)) if isinstance(said, bytes) else "\t".join(said.values())
    opened = [*run.items(given)]
    right = run.task.look(run.trained, opened, answers.no_measuring).document
    assert found["document"] == json.loads(answers.json_of(right))
    assert found["document"]["sections"][0]["data"]["items"]
    answered = post(client, name, "predict", said).json()
    drawn = {"seed": answered["answers"][0]["seed"]} if run.task.stream else {}
    asked = run.predict(given, **drawn)
    predicted = [json.loads(answers.json_of(each.to_values())) for each in asked]
    assert found["answers"] == ([] if run.task.stream else predicted)
    assert answered == {"answers": predicted}


@pytest.mark.parametrize("name", ["classify", "classify-text"])
def test_a_look_measures_nothing_on_the_data(name, client):
    """Faithfulness takes seconds; its place in the words says where it is instead."""
    document = post(client, name, "look", ASKED[name] or image()).json()["document"]
    assert len(document["sections"]) == 1
    assert "not measured: that takes a while, and is in the run's report." in str(document)


@pytest.mark.parametrize("name", ["classify", "caption", "language", "translate", "classify-text"])
def test_a_row_of_the_runs_own_data_can_be_asked_about(name, runs, client):
    answer = post(client, name, "predict", {"split": "validation", "index": 1})
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["answers"]
    drawn = {"seed": found["seed"]} if name == "language" else {}
    (right,) = rg.load(runs[name], device="cpu").predict(split="validation", indices=1, **drawn)
    assert found == json.loads(answers.json_of(right.to_values()))
    far = {"split": "validation", "index": 99999}
    refused(post(client, name, "look", far), 422, "index 99999 of validation is not there")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"split": "../x", "index": 0}, "split='../x' is not train, validation or test"),
        ({"split": "test", "index": -1}, "index=-1 is not a whole number, from 0"),
        ({"split": "test"}, "index=None is not a whole number"),
        ({"split": "test", "index": 0, "text": "a"}, "'text' is not asked for beside split"),
    ],
)
def test_a_row_is_a_split_and_an_index(client, asked, words):
    refused(post(client, "classify-text", "predict", asked), 422, words)


@pytest.mark.parametrize("text", ["-", "validation:0", "/etc/hostname", "rows.jsonl"])
def test_what_is_typed_into_a_page_is_a_text(client, text):
    (answer,) = post(client, "classify-text", "predict", {"text": text}).json()["answers"]
    assert answer["text"] == text and "truth" not in answer


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_every_kind_of_image_a_browser_sends_is_read(kind, runs, client):
    data = image(kind)
    answer = post(client, "classify", "predict", data, f"image/{kind.lower()}; x=y")
    run = rg.load(runs["classify"], device="cpu")
    (right,) = run.predict(Image.open(BytesIO(data)))
    assert answer.json()["answers"] == json.loads(answers.json_of([right.to_values()]))


def test_lines_are_texts_of_their_own_up_to_a_number(client):
    answer = post(client, "translate", "look", {"text": "one\ntwo red\r\n"}).json()
    assert [each["source"] for each in answer["answers"]] == ["one", "two red"]
    assert len(answer["document"]["sections"][0]["data"]["items"]) == 2
    many = "\n".join(["one"] * 33)
    refused(post(client, "translate", "look", {"text": many}), 422, "33 are more than 32")


# What is refused


def test_a_typed_text_never_reads_a_file_or_standard_input(runs, client, tmp_path, monkeypatch):
    """The command line takes such words for files, and a page must not."""
    secret = runs["language"] / "log.txt"
    secret.write_text("the secret\n", encoding="utf-8")
    monkeypatch.chdir(secret.parent)
    for name in ("language", "translate", "classify-text", "of bytes"):
        for what in ("look", "predict", *(["write"] if name == "language" else [])):
            for text in (str(secret), "log.txt", "./log.txt", "-"):
                answer = post(client, name, what, {"text": text})
                refusal = "" if answer.status_code == 200 else answer.text  # of unknown words, say
                assert not re.search("file|not there|standard input", refusal), (name, refusal)
                assert "secret" not in answer.text
    for text in ("log.txt", str(secret), ".", "/", "-", "photo.png"):
        refused(post(client, "classify", "look", {"text": text}), 422, "looks at images: send one")
    monkeypatch.chdir(tmp_path)
    answer = post(client, "language", "look", {"text": "log.txt"})  # nor asks whether there is one
    assert answer.status_code == 200 and "secret" not in answer.text
    two = secret.with_name("a\tb")
    write(two, ["the secret"])
    monkeypatch.chdir(secret.parent)
    answer = post(client, "of pairs", "look", {"text": "a", "pair": "b"})
    assert answer.status_code == 200 and "secret" not in answer.text


def test_questions_of_another_kind_are_refused(client):
    refused(post(client, "language", "look", image()), 422, "reads text, and was sent an image")
    refused(post(client, "classify", "look", {"text": "a dog"}), 422, "looks at images")
    two = {"text": "a", "pair": "b"}
    refused(post(client, "classify-text", "look", two), 422, "not asked about pairs")
    refused(post(client, "language", "look", two), 422, "not asked about pairs")
    refused(post(client, "of pairs", "look", {"text": "a"}), 422, "this run judges pairs")
    refused(post(client, "of pairs", "look", {**two, "pair": "b\nc"}), 422, "without a tab")
    refused(post(client, "of pairs", "look", {**two, "text": "b\tc"}), 422, "without a tab")
    refused(post(client, "classify-text", "look", {"text": " "}), 422, "no text to look at")
    refused(post(client, "language", "look", {"text": ""}), 422, "no token to look at")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "text is missing"),
        ({"text": 3}, "text or pair is no text"),
        ({"text": "a", "pair": 3}, "text or pair is no text"),
        ({"text": "a", "file": "b"}, "'file' is not asked for"),
    ],
)
def test_tables_that_ask_nothing_are_refused(said, words, client):
    refused(post(client, "classify-text", "look", said), 422, words)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"[" * 100_000, b'{"text": NaN}', b'{"text": %s}' % (b"9" * 5000)],
    ids=["nothing", "half", "no UTF-8", "deep", "NaN", "large number"],
)
def test_what_is_not_json_is_refused(body, client):
    kind = "application/json"
    refused(post(client, "classify-text", "look", body, kind), 400, "the body is not JSON")


def test_other_bodies_are_refused(client):
    for kind in ("", "text/plain", "image/svg+xml", "multipart/form-data"):
        refused(
            post(client, "classify-text", "look", b"{}", kind), 400, "ask with JSON or an image"
        )
    refused(post(client, "classify-text", "look", [1]), 400, "JSON, but no table")
    half = b'{"text": "a \\ud800"}'
    answer = post(client, "classify-text", "look", half, "application/json")
    refused(answer, 422, "half a character")


def test_what_is_too_large_is_refused_before_it_is_decoded(client, monkeypatch):
    long = {"text": "a" * 15_000, "pair": "b" * 5_001}
    refused(post(client, "of pairs", "look", long), 413, "20,001 characters, and 20,000")
    refused(post(client, "language", "write", {"text": "a" * 20_001}), 413, "20,001 characters")
    memory = BytesIO()
    Image.new("1", (8_000, 5_001)).save(memory, format="PNG")
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("was decoded"))
    refused(post(client, "classify", "look", memory.getvalue()), 413, "8,000 × 5,001 pixels")
    bomb = header_of_png(60_000, 60_000)
    refused(post(client, "classify", "look", bomb), 413, "over 40,000,000 pixels")
    monkeypatch.setattr(questions, "LARGEST", 100)
    refused(post(client, "classify", "look", b"x" * 101), 413, "over 100 bytes")
    monkeypatch.setattr(questions, "LARGEST_TABLE", 100)
    refused(post(client, "language", "look", {"text": "x" * 101}), 413, "over 100 bytes")


def header_of_png(width: int, height: int) -> bytes:
    """A file that says how large it is, and has nothing to show for it."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + name + data + crc32(name + data).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def test_damaged_images_are_told_in_a_sentence(client):
    data = image("JPEG", (64, 64))
    refused(post(client, "classify", "look", b""), 422, "the image is empty")
    refused(post(client, "classify", "look", b"<svg/>"), 422, "no image of the type image/png")
    refused(post(client, "classify", "look", data[:-400]), 422, "damaged or cut short")
    tiff = BytesIO()
    Image.new("L", (8, 8)).save(tiff, format="TIFF")  # which Pillow could read
    refused(post(client, "classify", "look", tiff.getvalue()), 422, "no image of the type")


def test_unknown_and_unfinished_runs_are_told_apart(runs, client, tmp_path):
    refused(post(client, "nobody", "look", {"text": "a"}), 404, "no run 'nobody'")
    refused(post(client, "nobody", "write", {"text": "a"}), 404, "no run 'nobody'")
    runs["empty"] = tmp_path
    refused(post(client, "empty", "look", {"text": "a"}), 422, "it has no config.toml")
    begun = runs["begun"] = tmp_path / "begun"
    begun.mkdir()
    for name in ("config.toml", "data.json", "manifest.json"):
        (begun / name).write_bytes((runs["language"] / name).read_bytes())
    refused(post(client, "begun", "look", {"text": "a"}), 422, "not have reached its first epoch")
    weights = (runs["language"] / "model.safetensors").read_bytes()
    (begun / "model.safetensors").write_bytes(weights)  # its first epoch is over
    assert post(client, "begun", "look", {"text": "a"}).status_code == 200


# Patches, and questions that are told as they go


def follow(client: TestClient, run: str, what: str, said: Any) -> list[tuple[str, Any]]:
    """The events of a question."""
    kind = "image/png" if isinstance(said, bytes) else "application/json"
    content = said if isinstance(said, bytes) else json.dumps(said).encode()
    headers = {"Content-Type": kind, "Accept": "text/event-stream"}
    answer = client.post(f"/api/runs/{run}/{what}", content=content, headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    return events(answer)


def test_a_patch_that_is_deleted_lets_the_class_fall_as_predict_says(runs, client):
    told = follow(client, "classify", "falls", image())
    assert {kind for kind, _ in told[:-1]} == {"progress"}
    assert told[-2][1] == {"done": 4, "of": 4, "words": "deleting one patch after another"}
    found = told[-1][1]
    assert found == post(client, "classify", "falls", image()).json()
    run = rg.load(runs["classify"], device="cpu")
    (picture,) = run.items(Image.open(BytesIO(image())))
    (whole,) = run.task.predict(run.trained, [picture])
    assert found["names"] == [whole.classes[0]] and found["grid"] == [2, 2]
    assert found["whole"] == pytest.approx([whole.probabilities[0]], abs=1e-6)
    inputs = run.metadata.inputs(torch.tensor(picture.pixels[None]))
    for patch, fall in enumerate(found["falls"][0]):
        row, column = divmod(patch, 2)
        inputs_now = inputs.clone()
        place = (..., slice(4 * row, 4 * row + 4), slice(4 * column, 4 * column + 4))
        inputs_now[place] = inputs.mean()
        with torch.no_grad():
            shares = run.model(inputs_now).softmax(-1)[0]
        left = float(shares[run.metadata.classes.index(whole.classes[0])])
        assert fall == pytest.approx(whole.probabilities[0] - left, abs=1e-5)


def test_what_a_patch_read_comes_as_maps(client):
    found = post(client, "classify", "reads?patch=3", image()).json()
    assert found["heads"]["shape"] == [1, 2, 2, 2] and found["rollout"]["shape"] == [2, 2]
    refused(post(client, "classify", "reads?patch=4", image()), 422, "the image has 4, from 0")
    refused(post(client, "classify", "reads?patch=-1", image()), 422, "not the number of a patch")
    refused(post(client, "caption", "reads?patch=0", image()), 422, "does not say what a patch")
    refused(post(client, "language", "falls", {"text": "a"}), 422, "looks at no image")


def test_each_word_of_a_caption_falls_without_each_patch(runs, client):
    words = post(client, "caption", "look", image()).json()["document"]["sections"][0]["data"]
    found = post(client, "caption", "falls", image()).json()
    assert found["names"] == words["items"][0]["words"] and found["grid"] == [4, 4]
    assert np.shape(found["falls"]) == (len(found["names"]), 16)
    assert all(0 <= share <= 1 for share in found["whole"])
    falls = np.array(found["falls"])
    assert (falls <= np.array(found["whole"])[:, None] + 1e-6).all() and np.abs(falls).max() > 0


@pytest.mark.parametrize("beams", [1, 3])
def test_a_caption_is_told_piece_by_piece(beams, runs):
    run = rg.load(runs["caption"], device="cpu")
    generation = dataclasses.replace(run.config.generation, num_beams=beams)
    config = dataclasses.replace(run.config, generation=generation)
    trained = dataclasses.replace(run.trained, config=config)
    opened = [*run.items(Image.open(BytesIO(image())))]
    pieces: list[str] = []
    spoken = run.task.speak(trained, opened[0], pieces.append)
    assert spoken == run.task.predict(trained, opened)[0]
    assert "".join(pieces) == spoken.caption
    assert beams > 1 or len(pieces) > 1  # drafts may differ from their first word to the last


def test_a_look_that_is_followed_ends_with_the_look_itself(client, runs, loaded):
    loaded.runs.clear()
    told = follow(client, "caption", "look", image())
    steps = [values["words"] for kind, values in told if kind == "progress"]
    assert steps == ["loading the model", "looking"]
    whole = post(client, "caption", "look", image()).json()
    assert told[-1] == ("result", whole) and whole["more"] == ["falls"]
    pieces = [values["text"] for kind, values in told if kind == "piece"]
    assert "".join(pieces) == whole["answers"][0]["answer"]
    kind, values = follow(client, "classify", "look", {"text": "a dog"})[-1]
    assert kind == "error" and "looks at images" in values["error"]


def test_closing_the_connection_ends_the_work_and_the_next_question_is_answered(
    runs, loaded, monkeypatch
):
    """A stand-in that takes for ever tells of each step; nobody listens, and it ends."""
    ended, steps = threading.Event(), []

    def endless(run: Run, asked: Any, tell: Any) -> Any:
        try:
            while True:
                steps.append(1)
                answers.progress(tell, "slowly", len(steps), 10**6)
                time.sleep(0.005)
        finally:
            ended.set()

    monkeypatch.setattr(answers, "fallen", endless)
    with served(app_of(runs, loaded)) as port:
        with socket.create_connection(("127.0.0.1", port)) as link:
            body = image()
            head = "POST /api/runs/classify/falls HTTP/1.1\r\nHost: x\r\n"
            head += "Accept: text/event-stream\r\nContent-Type: image/png\r\n"
            link.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            got = b""
            while b"slowly" not in got:
                got += link.recv(4096)
            assert not ended.is_set() and loaded.turn_of(runs["classify"]).locked()
        assert ended.wait(20)
        until(lambda: not loaded.turn_of(runs["classify"]).locked())
    with TestClient(app_of(runs, loaded)) as client:
        assert post(client, "classify", "predict", image()).status_code == 200


# Writing


def events(answer: Any) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for part in answer.text.removesuffix("\n\n").split("\n\n"):
        name, data = part.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


@pytest.mark.parametrize("name", ["language", "of bytes"])
@pytest.mark.parametrize("how", [(0.8, 1.0), (0.5, 0.9), (2.0, 0.5)], ids=str)
def test_what_is_written_is_what_predict_says(name, how, runs, client):
    """Token by token, the same as the library's own sampling: text and probability."""
    temperature, top_p = how
    wish = {"text": "the cat", "temperature": temperature, "top_p": top_p, "length": 40, "seed": 3}
    answer = post(client, name, "write", wish)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *tokens, last = events(answer)
    assert last == ("end", {"why": "length"})
    assert [kind for kind, _ in tokens] == ["token"] * 40
    run = rg.load(runs[name], device="cpu")
    generation = {"max_new_tokens": 40, "temperature": temperature, "top_p": top_p, "seed": 3}
    (right,) = run.predict("the cat", generation=generation)
    assert "".join(token["text"] for _, token in tokens) == right.text
    for _, token in tokens:
        shares = [share for _, share in token["top"]]
        assert len(shares) == 10 and shares == sorted(shares, reverse=True)
        assert 0 < token["probability"] <= 1 and sum(shares) < 1 + 1e-5
        assert token["probability"] <= shares[0] + 1e-6


def test_probabilities_are_those_of_the_model_at_that_temperature(runs, client):
    wish = {"text": "the cat", "temperature": 2.0, "top_p": 1.0, "length": 3}
    (_, first), (_, second), _, _ = events(post(client, "language", "write", wish))
    run = rg.load(runs["language"], device="cpu")
    words = run.metadata.words
    never = [words.padding, words.start, words.end, words.special("unknown")]
    for text, token in (("the cat", first), (f"the cat{first['text']}", second)):
        with torch.no_grad():
            logits = run.model(torch.tensor([words.encode(text)]))[0, -1].double()
        logits[never] = -torch.inf
        right = (logits / 2).softmax(-1)
        top = right.topk(10)
        assert [name for name, _ in token["top"]] == [
            words.decode([i]) for i in top.indices.tolist()
        ]
        shares = [share for _, share in token["top"]]
        assert shares == pytest.approx(top.values.tolist(), rel=1e-4)
        (number,) = words.encode(token["text"])
        assert token["probability"] == pytest.approx(float(right[number]), rel=1e-4)


def test_top_p_leaves_nothing_to_unlikely_tokens(client):
    wish = {"text": "the cat", "temperature": 1.0, "top_p": 0.2, "length": 5}
    for _, token in events(post(client, "language", "write", wish))[:-1]:
        shares = [share for _, share in token["top"]]
        assert sum(shares) == pytest.approx(1, abs=1e-5) and shares[-1] == 0


def test_at_temperature_0_the_likeliest_token_is_written(client):
    cold = {"text": "the cat", "temperature": 0, "top_p": 1, "length": 20}
    first = events(post(client, "language", "write", cold))
    assert first == events(post(client, "language", "write", {**cold, "seed": 7}))
    for _, token in first[:-1]:
        assert token["probability"] == 1 and token["top"][0] == [token["text"], 1]


def test_a_seed_gives_another_text_and_the_same_seed_the_same(client):
    wish = {"text": "the cat", "temperature": 2, "length": 30}
    said = [
        "".join(token.get("text", "") for _, token in events(post(client, "language", "write", w)))
        for w in (wish, wish, {**wish, "seed": 1}, {**wish, "seed": 2}, {**wish, "seed": 1})
    ]
    assert said[2] == said[4] and len(set(said)) == 4  # without one, another is drawn


def test_writing_ends_where_the_window_does(runs, client):
    *tokens, last = events(post(client, "language", "write", {"text": "a dog", "length": 500}))
    assert last == ("end", {"why": "room"}) and len(tokens) == 64 - len("a dog")
    *tokens, last = events(post(client, "language", "write", {"text": "a dog " * 50}))
    assert len(tokens) == 32  # half a window is read, half is written
    assert events(post(client, "language", "write", {"text": "", "length": 2}))[-1][0] == "end"


def test_letters_of_several_bytes_come_whole(runs):
    """A model that has learnt to write é by two tokens shows it with the second."""
    run = rg.load(runs["of bytes"], device="cpu")
    words = run.metadata.words
    numbers = [*words.encode("aé"), words.encode("é")[0]]

    coming = iter(numbers)

    def step(given: torch.Tensor, state: Any) -> torch.Tensor:
        logits = torch.full((1, len(words)), -50.0)
        logits[0, next(coming)] = 50.0
        return logits

    run.model.decode = step
    found = [token.text for token in Continuation(run, Wish("o", length=4))]
    assert found == ["a", "", "é", "\ufffd"]  # the last will not become whole


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperature": -1}, "temperature=-1 is neither 0"),
        ({"temperature": 0.001}, "temperature=0.001"),
        ({"temperature": True}, "temperature=True"),
        ({"temperature": "1"}, "temperature='1'"),
        ({"temperature": 1e999}, "not JSON"),
        ({"top_p": 0}, "top_p=0 is not a share"),
        ({"top_p": 1.5}, "top_p=1.5"),
        ({"length": 0}, "length=0"),
        ({"length": 4_001}, "length=4001"),
        ({"length": 2.5}, "length=2.5"),
        ({"seed": -1}, "seed=-1"),
        ({"num_beams": 3}, "'num_beams' is not asked for"),
        ({"text": None}, "text is missing"),
        ({"text": "測試"}, "the text has 2 tokens, of which none is in the vocabulary"),
    ],
    ids=str,
)
def test_wishes_beyond_the_limits_are_refused(changes, words, client):
    body = json.dumps({"text": "a", **changes}).encode()
    answer = post(client, "language", "write", body, "application/json")
    refused(answer, 400 if words == "not JSON" else 422, words)


def test_only_runs_that_write_go_on_with_a_text(client):
    refused(post(client, "classify-text", "write", {"text": "a"}), 422, "does not write on")
    refused(post(client, "classify", "write", {"text": "a"}), 422, "does not write on")


def test_a_failure_while_writing_ends_the_stream_and_tells_no_secrets(runs, client, monkeypatch):
    def fail(self: Continuation) -> Any:
        raise RuntimeError("at /home/somebody")

    monkeypatch.setattr(Continuation, "__next__", fail)
    answer = post(client, "language", "write", {"text": "a"})
    ((kind, told),) = events(answer)
    assert kind == "end" and told["why"] == "error" and "terminal" in told["error"]
    assert "somebody" not in answer.text


def test_nothing_is_computed_for_an_asker_who_has_gone(client, monkeypatch):
    async def gone(self: Request) -> bool:
        return True

    monkeypatch.setattr(Request, "is_disconnected", gone)
    monkeypatch.setattr(Loaded, "run_of", lambda *_: pytest.fail("was loaded"))
    for what in ("look", "predict", "write"):
        assert post(client, "language", what, {"text": "a"}).status_code == 204


@contextmanager
def served(app: Starlette) -> Iterator[int]:
    """A real server on a free port."""
    uvicorn = pytest.importorskip("uvicorn")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(10)


def until(holds: Any, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.01)


def test_closing_the_connection_stops_the_writing(runs, loaded, monkeypatch):
    made, slowly = [], Continuation.__next__

    def counted(self: Continuation) -> Any:
        made.append(time.monotonic())
        time.sleep(0.05)
        return slowly(self)

    monkeypatch.setattr(Continuation, "__next__", counted)
    body = json.dumps({"text": "the cat", "length": 50}).encode()
    with served(app_of(runs, loaded)) as port:
        with socket.create_connection(("127.0.0.1", port)) as link:
            head = "POST /api/runs/language/write HTTP/1.1\r\nHost: x\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            link.sendall(head.encode() + body)
            got = b""
            while b"event: token" not in got:
                got += link.recv(4096)
        count = len(made)
        time.sleep(0.6)
        assert len(made) <= count + 3 < 50
        # The run is free again for others.
        assert not loaded.turn_of(runs["language"]).locked()


# Loaded runs


class Toy(Run):
    """A run as far as the cache knows it, with weights of so many bytes."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        vars(self)["model"] = nn.Linear(size // 4, 1, bias=False)


def toys(tmp_path: Path, *sizes: int) -> tuple[list[Path], list[Path], Any]:
    """Folders, a list of those that were loaded, and what loads them."""
    paths, calls = [], []
    for number, size in enumerate(sizes):
        path = tmp_path / f"toy-{number}"
        path.mkdir()
        (path / "model.safetensors").write_text(str(size), encoding="utf-8")
        paths.append(path)

    def load(path: Path, *, device: str) -> Any:
        calls.append(path)
        return Toy(path, int((path / "model.safetensors").read_text(encoding="utf-8")))

    return paths, calls, load


def names(loaded: Loaded) -> list[str]:
    return [path.name for path in loaded.runs]


def test_the_run_not_asked_for_longest_goes_first(tmp_path):
    paths, calls, load = toys(tmp_path, 400, 400, 400, 4000)
    loaded = Loaded(1000, load=load)
    for number in (0, 1, 0, 2):  # three do not fit, and 1 was asked before 0
        assert loaded.run_of(paths[number]).path == paths[number]
    assert names(loaded) == ["toy-0", "toy-2"] and loaded.size == 800
    assert calls == [paths[0], paths[1], paths[2]]
    loaded.run_of(paths[3])  # larger than all that is allowed: it is alone
    assert names(loaded) == ["toy-3"]
    loaded.run_of(paths[0])
    assert names(loaded) == ["toy-0"] and len(calls) == 5


def test_a_run_that_went_is_freed(tmp_path):
    paths, _, load = toys(tmp_path, 400, 400)
    loaded = Loaded(500, load=load)
    first = weakref.ref(loaded.run_of(paths[0]).model)
    gc.collect()
    assert first() is not None
    loaded.run_of(paths[1])
    gc.collect()
    assert first() is None


def test_no_more_runs_are_kept_than_are_allowed(tmp_path):
    paths, _, load = toys(tmp_path, 4, 4, 4)
    loaded = Loaded(most=2, load=load)
    for path in paths:
        loaded.run_of(path)
    assert names(loaded) == ["toy-1", "toy-2"]
    with expect_error(ValueError):
        Loaded(most=0)


def test_a_run_that_was_trained_on_is_loaded_anew(tmp_path):
    (path,), calls, load = toys(tmp_path, 400)
    loaded = Loaded(load=load)
    first = loaded.run_of(path)
    assert loaded.run_of(path) is first and len(calls) == 1
    (path / "model.safetensors").write_text("800", encoding="utf-8")
    os.utime(path / "model.safetensors", ns=(1, 1))
    assert size_of(loaded.run_of(path).model) == 800 and len(calls) == 2
    assert loaded.size == 800


def test_a_run_that_cannot_be_loaded_leaves_nothing_behind(tmp_path):
    (path,), _, _ = toys(tmp_path, 400)

    def fail(path: Path, *, device: str) -> Any:
        raise UserError("damaged")

    loaded = Loaded(load=fail)
    for _ in range(2):  # its turn is given back
        with pytest.raises(UserError, match="damaged"):
            asyncio.run(asyncio.wait_for(loaded.ask(path, lambda run: run), 10))
    assert not loaded.runs
    loaded.close()


def test_shared_weights_are_counted_once():
    model = nn.ModuleList([nn.Linear(10, 10, bias=False), nn.Linear(10, 10, bias=False)])
    assert size_of(model) == 800
    model[1].weight = model[0].weight
    assert size_of(model) == 400


def test_a_run_answers_one_at_a_time_and_others_meanwhile(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    loaded, now, most, met = Loaded(), [], {}, threading.Barrier(2)

    def work(path: Path, first: bool) -> None:
        now.append(path)
        most[path] = max(most.get(path, 0), now.count(path))
        if first:
            met.wait(10)  # the first of each, at the same time
        time.sleep(0.005)
        now.remove(path)

    async def go() -> None:
        works = [
            loaded.within(path, partial(work, path, turn == 0))
            for turn in range(6)
            for path in (one, other)
        ]
        await asyncio.gather(*works)

    asyncio.run(go())
    assert most == {one: 1, other: 1} and not met.broken
    loaded.close()


def test_the_server_goes_on_while_a_run_thinks(tmp_path):
    loaded, free = Loaded(), threading.Event()

    async def go() -> None:
        slow = asyncio.create_task(loaded.within(tmp_path, lambda: free.wait(10)))
        await asyncio.sleep(0.05)
        free.set()  # which could not happen if the event loop were held up
        assert await slow

    asyncio.run(go())
    loaded.close()


def test_a_turn_lasts_until_the_thread_is_done_though_its_asker_is_not_waiting(tmp_path):
    loaded, free, ran = Loaded(), threading.Event(), []

    async def go() -> None:
        first = asyncio.create_task(loaded.within(tmp_path, lambda: free.wait(10)))
        await asyncio.sleep(0.05)
        first.cancel()
        second = asyncio.create_task(loaded.within(tmp_path, lambda: ran.append(free.is_set())))
        await asyncio.sleep(0.1)
        assert not ran
        free.set()
        await asyncio.wait_for(second, 10)

    asyncio.run(go())
    assert ran == [True]
    loaded.close()


def test_a_question_is_dropped_if_its_asker_has_gone_when_its_turn_comes(tmp_path):
    loaded, free, ran = Loaded(), threading.Event(), []

    async def go() -> None:
        async def gone() -> bool:
            return True

        first = asyncio.create_task(loaded.within(tmp_path, lambda: free.wait(10)))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(loaded.within(tmp_path, lambda: ran.append(1), gone=gone))
        await asyncio.sleep(0.05)
        free.set()
        await first
        with pytest.raises(AskerGone):
            await second
        await asyncio.wait_for(loaded.within(tmp_path, lambda: ran.append(2)), 10)

    asyncio.run(go())
    assert ran == [2]
    loaded.close()
