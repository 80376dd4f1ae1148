"""Writing: fast searches say what slow ones and transformers' say, word for word."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from golden import expect_error
from regard.attention import watch
from regard.generation.sample import (
    Generated,
    GenerationConfig,
    beam_search,
    greedy,
    narrowed,
    sample,
)
from regard.inspection.caption_maps import caption_maps
from regard.models import Captioner
from strategies import examples
from test_captioner import gpt2, made

BEGIN, END, W = 1, 2, 30


class Chain:
    """The simplest writer: an item's tables, one a step, say which word follows which."""

    def __init__(self) -> None:
        self.sizes: list[int] = []  # rows at each step

    def new_state(self, tables: Tensor) -> "ChainTexts":
        return ChainTexts(tables)

    def decode(self, words: Tensor, state: "ChainTexts") -> Tensor:
        self.sizes.append(len(words))
        assert len(words) == len(state)
        state.steps += 1
        return state.tables[state.items, state.steps - 1, words[:, -1]]


class ChainTexts:
    device = torch.device("cpu")

    def __init__(self, tables: Tensor) -> None:
        self.tables, self.items, self.steps = tables, torch.arange(len(tables)), 0

    def __len__(self) -> int:
        return len(self.items)

    def reorder(self, rows: Tensor) -> None:
        items = self.items[rows]
        assert (items == items[:, :1]).all(), "texts of an item stay together"
        assert (items[1:, 0] > items[:-1, 0]).all(), "items keep their order"
        self.items = items.flatten()


def tables(items: int, words: int = 6, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    # One table for all steps would give texts with the same pairs of words the same score.
    return 2 * torch.randn(items, 10, words, words, dtype=torch.float64, generator=generator)


def writer(**fields) -> Captioner:
    """A captioner whose words hang on the image, so that texts differ and end at all lengths."""
    model = made(vocab_size=12, tie_embeddings=False, **fields)
    for block in model.blocks:
        block.cross.to_out.weight.data *= 4
        block.mlp_norm.bias.data *= 0  # what every word has in common is taken away
    if model.config.norm_first:
        model.norm.bias.data *= 0
    model.lm_head.weight.data[END] *= 2
    return model


def plain_beam_search(
    logits_after, rules: GenerationConfig, beams: int, penalty: float, stop: str
) -> list[tuple[float, list[int]]]:
    """One item, every draft read anew from its first word, every continuation sorted."""
    drafts, done = [(0.0, [rules.bos_id])], []
    for length in range(1, rules.max_new_tokens + 1):
        every = []
        for total, text in drafts:
            chances = logits_after(text).log_softmax(-1).tolist()
            shut = set(rules.suppress_tokens)
            if length - 1 < rules.min_new_tokens:
                shut.add(rules.eos_id)
            if n := rules.no_repeat_ngram_size:
                runs = {tuple(text[at : at + n]) for at in range(len(text) - n + 1)}
                shut |= {w for w in range(len(chances)) if (*text[len(text) + 1 - n :], w) in runs}
            if len(shut) == len(chances):
                shut.remove(rules.eos_id)
            every += [(total + c, [*text, w]) for w, c in enumerate(chances) if w not in shut]
        every.sort(key=lambda draft: -draft[0])
        drafts = []
        for rank, (total, text) in enumerate(every[: 2 * beams]):
            if text[-1] != rules.eos_id and length < rules.max_new_tokens:
                drafts.append((total, text))
            elif rank < beams:
                done.append((total / length**penalty, text[1:]))
        drafts = drafts[:beams]
        done = sorted(done, key=lambda one: -one[0])[:beams]
        if not drafts:
            break
        if len(done) == beams:
            far = rules.max_new_tokens if stop == "proven" and penalty > 0 else length
            if stop == "first" or drafts[0][0] / far**penalty <= done[-1][0]:
                break
    return done


def as_they_say(generated: Generated) -> list[list[int]]:
    """The texts with their ends, as the plain search and transformers have them."""
    pairs = zip(generated.tokens, generated.finished, strict=True)
    return [[*words, END] if finished else words for words, finished in pairs]


FIELDS = st.fixed_dictionaries(
    {
        "max_new_tokens": st.integers(1, 7),
        "min_new_tokens": st.integers(0, 4),
        "no_repeat_ngram_size": st.integers(0, 3),
        "suppress_tokens": st.sampled_from([(), (0,), (0, 1)]),
    }
).filter(lambda fields: fields["min_new_tokens"] <= fields["max_new_tokens"])
STOPS = ("first", "likely", "proven")


@given(
    FIELDS,
    st.integers(1, 5),
    st.sampled_from([-0.5, 0.0, 0.6, 1.0, 2.0]),
    st.sampled_from(STOPS),
    st.integers(0, 1000),
)
@examples(150)
def test_beam_search_is_the_plain_one_on_any_chain(fields, beams, penalty, stop, seed):
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END, **fields)
    chains = tables(3, seed=seed)
    found = beam_search(
        Chain(), chains, rules, beams=beams, length_penalty=penalty, stop=stop, texts=beams
    )
    said = iter(zip(as_they_say(found), found.scores, strict=True))
    for chain in chains:
        right = plain_beam_search(
            lambda text, c=chain: c[len(text) - 1, text[-1]], rules, beams, penalty, stop
        )
        for score, text in right:
            words, value = next(said)
            assert words == text and value == pytest.approx(score, rel=1e-12)
        for _ in range(beams - len(right)):
            assert next(said) == ([], -math.inf)


