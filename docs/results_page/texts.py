"""Texts told apart by what they say."""

from results_page.cells import lasting, ranged, table
from results_page.records import made_on, read, runs_of


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
                ranged(found),
                "" if counted is None else f"{counted['value']:.1%}",
                f"{len(runs)}",
                f"{runs[0]['epochs']} epochs, {lasting(min(run['seconds'] for run in runs))}",
                made_on(facts),
            ]
        )
    if not rows:
        return []
    third, mean = (ranged([each["mean"]]) for each in read("tried-sst2-minilm-cuda")["then"])
    head = ["command", "parameters", "right on test", "counting words", "seeds", "time", "on"]
    return ["## Texts told apart", UNDERSTOOD.format(third=third, mean=mean), table(head, rows)]


UNDERSTOOD = (
    "Accuracy on test, the mean of the seeds with the least and the greatest; *counting words* is "
    "TF-IDF of words and neighbours with a logistic regression, fitted to the same texts. `test` "
    "of SST-2 is the 872 sentences of its dev.tsv. Settings were chosen on validation, which for "
    "SST-2 has phrases as well as sentences, so that those of at least 12 words counted most. Dev "
    "was read for three settings of `sst2`, of which the last stands here, and for three of "
    "`sst2-minilm`, of which the second does: the third, the best of twelve on test.tsv, came to "
    "{third} on dev with three seeds and was no better, and means of the weights of five runs came "
    "to {mean} ([what was tried](#what-was-tried)). In "
    "`sst2` words vote beside the reader. Settings of `reviews` were chosen on a draw of "
    "their own from the templates of the test. Runs on a GPU were several at a time, so their "
    "times are those of a crowd."
)
