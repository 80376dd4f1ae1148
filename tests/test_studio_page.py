"""The studio's own pages in a real browser, on the real server: runs, one as it trains, a form."""

import json
import re
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest
import uvicorn

import regard as rg
from regard.run_folder import RunFolder
from regard.studio.alive import Process, this_process
from regard.studio.app import make_app
from regard.studio.leases import Lease, Record

pytestmark = pytest.mark.chromium

SMALL = {"model": {"width": 8, "layers": 1, "heads": 2, "mlp_width": 16}, "quiet": True}
HOSTILE = "</pre></script><img src=x onerror='window.harmed=1'>"


class Served:
    """A studio on a free port, in a thread."""

    def __init__(self, root: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        app = make_app(root, port=self.port)
        config = uvicorn.Config(
            app, port=self.port, log_level="error", timeout_graceful_shutdown=2, lifespan="on"
        )
        self.server, self.root = uvicorn.Server(config), root
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> "Served":
        self.thread.start()
        end = time.monotonic() + 30
        while not self.server.started:
            assert time.monotonic() < end, "the studio did not start"
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(20)

    def at(self, hash_: str = "") -> str:
        return f"http://127.0.0.1:{self.port}/{hash_}"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two real runs, small ones, of 2 and 4 epochs."""
    root = tmp_path_factory.mktemp("trained")
    for name, epochs in (("first", 2), ("second", 4)):
        rg.train("classify", epochs=epochs, out=root / name, report=name == "second", **SMALL)
    return root


@pytest.fixture(scope="module")
def studio(trained):
    with Served(trained) as served:
        yield served


@pytest.fixture
def empty(tmp_path):
    with Served(tmp_path / "runs") as served:
        yield served


def go(page, hash_, until="h1"):
    """Follow a link, and wait for the page it leads to."""
    page.evaluate(f"(document.documentElement.dataset.drawn = '', location.hash = {hash_!r}, 0)")
    page.until("document.documentElement.dataset.drawn === 'yes'")
    page.until(f"!!document.querySelector({until!r})")


def at_home(page, studio):
    """Nothing went wrong, and nobody else was asked for anything."""
    assert page.errors == []
    outside = [a for a in page.requests if not a.startswith((studio.at(), "data:", "blob:"))]
    assert outside == []


# The list


def test_the_list_says_what_each_run_is_and_how_well_it_does(browser, studio, trained):
    page = browser.open(studio.at())
    assert page.text("h1") == "Runs" and page.evaluate("document.title").startswith("Runs")
    assert sorted(page.each(".entry .name")) == ["first", "second"]
    lines = RunFolder(trained / "second").metrics()
    shown = page.each(".entry", "e.textContent")
    (second,) = [words for words in shown if "second" in words]
    kept = [line for line in lines if line["is_best"]][-1]["val/accuracy"]
    best = max(line["val/accuracy"] for line in lines)
    assert any(f"{100 * value:.1f}%" in second for value in (kept, best))
    assert "digits" in second and "done" in second and "4 of 4 epochs" in second
    assert page.count(".entry .spark path") == 2
    at_home(page, studio)


def test_runs_that_are_ticked_are_drawn_together_and_the_address_keeps_them(browser, studio):
    page = browser.open(studio.at())
    for number in (1, 2):
        page.click(f".entry:nth-child({number}) input")
    page.until("document.querySelectorAll('.beside .legend button').length === 2")
    page.until("document.querySelectorAll('.beside .chart path.series').length >= 4")
    assert sorted(page.each(".beside .legend button")) == ["first", "second"]
    address = page.evaluate("location.href")
    assert "chosen=" in address
    again = browser.open(address)
    assert again.count(".entry input:checked") == 2
    assert sorted(again.each(".beside .legend button")) == ["first", "second"]
    again.click(".beside .heading button")
    again.until("!document.querySelector('.beside .chart')")
    assert again.count(".entry input:checked") == 0 and "chosen" not in again.evaluate(
        "location.hash"
    )
    at_home(again, studio)


def test_keys_alone_reach_and_tick_a_run(browser, studio):
    page = browser.open(studio.at())
    page.focus(".entry input")
    space = {"key": " ", "code": "Space", "windowsVirtualKeyCode": 32}
    page.call("Input.dispatchKeyEvent", type="keyDown", text=" ", **space)
    page.call("Input.dispatchKeyEvent", type="keyUp", **space)
    page.until("!!document.querySelector('.beside .chart')")
    page.press("Tab")
    assert page.evaluate("document.activeElement.className") == "name"


# One run


def test_a_run_shows_its_curves_its_log_its_settings_and_where_to_go(browser, studio, trained):
    page = browser.open(studio.at("#run/second"))
    assert page.text("h1") == "second"
    assert page.each("figcaption") == ["accuracy", "loss"]
    assert page.count(".chart path.series") == 4
    page.focus(".chart")
    page.press("End")
    last = RunFolder(trained / "second").metrics()[-1]
    read = [f"{100 * last[f'{split}/accuracy']:.1f}%" for split in ("train_eval", "val")]
    assert page.each("figure:first-child .readout td") == read
    assert page.each("figure:first-child .readout th span") == ["train", "validation"]
    assert "epoch 4 of 4" in page.text(".log")
    assert page.each(".acts a", "e.getAttribute('href')") == [
        "#image/second",
        "/api/runs/second/report",
    ]
    assert page.count(".acts button") == 0  # nothing to stop, nothing to resume
    page.click("summary")
    page.until("document.querySelector('details').open")
    facts = dict(zip(page.each(".facts dt"), page.each(".facts dd"), strict=True))
    assert facts["width"] == "8" and facts["epochs"] == "4"
    at_home(page, studio)


def test_the_report_opens_in_a_box_of_its_own(browser, studio):
    page = browser.open(studio.at("api/runs/second/report"))
    assert page.evaluate("window.origin") == "null"
    assert page.errors == []


def test_the_report_is_offered_where_there_is_one(browser, studio):
    page = browser.open(studio.at("#run/first"))
    assert page.each(".acts a", "e.getAttribute('href')") == ["#image/first"]


def test_a_run_that_is_not_there_is_said_not_to_be(browser, studio):
    page = browser.open(studio.at("#run/nobody"))
    assert page.text("h1") == "This page could not be shown"
    assert "nobody" in page.text(".failure")
    page.click(".failure button")
    page.until("document.documentElement.dataset.drawn === 'yes'")
    assert page.text("h1") == "This page could not be shown"


def test_an_address_that_leads_nowhere_says_so_and_the_way_back_works(browser, studio):
    page = browser.open(studio.at("#nowhere/%E0%A4%A"))
    assert "nowhere" in page.text(".failure")
    page.click(".brand")
    page.until("!!document.querySelector('.entry')")


def test_a_folder_that_cannot_be_read_says_why_and_hides_no_other(browser, trained, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(trained / "first", root / "first")
    RunFolder.at(root / "odd").write_text("config.toml", "format = 99\n")
    with Served(root) as served:
        page = browser.open(served.at())
        assert sorted(page.each(".entry .state")) == ["broken", "done"]
        assert "99" in page.text(".entry .wrong")
        go(page, "#run/odd")
        assert "99" in page.text(".trouble") and page.count(".acts > *") == 0
        assert page.evaluate("document.querySelector('.curves').closest('section').hidden")
        at_home(page, served)


def test_what_a_run_says_is_text(browser, trained, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(trained / "first", root / "first")
    RunFolder(root / "first").add_log(HOSTILE)
    config = (root / "first" / "config.toml").read_text()
    hostile = re.sub(r'recipe = ".*"', f"recipe = {json.dumps(HOSTILE)}", config)
    RunFolder(root / "first").write_text("config.toml", hostile)
    with Served(root) as served:
        page = browser.open(served.at("#run/first"))
        assert HOSTILE in page.text(".log") and HOSTILE in page.text(".subtitle")
        assert page.evaluate("window.harmed") is None
        at_home(page, served)


# A training, from the button to the end


def test_without_runs_a_button_trains_and_the_curves_grow(browser, empty):
    """The whole way, with a real training: begin, watch lines come, stop, resume, end."""
    page = browser.open(empty.at())
    assert page.text("h1") == "Train your first model"
    assert page.count(".card button") >= 2
    go(page, "#start?recipe=digits&task=classify", "form")
    fields = {"train.epochs": 60, "model.width": 8, "model.layers": 1, "model.mlp_width": 16}
    for name, value in fields.items():
        put(page, name, value)
    assert "--train.epochs 60" in page.text(".command code") and "train.epochs=60" in page.evaluate(
        "location.hash"
    )
    page.click("form button.primary")
    page.until("location.hash.startsWith('#run/')")
    wait(page, "document.querySelectorAll('.chart path.series').length >= 2")
    page.evaluate("window.kept = document.querySelector('.chart'), 0")
    letters = "document.querySelector('.chart path.series').getAttribute('d').length"
    early = page.evaluate(letters)
    wait(page, f"{letters} > {early} + 20")
    assert page.evaluate("window.kept.isConnected")  # the same chart, with more in it
    assert page.text(".state") == "training"
    stop = page.evaluate("[...document.querySelectorAll('.acts button')].map((e) => e.textContent)")
    assert stop == ["Stop"]
    page.click(".acts button")
    wait(page, "document.querySelector('.state').textContent === 'stopped'")
    done = page.evaluate("Number(document.querySelector('progress').value)")
    assert 0 < done < 60
    (run,) = [path for path in empty.root.iterdir() if path.is_dir()]
    before, state = RunFolder(run).metrics(), RunFolder(run).latest_state()
    assert state is not None and state[0] >= before[-1]["step"]
    assert "what is done is saved" in (run / "log.txt").read_text()
    page.until("document.querySelector('.acts button')?.textContent === 'Resume'")
    page.click(".acts button")
    wait(page, f"Number(document.querySelector('progress').value) > {done}")
    wait(page, "document.querySelector('.state').textContent === 'done'")
    lines = RunFolder(run).metrics()
    assert [line["epoch"] for line in lines] == list(range(1, 61))
    assert lines[: len(before)] == before  # nothing was learnt twice
    drawn = page.evaluate(
        "document.querySelector('.chart path.series').getAttribute('d').split(/[ML]/).length - 1"
    )
    assert drawn == 60
    at_home(page, empty)


@pytest.fixture
def going(trained, tmp_path):
    """A run that another process writes, as far as a studio can tell: 2 epochs of 5 are done."""
    root = tmp_path / "runs"
    shutil.copytree(trained / "second", root / "going")
    folder = RunFolder(root / "going")
    lines = folder.metrics()
    folder.keep_metrics(2)
    config = (folder.path / "config.toml").read_text()
    folder.write_text("config.toml", config.replace("epochs = 4", "epochs = 5"))
    with Served(root) as served:
        yield served, folder, lines


def test_the_list_and_its_curves_grow_with_a_run_that_trains(browser, going):
    served, folder, lines = going
    points = (
        "document.querySelector('.beside path.series')?.getAttribute('d').split(/[ML]/).length - 1"
    )
    with folder.locked():
        page = browser.open(served.at("#runs?chosen=going"))
        assert page.text(".state") == "training" and "2 of 5 epochs" in page.text(".entry")
        assert page.evaluate(points) == 2
        page.focus(".entry .name")
        folder.add_metrics(lines[2])
        page.until("document.querySelector('.entry').textContent.includes('3 of 5')")
        assert page.evaluate("document.activeElement.className") == "name"
        page.until(f"{points} === 3")
    page.until("document.querySelector('.state').textContent === 'stopped'")
    at_home(page, served)


def test_a_run_of_another_process_grows_and_is_not_stopped_from_here(browser, going):
    served, folder, lines = going
    with folder.locked():
        page = browser.open(served.at("#run/going"))
        page.focus(".chart")
        page.press("End")
        assert page.evaluate("document.activeElement.ariaValueNow") == "2"
        folder.add_metrics(lines[2])
        folder.add_log("three is done")
        page.until("document.querySelector('progress').value === 3")
        page.until("document.querySelector('.log').textContent.includes('three is done')")
        assert page.text(".log").count("three is done") == 1
        # Someone who reads the chart stays where they were.
        assert page.evaluate("document.activeElement.ariaValueNow") == "2"
        page.press("End")
        assert page.evaluate("document.activeElement.ariaValueNow") == "3"
        assert page.count(".acts button") == 0
        assert "stop it where it was started" in page.text(".status")
    page.until("document.querySelector('.acts button')?.textContent === 'Resume'")
    assert "started" not in page.text(".status")
    at_home(page, served)


@pytest.mark.parametrize(("keep", "words"), [(True, "Goes on"), (False, "Saves and stops")])
def test_a_training_that_a_studio_before_has_left_is_found_and_stopped(browser, going, keep, words):
    served, folder, _ = going
    record = Record(
        task="classify",
        data="digits",
        epochs=5,
        began="2026-01-01T00:00:00+00:00",
        keep=keep,
        seconds=15.0,
        studio=Process(1, "long ago"),
        trainer=this_process(),  # which trains, as far as a studio can tell
    )
    lease = Lease.of(folder.path)
    lease.grant(record)
    with folder.locked():
        page = browser.open(served.at("#run/going"))
        assert page.text(".state") == "training"
        assert f"{words} when the studio closes" in page.text(".status")
        page.click(".acts button")
        page.until("document.querySelector('.acts button').textContent === 'Stopping …'")
        end = time.monotonic() + 10
        while lease.renewed() is not None:
            assert time.monotonic() < end
            time.sleep(0.02)
        lease.clear()
    page.until("document.querySelector('.acts button')?.textContent === 'Resume'")
    at_home(page, served)


def test_the_form_asks_what_becomes_of_a_training_when_the_studio_closes(browser, studio):
    page = browser.open(studio.at("#start?recipe=digits&task=classify"))
    assert page.text("label.keep") == "Keep training when the studio closes"
    assert not page.evaluate("document.getElementById('keep-training').checked")
    page.click("#keep-training")
    assert "keep_training=true" in page.evaluate("location.hash")
    again = browser.open(page.evaluate("location.href"))
    assert again.evaluate("document.getElementById('keep-training').checked")
    again.evaluate(
        """((whole) => {
            window.fetch = async (address, request) => {
                if (request?.method !== "POST") return whole(address, request);
                window.wish = JSON.parse(request.body);
                return new Response('{"error": "enough"}', { status: 409 });
            };
        })(window.fetch), 0"""
    )
    again.click("form button.primary")
    again.until("window.wish?.keep_training === true")
    at_home(again, studio)


def test_a_view_that_is_left_hears_no_more(browser, going):
    served, _, _ = going
    page = browser.open(served.at("#start"))
    page.evaluate(
        """((whole) => {
            window.heard = [];
            window.fetch = (address, request) => {
                if (address.endsWith("/events")) window.heard.push(request.signal);
                return whole(address, request);
            };
        })(window.fetch), 0"""
    )
    go(page, "#run/going", ".log")
    page.until("window.heard.length === 1")
    assert not page.evaluate("window.heard[0].aborted")
    go(page, "#start", "form")
    assert page.evaluate("window.heard.map((signal) => signal.aborted)") == [True]
    at_home(page, served)


def test_a_training_that_cannot_begin_says_why(browser, empty, tmp_path):
    missing = tmp_path / "nothing"
    page = browser.open(empty.at("#start?recipe=own&task=classify"))
    put(page, "data", missing)
    page.click("form button.primary")
    wait(
        page,
        "!!document.querySelector('.state.broken, .trouble:not([hidden])')?.textContent",
    )
    page.until("document.querySelector('.trouble')?.textContent.includes('nothing')")


def put(page, name, value):
    """Type a value into the field of a setting."""
    page.evaluate(
        f"""((input) => {{
            input.closest("details").open = true;
            input.value = {json.dumps(str(value))};
            input.dispatchEvent(new Event("input"));
        }})(document.getElementById("field-{name}")), 0"""
    )


def wait(page, expression, seconds=120.0):
    """A training starts a process of its own, which takes its time."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"not so: {expression}; {page.text('main')}"
        time.sleep(0.05)


# The form


def test_the_form_says_what_is_wrong_where_it_is_wrong(browser, studio, trained):
    page = browser.open(studio.at("#start?recipe=digits&task=classify"))
    put(page, "train.epochs", 2.5)
    page.click("form button.primary")
    page.until("!document.querySelector('.trouble').hidden")
    assert "train.epochs" in page.text(".trouble") and "2.5" in page.text(".trouble")
    assert page.evaluate("document.activeElement.id") == "field-train.epochs"
    put(page, "train.epochs", -3)  # a whole number, but not one of epochs: the server's sentence
    page.click("form button.primary")
    page.until("!document.querySelector('.trouble').hidden")
    assert "epochs" in page.text(".trouble")
    assert page.evaluate("location.hash").startswith("#start")
    assert sorted(path.name for path in trained.iterdir()) == ["first", "second"]


def test_a_setting_goes_back_and_a_link_brings_the_changes(browser, studio):
    page = browser.open(studio.at("#start?recipe=digits&task=classify&train.epochs=7"))
    assert page.evaluate("document.getElementById('field-train.epochs').value") == "7"
    assert "--train.epochs 7" in page.text(".command code")
    assert page.count(".field.changed") == 1
    page.click(".field.changed .back")
    assert page.count(".field.changed") == 0 and "epochs" not in page.text(".command code")
    assert "epochs" not in page.evaluate("location.hash")
    at_home(page, studio)


def test_a_setting_is_found_by_its_name(browser, studio):
    page = browser.open(studio.at("#start?recipe=digits&task=classify"))
    every = page.count(".field:not([hidden])")
    page.evaluate(
        "((e) => { e.value = 'dropout'; e.dispatchEvent(new Event('input')); })"
        "(document.querySelector('[type=search]')), 0"
    )
    few = page.each(".field:not([hidden]) input, .field:not([hidden]) select", "e.id")
    assert 0 < len(few) < every and any("dropout" in name for name in few)


# The shell


def test_the_theme_is_kept(browser, studio):
    page = browser.open(studio.at())
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click(".theme")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark
    again = browser.open(studio.at())
    assert again.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    again.evaluate("localStorage.clear()")


def test_the_way_shows_where_one_is_and_leads_back(browser, studio):
    page = browser.open(studio.at("#run/second"))
    assert page.each("[aria-current]") == ["Runs"]
    go(page, "#start", "form")
    assert page.each("[aria-current]") == ["Train"]
    assert page.evaluate("document.activeElement.id") == "content"
    page.evaluate("history.back()")
    page.until("document.querySelector('h1')?.textContent === 'second'")


@pytest.mark.parametrize("hash_", ["#runs?chosen=first,second", "#run/second", "#start"])
def test_nothing_is_wider_than_the_window(browser, studio, hash_):
    page = browser.open(studio.at(hash_), width=390)
    for width in (390, 768, 1280, 2560):
        page.resize(width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        sides = "getComputedStyle(e).visibility !== 'hidden' && e.getBoundingClientRect().right"
        beyond = [
            right for right in page.each("main a, main button, main input, main h1", sides) if right
        ]
        assert max(beyond) <= width
    at_home(page, studio)


def test_every_control_has_a_name(browser, studio):
    named = """(e.getAttribute("aria-label") || e.textContent.trim()
        || [...(e.labels ?? [])].map((l) => l.textContent).join(""))"""
    for hash_ in ("#runs?chosen=second", "#run/second", "#start"):
        page = browser.open(studio.at(hash_))
        names = page.each("button, a, input, select, [role=slider]", named)
        assert all(names), hash_
        page.close()


def test_a_studio_that_is_gone_is_said_to_be(browser, trained, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(trained / "first", root / "first")
    with Served(root) as served:
        page = browser.open(served.at("#run/first"))
    page.evaluate("(document.documentElement.dataset.drawn = '', location.hash = '#runs', 0)")
    page.until("!!document.querySelector('.failure')")
    assert "does not answer" in page.text(".failure")


# Streams, whatever way their bytes are cut


def test_events_are_heard_whatever_way_the_stream_is_cut(browser, studio):
    page = browser.open(studio.at())
    stream = (
        ': beat\n\nevent: metrics\ndata: {"epoch": 1}\n\nevent: log\r\ndata: "é\\nb"\r\n\r\n'
        "event: log\ndata: two\ndata: lines\n\n"
    )
    heard = page.evaluate(
        f"""(async () => {{
            const {{ listen }} = await import("studio/api");
            const bytes = new TextEncoder().encode({json.dumps(stream)});
            const all = [];
            const whole = window.fetch;
            for (const size of [1, 2, 3, 7, 1000]) {{
                window.fetch = async () => new Response(new ReadableStream({{
                    start(to) {{
                        for (let i = 0; i < bytes.length; i += size) {{
                            to.enqueue(bytes.slice(i, i + size));
                        }}
                        to.close();
                    }},
                }}));
                const got = [];
                await listen("/", {{}}, {{
                    metrics: (line) => got.push(line),
                    log: (text) => got.push(text),
                }});
                all.push(got);
            }}
            window.fetch = whole;
            return all;
        }})()"""
    )
    assert heard == [[{"epoch": 1}, "é\nb", "two\nlines"]] * 5
