"""What one token more costs behind a cache: which entries of the map are new, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from rich.text import Text
from torch import Tensor

from regard.attention import KVCache, Mask, watch
from regard.attention.cache import keys_of
from regard.attention.positions import locate
from regard.data.tokenizer import Vocabulary
from regard.errors import UserError
from regard.generation.sample import check_still
from regard.generation.verify import ALLOWED
from regard.inspection.text_maps import text_maps
from regard.models.block import BlockCache
from regard.models.gpt import GPT
from regard.visualization.cache_view import DONE, MOST, NEVER, NEW, Entries, cache_grid, entries

CHUNK = 256  # rows of a map that are counted at a time


class Cost(NamedTuple):
    """Scores that are computed by all heads of all layers."""

    cached: int
    plain: int

    def __str__(self) -> str:
        return f"{self.cached:>16,} {self.plain:>16,} {self.plain / self.cached:>9.1f}"


@dataclass(frozen=True)
class CacheExplanation:
    """One token more: what of its map is computed anew, what was, and what has to be kept."""

    name: str
    words: tuple[str, ...]  # those of the text and the one more
    allowed: Bool[Tensor, "n n"]
    entries: Entries
    heads: int  # of all layers
    length: int  # of the longest text the model was trained on
    one: Cost  # this token
    last: Cost  # the last token of a text of that length
    text: Cost  # all tokens of such a text
    stored: int  # numbers that the cache keeps for the next token
    held: int  # and the bytes of these
    full: int  # bytes that it keeps for a text of that length
    rows: float  # how far the rows done are from what they were without the new token
    row: float  # how far the new row through the cache is from that of the whole map
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether earlier rows really stayed as they were, and the new one is that of the map."""
        return self.rows <= self.tolerance and self.row <= self.tolerance

    def to_values(self) -> dict[str, Any]:
        return {
            "input": self.name,
            "tokens": len(self.words) - 1,
            "next": self.words[-1],
            **self.entries._asdict(),
            "heads": self.heads,
            "scores": self.one._asdict(),
            "length": self.length,
            "scores at the last token": self.last._asdict(),
            "scores for a whole text": self.text._asdict(),
            "stored": self.stored,
            "bytes": self.held,
            "bytes for a whole text": self.full,
            "rows differ by": self.rows,
            "new row differs by": self.row,
            "allowed": self.tolerance,
            "holds": self.holds,
        }

    def __str__(self) -> str:
        return self.__rich__().plain

    def __rich__(self) -> Text:
        """The same for a terminal, where entries have colours."""
        n = len(self.words)
        text = Text(f"{self.name}: {n - 1} tokens, and {self.words[-1]!r} as one more\n\n")
        if n <= MOST:
            text.append_text(cache_grid(self.words, self.allowed.cpu().numpy()))
        else:
            text.append(f"(a grid is drawn of texts of up to {MOST - 1} tokens)\n")
        return text.append("\n" + "\n".join((*self.counted(), "", *self.measured())))

    def counted(self) -> Iterator[str]:
        """Lines on how many entries there are, how many scores they cost, and what is kept."""
        n, (new, done, never) = len(self.words), self.entries
        yield f"in the {n} × {n} map of each head, whose rows look at its columns"
        yield f"  {NEW} new    {new:>9,}  the last row: of all tokens only the one that comes looks"
        yield f"  {DONE} done   {done:>9,}  earlier rows, done for good; keys and values are kept"
        yield f"  {NEVER} never  {never:>9,}  shut by the mask: tokens yet to come, or too far back"
        yield ""
        columns = f"{'with a cache':>16} {'without':>16} {'ratio':>9}"
        for name, costs in (
            (f"scores of {self.heads} heads", columns),
            (f"  for token {n}", self.one),
            (f"  for token {self.length}, the last", self.last),
            (f"  for a text of {self.length}", self.text),
        ):
            yield f"{name:<28} {costs}"
        yield ""
        yield (
            f"kept are {self.stored:,} numbers, {size_of(self.held)} of keys and values; "
            f"{size_of(self.full)} after {self.length} tokens"
        )

    def measured(self) -> Iterator[str]:
        """Lines on whether that is so."""
        yield (
            f"measured: the new token changes the {len(self.words) - 1} rows before it by at most "
            f"{self.rows:.1e}, and its own"
        )
        yield (
            f"row is through the cache what it is in the whole map to {self.row:.1e}; "
            f"{self.tolerance:.0e} is allowed"
        )
        yield (
            "Rows that are done stay as they are: nobody needs to compute them again."
            if self.holds
            else "This is WRONG: rows that are done should stay as they are."
        )


