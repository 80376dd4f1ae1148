"""One's own pictures and texts in the studio: drawn, dropped, typed, gone on with, in Chromium."""

import asyncio
import base64
import json
import math
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
import uvicorn
from PIL import Image
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import regard as rg
from regard.data.synthetic.digits import load_digits
from regard.inspection.text_maps import reading_item, text_maps
from regard.studio import answers
from regard.studio.app import make_app, page_shell, page_table
from regard.studio.kept import Kept
from regard.visualization.document import packed, plain, png_uri
from studio_clients import visit

pytestmark = pytest.mark.chromium

HOSTILE = "</script><img src=x onerror='window.harmed=1'>"


def arc(x, y, wide, high, start, end):
    """Points along an ellipse, from one angle to another."""
    angles = np.radians(np.linspace(start, end, 25))
    return np.stack([x + wide * np.cos(angles), y + high * np.sin(angles)], 1).tolist()


# Digits as somebody may draw them, on a sheet of 100 × 100.
DIGITS = {
    0: [arc(50, 50, 25, 38, -90, 270)],
    1: [[[50, 12], [50, 88]]],
    2: [[*arc(50, 32, 22, 20, -180, 40), [28, 88], [74, 88]]],
    3: [arc(48, 31, 20, 19, -160, 90) + arc(48, 69, 23, 19, -90, 160)],
    4: [[[30, 12], [26, 55], [76, 55]], [[66, 14], [64, 90]]],
    5: [[[70, 12], [36, 12], [32, 45], *arc(48, 65, 22, 22, -120, 140)]],
    6: [[[62, 12], *arc(50, 66, 22, 22, -150, -510)]],
    7: [[[28, 14], [72, 14], [44, 88]]],
    8: [arc(50, 30, 18, 18, 90, -270) + arc(50, 69, 22, 21, -90, 270)],
    9: [[*arc(48, 34, 20, 20, 0, -360), [68, 34], [64, 88]]],
}


def moved(lines, scale, right=0.0, down=0.0):
    return [
        [[50 + scale * (x - 50) + right, 50 + scale * (y - 50) + down] for x, y in line]
        for line in lines
    ]


