"""Four kinds of question for one pretraining: a generative one, and three about pairs."""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional as F

from regard.data.synthetic import grammar
from regard.data.synthetic.inference import inference_pairs
from regard.data.synthetic.inversions import inversion_pairs
from regard.lab.claim import Claim
from regard.lab.evidence import Check, Evidence, at_least, equal
from regard.lab.figures import bars
from regard.lab.question import Question
from regard.lab.records import experiment, provenance, recorded
from regard.models import BertForPretraining, BertForPretrainingConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIRS = ("nsp", "inversion", "nli")
LABELLED = ("inversion", "nli")  # pairs that can be made here, with their answers
NOTHING, BEGIN, BETWEEN, HIDDEN = range(4)  # that are no words
ALL = "all four"
SCRATCH, UNTRAINED = "from scratch", "untrained"
TUNED = {"sst2": "SST-2", "sick": "SICK"}


def measure(pairs: int = 256, seed: int = 0) -> Evidence:
    """Heads of a model that is built here, and their recorded answers after training.

    Args:
        pairs: pairs that an untrained model is asked about, 16 or more.
        seed: where its weights and the texts start.
    """
    if pairs < 16:
        raise ValueError(f"pairs={pairs}: 16 at least, or chance cannot be told from more")
    found = recorded("pretraining-tasks")
    together = [row["questions"] for row in found["rows"] if row["choice"] == ALL]
    worst = {name: min(each[name] for each in together) for name in ("mlm", *PAIRS)}
    base = found["baselines"]
    # One who always fills in the commonest token, and is handed every piece of <unk> besides.
    filled = base["most frequent token"] + base["pieces of <unk>"]

    untrained = Untrained(pairs, seed)
    words = untrained.model.config.vocab_size
    reach = [untrained.gradient(name) > 1e-6 for name in ("mlm", *PAIRS)]
    guessed = {name: untrained.right(name) for name in ("mlm", *LABELLED)}
    gains = {data: gained(found["rows"], data) for data in TUNED}
    intervals = [each for of in gains.values() for name, each in of.items() if name != UNTRAINED]
    open_ = sum(low <= 0 <= high for _, low, high in intervals)
    least = min(worst[name] for name in PAIRS)
    return Evidence(
        deciding=f"pairs: at least {least:.1%} right, chance is 50%",
        written=(
            equal("words that the masked head chooses among", untrained.choices("mlm"), words),
            equal("answers that a pair head chooses among", untrained.choices("nsp"), 2),
            equal("of the four, losses that reach the shared reader", sum(reach), 4),
            *(
                above_chance(f"{name}: share right, the worst seed", worst[name], found["measured"])
                for name in PAIRS
            ),
            at_least("masked: share right, the worst seed", worst["mlm"], filled),
        ),
        controls=(
            *(
                above_chance(f"untrained, {name}: share right", guessed[name], pairs)
                for name in LABELLED
            ),
            at_least("untrained, masked: share right", guessed["mlm"], filled),
        ),
        series={
            "right": {name: mean(e[name] for e in together) for name in ("mlm", *PAIRS)},
            "baselines": base,
            "gains": {
                data: {n: list(each) for n, each in of.items()} for data, of in gains.items()
            },
        },
        notes=(
            f"What each adds is less sure than that it is learnt: of {len(intervals)} gains over "
            f"the best small model from scratch, {open_} have a 95% interval that includes 0 "
            f"({found['seeds']} seeds). In points, where untrained is the reader's first weights:",
            *(f"{TUNED[data]}: {in_points(of)}" for data, of in gains.items()),
            f"Masked words are held against {filled:.1%}: the commonest token, "
            f"{base['most frequent token']:.1%}, and the pieces of <unk>, "
            f"{base['pieces of <unk>']:.1%}, which their neighbours give away.",
            f"The untrained model is asked about {pairs} pairs of our own grammar and rules, the "
            "answers to which are computed; what comes next is not asked, as they are no text.",
            provenance(found),
        ),
    )


def above_chance(words: str, share: float, count: int) -> Check:
    """More than a half, by four standard errors of a coin that is thrown as often."""
    return at_least(words, share, 0.5 + 4 * 0.5 / math.sqrt(count))


