"""How the studio listens: to whom it waits how long, and to how many at once.

    uvicorn.Server(config_for(app)).run(sockets=[listener])

A connection that says nothing, or says it a letter at a time, holds a place that a visitor wants.
So each has a stated time to send the head of a request, to send its body, and to take an answer;
uvicorn itself ends those that stay open after an answer and are not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

Waiting = Literal["head", "body", "answer"]
SECONDS: Mapping[Waiting, float] = MappingProxyType({"head": 10.0, "body": 30.0, "answer": 30.0})
IDLE = 5  # seconds that a connection stays open after an answer
CONNECTIONS = 100  # at once: beyond them who was silent for longest is dropped, or told 503


def config_for(app: Any, *, seconds: Mapping[Waiting, float] = SECONDS) -> uvicorn.Config:
    """How a server is set that drops those who are slow."""
    return uvicorn.Config(
        app,
        http=type("Patient", (PatientProtocol,), {"seconds": seconds}),
        ws="none",
        log_level="critical",
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS + 1,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=1,  # a page that listens would keep it up for ever
    )


class PatientProtocol(H11Protocol):
    """HTTP over one connection, which is dropped when what it waits for takes too long."""

    seconds: Mapping[Waiting, float] = SECONDS
    waiting: Waiting | None = None  # for what the other side has to do
    since = 0.0
    deadline: asyncio.TimerHandle | None = None
    stalled: asyncio.TimerHandle | None = None
    answered = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.wait_for("head")
        self.make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.settle()

    def on_response_complete(self) -> None:
        self.answered = True
        super().on_response_complete()
        self.settle()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.stalled is None:
            self.stalled = self.loop.call_later(self.seconds["answer"], self.drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        cancel(self.stalled)
        self.stalled = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.wait_for(None)
        cancel(self.stalled)

    def settle(self) -> None:
        """Wait for whatever comes next."""
        theirs = self.conn.their_state
        if self.transport.is_closing() or (self.answered and self.unsent):
            self.wait_for("answer")  # which lies there until it is taken
        elif theirs is h11.SEND_BODY:
            self.wait_for("body")
        elif theirs is h11.IDLE and (not self.answered or self.conn.trailing_data[0]):
            self.wait_for("head")
        else:
            self.wait_for(None)

    @property
    def unsent(self) -> int:
        return self.transport.get_write_buffer_size()

    def wait_for(self, what: Waiting | None) -> None:
        """Begin to wait; for what is waited for already, no longer than was said at first."""
        if what == self.waiting:
            return
        self.waiting, self.since = what, self.loop.time()
        cancel(self.deadline)
        if what is not None:
            self.deadline = self.loop.call_later(self.seconds[what], self.give_up, what)

    def give_up(self, what: Waiting) -> None:
        if what == "answer" and not self.unsent and not self.transport.is_closing():
            self.waiting = None  # it was taken meanwhile
            self.settle()
        else:
            self.drop()

    def drop(self) -> None:
        self.transport.abort()

    def make_room(self) -> None:
        """Drop who has been silent for longest, so that who asks something is served."""
        others = [each for each in self.connections if isinstance(each, PatientProtocol)]
        there = [each for each in others if not each.transport.is_closing()]
        silent = [each for each in there if each.waiting == "head" and each is not self]
        if silent and len(there) > CONNECTIONS:
            min(silent, key=lambda each: each.since).drop()


def cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