@contextmanager
def served(make) -> Iterator[str]:
    """The address of an application, made for a free port, for as long as it is needed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(
        uvicorn.Config(make(port), port=port, log_level="error", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join(20)


def until(holds, patience=30.0):
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


# The real server, on small runs


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("views")
    options = {"quiet": True, "report": False, "device": "cpu"}
    model = {"width": 32, "layers": 2, "heads": 2, "mlp_width": 64}
    small = {"model": model, "train.optimizer.lr": 4e-3}
    rg.train("classify", data="digits", epochs=12, out=folder / "digits", **small, **options)
    text = folder / "lines.txt"
    text.write_text("the cat sat on the mat.\na dog ran in the park!\n" * 300)
    letters = {"name": "char", "min_frequency": 1}
    model = {"width": 32, "layers": 2, "heads": 2, "context_length": 64}
    small = {"batch_size": 8, "tokenizer": letters, "model": model}
    rg.train("language", data=text, epochs=2, out=folder / "lines", **small, **options)
    return folder


@pytest.fixture(scope="module")
def studio(root) -> Iterator[str]:
    with served(lambda port: make_app(root, port=port)) as address:
        yield address


@pytest.fixture
def show(browser):
    """Opens a view; in the end nothing has gone wrong in it, and nothing was asked elsewhere."""
    pages = []

    def open_view(address, expected=(), **options):
        page = browser.open(address, **options)
        pages.append((page, address.partition("#")[0], expected))
        assert page.count("link[href*='/views.css']") == 1
        return page

    yield open_view
    for page, home, expected in pages:
        page.evaluate("1")  # lets events arrive
        page.close()
        assert [words for words in page.errors if not any(part in words for part in expected)] == []
        assert all(url.startswith((home, "data:", f"blob:{home}")) for url in page.requests)


def draw(page, lines):
    """The lines, by mouse."""
    page.place(".sheet")
    left, top, width, height = page.box(".sheet")
    for line in lines:
        for i, (x, y) in enumerate(line):
            kind = "mouseMoved" if i else "mousePressed"
            mouse(page, kind, left + x * width / 100, top + y * height / 100)
        mouse(page, "mouseReleased", left + x * width / 100, top + y * height / 100)


def mouse(page, kind, x, y):
    more = {"button": "left", "buttons": 1, "clickCount": 1}
    page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)


def pixels_of(page, selector):
    """The grey values of a canvas or of an image in a drawing."""
    found = page.evaluate(f"""(async () => {{
      const element = document.querySelector({json.dumps(selector)});
      const image = new Image();
      image.src = element.toDataURL?.() ?? element.getAttribute("href");
      await image.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
      canvas.getContext("2d").drawImage(image, 0, 0);
      return canvas.toDataURL();
    }})()""")
    return np.asarray(Image.open(BytesIO(base64.b64decode(found.partition(",")[2]))).convert("L"))


def seen(page, drawings, size=8):
    """What a model sees of drawings."""
    asked = f"{json.dumps(drawings)}.map((lines) => [...seen(lines, {size})])"
    found = page.evaluate(f'import("studio/draw").then(({{ seen }}) => {asked})')
    return np.array(found, np.uint8).reshape(-1, size, size)


def test_a_drawing_becomes_a_digit_like_those_that_were_learned(show, studio):
    page = show(f"{studio}#image/digits")
    found = seen(page, list(DIGITS.values()))
    real = load_digits().images[:, 0]
    # Pixels count dots, so they are sixteenths, rounded as the data are.
    assert set(np.unique(found)) <= {int(count / 16 * 255 + 0.5) for count in range(17)}
    # The same height, width and amount of ink as the digits of scikit-learn have.
    assert (real > 0.1).any(2)[:, [0, -1]].all() and (found > 25).any(2)[:, [0, -1]].all()
    low, high = np.percentile(real.mean((1, 2)), [1, 99])
    assert ((low < found.mean((1, 2)) / 255) & (found.mean((1, 2)) / 255 < high)).all()
    widths = (found > 25).any(1).sum(1)
    assert widths[1] <= 4 and (np.delete(widths, 1) >= 5).all() and (widths <= 6).all()
    # One drawn small in a corner is the same digit.
    small = seen(page, [moved(lines, 0.3, -30, 25) for lines in DIGITS.values()])
    assert np.abs(small.astype(int) - found).mean() < 4


def test_drawings_of_no_extent_are_drawn_too(show, studio):
    page = show(f"{studio}#image/digits")
    dot, dash, nothing = seen(page, [[[[50, 50]]], [[[10, 50], [90, 50]]], []])
    assert dot[3:5, 3:5].min() == 255 and dot[0].max() == 0
    assert dash[0].max() == 0 and dash[3:5].max() == 255
    assert nothing.max() == 0


def test_a_fine_drawing_has_its_mass_in_the_middle_and_a_margin(show, studio):
    page = show(f"{studio}#image/digits")
    for one in seen(page, list(DIGITS.values()), 28).astype(float):
        rows, columns = np.nonzero(one.sum(1))[0], np.nonzero(one.sum(0))[0]
        assert 19 <= max(np.ptp(rows), np.ptp(columns)) + 1 <= 22
        weights = one / one.sum()
        for axis in (0, 1):
            assert abs((weights.sum(axis) * np.arange(28)).sum() - 13.5) < 0.3


def test_a_drawn_digit_is_recognised(show, studio, root):
    page = show(f"{studio}#image/digits")
    run = rg.load(root / "digits")
    drawings = [moved(lines, s, r) for lines in DIGITS.values() for s, r in ((1, 0), (0.4, 25))]
    said = [answer.to_values()["answer"] for answer in run.predict(*seen(page, drawings))]
    right = np.mean([word == str(i // 2) for i, word in enumerate(said)])
    assert right >= 0.8, said


def test_a_digit_that_is_drawn_is_answered_and_looked_at(show, studio, root, tmp_path):
    page = show(f"{studio}#image/digits")
    assert page.text(".outcome .note").startswith("Draw something")
    draw(page, DIGITS[3])
    page.until("document.querySelectorAll('.looked .attention .cell').length > 0")
    sent = pixels_of(page, ".seen canvas")
    # What is shown beside the sheet is what the model was given, to the pixel.
    assert (pixels_of(page, ".looked .picture image") == sent).all() and sent.shape == (8, 8)
    answer = rg.load(root / "digits").predict(sent)[0].to_values()
    share = f"{answer['probabilities'][answer['answer']]:.1%}"
    assert page.text(".says").split() == [answer["answer"], share]
    assert page.count(".outcome .answers li") == 5
    # The map that was chosen stays chosen for the next drawing, and is in the address.
    page.click("[aria-label='layer 1, head 2']")
    assert "where-it-looked.head=2" in page.evaluate("location.hash")
    page.click(".drawing button:last-child")
    assert page.count(".looked section") == 0 and page.text(".outcome .note").startswith("Draw")
    draw(page, DIGITS[1])
    page.until("document.querySelectorAll('.looked .attention .cell').length > 0")
    assert page.text(".looked figcaption span") == "layer 1, head 2"
    # The address has the drawing too: from it another page asks the same.
    again = show(f"{studio}{page.evaluate('location.hash')}")
    again.until("document.querySelectorAll('.looked .attention .cell').length > 0")
    assert (pixels_of(again, ".seen canvas") == pixels_of(page, ".seen canvas")).all()
    assert again.text(".says") == page.text(".says")
    assert again.text(".looked figcaption span") == "layer 1, head 2"


def test_a_picture_of_the_data_is_looked_at_by_its_number(show, studio, root):
    page = show(f"{studio}#image/digits?by=row&row=test%3A7", expected=["422"])
    page.until("document.querySelectorAll('.looked .attention .cell').length > 0")
    answer = rg.load(root / "digits").predict(split="test", indices=7)[0].to_values()
    assert page.text(".says").split()[0] == answer["answer"]
    assert page.text(".answer .given") == f"The data say ‘{answer['truth']}’."
    assert "test:7" in page.each(".looked .picture svg", "e.getAttribute('aria-label')")[0]
    page.click(".deleting button")
    page.until("document.querySelector('.looked figcaption span').textContent === 'deletion'")
    # A link to what was found finds it again, and so does one to a patch.
    again = show(f"{studio}{page.evaluate('location.hash')}")
    again.until("document.querySelector('.looked figcaption span')?.textContent === 'deletion'")
    assert again.text(".looked .scale") == page.text(".looked .scale")
    again.click("[aria-label='layer 1, head 2']")
    again.click(".looked .picture svg")
    again.until("document.querySelector('.looked figcaption span').textContent.includes('read by')")
    third = show(f"{studio}{again.evaluate('location.hash')}")
    third.until(
        "document.querySelector('.looked figcaption span')?.textContent.includes('read by')"
    )
    assert third.text(".looked figcaption span") == again.text(".looked figcaption span")
    page.evaluate(
        "((e) => (e.value = 99999, e.dispatchEvent(new Event('input'))))"
        "(document.querySelector('.own-data input'))"
    )
    page.until("!!document.querySelector('.outcome .trouble')")
    assert "99999" in page.text(".outcome .trouble") and "99999" in page.evaluate("location.hash")


def test_patches_are_deleted_and_clicked(show, studio, root, browser):
    page = show(f"{studio}#image/digits")
    draw(page, DIGITS[3])
    page.until("!!document.querySelector('.deleting button')")
    before = page.each(".looked .map rect", "e.getAttribute('fill')")
    page.click(".deleting button")
    page.until("document.querySelector('.looked figcaption span').textContent === 'deletion'")
    run = rg.load(root / "digits")
    (opened,) = run.items(pixels_of(page, ".seen canvas"))
    found = run.task.occlusion(run.trained, opened, lambda done, of: None)
    falls = found.falls[0].ravel()
    top = np.abs(falls).max()
    # The scale goes as far down as up, in points of probability.
    ends = [f"−{100 * top:.1f}", f"{100 * top:.1f} points"]
    assert page.evaluate("document.querySelector('.looked .scale').textContent") == "".join(ends)
    fills = page.each(".looked .map rect", "e.getAttribute('fill')")
    assert len(fills) == len(falls) and fills != before
    red = [int(fill[1:3], 16) > int(fill[5:7], 16) for fill in fills]
    assert red == [bool(fall < 0) for fall in falls]  # what rose is orange, what fell is blue
    assert page.count(".looked .against line") == 2 * (falls < -0.02 * top).sum()
    worst = int(falls.argmax())
    rows, columns = found.falls.shape[1:]
    place = (worst % columns + 0.5) / columns, (worst // columns + 0.5) / rows
    page.hover(".looked .picture svg", *place)
    left = 100 * (found.whole[0] - falls[worst])
    words = f"‘{found.names[0]}’ falls by {100 * falls[worst]:.1f} points, to {left:.1f}%"
    assert words in page.text(".hint") and page.count(".deleting") == 0
    assert "where-it-looked.layer=deletion" in page.evaluate("location.hash")

    # A patch that is clicked shows its own row; Escape goes back to the answer's.
    page.click("[aria-label='rollout']")
    answered = page.each(".looked .map rect", "e.getAttribute('fill')")
    page.hover(".looked .picture svg", *place)
    page.browser.do(page.tab.mouse.click, *page.place(".looked .picture svg", *place))
    name = f"read by row {worst // columns + 1}, column {worst % columns + 1}"
    page.until(f"document.querySelector('.looked figcaption span').textContent.includes('{name}')")
    own = unpacked(run.task.reads(run.trained, opened, worst)["rollout"])
    shades = page.each(".looked .map rect", "e.getAttribute('fill')")
    assert shades != answered and luminance(shades[int(own.argmax())]) == min(
        map(luminance, shades)
    )
    page.focus(".looked .picture svg")
    page.press("Escape")
    page.until("document.querySelector('.looked figcaption span').textContent === 'rollout'")
    assert page.each(".looked .map rect", "e.getAttribute('fill')") == answered
    # The same by keyboard.
    page.press("ArrowUp")
    page.press("Enter")
    page.until("document.querySelector('.looked figcaption span').textContent.includes('read by')")
    assert page.evaluate("document.activeElement.closest('.picture') !== null")


def unpacked(maps):
    data = np.frombuffer(base64.b64decode(maps["base64"]), np.uint8)
    return data * np.float64(maps["scale"])


def luminance(colour):
    return sum(int(colour[at : at + 2], 16) * part for at, part in ((1, 0.3), (3, 0.6), (5, 0.1)))


def test_one_can_draw_by_keyboard(show, studio):
    page = show(f"{studio}#image/digits")
    page.focus(".sheet")
    for key in ["ArrowUp"] * 8:
        page.press(key)
    space(page)
    for key in ["ArrowDown"] * 16:
        page.press(key)
    assert page.each(".sheet path", "e.getAttribute('d').split('L').length") == [18]
    assert page.count(".says") == 0
    space(page)
    page.until("!!document.querySelector('.says')")
    one = seen(page, [[[[50, 18], [50, 82]]]])[0]
    assert (pixels_of(page, ".seen canvas") == one).all()
    page.click(".drawing button:first-child")
    assert page.count(".sheet path") == 0 and page.count(".says") == 0


def space(page):
    for kind in ("keyDown", "keyUp"):
        page.call(
            "Input.dispatchKeyEvent",
            type=kind,
            key=" ",
            code="Space",
            text=" " if kind == "keyDown" else "",
        )


def png(size=(40, 30), colour=128):
    memory = BytesIO()
    Image.new("L", size, colour).save(memory, format="PNG")
    return memory.getvalue()


def give(page, event, name, content, kind, zeros=0):
    """Drop or paste a file; so many zeros, which take long to send, are added in the page."""
    data = base64.b64encode(content).decode()
    field = "dataTransfer" if event == "drop" else "clipboardData"
    maker = "DragEvent" if event == "drop" else "ClipboardEvent"
    page.evaluate(f"""(() => {{
      const bytes = Uint8Array.from(atob("{data}"), (letter) => letter.charCodeAt(0));
      const things = new DataTransfer();
      const parts = [bytes, new Uint8Array({zeros})];
      things.items.add(new File(parts, {json.dumps(name)}, {{ type: "{kind}" }}));
      const init = {{ {field}: things, bubbles: true, cancelable: true }};
      document.querySelector(".asking").dispatchEvent(new {maker}("{event}", init));
    }})()""")


def test_photos_are_chosen_dropped_and_pasted(show, studio, tmp_path):
    page = show(f"{studio}#image/digits?by=photo", expected=["ERR_FILE_NOT_FOUND"])
    assert page.count(".sheet") == 0
    path = tmp_path / "grey.png"
    path.write_bytes(png())
    field = page.call("DOM.querySelector", nodeId=document(page), selector=".drop input")["nodeId"]
    page.call("DOM.setFileInputFiles", nodeId=field, files=[str(path)])
    page.until("!!document.querySelector('.looked section')")
    assert page.text(".seen figcaption") == "grey.png"
    assert (pixels_of(page, ".looked .picture image") == 128).all()
    for event, colour in (("drop", 10), ("paste", 250)):
        give(page, event, f"{event}.png", png(colour=colour), "image/png")
        page.until(f"document.querySelector('.seen figcaption').textContent === '{event}.png'")
        page.until("document.querySelector('.looked').getAttribute('aria-busy') === 'false'")
        page.until("!!document.querySelector('.looked section')")
        assert (pixels_of(page, ".looked .picture image") == colour).all()


def document(page):
    return page.call("DOM.getDocument")["root"]["nodeId"]


def test_what_is_no_picture_is_refused_in_words(show, studio):
    page = show(f"{studio}#image/digits?by=photo", expected=["422"])
    give(page, "drop", "notes.txt", b"hello", "text/plain")
    page.until("document.querySelector('.outcome .note').textContent.includes('notes.txt')")
    assert "no picture that this browser can read" in page.text(".outcome .note")
    give(page, "drop", "false.png", b"hello", "image/png")
    page.until("document.querySelector('.outcome .note').textContent.includes('damaged')")
    assert page.count(".looked section") == 0


def test_a_run_that_reads_texts_is_shown_as_such(show, studio):
    page = show(f"{studio}#image/lines")
    page.until("location.hash.startsWith('#text/lines')")
    page.until("!!document.querySelector('textarea')")
    page = show(f"{studio}#text/digits")
    page.until("!!document.querySelector('.sheet')")


def test_a_text_is_looked_at_and_gone_on_with(show, studio):
    page = show(f"{studio}#text/lines?text=the%20cat&length=20")
    page.until("document.querySelectorAll('.looked .reading .token').length >= 7")
    page.click(".writing .primary")
    page.until("document.querySelectorAll('.after .token').length === 20")
    page.until("!document.querySelector('.writing .primary').disabled")
    assert page.text(".writing [role=status]") == "20 tokens" and page.text(".before") == "the cat"
    # The ten likeliest, and what was drawn if it was none of them.
    assert page.count(".likely li") in (10, 11) and page.count(".likely .truth") == 1
    # A letter is pointed at, not a space or the end of a line, which may have no width.
    words = page.each(".after .token")
    first, second = [i + 1 for i, word in enumerate(words[:-1]) if word.strip()][:2]
    page.hover(f".after .token:nth-child({first})")
    page.until(f"document.querySelector('.likely h4').textContent.startsWith('Token {first}:')")
    page.click(f".after .token:nth-child({second})")
    page.press("ArrowRight")
    assert page.text(".likely h4") == f"Token {second + 1}: what was likely"
    chosen = words[second].replace(" ", "␣").replace("\n", "↵")
    assert page.text(".likely .truth .name") == chosen
    # The address holds all that decides the text: another page from it writes the same.
    written = "".join(page.each(".after .token"))
    again = show(f"{studio}{page.evaluate('location.hash')}")
    again.click(".writing .primary")
    again.until("document.querySelectorAll('.after .token').length === 20")
    assert "".join(again.each(".after .token")) == written
    # What was written can be looked at in turn.
    again.until("!document.querySelector('.writing .primary').disabled")
    again.click(".writing .controls button:nth-child(3)")
    assert again.evaluate("document.querySelector('textarea').value") == f"the cat{written}"
    again.until("document.querySelectorAll('.looked .reading .asked .token').length >= 27")


@pytest.fixture
def kept(monkeypatch) -> Kept:
    """What a studio keeps whose answers carry no map."""
    kept = Kept(inline=0)
    monkeypatch.setattr(answers, "Kept", lambda: kept)
    return kept


@pytest.fixture
def sparing(root, kept) -> Iterator[str]:
    with served(lambda port: make_app(root, port=port)) as address:
        yield address


def test_maps_of_heads_are_fetched_when_they_are_chosen(sparing, show, root, kept):
    address = f"{sparing}#text/lines?text=the%20cat%20sat&reading.head=3&reading.form=matrix"
    page = show(address, expected=["404"])
    page.until("document.querySelector('.whole canvas')?.ariaLabel?.includes('head 2')")
    asked = [url.rpartition("/")[2] for url in page.requests if "/api/maps/" in url]
    assert asked == ["2"] and page.count(".cell") == 5
    page.click(".cell[aria-label^='layer 2, head 2']")
    page.until("document.querySelector('.whole canvas').ariaLabel.includes('layer 2, head 2')")
    page.focus(".asked .token")
    page.press("End")
    tints = page.each(".asked .token", "Number(e.style.getPropertyValue('--tint'))")
    run = rg.load(root / "lines")
    words = torch.tensor([run.metadata.words.encode("the cat sat")])
    row = text_maps(run.model, words)[0, 1, 1, -1].numpy()
    np.testing.assert_allclose(tints, row / row.max(), atol=0.003)
    for choice in ("word=11", "head=5", "form=matrix"):
        page.until(f"location.hash.includes('reading.{choice}')")
    kept.held.clear()
    page.click(".cell[aria-label^='layer 2, head 1']")
    page.until("document.querySelector('.looks').textContent.includes('no longer kept')")


def test_what_heads_do_is_said_when_it_has_come(sparing, show, root, kept, monkeypatch):
    go_on = threading.Event()
    known = kept.summaries
    monkeypatch.setattr(kept, "summaries", lambda key: go_on.wait(30) and known(key))
    page = show(f"{sparing}#text/lines?text=the%20cat%20sat&reading.head=3")
    page.until("document.querySelector('.does')?.textContent.includes('being measured')")
    page.click(".all-heads summary")
    page.until("document.querySelector('.all-heads .table').textContent.includes('measured')")
    labels, place = page.each(".cell", "e.ariaLabel"), page.each(".all-heads", "e.offsetTop")
    go_on.set()
    page.until("document.querySelectorAll('.all-heads tbody tr').length === 5")
    run, text = rg.load(root / "lines"), "the cat sat"
    maps = text_maps(run.model, torch.tensor([run.metadata.words.encode(text)]))[0].numpy()
    told = reading_item("", list(text), None, maps)["summaries"]
    assert f"{told[2]['entropy']:.1f} bits" in page.text(".does"), "of the head in the address"
    found = page.each(".all-heads td:nth-child(2)", "Number(e.textContent)")
    np.testing.assert_allclose(found, [each["entropy"] for each in told], atol=0.006)
    said = page.each(".cell", "e.ariaLabel.split(':')[0]")
    assert labels == said != page.each(".cell", "e.ariaLabel")
    assert page.each(".all-heads", "e.offsetTop") == place, "nothing has moved"


def test_what_heads_do_can_be_asked_for_again_if_it_did_not_come(sparing, show, kept, monkeypatch):
    known, troubles = kept.summaries, ["these numbers are no longer kept"] * 2

    def summaries(key):
        if troubles:
            raise HTTPException(404, troubles.pop())
        return known(key)

    monkeypatch.setattr(kept, "summaries", summaries)
    page = show(f"{sparing}#text/lines?text=the%20cat%20sat", expected=["404"])
    page.until("document.querySelector('.does .trouble')?.textContent.includes('no longer kept')")
    assert page.count(".arcs path") > 0 and page.each(".cell", "e.ariaLabel")[-1] == "mean of all"
    page.click(".all-heads summary")
    page.until("document.querySelector('.table .trouble')?.textContent.includes('no longer kept')")
    until(lambda: not troubles)
    for _ in range(2):
        page.click(".all-heads summary")
    page.until("document.querySelectorAll('.all-heads tbody tr').length === 5")
    page.until("document.querySelector('.does').textContent.includes('bits')")


def test_ten_clients_at_once_are_all_answered(studio):
    visits = visit(studio, image="digits", text="lines", clients=10, seconds=1.5)
    assert visits.troubles == []
    assert sum(map(len, visits.seconds.values())) >= 10


# A fake of the contract, which answers as slowly as a test wants


class Fake:
    """Notes what it was asked; `look` answers when `ready` is set, `write` without an end."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.gone: list[object] = []
        self.wishes: list[dict] = []
        self.written, self.closed = 0, False
        self.pieces: list[str] = []  # of an answer; the last waits for `ready`
        self.ready = threading.Event()
        self.words: list[str] = []  # of a caption, where one is answered with
        self.deleting, self.ended = 0, 0  # questions for falls, and those that were ended
        self.delay, self.input, self.name = 0.0, "text", "good"

    def make(self, port: int) -> Starlette:
        static = page_table()
        shell, _ = page_shell(static)

        async def show(request: Request) -> Response:
            return Response(shell, media_type="text/html")

        async def part(request: Request) -> Response:
            content, kind = static[request.path_params["name"]]
            return Response(content, headers={"Content-Type": kind})

        async def run(request: Request) -> Response:
            row = {"id": "x", "data": self.name, "input": self.input, "writes": True, "config": {}}
            return JSONResponse({**row, "figure": {"name": "accuracy", "value": 0.5}})

        async def look(request: Request) -> Response:
            body = await request.body()
            asked = json.loads(body) if body[:1] == b"{" else body
            self.asked.append(asked)
            end = time.monotonic() + self.delay
            while time.monotonic() < end:
                if await request.is_disconnected():
                    self.gone.append(asked)
                    return Response(status_code=204)
                await asyncio.sleep(0.02)
            found = plain(self.answer(asked))
            if not self.pieces:
                return JSONResponse(found)

            async def told() -> AsyncIterator[str]:
                for piece in self.pieces:
                    yield f"event: piece\ndata: {json.dumps({'text': piece})}\n\n"
                while not self.ready.is_set():
                    await asyncio.sleep(0.01)
                yield f"event: result\ndata: {json.dumps(found)}\n\n"

            return StreamingResponse(told(), media_type="text/event-stream")

        async def falls(request: Request) -> Response:
            await request.body()
            self.deleting += 1

            async def told() -> AsyncIterator[str]:
                try:
                    values = {"done": 1, "of": 4, "words": "deleting"}
                    yield f"event: progress\ndata: {json.dumps(values)}\n\n"
                    while not self.ready.is_set():
                        await asyncio.sleep(0.01)
                    values = {"names": self.words or ["good"], "grid": [2, 2]}
                    values["whole"] = [0.75] * len(values["names"])
                    values["falls"] = [[0.5, -0.25, 0, 0.125], [-0.1, 0, 0, 0]]
                    del values["falls"][len(values["names"]) :]
                    yield f"event: result\ndata: {json.dumps(values)}\n\n"
                finally:
                    self.ended += not self.ready.is_set()

            return StreamingResponse(told(), media_type="text/event-stream")

        async def write(request: Request) -> Response:
            self.wishes.append(await request.json())

            async def events() -> AsyncIterator[str]:
                try:
                    while True:
                        token = {"text": f"{self.written} ", "probability": 0.5}
                        token["top"] = [[f"{self.written}", 0.5], ["other", 0.25]]
                        self.written += 1
                        yield f"event: token\ndata: {json.dumps(token)}\n\n"
                        await asyncio.sleep(0.02)
                finally:
                    self.closed = True

            return StreamingResponse(events(), media_type="text/event-stream")

        return Starlette(
            routes=[
                Route("/", show),
                Route("/page/{name:path}", part),
                Route("/api/runs/x", run),
                Route("/api/runs/x/look", look, methods=["POST"]),
                Route("/api/runs/x/falls", falls, methods=["POST"]),
                Route("/api/runs/x/write", write, methods=["POST"]),
            ]
        )

    def answer(self, asked):
        if isinstance(asked, bytes):
            side = Image.open(BytesIO(asked)).size
            shares = np.full((1, 1, 2, 2), 0.25)
            item = {"image": png_uri(np.zeros((4, 4), np.uint8)), "width": 4, "height": 4}
            item |= {"title": str(side), "answers": [], "heads": packed(shares)}
            section = {"view": "attention", "title": "Where", "data": {"items": [item]}}
            if self.words:
                shares = np.full((1, len(self.words), 2, 2), 0.25)
                item = {"words": self.words, "image": item["image"], "maps": packed(shares)}
                section = {"view": "captions", "title": "Captions", "data": {"items": [item]}}
        else:
            words = asked["text"].split(" ")
            values = [float(i + 1) for i in range(len(words))]
            method = {"name": self.name, "words": "", "signed": True, "unit": "", "values": values}
            item = {"words": [f" {word}" for word in words], "methods": [method], "answers": []}
            section = {"view": "words", "title": self.name, "data": {"items": [item]}}
        answers = [{"input": "", "answer": self.name, "probabilities": {self.name: 0.75}}]
        document = {"title": "", "sections": [section]}
        return {"document": document, "answers": answers, "more": ["falls"]}


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
def address(fake) -> Iterator[str]:
    with served(fake.make) as address:
        yield address


