"""Names stand where it is plain what they name, however crowded the picture is."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.lines import Line2D

from regard.visualization.figures import HUES, INK, Page
from regard.visualization.labels import JOINED, Named, apart, name_ends, name_points
from test_figures import assert_legible


def frame(page: Page):
    axes = page.axes(0.5, 0.5, 4.0, 3.0)
    axes.set(xlim=(0, 10), ylim=(0, 10))
    return axes


def with_dots(places: list[tuple[float, float]]):
    page = Page(4.0)
    axes = frame(page)
    for x, y in places:
        axes.plot([x], [y], "o", color=INK, markersize=5)
    name_points(axes, [Named(x, y, f"name {at}", INK) for at, (x, y) in enumerate(places)])
    return page.figure, axes


def leaders(axes) -> list[Line2D]:
    return [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_lw() == 0.7]


def away(box, dot) -> float:
    """Dots of the picture from a name to a point."""
    x, y = dot
    return float(np.hypot(max(box.x0 - x, 0, x - box.x1), max(box.y0 - y, 0, y - box.y1)))


def test_a_name_alone_stands_beside_its_point_on_the_right():
    figure, axes = with_dots([(3, 5)])
    (label,) = axes.texts
    box, dot = label.get_window_extent(), axes.transData.transform((3, 5))
    assert box.x0 > dot[0] and abs((box.y0 + box.y1) / 2 - dot[1]) < 3
    assert away(box, dot) < JOINED * figure.dpi / 72 and not leaders(axes)


def test_a_name_at_the_right_end_stands_on_the_left():
    _, axes = with_dots([(9.9, 5)])
    assert axes.texts[0].get_window_extent().x1 < axes.transData.transform((9.9, 5))[0]


def test_every_name_in_a_crowd_belongs_to_its_point():
    some = np.random.default_rng(0).normal(5, 0.25, (7, 2)).tolist()
    places = [*some, [5, 5], [5, 5.05]]
    figure, axes = with_dots([(x, y) for x, y in places])
    assert_legible(figure)
    dots = axes.transData.transform(places)
    joined = {tuple(np.round(line.get_xydata()[0], 6)) for line in leaders(axes)}
    for own, label in enumerate(axes.texts):
        box = label.get_window_extent()
        nearest = min(range(len(dots)), key=lambda at: away(box, dots[at]))
        assert nearest == own or tuple(np.round(places[own], 6)) in joined
        assert all(away(box, dot) > 2 for dot in dots)


def test_names_keep_off_lines_and_inside_the_frame():
    page = Page(4.0)
    axes = frame(page)
    axes.plot([0, 9.8], [1, 9.8], color=INK)
    axes.plot([0, 9.8], [9, 9.7], color=INK)
    name_points(axes, [Named(9.8, 9.8, "rising", INK), Named(9.8, 9.7, "level", INK)])
    assert_legible(page.figure)
    inside = axes.get_window_extent()
    for label in axes.texts:
        box = label.get_window_extent()
        assert inside.x0 <= box.x0 and box.x1 <= inside.x1 and box.y1 <= inside.y1
        along = axes.transData.transform(np.linspace((0, 1), (9.8, 9.8), 500))
        assert min(away(box, place) for place in along) > 2


def test_lines_that_end_together_are_named_in_the_order_of_their_ends():
    page = Page(4.0)
    axes = frame(page)
    heights = [5.0, 5.1, 2.0, 4.9, 5.0]
    ends = []
    for at, (y, colour) in enumerate(zip(heights, HUES, strict=True)):
        axes.plot([0, 7], [1, y], color=colour)
        ends.append(Named(7, y, f"line {at}", colour))
    axes.plot([0, 3], [1, 8], color=INK)
    name_ends(axes, [*ends, Named(3, 8, "short", INK)])
    assert_legible(page.figure)
    middles = {label.get_text(): label.get_window_extent() for label in axes.texts}
    for a, b in combinations(range(len(heights)), 2):
        if heights[a] != heights[b]:
            above = middles[f"line {a}"].y0 > middles[f"line {b}"].y0
            assert above == (heights[a] > heights[b])
    lefts = [middles[f"line {at}"].x0 for at in range(len(heights))]
    assert max(lefts) - min(lefts) < 1  # a column
    assert middles["short"].x1 < min(lefts)


def test_nothing_to_name_is_no_trouble():
    axes = frame(Page(4.0))
    name_points(axes, [])
    name_ends(axes, [])
    assert not axes.texts


def test_names_in_a_column_keep_their_order_and_their_distance():
    places = apart([0.5, 0.51, 0.0, 0.52, 1.0], 0.1)
    assert places == pytest.approx([0.41, 0.51, 0.0, 0.61, 1.0])
    assert apart([], 0.1) == [] and apart([0.3], 0.1) == [0.3]
    crowd = apart([0.5] * 9, 0.05)
    assert crowd == pytest.approx([0.3 + 0.05 * at for at in range(9)])
    assert apart([0.9, 1.0, 0.2], 0.1, 0.0, 0.9) == pytest.approx([0.8, 0.9, 0.2])
    assert apart([0.0, 0.05], 0.1, 0.1, 0.9) == pytest.approx([0.1, 0.2])