@pytest.mark.parametrize("kind", [{}, {"pos_embed": "rope", "norm_first": False}], ids=str)
@pytest.mark.parametrize("stop", STOPS)
def test_beam_search_through_the_caches_is_the_plain_one_without(kind, stop):
    model = writer(**kind)
    context = torch.randn(6, 5, 6, dtype=torch.float64)
    rules = GenerationConfig(
        bos_id=BEGIN,
        eos_id=END,
        max_new_tokens=9,
        min_new_tokens=1,
        no_repeat_ngram_size=2,
        suppress_tokens=(0,),
    )
    found = beam_search(model, context, rules, beams=3, length_penalty=0.2, stop=stop, texts=2)
    assert kind or len(set(map(len, found.tokens))) > 2  # items did leave at different steps
    said = as_they_say(found)
    with torch.no_grad():
        for i in range(6):
            image = context[i : i + 1]
            right = plain_beam_search(
                lambda text, image=image: model(image, torch.tensor([text]))[0, -1],
                rules,
                3,
                0.2,
                stop,
            )
            assert said[2 * i : 2 * i + 2] == [text for _, text in right[:2]]
            assert found.scores[2 * i] == pytest.approx(right[0][0], rel=1e-10)


@pytest.mark.parametrize("penalty", [0.0, 1.0, -1.0])
def test_with_beams_enough_the_search_finds_the_best_of_all_texts(penalty):
    chains, longest = tables(4, words=4), 4
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=longest)
    found = beam_search(
        Chain(), chains, rules, beams=4**longest, length_penalty=penalty, stop="proven"
    )
    for chain, words, score in zip(
        chains.log_softmax(-1), as_they_say(found), found.scores, strict=True
    ):
        best = max(
            (
                sum(
                    chain[at, a, b].item()
                    for at, (a, b) in enumerate(itertools.pairwise((BEGIN, *text)))
                )
                / len(text) ** penalty,
                text,
            )
            for length in range(1, longest + 1)
            for text in itertools.product(range(4), repeat=length)
            if END not in text[:-1] and (text[-1] == END or length == longest)
        )
        assert tuple(words) == best[1] and score == pytest.approx(best[0])


@pytest.mark.parametrize("beams", [2, 3, 5])
def test_a_listener_to_beams_hears_only_words_that_stay(beams):
    rules, heard = GenerationConfig(bos_id=0, eos_id=1, max_new_tokens=9), {}

    def listen(item, words):
        heard.setdefault(item, []).append(words)

    out = beam_search(Chain(), tables(40, seed=3), rules, beams=beams, listen=listen)
    assert out == beam_search(Chain(), tables(40, seed=3), rules, beams=beams)
    for item, grown in heard.items():
        for less, more in itertools.pairwise([[], *grown, out.tokens[item]]):
            assert more[: len(less)] == less
    sooner = [item for item, grown in heard.items() if any(grown)]
    assert len(sooner) > 10  # it is not all kept for the end


def test_one_beam_is_greedy():
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=8)
    one = beam_search(Chain(), tables(20), rules, beams=1, length_penalty=0.0, stop="first")
    likeliest = greedy(Chain(), tables(20), rules)
    assert one.tokens == likeliest.tokens and one.finished == likeliest.finished
    assert one.scores == pytest.approx(likeliest.scores)
    assert one.rows == likeliest.rows


# transformers


