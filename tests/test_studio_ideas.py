"""The formula live and the lab in the studio: what the server answers, and what the page shows."""

import base64
import json
import math
import re
import socket
import threading
import time
from contextlib import contextmanager
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import uvicorn
from starlette.testclient import TestClient

from regard.attention import Mask
from regard.lab.claims import CLAIMS, load_claim
from regard.studio import formula as ideas
from regard.studio.app import make_app

PORT = 8347
Q = [[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]
K = [[2.0, 1.0], [-1.0, 0.5], [0.0, 3.0]]
V = [[1.0], [2.0], [4.0]]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    app = make_app(tmp_path_factory.mktemp("studio"), port=PORT)
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        yield client


def attend(client, **changes):
    answer = client.post("/api/attend", json={"q": Q, "k": K, "v": V, **changes})
    return answer.status_code, answer.json()


def softmax(scores):
    shifted = np.exp(scores - scores.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


# The formula


@pytest.mark.parametrize("beta", [None, 0.25, 3.0], ids="beta={}".format)
def test_weights_reads_and_scores_are_those_of_the_formula(client, beta):
    code, found = attend(client, beta=beta)
    used = 2**-0.5 if beta is None else beta
    scores = used * np.array(Q) @ np.array(K).T
    assert code == 200 and found["beta"] == used
    np.testing.assert_allclose(found["scores"], scores, atol=1e-12)
    np.testing.assert_allclose(found["weights"], softmax(scores), atol=1e-12)
    np.testing.assert_allclose(found["read"], softmax(scores) @ np.array(V), atol=1e-12)
    assert found["allowed"] == [[1] * 3] * 3 and not found["causal"] and found["more"] is None


def test_the_ends_of_beta_are_the_mean_and_the_best_key_alone(client):
    _, mean = attend(client, beta=0)
    np.testing.assert_allclose(mean["weights"], np.full((3, 3), 1 / 3))
    _, hard = attend(client, beta="inf")
    best = (np.array(Q) @ np.array(K).T).argmax(-1)
    assert hard["weights"] == np.eye(3)[best].tolist()
    assert hard["beta"] == "inf" and hard["scores"] == [[None] * 3] * 3


def test_what_a_mask_shuts_has_no_score_and_no_weight(client):
    _, found = attend(client, mask="causal & ~sinks(1)", beta=1)
    assert found["allowed"] == [[0, 0, 0], [0, 1, 0], [0, 1, 1]] and found["causal"]
    assert found["weights"][0] == [0, 0, 0] and found["read"][0] == [0]
    for scores, weights, allowed in zip(
        found["scores"], found["weights"], found["allowed"], strict=True
    ):
        assert [score is not None for score in scores] == [bool(may) for may in allowed]
        assert [weight > 0 for weight in weights] == [bool(may) for may in allowed]


@pytest.mark.parametrize("row", [0, 1, 2], ids="row={}".format)
def test_the_jacobian_is_that_of_autograd_on_the_row_asked_for(client, row):
    _, found = attend(client, row=row, mask="causal", beta=0.7)
    scores = torch.tensor([-math.inf if s is None else s for s in found["scores"][row]])
    wanted = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    np.testing.assert_allclose(found["jacobian"], wanted, atol=1e-6)
    assert found["row"] == row


# One more token


def test_under_a_causal_mask_a_token_more_leaves_all_old_rows(client):
    _, before = attend(client, q=Q[:2], k=K[:2], v=V[:2], mask="causal")
    _, after = attend(client, mask="causal", before=2)
    assert [row[:2] for row in after["weights"][:2]] == before["weights"]
    more = after["more"]
    assert more["kept"] == [True, True] and max(more["changes"]) < 1e-12
    assert more["from_kept"] < 1e-12


@pytest.mark.parametrize("mask", [None, "window(2)"])
def test_without_a_causal_mask_old_rows_change_by_what_is_said(client, mask):
    _, before = attend(client, q=Q[:2], k=K[:2], v=V[:2], mask=mask)
    _, after = attend(client, mask=mask, before=2)
    was = np.pad(before["weights"], ((0, 0), (0, 1)))
    moved = np.abs(np.array(after["weights"])[:2] - was).max(-1)
    np.testing.assert_allclose(after["more"]["changes"], moved, atol=1e-12)
    # Through a window of two, the first query does not see the third key.
    assert after["more"]["kept"] == ([False, False] if mask is None else [True, False])
    assert after["more"]["from_kept"] < 1e-12  # the new row itself needs no old queries


# Masks


def test_a_mask_is_spelt_pictured_and_measured(client):
    found = client.post("/api/mask", json={"mask": "(causal) & (window( 3 ))", "n": 5}).json()
    mask = Mask.parse("causal & window(3)")
    assert found["text"] == str(mask) == "causal & window(3)"
    assert found["matrix"] == mask(range(5), range(5)).int().tolist()
    assert found["density"] == mask.density(5) == np.mean(found["matrix"])
    assert found["causal"] and found["reach"] == 2
    unbounded = client.post("/api/mask", json={"mask": "causal", "n": 5}).json()
    assert unbounded["reach"] is None
    nothing = client.post("/api/mask", json={"mask": "", "n": 2}).json()
    assert nothing["matrix"] == [[1, 1], [1, 1]] and nothing["density"] == 1


def test_every_chip_of_the_page_is_a_mask(client):
    source = (ideas.__file__.rpartition("/")[0]) + "/page/ideas/mask.js"
    with open(source, encoding="utf-8") as file:
        text = file.read()
    lists = re.findall(r"(?:ATOMS = \[|ATOMS\.push\()([^\n]*)", text)
    chips = [chip for words in lists for chip in re.findall(r'"([^"]+)"', words)]
    assert len(chips) == 10
    for chip in chips:
        answer = client.post("/api/mask", json={"mask": chip, "n": 24})
        assert answer.status_code == 200 and answer.json()["text"].startswith(chip[:5])


# What does not fit


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": []}, "q is not a list of 1 to 32 rows"),
        ({"k": [[1.0]] * 33}, "k is not a list of 1 to 32 rows"),
        ({"v": [[]] * 3}, "a row of v is not a list of 1 to 32 numbers"),
        ({"q": [[1, 2], [3]]}, "q has rows of 2 and of 1 numbers"),
        ({"q": [[1, "2"]]}, "q holds"),
        ({"q": [[1, True]]}, "q holds true"),
        ({"q": [[1, 1e7]]}, "q holds 10000000.0, not a number up to 1e.06"),
        ({"q": [[1, 10**400]]}, "q holds 1000"),
        ({"q": [[1, 2, 3]]}, "queries are 3 wide and keys 2"),
        ({"v": [[1.0]]}, "there are 3 keys and 1 values"),
        ({"beta": -1}, "beta is -1"),
        ({"beta": "much"}, "beta is"),
        ({"row": 3}, "row is 3, not a whole number from 0 to 2"),
        ({"before": 3}, "before is 3, not a whole number from 1 to 2"),
        ({"q": [[1.0, 2.0]], "before": 1}, "there are 1 queries and 3 keys"),
        ({"mask": "window"}, "window needs its arguments"),
        ({"mask": "causl"}, "did you mean 'causal'"),
        ({"mask": "__import__('os')"}, "there is no mask"),
        ({"mask": 3}, "a mask is an expression, not 3"),
        ({"mask": "causal & ~random_keys(65, 99)"}, "draws 65 keys for each query; 64 is"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_does_not_fit_is_refused_in_a_sentence(client, changes, words):
    code, found = attend(client, **changes)
    assert code == 422 and re.search(words, found["error"]), found


def test_a_draw_of_very_many_keys_is_refused_before_it_is_made(client):
    began = time.monotonic()
    for mask in ("random_keys(1000000, 2000000)", "~(causal | random_keys(1000000, 2000000))"):
        answer = client.post("/api/mask", json={"mask": mask, "n": 4})
        assert answer.status_code == 422
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("body", ["", "{", "[]", "3", "[" * 100_000], ids=lambda b: b[:4])
def test_a_body_that_is_no_object_is_refused(client, body):
    headers = {"Content-Type": "application/json"}
    for address in ("/api/attend", "/api/mask", "/api/lab/graph"):
        answer = client.post(address, content=body, headers=headers)
        assert answer.status_code == 400 and list(answer.json()) == ["error"]


def test_numbers_that_json_lacks_or_that_are_too_large_are_refused(client):
    headers = {"Content-Type": "application/json"}
    for number, status, words in (("NaN", 400, "not JSON"), ("1e999", 422, "q holds Infinity")):
        body = f'{{"q": [[{number}]], "k": [[1.0]], "v": [[1.0]]}}'
        answer = client.post("/api/attend", content=body, headers=headers)
        assert answer.status_code == status and words in answer.json()["error"]


# The lab


def test_the_lab_lists_every_claim_with_its_numbers_and_formulas(client):
    found = client.get("/api/lab").json()
    assert [each["id"] for each in found] == list(CLAIMS)
    for each in found:
        claim = load_claim(each["id"])
        assert (each["statement"], each["verdict"]) == (claim.statement, claim.verdict)
        for words, markup in ((claim.statement, "statement_html"), (claim.truth, "truth_html")):
            assert each[markup].count("<math") == words.count("$") // 2
            ElementTree.fromstring(each[markup].replace("&nbsp;", " "))
        for number in each["numbers"]:
            assert number["help"] and number["kind"] in ("int", "float", "ints", "floats")
    (limits,) = [each for each in found if each["id"] == "beta-limits"]
    assert limits["numbers"][0] == {
        "name": "keys",
        "kind": "int",
        "default": 6,
        "most": 32,
        "help": "keys that the query may read.",
    }


def test_text_beside_formulas_is_escaped():
    assert "<b>" not in ideas.markup("<b>a</b> & $x < y$")
    assert "&lt;b&gt;a&lt;/b&gt; &amp; " in ideas.markup("<b>a</b> & $x < y$")


def test_a_claim_is_measured_with_the_labs_numbers_and_with_others(client):
    ours = client.post("/api/lab/beta-limits", json={}).json()
    assert ours["found"] == ours["verdict"] == "holds" and ours["agrees"] and not ours["own"]
    assert {"written", "controls"} <= set(ours["checks"]) and "<math" in ours["truth_html"]
    png = base64.b64decode(ours["picture"].removeprefix("data:image/png;base64,"))
    assert png.startswith(b"\x89PNG")
    other = client.post("/api/lab/beta-limits", json={"numbers": {"keys": 9, "seed": 3}}).json()
    assert other["own"] and other["checks"] != ours["checks"]
    # The same numbers again give the same figures, whatever was measured between.
    again = client.post("/api/lab/beta-limits", json={"numbers": {"keys": 6}}).json()
    assert again["checks"] == ours["checks"] and not again["own"]


def test_lists_and_real_numbers_reach_the_claim_in_its_types(client):
    """In tests annotations are checked: a list for a tuple, or 1 for 1.0, would be refused."""
    flat = client.post("/api/lab/softmax-jacobian", json={"numbers": {"z": [0, 1, 2]}})
    assert flat.status_code == 200 and flat.json()["series"]["z"] == [0, 1, 2]
    noise = client.post("/api/lab/key-noise", json={"numbers": {"beta": 1}})
    assert noise.status_code == 200 and noise.json()["own"]


@pytest.mark.parametrize(
    ("claim", "numbers", "words"),
    [
        ("beta-limits", {"kees": 3}, "has no number 'kees'; did you mean 'keys'"),
        ("beta-limits", {"keys": 33}, "keys is 33, not a whole number from -32 to 32"),
        ("beta-limits", {"keys": 2.5}, "keys is 2.5, not a whole number"),
        ("beta-limits", {"keys": "6"}, "keys is .* not a whole number"),
        ("beta-limits", {"keys": 32, "width": 32}, "on 21 times as much as usual, and 8 times"),
        ("softmax-jacobian", {"z": 3}, "z is not a list of 1 to 12 numbers"),
        ("softmax-jacobian", {"z": []}, "z is not a list of 1 to 12 numbers"),
        ("key-noise", {"beta": None}, "beta is null, not a number"),
        ("path-length", {"kernel": 4}, "centred kernel"),
        ("graph", [], "numbers are given by name"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_numbers_that_a_claim_cannot_take_are_refused(client, claim, numbers, words):
    answer = client.post(f"/api/lab/{claim}", json={"numbers": numbers})
    assert answer.status_code == 422 and re.search(words, answer.json()["error"]), answer.text


def test_a_claim_that_nobody_made_is_not_found(client):
    answer = client.post("/api/lab/beta-limit", json={})
    assert answer.status_code == 404 and "did you mean 'beta-limits'" in answer.json()["error"]
    assert client.post("/api/lab/..%2Fclaims", json={}).status_code == 404


# The page, in a browser and on the real server


@contextmanager
def serving(root):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(
        make_app(root, port=port), port=port, log_level="error", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < end, "the studio did not start"
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("runs")) as address:
        yield address


@pytest.fixture
def visit(browser, studio):
    """Opens an address; at the end nothing may have gone wrong, and nobody else been asked."""
    pages = []

    def open_page(hash_, **options):
        pages.append(browser.open(studio + hash_, **options))
        return pages[-1]

    yield open_page
    for page in pages:
        outside = [a for a in page.requests if not a.startswith((studio, "data:", "blob:"))]
        # A browser notes every answer that is not 200, also those that the page expects.
        errors = [error for error in page.errors if "422" not in error]
        page.close()
        assert outside == [] and errors == []


SMALL = "#ideas?q=1+0_0+1_1+-1&k=2+1_-1+0.5_0+3&v=1_2_4&mask=causal&beta=1&row=1"


def settle(page):
    page.until("document.querySelector('.ideas').dataset.settled === 'yes'")


def put(page, selector, value):
    """Type into an input, as far as the page can tell."""
    target = f"document.querySelector({json.dumps(selector)})"
    page.evaluate(
        f"(({target}).value = {json.dumps(value)}, "
        f"({target}).dispatchEvent(new Event('input', {{bubbles: true}})), 0)"
    )
    settle(page)


def cells(page):
    """The numbers in the map, in order; what the mask shuts is not among them."""
    return page.each(".heat.rows g.open text")


@pytest.mark.chromium
def test_the_map_shows_the_weights_that_the_server_computed(visit, client):
    page = visit(SMALL)
    _, found = attend(client, mask="causal", beta=1)
    flat = [
        w
        for row, may in zip(found["weights"], found["allowed"], strict=True)
        for w, m in zip(row, may, strict=True)
        if m
    ]
    assert len(cells(page)) == 6 and page.count(".heat.rows .shut") == 3
    shown = [float(words.replace("−", "-")) for words in cells(page)]
    np.testing.assert_allclose(shown, flat, atol=0.0051)
    assert page.text(".reads .sum").startswith("read₂ = ")
    # The slopes are of the chosen row, in which two keys may be read.
    assert page.count(".heat:not(.rows) g.open") == 4


@pytest.mark.chromium
def test_a_number_that_is_changed_changes_the_map_and_the_address_tells_all(visit, browser, studio):
    page = visit(SMALL)
    before = cells(page)
    put(page, "input[aria-label='q, row 3, column 1']", "-2.5")
    assert cells(page) != before
    put(page, ".masking .expression", "causal & window(2)")
    page.until("document.querySelectorAll('.heat.rows .shut').length === 4")
    page.click(".beta .controls button:last-child")
    settle(page)
    page.until("location.hash.includes('beta=inf')")
    page.until("decodeURIComponent(location.hash.replaceAll('+', ' ')).includes('window(2)')")
    assert "-2.5" in page.evaluate("location.hash")
    other = visit(page.evaluate("location.hash"))
    assert cells(other) == cells(page) and other.text(".beta output").startswith("β = ∞")
    assert other.evaluate("document.querySelector('.expression').value") == "causal & window(2)"
    assert other.text(".reads .sum") == page.text(".reads .sum")


@pytest.mark.chromium
def test_the_slider_goes_from_the_mean_to_the_best_key(visit):
    page = visit(SMALL.replace("mask=causal", "mask="))
    put(page, ".beta input", "0")
    assert set(cells(page)) == {".33"}
    put(page, ".beta input", "400")
    assert sorted(set(cells(page))) == ["0", "1"]
    text = page.evaluate("document.querySelector('.beta input').getAttribute('aria-valuetext')")
    assert text.startswith("β = ∞")
    put(page, ".beta input", "200")
    assert page.text(".beta output") == "β = 1"


@pytest.mark.chromium
def test_chips_compose_a_mask_and_a_bad_one_is_told_beside_it(visit):
    page = visit(SMALL)
    page.click(".chips button:nth-child(2)")
    settle(page)
    assert page.evaluate("document.querySelector('.expression').value") == "causal & window(3)"
    page.click(".masking .choice button:nth-child(2)")
    page.click(".chips button:nth-child(3)")
    settle(page)
    value = page.evaluate("document.querySelector('.expression').value")
    assert value == str(Mask.parse("causal & window(3) | sinks(1)"))
    kept = cells(page)
    put(page, ".masking .expression", "causl")
    page.until("!document.querySelector('.masking .trouble').hidden")
    assert "did you mean 'causal'" in page.text(".masking .trouble")
    assert cells(page) == kept and page.count(".outputs.stale") == 1
    put(page, ".masking .expression", "causal")
    page.until("document.querySelector('.masking .trouble').hidden")
    assert page.count(".outputs.stale") == 0


@pytest.mark.chromium
def test_a_token_more_is_new_in_its_row_alone_under_a_causal_mask(visit):
    page = visit(SMALL)
    before = cells(page)
    page.click(".more-token .add")
    settle(page)
    marks = page.each(".heat.rows [data-mark]", "e.dataset.mark")
    assert marks == ["kept"] * 12 + ["new"] * 4
    assert cells(page)[:6] == before and len(cells(page)) == 10
    story = page.text(".story")
    assert "4 entries of row 4 are new; all 6 of the rows above are kept" in story
    page.until("location.hash.includes('before=3')")
    other = visit(page.evaluate("location.hash"))
    assert other.each(".heat.rows [data-mark]", "e.dataset.mark") == marks
    page.click(".more-token button:last-child")
    settle(page)
    assert cells(page) == before and page.count("[data-mark='new']") == 0


@pytest.mark.chromium
def test_a_token_more_changes_old_rows_where_the_mask_is_not_causal(visit):
    page = visit(SMALL.replace("mask=causal", "mask=window(2)"))
    assert "may change old rows" in page.text(".story")
    page.click(".more-token .add")
    settle(page)
    marks = page.each(".heat.rows [data-mark]", "e.dataset.mark")
    assert marks == ["kept"] * 8 + ["changed"] * 4 + ["new"] * 4
    assert "the old row 3 changes as well" in page.text(".story")


@pytest.mark.chromium
def test_rows_are_chosen_by_mouse_and_by_keyboard(visit):
    page = visit(SMALL)
    assert page.text(".pair .panel:last-child h2") == "Slope of row 2"
    page.focus(".heat.rows")
    page.press("ArrowDown")
    settle(page)
    assert page.text(".pair .panel:last-child h2") == "Slope of row 3"
    assert page.text(".hint").startswith("query 3, key 1: weight")
    page.click(".reads tr:first-child td")
    settle(page)
    assert page.text(".pair .panel:last-child h2") == "Slope of row 1"
    page.until("location.hash.includes('row=0')")


@pytest.mark.chromium
def test_eight_by_eight_is_redrawn_within_a_tenth_of_a_second(visit):
    page = visit("#ideas")
    page.evaluate(
        "((e) => (e.value = 8, e.dispatchEvent(new Event('change'))))"
        "(document.querySelector('.inputs .controls input'))"
    )
    page.until("document.querySelectorAll('.heat.rows g.open').length === 36")
    settle(page)
    took = page.evaluate(
        """(async () => {
          const slider = document.querySelector(".beta input");
          const area = document.querySelector(".heat.rows .area");
          const took = [];
          for (let i = 0; i < 12; i += 1) {
            const redrawn = new Promise((resolve) => {
              const watch = new MutationObserver(() => (watch.disconnect(), resolve()));
              watch.observe(area, { childList: true });
            });
            const began = performance.now();
            slider.value = 120 + 15 * i;
            slider.dispatchEvent(new Event("input"));
            await redrawn;
            took.push(performance.now() - began);
            await new Promise((resolve) => setTimeout(resolve, 30));
          }
          return took;
        })()"""
    )
    assert min(took) < 100, took  # the least, since other work may hold the machine up


@pytest.mark.chromium
def test_the_newest_wish_wins_however_late_an_answer_comes(visit):
    """The first request is held up; what was wished for after it is what is shown at the end."""
    page = visit(SMALL.replace("mask=causal", "mask="))
    page.evaluate(
        """(() => {
          const real = window.fetch;
          let held = false;
          window.fetch = async (address, request) => {
            const answer = await real(address, request);
            if (!held && String(address).endsWith("attend")) {
              held = true;
              await new Promise((resolve) => setTimeout(resolve, 300));
            }
            return answer;
          };
          const slider = document.querySelector(".beta input");
          const at = (value, when) => setTimeout(() => {
            slider.value = value;
            slider.dispatchEvent(new Event("input"));
          }, when);
          at(300, 0); at(250, 60); at(0, 120);
        })()"""
    )
    time.sleep(0.7)
    settle(page)
    assert set(cells(page)) == {".33"} and page.text(".beta output").startswith("β = 0")


@pytest.mark.chromium
def test_the_map_is_saved_as_svg_and_png_that_stand_alone(visit, browser):
    page = visit(SMALL)
    page.click(".pair .panel:first-child .download + .download")
    text = page.saved("weights.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert "var(" not in text and "color-mix" not in text and "light-dark" not in text
    assert "mask: causal" in "".join(root.itertext())
    page.click(".pair .panel:first-child .download")
    from PIL import Image

    with Image.open(page.saved("weights.png")) as image:
        assert image.size[0] == round(2 * float(root.get("width")))
        assert len(image.convert("RGB").getcolors(1 << 16)) > 5
    page.click(".pair .panel:last-child .download + .download")
    slope = ElementTree.fromstring(page.saved("slope.svg").read_bytes())
    assert "Slope of row 2" in "".join(slope.itertext())
    page.click(".masking .download + .download")
    mask = page.saved("mask.svg").read_text(encoding="utf-8")
    assert "causal, on 24 tokens" in mask and "var(" not in mask


@pytest.mark.chromium
def test_an_address_that_is_spelt_badly_shows_the_start(visit):
    for words in ("q=1+x&k=1&v=1", "q=1_2&k=1&v=1", "beta=-3&row=99&before=77", "q=&k=&v="):
        page = visit(f"#ideas?{words}")
        assert len(cells(page)) == 15  # five tokens under a causal mask
        assert page.text(".beta output").endswith("1/√d")


@pytest.mark.chromium
@pytest.mark.parametrize("width", [390, 1280, 2560], ids="width={}".format)
def test_nothing_is_wider_than_the_page(visit, width):
    for hash_ in ("#ideas", "#lab", "#lab/pe-index", "#lab/small-vit"):
        page = visit(hash_, width=width, dark=width == 390)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Choices that find no room side by side go below one another, and no word is broken.
        assert all(high < 40 for high in page.each(".choice button", "e.offsetHeight"))


@pytest.mark.chromium
def test_claims_are_cards_that_a_verdict_sifts(visit):
    page = visit("#lab")
    assert page.count(".claim") == len(CLAIMS)
    assert page.count(".claim math") > 10
    page.click(".choice button:nth-child(3)")
    corrected = [name for name in CLAIMS if load_claim(name).verdict == "corrected"]
    assert sorted(page.each(".claim a")) == sorted(corrected)
    page.until("location.hash === '#lab?verdict=corrected'")


@pytest.mark.chromium
def test_a_claim_is_measured_and_measured_again_with_other_numbers(visit):
    page = visit("#lab/beta-limits")
    assert page.text(".result h2") == "Found: holds"
    assert page.count(".checks tr.wrong") == 0 and page.count("img.plot") == 1
    assert page.evaluate("document.querySelector('img.plot').naturalWidth") > 500
    page.evaluate("(document.querySelector('#number-keys').value = '9', 0)")
    page.click("form .primary")
    page.until("document.querySelector('.result h2').textContent.includes('your numbers')")
    page.until("location.hash === '#lab/beta-limits?keys=9'")
    assert "regard lab beta-limits --keys 9 --width 8" in page.text(".command")
    other = visit("#lab/beta-limits?keys=9")
    assert other.text(".deciding") == page.text(".deciding")
    assert other.each(".checks td.number") == page.each(".checks td.number")


@pytest.mark.chromium
def test_numbers_that_do_not_fit_are_told_where_the_figures_would_be(visit):
    page = visit("#lab/beta-limits?keys=33")
    assert "keys is 33, not a whole number from -32 to 32" in page.text(".result .trouble")
    page.evaluate(
        "((e) => (e.value = 'many', e.dispatchEvent(new Event('input')), 0))"
        "(document.querySelector('#number-keys'))"
    )
    page.click("form .primary")
    assert page.evaluate("document.activeElement.id") == "number-keys"
    invalid = "document.querySelector('#number-keys').getAttribute('aria-invalid')"
    assert page.evaluate(invalid) == "true"


@pytest.mark.chromium
def test_markup_from_the_server_can_bring_formulas_and_nothing_else(browser, studio):
    page = browser.open(f"{studio}#lab")
    page.evaluate(
        """(async () => {
          const real = window.fetch;
          window.fetch = async (...asked) => {
            const answer = await real(...asked);
            if (!String(asked[0]).endsWith("/api/lab")) return answer;
            const [first] = await answer.json();
            first.statement_html =
              "<span>a <img src=x onerror='window.harmed = 1'><script>window.harmed = 1</scr" +
              "ipt><a href='javascript:window.harmed = 1'>b</a><math onclick='window.harmed = 1'>" +
              "<mi href='x:y'>x</mi></math></span>";
            return new Response(JSON.stringify([first]));
          };
          document.documentElement.dataset.drawn = "";
          location.hash = "#lab?verdict=holds";
        })()"""
    )
    page.until("document.querySelectorAll('.claim').length === 1")
    assert page.evaluate("window.harmed ?? 0") == 0
    assert page.count(".claim p img, .claim p script, .claim p a, .claim p [onclick]") == 0
    assert page.count(".claim p math mi:not([href])") == 1
    assert all("Content Security Policy" in error for error in page.errors)  # a second guard
    page.close()
