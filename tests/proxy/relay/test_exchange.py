"""What an observed exchange promises that no socket shows: memory, and one cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from typing import Any

import pytest
from yarl import URL

from codec.apis.chat import CHAT
from proxy.headers import Head
from proxy.on_disconnect import OnDisconnect
from proxy.relay.body_scan import BodyScans
from proxy.relay.exchange import ExchangeRules, ObservedExchange
from proxy.request_body import BodyBudget, BodyShare
from proxy.upstream.routes import Route, Upstream


class TricklingBody:
    """A request's body that comes two bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def at_eof(self) -> bool:
        return self.at >= len(self.data)

    def pop(self) -> bytes:
        return b""

    async def read(self) -> bytes:
        self.at += 2
        return self.data[self.at - 2 : self.at]


class FakeDownstream:
    headers = Head()
    target = "/v1/chat/completions"
    called_host = b""

    def __init__(self, data: bytes = b"") -> None:
        self.body = TricklingBody(data)

    def continue_if_expected(self) -> None:
        """It never is."""


class FakeTap:
    def request_body(self, data: bytes | None, size_bytes: int) -> None:
        """Keep nothing."""


class FakeOpenExchange:
    cut = False


def make_exchange(downstream: FakeDownstream, open_exchange: FakeOpenExchange) -> ObservedExchange:
    parts: dict[str, Any] = {
        "api": CHAT,
        "identity": None,
        "tap": FakeTap(),
        "client": None,
        "rejections": None,
        "share": BodyShare(BodyBudget(1 << 20)),
        "scans": BodyScans(),
        "open_exchange": open_exchange,
    }
    rules = ExchangeRules(max_body_bytes=1 << 20, on_disconnect=OnDisconnect.DRAIN, propagate=False)
    route = Route(Upstream(name="a", origin=URL("http://a")), "/")
    client: Any = downstream
    return ObservedExchange(downstream=client, route=route, rules=rules, **parts)


async def test_a_body_that_trickles_costs_no_more_memory_than_one_that_comes_at_once() -> None:
    """Twice its size, while the buffer becomes the body; an object for each read would be 20.

    Some of what is measured is other threads', of the tests themselves: the least of three counts.
    """
    data = b'{"model":"m-1","stream":true,"messages":"%b"}' % (b"x" * 60_000)
    peaks = []
    for _ in range(3):
        exchange = make_exchange(FakeDownstream(data), FakeOpenExchange())
        tracemalloc.start()
        try:
            body, rest, scan = await exchange._read_body()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert body == data
        assert rest is None
        assert scan is not None
        assert scan.value(body, "stream") == b"true"
    assert min(peaks) < 15 * len(data)


@pytest.mark.parametrize("reason", ["too long", "cut"])
async def test_a_step_that_is_given_up_is_cancelled_once_and_may_close_what_it_opened(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the limit nor a second cut breaks into its clean-up."""
    monkeypatch.setattr("proxy.relay.exchange.MAX_DRAIN_SECONDS", 0.02)
    open_exchange = FakeOpenExchange()
    exchange = make_exchange(FakeDownstream(), open_exchange)
    closed: list[bool] = []

    async def step() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            closed.append(True)

    outliving = asyncio.ensure_future(exchange._outlive_client(step()))
    await asyncio.sleep(0)
    open_exchange.cut = reason == "cut"
    for _ in range(3):
        outliving.cancel()
        await asyncio.sleep(0.01)
    with contextlib.suppress(asyncio.CancelledError):
        await outliving
    assert outliving.cancelled()
    assert closed == [True]
