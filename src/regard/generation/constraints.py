"""Who writes, by which rules, and what comes out: what every way of writing has in common.

    rules = GenerationConfig(bos_id=1, eos_id=2, max_new_tokens=20, no_repeat_ngram_size=3)

`sample` has the ways. Any model that is a `Writer` will do: `new_state` begins a text for each item
of a batch, `decode` appends words and scores the next one from what its caches hold, and `reorder`
lets texts be dropped or continued twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

Prompt = Int[Tensor, "b n"] | Sequence[Sequence[int]]
"""The words that texts start from: as many for all, or lists of different lengths."""


@runtime_checkable
class Texts(Protocol):
    """Texts being written, k of them for each of b items, in rows that follow one another."""

    @property
    def device(self) -> torch.device:
        """Where words are expected."""

    def __len__(self) -> int:
        """How many rows there are."""

    def reorder(self, rows: Int[Tensor, "b k"], /) -> None:
        """Let text j of item i continue row `rows[i, j]`; items may be left out, not moved."""


S = TypeVar("S", bound=Texts)


@runtime_checkable
class Writer(Protocol[S]):
    """A model that writes."""

    def new_state(self, batch: Any, /) -> S:
        """One empty text for each item of the batch."""

    def decode(self, words: Int[Tensor, "r n"], state: S, /) -> Float[Tensor, "r w"]:
        """Append words to each text; the scores of the next one."""


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """How a text begins and ends, and what it may not say."""

    bos_id: int
    """The word that every text starts from, unless a prompt is given."""
    eos_id: int
    """The word that ends a text."""
    max_new_tokens: int = 32
    """Words at the most, the end counted; a text that gets there stays without an end."""
    min_new_tokens: int = 0
    """Words at the least, the end not counted."""
    no_repeat_ngram_size: int = 0
    """Length of a run of words that no text has twice, begin and prompt counted; 0 is no rule."""
    suppress_tokens: tuple[int, ...] = ()
    """Words that are not written at all, such as that for padding."""

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ValueError(
                f"max_new_tokens={self.max_new_tokens}: a text has at least 1 word, its end"
            )
        if not 0 <= self.min_new_tokens <= self.max_new_tokens:
            raise ValueError(
                f"min_new_tokens={self.min_new_tokens} does not lie in 0 … "
                f"max_new_tokens={self.max_new_tokens}"
            )
        if self.no_repeat_ngram_size < 0:
            raise ValueError(
                f"no_repeat_ngram_size={self.no_repeat_ngram_size}: a run of words has at least 1"
            )
        if self.eos_id in self.suppress_tokens:
            raise ValueError(
                f"suppress_tokens={self.suppress_tokens} has the end, {self.eos_id}, so no text "
                "could end"
            )


class Generated(NamedTuple):
    """What was written: the texts of the first item, best first, then those of the next."""

    tokens: list[list[int]]
    """Each text, without begin and end."""
    scores: list[float]
    """The log-probability of each text, its end counted; beams divide it by length^penalty."""
    finished: list[bool]
    """Whether each text came to its end, or a listener ended it, before the longest length."""
    rows: list[list[int]]
    """For each text, the row of the batch that asked for its word at each step, the end's too."""


def check_still(model: object) -> None:
    """Refuse a model that is in training: it would not say, or look at, the same thing twice."""
    if isinstance(model, nn.Module) and model.training:
        raise ValueError(
            f"{type(model).__name__} is in training, where dropout makes it say something else "
            "each time: call eval() on it first"
        )


