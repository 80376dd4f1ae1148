"""Pictures keep their words apart and inside, whatever the masks and labels say."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image

from regard.attention import Mask
from regard.cli import demo
from regard.visualization.figures import attention_over_images, broken, mask_gallery


def boxes_of_words(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    return [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in texts]


def assert_legible(figure):
    boxes = boxes_of_words(figure)
    page = figure.bbox
    for words, box in boxes:
        assert page.x0 <= box.x0 and box.x1 <= page.x1, f"{words!r} leaves the page"
        assert page.y0 <= box.y0 and box.y1 <= page.y1, f"{words!r} leaves the page"
    for (a, box), (b, other) in combinations(boxes, 2):
        assert not box.overlaps(other), f"{a!r} lies on {b!r}"


def test_words_of_the_mask_gallery_stay_apart(tmp_path):
    masks = {words: Mask.parse(expression) for words, expression in demo.MASKS.items()}
    path = tmp_path / "masks.png"
    figure = mask_gallery(masks, path, n=demo.TOKENS, caption=demo.ABOUT_GRIDS)
    assert_legible(figure)
    assert path.stat().st_size < 200_000


def test_words_over_attention_stay_apart_when_answers_are_wrong(tmp_path):
    path = tmp_path / "attention.png"
    views = {"head 1": np.random.rand(10, 4, 4), "rollout": np.zeros((10, 4, 4))}
    images, labels = np.random.rand(10, 8, 8), [f"says {i},\nis {9 - i}" for i in range(10)]
    figure = attention_over_images(images, views, labels, path, title="Where", caption="a\nb")
    assert_legible(figure)
    assert Image.open(path).width == 1600


def test_a_figure_takes_the_format_of_its_name(tmp_path):
    mask_gallery({"nothing later": Mask.parse("causal")}, tmp_path / "masks.svg", n=4)
    assert "<svg" in (tmp_path / "masks.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        ("causal & window(64)", ["causal & window(64)"]),
        ("causal & (window(64) | sinks(4))", ["causal", "& (window(64) | sinks(4))"]),
        (
            "window(2) | global_tokens(2) | random_keys(2, 25, 0)",
            ["window(2)", "| global_tokens(2)", "| random_keys(2, 25, 0)"],
        ),
        (
            "window(2) | sinks(2) | random_keys(2, 25, 0)",
            ["window(2) | sinks(2)", "| random_keys(2, 25, 0)"],
        ),
        (
            "causal & (blocks(5) | block_summary(5, 1))",
            ["causal", "& (blocks(5)", "   | block_summary(5, 1))"],
        ),
    ],
)
def test_a_long_expression_breaks_before_its_outermost_operators(expression, lines):
    assert broken(expression) == "\n".join(lines)
