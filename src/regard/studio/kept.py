"""Maps that a page has not asked for yet: kept here, so that an answer need not carry them all.

    kept = Kept()
    kept.parked(document)          # of its larger maps, all but the first are addresses now
    GET /api/maps/KEY/3            # the fourth head's block, as the page unpacks it

All heads of a long text are megabytes, of which somebody looks at a few. The maps that were kept
first go first when they take more than `limit` bytes; the newest stay in any case.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from secrets import token_hex
from threading import Lock
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.look.head_maps import HeadMaps, in_base64

LIMIT = 256 << 20  # bytes
INLINE = 256 << 10  # bytes of maps that an answer carries at once


class Kept:
    """Maps by their keys, the newest last."""

    def __init__(self, limit: int = LIMIT, *, inline: int = INLINE) -> None:
        self.limit, self.inline = limit, inline
        self.maps: OrderedDict[str, HeadMaps] = OrderedDict()
        self.guard = Lock()  # answers are made in threads

    def parked(self, value: Any) -> Any:
        """The same value, with addresses in place of larger maps."""
        if isinstance(value, HeadMaps) and value.size > self.inline:
            first = in_base64(value.blocks[0])  # which is looked at in any case
            return {**value.outline(), "first": first, "address": f"/api/maps/{self.put(value)}"}
        if isinstance(value, Mapping):
            return {key: self.parked(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.parked(item) for item in value]
        return value

    def put(self, maps: HeadMaps) -> str:
        """Keep maps under a key that no page of an earlier studio can have."""
        key = token_hex(8)
        with self.guard:
            self.maps[key] = maps
            while len(self.maps) > 1 and self.size > self.limit:
                self.maps.popitem(last=False)
        return key

    @property
    def size(self) -> int:
        return sum(maps.size for maps in self.maps.values())

    def block(self, key: str, head: int) -> bytes:
        """A head's block, for as long as it is kept."""
        with self.guard:
            maps = self.maps.get(key)
        if maps is None:
            raise HTTPException(404, "these maps are no longer kept: ask about the text again")
        if head >= len(maps.blocks):
            raise HTTPException(404, f"there are {len(maps.blocks)} maps, and none numbered {head}")
        return maps.blocks[head]

    def routes(self) -> list[Route]:
        async def block(request: Request) -> Response:
            found = self.block(request.path_params["key"], request.path_params["head"])
            return Response(found, media_type="application/octet-stream")

        return [Route("/api/maps/{key}/{head:int}", block)]
