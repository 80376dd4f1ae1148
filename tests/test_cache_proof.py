"""The proofs about caches: they hold of sound models, and find out what is spoilt."""

import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from golden import expect_error
from regard.attention import KVCache
from regard.attention.cache import KeyValues
from regard.attention.positions import locate
from regard.data.tokenizer import TokenizerConfig, Vocabulary, fit_vocabulary
from regard.data.word_pieces import WordPieceVocabulary
from regard.errors import UserError
from regard.generation.verify import CacheCheck, compare, difference
from regard.inspection.cache_explanation import CacheExplanation, explain, row_counts, size_of
from regard.models.config import GPTConfig
from regard.models.gpt import GPT
from regard.tasks.language.cache_proof import OWN_TEXT, check_cache, explain_cache, tokens_of
from regard.tasks.language.config import LanguageConfig
from regard.tasks.language.data import Metadata
from regard.tasks.language.predict import prompt_of
from regard.tasks.language.task import LANGUAGE
from regard.tasks.task import Proof, Trained
from regard.visualization.cache_view import MOST, Entries, cache_grid, entries

CPU = torch.device("cpu")
TEXT = "the cat sat on the mat. a dog ran in the park! où est le café?\n"
KINDS = {
    "learned": {},
    "sinusoidal": {"pos_embed": "sinusoidal", "norm_first": False},
    "rope": {"pos_embed": "rope", "activation": "swiglu", "norm": "rmsnorm"},
    "grouped": {"pos_embed": "rope", "kv_heads": 2},
    "window": {"mask": "causal & window(5)"},
    "window and groups": {"mask": "causal & window(5)", "pos_embed": "rope", "kv_heads": 1},
    "nowhere": {"pos_embed": "none", "tie_embeddings": False},
}


def explained(trained: Trained, tokens: torch.Tensor) -> CacheExplanation:
    return explain(
        trained.model, trained.metadata.words, trained.config.model.context_length, tokens
    )


def speaker(vocabulary: Vocabulary | None = None, **fields) -> Trained:
    """A model that was never trained, but looks and scores as unevenly as one that was."""
    words = vocabulary or fit_vocabulary([TEXT], TokenizerConfig(name="char", min_frequency=1))
    shape = {
        "width": 32,
        "heads": 4,
        "layers": 2,
        "context_length": 40,
        "vocab_size": len(words),
        **fields,
    }
    config = LanguageConfig(model=GPTConfig(**shape))
    torch.manual_seed(0)
    model = GPT(config.model).eval()
    for name, weight in model.named_parameters():
        if weight.ndim > 1 and "embed" not in name:
            weight.data *= 4
    facts = Metadata(data="some", digest="", vocabulary=words.to_text(), tokens=(1, 1, 0))
    return Trained(model, config, facts, CPU)


def gone():
    raise UserError("the data are gone")


def text_of(trained: Trained, letters: int = 30) -> torch.Tensor:
    return tokens_of(trained, prompt_of(trained.metadata, "prompt", TEXT[:letters]), 100)


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
def test_a_sound_cache_is_found_sound(fields):
    trained = speaker(**fields)
    found = compare(trained.model, text_of(trained))
    assert found.holds and found.relative < 1e-5 and found.likeliest == found.tokens == 30
    assert found.kind == "float32" and 1 <= found.at <= 30
    assert isinstance(found, Proof)
    double = replace(trained, model=trained.model.double())
    exact = compare(double.model, text_of(double))
    assert exact.holds and exact.relative < 1e-12 and exact.kind == "float64"


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("fault", ["a key", "a value", "the order", "a slot", "no number"])
def test_a_spoilt_cache_is_found_out(fields, fault, monkeypatch):
    trained = speaker(**fields)
    append = KVCache.append

    def spoilt(self, k, v, positions):
        kept = append(self, k, v, positions)
        k, v = kept.k.clone(), kept.v.clone()
        if k.shape[-2] < 5:
            return kept
        if fault == "a key":
            k[..., -2, :] += 1.0
        elif fault == "a value":
            v[..., -2, :] *= 1.1
        elif fault == "the order":
            v = v.flip(-2)
        elif fault == "a slot":
            k[..., -3, :] = v[..., -3, :] = 0.0
        else:
            v[..., -2, :] = math.nan
        return KeyValues(k, v, kept.positions)

    monkeypatch.setattr(KVCache, "append", spoilt)
    found = compare(trained.model, text_of(trained))
    assert not found.holds and "WRONG" in str(found)
    assert math.isnan(found.relative) if fault == "no number" else found.relative > 1e-3
    assert not json.loads(json.dumps(found.to_values()))["holds"]
    assert not explained(trained, text_of(trained, 12)).holds or fault in ("a value", "the order")


