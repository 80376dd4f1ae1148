"""The picture of patterns shows the pairs that reach says, and keeps its words apart."""

import importlib.util
from pathlib import Path

import numpy as np
from matplotlib.collections import QuadMesh
from matplotlib.patches import Rectangle
from PIL import Image

from golden import expect_error
from regard.attention import Mask
from regard.attention.receptive_field import receptive_field
from regard.visualization.figure_masks import cost, pattern_figure, spread
from test_figures import assert_legible, boxes_of_words

ROOT = Path(__file__).parent.parent


def test_each_pair_has_the_layer_in_which_word_first_passes():
    mask = Mask.parse("causal & window(3)")
    first = spread(mask, 9, 3)
    for layer in (1, 2, 3):
        assert ((first > 0) & (first <= layer) == receptive_field(mask, 9, layer).numpy()).all()
    # Two back at each layer, and itself at once.
    assert first[8].tolist() == [0, 0, 3, 3, 2, 2, 1, 1, 1]
    assert not np.triu(first, 1).any()


def test_pictures_show_what_is_new_what_was_before_and_nothing_twice(tmp_path):
    path = tmp_path / "patterns.png"
    masks = {"narrow": Mask.parse("causal & window(3)"), "apart": Mask.parse("blocks(4)")}
    figure = pattern_figure(masks, path, n=9, layers=3)
    meshes = [axes.findobj(QuadMesh)[0] for axes in figure.axes]
    assert len(meshes) == 3 + 1  # blocks never hear anything new
    first = spread(masks["narrow"], 9, 3)
    for layer, mesh in enumerate(meshes[:3], 1):
        shown = np.asarray(mesh.get_array()).reshape(9, 9)
        assert ((shown == 2) == (first == layer)).all()
        assert ((shown == 1) == ((first > 0) & (first < layer))).all()
    words = [words for words, _ in boxes_of_words(figure)]
    assert {"1 layer", "2 layers", "3 layers", "narrow", "blocks(4)"} <= set(words)
    assert "53%" in words  # 24 of the 45 pairs without a later key
    assert "41%" in words  # 16 + 16 + 1 of 81
    assert_legible(figure)
    picture = Image.open(path).convert("RGB")
    assert len(picture.getcolors()) > 8 and path.stat().st_size > 5000


def test_a_mask_on_a_grid_shows_what_the_middle_cell_hears_of(tmp_path):
    mask = Mask.parse("neighborhood(1, (4, 6))")
    figure = pattern_figure({"near": mask}, tmp_path / "near.png", n=24, layers=2)
    *_, one, two = figure.axes
    middle = 2 * 6 + 3
    cells = np.asarray(one.findobj(QuadMesh)[0].get_array()).reshape(4, 6)
    assert ((cells == 2) == mask(range(24), range(24))[middle].numpy().reshape(4, 6)).all()
    assert cells.sum() == 2 * 9
    later = np.asarray(two.findobj(QuadMesh)[0].get_array()).reshape(4, 6)
    assert (later == 1).sum() == 9 and (later == 2).sum() == 4 * 5 - 9
    marks = [mark for mark in one.patches if isinstance(mark, Rectangle)]
    assert [mark.get_xy() for mark in marks] == [(3, 2)]
    assert_legible(figure)


def test_the_cost_is_counted_and_never_is_an_answer():
    assert cost(Mask.parse("blocks(4)"), 8) == "reads 32 of 64 pairs, 50%\nnever reaches all"
    assert cost(Mask.parse("causal"), 4).splitlines() == [
        "reads 10 of 16 pairs, 62%",
        "reaches all in 1 layer",
    ]
    assert cost(Mask.parse("axial((4, 4))"), 16).endswith("reaches all in 2 layers")


def test_what_cannot_be_drawn_is_refused_with_numbers(tmp_path):
    path = tmp_path / "none.png"
    with expect_error(ValueError):
        pattern_figure({"far": Mask.parse("axial((5, 5))")}, path, n=24)
    with expect_error(ValueError):
        pattern_figure({}, path, n=24)
    with expect_error(ValueError):
        pattern_figure({"all": Mask.parse("causal")}, path, n=24, layers=0)
    assert not path.exists()


def test_the_picture_of_the_docs_is_drawn_by_its_script_the_same_each_time(tmp_path):
    spec = importlib.util.spec_from_file_location("patterns", ROOT / "docs" / "make_patterns.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert_legible(script.patterns(tmp_path / "one.png"))
    script.patterns(tmp_path / "two.png")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    assert (tmp_path / "one.png").stat().st_size < 200_000
    assert script.PATH.exists()
