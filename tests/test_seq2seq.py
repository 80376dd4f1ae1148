"""Translation: the model is Marian's and torch.nn's, padding is nowhere, texts share a source."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from golden import expect_error
from regard.attention import attend
from regard.config import build, to_values
from regard.errors import FieldError
from regard.generation.sample import Generated, GenerationConfig, beam_search, greedy, sample
from regard.models import MODELS, Seq2Seq, Seq2SeqConfig, TokenBatch
from strategies import chunkings, examples
from test_captioner import EXACT, LLAMA
from test_generate import BEGIN, END, SHUT, STOPS, THEIRS, as_they_say
from test_gpt import assert_says_much, their_texts
from test_torch_oracles import DTYPES, Twins, future, padded, scrambled

B, N, M, W, LENGTH = 3, 6, 5, 11, 16  # sources, words of a text and of a source, vocabulary, places

AS_WRITTEN = {  # "Attention is all you need", but for its sizes
    "norm_first": False,
    "pos_embed": "sinusoidal",
    "scale_embeddings": True,
    "init": "xavier_uniform",
    "activation": "relu",
    "tie_embeddings": True,
}
KINDS = {
    "learned": {},
    "2017": AS_WRITTEN,
    "llama": LLAMA,
    "grouped": {"pos_embed": "none", "kv_heads": 1, "encoder_layers": 3},
    "window": {"mask": "causal & window(3)"},
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
RAGGED = pytest.mark.parametrize("ragged", [False, True], ids="ragged={}".format)


def made(**fields) -> Seq2Seq:
    """A small model with every number drawn anew."""
    fields = {
        "width": 12,
        "layers": 2,
        "heads": 2,
        "vocab_size": W,
        "context_length": LENGTH,
    } | fields
    return scrambled(Seq2Seq(Seq2SeqConfig(**fields)), torch.float64)


def texts(rows: int = B, n: int = N) -> Tensor:
    return torch.randint(W, (rows, n))


def sources(ragged: bool = True) -> TokenBatch:
    """Three sentences, which may be of different lengths: what stands in the padding is no word."""
    return TokenBatch(texts(n=M), padded([M, 3, 1], M)[0] if ragged else None)


def picked(source: TokenBatch, rows: list[int]) -> TokenBatch:
    where = source.positions
    return TokenBatch(source.tokens[rows], where if where is None else where[rows])


# One pass or many


@RAGGED
@EVERY_KIND
@given(st.data())
@examples(15)
def test_any_chunking_through_the_caches_equals_the_one_shot_pass(kind, ragged, data):
    model, source, words = made(**KINDS[kind]), sources(ragged), texts()
    once = model(source, words)
    context, caches = model.encode(source), model.new_caches(data.draw(st.sampled_from([None, N])))
    tensors = data.draw(st.booleans())
    for chunk in data.draw(chunkings(N)):
        out = model.next_token_logits(
            words[:, chunk],
            context,
            positions=torch.tensor(chunk) if tensors else chunk,
            context_positions=source.positions,
            caches=caches,
        )
        torch.testing.assert_close(out, once[:, chunk], **EXACT)


@EVERY_KIND
def test_the_pass_is_that_of_the_plain_blocks(kind):
    model, source, words = made(**KINDS[kind]), sources(), texts()
    plain = Seq2Seq(model.config, attention=attend).double().eval()
    plain.load_state_dict(model.state_dict())
    where = source.positions
    y = plain.pos_embed.embed(plain.token_embedding(source.tokens), where)
    for block in plain.encoder:
        y = block(y, positions=where)
    y = plain.encoder_norm(y)
    x = plain.pos_embed.embed(plain.token_embedding(words), range(N))
    for block in plain.blocks:
        x = block(x, y, positions=range(N), context_positions=where)
    table = plain.token_embedding if plain.lm_head is None else plain.lm_head
    torch.testing.assert_close(model(source, words), plain.norm(x) @ table.weight.T, **EXACT)


@RAGGED
@EVERY_KIND
def test_steps_follow_a_reordering_and_the_loss_of_a_source(kind, ragged):
    model, source = made(**KINDS[kind]), sources(ragged)
    first, second, third = texts(n=2), texts(6, 1), texts(4, 1)
    state = model.new_state(source)
    torch.testing.assert_close(model.decode(first, state), model(source, first)[:, -1], **EXACT)
    rows = torch.tensor([[0, 0], [1, 1], [2, 2]])
    state.reorder(rows)
    assert len(state) == 6
    written = torch.cat([first[rows.flatten()], second], 1)
    right = model(picked(source, [0, 0, 1, 1, 2, 2]), written)[:, -1]
    torch.testing.assert_close(model.decode(second, state), right, **EXACT)

    rows = torch.tensor([[3, 2], [5, 5]])  # the first source leaves
    state.reorder(rows)
    written = torch.cat([written[rows.flatten()], third], 1)
    right = model(picked(source, [1, 1, 2, 2]), written)[:, -1]
    torch.testing.assert_close(model.decode(third, state), right, **EXACT)


@RAGGED
def test_a_source_may_leave_before_a_word_is_written(ragged):
    model, source, words = made(), sources(ragged), texts(2, 1)
    state = model.new_state(source)
    state.reorder(torch.tensor([[0], [2]]))
    right = model(picked(source, [0, 2]), words)[:, -1]
    torch.testing.assert_close(model.decode(words, state), right, **EXACT)


# Padding, and what texts share


@EVERY_KIND
def test_padding_of_a_source_is_nowhere_wherever_it_stands(kind):
    model, source, words = made(**KINDS[kind]), texts(1, 3), texts(1)
    alone = model(TokenBatch(source), words)
    for at in ([0, 1, 2], [2, 3, 4], [0, 2, 4]):
        longer, positions = texts(1, M), torch.full((1, M), -1)
        longer[:, at], positions[:, at] = source, torch.arange(3)
        padded = TokenBatch(longer, positions)
        torch.testing.assert_close(model(padded, words), alone, **EXACT)
        torch.testing.assert_close(
            model.decode(words, model.new_state(padded)), alone[:, -1], **EXACT
        )


def test_a_source_does_not_feel_its_longer_neighbours():
    model, source, words = made(), sources(), texts()
    together = model(source, words)
    for row, length in enumerate((M, 3, 1)):
        alone = TokenBatch(source.tokens[row : row + 1, :length])
        torch.testing.assert_close(
            together[row : row + 1], model(alone, words[row : row + 1]), **EXACT
        )


@EVERY_KIND
def test_padding_of_a_text_is_nowhere_wherever_it_stands(kind):
    model, source, words = made(**KINDS[kind]), picked(sources(), [1]), texts(1, 4)
    alone = model(source, words)
    for at in ([0, 1, 2, 3], [2, 3, 4, 5], [0, 2, 3, 5]):
        longer, positions = texts(1), torch.full((1, N), -1)
        longer[:, at], positions[:, at] = words, torch.arange(4)
        out = model(source, longer, positions=positions)
        torch.testing.assert_close(out[:, at], alone, **EXACT)


@RAGGED
@EVERY_KIND
def test_several_texts_of_one_source_share_it(kind, ragged):
    model, source, words = made(**KINDS[kind]), sources(ragged), texts(2 * B)
    up = torch.randn(2 * B, N, W, dtype=torch.float64)
    repeated = picked(source, [0, 0, 1, 1, 2, 2])
    out, right = model(source, words), model(repeated, words)
    torch.testing.assert_close(out, right, **EXACT)
    slopes = [
        torch.autograd.grad((scores * up).sum(), list(model.parameters()))
        for scores in (out, right)
    ]
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    with expect_error(ValueError):
        model(source, texts(7))


@RAGGED
def test_a_source_is_encoded_once_and_its_keys_are_not_copied(ragged):
    model, seen = made(), []
    model.encoder[0].register_forward_hook(lambda *_: seen.append(1))
    state = model.new_state(sources(ragged))
    model.decode(texts(n=1), state)
    kept = state.caches[0].cross.kept.k
    state.reorder(torch.arange(B)[:, None].expand(-1, 4))
    model.decode(texts(4 * B, 1), state)
    assert state.caches[0].cross.kept.k is kept and len(kept) == B
    assert len(state.caches[0].attention.kept.k) == 4 * B and len(seen) == 1


def test_the_reader_reads_both_ways_whatever_the_writer_may_read():
    model, source = made(mask="causal & window(1)"), texts(1, M)
    assert model.config.encoder_config.mask is None
    before = model.encode(TokenBatch(source))
    for changed, felt in ((0, -1), (-1, 0)):
        other = source.clone()
        other[:, changed] = (other[:, changed] + 1) % W
        assert not torch.allclose(model.encode(TokenBatch(other))[:, felt], before[:, felt])


@pytest.mark.parametrize("place", ["learned", "sinusoidal", "rope", "none"])
def test_the_reader_knows_the_order_of_words_unless_it_has_no_places(place):
    model, source = made(pos_embed=place), texts(1, M)
    turned = model.encode(TokenBatch(source.flip(1))).flip(1)
    same = torch.allclose(turned, model.encode(TokenBatch(source)), rtol=0.0, atol=1e-10)
    assert same == (place == "none")


# Marian


def marian(
    dtype: torch.dtype,
    *,
    activation: str = "relu",
    change: Callable[[nn.Module], None] = lambda theirs: None,
) -> tuple[Seq2Seq, nn.Module, Twins]:
    """Theirs, drawn at random, and ours with its weights; its sinusoids are our learned table."""
    transformers = pytest.importorskip("transformers")
    from test_transformers_oracles import eager

    width, heads, hidden = 12, 3, 20
    theirs = eager(
        transformers.MarianMTModel(
            transformers.MarianConfig(
                vocab_size=W,
                max_position_embeddings=LENGTH,
                d_model=width,
                encoder_layers=3,
                decoder_layers=2,
                encoder_attention_heads=heads,
                decoder_attention_heads=heads,
                encoder_ffn_dim=hidden,
                decoder_ffn_dim=hidden,
                activation_function=activation,
                dropout=0.0,
                scale_embedding=True,
                pad_token_id=0,
                decoder_start_token_id=BEGIN,
                eos_token_id=END,
                forced_eos_token_id=None,
                attn_implementation="eager",
            )
        ),
        dtype,
    )
    body = theirs.model
    assert theirs.lm_head.weight is body.encoder.embed_tokens.weight is body.shared.weight
    assert not theirs.final_logits_bias.any()
    change(theirs)

    config = Seq2SeqConfig(
        width=width,
        layers=2,
        encoder_layers=3,
        heads=heads,
        mlp_width=hidden,
        activation=activation,
        norm_first=False,
        vocab_size=W,
        context_length=LENGTH,
        scale_embeddings=True,
    )
    ours, twins = Seq2Seq(config).to(dtype).eval(), Twins()
    twins.tie(ours.token_embedding.weight, body.shared.weight)

    def heads_of(mine: nn.Module, their: nn.Module) -> None:
        for name in "qkv":
            twins.layer(getattr(mine, f"to_{name}"), getattr(their, f"{name}_proj"))
        twins.layer(mine.to_out, their.out_proj)

    pairs = [
        *zip(ours.encoder, body.encoder.layers, strict=True),
        *zip(ours.blocks, body.decoder.layers, strict=True),
    ]
    for mine, their in pairs:
        heads_of(mine.attention, their.self_attn)
        twins.layer(mine.attention_norm, their.self_attn_layer_norm)
        if mine.cross is not None:
            heads_of(mine.cross, their.encoder_attn)
            twins.layer(mine.cross_norm, their.encoder_attn_layer_norm)
        twins.layer(mine.mlp.fc1, their.fc1)
        twins.layer(mine.mlp.fc2, their.fc2)
        twins.layer(mine.mlp_norm, their.final_layer_norm)

    # Both of their stacks have a table that nothing trains: here they share one that learns.
    places = body.decoder.embed_positions = body.encoder.embed_positions
    with torch.no_grad():
        places.weight.copy_(places.create_weight())
    places.weight.requires_grad_()
    frozen = type(places).forward
    places.forward = lambda *args, **options: frozen.__wrapped__(places, *args, **options)
    twins.tie(ours.pos_embed.table, places.weight)
    return ours, theirs, twins


@DTYPES
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_logits_and_gradients_are_marians_also_of_padded_sources(activation, dtype):
    ours, theirs, twins = marian(dtype, activation=activation)
    # Their table ignores what the word for padding, 0, would teach it: it is no word here.
    source, words = torch.randint(1, W, (B, M)), torch.randint(1, W, (B, N))
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 1]], dtype=bool)
    where = torch.where(real, torch.arange(M), -1)
    right = theirs(
        source, attention_mask=real.long(), decoder_input_ids=words, use_cache=False
    ).logits
    twins.agree(ours, ours(TokenBatch(source, where), words), right, [])


LONG = 10


@torch.no_grad()
def talkative(theirs: nn.Module) -> None:
    """Let words hang on the source, so that texts differ and end at all lengths."""
    for name, p in theirs.named_parameters():
        if name.endswith("layer_norm.bias"):
            p.zero_()  # what all words have in common
    table = theirs.model.shared.weight
    table /= table.norm(dim=-1, keepdim=True)  # or the longest vector is said again and again
    table[END] *= 1.3
    for layer in theirs.model.encoder.layers:
        for out in (layer.self_attn.out_proj, layer.fc2):
            out.weight *= 0.3
    for layer in theirs.model.decoder.layers:
        layer.encoder_attn.out_proj.weight *= 8
        layer.encoder_attn.q_proj.weight *= 9


def talkers() -> tuple[Seq2Seq, nn.Module]:
    torch.manual_seed(1)
    ours, theirs, _ = marian(torch.float64, change=talkative)
    return ours, theirs


def their_translations(
    theirs: nn.Module, source: TokenBatch, rules: GenerationConfig, **options
) -> tuple[list[list[int]], Tensor | None]:
    return their_texts(theirs, source.tokens, source.positions >= 0, rules, said=1, **options)


def ragged_sources(rows: int) -> TokenBatch:
    words, lengths = torch.randint(1, W, (rows, 7)), torch.randint(1, 8, (rows,))
    where = padded(lengths.tolist(), 7)[0]
    return TokenBatch(words.masked_fill(where < 0, 0), where)


@pytest.mark.parametrize("shut", SHUT, ids=str)
def test_greedy_words_are_marians(shut):
    ours, theirs = talkers()
    source, rules = (
        ragged_sources(60),
        GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=LONG, **shut),
    )
    right, _ = their_translations(theirs, source, rules)
    assert_says_much(right, rules)
    assert as_they_say(greedy(ours, source, rules)) == right


@pytest.mark.parametrize("shut", SHUT, ids=str)
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("penalty", [1.0, 0.0], ids="length_penalty={}".format)
def test_beams_are_marians_word_for_word(shut, stop, penalty):
    ours, theirs = talkers()
    source, rules = (
        ragged_sources(40),
        GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=LONG, **shut),
    )
    right, scores = their_translations(
        theirs,
        source,
        rules,
        num_beams=4,
        num_return_sequences=2,
        length_penalty=penalty,
        early_stopping=THEIRS[stop],
    )
    found = beam_search(ours, source, rules, beams=4, length_penalty=penalty, stop=stop, texts=2)
    assert_says_much(right, rules)
    assert as_they_say(found) == right
    found_scores = torch.tensor(found.scores, dtype=scores.dtype)
    torch.testing.assert_close(found_scores, scores, rtol=1e-4, atol=1e-4)


# torch.nn.Transformer, whose embeddings are outside


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@DTYPES
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_with_norms_before_it_is_torchs_transformer_between_one_table(activation, dtype):
    width, heads, hidden = 12, 3, 20
    theirs = nn.Transformer(
        width, heads, 3, 2, hidden, 0.0, activation, batch_first=True, norm_first=True
    )
    theirs, table = scrambled(theirs, dtype), scrambled(nn.Embedding(W, width), dtype)
    config = Seq2SeqConfig(
        width=width,
        layers=2,
        encoder_layers=3,
        heads=heads,
        mlp_width=hidden,
        activation=activation,
        vocab_size=W,
        pos_embed="none",
    )
    ours, twins = Seq2Seq(config).to(dtype).eval(), Twins()
    for mine, their in zip(ours.encoder, theirs.encoder.layers, strict=True):
        twins.block(mine, their)
    for mine, their in zip(ours.blocks, theirs.decoder.layers, strict=True):
        twins.block(mine, their)
    twins.layer(ours.encoder_norm, theirs.encoder.norm)
    twins.layer(ours.norm, theirs.decoder.norm)
    twins.tie(ours.token_embedding.weight, table.weight)

    source, words = texts(n=M), texts()
    where, padding = padded([M, 3, 1], M)
    read = theirs(
        table(source),
        table(words),
        tgt_mask=future(N),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    right = read @ table.weight.T
    twins.agree(ours, ours(TokenBatch(source, where), words), right, [])


# Configurations


@EVERY_KIND
def test_a_configuration_survives_being_written_down(kind):
    config = made(**KINDS[kind]).config
    assert build(Seq2SeqConfig, to_values(config)) == config


@pytest.mark.parametrize("said, blocks", [(None, 2), (1, 1), (4, 4)], ids=str)
def test_the_reader_has_as_many_blocks_as_said(said, blocks):
    model = made(encoder_layers=said)
    assert len(model.encoder) == blocks == model.config.encoder_config.layers
    assert len(model.blocks) == model.config.layers == 2
    assert all(block.cross is None for block in model.encoder)
    assert all(block.cross is not None for block in model.blocks)
    with expect_error(FieldError, field="encoder_layers"):
        Seq2SeqConfig(encoder_layers=0)


def test_both_stacks_start_as_the_configuration_says():
    model = Seq2Seq(Seq2SeqConfig(width=48, layers=2, encoder_layers=8, vocab_size=300))
    stds = []
    for blocks in (model.encoder, model.blocks):
        residual = torch.cat([block.attention.to_out.weight for block in blocks])
        stds.append(residual.std().item())
        assert not any(p.any() for name, p in blocks.named_parameters() if name.endswith("bias"))
    assert stds[0] / stds[1] == pytest.approx(0.5, rel=0.05)  # 8 blocks that read, 2 that write

    old = Seq2Seq(Seq2SeqConfig(width=48, layers=1, vocab_size=300, **AS_WRITTEN))
    assert old.token_embedding.weight.std().item() == pytest.approx(48**-0.5, rel=0.05)
    for blocks in (old.encoder, old.blocks):
        for layer in (layer for layer in blocks.modules() if isinstance(layer, nn.Linear)):
            edge = math.sqrt(6 / (layer.in_features + layer.out_features))
            assert 0.98 * edge < layer.weight.abs().max().item() <= edge and not layer.bias.any()


def test_the_table_builds_one_that_learns_in_all_its_parts():
    model = MODELS["seq2seq"].build(width=16, layers=2, heads=2, vocab_size=W, context_length=N)
    assert type(model) is Seq2Seq
    words = texts(2 * B)
    scores = model(sources(), words[:, :-1])
    nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten()).backward()
    for name, p in model.named_parameters():
        assert p.grad is not None and torch.isfinite(p.grad).all(), name
        assert p.ndim < 2 or p.grad.any(), name  # that of a key's bias is 0 but for rounding


def test_2017_as_written_learns_to_copy():
    config = Seq2SeqConfig(width=32, layers=1, heads=4, vocab_size=W, dropout=0.1, **AS_WRITTEN)
    model = Seq2Seq(config)
    assert type(model.norm) is type(model.encoder_norm) is nn.Identity
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98), eps=1e-9)

    def loss_of_a_batch() -> Tensor:
        source = torch.randint(3, W, (64, M))
        source[:, -1] = END
        words = torch.cat([torch.full((64, 1), BEGIN), source[:, :-1]], 1)
        scores = model(TokenBatch(source), words)
        return nn.functional.cross_entropy(scores.flatten(0, 1), source.flatten())

    for _ in range(150):
        optimiser.zero_grad()
        loss_of_a_batch().backward()
        optimiser.step()
    # Who does not look at the source loses log 8 on each of its words but the last.
    model.eval()
    assert loss_of_a_batch().item() < 0.1 * math.log(8)
    source = torch.cat([torch.randint(3, W, (20, M - 1)), torch.full((20, 1), END)], 1)
    said = as_they_say(
        greedy(
            model, TokenBatch(source), GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=M)
        )
    )
    assert sum(text == row for text, row in zip(said, source.tolist(), strict=True)) >= 18


# Mistakes


def test_what_is_longer_than_learned_positions_is_refused_in_one_sentence():
    model, rules = (
        made(context_length=N),
        GenerationConfig(bos_id=BEGIN, eos_id=END, max_new_tokens=N + 1, min_new_tokens=N + 1),
    )
    with expect_error(ValueError):
        model(TokenBatch(texts(n=N + 1)), texts())
    with expect_error(ValueError):
        model(sources(), texts(n=N + 1))
    with expect_error(ValueError):
        greedy(model, sources(), rules)


def test_no_sources_are_translated_into_nothing_and_other_words_are_refused():
    model, rules = made(), GenerationConfig(bos_id=BEGIN, eos_id=END)
    none = TokenBatch(torch.empty(0, M, dtype=torch.long))
    for search in (greedy, beam_search, sample):
        assert search(model, none, rules) == Generated([], [], [], [])
    assert len(sources()) == B
    for n in (1, 2):
        with expect_error(ValueError):
            model.decode(texts(6, n), model.new_state(sources()))
