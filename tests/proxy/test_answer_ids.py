"""Ids of spans in the heads of answers, where ``SPANTAP_ANSWER_IDS`` asks for them."""

from __future__ import annotations

import pytest

from tests.proxy.harness import Connection, relaying, request_bytes
from tests.proxy.raw_client import Answer, ask
from tests.proxy.side_by_side import plain, replies

IDS = (b"x-spantap-span-id", b"x-spantap-trace-id")

UNSAMPLED = b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n"


def ids_of(answer: Answer) -> list[str]:
    """All ids in its head."""
    return [value.decode() for name, value in answer.fields if name.lower() in IDS]


async def reset(connection: Connection) -> None:
    """Answer nothing."""
    connection.reset()


async def test_an_answer_tells_its_span() -> None:
    """Both ids, of a call and of one that fails on its way."""
    async with relaying(answer_ids=True) as (_, running):
        answer = await ask(running.address, request_bytes())
        exchange = await running.sink.wait_for()
    assert ids_of(answer) == [exchange.identity.span_id, exchange.identity.trace_id]
    async with relaying(reset, answer_ids=True) as (_, running):
        answer = await ask(running.address, request_bytes())
        exchange = await running.sink.wait_for()
    assert (answer.status, answer.clean) == (502, True)
    assert ids_of(answer) == [exchange.identity.span_id, exchange.identity.trace_id]


async def test_a_stream_tells_its_span() -> None:
    """Before its first event."""
    async with relaying(Connection.stream, answer_ids=True) as (_, running):
        answer = await ask(running.address, request_bytes(b'{"stream":true}'))
        exchange = await running.sink.wait_for()
    assert ids_of(answer) == [exchange.identity.span_id, exchange.identity.trace_id]


async def test_another_proxys_ids_give_way() -> None:
    """One call, one span id: an upstream that is a spantap, too, has others."""
    theirs = b"X-Spantap-Span-Id: 00f067aa0ba902b7\r\nX-Spantap-Trace-Id: 1234\r\n"
    theirs += b"X-Spantap-Else: 1\r\n"
    async with relaying(replies(plain(theirs)), answer_ids=True) as (_, running):
        answer = await ask(running.address, request_bytes())
        exchange = await running.sink.wait_for()
    assert ids_of(answer) == [exchange.identity.span_id, exchange.identity.trace_id]
    assert answer.field(b"x-spantap-else") == b"1"
    async with relaying(replies(plain(theirs))) as (_, running):
        answer = await ask(running.address, request_bytes())
    assert ids_of(answer) == ["00f067aa0ba902b7", "1234"], "R1: nothing is changed unasked"


@pytest.mark.parametrize(
    ("request_head", "target"), [(UNSAMPLED, b"/v1/chat/completions"), (b"", b"/v1/models")]
)
async def test_a_call_without_a_span_tells_none(request_head: bytes, target: bytes) -> None:
    """It is not sampled, or not observed."""
    async with relaying(answer_ids=True) as (_, running):
        answer = await ask(running.address, request_bytes(head=request_head, target=target))
    assert (answer.status, ids_of(answer)) == (200, [])


async def test_without_any_spans_no_answer_tells_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are turned off by the standard variable."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    async with relaying(answer_ids=True) as (_, running):
        assert ids_of(await ask(running.address, request_bytes())) == []


async def test_unasked_no_answer_tells_anything() -> None:
    """R1."""
    async with relaying() as (_, running):
        assert ids_of(await ask(running.address, request_bytes())) == []
