"""Language models: how well they foretell text that they have not read."""

from results_page.cells import figure, lasting, table
from results_page.records import made_on, runs_of


def foretold() -> list[str]:
    """Every recorded language model."""
    rows = []
    for facts in runs_of("language"):
        runs = facts["runs"]
        last = [run["last"]["validation.loss"] for run in runs]
        rows.append(
            [
                f"`{facts['command']}`",
                f"{facts['parameters']:,}",
                facts["split"],
                *(figure([run["figures"][name] for run in runs], 1, 3) for name in FORETOLD_BY),
                figure([run["figures"]["word_perplexity"] for run in runs], 1, 1),
                f"{max(last):.3f}" if len(last) == 1 else f"{min(last):.3f} to {max(last):.3f}",
                f"{runs[0]['epochs']} epochs, {lasting(max(run['seconds'] for run in runs))}",
                made_on(facts),
            ]
        )
    if not rows:
        return []
    names = ["loss, nats a token", "bits per byte", "perplexity per word"]
    head = ["command", "parameters", "of", *names, "side by side", "time", "on"]
    return ["## Language models", FORETOLD, table(head, rows)]


FORETOLD_BY = ("loss", "bits_per_byte")
FORETOLD = (
    "Of one seed with its 95% interval over blocks of the text, of several their mean, the least "
    "and the greatest. Windows slide by half their length, which gives a lower loss than windows "
    "side by side, as the published 1.4697 of tiny Shakespeare has them: *side by side* is the "
    "loss on validation after the last epoch in that way (the recipe `shakespeare` measured it on "
    "a part of validation; on all of it that is 1.507). WikiText-2 is cut into byte pairs, so its "
    "perplexity per word has no unknown words to help it."
)
