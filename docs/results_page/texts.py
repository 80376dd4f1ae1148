"""Texts told apart by what they say, and what pretraining adds to that."""

from results_page.cells import lasting, share, signed, spread, table
from results_page.records import made_on, origin, read, recorded, runs_of


def understood() -> list[str]:
    """Every recorded reader of texts, beside what counting words can do."""
    rows = []
    for facts in runs_of("sentiment"):
        runs = facts["runs"]
        found = [run["figures"]["accuracy"]["value"] for run in runs]
        counted = runs[0]["figures"].get("tf-idf")
        rows.append(
            [
                f"`{facts['command']}`",
                f"{facts['parameters']:,}",
                f"{sum(found) / len(found):.1%}"
                + (f" ({min(found):.1%} to {max(found):.1%})" if len(found) > 1 else ""),
                "" if counted is None else f"{counted['value']:.1%}",
                f"{len(runs)}",
                f"{runs[0]['epochs']} epochs, {lasting(min(run['seconds'] for run in runs))}",
                made_on(facts),
            ]
        )
    if not rows:
        return []
    head = ["command", "parameters", "right on test", "counting words", "seeds", "time", "on"]
    return ["## Texts told apart", UNDERSTOOD, table(head, rows)]


UNDERSTOOD = (
    "Accuracy on test, the mean of the seeds with the least and the greatest; *counting words* is "
    "TF-IDF of words and neighbours with a logistic regression, fitted to the same texts. `test` "
    "of SST-2 is the 872 sentences of its dev.tsv. Settings were chosen on validation, which for "
    "SST-2 has phrases as well as sentences, so that those of at least 12 words counted most; dev "
    "was read for three settings of `sst2` and two of `sst2-minilm`, of which the last stands "
    "here. In `sst2` words vote beside the reader. Settings of `reviews` were chosen on a draw of "
    "their own from the templates of the test. Runs on a GPU were several at a time, so their "
    "times are those of a crowd."
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
ASKED = ("masked", "next", "inverted", "inference")
QUESTIONED = (
    "Right answers to the questions on validation after the last epoch, of pairs half of which are "
    "yes; then, on test, the reader fine-tuned with 1,000 labels of SST-2 (the mean of several "
    "draws of labels for each seed) and on SICK: the mean of the seeds, the least and the "
    "greatest. *Over scratch* is the gain in points over the best small model from scratch with "
    "the same labels, and its 95% interval by Student's t over the seeds. *Untrained* is the same "
    "model, with its first weights. Fine-tuning was settled on validation of SST-2."
)
