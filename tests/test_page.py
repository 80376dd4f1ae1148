"""Pages work from one file, offline, by mouse and keyboard, whatever the names in them say."""

import base64
import csv
import html
import json
import math
import re
import subprocess
import sys
from functools import partial
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from golden import expect_error
from regard.inspection.head_maps import head_maps
from regard.visualization.document import (
    PAGE,
    json_in_html,
    modules_for,
    packed,
    png_uri,
    render,
    views_known,
    write_document,
)

HOSTILE = "</script><img src=x onerror='window.harmed=1'><script>window.harmed=1</script>\u2028&\"'"
VIEWS = ["facts", "figures", "curves", "confusion", "classes", "calibration"]
VIEWS += ["attention", "lines", "table", "captions", "reading", "words"]


def maps(layers, heads, rows, columns, seed=0):
    """Shares of 1 that differ from map to map."""
    drawn = np.random.default_rng(seed).exponential(size=(layers, heads, rows, columns)) ** 2
    return drawn / drawn.sum((2, 3), keepdims=True)


def item(number, layers=3, each=2, rows=4, columns=4, **changes):
    pixels = np.random.default_rng(number).integers(0, 255, (16, 16 * columns // rows, 3), np.uint8)
    heads = maps(layers, each, rows, columns, number)
    return {
        "image": png_uri(pixels),
        "width": pixels.shape[1],
        "height": pixels.shape[0],
        "title": f"image {number}",
        "words": "Called a cat.",
        "answers": [{"name": "cat", "share": 0.9}, {"name": "dog", "share": 0.1}],
        "truth": "dog",
        "heads": packed(heads),
        "rollout": packed(heads.mean((0, 1))),
        **changes,
    }


def caption_item(number, name):
    return {
        "name": f"image {number}",
        "image": item(number)["image"],
        "words": ["a", name, "."],
        "references": [name],
        "note": name,
        "grid": [4, 4],
        "heads": ["mean", name],
        "maps": packed(maps(2, 3, 4, 4, number)),
        "boxes": [{"word": 1, "box": [0, 0, 0.5, 0.5]}],
    }


def reading_item(number, name):
    return {
        "name": f"text {number}",
        "asked": ["a", f" {name}", "\n"],
        "read": None,
        "heads": ["mean of all", name],
        "maps": head_maps(maps(1, 2, 3, 3, number)[0], causal=False),
        "note": name,
    }


def words_item(number, name):
    return {
        "name": f"text {number}",
        "words": ["a", f" {name}", "."],
        "breaks": [2],
        "answers": [{"name": name, "share": 0.9}, {"name": "dog", "share": 0.1}],
        "answer": name,
        "truth": "dog",
        "methods": [
            {
                "name": "left out",
                "words": name,
                "signed": True,
                "unit": "log-probability",
                "values": [0.1, -0.4, 0],
            },
            {"name": name, "words": "", "signed": False, "unit": "share", "values": [0.1, 0.4, 0]},
        ],
        "note": name,
    }


def lines(epochs, final=0.9):
    return [
        {
            "epoch": epoch,
            "train/loss": 1 / epoch,
            "train_eval/accuracy": final * (1 - 0.4**epoch),
            "val/accuracy": (final - 0.1) * (1 - 0.531**epoch),
            "train_eval/loss": 1 / epoch,
            "val/loss": 1 / epoch + 0.1,
        }
        for epoch in range(1, epochs + 1)
    ]


def counts_of(classes):
    counts = np.eye(classes, dtype=int) * 30 + np.roll(np.eye(classes, dtype=int), 1, 1) * 7
    counts[0, -1] += 3
    return counts


def report(name="cat", epochs=12, classes=10, items=3, runs=2):
    """A document with every view; `name` is what a user calls things."""
    names = [f"{name} {number}" for number in range(classes)]
    data = {
        "facts": {"rows": [[name, 3, "Machine"], ["python", "3.12", "Machine"], ["seed", 0]]},
        "figures": {
            "items": [
                {"name": "accuracy", "value": 0.8312, "low": 0.82, "high": 0.84, "unit": "%"},
                {
                    "name": name,
                    "value": 0.52,
                    "low": 0.501,
                    "high": 0.54,
                    "unit": "",
                    "words": name,
                },
            ]
        },
        "curves": {
            "runs": [
                {
                    "name": f"{name} {run}",
                    "lines": lines(epochs, 0.95 - run / 10),
                    "marks": {"accuracy": 0.8},
                }
                for run in range(runs)
            ]
        },
        "confusion": {"classes": names, "counts": counts_of(classes)},
        "classes": {
            "rows": [
                {"name": words, "count": 40, "accuracy": 0.9 - i / 50, "low": 0.6, "high": 0.95}
                for i, words in enumerate(names)
            ]
        },
        "calibration": {
            "bins": [
                {
                    "low": i / 5,
                    "high": (i + 1) / 5,
                    "count": 10 * i,
                    "confidence": i / 5 + 0.1 if i else math.nan,
                    "accuracy": i / 5 + 0.03 if i else math.nan,
                }
                for i in range(5)
            ],
            "error": {"value": 0.07, "low": 0.05, "high": 0.1},
        },
        "attention": {"items": [item(number) for number in range(items)]},
        "reading": {"items": [reading_item(number, name) for number in range(items)]},
        "words": {"items": [words_item(number, name) for number in range(items)]},
        "captions": {"items": [caption_item(number, name) for number in range(items)]},
        "lines": {
            "x": {"name": "share removed", "values": [0, 0.5, 1], "unit": "%"},
            "y": {"name": "probability", "unit": "%"},
            "series": [
                {
                    "name": name,
                    "values": [0.9, 0.5, 0.1],
                    "low": [0.8, 0.4, 0],
                    "high": [1, 0.6, 0.2],
                },
                {"name": "random", "values": [0.9, 0.7, 0.3]},
            ],
            "words": name,
        },
        "table": {
            "columns": ["run", "patch", "accuracy", name],
            "rows": [
                ["run 2", 8, 0.9, None],
                ["run 10", 4, 0.831, name],
                ["run 1", 16, None, "c"],
            ],
        },
    }
    return {
        "title": f"All about {name}",
        "subtitle": f"Every view of {name}",
        "about": [["run", name], ["parameters", 140_618]],
        "sections": [
            {
                "view": view,
                "title": view.title(),
                "words": f"How to read {name}.",
                "data": data[view],
            }
            for view in VIEWS
        ],
    }


def section(view, data, title="Part"):
    return {"title": "Page", "sections": [{"view": view, "title": title, "data": data}]}


# The file


def script(page, kind):
    """The content of the one script element with these words in its tag."""
    (found,) = re.findall(rf"<script [^>]*{kind}[^>]*>(.*?)</script>", page, re.DOTALL)
    return found


def test_every_view_has_a_section_in_these_tests():
    assert sorted(VIEWS) == list(views_known())


@pytest.mark.parametrize("name", [HOSTILE, "]]>", "<!--<script>", "\u2029", "\udc80", "\0", "👁"])
def test_no_name_can_end_the_script_that_holds_it(name):
    page = render(report(name))
    data = script(page, 'id="document"')
    assert not set(data) & set("<>&\u2028\u2029")
    assert json.loads(data)["about"][0] == ["run", name]
    assert page.count("<script") == page.count("</script>") == 3


def test_the_title_is_text():
    page = render({"title": "</title><b>\udc80 & co", "sections": []})
    (title,) = re.findall(r"<title>(.*?)</title>", page)
    assert html.unescape(title) == "</title><b>? & co" and "<b>" not in page


def test_the_policy_allows_only_what_the_file_itself_holds():
    page = render(report())
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    (nonce,) = set(re.findall(r"'nonce-(.*?)'", policy))
    assert policy.startswith("default-src 'none'; ")
    assert not re.search(r"unsafe|http|\*", policy)
    tags = re.findall(r"<(?:script|style)\b[^>]*>", page)
    assert [tag for tag in tags if nonce not in tag] == [
        '<script type="application/json" id="document">'
    ]
    addresses = re.findall(r"(?:src|href)=[\"'](.*?)[\"']", re.sub(r"<script.*", "", page))
    assert addresses and all(address.startswith("data:") for address in addresses)


def test_the_same_document_gives_the_same_bytes_and_another_another_nonce():
    nonce = partial(re.search, r"nonce-\w+")
    assert render(report()) == render(report())
    assert nonce(render(report()))[0] != nonce(render(report("dog")))[0]


def test_every_import_is_in_the_import_map():
    page = render(report())
    imports = json.loads(script(page, "importmap"))["imports"]
    assert {f"regard/views/{view}" for view in VIEWS} < set(imports)
    for name, uri in imports.items():
        kind, _, content = uri.partition(";base64,")
        source = base64.b64decode(content).decode()
        assert kind == "data:text/javascript"
        assert source.endswith(f"//# sourceURL={name}.js\n")
        wanted = re.findall(r"(?:from|import) \"(.*?)\"", source)
        assert set(wanted) <= set(imports), f"{name} imports what is not there"
    assert "regard/views/table" not in modules_for(["facts"])


def test_modules_make_no_markup_of_text_and_reach_for_nothing_outside():
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|"
        r"createContextualFragment|https?://(?!www\.w3\.org/2000/svg\")|XMLHttpRequest|\bfetch\("
    )
    for name, source in modules_for(VIEWS).items():
        assert not forbidden.search(source), f"{name}: {forbidden.search(source)}"
        assert max(map(len, source.splitlines())) <= 100, name
    assert not re.search(r"url\(|@import|@font-face", (PAGE / "page.css").read_text("utf-8"))


def test_an_unknown_view_is_refused_by_name():
    with expect_error(ValueError):
        render(section("pie", {}))


def test_numbers_become_what_json_has():
    value = {"a": np.float32(0.5), "b": np.arange(3), "c": [math.nan, math.inf, (1,)], 4: Path("x")}
    assert json.loads(json_in_html(value)) == {
        "a": 0.5,
        "b": [0, 1, 2],
        "c": [None, None, [1]],
        "4": "x",
    }
    assert json.loads(
        json_in_html({"loss": np.float64("nan"), "n": np.int64(7), "ok": np.True_})
    ) == {
        "loss": None,
        "n": 7,
        "ok": True,
    }


def test_a_file_is_written_whole(tmp_path):
    path = tmp_path / "report ü.html"
    write_document(path, report("ü\udc80"))
    assert path.read_text(encoding="utf-8") == render(report("ü\udc80"))
    assert [*tmp_path.iterdir()] == [path]


def test_a_typical_report_is_small():
    document = report(epochs=100, items=0)
    document["sections"][6]["data"]["items"] = [item(k, 6, 6, 8, 8) for k in range(24)]
    images = sum(len(one["image"]) for one in document["sections"][6]["data"]["items"])
    assert len(render(document).encode()) - images < 400_000


shares = arrays.arrays(
    np.float64,
    arrays.array_shapes(min_dims=2, max_dims=4, max_side=5),
    elements=st.floats(0, 1e6, allow_subnormal=False),
)


@given(shares)
def test_packed_maps_come_back_within_half_a_step_of_their_own_scale(drawn):
    carried = json.loads(json.dumps(packed(drawn)))
    levels = np.frombuffer(base64.b64decode(carried["base64"]), np.uint8).reshape(carried["shape"])
    scale = np.reshape(carried["scale"], (*drawn.shape[:-2], 1, 1))
    greatest = drawn.max((-2, -1), keepdims=True)
    assert (np.abs(levels * scale - drawn) <= greatest / 510 * (1 + 1e-9)).all()
    assert isinstance(carried["scale"], list) == (drawn.ndim > 2)


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_maps_that_are_not_shares_are_refused(bad):
    with expect_error(ValueError):
        packed(np.array([[0.5, bad]]))


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 3), (5, 7, 4)], ids=str)
def test_images_come_back_from_their_uri(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    kind, _, content = png_uri(image).partition(",")
    assert kind == "data:image/png;base64"
    back = np.asarray(Image.open(BytesIO(base64.b64decode(content))))
    assert np.array_equal(back.reshape(shape), image)


@pytest.mark.parametrize("shape", [(5, 7, 2), (0, 7), (5, 7, 5)], ids=str)
def test_what_is_no_image_is_refused_by_its_shape(shape):
    with expect_error(ValueError):
        png_uri(np.zeros(shape, np.uint8))


def test_documents_need_no_torch():
    code = "import sys, regard.visualization.document; sys.exit('torch' in sys.modules)"
    assert subprocess.run((sys.executable, "-c", code)).returncode == 0


# In a browser


def words_that_collide(page):
    """Words in drawings that leave their drawing, or lie on other words of it."""
    return page.evaluate("""[...document.querySelectorAll("svg")].flatMap((svg) => {
      const frame = svg.getBoundingClientRect();
      const free = getComputedStyle(svg).overflow === "visible";
      const texts = [...svg.querySelectorAll("text")];
      const boxes = texts.map((e) => ({ words: e.textContent, box: e.getBoundingClientRect() }));
      const outside = ({ box }) => box.left < frame.left - 1 || box.right > frame.right + 1;
      const meet = (a, b) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
      const beyond = boxes.filter((one) => !free && outside(one));
      const found = beyond.map(({ words }) => `${words} leaves the drawing`);
      boxes.forEach((one, i) => {
        const others = boxes.slice(i + 1).filter(({ box }) => meet(one.box, box));
        found.push(...others.map(({ words }) => `${one.words} lies on ${words}`));
      });
      return found;
    })""")


@pytest.mark.chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000, 1600])
def test_every_view_draws_at_every_width(opened, width, dark):
    page = opened(report(), width=width, dark=dark)
    assert page.count("section") == len(VIEWS) and page.count(".empty") == 0
    for view in VIEWS:
        assert page.box(f".view.{view}")[3] > 40, view
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert words_that_collide(page) == []
    assert page.text("h1") == "All about cat" and "140\u202f618" in page.text(".about")


