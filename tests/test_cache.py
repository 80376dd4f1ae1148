"""The cache: any chunking of a sequence reads exactly what the one-shot pass reads."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import grad

from golden import expect_error
from regard.attention import KVCache, Mask, MultiHeadAttention, attend, causal, sinks, window
from regard.attention.cache import KeyValues
from regard.attention.positions import locate
from regard.models import BlockCache, StackConfig, make_blocks
from strategies import PLACES, causal_masks, chunkings, evicting_masks, examples

WIDTH, HEADS, GROUPS, LENGTH = 16, 4, 2, 14
LONGEST = 2 * LENGTH + 1  # positions may have gaps
KINDS = ("growing", "growing, evicting", "fixed", "fixed, evicting")
EXACT = {"rtol": 0.0, "atol": 1e-10}


def made(kind: str, mask: Mask, size: int = LONGEST) -> KVCache:
    return KVCache(
        size=size if kind.startswith("fixed") else None,
        keep=mask if kind.endswith("evicting") else None,
    )


def layer(place: str, mask: Mask) -> MultiHeadAttention:
    made = MultiHeadAttention(
        WIDTH, HEADS, kv_heads=GROUPS, pos_embed=PLACES[place](HEADS, WIDTH, LONGEST), mask=mask
    )
    return made.double()


def read(layer: MultiHeadAttention, x: Tensor, positions: range | Tensor, **options) -> Tensor:
    """The layer's pass, with its scheme also at the moment of embedding."""
    return layer(layer.pos_embed.embed(x, positions), positions=positions, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["ranges", "a tensor"])
@given(st.data())
@examples(40)
def test_any_chunking_equals_the_one_shot_pass(kind, how, data):
    mask = data.draw(st.one_of(causal_masks(), evicting_masks()), "mask")
    length = data.draw(st.integers(1, LENGTH), "length")
    chunks = data.draw(chunkings(length), "chunks")
    attention = layer(data.draw(st.sampled_from(list(PLACES)), "place"), mask)
    x = torch.randn(2, length, WIDTH, dtype=torch.float64)
    once = read(attention, x, range(length))

    cache = made(kind, mask)
    for chunk in chunks:
        where = chunk if how == "ranges" else torch.tensor(chunk)
        out = read(attention, x[:, chunk], where, cache=cache)
        torch.testing.assert_close(out, once[:, chunk], **EXACT)


@st.composite
def ragged(draw: st.DrawFn) -> tuple[Tensor, list[range]]:
    """Positions of two sequences that differ, with gaps, with −1 anywhere; and a chunking."""
    columns = draw(st.integers(1, LENGTH))
    rows = []
    for _ in range(2):
        here = draw(st.lists(st.booleans(), min_size=columns, max_size=columns))
        gaps = draw(st.lists(st.sampled_from([1, 1, 1, 2]), min_size=columns, max_size=columns))
        at, row = draw(st.integers(-1, 0)), []
        for real, gap in zip(here, gaps, strict=True):
            at += gap if real else 0
            row.append(at if real else -1)
        rows.append(row)
    return torch.tensor(rows), draw(chunkings(columns))


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
@examples(50)
def test_ragged_sequences_in_one_batch_read_as_each_would_alone(kind, data):
    mask = data.draw(st.one_of(causal_masks(), evicting_masks()), "mask")
    positions, chunks = data.draw(ragged(), "positions")
    attention = layer(data.draw(st.sampled_from(list(PLACES)), "place"), mask)
    x = torch.randn(2, positions.shape[1], WIDTH, dtype=torch.float64)

    cache = made(kind, mask)
    out = torch.cat([read(attention, x[:, c], positions[:, c], cache=cache) for c in chunks], 1)
    for i, at in enumerate(positions):
        here = at >= 0
        alone = read(attention, x[i : i + 1, here], at[here])[0]
        torch.testing.assert_close(out[i, here], alone, **EXACT)


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
@examples(8)
def test_any_chunking_through_a_stack_of_blocks_equals_the_one_shot_pass(kind, data):
    mask = data.draw(st.one_of(causal_masks(), evicting_masks()), "mask")
    place = PLACES[data.draw(st.sampled_from(["none", "rope", "alibi", "relative_bias"]))]
    config = StackConfig(width=WIDTH, heads=HEADS, kv_heads=GROUPS, layers=3, mlp_width=8)
    blocks = make_blocks(config, mask=mask, pos_embed=lambda: place(HEADS, WIDTH, LONGEST)).double()
    chunks = data.draw(chunkings(8), "chunks")
    tensors = data.draw(st.booleans(), "tensors")
    x = torch.randn(2, 8, WIDTH, dtype=torch.float64)

    def through(x: Tensor, positions: range | Tensor, caches: list[BlockCache | None]) -> Tensor:
        for block, cache in zip(blocks, caches, strict=True):
            x = block(x, positions=positions, cache=cache)
        return x

    once = through(x, range(8), [None] * 3)
    caches = [BlockCache(made(kind, mask)) for _ in blocks]
    for chunk in chunks:
        where = torch.tensor(chunk) if tensors else chunk
        torch.testing.assert_close(through(x[:, chunk], where, caches), once[:, chunk], **EXACT)