THEIRS = {"first": True, "likely": False, "proven": "never"}
SHUT = [
    {},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3, "min_new_tokens": 2},
    {"suppress_tokens": (0, 1, 7), "min_new_tokens": 2},
]


def their_words(
    theirs, context: Tensor, rules: GenerationConfig, **options
) -> tuple[list[list[int]], list]:
    begin = torch.full((len(context), 1), BEGIN)
    out = theirs.generate(
        begin,
        attention_mask=torch.ones_like(begin),
        encoder_hidden_states=context,
        do_sample=False,
        max_new_tokens=rules.max_new_tokens,
        min_new_tokens=rules.min_new_tokens or None,
        no_repeat_ngram_size=rules.no_repeat_ngram_size,
        suppress_tokens=list(rules.suppress_tokens) or None,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    texts = []
    for row in out.sequences[:, 1:].tolist():
        texts.append(row[: row.index(END) + 1] if END in row else row[: rules.max_new_tokens])
    return texts, getattr(out, "sequences_scores", None)


@pytest.mark.parametrize("shut", SHUT, ids=str)
def test_greedy_words_are_transformers(shut):
    ours, theirs, _ = gpt2(words=W)
    context = torch.randn(60, 5, 12)
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=12, **shut)
    right, _ = their_words(theirs, context, rules)
    assert len(set(map(len, right))) > 1  # the test would say little of texts that never end
    assert as_they_say(greedy(ours, context, rules)) == right


@pytest.mark.parametrize("shut", SHUT, ids=str)
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("penalty", [1.0, 0.0, 2.0, -1.0], ids="length_penalty={}".format)
def test_beams_are_transformers_word_for_word(shut, stop, penalty):
    ours, theirs, _ = gpt2(words=W)
    context = torch.randn(40, 5, 12)
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=12, **shut)
    right, scores = their_words(
        theirs,
        context,
        rules,
        num_beams=4,
        num_return_sequences=3,
        length_penalty=penalty,
        early_stopping=THEIRS[stop],
    )
    found = beam_search(ours, context, rules, beams=4, length_penalty=penalty, stop=stop, texts=3)
    assert len(set(map(len, right))) > 1 or penalty > 1
    assert as_they_say(found) == right
    torch.testing.assert_close(torch.tensor(found.scores), scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("top_k", [None, 1, 3, 50])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.5, 0.01])
def test_narrowing_leaves_the_words_that_transformers_leave(top_k, top_p):
    transformers = pytest.importorskip("transformers")
    scores = right = 2 * torch.randn(20, W, dtype=torch.float64)
    if top_k is not None:
        right = transformers.TopKLogitsWarper(top_k)(None, right)
    if top_p < 1:
        right = transformers.TopPLogitsWarper(top_p)(None, right)
    assert torch.equal(narrowed(scores, top_k, top_p), right)


# Where it looked


@pytest.mark.parametrize("beams", [1, 4])
def test_maps_of_a_finished_text_are_the_weights_it_was_written_with(beams):
    model = writer(layers=3)
    context = torch.randn(5, 7, 6, dtype=torch.float64)
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=9, suppress_tokens=(0,))
    texts = min(2, beams)
    with watch(model, "blocks.*.cross") as seen:
        found = beam_search(model, context, rules, beams=beams, length_penalty=0.0, texts=texts)
    assert len({len(words) for words in found.tokens}) > 1
    maps = caption_maps(model, context, found.tokens, begin=BEGIN)
    longest = max(map(len, found.tokens))
    assert maps.shape == (5 * texts, 3, 2, longest + 1, 7)
    for text, (words, rows) in enumerate(zip(found.tokens, found.rows, strict=True)):
        assert len(rows) == len(words) + found.finished[text]
        for step, row in enumerate(rows):
            for layer in range(3):
                call = seen.calls(f"blocks.{layer}.cross")[step]
                recorded = call.weights().movedim(-2, 1).flatten(0, 1)[row]  # (b k) h m
                torch.testing.assert_close(maps[text, layer, :, step], recorded, rtol=0, atol=1e-12)
        assert not maps[text, :, :, len(words) + 1 :].any()


@pytest.mark.parametrize("texts", [1, 3], ids="texts={}".format)
def test_rows_of_sampled_texts_lead_to_their_weights_too(texts):
    model = writer()
    context = torch.randn(5, 7, 6, dtype=torch.float64)
    with watch(model, "blocks.1.cross") as seen:
        found = sample(
            model,
            context,
            GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=9),
            texts=texts,
        )
    assert len(set(map(len, found.tokens))) > 1
    maps = caption_maps(model, context, found.tokens, begin=BEGIN)
    for text, rows in enumerate(found.rows):
        for step, row in enumerate(rows):
            weights = seen.calls("blocks.1.cross")[step].weights()
            recorded = weights.movedim(-2, 1).flatten(0, 1)[row]  # (b k) h m
            torch.testing.assert_close(maps[text, 1, :, step], recorded, rtol=0, atol=1e-12)


