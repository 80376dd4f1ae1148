"""Write docs/results.md, docs/tried.md and the tables of README.md from the files in results/.

No figure of ours is typed by hand. The sections are in docs/results_page, one idea a file; here is
their order.
"""

import argparse
import re
from pathlib import Path

from results_page import best, ratios
from results_page.attention_speed import attention
from results_page.boards import boards
from results_page.captions import captioned
from results_page.cells import SHARED_GPU, SPREAD
from results_page.cheaper import cheaper
from results_page.cheaper_costs import cheaper_costs
from results_page.counted import counted
from results_page.courses import draw
from results_page.gpu_tests import gpu_tests
from results_page.images import trained
from results_page.language import foretold
from results_page.pretraining import pretrained, questioned
from results_page.reach import reached
from results_page.studio import studio
from results_page.texts import understood
from results_page.training_speed import training_speed, translation_speed
from results_page.translations import translated
from results_page.tried import TRIED, tried
from results_page.typeset import typeset
from results_page.watching import watching
from results_page.writing_speed import caption_speed, decoding_speed

DOCS = Path(__file__).parent
MEASURED = ("<!-- measured: written by docs/make_results.py -->", "<!-- /measured -->")
ABOUT = (
    "How well the models of regard do, and how fast they are. Every figure of ours is read from "
    "[`results/`](../results) by `python docs/make_results.py`; what others published is quoted "
    "with its source. Settings that were tried on the way, the failures included, are in "
    "[tried.md](tried.md)."
)
READING = f"""\
- **Test sets.** Settings were chosen on validation. The test set was read once a seed, unless a
  section says otherwise.
- **Spread.** {SPREAD}
- **Time** is that of training, with evaluation and without reading the data: the mean over seeds.
  {SHARED_GPU}
- **Speed.** Contenders take turns in one process; times are medians over rounds. Trust the ratios:
  above 1, regard is faster."""
SPEED = "How fast regard is beside other libraries that do the same."
MEASURED_WITH = (
    f"{SPREAD} Time is the mean over seeds; another seed is `--train.seed 1`. {SHARED_GPU} "
    "`RUN` is the folder that training made."
)
ALL_ROWS = "All figures are in [docs/results.md](docs/results.md)."
RATIOS = (
    "How many times as fast regard is: below 1, it is slower. Where two rivals are named, there "
    "are two figures; – was not measured."
)


def page() -> str:
    """docs/results.md: quality task by task, then speed, then costs."""
    parts = ["## In short", best.in_full(), MEASURED_WITH, RATIOS, ratios.ratios(ratios.ALL)]
    parts += trained() + boards()
    parts += captioned() + translated() + foretold() + understood()
    parts += pretrained() + questioned()
    parts += under("## Cheaper attention", cheaper() + cheaper_costs())
    speed = decoding_speed() + caption_speed() + training_speed() + translation_speed()
    speed += reached() + attention()
    parts += under(f"## Speed\n\n{SPEED}", speed)
    parts += under("## Costs", watching() + counted())
    parts += studio()
    parts += gpu_tests()
    return joined(["# Results", ABOUT, contents(parts), READING, *parts])


def tried_page() -> str:
    """docs/tried.md: what was compared before settings were kept."""
    return joined(["# What was tried", TRIED, *tried()])


def under(title: str, parts: list[str]) -> list[str]:
    """Parts below a heading, if there are any."""
    return [title, *parts] if parts else []


def joined(parts: list[str]) -> str:
    return typeset("\n\n".join(parts)) + "\n"


def contents(parts: list[str]) -> str:
    """A line of links to the sections."""
    titles = [part.partition("\n")[0].removeprefix("## ") for part in parts if part[:3] == "## "]
    return " · ".join(f"[{title.partition(' (`')[0]}](#{anchor(title)})" for title in titles)


def anchor(title: str) -> str:
    """What a heading is called in a link."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def readme(text: str) -> str:
    """The README with its tables as measured."""
    before, rest = text.split(MEASURED[0])
    _, after = rest.split(MEASURED[1])
    told = f"{MEASURED_WITH} {ALL_ROWS}"
    tables = [best.in_short(), told, RATIOS, ratios.ratios(ratios.SHORT)]
    return f"{before}{MEASURED[0]}\n\n{joined(tables)}\n{MEASURED[1]}{after}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python docs/make_results.py", description=__doc__)
    parser.parse_args(arguments)  # there are none: refuses others, and answers --help
    front = DOCS.parent / "README.md"
    (DOCS / "results.md").write_text(page(), encoding="utf-8")
    (DOCS / "tried.md").write_text(tried_page(), encoding="utf-8")
    front.write_text(readme(front.read_text(encoding="utf-8")), encoding="utf-8")
    draw()
    print("wrote results.md and tried.md in docs, the tables of README.md and the picture of")
    print("CIFAR-10 in results")


if __name__ == "__main__":
    main()