@given(causal_masks(), chunkings(9), st.sampled_from(list(PLACES)), st.randoms())
@examples(40)
def test_a_shuffled_cache_reads_the_same(mask, chunks, place, random):
    attention = layer(place, mask)
    x = torch.randn(2, 9, WIDTH, dtype=torch.float64)
    once = read(attention, x, range(9))
    cache = KVCache()
    for chunk in chunks:
        out = read(attention, x[:, chunk], chunk, cache=cache)
        torch.testing.assert_close(out, once[:, chunk], **EXACT)
        k, v, positions = cache.kept
        order = random.sample(range(k.shape[-2]), k.shape[-2])
        where = locate(positions)[..., order]
        cache.kept = KeyValues(k[..., order, :], v[..., order, :], where)


@given(causal_masks(), st.permutations(range(9)), st.integers(1, 4))
@examples(40)
def test_attention_does_not_care_in_which_slots_keys_lie(mask, order, n):
    q = torch.randn(2, 4, n, 8, dtype=torch.float64)
    k, v = torch.randn(2, 2, 2, 9, 8, dtype=torch.float64)
    q_pos, k_pos = range(9 - n, 9), torch.arange(9)
    straight = attend(q, k, v, mask=mask, q_pos=q_pos, k_pos=k_pos)
    shuffled = attend(
        q, k[:, :, order], v[:, :, order], mask=mask, q_pos=q_pos, k_pos=k_pos[list(order)]
    )
    torch.testing.assert_close(shuffled.output, straight.output, **EXACT)
    torch.testing.assert_close(shuffled.weights, straight.weights[..., order], **EXACT)


def kv(n: int) -> tuple[Tensor, Tensor]:
    return torch.randn(1, 1, n, 2), torch.randn(1, 1, n, 3)


@pytest.mark.parametrize("kind", ["growing, evicting", "fixed, evicting"])
@pytest.mark.parametrize("how", ["ranges", "a tensor", "batched"])
@given(st.data())
@examples(20)
def test_eviction_drops_only_what_no_later_query_reads(kind, how, data):
    mask = data.draw(st.one_of(causal_masks(), evicting_masks()), "mask")
    length = data.draw(st.integers(1, 20), "length")
    cache = made(kind, mask)
    seen: dict[int, Tensor] = {}
    for chunk in data.draw(chunkings(length), "chunks"):
        k, v = kv(len(chunk))
        seen |= {at: k[0, 0, i] for i, at in enumerate(chunk)}
        where = chunk if how == "ranges" else torch.tensor(chunk)
        kept = cache.append(k, v, where[None] if how == "batched" else where)
        held = locate(kept.positions).flatten().tolist()
        real = [at for at in held if at >= 0]
        assert len(real) == len(set(real)) == len(cache)
        read = mask(range(chunk.start, length + 40), range(chunk.stop)).any(0)
        assert {at for at in range(chunk.stop) if read[at]} <= set(real)
        for slot, at in enumerate(held):
            assert at < 0 or torch.equal(kept.k[0, 0, slot], seen[at])


@pytest.mark.parametrize("kind", ["growing, evicting", "fixed, evicting"])
@pytest.mark.parametrize("how", ["ranges", "a tensor", "batched"])
@given(w=st.integers(1, 5), c=st.integers(0, 2), chunks=chunkings(30))
@examples(12)
def test_a_window_bounds_the_cache(kind, how, w, c, chunks):
    mask = causal & (window(w) | sinks(c))
    most = max(map(len, chunks))
    cache = made(kind, mask, size=c + w - 1 + most)  # the least that can hold them
    for chunk in chunks:
        where = chunk if how == "ranges" else torch.tensor(chunk)
        kept = cache.append(*kv(len(chunk)), where[None] if how == "batched" else where)
        assert len(cache) <= c + w - 1 + most
        needed = {*range(max(0, chunk.start - w + 1), chunk.stop), *range(min(c, chunk.stop))}
        held = {at for at in locate(kept.positions).flatten().tolist() if at >= 0}
        # Ranges in fixed storage are closed up only when the end is reached.
        assert held == needed or (kind.startswith("fixed") and how == "ranges" and held > needed)


