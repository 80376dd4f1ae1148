"""Let a model write: the likeliest word each time, several drafts at once, or by chance.

    rules = Rules(begin=1, end=2, longest=20)
    greedy(model, images, rules).words              # [[17, 4, 9], …], without begin and end
    beam_search(model, images, rules, beams=5)
    sample(model, images, rules, temperature=0.8, top_p=0.9, generator=torch.Generator())

A listener hears each text as it grows, to show it or to end it:

    greedy(model, images, rules, listen=lambda text, words: words[-2:] == [4, 9])

Any model that is a `Writer` will do: `start` begins a text for each item of a batch, `step` appends
words and scores the next one from what its caches hold, and `reorder` lets texts be dropped or
continued twice. Texts do not feel their neighbours in the batch, and finished ones leave it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

Stop = Literal["first", "likely", "proven"]
Prompt = Int[Tensor, "b n"] | Sequence[Sequence[int]]
"""The words that texts start from: as many for all, or lists of different lengths."""
Listen = Callable[[int, list[int]], bool]
"""`listen(text, words)` is told, at every step, which text has a word more and all its words so
far, without begin and end; where it answers True the text ends there."""


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


def greedy(
    model: Writer[S],
    batch: Any,
    rules: Rules,
    *,
    prompt: Prompt | None = None,
    listen: Listen | None = None,
) -> Generated:
    """The likeliest word each time. Fast, and blind to a better text that starts with a worse."""
    return _write(model, batch, rules, prompt, 1, lambda scores: scores.argmax(-1), listen)


def sample(
    model: Writer[S],
    batch: Any,
    rules: Rules,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    texts: int = 1,
    generator: torch.Generator | None = None,
    prompt: Prompt | None = None,
    listen: Listen | None = None,
) -> Generated:
    """Words drawn by their probability, some number of texts for each item.

    The scores are divided by the temperature; then only the `top_k` likeliest words stay, and of
    those the fewest that together have a share of at least `top_p` (Holtzman et al. 2020). The
    log-probabilities returned are the model's own, before any of this.
    """
    if not temperature > 0:
        raise ValueError(f"temperature={temperature} must be above 0; its limit 0 is greedy(…)")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k={top_k}: at least 1 word must be left to draw")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} is not a share in 0 < … ≤ 1")
    if texts < 1:
        raise ValueError(f"texts={texts}: there must be at least 1")

    def draw(scores: Tensor) -> Tensor:
        chances = narrowed(scores / temperature, top_k, top_p).softmax(-1)
        if generator is not None:  # which may be on another device than the model
            chances = chances.to(generator.device)
        return torch.multinomial(chances, 1, generator=generator)[:, 0].to(scores.device)

    return _write(model, batch, rules, prompt, texts, draw, listen)


def beam_search(
    model: Writer[S],
    batch: Any,
    rules: Rules,
    *,
    beams: int = 5,
    length_penalty: float = 1.0,
    stop: Stop = "likely",
    texts: int = 1,
    prompt: Prompt | None = None,
) -> Generated:
    """The best of several drafts that are written side by side.

    At each step the 2 · `beams` likeliest continuations of an item's drafts are looked at: those
    that end are finished if they are among the first `beams`, and the first `beams` that do not
    end are the next drafts. A finished text is worth its log-probability over its length, the end
    counted, to the power of `length_penalty`: above 0 favours long texts. An item is done

    - with stop="first", when it has `beams` finished texts;
    - with stop="likely", when also the best draft would be worth no more than the worst of them
      if it had ended already;
    - with stop="proven", when no draft can be worth more, however long it becomes: words only
      take away from a log-probability, so what it has now over the best length is its limit.

    At the longest length every draft is finished as it is. Should an item have fewer texts than
    asked for, which takes a tiny vocabulary or hard rules, the rest are empty and worth −∞.
    """
    if not 1 <= texts <= beams:
        raise ValueError(f"texts={texts} does not lie in 1 … beams={beams}")
    if stop not in ("first", "likely", "proven"):
        raise ValueError(f"stop={stop!r} is not one of 'first', 'likely', 'proven'")
    check_still(model)
    with torch.inference_mode():
        return _search(model, batch, rules, prompt, beams, length_penalty, stop, texts)


def narrowed(scores: Float[Tensor, "r w"], top_k: int | None, top_p: float) -> Float[Tensor, "r w"]:
    """Scores with −∞ for every word but the likeliest."""
    if top_k is not None and top_k < scores.shape[-1]:
        least = scores.topk(top_k).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    if top_p < 1:
        ordered, words = scores.sort(descending=True)
        chances = ordered.softmax(-1)
        # A word stays while those before it fall short, so the first always does.
        before = chances.cumsum(-1) - chances
        cut = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, words, before >= top_p)
        scores = scores.masked_fill(cut, -torch.inf)
    return scores


# One text a row


def _write(
    model: Writer[S],
    batch: Any,
    rules: Rules,
    prompt: Prompt | None,
    texts: int,
    pick: Callable[[Tensor], Tensor],
    listen: Listen | None,
) -> Generated:
    check_still(model)
    with torch.inference_mode():
        return _write_on(model, model.start(batch), rules, prompt, texts, pick, listen)


def _write_on(
    model: Writer[S],
    state: S,
    rules: Rules,
    prompt: Prompt | None,
    texts: int,
    pick: Callable[[Tensor], Tensor],
    listen: Listen | None,
) -> Generated:
    words, lengths = _first(state, rules, prompt)
    gate = _Gate(rules, words, lengths)
    owners = list(range(len(words) * texts))  # the text that each row of the batch writes
    out = Generated(
        words=[[] for _ in owners],
        scores=[0.0 for _ in owners],
        finished=[False for _ in owners],
        rows=[[] for _ in owners],
    )

    def hear(news: _News) -> None:
        chosen, gained = news.read()
        for row, (text, word, gain) in enumerate(zip(news.owners, chosen, gained, strict=True)):
            if out.finished[text]:
                continue  # it waits for the others of its item
            out.rows[text].append(row if news.step else row // texts)
            out.scores[text] += gain
            if word == rules.end:
                out.finished[text] = True
            else:
                out.words[text].append(word)
                if listen is not None and listen(text, out.words[text]):
                    out.finished[text] = True

    # A GPU writes a word while the host still reads the one before it. When all is over that is
    # found out one word too late, and the word is forgotten.
    late: list[_News] = []
    for step in range(rules.longest if owners else 0):
        scores = _log_chances(_step(model, words, state, lengths), rules)
        lengths = None
        if step == 0 and texts > 1:  # one pass over the prompt serves all texts of an item
            rows = torch.arange(len(words), device=state.device).repeat_interleave(texts)
            state.reorder(rows.unflatten(0, (-1, texts)))
            scores = scores[rows]
            gate.follow(rows)
        gate.shut(scores, step)
        chosen = pick(scores)
        late.append(_News(chosen, scores, owners, step))
        if len(late) > (state.device.type == "cuda"):
            hear(late.pop(0))

        groups = [range(at, at + texts) for at in range(0, len(owners), texts)]
        going = [group for group in groups if not all(out.finished[owners[row]] for row in group)]
        if not going:
            break
        if len(going) < len(groups):
            kept = torch.tensor([list(group) for group in going], device=state.device)
            state.reorder(kept)
            chosen = chosen[kept.flatten()]
            gate.follow(kept.flatten())
            owners = [owners[row] for group in going for row in group]
        words = chosen[:, None]
        gate.note(words)
    for news in late:
        hear(news)
    return out


class _News:
    """The words of one step and what they gained, on their way to the host."""

    def __init__(self, chosen: Tensor, scores: Tensor, owners: list[int], step: int) -> None:
        gained = scores.gather(-1, chosen[:, None])[:, 0].double()
        both = torch.stack((chosen.double(), gained))  # in one parcel: such whole numbers are exact
        self.owners, self.step = owners, step
        self.both, self.arrived = both, None
        if both.is_cuda:
            self.both, self.arrived = both.to("cpu", non_blocking=True), torch.cuda.Event()
            self.arrived.record()

    def read(self) -> tuple[list[int], list[float]]:
        if self.arrived is not None:
            self.arrived.synchronize()
        chosen, gained = self.both.tolist()
        return [int(word) for word in chosen], gained


# Drafts side by side


class _Link(NamedTuple):
    """A word, the row of the batch that asked for it, and the words before."""

    word: int
    row: int
    before: _Link | None


class _Draft(NamedTuple):
    """A text that may go on: its log-probability, the row it continues, its newest word."""

    total: float
    row: int
    word: int


class _Done(NamedTuple):
    """A text that came to its end, or to the longest length, and what it is worth."""

    score: float
    text: _Link


class _Item:
    """One item's drafts, best first, and the best of its finished texts, best first."""

    def __init__(self, rules: Rules, beams: int, penalty: float, stop: Stop) -> None:
        self.rules, self.beams, self.penalty, self.stop = rules, beams, penalty, stop
        self.drafts: list[_Draft] = []
        self.done: list[_Done] = []

    def take(self, found: Sequence[_Draft], links: Sequence[_Link | None], length: int) -> None:
        """Sort the likeliest continuations, best first, into finished texts and drafts."""
        self.drafts = []
        for rank, draft in enumerate(found):
            total, row, word = draft
            if total == -math.inf:
                break  # nor is anything after it possible
            if word == self.rules.end or length == self.rules.longest:
                if rank < self.beams:  # what is further down is here to replace ended drafts
                    text = _Link(word, row, links[row])
                    self.done.append(_Done(total / length**self.penalty, text))
            elif len(self.drafts) < self.beams:
                self.drafts.append(draft)
        self.done.sort(key=lambda done: -done.score)
        del self.done[self.beams :]

    def is_done(self, length: int) -> bool:
        if not self.drafts:
            return True
        if len(self.done) < self.beams:
            return False
        if self.stop == "first":
            return True
        # Under a penalty above 0 a draft's limit is highest at the longest length; else now.
        far = self.stop == "proven" and self.penalty > 0
        limit = self.drafts[0].total / (self.rules.longest if far else length) ** self.penalty
        return limit <= self.done[-1].score

    def padded(self) -> list[_Draft]:
        """As many drafts as there are beams; those that do not exist are impossible."""
        missing = self.beams - len(self.drafts)
        return self.drafts + [self.drafts[0]._replace(total=-math.inf)] * missing


