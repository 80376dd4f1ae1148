"""Pretraining by questions that need no labels, and what each kind of question adds."""

from regard.runs.recipe import recipes
from regard.tasks.pretrain_bert.report import QUESTIONS
from results_page.cells import epochs, folded, middle, percent, spread, table, took
from results_page.commands import gives
from results_page.origins import origin, origins
from results_page.records import Facts, Interval, notes, read, recorded, runs_of, seen

PAIRS = ("nsp", "inversion", "nli")
CHANCE = 1 / 2  # half of the pairs have the answer yes
ABLATION = "ablation-wikitext-2-cuda"


def pretrained() -> list[str]:
    """How well each kind of question is answered on test."""
    parts = ["## Pretraining (`pretrain-bert`)", PRETRAINED.format(chance=f"{CHANCE:.0%}")]
    for facts in runs_of("pretrain-bert"):
        # Older records do not say what counting words comes to.
        counted = ["counting words"] * ("nsp_count_baseline" in facts["runs"][0]["figures"])
        rows = [
            [
                f"*{name}*: {words}",
                percent(seen(facts, name)),
                *(percent(seen(facts, f"{name}_count_baseline")) for _ in counted),
                f"{CHANCE:.0%}" if name in PAIRS else "",
            ]
            for name, words in QUESTIONS.items()
        ]
        head = ["question", f"accuracy on {facts['split']}", *counted, "chance"]
        parts += [told(facts), table(head, rows), origins([facts])[1], *notes([facts])]
    return parts if len(parts) > 2 else []


def told(facts: Facts) -> str:
    """How large, how long, how sure of a hidden token; and what is odd."""
    runs = facts["runs"]
    sure: list[Interval | None] = [{"value": run["figures"]["perplexity"]} for run in runs]
    seeds = "one seed" if len(runs) == 1 else f"{len(runs)} seeds"
    words = (
        f"{gives(facts)}: {facts['parameters']:,} parameters, {epochs(facts)} epochs, "
        f"{took(facts)}, {seeds}. The perplexity of a hidden token is {spread(sure, 1, 1)}."
    )
    shares = {name: [run["figures"][name]["value"] for run in runs] for name in QUESTIONS}
    same = [f"*{name}*" for name, values in shares.items() if len(values) > len(set(values)) == 1]
    return f"{words} On {' and '.join(same)} all seeds have the same accuracy." if same else words


PRETRAINED = (
    "A BERT that was asked four kinds of question about plain text. Test asks them about text that "
    "it has not read. Half of the pairs have the answer yes, so chance is {chance}. "
    "*Counting words* is a logistic regression on counts of words and pairs of words, and for "
    "hidden words the most frequent word after the one before."
)


def questioned() -> list[str]:
    """What each kind of question adds in pretraining, as the ablation found it."""
    if not recorded(ABLATION):
        return []
    facts, tuned, asked = read(ABLATION), [], []
    for line in facts["summary"]:
        gain, answers = line["sst2"]["gain"], line["questions"]
        over = "" if gain is None else signed(gain)
        tuned.append([line["choice"], middle(line["sst2"]), over, middle(line["sick"])])
        shares = [f"{answers[name]:.1%}" if name in answers else "" for name in QUESTIONS]
        asked.append([line["choice"], *shares])
    labels = f"{recipes('sentiment')['sst2-few'].values['max_train_samples']:,}"
    return [
        "### What each kind of question adds",
        QUESTIONED.format(labels=labels, seeds=facts["seeds"]),
        table(["pretrained on", f"SST-2, {labels} labels", "over scratch", "SICK"], tuned),
        *folded(
            "Accuracy on the questions themselves, on validation after the last epoch",
            table(["pretrained on", *QUESTIONS], asked),
        ),
        origin(facts),
    ]


def signed(gain: Interval) -> str:
    value, low, high = (100 * gain[name] for name in ("value", "low", "high"))
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"


QUESTIONED = (
    "Test accuracy of the model fine-tuned with {labels} labels of SST-2 (for each seed the mean "
    "over several draws of labels) and on SICK. *Over scratch* is the gain in points over the best "
    "small model from scratch with the same labels, with a 95% interval by Student's t over the "
    "{seeds} seeds. *Untrained* is the same model with its first weights. Settings of fine-tuning "
    "were chosen on validation of SST-2."
)
