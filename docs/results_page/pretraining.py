"""Readers pretrained by questions that need no labels, and what each kind of question adds."""

from regard.tasks.pretrain.views import ASKED
from results_page.cells import lasting, ranged, share, signed, spread, table
from results_page.records import Facts, origin, read, recorded, runs_of

PAIRS = ("next", "inverted", "inference")


def pretrained() -> list[str]:
    """How well each kind of question is answered on test."""
    parts = ["## Questions answered after pretraining", PRETRAINED]
    for facts in runs_of("pretrain"):
        seen = {name: [run["figures"][name]["value"] for run in facts["runs"]] for name in ASKED}
        rows = [
            [f"*{name}*: {words}", ranged(seen[name]), "50%" if name in PAIRS else ""]
            for name, words in ASKED.items()
        ]
        head = ["question", f"right on {facts['split']}", "chance"]
        parts += [f"{origin(facts)} {told(facts, seen)}", table(head, rows)]
    return parts if len(parts) > 2 else []


def told(facts: Facts, seen: dict[str, list[float]]) -> str:
    """How large, how long, how sure of a hidden token; and what is odd."""
    runs = facts["runs"]
    sure = [run["figures"]["perplexity"] for run in runs]
    seconds = sum(run["seconds"] for run in runs) / len(runs)
    words = (
        f"{facts['parameters']:,} parameters, {runs[0]['epochs']} epochs, {lasting(seconds)}, "
        f"{len(runs)} seeds. The perplexity of a hidden token is {sum(sure) / len(sure):.1f} "
        f"({min(sure):.1f} to {max(sure):.1f})."
    )
    same = [f"*{name}*" for name, values in seen.items() if len(values) > len(set(values)) == 1]
    return f"{words} Of {' and '.join(same)} all seeds have equally many right." if same else words


PRETRAINED = (
    "A BERT that has read plain text and was asked four kinds of question about it, which test "
    "asks of text that it has not read: the share of right answers, the mean of the seeds with the "
    "least and the greatest. Of the pairs half have the answer yes, so that chance is 50%; how "
    "often one would guess a hidden token by chance, the record does not say."
)


def questioned() -> list[str]:
    """What each kind of question adds in pretraining, as the ablation found it."""
    if not recorded(ABLATION):
        return []
    facts, rows = read(ABLATION), []
    for line in facts["summary"]:
        gain = line["sst2"]["gain"]
        rows.append(
            [
                line["choice"],
                *(share(line["questions"].get(name)) for name in ASKED),
                spread(line["sst2"]),
                "" if gain is None else signed(gain),
                spread(line["sick"]),
                f"{line['seeds']}",
            ]
        )
    head = ["pretrained on", *ASKED, "SST-2, 1,000 labels", "over scratch", "SICK", "seeds"]
    return [
        "## What each kind of question adds",
        f"{origin(facts)} {QUESTIONED}",
        table(head, rows),
    ]


ABLATION = "ablation-wikitext-2-cuda"
QUESTIONED = (
    "Right answers to the questions on validation after the last epoch, of pairs half of which are "
    "yes; then, on test, the reader fine-tuned with 1,000 labels of SST-2 (the mean of several "
    "draws of labels for each seed) and on SICK: the mean of the seeds, the least and the "
    "greatest. *Over scratch* is the gain in points over the best small model from scratch with "
    "the same labels, and its 95% interval by Student's t over the seeds. *Untrained* is the same "
    "model, with its first weights. Fine-tuning was settled on validation of SST-2."
)
