"""What happens in a run, told as it happens: server-sent events, read off its folder.

    event: metrics    one line of metrics.jsonl; also those so far. One with the epoch of an
                      earlier line replaces it: a run that goes on may begin an epoch anew
    event: log        text that was added to the log; at first the end of what there is
    event: state      training, stopped, done, broken

The data of each are JSON on one line. The stream ends when the run is done and all of it was told,
and when the run is broken or gone.
"""

from __future__ import annotations

import asyncio
import codecs
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from regard.run_folder import RunFolder
from regard.studio.runs import LOG, TROUBLES, Runs
from regard.visualization.document import plain

LOOK = 0.5  # seconds between two looks at the folder
BEAT = 15.0  # seconds after which something is said, so that a line that is dead is noticed


async def events_of(runs: Runs, request: Request) -> Response:
    """The events of the run that a request names."""
    name = request.path_params["id"]
    await run_in_threadpool(runs.find, name)
    headers = {"X-Accel-Buffering": "no"}  # a proxy between must not collect them
    return StreamingResponse(
        event_texts(runs, name), media_type="text/event-stream", headers=headers
    )


async def event_texts(runs: Runs, name: str, look: float = LOOK) -> AsyncIterator[str]:
    """The events as text, with a comment now and then."""
    seen, loop = Seen(runs, name), asyncio.get_running_loop()
    last = loop.time()
    while True:
        events = await run_in_threadpool(seen.news)
        for event in events:
            yield event
        if seen.ended:
            return
        if events:
            last = loop.time()
        elif loop.time() - last >= BEAT:
            yield ": still here\n\n"
            last = loop.time()
        await asyncio.sleep(look)


class Seen:
    """How far a run has been told to one listener."""

    def __init__(self, runs: Runs, name: str) -> None:
        self.runs, self.name = runs, name
        self.state, self.lines, self.stamp = "", 0, (0, 0)
        self.at: int | None = None  # bytes of the log that were read
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def ended(self) -> bool:
        return self.state in ("done", "broken")

    def news(self) -> list[str]:
        """What is new, as events."""
        # The state is asked first: what was written before a run was done is then read after.
        path: Path | None
        try:
            path, state = self.runs.state_now(self.name)
        except HTTPException:
            path, state = None, "broken"
        events = []
        if path is not None:
            folder = RunFolder(path)
            events += [event("metrics", line) for line in self.new_lines(folder)]
            text = self.new_text(folder)
            if state == "broken" and not text:
                text = self.runs.trainings.words(path)
            if text:
                events.append(event("log", text))
        if state != self.state:
            self.state = state
            events.append(event("state", state))
        return events

    def new_lines(self, folder: RunFolder) -> list[dict[str, Any]]:
        try:
            found = (folder.path / "metrics.jsonl").stat()
            if (found.st_mtime_ns, found.st_size) == self.stamp:
                return []
            self.stamp = found.st_mtime_ns, found.st_size
            lines = folder.metrics()
        except TROUBLES:
            return []
        new, self.lines = lines[min(self.lines, len(lines)) :], len(lines)
        return new

    def new_text(self, folder: RunFolder) -> str:
        path = folder.path / "log.txt"
        try:
            size = path.stat().st_size
            first = self.at is None or size < self.at  # or it was written anew
            begin = max(0, size - LOG) if first else self.at or 0
            with path.open("rb") as file:
                file.seek(begin)
                found = file.read(size - begin)
        except OSError:
            return ""
        self.at = begin + len(found)
        if first and begin:
            found = found.partition(b"\n")[2] or found  # whole lines only
        return self.decoder.decode(found)


def event(name: str, value: Any) -> str:
    """One event; JSON in ASCII has no line break in it."""
    return f"event: {name}\ndata: {json.dumps(plain(value), allow_nan=False)}\n\n"
