"""Translation, by BLEU and others."""

from results_page import published
from results_page.cells import basics, spread, turned
from results_page.commands import label, split_name
from results_page.origins import origins
from results_page.records import Facts, runs_of, seen

SCORED = {
    "BLEU": "BLEU",
    "bleu_lowercase": "BLEU, lower case",
    "chrF": "chrF",
    "exact_match": "exact match",
}


def translated() -> list[str]:
    """Every recorded translator."""
    found = runs_of("translate")
    if not found:
        return []
    marks, line = origins(found)
    columns = [column(facts, mark) for facts, mark in zip(found, marks, strict=True)]
    figures = turned(list(columns[0]), [list(each.values()) for each in columns])
    return ["## Translation (`translate`)", TRANSLATED, figures, line, published.MULTI30K]


def column(facts: Facts, mark: str) -> dict[str, str]:
    return {
        "recipe": label(facts) + mark,
        "measured on": split_name(facts),
        **{words: spread(seen(facts, name)) for name, words in SCORED.items()},
        **basics(facts),
    }


TRANSLATED = (
    "By `regard train translate --recipe RECIPE --test`; for test2017, by `regard evaluate RUN "
    "--split test2017`. Scores are times 100. *BLEU* is sacreBLEU's on detokenised, cased text "
    "(`nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp`), *BLEU, lower case* the same in lower case "
    "(`case:lc`), *exact* the share of translations that equal the reference."
)