@pytest.mark.chromium
def test_hostile_names_stay_text(opened):
    page = opened(report(HOSTILE))
    assert page.evaluate("window.harmed") is None
    assert page.count("script") == 3 and page.count("img[src=x], [onerror]") == 0
    assert page.each("h1") == [f"All about {HOSTILE}"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 1000
    page.hover(".confusion .matrix svg", 0.4, 0.4)
    page.hover(".curves .chart")
    page.click(".attention .thumb:nth-child(2)")
    assert page.evaluate("window.harmed") is None and page.count("script") == 3


@pytest.mark.chromium
def test_what_is_not_an_image_is_not_loaded(opened):
    bad = item(0, image="https://example.org/x.png", title=HOSTILE)
    page = opened(section("attention", {"items": [bad, item(1, image="javascript:alert(1)")]}))
    assert page.count("image") == 0 and page.count("img[src]") == 0
    assert page.count(".picture .map rect") == 16


@pytest.mark.chromium
def test_the_policy_holds(browser, tmp_path):
    path = tmp_path / "page.html"
    write_document(path, report())
    page = browser.open(path.as_uri())
    page.evaluate("""(() => {
      const script = document.createElement("script");
      script.textContent = "window.harmed = 1";
      document.body.append(script);
      const image = document.createElement("img");
      image.src = "https://example.org/x.png";
      document.body.append(image);
    })()""")
    refused = page.evaluate("fetch('https://example.org').then(() => 'fetched', () => 'refused')")
    assert refused == "refused" and page.evaluate("window.harmed") is None
    assert len([error for error in page.errors if "Content Security Policy" in error]) >= 3
    page.close()


def fills(page):
    return page.each(".picture .map rect", "e.getAttribute('fill')")


def caption(page):
    return page.text(".picture figcaption span")


@pytest.mark.chromium
def test_clicks_and_arrow_keys_choose_the_map(opened):
    page = opened(report())
    seen = {caption(page): fills(page)}
    assert caption(page) == "layer 3, mean of heads"
    page.click("[aria-label='layer 2, head 1']")
    for key, words in (
        (None, "layer 2, head 1"),
        ("ArrowLeft", "layer 2, head 1"),  # the edge
        ("ArrowRight", "layer 2, head 2"),
        ("ArrowUp", "layer 1, head 2"),
        ("ArrowUp", "layer 1, head 2"),
        ("ArrowRight", "layer 1, mean of heads"),
        ("ArrowDown", "layer 2, mean of heads"),
        ("ArrowDown", "layer 3, mean of heads"),
        ("ArrowDown", "rollout"),
        ("ArrowUp", "layer 3, mean of heads"),
    ):
        if key:
            page.press(key)
        assert caption(page) == words
        assert seen.setdefault(words, fills(page)) == fills(page)
        chosen = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert chosen == words and page.count(".attention .cell[aria-checked=true]") == 1
    assert len(set(map(tuple, seen.values()))) == len(seen) == 7


@pytest.mark.chromium
def test_the_map_drawn_is_the_map_packed(opened):
    heads = maps(2, 3, 3, 5, 7)
    shown = item(0, rows=3, columns=5, heads=packed(heads), rollout=packed(heads[0, 0]))
    page = opened(section("attention", {"items": [shown]}), "#part?layer=2&head=mean")
    mean = heads[1].mean(0)
    row, column = np.unravel_index(mean.argmax(), mean.shape)
    (label,) = page.each(".picture > svg", "e.ariaLabel")
    place, _, most = label.rpartition(", with ")
    assert place.endswith(f"row {row + 1}, column {column + 1}")
    assert abs(float(most.rstrip("%")) / 100 - mean.max()) < 0.002
    # Darker where more was read: the order of lightness is the inverse order of shares.
    light = [luminance(fill) for fill in fills(page)]
    apart = np.abs(np.subtract.outer(mean.ravel(), mean.ravel())) > mean.max() / 50
    darker = np.subtract.outer(light, light) < 0
    assert (darker == np.greater.outer(mean.ravel(), mean.ravel()))[apart].all()

    page.hover(".picture svg", (3 + 0.5) / 5, (1 + 0.5) / 3)
    number, times = re.search(
        r"row 2, column 4: (.*)% of the reading, (.*) times", page.text(".hint")
    ).groups()
    assert abs(float(number) / 100 - mean[1, 3]) < mean.max() / 400
    assert abs(float(times) - 15 * mean[1, 3]) < 0.02
    page.click("[aria-label='layer 1, head 1']")
    first = fills(page)
    page.click("[aria-label='rollout']")
    assert fills(page) == first, "the same map under two names"


@pytest.mark.chromium
def test_the_address_reproduces_what_is_looked_at(opened):
    page = opened(report(), "#attention?item=2&layer=1&head=2")
    assert page.text(".stage h3") == "image 1" and caption(page) == "layer 1, head 2"
    assert abs(page.box("#attention")[1]) < 100
    before = fills(page)
    page.click(".thumb:nth-child(3)")
    page.press("ArrowLeft")
    page.click("[aria-label='layer 3, mean of heads']")
    assert page.evaluate("location.hash") == "#attention?item=2&layer=3&head=mean"
    page.click("[aria-label='rollout']")
    assert page.evaluate("location.hash") == "#attention?item=2&layer=rollout"
    page.evaluate("location.hash = '#attention?item=2&layer=1&head=2'")
    page.until(
        "document.querySelector('.picture figcaption span').textContent === 'layer 1, head 2'"
    )
    assert fills(page) == before
    page.evaluate("location.hash = '#classes'")
    page.evaluate("location.hash = '#attention'")
    assert caption(page) == "layer 1, head 2", "a link to the section alone keeps the choice"


@pytest.mark.chromium
@pytest.mark.parametrize(
    "address", ["#attention?item=99&layer=x&head=-1", "#%E0%A4%A?a", "#nowhere"]
)
def test_an_address_that_leads_nowhere_shows_the_first(opened, address):
    page = opened(report(), address)
    assert page.text(".stage h3") == "image 0" and caption(page) == "layer 3, mean of heads"


@pytest.mark.chromium
def test_opacity_colours_and_scale_change_the_picture_and_keep_the_focus(opened):
    page = opened(report())
    looks = [fills(page)]
    for paint in ("dusk", "grey", "light"):
        choose_colours(page, paint)
        looks.append(fills(page))
        assert page.count(".picture filter") == (paint != "light"), "only a shade keeps the colours"
    assert len(set(map(tuple, looks))) == 4
    choose_colours(page, "blue")
    page.click("input[type=checkbox]")
    assert fills(page) != looks[0]
    page.focus("input[type=range]")
    page.press("ArrowRight")
    assert page.each(".attention .picture .map", "e.getAttribute('opacity')") == ["0.65"]
    assert page.evaluate("document.activeElement.type") == "range"


def choose_colours(page, paint):
    page.evaluate(f"""(() => {{
      const select = document.querySelector(".attention select");
      select.value = "{paint}";
      select.dispatchEvent(new Event("change"));
    }})()""")


def linear(colour):
    v = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    return float(linear(colour) @ (0.2126, 0.7152, 0.0722))


# How colours look without red, green or blue cones (Machado, Oliveira and Fernandes 2009).
SIGHTS = {
    "all cones": np.eye(3),
    "no red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no blue": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


@pytest.mark.chromium
@pytest.mark.parametrize("paint", ["blue", "dusk", "grey"])
def test_colour_maps_keep_their_order_for_every_sight_and_at_an_even_pace(opened, paint):
    page = opened(section("attention", {"items": [item(0)]}))
    choose_colours(page, paint)
    colours = page.each(".strip g rect", "e.getAttribute('fill')")
    assert len(colours) == 32
    for sight, matrix in SIGHTS.items():
        y = np.array([(matrix @ linear(c)).clip(0, 1) @ (0.2126, 0.7152, 0.0722) for c in colours])
        lightness = 116 * np.cbrt(np.maximum(y, 0.008856)) - 16  # CIE 1976
        steps = np.diff(lightness)
        assert (steps > 0).all() or (steps < 0).all(), sight
        assert abs(lightness[-1] - lightness[0]) > 60, sight
        if sight == "all cones":
            assert np.abs(steps).max() < 2.5 * np.abs(steps).min()


@pytest.mark.chromium
def test_what_is_shown_can_be_saved(opened):
    page = opened(section("attention", {"items": [item(0, title=HOSTILE)]}), dark=True)
    page.click(".download")
    png = page.saved(".png")
    image = Image.open(png)
    assert image.size == (2 * (560 + 24), 2 * (560 + 84)) and png.name.endswith(
        "-mean-of-heads.png"
    )
    pixels = np.asarray(image.convert("RGB"))
    assert (pixels[:20] == 255).all(), "on white, whatever the theme"
    assert len(np.unique(pixels[200:1000, 200:1000].reshape(-1, 3), axis=0)) > 20

    page.click(".download + .download")
    drawing = ElementTree.fromstring(page.saved(".svg").read_bytes())
    space = "{http://www.w3.org/2000/svg}"
    words = [text.text for text in drawing.iter(f"{space}text")]
    assert "layer 3, mean of heads" in words and words[0].startswith("</script><img src=x")
    assert len([*drawing.iter(f"{space}rect")]) == 1 + 16 + 1 + 32
    (photo,) = drawing.iter(f"{space}image")
    assert photo.get("href").startswith("data:image/png;base64,")
    assert not [*drawing.iter(f"{space}script")]


DRAWN = {
    "curves": "curves",
    "confusion": "confusion",
    "classes": "classes",
    "calibration": "calibration",
    "lines": "probability",
    "words": "text-0",
}


@pytest.mark.chromium
def test_every_drawing_is_saved_with_styles_of_its_own_in_the_light(opened):
    page = opened(report(), dark=True, width=1280)
    page.hover(".view.curves .chart")  # a crosshair is no part of what is saved
    for view, name in DRAWN.items():
        page.click(f".view.{view} .saving .download:nth-child(2)")
        text = page.saved(f"{name}.svg").read_text(encoding="utf-8")
        drawing = ElementTree.fromstring(text)
        assert not re.search(r"var\(|light-dark|color-mix|oklab| class=| style=", text), view
        inks = set(re.findall(r'<text[^>]* fill="(#\w+)"', text))
        assert inks and not inks & {"#e6eaef", "#a0abb7"}, view  # those are for the dark
        assert float(drawing.get("width")) >= 320 and float(drawing.get("height")) > 60
    words = "".join(ElementTree.parse(page.saved("curves.svg")).getroot().itertext())
    assert "accuracy" in words and "loss" in words and "cat 1" in words and "epoch" in words
    shown = "".join(ElementTree.parse(page.saved("text-0.svg")).getroot().itertext())
    assert "acat." in shown.replace("left out", "")
    page.click(".view.calibration .saving .download")
    pixels = np.asarray(Image.open(page.saved("calibration.png")).convert("RGB"))
    assert (pixels[:20] == 255).all() and len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20


@pytest.mark.chromium
def test_tables_are_saved_as_csv_in_which_no_word_is_a_formula(opened):
    rows = [["=1+1", 0.5, 'a "b", c'], ["-x", -2, None], ["two\nlines", 1e-9, "é"]]
    page = opened(section("table", {"columns": ["name", "value", "note"], "rows": rows}))
    page.click(".saving .download")
    with page.saved(".csv").open(encoding="utf-8", newline="") as file:
        found = [*csv.reader(file)]
    assert found == [
        ["name", "value", "note"],
        ["'=1+1", "0.5", 'a "b", c'],
        ["'-x", "-2", ""],
        ["two\nlines", "1e-9", "é"],
    ]


@pytest.mark.chromium
def test_curves_show_the_values_at_the_crosshair(opened):
    page = opened(report())
    assert page.count(".curves .chart") == 2
    dashes = "getComputedStyle(document.querySelector('.curves .series.train')).strokeDasharray"
    assert page.evaluate(dashes) == "5px, 4px"
    page.focus(".curves .chart")
    for key, epoch in (
        ("Home", 1),
        ("ArrowRight", 2),
        ("ArrowRight", 3),
        ("End", 12),
        ("ArrowLeft", 11),
    ):
        page.press(key)
        line, other = lines(12, 0.95)[epoch - 1], lines(12, 0.85)[epoch - 1]
        assert [text.split() for text in page.text(".curves .readout").splitlines()] == [
            ["epoch", str(epoch), "train", "validation", *["test"] * (epoch == 12)],
            *(
                [
                    "cat",
                    str(run),
                    f"{one['train_eval/accuracy']:.1%}",
                    f"{one['val/accuracy']:.1%}",
                ]
                + ["80.0%"] * (epoch == 12)
                for run, one in enumerate((line, other))
            ),
        ]
        assert f"epoch {epoch}" in page.evaluate("document.activeElement.ariaValueText")
        assert page.count(".curves .cross line") == 2, "both charts move together"
    page.press("Escape")
    assert page.count(".curves .cross line") == 0
    page.hover(".curves figure:nth-child(2) .chart", 0.99)
    assert "epoch 12" in page.text(".curves figure:nth-child(2) .readout")


def epochs_with(**figures):
    """A line an epoch, whose figures are given by name, a slash being written as two dashes."""
    columns = {name.replace("__", "/"): values for name, values in figures.items()}
    rows = zip(*columns.values(), strict=True)
    return [{"epoch": at, **dict(zip(columns, row, strict=True))} for at, row in enumerate(rows, 1)]


@pytest.mark.chromium
@pytest.mark.parametrize(
    ("course", "kept"),
    [
        pytest.param(
            epochs_with(
                val__loss=[3, 2, 1, 2],
                val__accuracy=[0.1, 0.3, 0.4, 0.2],
                is_best=[True, True, False, False],
            ),
            2,
            id="the last that says so",
        ),
        pytest.param(
            epochs_with(val__accuracy=[0.1, 0.4, 0.4, 0.2], val__loss=[3, 2, 1, 2]),
            2,
            id="the most accurate, also where loss is shown",
        ),
        pytest.param(
            epochs_with(val__loss=[3, 2, 1, 2], val__accuracy=[0.9, 0.3, 0.4, 0.2]),
            3,
            id="the least loss",
        ),
        pytest.param(
            epochs_with(train_eval__accuracy=[0.1, 0.4, 0.3]), 3, id="the last, where nothing says"
        ),
    ],
)
def test_a_test_is_drawn_at_the_epoch_whose_weights_were_kept(opened, course, kept):
    runs = [{"name": "a", "lines": course, "marks": {"accuracy": 0.5, "loss": 2.5}}]
    page = opened(section("curves", {"runs": runs}))
    assert "test, with the weights kept" in page.text(".curves .legend")
    for number, quantity in enumerate(page.each(".curves figcaption"), start=1):
        chart = f".curves figure:nth-child({number}) .chart"
        page.focus(chart)
        page.press("Home")
        for _ in range(kept - 1):
            page.press("ArrowRight")
        assert f"epoch {kept}\n" in page.text(f"{chart} .readout")
        assert f"test\t{'50.0%' if quantity == 'accuracy' else '2.5'}" in page.text(
            f"{chart} .readout"
        )
        (across,) = page.each(f"{chart} .cross line", "+e.getAttribute('x1')")
        dots = page.each(f"{chart} circle.mark", "+e.getAttribute('cx')")
        assert dots == [across] * ("val/accuracy" in course[0])


@pytest.mark.chromium
def test_the_dot_says_what_decided(opened):
    runs = [{"name": name, "lines": lines(3), "marks": {}} for name in "ab"]
    for line in runs[1]["lines"]:
        del line["val/accuracy"]
    page = opened(section("curves", {"runs": runs}))
    assert "best validation accuracy or loss" in page.text(".curves .legend")
    assert "test" not in page.text(".curves .legend")


@pytest.mark.chromium
def test_a_run_can_be_hidden_and_gaps_stay_open(opened):
    runs = [{"name": "same", "lines": lines(6), "marks": {}}, {"name": "same", "lines": lines(6)}]
    runs[0]["lines"][2]["val/loss"] = math.nan
    del runs[0]["lines"][5]["val/loss"]
    page = opened(section("curves", {"runs": runs}))
    drawn = ".curves figure:nth-child(2) .validation"
    assert page.count(drawn) == 3, "two pieces of one line, and the whole other"
    page.click(".curves button.key")
    assert page.count(drawn) == 1 and page.text(".curves button.key + button.key") == "same (2)"
    page.click(".curves button.key + button.key")
    assert page.count(drawn) == 0
    page.hover(".curves .chart")
    page.click(".curves button.key")
    assert page.count(drawn) == 2


@pytest.mark.chromium
def test_confusion_says_who_was_called_what(opened):
    page = opened(report())
    assert page.each(".confusion .count")[:3] == ["75", "18", "8"]
    page.click(".confusion .choice button + button")
    assert page.each(".confusion .count")[:3] == ["30", "7", "3"]
    page.focus(".confusion .matrix")
    page.press("ArrowDown")
    assert page.text(".hint") == "30 of 40 ‘cat 0’ were recognised (75.0%)"
    page.press("ArrowRight")
    assert page.text(".hint") == "7 of 40 ‘cat 0’ were called ‘cat 1’ (17.5%)"
    page.press("ArrowRight")
    assert page.text(".hint") == "none of 40 ‘cat 0’ were called ‘cat 2’"
    page.press("ArrowUp")
    assert page.text(".hint") == "none of 40 ‘cat 0’ were called ‘cat 2’", "the edge"
    page.press("ArrowDown")
    assert page.text(".hint") == "7 of 37 ‘cat 1’ were called ‘cat 2’ (18.9%)"
    assert page.text(".pairs li").startswith("7 of 37 ‘cat 1’ were called")


@pytest.mark.chromium
@pytest.mark.parametrize("width", [360, 1000])
def test_a_hundred_classes_fit(opened, width):
    classes = [f"class {i}" for i in range(100)]
    matrix = {"classes": classes, "counts": counts_of(100)}
    page = opened(section("confusion", matrix), width=width, height=1200)
    assert page.count(".matrix svg *") < 100, "shades, not ten thousand cells"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    left, top, side, _ = page.box(".ground")
    for truth, answer, words in (
        (40, 41, "7 of 37 ‘class 40’ were called ‘class 41’"),
        (99, 99, "30 of 37 ‘class 99’ were recognised"),
    ):
        x, y = left + (answer + 0.5) * side / 100, top + (truth + 0.5) * side / 100
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        assert page.text(".hint").startswith(words)


@pytest.mark.chromium
def test_classes_are_sorted_as_asked_and_long_lists_unfold(opened):
    rows = [
        {"name": f"class {i}", "count": i, "accuracy": (i * 7 % 60) / 60, "low": 0, "high": 1}
        for i in range(60)
    ]
    rows[5] |= {"accuracy": None, "low": None, "high": None, "count": 0}
    page = opened(section("classes", {"rows": rows}))
    by_accuracy = sorted(rows, key=lambda row: 2 if row["accuracy"] is None else row["accuracy"])
    assert page.each(".classes tbody th") == [row["name"] for row in by_accuracy][:40]
    page.click(".more")
    assert page.each(".classes tbody th")[-1] == "class 5" and page.count(".classes tbody tr") == 60
    page.click(".choice button:last-child")
    page.click(".more")
    assert page.each(".classes tbody th") == [f"class {i}" for i in range(60)]
    assert page.text(".classes tbody tr:nth-child(6)").split()[2:] == ["0", "–"]


@pytest.mark.chromium
def test_tables_sort_numbers_as_numbers_and_put_the_missing_last(opened):
    page = opened(report())
    for column, order, way in (
        (1, ["run 1", "run 2", "run 10"], "ascending"),
        (1, ["run 10", "run 2", "run 1"], "descending"),
        (2, ["run 1", "run 2", "run 10"], "descending"),
        (3, ["run 2", "run 10", "run 1"], "descending"),
        (3, ["run 10", "run 2", "run 1"], "ascending"),
    ):
        page.click(f".table th:nth-child({column}) button")
        assert page.each(".table tbody td:first-child") == order
        assert page.each("[aria-sort$=scending]", "e.ariaSort") == [way]
    assert "0.900" in page.text(".table tbody"), "as many decimals as the others of its column"


@pytest.mark.chromium
def test_figures_and_calibration_say_their_intervals(opened):
    page = opened(report())
    words = page.text(".figures")
    assert "83.1%" in words.replace("\n", "") and "82.0 to 84.0" in words
    assert "0.520" in words and "0.501 to 0.540" in words
    assert page.count(".figures .track") == 1, "only a share lies between 0 and 100%"
    assert "7.0% apart on average (5.0 to 10.0)" in page.text(".calibration")
    assert page.count(".bin") == 4, "an empty bin has no accuracy"
    page.focus(".bin")
    assert page.text(".hint") == "10 answers with 20% to 40% confidence: 30.0% sure, 23.0% right"


@pytest.mark.chromium
@pytest.mark.parametrize(
    ("view", "data", "words"),
    [
        ("facts", {"rows": []}, "Nothing was noted."),
        ("figures", {"items": []}, "There are no figures yet."),
        ("curves", {"runs": []}, "No epoch has been recorded yet."),
        ("curves", {"runs": [{"name": "a", "lines": [], "marks": {}}]}, "No epoch has been"),
        ("confusion", {"classes": [], "counts": []}, "There are no answers to count."),
        ("confusion", {"classes": ["a"], "counts": [[0]]}, "There are no answers to count."),
        ("classes", {"rows": []}, "There are no classes to compare."),
        ("calibration", {"bins": [], "error": None}, "There are no answers to compare."),
        ("attention", {"items": []}, "There is no image to show."),
        ("lines", {"x": {"name": "x", "values": []}, "y": {}, "series": []}, "no points to draw"),
        ("table", {"columns": ["a"], "rows": []}, "The table has no rows."),
        ("captions", {"items": []}, "There is no caption to show."),
        *((view, {}, " ") for view in VIEWS),
    ],
)
def test_a_view_of_nothing_says_so(opened, view, data, words):
    page = opened(section(view, data))
    assert words in page.text(".empty") and "could not" not in page.text()


@pytest.mark.chromium
def test_a_page_without_sections_is_a_heading(opened):
    page = opened({"title": "Alone", "sections": []})
    assert page.text().split() == ["Alone", "Dark"]


@pytest.mark.chromium
def test_one_section_needs_no_navigation(opened):
    page = opened(section("facts", {"rows": [["seed", 0]]}))
    assert page.text().split() == ["Page", "Dark", "Part", "seed", "0", "Save", "CSV"]


@pytest.mark.chromium
@pytest.mark.parametrize("width", [360, 1600])
def test_the_least_there_can_be_is_drawn(opened, width):
    document = report(epochs=1, classes=1, items=1, runs=1)
    document["sections"].append(
        {
            "view": "attention",
            "title": "Attention",
            "data": {
                "items": [item(0, heads=None, rollout=None, answers=[], truth=None, title=None)]
            },
        }
    )
    document["sections"].append(
        {"view": "attention", "title": "Rollout", "data": {"items": [item(0, heads=None)]}}
    )
    page = opened(document, width=width)
    assert page.count(".empty") == 0 and page.count(".curves .lone") == 4
    assert page.count("#attention .thumbs") == 0
    assert "No map was kept" in page.text("#attention-2") and page.count("#attention-2 .cell") == 0
    assert page.count("#rollout .cell") == 1 and page.count("#rollout .map rect") == 16
    assert words_that_collide(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.chromium
def test_a_view_that_fails_says_so_and_the_others_are_drawn(browser, tmp_path):
    document = report()
    document["sections"][6]["data"]["items"][0]["heads"]["base64"] = "?"
    path = tmp_path / "page.html"
    write_document(path, document)
    page = browser.open(path.as_uri())
    assert page.text(".empty").startswith("This part could not be drawn: ")
    assert page.count(".table tbody tr") == 3 and len(page.errors) == 1
    page.close()


@pytest.mark.chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_theme_follows_the_system_until_someone_chooses(opened, dark):
    page = opened(report(), dark=dark)
    ground = "getComputedStyle(document.body).backgroundColor"
    light, night = "rgb(255, 255, 255)", "rgb(20, 24, 29)"
    assert page.evaluate(ground) == (night if dark else light)
    page.click(".theme")
    assert page.evaluate(ground) == (light if dark else night)
    assert page.text(".theme") == ("Dark" if dark else "Light")


@pytest.mark.chromium
def test_print_is_light_and_without_controls(opened):
    page = opened(report(), dark=True)
    page.click(".theme")
    page.click(".theme")
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for gone in ("nav", ".theme", ".download", ".choice"):
        assert set(page.each(gone, "getComputedStyle(e).display")) == {"none"}


@pytest.mark.chromium
def test_navigation_follows_the_reader(opened):
    page = opened(report(), height=700)
    names = page.each("nav a", "e.getAttribute('href')")
    assert names == [f"#{view}" for view in VIEWS]
    page.click("nav a[href='#calibration']")
    page.until("document.querySelector('nav [aria-current]')?.textContent === 'Calibration'")
    assert 0 <= page.box("#calibration")[1] < 100


@pytest.mark.chromium
def test_everything_that_acts_can_be_reached_and_has_a_name(opened):
    page = opened(report())
    acting = "button, a, input, select"
    name = "e.ariaLabel || e.textContent.trim() || e.labels?.length"
    assert all(page.each(f"{acting}, [tabindex]", f"Boolean({name})"))
    assert set(page.each(f":is({acting}):not([role=radio])", "e.tabIndex")) == {0}
    stops = page.each("[role=radiogroup]", "e.querySelectorAll('[tabindex=\"0\"]').length")
    assert len(stops) >= 6 and set(stops) == {1}, (
        "one stop for each group; the arrow keys go on from there"
    )