def gained(rows: Sequence[Mapping[str, Any]], data: str) -> dict[str, tuple[float, float, float]]:
    """By how much each choice beats a model from scratch, with its 95% interval over the seeds."""
    from scipy.special import stdtrit

    scratch = {row["seed"]: row[data] for row in rows if row["choice"] == SCRATCH}
    found = {}
    for choice in dict.fromkeys(row["choice"] for row in rows if row["choice"] != SCRATCH):
        gains = [row[data] - scratch[row["seed"]] for row in rows if row["choice"] == choice]
        half = float(stdtrit(len(gains) - 1, 0.975)) * stdev(gains) / math.sqrt(len(gains))
        found[choice] = (mean(gains), mean(gains) - half, mean(gains) + half)
    return found


def in_points(gains: Mapping[str, tuple[float, float, float]]) -> str:
    """Gains in points."""
    return "; ".join(
        f"{choice} {100 * value:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
        for choice, (value, low, high) in gains.items()
    )


class Untrained:
    """A reader with its first weights, and pairs of sentences whose answers are known."""

    def __init__(self, pairs: int, seed: int) -> None:
        labelled = {"inversion": inverted(pairs, seed), "nli": inferred(pairs, seed)}
        split = {
            name: [(pieces(first), pieces(second)) for first, second, _ in some]
            for name, some in labelled.items()
        }
        known = sorted(
            {word for some in split.values() for two in some for word in (*two[0], *two[1])}
        )
        number = {word: at for at, word in enumerate(known, HIDDEN + 1)}
        length = max(len(a) + len(b) for some in split.values() for a, b in some) + 2
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            config = BertForPretrainingConfig(
                vocab_size=HIDDEN + 1 + len(known),
                context_length=length,
                width=32,
                layers=2,
                heads=4,
                pair_tasks=PAIRS,
            )
            self.model = BertForPretraining(config).double().eval()
        self.yes = {
            name: torch.tensor([int(answer) for *_, answer in some])
            for name, some in labelled.items()
        }
        self.yes["nsp"] = torch.arange(pairs) % 2  # for its gradient: nobody knows the answer
        self.hidden = {}
        for name, some in split.items():
            words, segments = numbered(some, number, length)
            self.hidden[name] = self.model.hidden_states(words, segments)
            if name == "inversion":
                self.hidden["nsp"] = self.hidden[name]
                self.truth = words[:, 1].clone()  # the first word of each, which is then hidden
                words[:, 1] = HIDDEN
                self.hidden["mlm"] = self.model.hidden_states(words, segments)

    def scores(self, question: str) -> torch.Tensor:
        if question == "mlm":
            return self.model.token_logits(self.hidden["mlm"][:, 1])
        return self.model.pair_logits(question, self.hidden[question])

    def answers(self, question: str) -> torch.Tensor:
        return self.truth if question == "mlm" else self.yes[question]

    def choices(self, question: str) -> int:
        """How many answers a head weighs against one another: its shares sum to one over them."""
        shares = self.scores(question).softmax(-1)
        assert torch.allclose(shares.sum(-1), torch.ones_like(shares[:, 0]))
        return shares.shape[-1]

    def gradient(self, question: str) -> float:
        """How much of a question's loss reaches the first block, which all questions share."""
        loss = F.cross_entropy(self.scores(question), self.answers(question))
        shared = list(self.model.bert.blocks[0].parameters())
        grads = torch.autograd.grad(loss, shared, retain_graph=True, allow_unused=True)
        return math.sqrt(sum(float(g.square().sum()) for g in grads if g is not None))

    def right(self, question: str) -> float:
        """The share of right answers."""
        predicted = self.scores(question).argmax(-1)
        return float((predicted == self.answers(question)).double().mean())


def inverted(count: int, seed: int) -> list[tuple[str, str, bool]]:
    """Sentences and whether one is the other with its words in another good order, half of them."""
    made = inversion_pairs(grammar.sentences(count, seed), seed)
    parts = ([pair[:3] for pair in made if pair.inverted is answer] for answer in (True, False))
    return [pair for both in zip(*parts, strict=True) for pair in both][:count]


