"""What a page has not asked for yet: kept here, so that an answer need not carry it all.

    kept = Kept()
    kept.parked(document)          # of its larger maps, all but the first are addresses now
    GET /api/maps/KEY/3            # the fourth head's block, as the page unpacks it
    GET /api/summaries/KEY         # what each head does, measured now

All heads of a long text are megabytes, of which somebody looks at a few, and to measure what they
do takes time in which the page can draw. What was kept first goes first when all takes more than
`limit` bytes; the newest stays in any case.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from secrets import token_hex
from threading import Lock
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from regard.inspection.head_maps import HeadMaps, in_base64
from regard.inspection.summaries import HeadSummaries, HeadSummary

LIMIT = 256 << 20  # bytes
INLINE = 256 << 10  # bytes of maps that an answer carries at once


class Kept:
    """Maps and summaries of heads by their keys, the newest last."""

    def __init__(self, limit: int = LIMIT, *, inline: int = INLINE) -> None:
        self.limit, self.inline = limit, inline
        self.held: OrderedDict[str, HeadMaps | HeadSummaries] = OrderedDict()
        self.guard = Lock()  # answers are made in threads

    def parked(self, value: Any) -> Any:
        """The same value, with addresses in place of larger maps and of what is to be measured."""
        if isinstance(value, HeadMaps) and value.size > self.inline:
            first = in_base64(value.blocks[0])  # which is looked at in any case
            return {**value.outline(), "first": first, "address": f"/api/maps/{self.put(value)}"}
        # What would take much of the room until it is measured is measured at once.
        if isinstance(value, HeadSummaries) and self.inline < value.size <= self.limit // 4:
            return {"address": f"/api/summaries/{self.put(value)}"}
        if isinstance(value, Mapping):
            return {key: self.parked(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.parked(item) for item in value]
        return value

    def put(self, value: HeadMaps | HeadSummaries) -> str:
        """Keep a value under a key that no page of an earlier studio can have."""
        key = token_hex(8)
        with self.guard:
            self.held[key] = value
            while len(self.held) > 1 and self.size > self.limit:
                self.held.popitem(last=False)
        return key

    @property
    def size(self) -> int:
        return sum(value.size for value in self.held.values())

    def block(self, key: str, head: int) -> bytes:
        """A head's block, for as long as it is kept."""
        maps = self.find(key)
        if not isinstance(maps, HeadMaps):
            raise HTTPException(404, "these maps are no longer kept: ask about the text again")
        if head >= len(maps.blocks):
            raise HTTPException(404, f"there are {len(maps.blocks)} maps, and none numbered {head}")
        return maps.blocks[head]

    def summaries(self, key: str) -> list[HeadSummary]:
        """What each head does, for as long as it is kept. To be called in a thread."""
        found = self.find(key)
        if not isinstance(found, HeadSummaries):
            raise HTTPException(404, "these numbers are no longer kept: ask about the text again")
        return found.to_values()

    def find(self, key: str) -> HeadMaps | HeadSummaries | None:
        with self.guard:
            return self.held.get(key)

    def routes(self) -> list[Route]:
        async def block(request: Request) -> Response:
            found = self.block(request.path_params["key"], request.path_params["head"])
            return Response(found, media_type="application/octet-stream")

        async def summaries(request: Request) -> Response:
            return JSONResponse(await run_in_threadpool(self.summaries, request.path_params["key"]))

        return [
            Route("/api/maps/{key}/{head:int}", block),
            Route("/api/summaries/{key}", summaries),
        ]
