"""Write docs/results.md from the files in results/, so that no figure on it is typed by hand.

python docs/make_results.py
"""

import json
from pathlib import Path
from typing import Any

from regard.bench.growth import beaten

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"


def page() -> str:
    """The whole page as Markdown."""
    parts = [
        "# Results",
        "Every figure here is read from a file in [`results/`](../results) by "
        "`python docs/make_results.py`. Times are medians over rounds in which the contenders "
        "take turns in one process; ratios are the figures to trust. A ratio above 1 means that "
        "regard takes less time.",
    ]
    parts += trained()
    parts += captioned()
    parts += translated()
    parts += foretold()
    parts += understood()
    parts += questioned()
    parts += cheaper()
    for device in ("cuda", "cpu"):
        parts += decoding_speed(f"bench-decoding-{device}")
    for device in ("cuda", "cpu"):
        parts += caption_speed(f"bench-captions-{device}")
    for device in ("cuda", "cpu"):
        parts += translation_speed(f"bench-translation-{device}")
    for device in ("cuda", "cpu"):
        parts += training_speed(f"bench-training-{device}")
    for device in ("cuda", "cpu"):
        parts += reached(f"bench-reach-{device}")
    for device in ("cuda", "cpu"):
        parts += attention(f"bench-attention-{device}")
    for device in ("cuda", "cpu"):
        parts += cheaper_costs(f"bench-cheaper-{device}")
    parts += ["## What watching costs", WATCHING]
    for device in ("cuda", "cpu"):
        parts += watching(f"bench-watch-{device}")
    parts += studio()
    parts += gpu_tests()
    return "\n\n".join(parts) + "\n"


WATCHING = (
    "`watch` keeps references and computes nothing. What is kept cannot be used again, though: a "
    "forward pass without gradients needs fresh memory for each layer when it is watched. The "
    "commands of regard ask the C library to keep freed memory "
    "(`regard.memory.keep_freed_memory()`), so that this costs little; in a process that does not, "
    "the first row on a CPU was measured at 15%. Watching only the layers of interest avoids it."
)


def read(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return facts


def origin(facts: dict[str, Any]) -> str:
    """Where a table comes from."""
    return (
        f"`{facts['command']}` on {facts['device']}, torch {facts['torch']}, Python "
        f"{facts['python']}, commit {facts['commit']}, {facts['date']}."
    )


def trained() -> list[str]:
    """Every recorded run of a recipe: `regard evaluate RUN… --record results/run-NAME.json`."""
    rows = []
    for facts in runs_of("classify"):
        runs = facts["runs"]
        seconds = sum(run["seconds"] for run in runs) / len(runs)
        waited = sum(run["waited"] for run in runs) / sum(run["seconds"] for run in runs)
        gaps = [run["last"]["train.accuracy"] - run["last"]["validation.accuracy"] for run in runs]
        rows.append(
            [
                f"`{facts['command']}`",
                f"{facts['parameters']:,}",
                accuracy(facts),
                f"{sum(gaps) / len(gaps):+.1%}",
                f"{seconds:.0f} s",
                f"{waited:.1%}",
                f"{facts['device']}, torch {facts['torch']}, commit {facts['commit']}, "
                f"{facts['date']}",
            ]
        )
    head = ["command", "parameters", "test accuracy", "gap", "time", "waited for data", "on"]
    return ["## Models trained", TRAINED, table(head, rows), *compared()]


def runs_of(task: str) -> list[dict[str, Any]]:
    """What was recorded of a task, by name."""
    found = (read(path.stem) for path in sorted(RESULTS.glob("run-*.json")))
    return [facts for facts in found if facts["task"] == task]


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
                f"{facts['device']}, torch {facts['torch']}, commit {facts['commit']}, "
                f"{facts['date']}",
            ]
        )
    if not rows:
        return []
    head = ["command", "parameters", *SHOWN, "time", "on"]
    return ["## Captions", CAPTIONED, table(head, rows), *meteor()]


def meteor() -> list[str]:
    """METEOR by its jar, of the same captions."""
    if not (RESULTS / "meteor-jar.json").exists():
        return []
    facts = read("meteor-jar")
    said = "; ".join(
        f"{row['run']} {100 * row['METEOR']:.1f} ({100 * row['lite']:.1f})" for row in facts["rows"]
    )
    return [f"METEOR itself, by its jar (`{facts['command']}`), and METEOR-lite: {said}."]