@torch.inference_mode()
def explain(
    model: GPT, vocabulary: Vocabulary, length: int, tokens: Int[Tensor, "1 n"], name: str = "text"
) -> CacheExplanation:
    """Write the likeliest token behind a text through the cache, and compare with whole maps."""
    check_still(model)
    caches = model.new_caches()
    first = caches[0].attention
    if not isinstance(first, KVCache):
        raise UserError(
            f"--explain-cache shows which keys and values are kept, and {model.config.attention} "
            "attention keeps two sums of one size instead, however long the text"
        )
    scores = model.next_token_logits(tokens, positions=range(tokens.shape[1]), caches=caches)[:, -1]
    hidden = [vocabulary.special(special) for special in vocabulary.specials]
    scores[:, hidden] = -torch.inf  # these are nothing to show
    longer = torch.cat([tokens, scores.argmax(-1, keepdim=True)], 1)
    row = new_row(model, longer, caches)
    before, after = (text_maps(model, words)[0] for words in (tokens, longer))
    apart = (after[..., :-1, :-1] - before).abs(), after[..., :-1, -1].abs()

    allowed = model.mask(range(longer.shape[1]), range(longer.shape[1]))
    heads = after.shape[0] * after.shape[1]
    short, long = (row_counts(model.mask, count) * heads for count in (len(allowed), length))
    kept = [some for cache in caches if (some := keys_of(cache.attention)) is not None]
    stored = sum(some.k.numel() + some.v.numel() for some in kept)
    held = sum(some.k.nbytes + some.v.nbytes for some in kept)
    each = held // len(first)  # bytes of a token
    return CacheExplanation(
        name=name,
        words=tuple(vocabulary.decode([n]) or vocabulary.entry(n) for n in longer[0].tolist()),
        allowed=allowed,
        entries=entries(allowed.cpu().numpy()),
        heads=heads,
        length=length,
        one=Cost(int(short[-1]), int(short.sum())),
        last=Cost(int(long[-1]), int(long.sum())),
        text=Cost(int(long.sum()), int(long.cumsum(0).sum())),
        stored=stored,
        held=held,
        full=each * int(model.mask.needs(range(length), length - 1).sum()),
        rows=max(float(part.max()) for part in apart),
        row=float((row - after[..., -1, :]).abs().max()),
        tolerance=ALLOWED[after.dtype],
    )


def new_row(
    model: GPT, tokens: Int[Tensor, "1 n"], caches: Sequence[BlockCache]
) -> Float[Tensor, "layers heads n"]:
    """Let the caches take the last token; what each head looked at, by where the keys are."""
    n = tokens.shape[1]
    with watch(model, "blocks.*.attention") as seen:
        model.next_token_logits(tokens[:, -1:], positions=range(n - 1, n), caches=caches)
    rows = []
    for layer in seen.values():
        weights = layer.weights()[0, :, 0]  # heads, slots
        assert layer.call.k_pos is not None
        row = weights.new_zeros(len(weights), n)  # keys that were dropped are not looked at
        row[:, locate(layer.call.k_pos, weights.device)] = weights
        rows.append(row)
    return torch.stack(rows)


def row_counts(mask: Mask, n: int) -> Int[Tensor, "n"]:
    """How many tokens each of n may look at; by parts, for a whole map of a long text is large."""
    starts = range(0, n, CHUNK)
    return torch.cat([mask(range(at, min(n, at + CHUNK)), range(n)).sum(-1) for at in starts])


def size_of(count: int) -> str:
    """Bytes as people say them."""
    size, units = float(count), ["bytes", "KiB", "MiB", "GiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{count} bytes" if units[0] == "bytes" else f"{size:,.1f} {units[0]}"
