"""The best of several drafts that a model writes side by side.

    beam_search(model, images, GenerationConfig(bos_id=1, eos_id=2), beams=5).tokens  # [[17, 4], …]

A draft that starts with a worse word may end as the better text, which greedy writing never finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.generation.constraints import (
    Gate,
    Generated,
    GenerationConfig,
    Prompt,
    S,
    Writer,
    check_still,
    first_words,
    log_chances,
)

Stop = Literal["first", "likely", "proven"]


def beam_search(
    model: Writer[S],
    batch: Any,
    rules: GenerationConfig,
    *,
    beams: int = 5,
    length_penalty: float = 1.0,
    stop: Stop = "likely",
    texts: int = 1,
    prompt: Prompt | None = None,
    listen: Callable[[int, list[int]], object] | None = None,
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

    `listen(item, words)` is told, at every step of an item that goes on, the words that its best
    text is sure to begin with: those that all drafts share with the best finished text.
    """
    if not 1 <= texts <= beams:
        raise ValueError(f"texts={texts} does not lie in 1 … beams={beams}")
    if stop not in ("first", "likely", "proven"):
        raise ValueError(f"stop={stop!r} is not one of 'first', 'likely', 'proven'")
    check_still(model)
    with torch.inference_mode():
        return _search(model, batch, rules, prompt, beams, length_penalty, stop, texts, listen)


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

    def __init__(self, rules: GenerationConfig, beams: int, penalty: float, stop: Stop) -> None:
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
            if word == self.rules.eos_id or length == self.rules.max_new_tokens:
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
        limit = (
            self.drafts[0].total / (self.rules.max_new_tokens if far else length) ** self.penalty
        )
        return limit <= self.done[-1].score

    def settled(self, drafts: Sequence[_Link | None]) -> list[int]:
        """The words that its best text begins with, whichever text that will be."""
        texts = [
            [link.word for link in _chain(end)]
            for end in (*drafts, *(done.text for done in self.done[:1]))
        ]
        same = 0
        while all(len(text) > same and text[same] == texts[0][same] for text in texts):
            same += 1
        return [word for word in texts[0][:same] if word != self.rules.eos_id]

    def padded(self) -> list[_Draft]:
        """As many drafts as there are beams; those that do not exist are impossible."""
        missing = self.beams - len(self.drafts)
        return self.drafts + [self.drafts[0]._replace(total=-math.inf)] * missing


def _search(
    model: Writer[S],
    batch: Any,
    rules: GenerationConfig,
    prompt: Prompt | None,
    beams: int,
    penalty: float,
    stop: Stop,
    texts: int,
    listen: Callable[[int, list[int]], object] | None,
) -> Generated:
    state = model.new_state(batch)
    words, lengths = first_words(state, rules, prompt)
    gate = Gate(rules, words, lengths)
    items = [_Item(rules, beams, penalty, stop) for _ in range(len(words))]
    going = items
    links: list[_Link | None] = [None] * len(words)
    totals: Tensor | None = None
    for length in range(1, rules.max_new_tokens + 1 if items else 0):
        scores = log_chances(model, words, state, lengths, rules)
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
        if listen is not None:
            for at, item in enumerate(going):
                listen(items.index(item), item.settled(links[at * beams : (at + 1) * beams]))

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


def _add(out: Generated, done: _Done | None, rules: GenerationConfig) -> None:
    links = _chain(None if done is None else done.text)
    finished = bool(links) and links[-1].word == rules.eos_id
    out.tokens.append([link.word for link in links[: len(links) - finished]])
    out.scores.append(-math.inf if done is None else done.score)
    out.finished.append(finished)
    out.rows.append([link.row for link in links])


def _chain(link: _Link | None) -> list[_Link]:
    """A text's links, from the first word on."""
    found = []
    while link is not None:
        found.append(link)
        link = link.before
    return found[::-1]
