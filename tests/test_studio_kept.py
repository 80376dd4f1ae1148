"""Maps that an answer does not carry are kept for its page, for as long as there is room."""

from base64 import b64decode

import numpy as np
import pytest

pytest.importorskip("starlette")

from starlette.applications import Starlette
from starlette.testclient import TestClient

from regard.inspection.head_maps import head_maps
from regard.inspection.summaries import HeadSummaries, Yardstick
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


def summaries(size, n=6):
    weights = np.tri(n) / np.arange(1, n + 1)[:, None]
    return HeadSummaries(Yardstick(["a"] * n, n, n, causal=True), lambda: [weights] * 3, size)


def test_what_heads_do_is_measured_when_it_is_asked_for():
    kept = Kept(limit=400, inline=10)
    small, late, large = summaries(10), summaries(100), summaries(101)
    found = kept.parked([small, late, large])
    assert found[0] is small and found[2] is large, "which would take up a fourth of the room"
    assert kept.size == 100 and list(found[1]) == ["address"]
    client = TestClient(Starlette(routes=kept.routes()))
    for _ in range(2):
        assert client.get(found[1]["address"]).json() == small.to_values()
    assert kept.size == 0, "the maps that were measured are let go"
    key = found[1]["address"].rpartition("/")[2]
    assert client.get(f"/api/maps/{key}/0").status_code == 404
    gone = client.get("/api/summaries/0123456789abcdef")
    assert gone.status_code == 404 and "no longer kept" in gone.text


def test_the_oldest_maps_go_first_and_the_newest_stay():
    one = maps()
    kept = Kept(limit=2 * one.size)
    keys = [kept.put(maps()) for _ in range(3)]
    assert list(kept.held) == keys[1:] and kept.size == 2 * one.size
    large = kept.put(maps(30))
    assert list(kept.held) == [large], "even if it is too large"