@pytest.mark.parametrize("how", ["ranges", "a tensor"])
@given(evicting_masks(), chunkings(14), st.sampled_from(["none", "rope", "relative_bias"]))
@examples(20)
def test_a_fixed_cache_as_small_as_the_mask_allows_is_enough(how, mask, chunks, place):
    needed = [int(mask.needs(range(c.start), c.start).sum()) + len(c) for c in chunks]
    assume(max(needed) < 14)
    attention = layer(place, mask)
    x = torch.randn(2, 14, WIDTH, dtype=torch.float64)
    once = read(attention, x, range(14))
    cache = KVCache(size=max(needed), keep=mask)
    for chunk in chunks:
        where = chunk if how == "ranges" else torch.tensor(chunk)
        out = read(attention, x[:, chunk], where, cache=cache)
        torch.testing.assert_close(out, once[:, chunk], **EXACT)
        assert cache.kept.k.shape[-2] <= max(needed)


@pytest.mark.parametrize("kind", ["growing", "growing, evicting"])
@given(st.one_of(causal_masks(), evicting_masks()), chunkings(7), st.sampled_from(list(PLACES)))
@examples(20)
def test_gradients_flow_through_a_growing_cache(kind, mask, chunks, place):
    attention = layer(place, mask)
    x = torch.randn(2, 7, WIDTH, dtype=torch.float64, requires_grad=True)
    towards = torch.randn(2, 7, WIDTH, dtype=torch.float64)
    wanted = [x, *attention.parameters()]
    once = grad((read(attention, x, range(7)) * towards).sum(), wanted, materialize_grads=True)
    cache = made(kind, mask)
    outs = [read(attention, x[:, c], c, cache=cache) for c in chunks]
    chunked = grad((torch.cat(outs, 1) * towards).sum(), wanted, materialize_grads=True)
    torch.testing.assert_close(chunked, once, **EXACT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["ranges", "a tensor", "batched", "ranges, then batched"])
@given(st.data())
@examples(6)
def test_reordered_beams_continue_the_sequences_they_were_given(kind, how, data):
    mask = data.draw(st.one_of(causal_masks(), evicting_masks()), "mask")
    attention = layer(data.draw(st.sampled_from(["none", "rope", "alibi"])), mask)
    chunks = data.draw(chunkings(8), "chunks")
    cache = made(kind, mask)
    so_far = torch.empty(3, 0, WIDTH, dtype=torch.float64)
    for turn, chunk in enumerate(chunks):
        new = torch.randn(3, len(chunk), WIDTH, dtype=torch.float64)
        so_far = torch.cat([so_far, new], 1)
        where = chunk if how.startswith("ranges") and not turn else torch.tensor(chunk)
        where = chunk if how == "ranges" else where
        if how.endswith("batched") and isinstance(where, Tensor):
            where = where.expand(3, -1)
        out = read(attention, new, where, cache=cache)
        once = read(attention, so_far, range(chunk.stop))
        torch.testing.assert_close(out, once[:, chunk], **EXACT)
        beams = torch.tensor(data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=3)))
        cache.reorder(beams)
        so_far = so_far[beams]


