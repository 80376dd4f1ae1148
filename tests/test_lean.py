"""Steps past the blocks are the steps through them, or are not taken."""

import pytest
import torch
from torch import nn

import test_captioner
import test_gpt
import test_seq2seq
from regard.attention import attend, watch
from regard.generation import fused_decode as module
from regard.generation.fused_decode import product
from regard.models import GPT, Captioner, Decoder, DecodingState, Seq2Seq
from test_captioner import EXACT, features
from test_torch_oracles import padded

MODELS = {
    "captioner": test_captioner.made,
    "gpt": test_gpt.made,
    "seq2seq": test_seq2seq.made,
}
LEAN = {
    "gpt": {},
    "2017": {
        "norm_first": False,
        "init": "xavier_uniform",
        "pos_embed": "sinusoidal",
        "scale_embeddings": True,
    },
    "grouped": {"pos_embed": "none", "kv_heads": 1},
    "rope": {"pos_embed": "rope", "kv_heads": 1},
    "gated": {"norm": "rmsnorm", "activation": "swiglu", "bias": False, "tie_embeddings": False},
}
BLOCKS = [{"mask": "causal & window(3)"}]

EVERY_MODEL = pytest.mark.parametrize("model", MODELS)


def started(model: Decoder, size: int | None = None) -> DecodingState:
    """Three empty texts, in caches that grow unless there is a size."""
    if isinstance(model, GPT):
        return model.empty_state(3, size=size)
    if isinstance(model, Seq2Seq):
        source = test_seq2seq.sources(ragged=False)
        return model.empty_state(3, model.encode(source), model.where(source), size=size)
    return model.empty_state(3, features(3), size=size)


@torch.inference_mode()
def written(model: Decoder, *, lean: bool, size: int | None = None) -> list[torch.Tensor]:
    """The scores of eight steps, in which texts multiply, change places and leave."""
    torch.manual_seed(0)
    state = started(model, size)
    assert state.lean
    state.lean = lean
    out = []
    for step in range(8):
        out.append(model.decode(torch.randint(model.config.vocab_size, (len(state), 1)), state))
        if step == 1:
            state.reorder(torch.tensor([[0, 0], [1, 1], [2, 2]]))
        if step == 3:
            state.reorder(torch.tensor([[1, 0], [2, 2], [5, 4]]))
        if step == 5:
            state.reorder(torch.tensor([[0, 1], [5, 5]]))
    return out


@EVERY_MODEL
@pytest.mark.parametrize("kind", LEAN)
@pytest.mark.parametrize("size", [None, 8], ids="size={}".format)
def test_lean_steps_are_those_of_the_blocks(size, kind, model):
    made = MODELS[model](**LEAN[kind])
    lean, right = (written(made, lean=lean, size=size) for lean in (True, False))
    for one, other in zip(lean, right, strict=True):
        torch.testing.assert_close(one, other, **EXACT)
    if size is not None:  # nor does the room that a cache has change what is written
        for one, other in zip(lean, written(made, lean=False), strict=True):
            torch.testing.assert_close(one, other, **EXACT)


@EVERY_MODEL
@torch.inference_mode()
def test_a_prompt_goes_through_the_blocks_and_single_words_past_them(model, monkeypatch):
    made, passes = MODELS[model](), []
    read = made.hidden_states
    monkeypatch.setattr(made, "hidden_states", lambda *args: passes.append(1) or read(*args))
    for size in (None, 8):
        del passes[:]
        state = started(made, size)
        words = torch.randint(made.config.vocab_size, (3, 6))
        made.decode(words[:, :4], state)
        for at in (4, 5):
            out = made.decode(words[:, at : at + 1], state)
        assert len(passes) == 1
        right = made.next_token_logits(
            words, state.context, context_positions=state.context_positions
        )
        torch.testing.assert_close(out, right[:, -1], **EXACT)


@EVERY_MODEL
@pytest.mark.parametrize("size", [None, 8], ids="size={}".format)
def test_observers_see_what_they_see_through_the_blocks(size, model):
    made = MODELS[model](layers=2)
    seen = {}
    for lean in (True, False):
        with watch(made, "blocks.*") as watched:
            written(made, lean=lean, size=size)
        seen[lean] = watched
    layers = 2 if model == "gpt" else 4  # each of the others also reads a context
    assert len(list(seen[True])) == len(list(seen[False])) == layers
    for name in seen[True]:
        calls = zip(seen[True].calls(name), seen[False].calls(name), strict=True)
        for mine, right in calls:
            torch.testing.assert_close(mine.weights(), right.weights(), **EXACT)
    plain = written(made, lean=True, size=size)
    with watch(made, "blocks.*"):
        assert all(map(torch.equal, plain, written(made, lean=True, size=size)))