def type_in(page, text, selector="textarea", pause=0.0):
    page.focus(selector)
    for letter in text:
        time.sleep(pause)
        page.call("Input.dispatchKeyEvent", type="char", text=letter.replace("\n", "\r"))


def test_typing_asks_once_when_it_pauses(address, fake, show):
    page = show(f"{address}#text/x")
    assert page.text(".outcome .note") == "Type a text."
    type_in(page, "so good", pause=0.1)
    page.until("!!document.querySelector('.looked section')")
    assert fake.asked == [{"text": "so good"}]
    assert page.each(".looked .words .token") == ["so", "good"]
    assert page.text(".says").split() == ["good", "75.0%"]
    page.until("location.hash === '#text/x?text=so+good'")
    type_in(page, "!")
    page.until("document.querySelector('.looked').textContent.includes('good!')")
    assert fake.asked[1:] == [{"text": "so good!"}]


def test_a_text_in_the_address_is_asked_about_once_and_drawn(address, fake, show):
    page = show(f"{address}#text/x?text=so+good")
    page.until("!!document.querySelector('.looked section')")
    assert fake.asked == [{"text": "so good"}] and page.count(".stale") == 0
    asked = [url.removeprefix(address) for url in page.requests if "/api/" in url]
    assert asked == ["api/runs/x/look", "api/runs/x"], "before the page knows what the run is like"
    assert page.each("textarea", "e.value") == ["so good"]
    page = show(f"{address}#text/x/stop%2F..#?text=so+good", expected=["404"])
    sent = [url.removeprefix(address) for url in page.requests if "/api/" in url]
    assert sent[0] == "api/runs/x%2Fstop%2F..%23/look", "a link can ask for nothing but a look"
    fake.input = "pair"
    page = show(f"{address}#text/x?text=one&pair=two%0Alines")
    until(lambda: fake.asked[1:] == [{"text": "one", "pair": "two lines"}])


