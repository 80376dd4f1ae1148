"""Translators, by BLEU and others."""

from results_page.cells import figure, lasting, table
from results_page.records import made_on, runs_of


def translated() -> list[str]:
    """Every recorded translator."""
    rows = []
    for facts in runs_of("translate"):
        runs = facts["runs"]
        rows.append(
            [
                f"`{facts['command']}`",
                f"{facts['parameters']:,}",
                facts["split"],
                *(figure([run["figures"].get(name) for run in runs]) for name in SCORED),
                f"{runs[0]['epochs']} epochs, {lasting(min(run['seconds'] for run in runs))}",
                made_on(facts),
            ]
        )
    if not rows:
        return []
    head = ["command", "parameters", "of", *SCORED, "time", "on"]
    return ["## Translations", TRANSLATED, table(head, rows)]


SCORED = ("BLEU", "BLEU-lower", "chrF", "exact")
TRANSLATED = (
    "The test sets of Multi30k were read once a seed; scores are times 100, the mean of the seeds "
    "with the "
    "least and the greatest. *BLEU* is sacreBLEU's of detokenised, cased text "
    "(`nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp`), *BLEU-lower* the same in lower case "
    "(`case:lc`), which is the setting of the published 41.02 of a model of this size on test2016 "
    "of Multi30k but for its tokenizer, Moses': on what seed 0 of both recipes wrote, the two "
    "differ by at most 0.01 (sacremoses, punctuation normalised). `test` of "
    "Multi30k is test2016. Its models were trained six at a time on one GPU, so their times are "
    "those of a crowd. Settings were chosen on validation."
)
