"""Several people at the studio at once: each asks one thing after another, as fast as it answers.

    visits = visit("http://127.0.0.1:8347", image="digits", text="lines", clients=10, seconds=60)
    assert not visits.troubles

What is asked is what the pages ask: lists, live events, looks at an image and at a text, a text
gone on with, the formula, a mask, a claim of the lab.
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection
from io import BytesIO
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from PIL import Image

PATIENCE = 60.0  # seconds for one answer
LISTENED = 1.0  # seconds that live events are listened to
TEXTS = ("the cat sat", "a dog ran in the park!", "the mat.\nthe cat", "so")


@dataclass
class Visits:
    """Seconds that each kind of question took, and what went wrong."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    troubles: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, dict[str, float]]:
        """For each kind, how often it was asked, and how long the middle and the worst took."""
        return {
            kind: {
                "count": len(took),
                "median_ms": round(1000 * median(took), 1),
                "worst_ms": round(1000 * max(took), 1),
            }
            for kind, took in sorted(self.seconds.items())
        }


def visit(address: str, *, image: str, text: str, clients: int, seconds: float) -> Visits:
    """Ask a studio that serves runs of these names; one reads images, one writes texts."""
    visits, end = Visits(), time.monotonic() + seconds
    with ThreadPoolExecutor(clients) as threads:
        for each in [
            threads.submit(one_client, address, image, text, number, end, visits)
            for number in range(clients)
        ]:
            each.result()
    return visits


def one_client(
    address: str, image: str, text: str, number: int, end: float, visits: Visits
) -> None:
    draw, home = random.Random(number), urlsplit(address).netloc
    questions = asked_of(home, image, text, draw)
    order = list(questions)
    while time.monotonic() < end:
        draw.shuffle(order)
        for kind in order:
            start = time.monotonic()
            if start >= end:
                return
            try:
                questions[kind]()
                visits.seconds[kind].append(time.monotonic() - start)
            except Exception as trouble:
                visits.troubles.append(f"{kind}: {type(trouble).__name__}: {trouble}")


def asked_of(
    home: str, image: str, text: str, draw: random.Random
) -> dict[str, Callable[[], object]]:
    def get(path: str) -> bytes:
        return answer(home, "GET", path)

    def post(path: str, values: dict[str, Any]) -> bytes:
        return answer(home, "POST", path, json.dumps(values).encode(), "application/json")

    def attend() -> bytes:
        numbers = [[round(draw.gauss(0, 1), 2) for _ in range(2)] for _ in range(4)]
        table = {"q": numbers, "k": numbers, "v": numbers, "beta": 1, "mask": "causal", "row": 1}
        return post("/api/attend", table)

    return {
        "page": lambda: get("/"),
        "list of runs": lambda: get("/api/runs"),
        "a run": lambda: get(f"/api/runs/{image}"),
        "live events": lambda: listen(home, f"/api/runs/{text}/events"),
        "look at an image": lambda: answer(
            home, "POST", f"/api/runs/{image}/look", some_image(draw), "image/png"
        ),
        "look at a text": lambda: post(f"/api/runs/{text}/look", {"text": draw.choice(TEXTS)}),
        "write on": lambda: post(
            f"/api/runs/{text}/write", {"text": draw.choice(TEXTS), "length": 20}
        ),
        "formula": attend,
        "mask": lambda: post("/api/mask", {"mask": "causal & window(3) | sinks(1)", "n": 12}),
        "claim": lambda: post("/api/lab/softmax-jacobian", {"numbers": {}}),
    }


def answer(
    home: str, method: str, path: str, body: bytes | None = None, kind: str | None = None
) -> bytes:
    """The body of an answer that must be 200; a stream is read to its end."""
    connection = HTTPConnection(home, timeout=PATIENCE)
    try:
        headers = {"Origin": f"http://{home}"} | ({"Content-Type": kind} if kind else {})
        connection.request(method, path, body, headers)
        found = connection.getresponse()
        content = found.read()
        if found.status != 200 or b'"why":"error"' in content:
            raise ValueError(f"{method} {path} gave {found.status}: {content[:200]!r}")
        return content
    finally:
        connection.close()


def listen(home: str, path: str) -> None:
    """Live events for a moment, and away again without a word, as a closed tab is."""
    connection = HTTPConnection(home, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        found = connection.getresponse()
        if found.status != 200:
            raise ValueError(f"{path} gave {found.status}")
        end = time.monotonic() + LISTENED
        for line in lines_of(found):
            if line.startswith(b"event: state") or time.monotonic() > end:
                return
    finally:
        connection.close()


def lines_of(stream: Any) -> Iterator[bytes]:
    while line := stream.readline():
        yield line


def some_image(draw: random.Random) -> bytes:
    file = BytesIO()
    Image.frombytes("L", (8, 8), draw.randbytes(64)).save(file, "PNG")
    return file.getvalue()
