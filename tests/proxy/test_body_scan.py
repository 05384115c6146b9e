"""A body that is scanned keeps nobody waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from codec.blocks import Blocks
from codec.rewrite import USAGE_REWRITE
from codec.scan import RequestScanner
from codec.whole_scan import MAX_WHOLE_BYTES, scan_request
from proxy.body_scan import SCAN_BYTES
from proxy.clock import SystemClock
from proxy.rejections import MAX_KEY_BYTES, Rejections
from tests.proxy.test_gathered_body import Reads, make

LONG = b"[]," * (2 * MAX_WHOLE_BYTES)
BODY = b'{"messages":[%b0],"stream":true}' % LONG


@pytest.mark.parametrize("how", ["at once", "in two reads", "in small reads"])
async def test_others_have_their_turn_while_a_body_is_scanned(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it comes: of a long body nothing more is scanned in one turn of the loop."""
    fed: Counter[int] = Counter()
    turn = 0
    feed = RequestScanner.feed

    def note(scanner: RequestScanner, data: bytes) -> None:
        fed[turn] += len(data)
        feed(scanner, data)

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    step = {"at once": len(BODY), "in two reads": len(BODY) // 2, "in small reads": 5_000}[how]
    reads = [BODY[start : start + step] for start in range(0, len(BODY), step)]
    exchange, _ = make(Reads(reads, whole=how == "at once"))
    monkeypatch.setattr(RequestScanner, "feed", note)
    beside = asyncio.ensure_future(others())
    _, _, scan = await exchange._read_body()
    beside.cancel()
    assert scan == scan_request(BODY)
    assert sum(fed.values()) == len(BODY) * 2  # once more by the line above
    assert max(size for at, size in fed.items() if at != turn) <= SCAN_BYTES


async def test_a_short_body_is_scanned_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What most chats are: nothing is waited for."""

    def refuse(_seconds: float) -> None:
        raise AssertionError("it waited")

    body = b'{"messages":"%b","stream":true}' % (b"x" * (MAX_WHOLE_BYTES - 100))
    exchange, _ = make(Reads([body], whole=True))
    monkeypatch.setattr("proxy.body_scan.asyncio.sleep", refuse)
    assert (await exchange._read_body())[2] == scan_request(body)


class Copied(Blocks):
    """Knows how much of it was copied."""

    __slots__ = ("size_bytes",)

    def __init__(self, body: bytes) -> None:
        super().__init__([body])
        self.size_bytes = 0

    def __getitem__(self, part: slice) -> bytes:
        found = super().__getitem__(part)
        self.size_bytes += len(found)
        return found


@pytest.mark.parametrize("name", ["model", "stream", "stream_options"])
def test_a_name_that_is_long_is_not_copied(name: str) -> None:
    """Nor whatever else stands where a short value belongs; and the request is what it was."""
    exchange: Any = make(Reads([]))[0]
    exchange._rejections = Rejections(SystemClock())
    members = {"model": b'"m"', "stream": b"true", name: b"[%b0]" % LONG}
    text = b",".join(b'"%b":%b' % (key.encode(), value) for key, value in members.items())
    body = b"{%b}" % text
    copied = Copied(body)
    rewrite = exchange._rewrite(copied, scan_request(body))
    assert copied.size_bytes < MAX_WHOLE_BYTES
    assert rewrite.rewrites == ((USAGE_REWRITE,) if name == "model" else ())
    assert exchange._rejection_key is None or len(exchange._rejection_key[2]) == MAX_KEY_BYTES + 1
