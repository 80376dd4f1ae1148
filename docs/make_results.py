"""Write docs/results.md from the files in results/, so that no figure on it is typed by hand.

    python docs/make_results.py

The sections are in docs/results_page, one idea a file; here is their order, and what becomes of
the README.
"""

import re
from pathlib import Path

from results_page.attention_speed import WATCHING, attention, watching
from results_page.boards import boards
from results_page.captions import captioned
from results_page.cheaper import cheaper, cheaper_costs
from results_page.counted import counted
from results_page.courses import draw
from results_page.front import measured
from results_page.gpu_tests import gpu_tests
from results_page.images import trained
from results_page.language import foretold
from results_page.pretraining import pretrained, questioned
from results_page.studio import studio
from results_page.texts import understood
from results_page.training_speed import reached, training_speed, translation_speed
from results_page.translations import translated
from results_page.tried import tried
from results_page.writing_speed import caption_speed, decoding_speed

DOCS = Path(__file__).parent
DEVICES = ("cuda", "cpu")
MEASURED = ("<!-- measured: written by docs/make_results.py -->", "<!-- /measured -->")
ABOUT = (
    "What models came to and how fast they are, with command, hardware and spread. Every figure of "
    "ours is read from a file in [`results/`](../results) by `python docs/make_results.py`. Where "
    "speeds are compared, times are medians over rounds in which the contenders take turns in one "
    "process; ratios are the figures to trust, and above 1 regard takes less time."
)


def page() -> str:
    """The whole page as Markdown."""
    parts = trained()
    parts += boards()
    parts += captioned()
    parts += translated()
    parts += foretold()
    parts += understood()
    parts += pretrained()
    parts += questioned()
    parts += cheaper()
    for section, name in (
        (decoding_speed, "decoding"),
        (caption_speed, "captions"),
        (translation_speed, "translation"),
        (training_speed, "training"),
        (reached, "reach"),
        (attention, "attention"),
        (cheaper_costs, "cheaper"),
    ):
        for device in DEVICES:
            parts += section(f"bench-{name}-{device}")
    parts += ["## What watching costs", WATCHING]
    for device in DEVICES:
        parts += watching(f"bench-watch-{device}")
    parts += counted()
    parts += studio()
    parts += tried()
    parts += gpu_tests()
    return "\n\n".join(["# Results", ABOUT, contents(parts), *parts]) + "\n"


def contents(parts: list[str]) -> str:
    """A line for each section, which leads there."""
    titles = [part.removeprefix("## ") for part in parts if part.startswith("## ")]
    return "\n".join(f"- [{title}](#{anchor(title)})" for title in titles)


def anchor(title: str) -> str:
    """What a heading is called in a link."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def readme(text: str) -> str:
    """The README with its table as measured."""
    before, rest = text.split(MEASURED[0])
    _, after = rest.split(MEASURED[1])
    return f"{before}{MEASURED[0]}\n\n{measured()}\n\n{MEASURED[1]}{after}"


if __name__ == "__main__":
    front = DOCS.parent / "README.md"
    (DOCS / "results.md").write_text(page(), encoding="utf-8")
    front.write_text(readme(front.read_text(encoding="utf-8")), encoding="utf-8")
    draw()
    print("wrote docs/results.md, the table of README.md and results/courses-cifar10.png")
