"""Steps past the blocks are the steps through them, or are not taken."""

import pytest
import torch
from torch import nn

from regard.attention import attend, watch
from regard.model import Captioner
from regard.model.lean import prepare
from test_captioner import EXACT, features, made

LEAN = [
    {},
    {"order": "post", "init": "2017", "place": "sinusoidal", "scaled": True},
    {"place": "none", "groups": 1},
    {"norm": "rms", "feed_forward": "swiglu", "bias": False, "tied": False},
]
BLOCKS = [{"place": "rotary"}, {"mask": "causal & window(3)"}]


@torch.inference_mode()
def written(model: Captioner, *, lean: bool) -> list[torch.Tensor]:
    """The scores of eight steps, in which texts multiply, change places and leave."""
    torch.manual_seed(0)
    state = model.start(features(3))
    assert state.lean is not None
    state.lean = state.lean if lean else None
    out = []
    for step in range(8):
        out.append(model.step(torch.randint(model.config.words, (len(state), 1)), state))
        if step == 1:
            state.reorder(torch.tensor([[0, 0], [1, 1], [2, 2]]))
        if step == 3:
            state.reorder(torch.tensor([[1, 0], [2, 2], [5, 4]]))
        if step == 5:
            state.reorder(torch.tensor([[0, 1], [5, 5]]))
    return out


@pytest.mark.parametrize("fields", LEAN, ids=["gpt", "2017", "grouped", "gated"])
def test_lean_steps_are_those_of_the_blocks(fields):
    model = made(**fields)
    for lean, right in zip(written(model, lean=True), written(model, lean=False), strict=True):
        torch.testing.assert_close(lean, right, **EXACT)


def test_observers_see_what_they_see_through_the_blocks():
    model = made(layers=2)
    seen = {}
    for lean in (True, False):
        with watch(model, "decoder.*") as watched:
            written(model, lean=lean)
        seen[lean] = watched
    assert len(list(seen[True])) == len(list(seen[False])) == 4
    for name in seen[True]:
        calls = zip(seen[True].calls(name), seen[False].calls(name), strict=True)
        for mine, right in calls:
            torch.testing.assert_close(mine.weights(), right.weights(), **EXACT)
    plain = written(model, lean=True)
    with watch(model, "decoder.*"):
        assert all(map(torch.equal, plain, written(model, lean=True)))


@pytest.mark.parametrize("fields", BLOCKS, ids=str)
def test_what_only_blocks_can_do_is_left_to_them(fields):
    assert prepare(made(**fields).decoder) is None


def test_nobody_who_listens_or_stands_in_is_passed_over():
    model = made()
    assert prepare(model.decoder) is not None
    hook = model.decoder[1].feed_forward.to_out.register_forward_hook(lambda *_: None)
    assert prepare(model.decoder) is None
    hook.remove()
    assert prepare(model.decoder) is not None
    model.train()
    assert prepare(model.decoder) is None
    model.eval()
    model.decoder[0].cross.to_q = nn.Sequential(model.decoder[0].cross.to_q)
    assert prepare(model.decoder) is None
    assert prepare(Captioner(model.config, attention=attend).eval().decoder) is None


def test_places_that_may_be_nowhere_are_left_to_the_blocks():
    assert made().start(features(1), torch.tensor([[0, 1, -1, -1, -1]])).lean is None


def test_weights_may_change_between_texts():
    model = made()
    before = written(model, lean=True)
    model.decoder[0].attention.to_k.weight.data *= 2  # which no version counter notices
    after = written(model, lean=True)
    assert not torch.equal(before[3], after[3])
    for lean, right in zip(after, written(model, lean=False), strict=True):
        torch.testing.assert_close(lean, right, **EXACT)