@pytest.mark.parametrize("kind", KINDS)
def test_ragged_beams_are_reordered_with_their_positions(kind):
    mask = causal & window(3)
    attention = layer("rope", mask)
    x = torch.randn(2, 6, WIDTH, dtype=torch.float64)
    positions = torch.tensor([[0, 1, 2, -1], [-1, -1, 0, 1]])
    cache = made(kind, mask)
    read(attention, x[:, :4], positions, cache=cache)
    cache.reorder(torch.tensor([1, 1]))
    out = read(attention, x[:, 4:], torch.tensor([[2, 3], [2, -1]]), cache=cache)
    for beam, count in ((0, 2), (1, 1)):
        tokens = torch.cat([x[1:, 2:4], x[beam : beam + 1, 4 : 4 + count]], 1)
        alone = read(attention, tokens, range(2 + count))[0, 2:]
        torch.testing.assert_close(out[beam, :count], alone, **EXACT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batched", [False, True], ids="batched={}".format)
@given(mask=st.one_of(causal_masks(), evicting_masks()), prompt=st.integers(1, 8))
@examples(10)
def test_a_prompt_in_ranges_is_continued_in_tensors(kind, batched, mask, prompt):
    attention = layer("rope", mask)
    x = torch.randn(2, 12, WIDTH, dtype=torch.float64)
    once = read(attention, x, range(12))
    cache = made(kind, mask)
    out = [read(attention, x[:, :prompt], range(prompt), cache=cache)]
    for at in range(prompt, 12):
        where = torch.tensor([at])
        where = where.expand(2, 1) if batched else where
        out.append(read(attention, x[:, at : at + 1], where, cache=cache))
    torch.testing.assert_close(torch.cat(out, 1), once, **EXACT)


def test_tensors_are_not_continued_in_ranges():
    cache = KVCache(size=4)
    cache.append(*kv(1), torch.tensor([0]))
    with expect_error(ValueError):
        cache.append(*kv(1), range(1, 2))


def test_a_cache_that_is_too_small_says_so_with_its_numbers():
    with expect_error(ValueError):
        KVCache(size=4).append(*kv(5), range(5))
    cache = KVCache(size=4)
    cache.append(*kv(3), range(3))
    with expect_error(ValueError):
        cache.append(*kv(2), range(3, 5))
    cache = KVCache(size=4, keep=causal & window(4))
    cache.append(*kv(4), range(4))
    with expect_error(ValueError):
        cache.append(*kv(2), range(4, 6))
    with expect_error(RuntimeError):
        KVCache(size=4).append(*kv(1), torch.tensor([4]))
    cache = KVCache(size=4, keep=causal & window(4))
    cache.append(*kv(4), torch.arange(4))
    with expect_error(RuntimeError):
        cache.append(*kv(2), torch.tensor([4, 5]))


def test_a_cache_refuses_what_does_not_fit_it():
    with expect_error(ValueError):
        KVCache(size=0)
    with expect_error(ValueError):
        KVCache().append(*kv(2), range(3))
    with expect_error(ValueError):
        cache = KVCache(size=9)
        cache.append(*kv(2), range(2))
        cache.append(*kv(1), range(5, 6))
    with expect_error(ValueError):
        KVCache().allocate(*kv(1))
    with expect_error(ValueError):
        layer("none", causal)(torch.randn(1, 2, WIDTH).double(), cache=KVCache())
    assert len(KVCache()) == 0


def test_what_a_cache_returned_stays_as_it_was():
    for cache in (KVCache(), KVCache(size=3, keep=causal & window(2))):
        first = cache.append(*kv(2), range(2))
        copies = first.k.clone(), first.v.clone(), first.positions
        for at in range(2, 8):
            cache.append(*kv(1), range(at, at + 1))
        assert torch.equal(first.k, copies[0]) and torch.equal(first.v, copies[1])
        assert first.positions == copies[2]


@pytest.mark.parametrize("place", ["none", "rope", "alibi"])
@pytest.mark.parametrize("kind", ["growing", "fixed"])
def test_a_context_is_projected_once(place, kind):
    cross = MultiHeadAttention(
        WIDTH,
        HEADS,
        kv_heads=GROUPS,
        context_width=6,
        pos_embed=PLACES[place](HEADS, WIDTH, LONGEST),
    ).double()
    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    context = torch.randn(2, 7, 6, dtype=torch.float64)
    where = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, -1, -1, -1]])
    calls = []
    cross.to_k.register_forward_hook(lambda *_: calls.append("k"))
    cross.to_v.register_forward_hook(lambda *_: calls.append("v"))
    once = cross(x, context, positions=range(5), context_positions=where)
    calls.clear()
    cache = made(kind, causal, size=7)
    for at in range(5):
        out = cross(
            x[:, at : at + 1],
            context,
            positions=range(at, at + 1),
            context_positions=where,
            cache=cache,
        )
        torch.testing.assert_close(out, once[:, at : at + 1], **EXACT)
    assert sorted(calls) == ["k", "v"]


def test_a_compiled_decoding_step_equals_eager_and_is_compiled_once(in_a_plain_process):
    # A graph cannot hold the shape checks that pytest adds to the source.
    in_a_plain_process("import checks; checks.compiled_decoding()")


@pytest.mark.parametrize("kind", KINDS)
def test_a_caller_may_move_its_positions_on_in_place(kind):
    mask = causal & Mask.parse("blocks(4) & strided(2)")
    made_layer = layer("rope", mask)
    x, cache, here = torch.randn(1, 8, WIDTH).double(), made(kind, mask), torch.zeros(1).long()
    with torch.no_grad():
        whole, steps = read(made_layer, x, range(8)), []
        for at in range(8):
            steps.append(read(made_layer, x[:, at : at + 1], here, cache=cache))
            here += 1
    torch.testing.assert_close(torch.cat(steps, 1), whole, **EXACT)
