"""What every model that writes shares: words in, the scores of each next word out.

A decoder reads its own words so far, and perhaps a context: the patches of an image, a sentence in
another language. A subclass says what the context is; without one it is a GPT.

Several texts may share one context: their rows follow one another, and its keys and values are
computed, kept and loaded once for all of them. Beams and reference texts both profit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Mask, Positions, causal
from regard.attention.multi_head import Attention
from regard.generation.fused_decode import Prepared, can_be_lean, lean_step, prepare
from regard.generation.memory import Growing, Memory
from regard.generation.state import DecodingState
from regard.models.block import Block, BlockCache, last_norm, make_blocks
from regard.models.config import DecoderConfig
from regard.models.layers import TokenEmbedding, init_weights
from regard.models.pos_embed import pos_embed_before, pos_embed_inside
from regard.models.sizes import expect_room
from regard.models.text_mask import text_mask


class Decoder(nn.Module):
    """A stack that writes; with a `context_width`, every block also reads a context."""

    def __init__(
        self,
        config: DecoderConfig,
        *,
        context_width: int | None = None,
        attention: Attention | None = None,
    ) -> None:
        super().__init__()
        expect_room(config)
        self.context_width = context_width
        self.mask = _mask(config)
        self.token_embedding = TokenEmbedding(
            config.vocab_size, config.width, scaled=config.scale_embeddings
        )
        self.pos_embed = pos_embed_before(config.pos_embed, config.context_length, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = make_blocks(
            config,
            mask=self.mask,
            attention=attention,
            pos_embed=pos_embed_inside(config.pos_embed),
            context_width=context_width,
        )
        self.norm = last_norm(config)
        self.lm_head = (
            None
            if config.tie_embeddings
            else nn.Linear(config.width, config.vocab_size, bias=False)
        )
        for part in (self.token_embedding, self.blocks, self.lm_head):
            if part is not None:
                init_weights(part, config.init, config.layers)

    def next_token_logits(
        self,
        words: Int[Tensor, "r n"],
        context: Float[Tensor, "b m width"] | None = None,
        *,
        positions: Positions | None = None,
        context_positions: Positions | None = None,
        caches: Sequence[BlockCache] | None = None,
    ) -> Float[Tensor, "r n words"]:
        """The scores of the word after each of `words`, which may go on where the caches end."""
        return self.logits(self.hidden_states(words, context, positions, context_positions, caches))

    def hidden_states(
        self,
        words: Int[Tensor, "r n"],
        context: Float[Tensor, "b m width"] | None = None,
        positions: Positions | None = None,
        context_positions: Positions | None = None,
        caches: Sequence[BlockCache] | None = None,
    ) -> Float[Tensor, "r n c"]:
        """Each word as what the scores of the next are made from."""
        if context is not None and (
            len(words) % max(1, len(context)) or bool(len(words)) != bool(len(context))
        ):
            raise ValueError(
                f"{len(words)} texts are not the same number about each of {len(context)} contexts"
            )
        if positions is None:
            if caches is not None:
                raise ValueError("with caches, say where the words are: positions=range(…)")
            positions = range(words.shape[1])
        x = self.dropout(self.pos_embed.embed(self.token_embedding(words), positions))
        memories = [None] * len(self.blocks) if caches is None else caches
        for block, memory in zip(self.blocks, memories, strict=True):
            x = block(
                x,
                context,
                positions=positions,
                context_positions=context_positions,
                cache=memory,
            )
        return self.norm(x)

    def logits(self, x: Float[Tensor, "*b c"]) -> Float[Tensor, "*b words"]:
        """The scores of all words."""
        return F.linear(x, self.token_embedding.weight) if self.lm_head is None else self.lm_head(x)

    def new_caches(self, size: int | None = None) -> list[BlockCache]:
        """One empty memory for each block, growing, or with room for `size` words.

        An attention with a memory of its own, such as two sums, is asked for that.
        """
        # Keys that no later word may read are dropped; causal alone may always read them.
        keep = None if self.mask == causal else self.mask
        return [
            BlockCache(
                block.attention.new_cache(size=size, keep=keep),
                None if block.cross is None else block.cross.new_cache(context=True),
            )
            for block in cast(list[Block], self.blocks)
        ]

    def empty_state(
        self,
        texts: int,
        context: Float[Tensor, "b m width"] | None = None,
        context_positions: Positions | None = None,
        *,
        size: int | None = None,
    ) -> DecodingState:
        """So many empty texts, for `step` to write on; with a context, one about each row of it."""
        lean = can_be_lean(self.blocks, self.norm, self.lm_head)
        state = DecodingState(
            texts, self.new_caches(size), self.token_embedding.weight.device, lean
        )
        state.context, state.context_positions = context, context_positions
        return state

    def decode(
        self,
        words: Int[Tensor, "r n"],
        state: DecodingState,
        lengths: Sequence[int] | None = None,
    ) -> Float[Tensor, "r words"]:
        """Append words to each text; the scores of the next one.

        Texts may start with different numbers of words: `lengths` says how many are theirs, and
        the rest of each row is padding.
        """
        if len(words) != len(state):
            raise ValueError(
                f"there are words for {len(words)} texts, and {len(state)} are being written"
            )
        n = words.shape[1]
        if lengths is not None:
            state.differ(lengths, n)
        if n == 1 and self.skips(state):
            return self.decode_one_token(words[:, 0], state)
        if state.fixed is not None:  # there is room for one word at a time
            return [self.decode_one_token(column, state) for column in words.T][-1]
        positions = state.positions(n)
        x = self.hidden_states(
            words, state.context, positions, state.context_positions, state.caches
        )
        if state.lengths is None or state.length:
            x = x[:, -1]
        else:
            x = x[torch.arange(len(x), device=x.device), state.lengths - 1]
        state.advance(n)
        return self.logits(x)

    def decode_one_token(
        self, words: Int[Tensor, "r"], state: DecodingState
    ) -> Float[Tensor, "r words"]:
        """A single word for each text, past the blocks."""
        self.pos_embed.check(range(state.length, state.length + 1))
        if state.fixed is None and self.fixes(state):
            state.settle(self)
        if state.fixed is not None:
            if state.length == state.fixed.shape.slots:
                state.settle(self)
            scores = state.fixed.step(
                self.score_one, words, state.length, record=words.device.type == "cuda"
            )
        else:
            alone = len(words) == 1
            if state.prepared is None or alone != state.prepared[0]:
                state.prepared = alone, self.prepare(len(words))
            memory = Growing(state.caches, state.length, state.context, state.context_positions)
            scores = self.score_one(state.prepared[1], words, memory)
        state.advance(1)
        return scores

    def score_one(
        self, prepared: Prepared, words: Int[Tensor, "r"], memory: Memory
    ) -> Float[Tensor, "r words"]:
        """The scores of the word after one at the memory's positions."""
        x = self.pos_embed.embed(self.token_embedding(words[:, None]), memory.positions)[:, 0]
        return prepared.score(lean_step(prepared, x, memory))

    def prepare(self, rows: int) -> Prepared:
        table = self.token_embedding if self.lm_head is None else self.lm_head
        return prepare(self.blocks, self.norm, table.weight, rows)

    @staticmethod
    def skips(state: DecodingState) -> bool:
        """Whether a single word goes past the blocks.

        Not where a gradient is to come back, nor where a CPU narrows numbers on the way: weights
        that were packed for it stay as wide as they are.
        """
        first = state.length == 0 and state.lengths is not None
        narrowed = state.device.type == "cpu" and torch.is_autocast_enabled("cpu")
        return state.lean and not first and not narrowed and not torch.is_grad_enabled()

    @staticmethod
    def fixes(state: DecodingState) -> bool:
        """Whether keys and values are to lie at fixed addresses from here on.

        On a GPU, once there are any; elsewhere if texts differ in length. Not where numbers are
        narrowed on the way, which a recording would do only once.
        """
        if not state.length:
            return False
        if state.device.type == "cuda":
            return not torch.is_autocast_enabled("cuda") and not torch.compiler.is_compiling()
        return state.lengths is not None


def _mask(config: DecoderConfig) -> Mask:
    if config.mask is None:
        return causal
    mask = text_mask(config.mask, config.context_length)
    if not mask.implies_causal:
        raise ValueError(
            f"mask={config.mask!r} can read words that are not written yet; "
            f"'causal & ({config.mask})' cannot"
        )
    return mask