# Batches


SEARCHES = {
    "greedy": greedy,
    "beams": lambda *a, **o: beam_search(*a, beams=3, **o),
    "beams, all": lambda *a, **o: beam_search(*a, beams=3, texts=3, **o),
}


@pytest.mark.parametrize("how", SEARCHES)
def test_an_item_does_not_feel_its_neighbours(how):
    chains, rules = (
        tables(7),
        GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=6, no_repeat_ngram_size=2),
    )
    together = SEARCHES[how](Chain(), chains, rules)
    alone = [SEARCHES[how](Chain(), chains[i : i + 1], rules) for i in range(7)]
    for name in ("tokens", "scores", "finished"):
        assert getattr(together, name) == [one for a in alone for one in getattr(a, name)]
    assert SEARCHES[how](Chain(), chains[:0], rules) == Generated([], [], [], [])


def test_finished_items_leave_the_batch():
    chains, rules = tables(30), GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=10)
    for search, rows in ((greedy, 1), (SEARCHES["beams"], 3)):
        writer = Chain()
        found = search(writer, chains, rules)
        assert writer.sizes[0] == 30 and writer.sizes[-1] < 30 * rows
        assert len(writer.sizes) == max(map(len, found.rows)) or rows > 1
    # A row is computed for each word of a greedy text, the end's too, and for nothing else.
    writer = Chain()
    found = greedy(writer, chains, rules)
    assert sum(writer.sizes) == sum(map(len, found.rows))