def test_a_new_question_ends_the_one_before(address, fake, show):
    page = show(f"{address}#text/x")
    fake.delay = 20.0
    type_in(page, "slow")
    until(lambda: fake.asked)
    fake.delay = 0.0
    type_in(page, " quick")
    page.until("!!document.querySelector('.looked section')")
    assert fake.asked == [{"text": "slow"}, {"text": "slow quick"}]
    until(lambda: fake.gone == [{"text": "slow"}])
    assert page.each(".looked .words .token") == ["slow", "quick"] and page.count(".stale") == 0


def test_deleting_says_how_far_it_is_and_can_be_cancelled(show, address, fake):
    fake.input = "image"
    page = show(f"{address}#image/x")
    give(page, "drop", "a.png", png(), "image/png")
    page.until("!!document.querySelector('.deleting button')")
    page.click(".deleting button")
    page.until("document.querySelector('.waiting span')?.textContent === 'deleting: 1 of 4'")
    assert page.evaluate("document.querySelector('.waiting progress').position") == 0.25
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    page.press("Enter")
    until(lambda: fake.ended == 1)  # the server's work too
    page.until("document.activeElement.textContent === 'Which patches mattered?'")
    assert page.count(".waiting") == 0 and page.count(".looked .against") == 0
    fake.ready.set()
    page.click(".deleting button")
    page.until("!!document.querySelector('.looked .against')")
    assert fake.deleting == 2 and page.text(".looked figcaption span") == "deletion"
    summary = page.text(".looked figcaption .note")
    assert "‘good’ has 75.0%" in summary and "25.0% without the patch in row 1, column 1" in summary
    assert "1 of the 4 speaks against it" in summary


