"""How quick the studio is: a text of 512 tokens read by 12 layers of 12 heads, and ten clients.

    python tests/measure_studio.py --out results/studio-cpu.json

A run of that size is made, whose weights are as good as random, and a studio is started on it in a
process of its own. In Chromium the text's page is opened several times over, and then used: words
are pointed at, heads and forms chosen. Times are from the event to the second frame after it, so
that all that the event leads to has been drawn. Then ten clients ask two small runs for a minute.
"""

from __future__ import annotations

import argparse
import json
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import torch

import regard as rg
from browser import Browser, Page
from regard.hardware.machine import machine
from studio_clients import visit

TOKENS, LAYERS, HEADS = 512, 12, 12
WIDTH = 384  # numbers a token: 32 a head
OPENED = 7  # times that a page is, after the first
USED = 40  # times that each thing is done on it
WAIT = 60.0  # seconds for the studio to start
SETTLED = 2.0  # seconds after which a new window of Chromium has loaded what it is made of
CLIENTS, SECONDS = 10, 60.0  # that ask at once, and for how long
TALE = "the small grey mouse lives under the kitchen floor and comes out every night. "
TEXT = (TALE * 8)[:TOKENS]  # a letter is a token
SIZE = {"width": 1280, "height": 800}

# When the text can be seen with a head's map on it, in ms since the page was asked for.
USEFUL = """(async () => {
  const frame = () => new Promise(requestAnimationFrame);
  // Frames that nobody asked for would take the core that the model needs.
  const moment = () => new Promise((go) => setTimeout(go, 10));
  const drawn = (what) => document.querySelector(`.reading ${what}`);
  while (!drawn(".token[style*='--tint']") || !drawn("figure path") || !drawn(".cell")) {
    await moment();
  }
  await frame();
  await frame();
  return performance.now();
})()"""

# When the page was first there, and what the answer took: the model, its maps, their way here.
PARTS = """(() => {
  const [shown] = performance.getEntriesByName("first-contentful-paint");
  const found = performance.getEntriesByType("resource").find(({ name }) => /look$/.test(name));
  return [shown.startTime, found.responseEnd - found.startTime];
})()"""

# The times of so many acts in ms. An act is a function of its number, which may return another that
# says whether what was asked for has come.
TIMED = """(async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const act = ACT;
  const times = [];
  for (let i = 0; i < COUNT; i += 1) {
    await frame();
    const start = performance.now();
    const come = act(i) ?? (() => true);
    do {
      await frame();
      await frame();
    } while (!come());
    times.push(performance.now() - start);
  }
  return times;
})()"""

ACTS = {
    "point at a word": """(i) => {
      const word = document.querySelectorAll(".asked .token")[(61 * i + 100) % 512];
      word.dispatchEvent(new PointerEvent("pointerover", { bubbles: true, pointerType: "mouse" }));
    }""",
    "choose a head": """(i) => {
      const cell = document.querySelectorAll(".cell")[(31 * i + 5) % 144];
      const name = cell.ariaLabel.split(":")[0];
      cell.click();
      const label = () => document.querySelector(".texts figure [role=img]").ariaLabel;
      return () => `${label()},`.includes(`${name},`);
    }""",
    "choose a form": """(i) => {
      document.querySelectorAll(".forms button")[2 - (i % 2)].click();
      const drawn = i % 2 ? ".texts figure path" : ".texts figure canvas";
      return () => Boolean(document.querySelector(drawn));
    }""",
}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--out", type=Path, help="a file for the figures, as JSON")
    words.add_argument("--width", type=int, default=WIDTH, help="numbers a token")
    words.add_argument("--folder", type=Path, help="where the run is made, or lies already")
    asked = words.parse_args()
    with tempfile.TemporaryDirectory() as spare, Browser(Path(spare) / "browser") as browser:
        root = asked.folder or Path(spare) / "runs"
        make_run(root, asked.width)
        found = {
            "command": shlex.join(("python", "tests/measure_studio.py", *sys.argv[1:])),
            **machine(torch.device("cpu")),
            "browser": browser.running.version,
            "text": {"tokens": TOKENS, "layers": LAYERS, "heads": HEADS, "width": asked.width},
            "figures": {
                "studio": in_studio(browser, root),
                "saved page": in_saved_page(browser, root),
                "clients": at_once(Path(spare) / "small"),
            },
        }
    print(json.dumps(found, indent=1))
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def make_run(root: Path, width: int) -> None:
    """A run with the model, trained for a few steps only."""
    if (root / "large").exists():
        return
    root.mkdir(parents=True, exist_ok=True)
    text = root / "tale.txt"
    text.write_text(TALE * 120)
    rg.train(
        "language",
        data=text,
        epochs=1,
        batch_size=4,
        model={"width": width, "layers": LAYERS, "heads": HEADS, "context_length": TOKENS},
        tokenizer={"name": "char", "min_frequency": 1},
        out=root / "large",
        quiet=True,
        report=False,
        device="cpu",
    )