def test_a_prompt_is_continued_and_counts_for_repetition():
    model = writer()
    context, prompt = torch.randn(4, 5, 6, dtype=torch.float64), torch.tensor([[3, 4, 5]] * 4)
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=5, no_repeat_ngram_size=1)
    for search in SEARCHES.values():
        found = search(model, context, rules, prompt=prompt)
        each = len(found.tokens) // 4
        for i, words in enumerate(found.tokens):
            assert len({*prompt[i // each].tolist(), *words}) == 3 + len(words)
    whole = prompt
    for _ in range(5):
        with torch.no_grad():
            last = model(context, whole)[:, -1].scatter(-1, whole, -torch.inf)
        whole = torch.cat([whole, last.argmax(-1, keepdim=True)], 1)
    right = [row[: row.index(END)] if END in row else row for row in whole[:, 3:].tolist()]
    assert greedy(model, context, rules, prompt=prompt).tokens == right
    with expect_error(ValueError):
        greedy(model, context, rules, prompt=prompt[:3])


def test_a_text_that_may_say_nothing_more_ends():
    # Of three words, one begins, one ends and one is said: then nothing but the end is left.
    rules = GenerationConfig(
        bos_id=BEGIN, eos_id=END, max_new_tokens=9, min_new_tokens=5, no_repeat_ngram_size=1
    )
    for search in (greedy, lambda *a: beam_search(*a, beams=2)):
        found = search(Chain(), tables(4, words=3), rules)
        assert found.tokens == [[0]] * 4 and found.finished == [True] * 4


# By chance


def test_sampled_words_come_as_often_as_they_are_likely():
    chain = tables(2)
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=1)
    drawn = 20_000
    found = sample(
        Chain(),
        chain,
        rules,
        temperature=2.0,
        texts=drawn,
        generator=torch.Generator().manual_seed(3),
    )
    for item in range(2):
        texts = as_they_say(found)[item * drawn : (item + 1) * drawn]
        count = torch.zeros(6, dtype=torch.float64)
        for (word,) in texts:
            count[word] += 1
        right = (chain[item, 0, BEGIN] / 2).softmax(-1)
        error = (right * (1 - right) / drawn).sqrt()
        assert ((count / drawn - right).abs() < 4.5 * error).all()


def test_sampling_repeats_with_its_generator_and_scores_by_the_model_itself():
    model, rules = (
        writer(),
        GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=8, suppress_tokens=(0,)),
    )
    context = torch.randn(4, 5, 6, dtype=torch.float64)

    def draw(seed: int, **options) -> Generated:
        generator = torch.Generator().manual_seed(seed)
        return sample(model, context, rules, texts=3, generator=generator, **options)

    options = {"temperature": 3.0, "top_k": 10, "top_p": 0.9}
    found = draw(1, **options)
    assert found == draw(1, **options) and found.tokens != draw(2, **options).tokens
    assert all(0 not in words for words in found.tokens)
    for i, (text, score) in enumerate(zip(as_they_say(found), found.scores, strict=True)):
        with torch.no_grad():
            logits = model(context[i // 3 : i // 3 + 1], torch.tensor([[BEGIN, *text[:-1]]]))
        chances = logits[0].log_softmax(-1).gather(-1, torch.tensor(text)[:, None])
        assert score == pytest.approx(chances.sum().item(), rel=1e-9)

    likeliest = [words for words in greedy(model, context, rules).tokens for _ in range(3)]
    assert draw(1, top_k=1).tokens == draw(1, temperature=1e-6).tokens == likeliest
    assert draw(1, temperature=3.0, top_p=1e-9).tokens == likeliest


# Mistakes


@pytest.mark.parametrize(
    "fields",
    [
        {"max_new_tokens": 0},
        {"min_new_tokens": 9, "max_new_tokens": 8},
        {"no_repeat_ngram_size": -1},
        {"suppress_tokens": (5, END)},
    ],
    ids=str,
)
def test_rules_that_contradict_are_refused(fields):
    with expect_error(ValueError):
        GenerationConfig(bos_id=BEGIN, eos_id=END, **fields)


def test_wrong_options_are_refused_in_a_sentence():
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END)
    for options in ({"temperature": 0.0}, {"top_k": 0}, {"top_p": 1.5}, {"texts": 0}):
        with expect_error(ValueError):
            sample(Chain(), tables(1), rules, **options)
    with expect_error(ValueError):
        beam_search(Chain(), tables(1), rules, beams=3, texts=4)
    with expect_error(ValueError):
        greedy(Chain(), tables(1), GenerationConfig(bos_id=1, eos_id=6))
    model = writer().train()
    for search in (greedy, beam_search, sample):
        with expect_error(ValueError):
            search(model, torch.randn(1, 5, 6, dtype=torch.float64), rules)


@pytest.mark.parametrize("texts", [1, 3], ids="texts={}".format)
def test_a_listener_hears_every_word_of_every_text_as_it_comes(texts):
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=8)
    heard: dict[int, list[list[int]]] = {}

    def listen(text: int, words: list[int]) -> bool:
        heard.setdefault(text, []).append(list(words))
        return False

    options = {"texts": texts, "temperature": 0.7}
    draws = [torch.Generator().manual_seed(0) for _ in range(2)]
    alone = sample(Chain(), tables(4), rules, generator=draws[0], **options)
    out = sample(Chain(), tables(4), rules, generator=draws[1], listen=listen, **options)
    assert out == alone and any(out.finished)
    for text, words in enumerate(out.tokens):
        assert heard.get(text, []) == [words[: at + 1] for at in range(len(words))]


def test_a_text_ends_where_its_listener_says_and_leaves_the_others_alone():
    rules = GenerationConfig(
        bos_id=BEGIN, eos_id=END, max_new_tokens=8, min_new_tokens=8
    )  # which would never end
    whole = greedy(Chain(), tables(5), rules)
    assert all(len(words) == 8 for words in whole.tokens)
    chain = Chain()
    out = greedy(chain, tables(5), rules, listen=lambda text, words: len(words) == 2 + text)
    assert [len(words) for words in out.tokens] == [2, 3, 4, 5, 6] and all(out.finished)
    assert chain.sizes == [5, 5, 4, 3, 2, 1]  # who is told to stop leaves the batch at once
    for words, more in zip(out.tokens, whole.tokens, strict=True):
        assert words == more[: len(words)]
    steps = [len(rows) for rows in out.rows]
    assert steps == [2, 3, 4, 5, 6]


def test_a_text_that_several_wait_for_is_heard_no_more_once_it_has_ended():
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=6, min_new_tokens=6)
    calls: list[int] = []

    def listen(text: int, words: list[int]) -> bool:
        calls.append(text)
        return text == 0  # at its first word, while its brother goes on

    draw = torch.Generator().manual_seed(1)
    out = sample(Chain(), tables(1), rules, texts=2, generator=draw, listen=listen)
    assert [len(words) for words in out.tokens] == [1, 6]
    assert calls == [0, *[1] * 6] and out.finished == [True, False]
