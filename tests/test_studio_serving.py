"""Connections to the studio: slow ones are dropped after a stated time, and others served."""

import asyncio
import http.client
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from regard.studio import serving
from regard.studio.app import make_app
from regard.studio.command import Options, listening, studio
from regard.studio.serving import CONNECTIONS, SECONDS, PatientProtocol, config_for

HEAD, BODY, ANSWER = 0.4, 0.8, 0.8  # seconds in this test
LATE = 3.0  # by when a connection is dropped on a machine that is busy
LARGE = 40_000_000  # bytes, more than any buffer between takes


class Served:
    """A small application on a free port, in a thread, and what it saw."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        routes = [
            Route("/", self.hello, methods=["GET", "POST"]),
            Route("/read", self.read, methods=["POST"]),
            Route("/large", self.large),
            Route("/listen", self.listen),
        ]
        config = config_for(
            Starlette(routes=routes), seconds={"head": HEAD, "body": BODY, "answer": ANSWER}
        )
        self.listener = listening("127.0.0.1", 0)
        self.port = self.listener.getsockname()[1]
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True
        )

    async def hello(self, request: Request) -> Response:
        return PlainTextResponse("hello")

    async def read(self, request: Request) -> Response:
        try:
            return PlainTextResponse(str(len(await request.body())))
        except ClientDisconnect:
            self.heard.append("gone in the midst of a body")
            raise

    async def large(self, request: Request) -> Response:
        return PlainTextResponse("x" * LARGE)

    async def listen(self, request: Request) -> Response:
        async def words() -> AsyncIterator[str]:
            yield "data: first\n\n"
            await asyncio.sleep(1.5 * max(HEAD, BODY, ANSWER))
            yield "data: last\n\n"

        return StreamingResponse(words(), media_type="text/event-stream")

    def connect(self, text: bytes = b"") -> socket.socket:
        link = socket.create_connection(("127.0.0.1", self.port))
        link.sendall(text)
        return link

    def ask(self, method: str = "GET", path: str = "/", body: str | None = None) -> tuple[int, str]:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            link.request(method, path, body)
            answer = link.getresponse()
            return answer.status, answer.read().decode()
        finally:
            link.close()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    made.thread.start()
    while not made.server.started:
        time.sleep(0.01)
    yield made
    made.server.should_exit = True
    made.thread.join(10)


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + 4 * LATE
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def dropped(link: socket.socket, letters: bytes) -> float:
    """When a connection is closed on which a letter comes now and then."""
    link_open = True
    link.settimeout(0.05)
    for letter in (letters * 1000)[: int(LATE / 0.05)]:
        try:
            link.sendall(bytes([letter]))
            while link.recv(10_000):
                pass
            link_open = False
        except TimeoutError:
            continue
        except OSError:
            link_open = False
        if not link_open:
            break
    link.close()
    assert not link_open, f"still open after {LATE} s"
    return time.monotonic()


SLOW = {
    "nothing": (b"", b"", HEAD),
    "a head": (b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"x", HEAD),
    "a second head": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nX: ", b"x", HEAD),
    "a body": (b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n", b"x", BODY),
    "a body in chunks": (
        b"POST /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1\r\nx\r\n",
        BODY,
    ),
    "a body that nobody reads": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n",
        b"x",
        BODY,
    ),
}


def test_slow_connections_are_dropped_and_others_served_meanwhile(served: Served) -> None:
    began = time.monotonic()
    links = {name: (served.connect(text), more) for name, (text, more, _) in SLOW.items()}
    found: dict[str, Any] = {}

    def watch(name: str) -> None:
        link, more = links[name]
        try:
            found[name] = (dropped(link, more) if more else waited(link)) - began
        except AssertionError as trouble:
            found[name] = trouble

    threads = [threading.Thread(target=watch, args=(name,)) for name in SLOW]
    for thread in threads:
        thread.start()
    assert served.ask() == (200, "hello")
    assert served.ask("POST", "/read", "four") == (200, "4")
    for thread in threads:
        thread.join(2 * LATE)
    for name, (_, _, seconds) in SLOW.items():
        assert isinstance(found[name], float), f"{name}: {found[name]}"
        assert found[name] > seconds * 0.9, name  # and not at once
    until(lambda: served.heard == ["gone in the midst of a body"] * 2)


def waited(link: socket.socket) -> float:
    """When a connection is closed on which nothing is said."""
    link.settimeout(LATE)
    assert link.recv(100) == b""
    return time.monotonic()


def test_an_answer_that_nobody_takes_is_given_up(served: Served) -> None:
    link = served.connect(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    connections = served.server.server_state.connections
    until(lambda: connections)
    until(lambda: not connections)
    got = 0
    link.settimeout(LATE)
    try:
        while more := link.recv(1_000_000):
            got += len(more)
    except ConnectionResetError:
        pass
    link.close()
    assert got < LARGE
    assert len(served.ask(path="/large")[1]) == LARGE  # for who takes it


def test_who_listens_without_a_word_is_not_slow(served: Served) -> None:
    assert served.ask(path="/listen")[1] == "data: first\n\ndata: last\n\n"


def test_beyond_so_many_connections_the_silent_ones_give_way(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "CONNECTIONS", 5)
    began = time.monotonic()
    links = [served.connect() for _ in range(30)]
    assert served.ask() == (200, "hello")
    if time.monotonic() - began < HEAD:  # on a machine that is not busy, before they would go
        assert len(served.server.server_state.connections) <= 5
    for link in links:
        link.close()


def test_where_all_connections_are_in_use_a_visitor_is_told(served: Served) -> None:
    assert served.server.config.limit_concurrency == CONNECTIONS + 1
    served.server.config.limit_concurrency = 3
    heads = b"GET /listen HTTP/1.1\r\nHost: x\r\n\r\n"
    links = [served.connect(heads) for _ in range(2)]
    for link in links:
        assert link.recv(1000).startswith(b"HTTP/1.1 200")
    assert served.ask()[0] == 503
    for link in links:
        link.close()


def test_the_command_serves_with_these_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Any] = []

    class Server:
        def __init__(self, config: uvicorn.Config) -> None:
            taken.append(config)

        def run(self, sockets: list[socket.socket]) -> None:
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGHUP)
    monkeypatch.setattr(uvicorn, "Server", Server)
    studio(Options(root=tmp_path, port=0, open_browser=False))
    assert signal.getsignal(signal.SIGHUP) is before
    (config,) = taken
    assert issubclass(config.http, PatientProtocol)
    assert config.http.seconds == SECONDS == {"head": 10.0, "body": 30.0, "answer": 30.0}
    assert config.limit_concurrency == CONNECTIONS + 1


def test_a_visitor_who_leaves_in_the_midst_is_no_fault_of_the_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = "http://127.0.0.1:8347"

    async def gone(_: Request) -> None:
        raise ClientDisconnect

    app = make_app(tmp_path)
    monkeypatch.setattr("regard.studio.app.table", gone)
    with TestClient(app, base_url=home, raise_server_exceptions=False) as client:
        client.post("/api/runs", json={})
    assert "failed" not in caplog.text
