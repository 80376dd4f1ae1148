"""Which words of a text carried a classifier's answer: by what it read, weighed and would miss.

    maps = word_maps(model, tokens, spans)          # spans: the places of each word's tokens
    maps.left_out[3]                                # what the answer loses without word 3
    item = words_item("A review", words, maps, ("negative", "positive"))   # for the view "words"

No method is the truth. Leaving a word out asks the plainest question, and one word at a time; the
gradient asks what all words add together; attention only says what was read. `word_faithfulness`
measures how well each points at what the model needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import watch
from regard.inspection.faithfulness import BATCH, checked
from regard.inspection.maps import evaluating
from regard.inspection.places import has_places
from regard.models.text_classifier import TextClassifier

TOKENS = 1 << 12  # that the model is shown at once, padding counted
STEPS = (8, 16, 32, 64, 128, 256)  # places on the way at which slopes are taken, until they suffice
ENOUGH = 0.01  # share of all that words say, for and against, that may be missing from their sum
ANSWERS = 5  # classes that the page names

Token: TypeAlias = int | tuple[int, int]  # a number, with its segment where texts come in pairs
Span: TypeAlias = tuple[int, int]  # a word's first token, and the first one after it
# Texts of any lengths to probabilities (b classes).
Probability: TypeAlias = Callable[[Sequence[Sequence[Token]]], Tensor]


class Method(NamedTuple):
    """How to read the numbers of one way to ask; signed ones speak for or against the answer."""

    signed: bool
    unit: Literal["share", "log-odds", "log-probability"]
    words: str


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "left out": Method(
            True,
            "log-probability",
            "How far the logarithm of the answer’s probability falls when the word is left out.",
        ),
        "gradient": Method(
            True,
            "log-odds",
            "What the word adds to the answer’s log-odds on the way from blank words to these: "
            "integrated gradients.",
        ),
        "attention": Method(
            False,
            "share",
            "How much of the word the answer read, through all layers: rollout. It does not say "
            "what for.",
        ),
    }
)


@dataclass(frozen=True)
class WordMaps:
    """What each word did for an answer, by three methods, and how probable all answers were.

    `left_out` and `gradient` are positive where a word speaks for the answer. `attention` has
    shares of 1; what was read of tokens that are in no word is left out and not made up for. It is
    None where channels read channels, and nothing is known of what was read of a word.
    """

    answer: int
    probabilities: Float[np.ndarray, "classes"]
    left_out: Float[np.ndarray, "w"]
    gradient: Float[np.ndarray, "w"]
    attention: Float[np.ndarray, "w"] | None
    gradient_error: float  # what is missing from the gradient's sum, as a share of its parts

    def by_method(self) -> dict[str, Float[np.ndarray, "w"]]:
        """The maps that there are, by the names that METHODS has."""
        maps = {"left out": self.left_out, "gradient": self.gradient}
        return maps if self.attention is None else {**maps, "attention": self.attention}


def word_maps(
    model: TextClassifier,
    tokens: Sequence[int],
    spans: Sequence[Span],
    *,
    segments: Sequence[int] | None = None,
    answer: int | None = None,
) -> WordMaps:
    """How much each word carried `answer`, or else the class that the model finds most probable.

    `spans` are the words: each has the tokens from its first number up to, not including, its
    second. Tokens in no span, such as start and end, stay in place whatever is asked. The model is
    left as it was.
    """
    check(len(tokens), spans, segments)
    text: Sequence[Token] = tokens
    if segments is not None:
        text = list(zip(tokens, segments, strict=True))
    probability = reader(model)
    shares = probability([text])[0].numpy()
    chosen = int(shares.argmax()) if answer is None else answer
    if not 0 <= chosen < len(shares):
        raise ValueError(f"answer={chosen}: there are {len(shares)} classes, from 0")
    with evaluating(model):
        slopes, error = integrated_gradients(model, tokens, spans, chosen, segments=segments)
        read = None
        if has_places(model):
            read = summed(attention_read(model, tokens, segments=segments), spans)
    return WordMaps(
        chosen,
        shares,
        left_out(probability, text, spans, chosen),
        summed(slopes, spans),
        read,
        error,
    )


def left_out(
    probability: Probability, tokens: Sequence[Token], spans: Sequence[Span], answer: int
) -> Float[np.ndarray, "w"]:
    """How far the answer's log-probability falls when a word is deleted; all else moves up.

    It asks nothing of a model but its answers, and is the plainest of the three. What two words
    say both, it finds in neither: without one, the other still says it.
    """
    texts = [list(tokens), *(without(tokens, [span]) for span in spans)]
    shares = probabilities_of(probability, texts)[:, answer].double()
    # A share that rounds to 0 has no logarithm; it is as small as a number can be.
    logs = shares.clamp(min=torch.finfo(shares.dtype).tiny).log()
    return (logs[0] - logs[1:]).numpy()


@torch.inference_mode(False)  # where no slope could be taken
def integrated_gradients(
    model: TextClassifier,
    tokens: Sequence[int],
    spans: Sequence[Span],
    answer: int,
    *,
    segments: Sequence[int] | None = None,
) -> tuple[Float[np.ndarray, "n"], float]:
    """What each token adds to the log-odds of the answer (Sundararajan, Taly and Yan 2017).

    All words go from blank, the mean of the vocabulary's embeddings, straight to what they are,
    and the slopes met on the way are added up. So the tokens' numbers sum to the difference that
    the words make, which is also how it is known when enough slopes were taken: what is still
    missing is returned beside them. Tokens in no span do not move, and have 0.
    """
    words, kinds = numbered(model, tokens, segments)
    moving = torch.zeros(len(tokens), dtype=torch.bool)
    for start, end in spans:
        moving[start:end] = True
    with torch.no_grad():
        whole = model.bert.token_embedding(words)[0]
        every = torch.arange(model.config.vocab_size, device=words.device)
        way = (whole - model.bert.token_embedding(every).mean(0)).masked_fill(
            ~moving.to(words.device)[:, None], 0.0
        )
        ends = log_odds(model, words, kinds, torch.stack((whole - way, whole)), answer)
        difference = float(ends[1] - ends[0])

    values, error = np.zeros(len(tokens)), 0.0
    for steps in STEPS:
        values = slopes_along(model, words, kinds, whole, way, answer, steps)
        # Parts that cancel leave a small difference, which is no measure of what is missing.
        size = float(np.abs(values).sum())
        error = abs(float(values.sum()) - difference) / size if size else 0.0
        if error <= ENOUGH:
            break
    return values, error


def slopes_along(
    model: TextClassifier,
    words: Int[Tensor, "1 n"],
    kinds: Int[Tensor, "1 n"] | None,
    whole: Float[Tensor, "n c"],
    way: Float[Tensor, "n c"],
    answer: int,
    steps: int,
) -> Float[np.ndarray, "n"]:
    """The integral of the slope along a straight way that ends at `whole` (Gauss and Legendre)."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)  # over −1 … 1
    left = torch.from_numpy((1 - nodes) / 2).to(whole)  # of the way, still to go
    total = torch.zeros_like(whole)
    at_once = max(1, TOKENS // words.shape[1])
    for still, weight in zip(
        left.split(at_once), torch.from_numpy(weights / 2).to(whole).split(at_once), strict=True
    ):
        with torch.enable_grad():
            given = (whole - still[:, None, None] * way).requires_grad_()
            out = log_odds(model, words, kinds, given, answer)
            (slopes,) = torch.autograd.grad(out.sum(), given)
        total += torch.einsum("b,bnc->nc", weight, slopes)
    return (total * way).sum(-1).cpu().double().numpy()


def attention_read(
    model: TextClassifier, tokens: Sequence[int], *, segments: Sequence[int] | None = None
) -> Float[np.ndarray, "n"]:
    """What the answer read of each token, through all layers and what passes them by.

    An answer read off the first token has its row of the rollout. Mean and greatest are read off
    all tokens, and have the mean of their rows.
    """
    words, kinds = numbered(model, tokens, segments)
    with torch.no_grad(), watch(model, "bert.blocks.*.attention") as seen:
        model(words, kinds)
        flow = seen.rollout()[0]
    row = flow[0] if model.config.pool == "cls" else flow.mean(0)
    return row.cpu().double().numpy()


def reader(model: TextClassifier) -> Probability:
    """The model as a function from texts, each a list of tokens, to probabilities on the host.

    Texts are padded to the longest of those that are read together, which are of like lengths.
    """
    device = next(model.parameters()).device

    def probability(texts: Sequence[Sequence[Token]]) -> Float[Tensor, "b classes"]:
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        found: dict[int, Tensor] = {}
        with evaluating(model), torch.no_grad():
            for rows in of_like_lengths(order, [len(text) for text in texts]):
                words, kinds, positions = padded([texts[row] for row in rows])
                scores = model(
                    words.to(device),
                    None if kinds is None else kinds.to(device),
                    positions=None if positions is None else positions.to(device),
                )
                # float64, so that a share next to 1 still differs from its neighbours.
                found |= zip(rows, scores.cpu().double().softmax(-1), strict=True)
        return torch.stack([found[row] for row in range(len(texts))])

    return probability


def of_like_lengths(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows, shortest first, in parts that hold at most so many tokens when they are padded."""
    rows: list[int] = []
    for row in order:
        if rows and (len(rows) + 1) * lengths[row] > TOKENS:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows


def padded(
    texts: Sequence[Sequence[Token]],
) -> tuple[Int[Tensor, "b n"], Int[Tensor, "b n"] | None, Int[Tensor, "b n"] | None]:
    """Texts side by side, with their segments and positions where these are not plain."""
    longest = max(map(len, texts))
    pairs = any(isinstance(token, tuple) for text in texts for token in text[:1])
    words, kinds, where = torch.zeros(3, len(texts), longest, dtype=torch.int64)
    where -= 1  # padding
    for row, text in enumerate(texts):
        n = len(text)
        numbers = torch.tensor(text, dtype=torch.int64).view(n, -1)
        words[row, :n], where[row, :n] = numbers[:, 0], torch.arange(n)
        if pairs:
            kinds[row, :n] = numbers[:, 1]
    same = min(map(len, texts)) == longest
    return words, kinds if pairs else None, None if same else where


def probabilities_of(
    probability: Probability, texts: Sequence[Sequence[Token]]
) -> Float[Tensor, "b classes"]:
    """The probabilities of any number of texts, on the host."""
    parts = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    return torch.cat([checked(probability(part), len(part), "texts").cpu() for part in parts])


def without(tokens: Sequence[Token], spans: Sequence[Span]) -> list[Token]:
    """The text when these words are deleted from it."""
    gone = {place for start, end in spans for place in range(start, end)}
    return [token for place, token in enumerate(tokens) if place not in gone]


def log_odds(
    model: TextClassifier,
    words: Int[Tensor, "1 n"],
    kinds: Int[Tensor, "1 n"] | None,
    embedded: Float[Tensor, "b n c"],
    answer: int,
) -> Float[Tensor, "b"]:
    """How much more the answer is worth than all others together, of texts given as vectors."""
    b = len(embedded)
    with embedding(model, embedded):
        scores = model(words.expand(b, -1), None if kinds is None else kinds.expand(b, -1))
    others = [at for at in range(scores.shape[-1]) if at != answer]
    return scores[:, answer] - scores[:, others].logsumexp(-1)


@contextmanager
def embedding(model: TextClassifier, vectors: Float[Tensor, "b n c"]) -> Iterator[None]:
    """Words, whatever they are, have these vectors."""
    handle = model.bert.token_embedding.register_forward_hook(lambda *_: vectors)
    try:
        yield
    finally:
        handle.remove()


def numbered(
    model: TextClassifier, tokens: Sequence[int], segments: Sequence[int] | None
) -> tuple[Int[Tensor, "1 n"], Int[Tensor, "1 n"] | None]:
    """One text where the model is."""
    device = next(model.parameters()).device
    words = torch.tensor([list(tokens)], device=device)
    return words, None if segments is None else torch.tensor([list(segments)], device=device)


def summed(values: Float[np.ndarray, "n"], spans: Sequence[Span]) -> Float[np.ndarray, "w"]:
    """One number a word."""
    return np.array([values[start:end].sum() for start, end in spans], np.float64)


def check(n: int, spans: Sequence[Span], segments: Sequence[int] | None = None) -> None:
    """Refuse words that are not in the text, or in it twice."""
    if not n:
        raise ValueError("a text of 0 tokens has no start that an answer could be read off")
    if segments is not None and len(segments) != n:
        raise ValueError(f"{n} tokens have {len(segments)} segments; each needs one")
    last = 0
    for number, (start, end) in sorted(enumerate(spans), key=lambda one: one[1]):
        if not 0 <= start < end <= n:
            raise ValueError(f"word {number} is from {start} to {end}, in a text of {n} tokens")
        if start < last:
            raise ValueError(f"word {number}, from {start}, begins inside one that ends at {last}")
        last = end


def words_item(
    name: str,
    words: Sequence[str],
    maps: WordMaps,
    classes: Sequence[str],
    *,
    truth: str | None = None,
    breaks: Sequence[int] = (),
    note: str = "",
    whole: Float[np.ndarray, "classes"] | None = None,
) -> dict[str, Any]:
    """One text for the page's view "words", which shows words as deep as their numbers are large.

    `words` have the space before them if there is one, so that they make the text when joined. A
    new paragraph begins before each word whose place is in `breaks`: a pair's second text. Where
    words and maps are only of a part, `whole` are the probabilities of all of the text.

    The item is {"name", "words", "breaks", "note"}, and
    "answers": [{"name", "share"}], most probable first; "answer": the name of the one explained;
    "alone": its share in the part by itself, or null where that is all;
    "truth": a class's name or null;
    "methods": [{"name", "words": how to read it, "signed", "unit", "values": one a word}], where
    the unit is "share" (of 1), "log-odds" or "log-probability" (natural), or anything else.
    """
    check_words(words, maps.by_method(), breaks)
    shares = maps.probabilities if whole is None else whole
    if len(classes) != len(shares):
        raise ValueError(f"{len(shares)} probabilities have {len(classes)} classes")
    first = np.argsort(-shares, kind="stable")[:ANSWERS]
    return {
        "name": name,
        "words": list(words),
        "breaks": list(breaks),
        "answers": [{"name": classes[at], "share": float(shares[at])} for at in map(int, first)],
        "answer": classes[maps.answer],
        "alone": None if whole is None else float(maps.probabilities[maps.answer]),
        "truth": truth,
        "methods": [
            # Four digits are more than a page says of any word.
            {"name": way, **METHODS[way]._asdict(), "values": [float(f"{v:.4g}") for v in values]}
            for way, values in maps.by_method().items()
        ],
        "note": note,
    }


def check_words(
    words: Sequence[str], maps: Mapping[str, np.ndarray], breaks: Sequence[int] = ()
) -> None:
    """Refuse maps that are not one finite number a word."""
    for name, values in maps.items():
        if values.shape != (len(words),):
            raise ValueError(f"{len(words)} words have a map {name!r} of shape {values.shape}")
        if wrong := int((~np.isfinite(values)).sum()):
            raise ValueError(f"{wrong} numbers of the map {name!r} are not finite")
    if wild := [place for place in breaks if not 0 < place < len(words)]:
        raise ValueError(f"a paragraph cannot begin at word {wild[0]} of {len(words)}")