def test_deleting_gives_each_word_of_a_caption_a_map(show, address, fake):
    fake.input, fake.words = "image", ["red", "star"]
    fake.ready.set()
    page = show(f"{address}#image/x")
    give(page, "drop", "a.png", png(), "image/png")
    page.until("!!document.querySelector('.deleting button')")
    page.click(".deleting button")
    page.until("!!document.querySelector('.looked .against')")
    assert page.text(".looked figcaption span").startswith("‘red’, deletion")
    assert "−50.0" in page.text(".looked .scale") and page.count(".looked .against line") == 2
    assert page.evaluate("document.activeElement.matches('select.head')")
    page.hover(".looked .picture svg", 0.75, 0.25)
    assert "without it ‘red’ rises by 25.0 points, to 100.0%" in page.text(".hint")
    page.click(".word:nth-of-type(2)")
    assert (
        page.evaluate("document.querySelector('.looked .scale').textContent") == "−10.010.0 points"
    )
    assert page.each("select.paint", "e.disabled") == [True]
    assert "captions.word=2&captions.head=deletion" in page.evaluate("location.hash")
    page.evaluate(
        "((e) => (e.value = 0, e.dispatchEvent(new Event('change'))))"
        "(document.querySelector('select.head'))"
    )
    assert page.count(".looked .against") == 0 and page.each("select.paint", "e.disabled") == [
        False
    ]


