"""A headless Chromium for tests, driven by Playwright.

    with Browser(tmp_path) as browser:
        page = browser.open("file:///…/report.html", width=360)
        page.click("button"); page.press("ArrowRight")
        assert page.evaluate("document.title") == "…" and not page.errors

The browser is the system's: Playwright brings none along. Its calls wait in a thread of their own,
since a thread that waits for them can run no event loop besides, and some tests have one.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from playwright.sync_api import ConsoleMessage, Download, sync_playwright
from playwright.sync_api import Page as Tab

PATIENCE = 30.0  # seconds for anything that the browser was asked to do
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage")


class Browser:
    """One Chromium with an empty profile; what its pages save lands in `folder/saved`."""

    def __init__(self, folder: Path) -> None:
        names = ("chromium", "chromium-browser", "google-chrome")
        self.saved = folder / "saved"
        self.saved.mkdir(parents=True)
        self.thread = ThreadPoolExecutor(1, "browser")
        self.playwright = self.do(lambda: sync_playwright().start())
        self.running = self.do(
            lambda: self.playwright.chromium.launch(
                executable_path=next(filter(None, map(shutil.which, names))), args=FLAGS
            )
        )
        self.begin()

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.do(self.running.close)
            self.do(self.playwright.stop)
        finally:
            self.thread.shutdown()

    def begin(self) -> None:
        """Let pages share what the browser keeps, as the tabs of one person do."""
        self.context = self.do(self.running.new_context, reduced_motion="reduce")

    def forget(self) -> None:
        """Close all pages and lose what they kept and saved."""
        self.do(self.context.close)
        for path in self.saved.iterdir():
            path.unlink()
        self.begin()

    def do(self, act: Callable[..., Any], *values: Any, **options: Any) -> Any:
        """Call something of Playwright's where it may be called."""
        return self.thread.submit(act, *values, **options).result(2 * PATIENCE)

    def open(
        self,
        address: str,
        *,
        width: int = 1000,
        height: int = 800,
        dark: bool = False,
        wait: bool = True,
        listen: bool = True,
    ) -> Page:
        """A page of this size, once it says that it is drawn.

        To `listen` to all that it asks for takes cores that a page which is timed should have.
        """
        page = Page(self, self.do(self.context.new_page))
        self.do(page.prepare, width, height, dark, listen)
        self.do(page.tab.goto, address, wait_until="commit")
        if wait:
            page.until("document.documentElement?.dataset.drawn === 'yes'")
        return page


class Page:
    """One tab: `errors` are what went wrong in it, `requests` the addresses that it asked for."""

    def __init__(self, browser: Browser, tab: Tab) -> None:
        self.browser, self.tab = browser, tab
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.downloads: list[Download] = []

    def prepare(self, width: int, height: int, dark: bool, listen: bool) -> None:
        tab = self.tab
        tab.set_default_timeout(1000 * PATIENCE)
        tab.set_viewport_size({"width": width, "height": height})
        tab.emulate_media(color_scheme="dark" if dark else "light")
        if not listen:
            return
        tab.on("console", self.note)
        tab.on("pageerror", lambda error: self.errors.append(error.stack or error.message))
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.on("download", lambda download: self.downloads.append(download))
        self.protocol = tab.context.new_cdp_session(tab)

    def note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.errors.append(message.text)

    def call(self, method: str, **parameters: Any) -> Any:
        """Something that Playwright has no word for, in the browser's own protocol."""
        return self.browser.do(self.protocol.send, method, parameters)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript, awaited if it is a promise."""
        return self.browser.do(self.tab.evaluate, expression)

    def until(self, expression: str) -> None:
        """Wait for the expression to hold."""
        end = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"after {PATIENCE:.0f} s not so: {expression}; {self.errors}")
            time.sleep(0.02)

    def resize(self, width: int, height: int = 800) -> None:
        """Give the window another size, and wait until that is drawn."""
        self.browser.do(self.tab.set_viewport_size, {"width": width, "height": height})
        self.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")

    def text(self, selector: str = "body") -> str:
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def each(self, selector: str, what: str = "e.textContent") -> list[Any]:
        """What an expression says of each such element e."""
        elements = f"[...document.querySelectorAll({json.dumps(selector)})]"
        return self.evaluate(f"{elements}.map((e) => {what})")

    def count(self, selector: str) -> int:
        return len(self.each(selector, "0"))

    def box(self, selector: str) -> list[float]:
        """Left, top, width and height of the first such element on the screen."""
        sides = "((b) => [b.left, b.top, b.width, b.height])(e.getBoundingClientRect())"
        return self.each(selector, sides)[0]

    def place(self, selector: str, x: float = 0.5, y: float = 0.5) -> tuple[float, float]:
        """Scroll to the first such element; where it is then, at these shares of its box."""
        self.evaluate(
            f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})"
        )
        left, top, width, height = self.box(selector)
        return left + x * width, top + y * height

    def hover(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        self.browser.do(self.tab.mouse.move, *self.place(selector, x, y))

    def click(self, selector: str) -> None:
        self.browser.do(self.tab.mouse.click, *self.place(selector))

    def focus(self, selector: str) -> None:
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")

    def press(self, key: str) -> None:
        self.browser.do(self.tab.keyboard.press, key)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """What is seen now, or the whole page, as a PNG."""
        self.browser.do(self.tab.screenshot, path=path, full_page=whole)

    def saved(self, suffix: str) -> Path:
        """The file with this suffix that the page saved, once all of it is there."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.evaluate("1")  # lets events arrive
            for download in self.downloads:
                if download.suggested_filename.endswith(suffix):
                    path = self.browser.saved / download.suggested_filename
                    self.browser.do(download.save_as, path)
                    return path
            time.sleep(0.05)
        raise TimeoutError(f"no file ending in {suffix} was saved")

    def close(self) -> None:
        self.evaluate("1")  # what went wrong until now arrives before this is answered
        self.browser.do(self.tab.close)
