"""Captioners: scores against what people wrote, truth and pointing on drawn scenes."""

from results_page.cells import figure, lasting, table
from results_page.records import made_on, read, recorded, runs_of


def captioned() -> list[str]:
    """Every recorded captioner: scores against people's captions, truth and pointing on scenes."""
    rows = []
    for facts in runs_of("caption"):
        runs = facts["runs"]
        quickest = min(run["seconds"] for run in runs)
        rows.append(
            [
                f"`{facts['command']}`",
                f"{facts['parameters']:,}",
                *(figure([run["figures"].get(name) for run in runs]) for name in SHOWN),
                f"{runs[0]['epochs']} epochs, {lasting(quickest)}",
                made_on(facts),
            ]
        )
    if not rows:
        return []
    head = ["command", "parameters", *SHOWN, "time", "on"]
    return ["## Captions", CAPTIONED, table(head, rows), *meteor()]


SHOWN = (
    *("true", "pointing, attention", "pointing, uniform", "inside, attention"),
    *("BLEU-1", "BLEU-4", "METEOR-lite", "ROUGE-L", "CIDEr-D"),
)
CAPTIONED = (
    "On the test set, read once a seed, times 100: of one seed with its 95% interval over images, "
    "of several their mean, the least and the greatest. *true* and "
    "*pointing* are known of drawn scenes alone: whether the grammar can read a caption and the "
    "scene agrees, and whether the patch read most lies in the box of what the word names, with "
    "the head chosen on validation (*uniform*: were all patches read alike); *inside* is how much "
    "of the attention lies in it. METEOR-lite lies 0.8 to 1.5 points below METEOR. Photographs "
    "of Flickr8k were read from a copy whose shorter side is 192 pixels."
)


def meteor() -> list[str]:
    """METEOR by its jar, of the same captions."""
    if not recorded("meteor-jar"):
        return []
    facts = read("meteor-jar")
    said = "; ".join(
        f"{row['run']} {100 * row['METEOR']:.1f} ({100 * row['lite']:.1f})" for row in facts["rows"]
    )
    return [f"METEOR itself, by its jar (`{facts['command']}`), and METEOR-lite: {said}."]