SHOWN = (
    *("true", "pointing, attention", "pointing, uniform", "inside, attention"),
    *("BLEU-1", "BLEU-4", "METEOR-lite", "ROUGE-L", "CIDEr-D"),
)
CAPTIONED = (
    "On the test set, read once a seed, times 100: of one seed with its 95% interval over images, "
    "of several their mean, the least and the greatest. *true* and "
    "*pointing* are known of drawn scenes alone: whether the grammar can read a caption and the "
    "scene agrees, and whether the patch read most lies in the box of what the word names, with "
    "the head chosen on validation. METEOR-lite lies 0.8 to 1.5 points below METEOR. Photographs "
    "of Flickr8k were read from a copy whose shorter side is 192 pixels."
)


def figure(intervals: list[dict[str, float] | None], scale: int = 100, digits: int = 1) -> str:
    known = [interval for interval in intervals if interval is not None]
    if not known:
        return ""
    value, low, high = (scale * known[0][key] for key in ("value", "low", "high"))
    if len(known) > 1:
        values = [scale * interval["value"] for interval in known]
        value, low, high = sum(values) / len(values), min(values), max(values)
    seeds = f", {len(known)} seeds" if len(known) > 1 else ""
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f}{seeds})"


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
                f"{facts['device']}, torch {facts['torch']}, commit {facts['commit']}, "
                f"{facts['date']}",
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
                f"{facts['device']}, torch {facts['torch']}, commit {facts['commit']}, "
                f"{facts['date']}",
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
    if not (RESULTS / f"{ABLATION}.json").exists():
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


def cheaper_costs(name: str) -> list[str]:
    """Time and memory of all that is cheaper than full attention, and from where on it pays."""
    if not (RESULTS / f"{name}.json").exists():
        return []
    facts, rows = read(name), []
    for method, seen in facts["summary"].items():
        ratio = seen["times_full"]
        rows.append(
            [
                method,
                f"`{seen['path']}`".replace("|", "\\|"),  # which ends a cell otherwise
                f"{1e3 * seen['seconds']:,.0f} at {seen['n']:,}" if "n" in seen else "",
                exponent(seen["slope"]),
                f"{seen['bytes'] / 1e6:,.0f}" if "n" in seen else "",
                exponent(seen["slope_bytes"]),
                f"{ratio['ratio']:.1f} at {ratio['n']:,}" if ratio and method != "full" else "",
                *(beaten(seen["beats"].get(rival)) for rival in ("full", "causal")),
            ]
        )
    left_out = {}
    for left in reversed(facts["left_out"]):
        left_out[left["name"]] = f"{left['name']} from {left['n']:,} tokens on ({left['why']})"
    more = [f"Left out: {'; '.join(left_out.values())}."] if left_out else []
    title = "one H200" if name.endswith("cuda") else "two CPU cores"
    head = ["method", "path", "ms, forward + backward", "n^", "peak MB", "n^", "× full"]
    return [
        f"## Cheaper attention on {title}",
        f"{origin(facts)} {CHEAPER_COSTS}",
        f"![Time and memory against the number of tokens](../results/{name}.png)",
        table([*head, "beats full", "beats causal"], rows),
        *more,
    ]


CHEAPER_COSTS = (
    "*n^* is the exponent with which time, and then memory, grows over the upper half of the "
    "sizes; *× full* is how many times as long full attention takes; *beats* is the number of "
    "tokens from which a method takes less time. The path is that of the largest size. Memory is "
    "the peak above q, k and v themselves, gradients included."
)