def test_a_look_that_takes_long_can_be_cancelled_and_the_next_is_answered(show, address, fake):
    page = show(f"{address}#text/x")
    fake.delay = 60.0
    type_in(page, "slow")
    page.until("!!document.querySelector('.waiting .cancel')")
    page.click(".waiting .cancel")
    until(lambda: fake.gone == [{"text": "slow"}])
    page.until("document.querySelector('.outcome .note').textContent === 'Cancelled.'")
    assert page.count(".waiting") == 0 and page.count(".stale") == 0
    fake.delay = 0.0
    type_in(page, " no more")
    page.until("!!document.querySelector('.looked section')")
    assert page.text(".outcome .note") == ""


def test_an_answer_in_words_grows_as_it_is_written(show, address, fake):
    fake.pieces = ["a red", " star", " ."]
    page = show(f"{address}#text/x")
    type_in(page, "x")
    page.until("document.querySelector('.growing')?.textContent === 'a red star .'")
    assert page.count(".looked section") == 0
    fake.ready.set()
    page.until("!!document.querySelector('.looked section')")
    assert page.count(".growing") == 0 and page.text(".says").startswith("good")


def test_an_answer_that_went_wrong_is_said(address, fake, show):
    page = show(f"{address}#text/x", expected=["500"])
    fake.answer = lambda asked: math.nan / 0  # an exception in the server
    type_in(page, "a")
    page.until("!!document.querySelector('.outcome .trouble')")
    assert "500" in page.text(".outcome .trouble") and page.count(".stale") == 0
    del fake.answer
    type_in(page, " b")
    page.until("!!document.querySelector('.says')")
    assert page.count(".trouble") == 0