@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "rope", "window and groups"])
def test_a_token_that_the_cache_puts_one_place_too_early_is_found_out(kind, monkeypatch):
    trained = speaker(**KINDS[kind])
    inside = KINDS[kind].get("pos_embed") == "rope"
    scheme = type(
        trained.model.blocks[0].attention.pos_embed if inside else trained.model.pos_embed
    )
    right = scheme.angles if inside else scheme.embed

    def early(positions):
        where = locate(positions)
        return (where - 1).clamp(min=0) if where.numel() == 1 else positions

    if inside:
        monkeypatch.setattr(scheme, "angles", lambda self, at, width: right(self, early(at), width))
    else:
        monkeypatch.setattr(scheme, "embed", lambda self, x, at: right(self, x, early(at)))
    found = compare(trained.model, text_of(trained))
    assert not found.holds and found.relative > 1e-3


def test_where_scores_differ_is_said_and_what_is_no_number_is_the_largest():
    right = torch.tensor([[1.0, 2.0], [10.0, 20.0], [3.0, 1.0]])
    ours = right + torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.3]])
    assert difference(ours, right) == pytest.approx((0.3, 0.1, 2), rel=1e-5)
    assert difference(right, right) == (0.0, 0.0, 0)
    ours[0, 1] = math.nan
    found = difference(ours, right)
    assert math.isnan(found.relative) and found.row == 0
    sure = CacheCheck("a", 3, 1, 0.0, math.nan, 1, 1e-4, "float32", 3, 1.0, 0.5)
    assert not sure.holds and sure.ratio == 2.0
    assert replace(sure, relative=1e-5).holds


def test_without_a_text_the_runs_own_is_taken_or_one_that_is_always_there():
    trained = speaker()
    (found,) = check_cache(trained, [], gone)
    assert found.name == "a text of regard's own" and found.tokens == min(40, len(OWN_TEXT))
    (told,) = explain_cache(trained, [], gone)
    assert len(told.words) == 12 and told.holds
    long = prompt_of(trained.metadata, "prompt", TEXT * 3)
    assert check_cache(trained, [long], gone)[0].tokens == 40
    assert len(explain_cache(trained, [long], gone)[0].words) == 40
    with expect_error(UserError):
        check_cache(trained, [prompt_of(trained.metadata, "prompt", "")], gone)
    with expect_error(ValueError):
        compare(trained.model.train(), text_of(trained))
    assert LANGUAGE.check_cache is check_cache and LANGUAGE.explain_cache is explain_cache


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
def test_one_token_more_is_counted_and_measured(fields):
    trained = speaker(**fields)
    told = explained(trained, text_of(trained, 9))
    assert told.holds and told.rows < 1e-6 and told.row < 1e-6
    assert isinstance(told, Proof) and json.dumps(told.to_values())
    near = 5 if "mask" in fields else 100
    rows = [min(at + 1, near) for at in range(40)]
    new, done, never = told.entries
    assert (new, done, new + done + never) == (rows[9], sum(rows[:9]), 100)
    assert told.one == (8 * rows[9], 8 * sum(rows[:10]))
    assert told.last == (8 * rows[39], 8 * sum(rows))
    assert told.text == (8 * sum(rows), 8 * sum(sum(rows[: at + 1]) for at in range(40)))
    each = 2 * 2 * fields.get("kv_heads", 4) * 8  # layers, keys and values, groups, their width
    held = min(10, near)
    assert (told.stored, told.held) == (each * held, 4 * each * held)
    assert told.full == 4 * each * min(40, near)