def exponent(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def cheaper() -> list[str]:
    """Models with their attention exchanged: quality beside what it costs."""
    parts: list[str] = []
    for path in sorted(RESULTS.glob("cheaper-*.json")):
        facts, rows = read(path.stem), []
        seen = "accuracy" if "accuracy" in facts["summary"][0] else "loss"
        for line in facts["summary"]:
            quality = line[seen]
            form = "{:.1%}" if seen == "accuracy" else "{:.3f}"
            mean, low, high = (form.format(quality[name]) for name in ("mean", "low", "high"))
            speed, peak = line.get("items_per_second"), line.get("peak_bytes")
            rows.append(
                [
                    line["choice"],
                    f"`{line['words']}`".replace("|", "\\|")
                    if "(" in line["words"]
                    else line["words"],
                    f"{mean} ({low} to {high})",
                    f"{line['parameters']:,}",
                    f"{line['flops'] / 1e6:.2f}",
                    "" if speed is None else f"{speed:,.0f}",
                    "" if peak is None else f"{peak / 1e6:,.0f}",
                ]
            )
            if seen == "loss":
                rows[-1].append(f"{line['bits_per_byte']['mean']:.3f}")
                rows[-1].append(f"{line['kept_bytes'] / 1e3:,.0f}")
        title, quality, each, rate, *more = CHEAPER[seen]
        costs = ["parameters", f"MFLOP {each}", rate, "peak MB"]
        parts += [
            f"## {title}",
            f"{origin(facts)} {ONE_RECIPE} {EXCHANGED[seen]}",
            f"![{quality} against FLOPs and speed](../results/{path.stem}.png)",
            table(["choice", "who reads whom, and how", quality, *costs, *more], rows),
        ]
    return parts


CHEAPER = {
    "accuracy": ("A ViT made cheaper", "test accuracy", "an image", "images/s"),
    "loss": (
        *("A language model made cheaper", "loss, nats a token", "a token", "tokens/s"),
        *("bits per byte", "kB kept to write on"),
    ),
}
ONE_RECIPE = (
    "One recipe, attention exchanged: the mean of the seeds, the least and the greatest. FLOPs are "
    "those of matrix products and convolutions in a forward pass, of attention the pairs that the "
    "mask lets read; a kernel may compute more. Speed is that of training, with the choices taking "
    "turns alone on the device, steps recorded where that pays; peak is the most memory that a "
    "training step held, model and optimiser included."
)
EXCHANGED = {
    "accuracy": "The test images were read once a run. DaViT is another model, of about as many "
    "parameters, trained alike.",
    "loss": "Held-out text in windows that slide by half their length. What is kept to write on "
    "is that of one text of a full window, in float32.",
}


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def spread(seen: dict[str, float]) -> str:
    return f"{seen['mean']:.1%} ({seen['low']:.1%} to {seen['high']:.1%})"


def signed(gain: dict[str, float]) -> str:
    value, low, high = (100 * gain[name] for name in ("value", "low", "high"))
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"


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
                f"{facts['device']}, torch {facts['torch']}, commit {facts['commit']}, "
                f"{facts['date']}",
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


def decoding_speed(name: str) -> list[str]:
    """Words a second after a prompt, beside transformers with the same weights."""
    if not (RESULTS / f"{name}.json").exists():
        return []
    facts, rows = read(name), []
    for row in facts["rows"]:
        rates = row["words_per_second"]
        low, high = row["quartiles"]["regard"]
        ratios = [f"{rates['regard'] / rates[who]:.2f}" for who in rates if who != "regard"]
        cells = [row["model"], row["dtype"], str(row["batch"]), f"{rates['regard']:,.0f}"]
        rows.append([*cells, f"{low:,.0f} … {high:,.0f}", *ratios])
    first = facts["rows"][0]
    who = [f"× {each}" for each in first["words_per_second"] if each != "regard"]
    title = "one H200" if name.endswith("cuda") else "two CPU cores"
    head = ["model", "numbers", "texts at once", "words/s", "quartiles", *who]
    said = f"{first['words']} words after a prompt of {first['prompt']}, the likeliest each time."
    return [f"## Words a second on {title}", f"{origin(facts)} {said}", table(head, rows)]


def translation_speed(name: str) -> list[str]:
    """Real tokens a second in training, beside torch.nn.Transformer."""
    if not (RESULTS / f"{name}.json").exists():
        return []
    facts = read(name)
    ours = facts["rows"]["regard"]["tokens_per_second"]
    rows = [
        [
            who,
            f"{row['parameters']:,}",
            f"{row['padding']:.1%}",
            f"{row['tokens_per_second']:,.0f}",
            " … ".join(f"{x:,.0f}" for x in row["quartiles"]),
            f"{ours / row['tokens_per_second']:.2f}",
        ]
        for who, row in facts["rows"].items()
    ]
    title = "one H200" if name.endswith("cuda") else "two CPU cores"
    head = ["who", "parameters", "padding", "real tokens/s", "quartiles", "× time"]
    return [f"## Translation, trained on {title}", origin(facts), table(head, rows)]


def caption_speed(name: str) -> list[str]:
    """Captions a second beside transformers with the same weights."""
    if not (RESULTS / f"{name}.json").exists():
        return []
    facts = read(name)
    rows = []
    for row in facts["rows"]:
        rates = row["captions_per_second"]
        low, high = row["quartiles"]["regard"]
        ratios = [f"{rates['regard'] / rates[who]:.2f}" for who in rates if who != "regard"]
        cells = [row["model"], str(row["batch"]), str(row["beams"]), f"{rates['regard']:.3g}"]
        rows.append([*cells, f"{low:.3g} … {high:.3g}", *ratios])
    who = [f"× {each}" for each in facts["rows"][0]["captions_per_second"] if each != "regard"]
    title = "one H200" if name.endswith("cuda") else "two CPU cores"
    left_out = [f"Left out: {each}, {why}." for each, why in facts["left_out"].items()]
    head = ["model", "batch", "beams", "captions/s", "quartiles", *who]
    return [f"## Captions a second on {title}", origin(facts), table(head, rows), *left_out]


def lasting(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def compared() -> list[str]:
    """The same recipe for 10, 30 and 50 epochs, as `regard compare` draws it."""
    lines = []
    for name, words in COMPARED.items():
        if (RESULTS / f"{name}.png").exists():
            lines += [words, f"![Curves of 10, 30 and 50 epochs](../results/{name}.png)"]
    return lines


COMPARED = {
    "compare-digits-cpu": "`regard compare --task classify --data digits --epochs 10 30 50 --test` "
    "on two CPU cores, one seed; validation has 179 images, so half a percent is one of them:",
    "compare-cifar10-small-cuda": "`regard compare --task classify --recipe cifar10-small --epochs "
    "10 30 50 --test` on one H200, one seed:",
    "compare-cifar10-coursework-cuda": "`regard compare --task classify --recipe "
    "cifar10-coursework --epochs 10 30 50 --test` on one H200, one seed. Without augmentation and "
    "at a constant rate the model learns its images by heart and nothing more after 20 epochs:",
}


TRAINED = (
    "Settings were chosen on training and validation images; the test set was read once a run, by "
    "`regard evaluate … --record`. Accuracy is the mean over seeds and their deviation; of a "
    "single run, the 95% interval over the choice of test images. The gap is accuracy on training "
    "images without augmentation minus that on validation, at the last epoch. Time is that of "
    "training with its measuring, without reading the data."
)


def accuracy(facts: dict[str, Any]) -> str:
    runs = facts["runs"]
    if len(runs) > 1:
        return f"accuracy {facts['mean']:.2%} ± {facts['deviation']:.2%} ({len(runs)} seeds)"
    seen = runs[0]["figures"]["accuracy"]
    return f"accuracy {seen['value']:.2%} ({seen['low']:.1%} to {seen['high']:.1%}, one seed)"


def training_speed(name: str) -> list[str]:
    if not (RESULTS / f"{name}.json").exists():
        return []
    facts = read(name)
    rows = []
    for row in facts["rows"]:
        ours = row["images_per_second"]["regard"]
        for who, rate in row["images_per_second"].items():
            low, high = row["quartiles"][who]
            rows.append(
                [
                    row["model"],
                    row["batch"],
                    who,
                    f"{row['parameters'][who]:,}",
                    f"{rate:,.0f}",
                    f"{low:,.0f} … {high:,.0f}",
                    "" if who == "regard" else f"{ours / rate:.2f}",
                ]
            )
    title = "one H200" if name.endswith("cuda") else "two CPU cores"
    head = ["model", "batch", "who", "parameters", "images/s", "quartiles", "regard is × as fast"]
    return [f"## Training speed on {title}", origin(facts), SPEED, table(head, rows)]


SPEED = (
    "Whole training loops on images of 32 × 32 pixels in memory: the same batch, arithmetic, AdamW "
    "and augmentation (crop and flip, by regard for all). *regard* is regard's own loop with all "
    "that it checks and saves, and on a GPU with recorded steps; *regard, plain loop* is the same "
    "model in the loop that the others run in. Compiling and recording are not timed."
)


def reached(name: str) -> list[str]:
    """Seconds to an accuracy, beside transformers' Trainer."""
    if not (RESULTS / f"{name}.json").exists():
        return []
    facts, rows = read(name), []
    for row in facts["rows"]:
        for who, seen in row["seconds"].items():
            more, ratio = "> " * seen["bound"], row["ratio"][who]
            rows.append(
                [
                    f"{row['goal']:.0%} on {row['recipe']}",
                    f"{row['parameters']:,}",
                    who,
                    f"{more}{seen['median']:.1f} s",
                    f"{seen['low']:.1f} … {seen['high']:.1f}",
                    "" if ratio is None else f"{more}{ratio:.1f}",
                ]
            )
    title = "one H200" if name.endswith("cuda") else "two CPU cores"
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    limits = "; ".join(
        f"{row['recipe']}: {row['seeds']} seeds, given up after {row['limit']:.0f} s"
        for row in facts["rows"]
    )
    said = f"{versions}. Medians over seeds ({limits})."
    head = ["goal", "parameters", "who", "time to it", "least … most", "× time"]
    return [
        f"## Time to an accuracy on {title}",
        f"{origin(facts)} {said}",
        REACHED,
        table(head, rows),
        f"![Accuracy against seconds of training](../results/{name}.png)",
        *(f"Left out: {each}, {why}." for each, why in facts["left_out"].items()),
    ]


REACHED = (
    "One model with the same first weights learns from the same images in three ways that take "
    "turns: by regard's recipe; by transformers' `Trainer` with its default arguments (but for "
    "the number of epochs, for in three it does not get there); and by the `Trainer` with the "
    "batch, rate and schedule of the recipe, which leaves its AdamW, its loop and the way of its "
    "data. All are asked the same validation images after equally many images, and their clocks "
    "stand still meanwhile."
)


def attention(name: str) -> list[str]:
    facts = read(name)
    title = "one H200" if name.endswith("cuda") else "two CPU cores"
    shape = (
        f"Batch {facts['batch']}, {facts['heads']} heads of {facts['head_width']}, "
        f"{facts['dtype']}. Peak is a large matrix product in the same run, "
        f"{facts['peak_flops'] / 1e12:.3g} TFLOP/s. *torch* is `scaled_dot_product_attention` with "
        "its causal flag where it has one and a mask written out beforehand where it has none; "
        "*plain* is `attend`."
    )
    head = ["pattern", "n × m", "pass", "fused", "quartiles", "against torch", "against plain"]
    rows = []
    for row in facts["rows"]:
        for way, words in (("forward", "forward"), ("both", "forward + backward")):
            seen, (low, high) = row[way], row["quartiles"][way]["fused"]
            rows.append(
                [
                    row["pattern"],
                    f"{row['n']} × {row['m']}",
                    words,
                    f"{seen['fused'] * 1e3:.2f} ms",
                    f"{low * 1e3:.2f} … {high * 1e3:.2f}",
                    f"{seen['torch'] / seen['fused']:.2f}",
                    f"{seen['plain'] / seen['fused']:.1f}" if "plain" in seen else "",
                    f"{row['flop'][way] / seen['fused'] / facts['peak_flops']:.0%}",
                ]
            )
    growth = ", ".join(f"{pattern} n^{slope:.2f}" for pattern, slope in facts["growth"].items())
    decoded = "; ".join(
        f"{who} {first * 1e6:,.0f} µs a step in a first text, {later * 1e6:,.0f} µs in a second"
        for who, (first, later) in facts["decoding"].items()
    )
    return [
        f"## Attention on {title}",
        origin(facts),
        shape,
        f"![Time against length for each pattern](../results/{name}.png)",
        table([*head, "of peak"], rows),
        f"Growth between the two largest sizes, forward + backward: {growth}.",
        f"Decoding, one query and one key more at each step: {decoded}.",
    ]


def watching(name: str) -> list[str]:
    facts = read(name)
    rows = []
    for row in facts["rows"]:
        seconds = dict(row["seconds"])
        plain = seconds.pop("plain")
        shown = [f"{seconds[k] / plain - 1:+.1%}" if k in seconds else "" for k in CONTENDERS]
        rows.append([row["model"], row["batch"], row["pass"], f"{plain * 1e3:.1f} ms", *shown])
    head = ["ViT", "batch", "pass", "unwatched", "all layers watched", "the last layer alone"]
    return [origin(facts), table(head, rows)]


CONTENDERS = ("watched", "last layer watched")


def studio() -> list[str]:
    facts = read("studio-cpu")
    text, found = facts["text"], facts["figures"]
    visits, live, saved = found["clients"], found["studio"], found["saved page"]

    def said(page: dict[str, Any], name: str) -> str:
        each = page.get(name)
        return "" if each is None else f"{each['median']:g} ({each['slowest of 20']:g})"

    names = [name for name in live if isinstance(live[name], dict)]
    questions = [
        [kind, each["count"], f"{each['median_ms']:.0f}", f"{each['worst_ms']:.0f}"]
        for kind, each in visits["questions"].items()
    ]
    return [
        "## The studio",
        f"{origin(facts)} Chromium {facts['browser']} and the studio share the machine. A text of "
        f"{text['tokens']} tokens is read by {text['layers']} layers of {text['heads']} heads: "
        "median, and the slowest of twenty. *First paint* is the page without an answer; at the "
        "*first useful paint* words are shaded and the arcs and the small maps of all heads are "
        "there, so it waits for the model. An act is timed to the second frame after it, which is "
        f"33 ms at the least. The saved page has {saved['size, MB']:g} MB. With the run not loaded "
        "yet, the first useful paint took "
        f"{live['first useful paint, the run not loaded, s']:.1f} s.",
        table(
            ["", "in the studio", "a saved page"],
            [[name, said(live, name), said(saved, name)] for name in names],
        ),
        f"{visits['clients']} clients that asked two small runs without a pause for "
        f"{visits['seconds']:g} s had {visits['answers']:,} answers and {len(visits['errors'])} "
        "errors. How long they waited, in ms:",
        table(["question", "answers", "median", "worst"], questions),
    ]


def gpu_tests() -> list[str]:
    lines = ["## Tests on a GPU"]
    for path in sorted(RESULTS.glob("gpu-tests*.json")):
        facts = read(path.stem)
        files = sorted({test["id"].partition("::")[0] for test in facts["tests"]})
        lines.append(
            f"`make test-gpu` ({', '.join(files)}) on {facts['device']}, torch {facts['torch']}, "
            f"commit {facts['commit']}: {facts['passed']} passed, {facts['failed']} failed, "
            f"{facts['skipped']} skipped in {facts['seconds']:.0f} s."
        )
        lines += [
            f"Failed: `{test['id']}`." for test in facts["tests"] if test["outcome"] == "failed"
        ]
    return lines


def table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2f}"


def measured() -> str:
    """The table of the README: a few rows of the page."""
    gpu, cpu = read("bench-attention-cuda"), read("bench-attention-cpu")

    def against(facts: dict[str, Any], pattern: str) -> str:
        seen = [row for row in facts["rows"] if row["pattern"] == pattern][-1]["both"]
        return times(seen["torch"] / seen["fused"])

    def writing(device: str, row: int) -> str:
        rates = read(f"bench-decoding-{device}")["rows"][row]["words_per_second"]
        return times(rates["regard"] / rates["transformers"])

    def captions(device: str) -> str:
        rates = [row["captions_per_second"] for row in read(f"bench-captions-{device}")["rows"]]
        ratios = [rate["regard"] / rate["transformers"] for rate in rates]
        return f"{times(min(ratios))} to {times(max(ratios))}"

    slowest = {
        name: max(
            row["seconds"]["watched"] / row["seconds"]["plain"] - 1
            for row in read(f"bench-watch-{name}")["rows"]
        )
        for name in ("cuda", "cpu")
    }
    devices = ("cuda", "cpu")
    alone, together = ([writing(device, row) for device in devices] for row in (0, 1))
    told = [captions(device) for device in devices]
    n = [max(row["m"] for row in facts["rows"]) for facts in (gpu, cpu)]
    rows = [
        [
            f"causal attention, {n[0]:,} and {n[1]:,} tokens, forward + backward, "
            "times as fast as torch's own call",
            *(against(facts, "causal") for facts in (gpu, cpu)),
        ],
        [
            "the same, second half of the queries behind a cache",
            *(against(facts, "causal, second half behind a cache") for facts in (gpu, cpu)),
        ],
        [
            "the same, causal window of 256",
            *(against(facts, "causal window 256") for facts in (gpu, cpu)),
        ],
        ["a text written after a prompt, times as fast as transformers", *alone],
        ["the same, 64 and 16 texts at once", *together],
        ["captions, greedy and with 5 beams, times as fast as transformers", *told],
        ["what watching every layer costs, at most", *(f"{x:+.1%}" for x in slowest.values())],
        *sooner(),
    ]
    speed = table(["", f"one {gpu['device']}, bfloat16", "two CPU cores, float32"], rows)
    models = [
        [f"`{facts['command']} --test`", f"{facts['parameters']:,}", what(facts), took(facts)]
        for task, what in TOLD.items()
        for facts in runs_of(task)
        if len(facts["command"].split()) == 5  # the recipe as it is
    ]
    return f"{table(['trained with', 'parameters', 'on test', 'in'], models)}\n\n{speed}"


def sooner() -> list[list[str]]:
    """For the README: how much sooner a goal is reached than by transformers' Trainer."""
    names = [f"bench-reach-{device}" for device in ("cuda", "cpu")]
    there = [read(name)["rows"] if (RESULTS / f"{name}.json").exists() else [] for name in names]
    goals = {row["recipe"]: row["goal"] for rows in there for row in rows}

    def less(rows: list[dict[str, Any]], recipe: str) -> str:
        found = next((row for row in rows if row["recipe"] == recipe), None)
        if found is None or found["ratio"]["Trainer"] is None:
            return ""
        return "> " * found["seconds"]["Trainer"]["bound"] + times(found["ratio"]["Trainer"])

    return [
        [
            f"time to {goal:.0%} on validation with {recipe}, times less than transformers' "
            "Trainer as it comes",
            *(less(rows, recipe) for rows in there),
        ]
        for recipe, goal in goals.items()
    ]


def in_short(facts: dict[str, Any]) -> str:
    """What a captioner came to, in a few words."""
    figures = facts["runs"][0]["figures"]
    if "true" in figures:
        pointing = figures["pointing, attention"]["value"]
        return f"{figures['true']['value']:.1%} of captions true, {pointing:.1%} point at it"
    return (
        f"BLEU-4 {100 * figures['BLEU-4']['value']:.1f}, CIDEr-D {figures['CIDEr-D']['value']:.2f}"
    )


def as_translated(facts: dict[str, Any]) -> str:
    """What a translator came to, in a few words."""
    figures = [run["figures"] for run in facts["runs"]]
    name = "exact" if facts["data"] == "numerals" else "BLEU"
    value = 100 * sum(each[name]["value"] for each in figures) / len(figures)
    return f"{facts['split']}: {name} {value:.1f}, {len(figures)} seeds"


def as_foretold(facts: dict[str, Any]) -> str:
    """What a language model came to, in a few words."""
    figures = [run["figures"] for run in facts["runs"]]
    loss, bits, words = (
        sum(each[name]["value"] for each in figures) / len(figures)
        for name in ("loss", "bits_per_byte", "word_perplexity")
    )
    if facts["data"] == "wikitext-2":
        return f"{facts['split']}: perplexity per word {words:.1f}, bits per byte {bits:.2f}"
    return f"{facts['split']}: loss {loss:.3f}, bits per byte {bits:.2f}"


TOLD = {
    "classify": accuracy,
    "caption": in_short,
    "translate": as_translated,
    "language": as_foretold,
    "sentiment": accuracy,
}


def took(facts: dict[str, Any]) -> str:
    seconds = sum(run["seconds"] for run in facts["runs"]) / len(facts["runs"])
    return f"{lasting(seconds)}, {facts['device']}"


def readme(text: str) -> str:
    """The README with its table as measured."""
    before, rest = text.split(MEASURED[0])
    _, after = rest.split(MEASURED[1])
    return f"{before}{MEASURED[0]}\n\n{measured()}\n\n{MEASURED[1]}{after}"


MEASURED = ("<!-- measured: written by docs/make_results.py -->", "<!-- /measured -->")


if __name__ == "__main__":
    front = DOCS.parent / "README.md"
    (DOCS / "results.md").write_text(page(), encoding="utf-8")
    front.write_text(readme(front.read_text(encoding="utf-8")), encoding="utf-8")
    print("wrote docs/results.md and the table of README.md")
