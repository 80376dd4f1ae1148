"""Maps that an answer does not carry are kept for its page, for as long as there is room."""

from base64 import b64decode

import numpy as np
import pytest

pytest.importorskip("starlette")

from starlette.applications import Starlette
from starlette.testclient import TestClient

from regard.look.head_maps import head_maps
from regard.studio.kept import Kept


def maps(count=3, n=6):
    return head_maps(np.random.default_rng(0).random((count, n, n)), causal=False)


def test_larger_maps_are_addresses_and_smaller_ones_stay():
    small, large = maps(1), maps(9)
    kept = Kept(inline=small.size)
    document = {"sections": [{"data": {"items": [{"maps": small}, {"maps": large, "name": "a"}]}}]}
    items = kept.parked(document)["sections"][0]["data"]["items"]
    assert items[0]["maps"] is small and items[1]["name"] == "a"
    found = items[1]["maps"]
    assert "base64" not in found and found["small"] == large.outline()["small"]
    assert b64decode(found["first"]) == large.blocks[0], "which is looked at at once"
    client = TestClient(Starlette(routes=kept.routes()))
    for head in (0, 8):
        assert client.get(f"{found['address']}/{head}").content == large.blocks[head]
    assert client.get(f"{found['address']}/9").status_code == 404
    assert client.get("/api/maps/0123456789abcdef/0").status_code == 404


def test_the_oldest_maps_go_first_and_the_newest_stay():
    one = maps()
    kept = Kept(limit=2 * one.size)
    keys = [kept.put(maps()) for _ in range(3)]
    assert list(kept.maps) == keys[1:] and kept.size == 2 * one.size
    large = kept.put(maps(30))
    assert list(kept.maps) == [large], "even if it is too large"
