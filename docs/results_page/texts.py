"""Text classification."""

from results_page.cells import basics, percent, table
from results_page.commands import label
from results_page.origins import origins
from results_page.records import read, recorded, runs_of, seen

TRIED, MIXED = "tried-sst2-minilm-cuda", "tried-sst2-minilm-mixed-cuda"


def understood() -> list[str]:
    """Every recorded classifier of texts, beside what counting words can do."""
    found = runs_of("classify-text")
    if not found:
        return []
    marks, line = origins(found)
    rows = []
    for facts, mark in zip(found, marks, strict=True):
        counted = facts["runs"][0]["figures"].get("tfidf_baseline")
        baseline = "" if counted is None else f"{counted['value']:.1%}"
        cells = [label(facts) + mark, percent(seen(facts, "accuracy")), baseline]
        rows.append([*cells, *basics(facts).values()])
    head = ["recipe", "test accuracy", "TF-IDF", *basics(found[0])]
    title = "## Text classification (`classify-text`)"
    return [title, UNDERSTOOD, table(head, rows), line, *dev()]


def dev() -> list[str]:
    """How often the figures of SST-2 were looked at, and what else came of it."""
    known = [facts for facts in runs_of("classify-text") if facts["data"] == "sst2"]
    if not known or not recorded(TRIED):
        return []
    tried = read(TRIED)
    third, averaged = (f"{each['mean']:.1%}" for each in tried["then"][:2])
    means = f"came to {averaged}"
    if recorded(MIXED):
        apart = read(MIXED)["then"][1]["mean"]
        means += (
            f", and of `sst2-minilm-mixed` to {apart:.1%} while each run drew a head of its own; "
            "since they share their first head, the means stand above"
        )
    return [
        f"`test` of SST-2 is its dev.tsv, {known[0]['parts'][2]:,} sentences. It was read for "
        "three settings of `sst2`, of which the last stands here, for three of `sst2-minilm`, of "
        "which the second does, and for `sst2-minilm-mixed`, its first runs and those above. The "
        f"third of `sst2-minilm`, the best of {len(tried['rows'])} on test.tsv, came to {third}. "
        f"Averaged weights of several runs {means} ([what was tried](tried.md))."
    ]


UNDERSTOOD = (
    "By `regard train classify-text --recipe RECIPE --test`. *TF-IDF* is a logistic regression on "
    "counts of words and pairs of words, fitted to the same texts. In `sst2` and "
    "`sst2-minilm-mixed` a bag of words votes beside the encoder. Settings of `sst2` and "
    "`sst2-minilm` were chosen on validation, which has phrases as well as sentences, so long "
    "texts counted most, and those of `sst2-minilm-mixed` on test.tsv too; those of `reviews` on a "
    "draw of their own from the templates of the test."
)