def test_pairs_are_two_lines(address, fake, show):
    fake.input = "pair"
    page = show(f"{address}#text/x")
    type_in(page, "one")
    until(lambda: fake.asked == [{"text": "one"}])
    type_in(page, "two\nlines", "label:nth-child(2) textarea")
    until(lambda: fake.asked[1:] == [{"text": "one", "pair": "two lines"}])


@pytest.mark.parametrize("how", ["button", "typing", "leaving"])
def test_writing_stops(address, fake, how, show):
    page = show(f"{address}#text/x?temperature=1.5&top_p=7&seed=4", expected=["404"])
    type_in(page, "so")
    page.click(".writing .primary")
    page.until("document.querySelectorAll('.after .token').length > 3")
    wish = {"text": "so", "temperature": 1.5, "top_p": 1, "length": 100, "seed": 4}
    assert fake.wishes == [wish]
    assert fake.asked == []  # a look would wait for the writing
    assert page.text(".writing [role=status]") == "writing …"
    assert not fake.closed
    if how == "button":
        page.click(".writing .controls button:nth-child(2)")
        page.until("document.querySelector('.writing [role=status]').textContent.includes('stop')")
        count = page.count(".after .token")
        assert page.each(".writing .controls button", "e.disabled") == [False, True, False]
    elif how == "typing":
        type_in(page, " more")
    else:
        page.evaluate("location.hash = '#runs'")
    until(lambda: fake.closed)
    if how == "button":
        time.sleep(0.2)
        assert page.count(".after .token") == count