def first_words(
    state: Texts, rules: GenerationConfig, prompt: Prompt | None
) -> tuple[Int[Tensor, "b n"], list[int] | None]:
    """The words that each text starts from, and how many are its own where that differs."""
    if prompt is None:
        return torch.full((len(state), 1), rules.bos_id, device=state.device), None
    if not isinstance(prompt, Tensor):
        lengths = [len(words) for words in prompt]
        longest = max(lengths, default=0)
        rows = [[*words, *[rules.bos_id] * (longest - len(words))] for words in prompt]
        if len(rows) == len(state) and min(lengths, default=1):
            same = len(set(lengths)) <= 1
            found = torch.tensor(rows, dtype=torch.long, device=state.device)
            return found.reshape(len(rows), longest), None if same else lengths
        raise ValueError(
            f"prompts of {lengths[:8]} words were given; {len(state)} items need one each, with at "
            "least 1 word"
        )
    if len(prompt) != len(state) or prompt.ndim != 2 or not prompt.shape[1]:
        raise ValueError(
            f"the prompt has shape {tuple(prompt.shape)}; {len(state)} items need "
            f"({len(state)}, words), with at least 1 word"
        )
    return prompt.to(state.device), None


def log_chances(
    model: Writer[S],
    words: Int[Tensor, "r n"],
    state: S,
    lengths: list[int] | None,
    rules: GenerationConfig,
) -> Float[Tensor, "r w"]:
    """Append words to each text; the log-probability of each next one, in float32 at the least."""
    own = () if lengths is None else (lengths,)  # told only where texts differ in length
    logits = model.decode(words, state, *own)
    w = logits.shape[-1]
    if not all(0 <= word < w for word in (rules.eos_id, *rules.suppress_tokens)):
        raise ValueError(f"the model knows words 0 … {w - 1}, and the rules name others: {rules}")
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


class Gate:
    """Shuts out the words that the rules forbid, by what was written so far."""

    def __init__(
        self, rules: GenerationConfig, words: Int[Tensor, "r n"], lengths: list[int] | None
    ) -> None:
        self.rules, device = rules, words.device
        self.never = torch.tensor(rules.suppress_tokens, dtype=torch.long, device=device)
        self.early = torch.tensor([*rules.suppress_tokens, rules.eos_id], device=device)
        self.written: Tensor | None = None  # nobody asks for it without a rule about runs
        if rules.no_repeat_ngram_size:
            self.written = words if lengths is None else _right_aligned(words, lengths)

    def note(self, words: Int[Tensor, "r 1"]) -> None:
        """Each text has one word more."""
        if self.written is not None:
            self.written = torch.cat([self.written, words], 1)

    def follow(self, rows: Int[Tensor, "r"]) -> None:
        """Texts go on from these rows."""
        if self.written is not None:
            self.written = self.written[rows]

    def shut(self, scores: Float[Tensor, "r w"], length: int) -> None:
        """Put −∞, in place, on words that are shut out; a text with none left may end."""
        rules, n, t = self.rules, self.rules.no_repeat_ngram_size, 0
        shut = self.early if length < rules.min_new_tokens else self.never
        tight = n > 0 or len(rules.suppress_tokens) > 0
        if self.written is not None:
            t = self.written.shape[1]
        # At most the end, those never written and one for each word so far are shut: of a larger
        # vocabulary something is left.
        tight = tight and scores.shape[-1] <= 1 + len(rules.suppress_tokens) + t
        end = scores[:, rules.eos_id].clone() if tight else None
        if len(shut):
            scores.index_fill_(1, shut, -torch.inf)
        if self.written is not None and n <= t:
            runs = self.written.unfold(1, n, 1)  # r (t − n + 1) n
            again = (runs[..., :-1] == self.written[:, None, t + 1 - n :]).all(-1)
            again &= runs[..., -1] >= 0
            row, at = again.nonzero(as_tuple=True)
            scores[row, runs[row, at, -1]] = -torch.inf
        if end is not None:
            stuck = torch.isneginf(scores).all(-1)
            scores[:, rules.eos_id] = torch.where(stuck, end, scores[:, rules.eos_id])


def _right_aligned(words: Int[Tensor, "r n"], lengths: list[int]) -> Int[Tensor, "r n"]:
    """Rows that end where their words end, with −1, which is no word, before them."""
    n = words.shape[1]
    shift = n - torch.tensor(lengths, device=words.device)[:, None]
    at = torch.arange(n, device=words.device) - shift
    return words.gather(1, at.clamp(min=0)).masked_fill(at < 0, -1)
