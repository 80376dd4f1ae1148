"""A headless Chromium for tests, spoken to over the DevTools protocol with the standard library.

    with Browser(tmp_path) as browser:
        page = browser.open("file:///…/report.html", width=360)
        page.click("button"); page.press("ArrowRight")
        assert page.evaluate("document.title") == "…" and not page.errors

Chromium reads commands from file 3 and writes answers to file 4, as JSON that ends with a zero
byte: a pipe needs no port to agree on, and no WebSocket.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PATIENCE = 30.0  # seconds for anything that the browser was asked to do
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9, "Escape": 27}
KEYS |= {"Enter": 13, "Home": 36, "End": 35}


class Browser:
    """One Chromium with an empty profile in `folder`; what is saved lands in `folder/saved`."""

    def __init__(self, folder: Path) -> None:
        program = next(
            filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
        )
        self.saved = folder / "saved"
        self.saved.mkdir(parents=True)
        self.pages: dict[str, Page] = {}
        self.number, self.rest = 0, b""
        read_commands, self.commands = os.pipe()
        self.answers, write_answers = os.pipe()
        # Out of the way of 3 and 4, which the child's ends become.
        ends = [
            fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 64) for end in (read_commands, write_answers)
        ]

        def become_3_and_4() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            preexec_fn=become_3_and_4,
            close_fds=False,  # all others are closed by the system: Python opens files that way
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (read_commands, write_answers, *ends):
            os.close(end)
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.saved))

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.call("Browser.close")
            self.process.wait(PATIENCE)
        except (OSError, TimeoutError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)

    def open(
        self,
        address: str,
        *,
        width: int = 1000,
        height: int = 800,
        dark: bool = False,
        wait: bool = True,
    ) -> Page:
        """A page of this size, once it says that it is drawn."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session)
        for part in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{part}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        page.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        page.call("Emulation.setEmulatedMedia", features=[scheme, still])
        page.call("Page.navigate", url=address)
        if wait:
            page.until("document.documentElement?.dataset.drawn === 'yes'")
        return page

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """Send one command and wait for its answer, noting the events that come before it."""
        self.number += 1
        command: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while True:
            message = self.receive(end, method)
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            if page := self.pages.get(message.get("sessionId", "")):
                page.note(message["method"], message["params"])

    def receive(self, end: float, method: str) -> dict[str, Any]:
        while b"\0" not in self.rest:
            if not select.select([self.answers], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium did not answer {method} within {PATIENCE:.0f} s")
            if not (some := os.read(self.answers, 1 << 20)):
                raise RuntimeError(f"Chromium ended before it answered {method}")
            self.rest += some
        first, _, self.rest = self.rest.partition(b"\0")
        return json.loads(first)


class Page:
    """One tab: `errors` are what went wrong in it, `requests` the addresses that it asked for."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self.session = browser, session
        self.errors: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **parameters: Any) -> Any:
        return self.browser.call(method, self.session, **parameters)

    def note(self, method: str, event: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.errors.append(
                details.get("exception", details).get("description", details["text"])
            )
        elif method == "Runtime.consoleAPICalled" and event["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.errors += [str(a.get("description", a.get("value"))) for a in event["args"]]
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.errors.append(event["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript, awaited if it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['result'].get('description')}")
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait for the expression to hold."""
        end = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"after {PATIENCE:.0f} s not so: {expression}; {self.errors}")
            time.sleep(0.02)

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
        left, top = self.place(selector, x, y)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=left, y=top)

    def click(self, selector: str) -> None:
        left, top = self.place(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=left, y=top, button="left", clickCount=1
            )

    def focus(self, selector: str) -> None:
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")

    def press(self, key: str) -> None:
        code = KEYS[key]
        for kind in ("rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """What is seen now, or the whole page, as a PNG."""
        extra: dict[str, Any] = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            extra = {"captureBeyondViewport": True, "clip": {**size, "scale": 1}}
        shot = self.call("Page.captureScreenshot", format="png", **extra)
        path.write_bytes(base64.b64decode(shot["data"]))

    def saved(self, suffix: str) -> Path:
        """The file with this suffix that the page saved, once all of it is there."""
        end = time.monotonic() + PATIENCE
        while not (found := [*self.browser.saved.glob(f"*{suffix}")]):
            if time.monotonic() > end:
                raise TimeoutError(f"no file ending in {suffix} was saved")
            self.evaluate("1")  # lets events arrive
            time.sleep(0.05)
        return found[0]

    def close(self) -> None:
        self.call("Page.close")
        del self.browser.pages[self.session]