def test_a_large_photo_is_made_smaller_and_another_kind_is_converted(address, fake, show):
    fake.input = "image"
    page = show(f"{address}#image/x")
    assert page.count(".sheet") == 0 and page.each(".choice button") == ["Photo", "Its own data"]
    for name, content, zeros, kind, size in (
        ("small.png", png(), 0, "image/png", (40, 30)),
        ("large.png", png((3000, 1500)), 20_000_000, "image/png", (2048, 1024)),
        ("icon.ico", ico(), 0, "image/x-icon", (16, 16)),
    ):
        fake.asked.clear()
        give(page, "drop", name, content, kind, zeros)
        until(lambda: fake.asked)
        assert Image.open(BytesIO(fake.asked[0])).size == size, name


def ico():
    memory = BytesIO()
    Image.new("RGB", (16, 16), "red").save(memory, format="ICO")
    return memory.getvalue()


@pytest.mark.parametrize("kind", ["text", "image"])
def test_hostile_names_stay_text(address, fake, kind, show):
    fake.name, fake.input = HOSTILE, kind
    page = show(f"{address}#{kind}/x")
    if kind == "text":
        type_in(page, HOSTILE)
    else:
        give(page, "drop", HOSTILE, png(), "image/png")
    page.until("!!document.querySelector('.looked section')")
    assert HOSTILE in page.text(".says") and HOSTILE in page.text(".subtitle")
    assert page.evaluate("window.harmed") is None and page.count("[onerror]") == 0


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True), (2560, False)])
def test_the_views_fit_and_everything_has_a_name(show, studio, width, dark):
    page = show(f"{studio}#image/digits", width=width, dark=dark)
    draw(page, DIGITS[3])
    page.until("!!document.querySelector('.looked section')")
    check_fit(page, width)
    page = show(f"{studio}#text/lines?text=the%20cat&length=20", width=width, dark=dark)
    page.until("!!document.querySelector('.looked section')")
    page.click(".writing .primary")
    page.until("document.querySelectorAll('.after .token').length === 20")
    check_fit(page, width)


LEAKS = """[...document.styleSheets].find(({ href }) => href.includes("/ideas.css")).cssRules"""


def check_fit(page, width):
    # The style of another page reaches nothing here.
    rules = f"[...{LEAKS}].flatMap((rule) => rule.cssRules?.length ? [...rule.cssRules] : [rule])"
    found = f"{rules}.map((rule) => rule.selectorText).filter((s) => document.querySelector(s))"
    assert page.evaluate(found) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    controls = ":is(button, input, select, textarea, .sheet)"
    named = "!!(e.textContent.trim() || e.labels?.length || e.getAttribute('aria-label'))"
    assert all(page.each(f"main {controls}", named))
    assert page.count("h1") == 1
