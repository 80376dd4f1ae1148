"""What hypothesis draws from: mask expressions, chunkings of a sequence, position schemes."""

from collections.abc import Callable
from itertools import pairwise

import torch
from hypothesis import HealthCheck, register_random, settings
from hypothesis import strategies as st
from torch import nn

from regard.attention import (
    MASKS,
    Mask,
    PositionalEncoding,
    alibi,
    causal,
    learned,
    relative_bias,
    rope,
    rope_2d,
    sinusoidal,
)


class TorchRandom:
    """torch's random numbers, so that hypothesis starts every example with the same ones."""

    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


TORCH_RANDOM = TorchRandom()
register_random(TORCH_RANDOM)  # held by name: hypothesis itself keeps only a weak reference


def examples(count: int) -> settings:
    """Draw `count` examples, or as many more as the profile draws by default beyond 100."""
    return settings(
        max_examples=count * settings.default.max_examples // 100,
        suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no fault of the code
    )


def _whole(least: int, most: int) -> st.SearchStrategy[int]:
    return st.integers(least, most)


GRIDS = st.tuples(_whole(1, 4), _whole(1, 4))

# Small arguments, so that every edge of every mask falls inside a map of some twenty tokens.
NAMED: dict[str, st.SearchStrategy[Mask]] = {
    "causal": st.just(causal),
    "window": st.builds(MASKS["window"], _whole(1, 8)),
    "dilated": st.builds(MASKS["dilated"], _whole(1, 4), _whole(1, 4)),
    "strided": st.builds(MASKS["strided"], _whole(1, 5)),
    "blocks": st.builds(MASKS["blocks"], _whole(1, 6)),
    "block_summary": st.integers(1, 6).flatmap(
        lambda size: st.builds(MASKS["block_summary"], st.just(size), _whole(1, size))
    ),
    "sinks": st.builds(MASKS["sinks"], _whole(0, 4)),
    "prefix": st.builds(MASKS["prefix"], _whole(0, 6)),
    "global_tokens": st.builds(MASKS["global_tokens"], _whole(0, 4)),
    "random_keys": st.builds(MASKS["random_keys"], _whole(1, 3), _whole(3, 14), _whole(0, 3)),
    "neighborhood": st.builds(MASKS["neighborhood"], _whole(0, 2), GRIDS),
    "axial": st.builds(MASKS["axial"], GRIDS),
    "grid_windows": st.integers(1, 4).flatmap(
        lambda size: st.builds(MASKS["grid_windows"], st.just(size), GRIDS, _whole(0, size - 1))
    ),
}


def masks(depth: int = 3) -> st.SearchStrategy[Mask]:
    """Any expression of named masks with at most `depth` operators above a name."""
    named = st.one_of(*NAMED.values())
    if depth == 0:
        return named
    inner = masks(depth - 1)
    return st.one_of(
        named,
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    )


def causal_masks(depth: int = 2) -> st.SearchStrategy[Mask]:
    """Expressions that imply causal: cut by `causal`, or reading nothing ahead by themselves."""
    any_mask = masks(depth)
    short_sighted = st.sampled_from(
        ["causal", "window(1)", "blocks(1)", "sinks(1)", "prefix(1)", "dilated(1, 3)"]
    ).map(Mask.parse)
    plain = st.one_of(
        short_sighted,
        st.builds(lambda a: causal & a, any_mask),
        st.builds(lambda a: a & causal, any_mask),
        st.builds(lambda a: ~(~causal | a), any_mask),
    )
    return st.one_of(plain, st.builds(lambda a, b: a | b, plain, plain))


def evicting_masks() -> st.SearchStrategy[Mask]:
    """Causal expressions under which old keys do fall out of reach."""
    near = st.one_of(NAMED["window"], NAMED["blocks"], NAMED["dilated"], NAMED["prefix"])
    old = st.one_of(NAMED["sinks"], NAMED["prefix"], near)
    return st.one_of(
        st.builds(lambda a: causal & a, near),
        st.builds(lambda a, b: causal & (a | b), near, old),
        st.builds(lambda a, b: causal & a & ~b, near, old),
    )


@st.composite
def chunkings(draw: st.DrawFn, length: int) -> list[range]:
    """A sequence of `length` tokens cut into consecutive pieces, none of them empty."""
    cuts = draw(st.sets(st.integers(1, length - 1))) if length > 1 else set()
    return [range(a, b) for a, b in pairwise([0, *sorted(cuts), length])]


# By name: (heads, width of the model, positions there may be) → the scheme.
PLACES: dict[str, Callable[[int, int, int], PositionalEncoding]] = {
    "none": lambda heads, width, length: PositionalEncoding(),
    "rope": lambda heads, width, length: rope(),
    "rotary_2d": lambda heads, width, length: rope_2d((3, 5)),  # some tokens are class tokens
    "alibi": lambda heads, width, length: alibi(heads),
    "relative_bias": lambda heads, width, length: loud(relative_bias(heads, 4)),
    "learned": lambda heads, width, length: loud(learned(length, width)),
    "sinusoidal": lambda heads, width, length: sinusoidal(width),
}


def loud(place: PositionalEncoding) -> PositionalEncoding:
    """The scheme with parameters of size one: an error in positions must not drown in 0.02."""
    for parameter in place.parameters():
        nn.init.normal_(parameter)
    return place