def inferred(count: int, seed: int) -> list[tuple[str, str, bool]]:
    """Sentences and whether the second follows from the first, half of them."""
    return [pair[:3] for pair in inference_pairs(count, seed, held=True)]


def pieces(sentence: str) -> list[str]:
    """Words and marks."""
    return re.findall(r"\w+|[^\w\s]", sentence.lower())


def numbered(
    pairs: Sequence[tuple[list[str], list[str]]], number: Mapping[str, int], length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both sentences in one row, and which of them each place belongs to."""
    words = torch.full((len(pairs), length), NOTHING)
    segments = torch.zeros_like(words)
    for row, (first, second) in enumerate(pairs):
        tokens = [BEGIN, *map(number.__getitem__, first), BETWEEN, *map(number.__getitem__, second)]
        words[row, : len(tokens)] = torch.tensor(tokens)
        segments[row, len(first) + 2 :] = 1
    return words, segments


def train(device: str) -> dict[str, Any]:
    """Pretrain with every choice of questions and three seeds, and fine-tune; needs the data."""
    ablation = experiment("pretrain_ablation")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        ablation.main(ablation.Ablation(device=device, seeds=3, record=path))
        found = json.loads(path.read_text(encoding="utf-8"))
    return condensed(found, ablation.MEASURED, baselines(ablation.TASK, "wikitext-2"))


def condensed(
    found: Mapping[str, Any], measured: int, baselines: Mapping[str, float]
) -> dict[str, Any]:
    """What is kept of a file of results, with how many pairs were asked and what guessing gets."""
    about = ("command", "device", "torch", "commit", "date", "seeds")
    kept = ("choice", "seed", "questions", "sst2", "sick")
    rows = sorted(found["rows"], key=lambda row: (row["choice"], row["seed"]))
    return {
        **{key: found[key] for key in about},
        "measured": measured,
        "baselines": dict(baselines),
        "rows": [{key: row[key] for key in kept if key in row} for row in rows],
    }


def baselines(task: str, recipe: str) -> dict[str, float]:
    """Shares of validation's tokens: of the commonest, and of the pieces of <unk>."""
    from regard.runs.sweep import configured
    from regard.tasks import find

    _, config = configured(task, recipe, {})
    data = find(task).load().load_data(config)
    tokens = data.parts["validation"].documents.lines.numbers
    counts, words = np.bincount(tokens), data.metadata.words
    pieces = [number for number in set(words.encode(" <unk>")) if number < len(counts)]
    return {
        "most frequent token": float(f"{counts.max() / len(tokens):.4g}"),
        "pieces of <unk>": float(f"{counts[pieces].sum() / len(tokens):.4g}"),
    }


def plot(evidence: Evidence) -> Figure:
    names = {"mlm": "masked word", "nsp": "next sentence", "inversion": "inverted sentence"}
    shares = evidence.series["right"]
    return bars(
        {names.get(name, f"logical {name}"): 100 * share for name, share in shares.items()},
        title="Four questions in one pretraining, on held-out text",
        up="right, %",
        about="Chance is 50% for the three pairs; the commonest token is right in "
        f"{evidence.series['baselines']['most frequent token']:.1%} of the masked.",
    )


def ask(numbers: np.random.Generator) -> Question:
    count = int(numbers.choice([256, 400, 576, 1024]))
    right = count // 2 + int(numbers.integers(10, 40))
    return Question(
        f"A head answers ${right}$ of ${count}$ balanced yes-or-no questions about pairs rightly. "
        "How many standard errors of a fair coin is that above chance?",
        (right / count - 0.5) / (0.5 / math.sqrt(count)),
        tolerance=0.02,
        why=f"$({right}/{count} - 0.5) / (0.5 / \\sqrt{{{count}}})$",
    )


CLAIM = Claim(
    id="pretraining-tasks",
    source="E 12.6",
    statement="Masked words are a generative task and sentence pairs a contrastive one; two more "
    "pair tasks are whether a sentence is another one inverted, and whether it follows from it.",
    verdict="holds",
    truth="All four train one reader at once, and each head beats guessing on held-out text: one "
    "chooses among all words, the others between yes and no. That they are learnt does not make "
    "them useful: most gains on other tasks are within the noise of three seeds.",
    measure=measure,
    plot=plot,
    ask=ask,
    train=train,
)
