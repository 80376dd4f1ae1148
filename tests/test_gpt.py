"""The language model: one pass or many give one answer, padding is nowhere, words are GPT-2's."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from golden import expect_error
from regard.attention import attend
from regard.config import build, to_values
from regard.generation.sample import Generated, GenerationConfig, beam_search, greedy, sample
from regard.models import GPT, MODELS, GPTConfig
from strategies import chunkings, examples
from test_captioner import EXACT, LLAMA
from test_generate import BEGIN, END, SHUT, STOPS, THEIRS, as_they_say
from test_torch_oracles import scrambled

B, N, W, LENGTH = 3, 7, 11, 16  # texts, words of a text, vocabulary, places of a learned table

KINDS = {
    "gpt-2": {},
    "llama": LLAMA,
    "grouped": {"pos_embed": "sinusoidal", "heads": 4, "kv_heads": 2},
    "window": {"mask": "causal & window(3)"},
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
EVERY_SIZE = pytest.mark.parametrize("size", [None, LENGTH], ids="size={}".format)


def made(**fields) -> GPT:
    """A small model with every number drawn anew."""
    fields = {
        "width": 16,
        "layers": 2,
        "heads": 2,
        "vocab_size": W,
        "context_length": LENGTH,
    } | fields
    return scrambled(GPT(GPTConfig(**fields)), torch.float64)


def texts(rows: int = B, n: int = N) -> Tensor:
    return torch.randint(W, (rows, n))


# One pass or many


@EVERY_SIZE
@EVERY_KIND
@given(st.data())
@examples(15)
def test_any_chunking_through_the_caches_equals_the_one_shot_pass(kind, size, data):
    model, words = made(**KINDS[kind]), texts()
    once = model(words)
    caches = model.new_caches(size)
    tensors = data.draw(st.booleans())  # a cache with a size wants one or the other throughout
    for chunk in data.draw(chunkings(N)):
        if size is None:
            tensors = data.draw(st.booleans())
        out = model.next_token_logits(
            words[:, chunk], positions=torch.tensor(chunk) if tensors else chunk, caches=caches
        )
        torch.testing.assert_close(out, once[:, chunk], **EXACT)


@EVERY_KIND
def test_the_pass_is_that_of_the_plain_blocks(kind):
    model, words = made(**KINDS[kind]), texts()
    plain = GPT(model.config, attention=attend).double().eval()
    plain.load_state_dict(model.state_dict())
    x = plain.pos_embed.embed(plain.token_embedding(words), range(N))
    for block in plain.blocks:
        x = block(x, positions=range(N))
    table = plain.token_embedding if plain.lm_head is None else plain.lm_head
    torch.testing.assert_close(model(words), plain.norm(x) @ table.weight.T, **EXACT)


@EVERY_SIZE
@EVERY_KIND
def test_steps_follow_a_reordering_and_the_loss_of_a_text(kind, size):
    model, first, second, third = made(**KINDS[kind]), texts(n=3), texts(6, 1), texts(4, 1)
    state = model.empty_state(B, size=size)
    torch.testing.assert_close(model.decode(first, state), model(first)[:, -1], **EXACT)
    rows = torch.tensor([[0, 0], [1, 1], [2, 2]])
    state.reorder(rows)
    assert len(state) == 6
    written = torch.cat([first[rows.flatten()], second], 1)
    torch.testing.assert_close(model.decode(second, state), model(written)[:, -1], **EXACT)

    rows = torch.tensor([[1, 0], [5, 5]])  # the prompt in the middle leaves
    state.reorder(rows)
    assert len(state) == 4 and state.length == 4
    written = torch.cat([written[rows.flatten()], third], 1)
    torch.testing.assert_close(model.decode(third, state), model(written)[:, -1], **EXACT)


def test_texts_are_begun_in_caches_of_the_length_that_learned_positions_have():
    state = made().new_state(B)
    assert len(state) == B and {cache.attention.size for cache in state.caches} == {LENGTH}
    assert all(cache.cross is None for cache in state.caches)
    assert {cache.attention.size for cache in made(pos_embed="rope").new_state(B).caches} == {None}


@torch.no_grad()
def test_a_window_needs_no_more_room_than_it_reaches():
    model, words = made(mask="causal & window(3)"), texts(n=12)
    once, state, rows = model(words), model.empty_state(B, size=3), torch.arange(B)
    for at in range(12):
        if at in (2, 7):
            turned = torch.tensor([1, 2, 0])
            state.reorder(turned[:, None])
            words, once, rows = words[turned], once[turned], rows[turned]
        out = model.decode(words[:, at : at + 1], state)
        torch.testing.assert_close(out, once[:, at], **EXACT)
    assert {len(cache.attention) for cache in state.caches} == {3}


def test_gradients_through_growing_caches_are_those_of_the_one_shot_pass():
    model, words, up = made(), texts(), torch.randn(B, N, W, dtype=torch.float64)
    caches = model.new_caches()
    parts = [
        model.next_token_logits(words[:, chunk], positions=chunk, caches=caches)
        for chunk in (range(3), range(3, 4), range(4, N))
    ]
    slopes = [
        torch.autograd.grad((out * up).sum(), list(model.parameters()))
        for out in (torch.cat(parts, 1), model(words))
    ]
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


# Padding


@EVERY_KIND
def test_padding_is_nowhere_wherever_it_stands(kind):
    model, words = made(**KINDS[kind]), texts(1, 4)
    alone = model(words)
    for at in ([0, 1, 2, 3], [3, 4, 5, 6], [0, 2, 5, 6]):
        padded, positions = texts(1), torch.full((1, N), -1)
        padded[:, at], positions[:, at] = words, torch.arange(4)
        torch.testing.assert_close(model(padded, positions=positions)[:, at], alone, **EXACT)


@torch.no_grad()
@EVERY_SIZE
@EVERY_KIND
def test_texts_of_several_lengths_go_on_side_by_side(kind, size):
    model, words, more = made(**KINDS[kind]), texts(), texts(n=2)
    padding = torch.tensor([3, 0, 6])
    where = (torch.arange(N) - padding[:, None]).clamp(min=-1)
    caches = model.new_caches(size)
    out = [model.next_token_logits(words, positions=where, caches=caches)[:, -1]]
    for at in range(2):
        where = where[:, -1:] + 1
        out.append(
            model.next_token_logits(more[:, at : at + 1], positions=where, caches=caches)[:, 0]
        )
    for row, skipped in enumerate(padding.tolist()):
        alone = torch.cat([words[row, skipped:], more[row]])
        right = model(alone[None])[0, -3:]
        torch.testing.assert_close(torch.stack(out, 1)[row], right, **EXACT)


# The words of GPT-2


def gpt2() -> tuple[GPT, nn.Module]:
    """Theirs and ours with weights so large that texts differ and end at all lengths."""
    pytest.importorskip("transformers")
    from test_transformers_oracles import gpt2 as small

    ours, theirs, twins = small(torch.float64)
    with torch.no_grad():
        for p in theirs.parameters():
            if p.ndim > 1:
                p *= 2
        theirs.transformer.wte.weight[END] *= 1.5
        for mine, p, part in twins.pairs:
            mine.copy_(part(p))
    return ours, theirs


def their_texts(
    theirs: nn.Module, words: Tensor, real: Tensor, rules: GenerationConfig, *, said: int, **options
) -> tuple[list[list[int]], Tensor | None]:
    """What transformers writes, without the words that were said before, and its scores."""
    out = theirs.generate(
        words,
        attention_mask=real.long(),
        do_sample=False,
        max_new_tokens=rules.max_new_tokens,
        min_new_tokens=rules.min_new_tokens or None,
        no_repeat_ngram_size=rules.no_repeat_ngram_size,
        suppress_tokens=list(rules.suppress_tokens) or None,
        eos_token_id=END,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    rows = [row[: rules.max_new_tokens] for row in out.sequences[:, said:].tolist()]
    found = [row[: row.index(END) + 1] if END in row else row for row in rows]
    return found, getattr(out, "sequences_scores", None)


PROMPT, MORE = 4, 8  # together the length of the small GPT-2
LENGTHS = [*SHUT, {"min_new_tokens": MORE}]


def assert_says_much(texts: list[list[int]], rules: GenerationConfig) -> None:
    """A test says little of texts that are all one, or that never end."""
    assert len(set(map(tuple, texts))) > len(texts) / 5
    assert len(set(map(len, texts))) > 1 or rules.min_new_tokens == rules.max_new_tokens


@pytest.mark.parametrize("shut", LENGTHS, ids=str)
def test_greedy_words_are_transformers(shut):
    ours, theirs = gpt2()
    prompt, rules = (
        texts(60, PROMPT),
        GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=MORE, **shut),
    )
    right, _ = their_texts(theirs, prompt, torch.ones_like(prompt), rules, said=PROMPT)
    assert_says_much(right, rules)
    assert as_they_say(greedy(ours, 60, rules, prompt=prompt)) == right


@pytest.mark.parametrize("shut", LENGTHS, ids=str)
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("penalty", [1.0, 0.0], ids="length_penalty={}".format)
def test_beams_are_transformers_word_for_word(shut, stop, penalty):
    ours, theirs = gpt2()
    prompt, rules = (
        texts(40, PROMPT),
        GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=MORE, **shut),
    )
    right, scores = their_texts(
        theirs,
        prompt,
        torch.ones_like(prompt),
        rules,
        said=PROMPT,
        num_beams=3,
        num_return_sequences=2,
        length_penalty=penalty,
        early_stopping=THEIRS[stop],
    )
    found = beam_search(
        ours, 40, rules, beams=3, length_penalty=penalty, stop=stop, texts=2, prompt=prompt
    )
    assert_says_much(right, rules)
    assert as_they_say(found) == right
    found_scores = torch.tensor(found.scores, dtype=scores.dtype)
    torch.testing.assert_close(found_scores, scores, rtol=1e-4, atol=1e-4)


@EVERY_KIND
def test_sampled_texts_have_the_chances_that_the_one_shot_pass_gives_them(kind):
    model, prompt = made(**KINDS[kind]), texts(4, 3)
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=9, suppress_tokens=(0,))

    def draw(seed: int, **options) -> Generated:
        generator = torch.Generator().manual_seed(seed)
        return sample(model, 4, rules, texts=3, prompt=prompt, generator=generator, **options)

    found = draw(1)
    assert found == draw(1) and found.tokens != draw(2).tokens
    for i, (text, score) in enumerate(zip(as_they_say(found), found.scores, strict=True)):
        whole = torch.tensor([[*prompt[i // 3].tolist(), *text]])
        with torch.no_grad():
            chances = model(whole[:, :-1])[0, 2:].log_softmax(-1)
        right = chances.gather(-1, whole[0, 3:, None]).sum().item()
        assert score == pytest.approx(right, rel=1e-9)
    likeliest = [words for words in greedy(model, 4, rules, prompt=prompt).tokens for _ in "123"]
    assert draw(1, top_k=1).tokens == likeliest


def test_without_a_prompt_a_text_starts_from_its_begin_and_no_texts_are_none():
    model, rules = (
        made(),
        GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=5, min_new_tokens=5),
    )
    begin = torch.full((2, 1), BEGIN)
    assert greedy(model, 2, rules) == greedy(model, 2, rules, prompt=begin)
    for search in (greedy, beam_search, sample):
        assert search(model, 0, rules) == Generated([], [], [], [])


# The table, and mistakes


def test_the_table_builds_one_that_learns_in_all_its_parts():
    model = MODELS["gpt"].build(width=16, layers=2, heads=2, vocab_size=W, context_length=N)
    assert type(model) is GPT and model.config == GPTConfig(
        width=16, layers=2, heads=2, vocab_size=W, context_length=N
    )
    words = texts(8)
    loss = nn.functional.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
    loss.backward()
    for name, p in model.named_parameters():
        assert p.grad is not None and torch.isfinite(p.grad).all(), name
        assert p.ndim < 2 or p.grad.any(), name  # that of a key's bias is 0 but for rounding


@EVERY_KIND
def test_a_configuration_survives_being_written_down(kind):
    config = made(**KINDS[kind]).config
    assert build(GPTConfig, to_values(config)) == config


def test_a_grid_with_fewer_places_than_a_text_has_words_is_refused_with_one_that_has_enough():
    with expect_error(ValueError):
        made(mask="causal & (axial((6, 3)) | axial((4, 3)))")
    for grid in ((4, 4), (6, 3), (9, 9)):  # places that no word takes do no harm
        assert made(mask=f"causal & axial({grid})").mask.grids() == {grid}


@pytest.mark.parametrize(
    "mask", ["window(3)", "causal | window(2)", "causal & window(3) | sinks(1) | prefix(4)"]
)
def test_a_mask_that_can_read_the_future_is_refused_with_one_that_cannot(mask):
    with expect_error(ValueError):
        made(mask=mask)
    model, words = made(mask=f"causal & ({mask})"), texts()
    changed = words.clone()
    changed[:, -1] = (words[:, -1] + 1) % W
    assert torch.equal(model(words)[:, :-1], model(changed)[:, :-1])


def test_past_the_length_of_learned_positions_there_is_one_sentence():
    model, words = made(context_length=N), texts()
    with expect_error(ValueError):
        model(texts(n=N + 1))
    rules = GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=5, min_new_tokens=5)
    prompt = words[:, :3]  # with the first four words of five, the table is full
    assert {len(text) for text in greedy(model, B, rules, prompt=prompt).tokens} == {5}
    for search in (greedy, beam_search, sample):
        with expect_error(ValueError):
            search(model, B, rules, prompt=words[:, :4])
    with expect_error(ValueError):  # all at once
        greedy(model, B, rules, prompt=texts(n=N + 1))

    endless = made(context_length=N, pos_embed="rope")
    assert {len(text) for text in greedy(endless, B, rules, prompt=words).tokens} == {5}


def test_words_for_another_number_of_texts_are_refused():
    for fields in KINDS.values():
        model = made(**fields)
        for written in (0, 2):
            for n in (1, 2):
                state = model.new_state(B)
                if written:
                    model.decode(texts(n=written), state)
                with pytest.raises(ValueError, match="words for 6 texts, and 3 are being written"):
                    model.decode(texts(6, n), state)
    with expect_error(ValueError):
        made().next_token_logits(texts(), caches=made().new_caches())


@pytest.mark.parametrize("no_repeat", [0, 1, 3])
@EVERY_KIND
def test_prompts_of_different_lengths_are_gone_on_with_as_if_alone(kind, no_repeat):
    model = made(**KINDS[kind])
    prompts = [[3, 4, 5, 6], [7], [3, 4]]
    rules = GenerationConfig(
        bos_id=BEGIN, eos_id=END, max_new_tokens=9, no_repeat_ngram_size=no_repeat
    )
    beams = {"beams": 3, "texts": 2}
    together = greedy(model, 3, rules, prompt=prompts)
    searched = beam_search(model, 3, rules, prompt=prompts, **beams)
    for at, prompt in enumerate(prompts):
        alone = greedy(model, 1, rules, prompt=torch.tensor([prompt]))
        assert together.tokens[at] == alone.tokens[0]
        assert together.scores[at] == pytest.approx(alone.scores[0], abs=1e-5)
        both = beam_search(model, 1, rules, prompt=[prompt], **beams)
        assert searched.tokens[2 * at : 2 * at + 2] == both.tokens
        assert searched.scores[2 * at : 2 * at + 2] == pytest.approx(both.scores, abs=1e-5)


def test_prompts_are_one_for_each_text_and_have_words():
    model, rules = made(), GenerationConfig(bos_id=BEGIN, eos_id=END)
    for prompts in ([[3]], [[3], []], [[], []]):
        with expect_error(ValueError):
            greedy(model, 2, rules, prompt=prompts)