@EVERY_MODEL
@pytest.mark.parametrize("fields", BLOCKS, ids=str)
def test_what_only_blocks_can_do_is_left_to_them(fields, model):
    made = MODELS[model](**fields)
    assert not started(made).lean


def test_nobody_who_listens_or_stands_in_is_passed_over():
    model = test_captioner.made(tie_embeddings=False)
    assert started(model).lean
    for part in (model.blocks[1].mlp.fc2, model.norm, model.lm_head):
        hook = part.register_forward_hook(lambda *_: None)
        assert not started(model).lean
        hook.remove()
        assert started(model).lean
    model.train()
    assert not started(model).lean
    model.eval()
    model.blocks[0].cross.to_q = nn.Sequential(model.blocks[0].cross.to_q)
    assert not started(model).lean
    assert not started(Captioner(model.config, attention=attend).eval()).lean


def test_a_layer_that_scores_words_with_a_bias_is_heard():
    model = test_gpt.made(tie_embeddings=False)
    biased = nn.Linear(model.config.width, model.config.vocab_size).double()
    model.lm_head = biased
    with torch.inference_mode():
        biased.bias[7] = 1000.0
        assert written_words(model) == [7] * 4


def test_numbers_may_be_narrowed_while_texts_are_written():
    model = test_gpt.made().float()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert written_words(model)  # packed float32 weights take no bfloat16


def written_words(model: GPT) -> list[int]:
    """The likeliest words that a GPT goes on with, in the first of three texts."""
    state, words = model.empty_state(3), torch.zeros(3, 1, dtype=torch.long)
    found = []
    for _ in range(4):
        words = model.decode(words, state).argmax(-1)[:, None]
        found.append(int(words[0]))
    return found


@torch.inference_mode()
def test_what_a_context_has_nowhere_is_not_read():
    """Nor does a context without anything to read make anything but zeros of itself."""
    torch.manual_seed(0)
    for where in (torch.tensor([0, 1, -1, 3, -1]), padded([5, 2, 0], 5)[0]):
        model, seen, words = test_captioner.made(), features(3), torch.randint(11, (3, 6))
        scores = {}
        for lean in (True, False):
            state = model.new_state(seen, where)
            assert state.lean
            state.lean = lean
            scores[lean] = torch.stack(
                [model.decode(words[:, at : at + 1], state) for at in range(6)], 1
            )
        torch.testing.assert_close(scores[True], scores[False], **EXACT)
        torch.testing.assert_close(
            scores[True], model(seen, words, context_positions=where), **EXACT
        )


@EVERY_MODEL
def test_gradients_come_back_through_the_blocks(model):
    made = MODELS[model]()
    state = started(made)
    made.decode(torch.randint(made.config.vocab_size, (3, 2)), state)
    made.decode(torch.randint(made.config.vocab_size, (3, 1)), state).sum().backward()
    assert all(weight.grad is not None for weight in made.blocks.parameters())


@EVERY_MODEL
@pytest.mark.parametrize("rows", [1, 3])
def test_copies_of_weights_that_a_cpu_likes_compute_the_same(rows, model, monkeypatch):
    """In float32, which alone is packed; the other tests are in float64."""
    made = MODELS[model]().float()
    table = made.token_embedding.weight
    if made.lm_head is not None:
        table = made.lm_head.weight
    x = torch.randn(rows, made.config.width)
    for weight, bias in [
        (table, None),
        *((part.weight, part.bias) for part in made.blocks.modules() if type(part) is nn.Linear),
    ]:
        x = torch.randn(rows, weight.shape[1])
        right = nn.functional.linear(x, weight, bias)
        torch.testing.assert_close(product(weight, bias, rows)(x), right, rtol=1e-5, atol=1e-6)
        with monkeypatch.context() as patch:
            patch.setattr(module, "can_pack", lambda: False)
            torch.testing.assert_close(product(weight, bias, rows)(x), right, rtol=1e-5, atol=1e-6)


@EVERY_MODEL
def test_weights_may_change_between_texts(model):
    made = MODELS[model]()
    before = written(made, lean=True)
    made.blocks[0].attention.to_k.weight.data *= 2  # which no version counter notices
    after = written(made, lean=True)
    assert not torch.equal(before[3], after[3])
    for lean, right in zip(after, written(made, lean=False), strict=True):
        torch.testing.assert_close(lean, right, **EXACT)