def _search(
    model: Writer[S],
    batch: Any,
    rules: Rules,
    prompt: Prompt | None,
    beams: int,
    penalty: float,
    stop: Stop,
    texts: int,
) -> Generated:
    state = model.start(batch)
    words, lengths = _first(state, rules, prompt)
    gate = _Gate(rules, words, lengths)
    items = [_Item(rules, beams, penalty, stop) for _ in range(len(words))]
    going = items
    links: list[_Link | None] = [None] * len(words)
    totals: Tensor | None = None
    for length in range(1, rules.longest + 1 if items else 0):
        scores = _log_chances(_step(model, words, state, lengths), rules)
        lengths = None
        gate.shut(scores, length - 1)
        each = len(scores) // len(going)  # drafts of an item: 1 at first, then as many as beams
        for at, (item, found) in enumerate(
            zip(going, _likeliest(scores, totals, each, 2 * beams), strict=True)
        ):
            item.take([_Draft(t, at * each + row, w) for t, row, w in found], links, length)
        going = [item for item in going if not item.is_done(length)]
        if not going:
            break

        drafts = [draft for item in going for draft in item.padded()]
        rows, chosen = [draft.row for draft in drafts], [draft.word for draft in drafts]
        links = [_Link(draft.word, draft.row, links[draft.row]) for draft in drafts]
        index, newest = torch.tensor([rows, chosen], device=state.device)
        totals = scores.new_tensor([draft.total for draft in drafts]).unflatten(0, (-1, beams))
        if rows != list(range(len(scores))):  # else every draft goes on in its own row
            state.reorder(index.unflatten(0, (-1, beams)))
            gate.follow(index)
        words = newest[:, None]
        gate.note(words)

    out = Generated([], [], [], [])
    for item in items:
        for at in range(texts):
            _add(out, item.done[at] if at < len(item.done) else None, rules)
    return out


