"""A body that is scanned keeps nobody waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from codec.chat.rewrite import REQUEST_MEMBERS, USAGE_REWRITE
from codec.text.blocks import Blocks
from codec.text.scan import MAX_WHOLE_BYTES, Problem, RequestScanner, scan_request
from proxy.clock import SystemClock
from proxy.downstream.request_parser import MAX_PIECE_BYTES
from proxy.relay.body_scan import SCAN_BYTES, BodyScans
from proxy.relay.rejections import MAX_KEY_BYTES, Rejections
from tests.proxy.test_gathered_body import Reads, make

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LONG = b"[]," * (2 * MAX_WHOLE_BYTES)
BODY = b'{"messages":[%b0],"stream":true}' % LONG


@pytest.fixture
async def fed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Counter[int]]:
    """How many bytes were scanned in each turn of the loop."""
    turn = 0
    found: Counter[int] = Counter()
    feed = RequestScanner.feed

    def note(scanner: RequestScanner, data: bytes) -> None:
        found[turn] += len(data)
        feed(scanner, data)

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    monkeypatch.setattr(RequestScanner, "feed", note)
    yield found
    beside.cancel()


@pytest.mark.parametrize("size", [len(BODY), len(BODY) // 2 + 1, 5_000])
async def test_others_have_their_turn_while_a_body_is_scanned(fed: Counter[int], size: int) -> None:
    """However it comes: of a long body nothing more is scanned in one turn of the loop."""
    reads = [BODY[start : start + size] for start in range(0, len(BODY), size)]
    exchange, _ = make(Reads(reads, whole=len(reads) == 1))
    _, _, scan = await exchange._read_body()
    assert scan.value(BODY, "stream") == b"true"
    assert fed.total() == len(BODY)
    assert max(fed.values()) <= SCAN_BYTES


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            b"{%b}" % b",".join(b'"%d":[%b0]' % (number, b"[1]," * 40) for number in range(300)),
            Problem.TOO_MANY_MEMBERS,
        ),
        (BODY[: MAX_WHOLE_BYTES - 1], Problem.TRUNCATED),
    ],
)
async def test_others_have_their_turn_while_a_short_body_is_followed(
    fed: Counter[int], body: bytes, problem: Problem
) -> None:
    """One of which the parser does not tell the members."""
    assert SCAN_BYTES < len(body) < MAX_WHOLE_BYTES
    assert (await BodyScans().scan(body, REQUEST_MEMBERS)).problem is problem
    assert max(fed.values()) <= SCAN_BYTES


async def test_bodies_that_come_together_share_a_turn(fed: Counter[int]) -> None:
    """Ten of them keep others waiting no longer than one."""
    scans = BodyScans()
    await asyncio.gather(*(scans.scan(BODY, REQUEST_MEMBERS) for _ in range(10)))
    assert fed.total() == 10 * len(BODY)
    assert max(fed.values()) <= SCAN_BYTES


async def test_a_short_body_is_scanned_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What most chats are: nothing is waited for."""

    def refuse(_seconds: float) -> None:
        raise AssertionError("it waited")

    body = b'{"messages":"%b","stream":true}' % (b"x" * (MAX_WHOLE_BYTES - 100))
    exchange, _ = make(Reads([body], whole=True))
    monkeypatch.setattr("proxy.relay.body_scan.asyncio.sleep", refuse)
    assert (await exchange._read_body())[2] == scan_request(body, REQUEST_MEMBERS)


def test_how_much_is_done_in_a_turn_is_what_is_promised() -> None:
    """In SECURITY.md."""
    promised = (Path(__file__).parents[3] / "SECURITY.md").read_text(encoding="utf-8")
    chunks = MAX_PIECE_BYTES // len(b"1\r\nx\r\n") // 10 * 10
    for words in (
        f"{SCAN_BYTES >> 10} KiB of a body are scanned before others",
        f"or {MAX_WHOLE_BYTES >> 10} KiB of one that the parser",
        f"of a body in tiny chunks some {chunks} are taken",
    ):
        assert words in promised


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
    exchange.rejections = Rejections(SystemClock())
    members = {"model": b'"m"', "stream": b"true", name: b"[%b0]" % LONG}
    text = b",".join(b'"%b":%b' % (key.encode(), value) for key, value in members.items())
    body = b"{%b}" % text
    copied = Copied(body)
    rewrite = exchange._rewrite(copied, scan_request(body, REQUEST_MEMBERS))
    assert copied.size_bytes < MAX_WHOLE_BYTES
    assert rewrite.rewrites == ((USAGE_REWRITE,) if name == "model" else ())
    assert exchange._rejection_key is None or len(exchange._rejection_key[2]) == MAX_KEY_BYTES + 1
