"""A language model from a text file to a report: it learns, foretells, goes on, and resumes."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import regard as rg
from regard.attention import KVCache
from regard.cli import main
from regard.data.tokenizer import TokenizerConfig, fit_vocabulary
from regard.errors import UserError
from regard.runs.session import figure_words
from regard.tasks.language.config import LanguageConfig, LanguageGenerationConfig
from regard.tasks.language.data import WindowBatches, read
from regard.tasks.language.predict import Telling, before_stop, begun, unescaped
from regard.tasks.language.task import LANGUAGE
from task_cases import lines_of_text

CPU = torch.device("cpu")
MODEL = {"width": 32, "layers": 2, "heads": 2, "context_length": 32}
TINY = {"batch_size": 8, "tokenizer": {"name": "char", "min_frequency": 1}, "model": MODEL}


@pytest.fixture(autouse=True)
def _a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def text(tmp_path) -> Path:
    """A text whose lines come in an order that only chance knows."""
    return lines_of_text(tmp_path)


@pytest.fixture(scope="module")
def run(shared_run) -> rg.Run:
    """One that has learnt such a text, which tests only ask."""
    return shared_run("language")


def trained(text: Path, tmp_path: Path, **changes) -> rg.Run:
    options = {"epochs": 3, "quiet": True, "report": False, "device": "cpu", **TINY, **changes}
    options = {"root": tmp_path / "runs", "train.optimizer.lr": 3e-3, **options}
    return rg.train("language", data=text, **options)


def test_windows_stand_side_by_side_and_cover_the_text(text):
    config = LanguageConfig(**{**TINY, "data": str(text)} | settled())
    counted = np.arange(3000, dtype=np.uint16)  # so that a token says where it is
    data = replace(read(config), tokens={"train": counted, "validation": counted})
    batches = WindowBatches(config, data, CPU)
    assert len(batches) == (3000 - 32) // 32 // 8
    seen = set()
    firsts = set()
    for number in range(12):
        shown = list(batches.epoch(number, 0))
        words = torch.cat([batch.words for batch in shown])
        starts = words[:, 0].sort().values
        assert torch.equal(words, words[:, :1] + torch.arange(33))
        steps = starts.diff()
        assert (steps % 32 == 0).all() and (steps > 0).all() and (steps == 32).float().mean() > 0.9
        seen |= set(words.flatten().tolist())
        again = list(batches.epoch(number, 4))
        assert all(torch.equal(a.words, b.words) for a, b in zip(shown[4:], again, strict=True))
        firsts.add(int(starts[0]))
    assert len({first % 32 for first in firsts}) > 2
    assert len(seen) > 2980  # its end as well
    batches.held = None  # as a text that is too large for memory
    for ours, right in zip(batches.epoch(11, 0), shown, strict=True):
        assert torch.equal(ours.words, right.words) and ours.seed == right.seed


def settled() -> dict:
    from regard.config import build
    from regard.data.tokenizer import TokenizerConfig
    from regard.models.config import GPTConfig

    return {
        "tokenizer": TokenizerConfig(**TINY["tokenizer"]),
        "model": build(GPTConfig, MODEL, source="a test"),
    }


def test_a_text_is_learnt_foretold_and_gone_on_with(run, text, tmp_path):
    judged = run.evaluate("validation")
    assert judged.figures.loss.value < 1.0 < math.log(len(run.metadata.words))
    values = judged.to_values()
    assert next(iter(values)) == "loss"
    assert values["perplexity"]["value"] == pytest.approx(math.exp(values["loss"]["value"]))
    of_before = {name: value for name, value in values.items() if name != "word_perplexity"}
    of_before["word_perplexity"] = of_before.pop("word_perplexity_with_eos")  # as it was called
    then = LANGUAGE.from_dict(of_before).figures
    assert then.word_perplexity is None
    assert then.word_perplexity_with_eos == judged.figures.word_perplexity_with_eos
    (answer,) = run.predict("the cat", seed=3)
    assert answer.prompt == "the cat" and len(answer.text) == 25  # to the end of the window
    assert str(answer).startswith("the cat") and answer.to_values()["seed"] == 3
    assert run.predict("the cat", seed=3) == [answer]
    few = tmp_path / "few.txt"
    few.write_text("the cat\na dog\noù\n", encoding="utf-8")
    assert [each.prompt for each in run.predict(few)] == ["the cat", "a dog", "où"]
    (window,) = run.predict(split="validation", indices=0)
    assert window.prompt in text.read_text(encoding="utf-8")
    assert run.predict("a dog", "the cat", seed=3)[1] == answer  # whatever else is asked
    assert run.predict("che cat", seed=3)[0].score != answer.score


def test_a_report_is_made_of_a_text_with_one_window_to_choose_by(tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("the cat sat on the mat. " * 15, encoding="utf-8")
    run = trained(path, tmp_path, epochs=1, report=True)
    assert (run.folder.path / "report.html").exists()


def test_words_are_apart_and_letters_whole_where_the_prompt_ends(of_kind):
    assert str(of_kind("word").predict("the cat")[0]).startswith("the cat ")
    assert "\ufffd" not in of_kind("byte").predict("où")[0].prompt


def test_bits_per_byte_count_bytes_and_not_characters(run):
    judged = run.evaluate("validation")
    size = run.data.corpus.validation.size
    bits = judged.figures.loss.value * judged.figures.tokens / math.log(2) / size
    assert judged.figures.bits_per_byte.value == pytest.approx(bits)
    assert size > judged.figures.tokens  # é and ù are two bytes each


def test_other_texts_are_cut_as_the_run_cuts_its_own(run, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("the cat ran in the park. Ω\n" * 20, encoding="utf-8")
    judged = run.evaluate(data=other)
    assert judged.figures.tokens == 27 * 20 - 1
    assert run.evaluate("validation", data=other).figures.tokens < 60


OTHERS = ("byte", "bpe", "word")


@pytest.fixture(scope="module")
def of_kind(run, tmp_path_factory):
    """A run of each kind of vocabulary, trained for one epoch when it is first asked for."""
    runs = {"char": run}

    def run_of(kind: str) -> rg.Run:
        if kind not in runs:
            folder, vocabulary = tmp_path_factory.mktemp(kind), {"name": kind, "min_frequency": 1}
            vocabulary["vocab_size"] = 300
            runs[kind] = trained(lines_of_text(folder), folder, epochs=1, tokenizer=vocabulary)
        return runs[kind]

    return run_of


@pytest.mark.parametrize("kind", OTHERS)
def test_any_vocabulary_will_do(of_kind, kind):
    run = of_kind(kind)
    assert run.evaluate("validation").figures.loss.value < math.log(len(run.metadata.words)) + 1
    assert run.predict("the cat")[0].text


def test_a_look_at_a_long_text_says_how_much_of_it_is_shown(run, tmp_path):
    run.look("the cat sat. " * 20).write(tmp_path / "long.html")
    assert "The first 32 of " in (tmp_path / "long.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty|no text"),
        (b"short", "one window of model.context_length=32 needs 33"),
        (b"caf\xe9 " * 100, "UTF-8"),
    ],
)
def test_texts_that_are_no_use_are_said_in_a_sentence(content, words, tmp_path):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=words):
        trained(path, tmp_path)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"top_k": -1}, "top_k=-1"),
        ({"top_p": 1.5}, "top_p=1.5"),
        ({"stop_strings": ("a", "")}, "an empty string"),
    ],
)
def test_contradicting_fields_are_named(fields, words):
    with pytest.raises(ValueError, match=words):
        LanguageGenerationConfig(**fields)


def test_a_run_is_asked_otherwise_than_it_was_told(run):
    (whole,) = run.predict("the cat", seed=1)
    (short,) = run.predict("the cat", generation={"max_new_tokens": 5, "seed": 1})
    assert whole.text.startswith(short.text) and len(short.text) == 5
    assert run.predict("the cat", seed=1, **{"generation.max_new_tokens": 5}) == [short]
    assert run.predict("the cat", seed=1) == [whole]  # it forgets what it was asked
    stop = whole.text[3:5]
    (stopped,) = run.predict("the cat", generation={"stop_strings": [stop]}, seed=1)
    assert stopped.text == whole.text[: whole.text.index(stop)] and stopped.score > whole.score
    with pytest.raises(UserError, match=r"can change only generation\.…"):
        run.predict("the cat", model={"width": 8})
    with pytest.raises(UserError, match=r"generation\.max_new_tokns"):
        run.predict("the cat", generation={"max_new_tokns": 5})
    with pytest.raises(UserError, match="max_new_tokens=0"):
        run.predict("the cat", generation={"max_new_tokens": 0})


@pytest.mark.parametrize("stop", [(), ("t",), ("ca", "e ", "où est")], ids=str)
@pytest.mark.parametrize("kind", ["char", *OTHERS])
def test_what_is_shown_on_the_way_is_what_is_said_in_the_end(of_kind, kind, stop):
    run = of_kind(kind)
    for generation in (
        {"stop_strings": stop, "seed": 0},
        {"stop_strings": stop, "temperature": 3.0, "seed": 1},
    ):
        pieces: list[str] = []
        answers = run.predict("où", "the cat", stream=pieces.append, generation=generation)
        assert answers == run.predict("où", "the cat", generation=generation)
        assert "".join(pieces) == "".join(f"{answer}\n" for answer in answers)
        assert not any(string in answer.text for string in stop for answer in answers)
        if not stop and kind != "byte":
            assert len(pieces) > 20


def test_a_letter_is_shown_when_it_is_whole_and_not_before():
    words = fit_vocabulary(["é€😀"], TokenizerConfig(name="byte"))
    pieces: list[str] = []
    told = Telling(words, words.encode("a"), (), pieces.append)
    spoken = words.encode("é€b😀")
    shown = []
    for at in range(len(spoken)):
        assert not told.hear(0, spoken[: at + 1])
        shown.append("".join(pieces))
    assert shown == ["", "é", "é", "é", "é€", "é€b", "é€b", "é€b", "é€b", "é€b😀"]
    broken = [*spoken[:2], spoken[2], *words.encode("x"), spoken[2]]
    pieces.clear()
    told = Telling(words, [], (), pieces.append)
    for at in range(len(broken)):
        told.hear(0, broken[: at + 1])
    assert "".join(pieces) == "é\ufffdx"  # that will never be whole; the last may still be
    assert told.end(broken) == "é\ufffdx\ufffd" == "".join(pieces)


def test_a_prompt_that_ends_within_a_letter_is_gone_on_with():
    words = fit_vocabulary(["é€"], TokenizerConfig(name="byte"))
    half, rest = words.encode("a€")[:2], words.encode("a€b")[2:]
    pieces: list[str] = []
    told = Telling(words, half, (), pieces.append)
    for at in range(len(rest)):
        told.hear(0, rest[: at + 1])
    assert told.end(rest) == "".join(pieces) and pieces[-1].endswith("b")


def test_a_stop_string_is_found_across_tokens_and_nothing_of_it_is_shown():
    words = fit_vocabulary(["abcdé"], TokenizerConfig(name="char", min_frequency=1))
    pieces: list[str] = []
    told = Telling(words, [], ("bcd", r"d\n"), pieces.append)
    spoken, shown = words.encode("abcabcd"), []
    for at in range(len(spoken)):
        stopped = told.hear(0, spoken[: at + 1])
        shown.append("".join(pieces))
    assert stopped and shown == ["a", "a", "a", "abca", "abca", "abca", "abca"]
    assert told.end(spoken) == "abca" == "".join(pieces)
    short = Telling(words, [], ("bcd",), pieces.append)
    assert short.end(words.encode("abc")) == "abc"  # begun, and never complete
    assert Telling(words, words.encode("ab"), ("bcd",)).end(words.encode("cd")) == "cd"


def test_of_several_stop_strings_the_first_in_the_text_counts():
    assert before_stop("one two three", ["three", "two"]) == "one "
    assert before_stop("one", ["two"]) == before_stop("one", []) == "one"
    assert before_stop("abc", ["bc", "abc"]) == ""
    assert [begun(text, ["aab", "c"]) for text in ("", "x", "xa", "xaa", "aaa", "xab")] == [
        *(0, 0, 1, 2, 2, 0)
    ]
    assert begun("x\n", ["\n\nUser:"]) == 1
    assert unescaped(r"\n\t\\n\x") == "\n\t\\n\\x"


def test_the_same_seed_gives_the_same_text_and_every_sample_is_its_own(run):
    state = torch.get_rng_state()
    found = run.predict(["the cat", "a dog"], seed=7, num_samples=3)
    assert [(each.prompt, each.sample, each.seed) for each in found] == [
        (prompt, sample, 7) for prompt in ("the cat", "a dog") for sample in range(3)
    ]
    assert len({each.text for each in found}) == 6
    assert run.predict("a dog", generation={"seed": 7}) == found[3:4]  # alone, or with others
    assert run.predict("a dog", seed=8)[0].text != found[3].text
    one, other = run.predict("the cat", "the cat")  # nobody chose a seed, but it is one
    assert one == other and one.seed != run.predict("the cat")[0].seed
    assert run.predict("the cat", seed=one.seed) == [one]
    assert torch.equal(torch.get_rng_state(), state)
    for wrong, words in (({"seed": -1}, "seed=-1"), ({"num_samples": 0}, "num_samples=0")):
        with pytest.raises(UserError, match=words):
            run.predict("the cat", **wrong)


def test_a_run_proves_its_cache_and_explains_it(text, tmp_path):
    run = trained(text, tmp_path, model={**MODEL, "pos_embed": "rope", "kv_heads": 1})
    proofs = run.check_cache("the cat sat", split="validation", indices=1)
    assert [proof.tokens for proof in proofs] == [11, 16] and all(p.holds for p in proofs)
    (proof,) = run.check_cache()
    assert proof.holds and proof.tokens == 32 and proof.name == "validation of lines.txt"
    (told,) = run.explain_cache("the cat")
    assert told.holds and told.words[:7] == tuple("the cat") and len(told.words) == 8
    text.unlink()
    (without,) = rg.load(run.folder.path, device="cpu").check_cache()
    assert without.holds and without.name == "a text of regard's own"


def test_a_figure_is_a_share_or_on_a_scale_of_its_own():
    said = [
        figure_words("test accuracy", 0.844),
        figure_words("CIDEr-D on test", 0.524),
        figure_words("BLEU on test", 41.02),
        figure_words("perplexity", 4.4),
        figure_words("CIDEr-D on test", -0.0123),
        figure_words("test accuracy", 1.0),
    ]
    assert said == ["84.4%", "0.524", "41.02", "4.4", "-0.0123", "100.0%"]


@pytest.fixture
def typed(run, capsys, monkeypatch):
    """What a command about a run, in the folder `run`, prints; and its code."""
    monkeypatch.chdir(run.folder.path.parent)
    capsys.readouterr()

    def call(*words: str) -> tuple[int, str, str]:
        code = main(["predict", *words, "--device", "cpu"])
        return code, *capsys.readouterr()

    return call


def test_the_command_asks_otherwise_than_the_run_was_told(typed):
    code, out, _ = typed("run", "the cat", "--generation.max-new-tokens", "5")
    assert code == 0 and len(out) == len("the cat") + 5 + 1
    whole = typed("run", "the cat", "--seed", "5")[1]
    stop = whole[10:12]
    stops = ("--generation.seed", "5", "--generation.stop-strings", stop, "no such string")
    code, out, _ = typed("run", "the cat", *stops)
    assert out == whole[: whole.index(stop, len("the cat"))] + "\n"
    assert (
        typed("run", "a", "--generation.stop-strings", r"\n", "--generation.max-new-tokens", "31")[
            1
        ].count("\n")
        == 1
    )
    for words, said in (
        (["--generation.max-new-tokens", "0"], "generation: max_new_tokens=0: at least 1"),
        (["--generation.max-new-toknes", "3"], "did you mean --generation.max-new-tokens?"),
        (["--generation.top-p", "much"], "--generation.top-p = 'much' is not a number"),
    ):
        code, _, err = typed("run", "the cat", *words)
        assert code == 2 and said in err and err.count("\n") == 1
    assert "there is no run" in typed("nowhere", "the cat")[2]
    assert typed("run", "a" * 5000, "--generation.max-new-tokens", "1")[0] == 0
    assert "predict what?" in typed("run")[2]


def test_a_terminal_sees_the_text_as_it_comes_and_a_file_when_it_is_whole(
    typed, capsys, monkeypatch
):
    whole = typed("run", "the cat", "--seed", "5")[1]
    ask = ["predict", "run", "the cat", "--device", "cpu", "--seed", "5"]
    printed: list[tuple[str, bool]] = []

    def spy(*words, end="\n", flush=False, **rest):
        printed.append((f"{words[0]}{end}", flush))

    monkeypatch.setattr("builtins.print", spy)
    assert main(ask) == 0
    assert printed == [(whole, False)]
    printed.clear()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(ask) == 0
    assert "".join(piece for piece, _ in printed) == whole
    assert len(printed) > 20 and all(flushed for _, flushed in printed)
    printed.clear()
    assert main([*ask, "--json"]) == 0
    assert len(printed) == 1


def test_the_command_draws_by_a_seed_and_tells_one_that_it_drew(typed):
    code, out, err = typed("run", "the cat", "--seed", "7", "--num-samples", "3", "--json")
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [each["sample"] for each in answers] == [0, 1, 2] and not err
    assert len({each["answer"] for each in answers}) == 3
    _, out, err = typed("run", "the cat")
    told = re.fullmatch(r"drawn with --seed (\d+)\n", err)
    assert told and typed("run", "the cat", "--seed", told[1]) == (0, out, "")
    assert "num_samples=0: in 1 …" in typed("run", "a", "--num-samples", "0")[2]


def test_the_command_proves_and_its_code_says_whether(typed, monkeypatch):
    code, out, _ = typed("run", "--check-cache")
    assert code == 0 and "The cache changes nothing" in out and "\x1b" not in out
    code, out, _ = typed("run", "the cat", "--explain-cache")
    assert code == 0 and " 7 " in out and "# # # # # # # #" in out
    code, out, _ = typed("run", "the cat", "a dog", "--check-cache", "--explain-cache", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [line["tokens"] for line in lines] == [7, 5, 7, 5]
    append = KVCache.append

    def spoilt(self, k, v, positions):
        return append(self, k, 0.9 * v if positions.start else v, positions)

    monkeypatch.setattr(KVCache, "append", spoilt)
    code, out, _ = typed("run", "the cat", "--check-cache")
    assert code == 1 and "The cache is WRONG" in out


def test_a_prompt_of_which_nothing_is_known_is_refused(run):
    with pytest.raises(UserError, match="has 2 tokens, of which none is in the vocabulary of"):
        run.predict("犬猫")
    assert run.predict("犬 cat")[0].text  # some of it will do


def test_a_prompt_is_the_prompt_whatever_it_names(run, text, tmp_path):
    for prompt in ("missing.txt", str(text), "- a", "validation:0"):
        assert run.predict(prompt)[0].prompt == prompt
    with pytest.raises(UserError, match=r"missing\.txt cannot be read: No such file"):
        run.predict(tmp_path / "missing.txt")