def _likeliest(
    scores: Float[Tensor, "r w"], totals: Float[Tensor, "b k"] | None, each: int, count: int
) -> list[list[tuple[float, int, int]]]:
    """For each item, the best continuations of its drafts: totals, drafts and words."""
    w = scores.shape[-1]
    sums = scores.unflatten(0, (-1, each))
    if totals is not None:
        sums = sums + totals[..., None]
    best, index = sums.flatten(1).topk(min(count, each * w))
    return [
        [(total, at // w, at % w) for total, at in zip(*both, strict=True)]
        for both in zip(best.tolist(), index.tolist(), strict=True)
    ]


def _add(out: Generated, done: _Done | None, rules: Rules) -> None:
    words: list[int] = []
    rows: list[int] = []
    link = None if done is None else done.text
    while link is not None:
        words.append(link.word)
        rows.append(link.row)
        link = link.before
    finished = bool(words) and words[0] == rules.end  # the newest word is the first here
    out.words.append(words[::-1][: len(words) - finished])
    out.scores.append(-math.inf if done is None else done.score)
    out.finished.append(finished)
    out.rows.append(rows[::-1])


# What all have in common


def check_still(model: object) -> None:
    """Refuse a model that is in training: it would not say, or look at, the same thing twice."""
    if isinstance(model, nn.Module) and model.training:
        raise ValueError(
            f"{type(model).__name__} is in training, where dropout makes it say something else "
            "each time: call eval() on it first"
        )


def _first(
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


def _step(model: Writer[S], words: Tensor, state: S, lengths: list[int] | None) -> Tensor:
    if lengths is None:
        return model.step(words, state)
    return model.step(words, state, lengths)  # type: ignore[call-arg]


def _log_chances(logits: Float[Tensor, "r w"], rules: Rules) -> Float[Tensor, "r w"]:
    """The log-probability of each word, in float32 at the least."""
    w = logits.shape[-1]
    if not all(0 <= word < w for word in (rules.end, *rules.never)):
        raise ValueError(f"the model knows words 0 … {w - 1}, and the rules name others: {rules}")
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


class _Gate:
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
