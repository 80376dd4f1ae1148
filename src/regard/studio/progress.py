"""Work that may take long, told as it goes: server-sent events that end with its result.

    event: progress   {done, of, words}: how far it is, `of` what (null if that is not known)
    event: piece      {text}: so much more of an answer in words is sure
    event: result     the answer, as it would be without events
    event: error      {error}: a sentence, instead of the result

The work runs in a thread when its run's turn comes, and says what it does by calling `tell`. Once
nobody listens any more that call raises AskerGone, so the work ends at the next thing it says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from threading import Event
from typing import Any

from starlette.responses import StreamingResponse

from regard.errors import UserError
from regard.runs.run import Run
from regard.studio.events import event
from regard.studio.loaded import AskerGone, Loaded

log = logging.getLogger("regard.studio")

Tell = Callable[[str, dict[str, Any]], None]  # the name of an event, and what it says
Question = Callable[[Run, Tell], str]  # what is asked of a run; the answer is JSON


def silent(name: str, values: dict[str, Any]) -> None:
    """For work that nobody follows."""


def progress(tell: Tell, words: str, done: int = 0, of: int | None = None) -> None:
    """Say what is being done, and how far it is."""
    tell("progress", {"done": done, "of": of, "words": words})


class Telling:
    """What work in a thread says, for the event loop to hand on."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.news: asyncio.Queue[str | None] = asyncio.Queue()
        self.gone = Event()

    def __call__(self, name: str, values: dict[str, Any]) -> None:
        if self.gone.is_set():
            raise AskerGone
        self.loop.call_soon_threadsafe(self.news.put_nowait, event(name, values))


def event_stream(loaded: Loaded, path: Path, ask: Question) -> StreamingResponse:
    """The events of one question, from the moment it is asked."""
    headers = {"X-Accel-Buffering": "no"}  # a proxy between must not collect them
    stream = events_of(loaded, path, ask)
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def events_of(loaded: Loaded, path: Path, ask: Question) -> AsyncIterator[str]:
    tell = Telling()

    def work() -> str:
        if not loaded.holds(path):
            progress(tell, "loading the model")
        return ask(loaded.run_of(path), tell)

    if loaded.turn_of(path).locked():
        progress(tell, "waiting: the model answers another question")
    under = asyncio.create_task(loaded.within(path, work))
    under.add_done_callback(lambda _: tell.news.put_nowait(None))
    try:
        while (news := await tell.news.get()) is not None:
            yield news
        yield f"event: result\ndata: {under.result()}\n\n"
    except (UserError, ValueError, OverflowError) as trouble:
        yield event("error", {"error": str(trouble)})
    except Exception:
        log.exception("%s could not answer", path)
        yield event("error", {"error": "the studio failed at this; its terminal says why"})
    finally:  # also when the connection is closed: this is cancelled then
        tell.gone.set()
        under.cancel()
