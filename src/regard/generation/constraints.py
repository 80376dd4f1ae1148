"""Who writes, by which rules, and what comes out: what every way of writing has in common.

    rules = Rules(begin=1, end=2, longest=20, no_repeat=3)

`generate` has the ways. Any model that is a `Writer` will do: `start` begins a text for each item
of a batch, `step` appends words and scores the next one from what its caches hold, and `reorder`
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

    def start(self, batch: Any, /) -> S:
        """One empty text for each item of the batch."""

    def step(self, words: Int[Tensor, "r n"], state: S, /) -> Float[Tensor, "r w"]:
        """Append words to each text; the scores of the next one."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How a text begins and ends, and what it may not say."""

    begin: int
    """The word that every text starts from, unless a prompt is given."""
    end: int
    """The word that ends a text."""
    longest: int = 32
    """Words at the most, the end counted; a text that gets there stays without an end."""
    shortest: int = 0
    """Words at the least, the end not counted."""
    no_repeat: int = 0
    """Length of a run of words that no text has twice, begin and prompt counted; 0 is no rule."""
    never: tuple[int, ...] = ()
    """Words that are not written at all, such as that for padding."""

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise ValueError(f"longest={self.longest}: a text has at least 1 word, its end")
        if not 0 <= self.shortest <= self.longest:
            raise ValueError(f"shortest={self.shortest} does not lie in 0 … longest={self.longest}")
        if self.no_repeat < 0:
            raise ValueError(f"no_repeat={self.no_repeat}: a run of words has at least 1")
        if self.end in self.never:
            raise ValueError(f"never={self.never} has the end, {self.end}, so no text could end")


class Generated(NamedTuple):
    """What was written: the texts of the first item, best first, then those of the next."""

    words: list[list[int]]
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
    state: Texts, rules: Rules, prompt: Prompt | None
) -> tuple[Int[Tensor, "b n"], list[int] | None]:
    """The words that each text starts from, and how many are its own where that differs."""
    if prompt is None:
        return torch.full((len(state), 1), rules.begin, device=state.device), None
    if not isinstance(prompt, Tensor):
        lengths = [len(words) for words in prompt]
        longest = max(lengths, default=0)
        rows = [[*words, *[rules.begin] * (longest - len(words))] for words in prompt]
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
    model: Writer[S], words: Int[Tensor, "r n"], state: S, lengths: list[int] | None, rules: Rules
) -> Float[Tensor, "r w"]:
    """Append words to each text; the log-probability of each next one, in float32 at the least."""
    own = () if lengths is None else (lengths,)  # told only where texts differ in length
    logits = model.step(words, state, *own)
    w = logits.shape[-1]
    if not all(0 <= word < w for word in (rules.end, *rules.never)):
        raise ValueError(f"the model knows words 0 … {w - 1}, and the rules name others: {rules}")
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


class Gate:
    """Shuts out the words that the rules forbid, by what was written so far."""

    def __init__(self, rules: Rules, words: Int[Tensor, "r n"], lengths: list[int] | None) -> None:
        self.rules, device = rules, words.device
        self.never = torch.tensor(rules.never, dtype=torch.long, device=device)
        self.early = torch.tensor([*rules.never, rules.end], device=device)
        self.written: Tensor | None = None  # nobody asks for it without a rule about runs
        if rules.no_repeat:
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
        rules, n, t = self.rules, self.rules.no_repeat, 0
        shut = self.early if length < rules.shortest else self.never
        tight = n > 0 or len(rules.never) > 0
        if self.written is not None:
            t = self.written.shape[1]
        # At most the end, those never written and one for each word so far are shut: of a larger
        # vocabulary something is left.
        tight = tight and scores.shape[-1] <= 1 + len(rules.never) + t
        end = scores[:, rules.end].clone() if tight else None
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
            scores[:, rules.end] = torch.where(stuck, end, scores[:, rules.end])


def _right_aligned(words: Int[Tensor, "r n"], lengths: list[int]) -> Int[Tensor, "r n"]:
    """Rows that end where their words end, with −1, which is no word, before them."""
    n = words.shape[1]
    shift = n - torch.tensor(lengths, device=words.device)[:, None]
    at = torch.arange(n, device=words.device) - shift
    return words.gather(1, at.clamp(min=0)).masked_fill(at < 0, -1)
