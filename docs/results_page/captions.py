"""Captioning: scores against what people wrote, truth and pointing on drawn scenes."""

from results_page.cells import basics, percent, spread, turned
from results_page.commands import data_name, label, split_name
from results_page.origins import origins
from results_page.records import Facts, Interval, read, recorded, runs_of, seen

SCORES = ("BLEU-1", "BLEU-4", "METEOR", "METEOR-lite", "ROUGE-L", "CIDEr-D")
TRUTH = {
    "true_captions": "true",
    "pointing_game, attention": "pointing",
    "pointing_game, uniform": "pointing by chance",
    "attention_mass, attention": "inside",
}
JAR = "meteor-jar"


def captioned() -> list[str]:
    """Every recorded captioner: photographs with people's captions, and drawn scenes."""
    found = runs_of("caption")
    if not found:
        return []
    marks, line = origins(found)
    columns = [column(facts, mark) for facts, mark in zip(found, marks, strict=True)]
    figures = turned(list(columns[0]), [list(each.values()) for each in columns])
    return ["## Captioning (`caption`)", CAPTIONED, figures, line, *below()]


def column(facts: Facts, mark: str) -> dict[str, str]:
    scores = {name: spread(seen(facts, name)) for name in SCORES}
    scores["METEOR"] = spread(meteor().get(facts["recipe"], []))
    return {
        "recipe": label(facts) + mark,
        "measured on": f"{data_name(facts)}, {split_name(facts)}",
        **scores,
        **{words: percent(seen(facts, name)) for name, words in TRUTH.items()},
        **basics(facts),
    }


def meteor() -> dict[str, list[Interval | None]]:
    """METEOR by its own jar, of the same captions: each recipe's seeds."""
    scores: dict[str, list[Interval | None]] = {}
    for row in read(JAR)["rows"] if recorded(JAR) else []:
        recipe, _, _ = row["run"].rpartition("-")
        scores.setdefault(recipe, []).append({"value": row["METEOR"]})
    return scores


def below() -> list[str]:
    """How far METEOR-lite is from METEOR, which needs Java."""
    if not recorded(JAR):
        return []
    facts = read(JAR)
    points = [100 * (row["METEOR"] - row["lite"]) for row in facts["rows"]]
    return [
        f"METEOR is that of its own jar, by `{facts['command'].partition(' results/')[0]}`. "
        f"METEOR-lite needs no Java, and is {min(points):.1f} to {max(points):.1f} points lower on "
        f"these {len(points)} runs."
    ]


CAPTIONED = (
    "By `regard train caption --recipe RECIPE --test`. Scores are times 100. Flickr8k has photos, "
    "here with a shorter side of 192 pixels, and five captions by people of each. Scenes are "
    "drawn, so the truth is known. A caption is *true* if the grammar can read it and the scene "
    "agrees. *Pointing* asks of each word that names an object whether the patch it reads most "
    "lies in that object's box, with the head chosen on validation; *by chance* is the same for "
    "uniform attention. *Inside* is the share of the attention that lies in the box."
)