def test_what_is_stored_is_what_the_caches_hold():
    trained = speaker(pos_embed="rope", kv_heads=2)
    told = explained(trained, text_of(trained, 9))
    state = trained.model.new_state(1)
    with torch.inference_mode():
        trained.model.decode(text_of(trained, 10), state)
    kept = [cache.attention.kept for cache in state.caches]
    assert told.stored == sum(some.k.numel() + some.v.numel() for some in kept)
    sizes = [some.k.nbytes + some.v.nbytes for some in kept]
    assert told.held == sum(sizes)


def test_no_special_entry_is_shown_wherever_it_stands(monkeypatch):
    specials = ("padding", "start", "end", "unknown", "mask")
    pieces = ("the", "cat", "[SEP]", "[PAD]", "sat", "[MASK]", "[UNK]", "on", "[CLS]")
    vocabulary = WordPieceVocabulary(specials, pieces)
    decode, best = GPT.next_token_logits, [vocabulary.special(name) for name in specials]

    def tempted(self, *inputs, **options):
        scores = decode(self, *inputs, **options)
        scores[..., best] += 1000
        scores[..., 1] += 500
        return scores

    monkeypatch.setattr(GPT, "next_token_logits", tempted)
    told = explained(speaker(vocabulary), torch.tensor([vocabulary.encode("the cat sat")]))
    assert told.words == ("the", "cat", "sat", "cat") and told.holds


def test_a_row_that_should_be_done_and_is_not_is_found_out(monkeypatch):
    trained = speaker(mask="causal & window(5)")
    forward = GPT.forward
    # A model whose words feel how long the text is: one more token changes the rows before.
    monkeypatch.setattr(
        GPT,
        "forward",
        lambda self, words, positions=None: forward(
            self, (words + words.shape[1]) % trained.config.model.vocab_size, positions=positions
        ),
    )
    told = explained(trained, text_of(trained, 9))
    assert not told.holds and told.rows > 1e-2 and "WRONG" in str(told)


def test_the_grid_is_aligned_and_its_signs_differ_without_colour():
    allowed = np.tril(np.ones((4, 4), bool))
    grid = cache_grid(["the", " cat", "\n", " 猫猫"], allowed)
    assert grid.plain.splitlines() == [
        "          0 1 2 3",
        " 0 the  | o . . .",
        " 1 cat  | o o . .",
        " 2 ↵    | o o o .",
        " 3 猫猫 | # # # #",
    ]
    assert entries(allowed) == Entries(4, 6, 6) and entries(allowed).whole == 10
    for terminal in (True, False):
        out = io.StringIO()
        Console(file=out, force_terminal=terminal).print(grid)
        assert ("\x1b[" in out.getvalue()) == terminal
    large = cache_grid(["incomprehensibilities"] * MOST, np.tril(np.ones((MOST, MOST), bool)))
    tens, ones, *rows = large.plain.splitlines()
    assert tens.index("1") == ones.index("0", ones.index("0") + 1) and len(rows) == MOST
    assert len({len(row) for row in (ones, *rows)}) == 1 and len(ones) < 84
    assert rows[0].startswith(" 0 incomprehen… | o .")
    with expect_error(ValueError):
        cache_grid(["a"] * (MOST + 1), np.ones((MOST + 1, MOST + 1), bool))
    with expect_error(ValueError):
        cache_grid(["a", "b"], allowed)


def test_a_long_text_is_told_without_a_grid():
    trained = speaker()
    told = str(explained(trained, text_of(trained, 39)))
    assert "a grid is drawn of texts of up to 31 tokens" in told and "40 × 40" in told
    short = str(explained(trained, text_of(trained, 5)))
    assert " 5 " in short and "# # # # # #" in short and "\x1b" not in short
    assert all(len(line) <= 100 for line in short.splitlines())


def test_rows_are_counted_in_parts_as_in_the_whole_map():
    mask = speaker(mask="causal & window(7)").model.mask
    whole = mask(range(600), range(600))
    assert torch.equal(row_counts(mask, 600), whole.sum(-1))


def test_bytes_are_said_in_their_unit():
    assert [size_of(n) for n in (0, 1023, 1024, 3 << 19)] == [
        "0 bytes",
        "1023 bytes",
        "1.0 KiB",
        "1.5 MiB",
    ]