def make_small_runs(root: Path) -> None:
    """One run that reads images and one that writes, such as a class of students may have."""
    quiet = {"quiet": True, "report": False, "device": "cpu"}
    rg.train("classify", data="digits", epochs=2, out=root / "digits", **quiet)
    text = root / "tale.txt"
    text.write_text(TALE * 120)
    model = {"width": 64, "layers": 2, "heads": 4, "context_length": 64}
    letters = {"name": "char", "min_frequency": 1}
    options = {"batch_size": 16, "model": model, "tokenizer": letters, "epochs": 1}
    rg.train("language", data=text, out=root / "lines", **options, **quiet)


@contextmanager
def studio(root: Path) -> Iterator[str]:
    """The address of a studio in a process of its own, as people start it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "regard", "studio", "--root", str(root), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}/"
    try:
        wait_for(address)
        yield address
    finally:
        process.terminate()
        process.wait()


def wait_for(address: str) -> None:
    end = time.monotonic() + WAIT
    while True:
        try:
            urlopen(address).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def in_studio(browser: Browser, root: Path) -> dict[str, Any]:
    """The text's page in the studio: opened with the run not loaded, then loaded, then used."""
    with studio(root) as address:
        place = f"{address}#text/large?{urlencode({'text': TEXT})}"
        first, _ = opening(browser, place)
        times = [opening(browser, place, PARTS) for _ in range(OPENED)]
        there = [opening(browser, place, settled=True)[0] / 1000 for _ in range(OPENED)]
        page = browser.open(place, **SIZE)
        page.evaluate(USEFUL)
        found = {
            "first useful paint, the run not loaded, s": round(first / 1000, 3),
            "first paint, s": spread([shown / 1000 for _, (shown, _) in times]),
            "first useful paint, s": spread([useful / 1000 for useful, _ in times]),
            "of which the answer, s": spread([answer / 1000 for _, (_, answer) in times]),
            "first useful paint in a window that is open already, s": spread(there),
            **used(page),
        }
        browser.forget()
    return found


def in_saved_page(browser: Browser, root: Path) -> dict[str, Any]:
    """The page that `regard look` writes, which holds all maps."""
    path = root / "look.html"
    rg.load(root / "large", device="cpu").look(TEXT).write(path)
    times = [opening(browser, path.as_uri())[0] / 1000 for _ in range(OPENED)]
    page = browser.open(path.as_uri(), **SIZE)
    found = {
        "size, MB": round(path.stat().st_size / 1e6, 1),
        "first useful paint, s": spread(times),
        **used(page),
    }
    browser.forget()
    return found


def at_once(root: Path) -> dict[str, Any]:
    """Several clients on one studio: how long they waited, and what went wrong."""
    make_small_runs(root)
    with studio(root) as address:
        visits = visit(address, image="digits", text="lines", clients=CLIENTS, seconds=SECONDS)
    figures = visits.figures()
    return {
        "clients": CLIENTS,
        "seconds": SECONDS,
        "answers": sum(each["count"] for each in figures.values()),
        "errors": visits.troubles,
        "questions": figures,
    }


def opening(
    browser: Browser, address: str, also: str = "null", *, settled: bool = False
) -> tuple[float, Any]:
    """When a new page is useful, in ms, and what an expression says then.

    Chromium gives each new page a window, and draws that with pages of its own, which take more
    of both cores than ours does; with `settled` it is let finish before our page is asked for.
    """
    if settled:
        page = browser.open("about:blank", wait=False, listen=False, **SIZE)
        time.sleep(SETTLED)
        browser.do(page.tab.goto, address, wait_until="commit")
    else:
        page = browser.open(address, wait=False, listen=False, **SIZE)
    page.until("document.readyState !== 'loading' && location.protocol !== 'about:'")
    found = page.evaluate(USEFUL), page.evaluate(also)
    page.close()
    return found


def used(page: Page) -> dict[str, Any]:
    """How long each act takes until it is drawn, in ms."""
    return {
        f"{name}, ms": spread(page.evaluate(TIMED.replace("ACT", act).replace("COUNT", str(USED))))
        for name, act in ACTS.items()
    }


def spread(times: list[float]) -> dict[str, float]:
    """The median, and the slowest of twenty."""
    ordered = sorted(times)
    slowest = ordered[-1 - len(ordered) // 20]
    digits = 1 if ordered[-1] > 10 else 3
    median = statistics.median(ordered)
    return {"median": round(median, digits), "slowest of 20": round(slowest, digits)}


if __name__ == "__main__":
    main()
