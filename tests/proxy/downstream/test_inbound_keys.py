"""Keys of our own: compared, asked for, and never passed on (R7)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from proxy.settings.tables import UpstreamConfig
from telemetry.frames.frame import Begin
from tests.call_count import count_calls
from tests.proxy.canary_keys import DIGEST, HASHED, KEY, OTHER, opens, read
from tests.proxy.harness import ANSWER, ScriptedUpstream, relaying, request_bytes, running_proxy
from tests.proxy.raw_client import ask

OWN = b"sk-the-clients-own"


# Comparing


def test_many_keys_cost_a_request_no_more_than_one() -> None:
    """Not even one that comes without any, and with as many fields as a head may have."""
    fields = tuple((b"x-spantap-key", b"wrong-%d" % number) for number in range(250))
    one = read(inbound_keys=[KEY])
    many = read(inbound_keys=[KEY, *(f"{KEY}-{number}" for number in range(998))])
    assert opens(many, f"{KEY}-0")
    assert not many.find_carriers(fields)
    cost = count_calls(lambda: one.find_carriers(fields))
    assert count_calls(lambda: many.find_carriers(fields)) == cost


@pytest.mark.parametrize(
    ("headers", "carriers"),
    [
        ([(b"X-Spantap-Key", KEY)], {b"x-spantap-key"}),
        ([(b"authorization", f"Bearer {KEY}")], {b"authorization"}),
        ([(b"Authorization", f"bEARER   {KEY}")], {b"authorization"}),
        ([(b"API-Key", KEY)], {b"api-key"}),
        ([(b"x-api-key", OTHER)], {b"x-api-key"}),
        ([(b"x-goog-api-key", KEY)], {b"x-goog-api-key"}),
        ([(b"x-api-key", KEY), (b"Authorization", f"Bearer {KEY}")],
         {b"x-api-key", b"authorization"}),
        ([(b"x-spantap-key", KEY), (b"Authorization", "Bearer own")], {b"x-spantap-key"}),
        ([(b"x-spantap-key", "wrong"), (b"api-key", KEY)], {b"api-key"}),
        ([(b"api-key", "wrong"), (b"api-key", KEY)], {b"api-key"}),
        ([], set()),
        ([(b"Authorization", KEY)], set()),
        ([(b"Authorization", f"Basic {KEY}")], set()),
        ([(b"Authorization", f"Bearer{KEY}")], set()),
        ([(b"Authorization", "Bearer")], set()),
        ([(b"x-spantap-key", f"Bearer {KEY}")], set()),
        ([(b"x-spantap-key", KEY[:-1])], set()),
        ([(b"x-spantap-key", f"{KEY}0")], set()),
        ([(b"x-spantap-key", HASHED)], set()),
        ([(b"x-spantap-key", DIGEST)], set()),
        ([(b"x-spantap-key", "")], set()),
        ([(b"Cookie", KEY)], set()),
    ],
)  # fmt: skip
def test_a_key_is_found_where_clients_send_keys(
    headers: list[tuple[bytes, str]], carriers: set[bytes]
) -> None:
    """Every field that holds one is reported. A digest opens nothing."""
    keys = read(inbound_keys=[KEY, OTHER])
    assert keys.find_carriers(tuple((n, v.encode()) for n, v in headers)) == carriers


# Asking for them


def carried(name: str, key: str = KEY) -> bytes:
    value = f"Bearer {key}" if name == "Authorization" else key
    return f"{name}: {value}\r\n".encode()


REFUSED = {
    "no key": b"",
    "a wrong key": carried("Authorization", OTHER),
    "a wrong key of ours": carried("x-spantap-key", OTHER),
    "no bearer": b"Authorization: " + KEY.encode() + b"\r\n",
}
PATHS = [
    (b"POST", b"/v1/chat/completions"),
    (b"GET", b"/v1/models"),
    (b"OPTIONS", b"*"),
    (b"DELETE", b"/healthz?api_key=" + KEY.encode()),
]


@pytest.mark.parametrize("head", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize(("method", "target"), PATHS)
async def test_without_a_key_nothing_reaches_the_upstream(
    head: bytes, method: bytes, target: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """On every path: 401 in OpenAI's shape, counted, told in one line without the key."""
    caplog.set_level(logging.DEBUG, "spantap")
    async with relaying(inbound_keys=[KEY]) as (upstream, running):
        for _ in range(3):
            request = request_bytes(b"", head=head, target=target, method=method)
            answer = await ask(running.address, request)
            assert answer.status == 401
            assert answer.clean
            assert answer.field(b"www-authenticate") == b"Bearer"
            assert answer.field(b"connection") == b"close"
            assert answer.error["code"] == "invalid_api_key"
            assert answer.error["type"] == "invalid_request_error"
            assert b"canary" not in answer.raw
        assert running.server.state.refused_count == 3
    assert upstream.connections == 0
    [record] = caplog.records
    assert record.getMessage() == "refused a request: no inbound key, or an unknown one"
    assert running.sink.frames == []


async def test_the_refusal_of_head_has_no_body() -> None:
    """RFC 9110 section 9.3.2."""
    async with running_proxy("http://127.0.0.1:9", inbound_keys=[KEY]) as running:
        answer = await ask(running.address, request_bytes(b"", method=b"HEAD", target=b"/x"))
    assert answer.status == 401
    assert answer.body == b""


@pytest.mark.parametrize("head", [b"", b"Expect: 100-continue\r\n"])
async def test_a_large_body_is_not_waited_for(head: bytes) -> None:
    """The answer comes at once, no 100 before it, and it is not lost to what is still sent."""
    async with running_proxy("http://127.0.0.1:9", inbound_keys=[KEY]) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: c\r\n%b"
            b"Content-Length: 1000000000\r\n\r\n{" % head
        )
        async with asyncio.timeout(5):
            status = await reader.readline()
            for _ in range(20):
                writer.write(b"x" * 100_000)
                await writer.drain()
            rest = await reader.read()
        writer.transport.abort()
    assert status == b"HTTP/1.1 401 Unauthorized\r\n"
    assert rest.endswith(b"}")


async def test_a_pipelined_request_after_a_refused_one_is_not_served() -> None:
    """The connection ends, even for the right key."""
    first = request_bytes(close=False)
    second = request_bytes(head=carried("api-key"))
    async with relaying(inbound_keys=[KEY]) as (upstream, running):
        answer = await ask(running.address, first + second)
    assert upstream.connections == 0
    assert answer.raw.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("name", ["x-spantap-key", "Authorization", "api-key", "X-Api-Key"])
@pytest.mark.parametrize("target", [b"/v1/chat/completions", b"/v1/models"])
async def test_an_inbound_key_opens_and_goes_no_further(name: str, target: bytes) -> None:
    """Neither to the upstream nor into a frame; all other fields stay, in their order."""
    head = b"X-A: 1\r\n" + carried(name) + b"X-B: 2\r\n"
    async with relaying(inbound_keys=[KEY]) as (upstream, running):
        answer = await ask(running.address, request_bytes(head=head, target=target))
        assert running.server.state.refused_count == 0
    sent = upstream.last
    assert (answer.status, answer.body) == (200, ANSWER)
    assert KEY.encode() not in sent.head + sent.body
    names = [field.lower() for field, _ in sent.fields]
    assert names.index(b"x-b") == names.index(b"x-a") + 1
    assert KEY not in repr(running.sink.frames)


async def test_the_clients_own_key_goes_on_beside_ours() -> None:
    """``x-spantap-key`` for us, ``Authorization`` for the provider."""
    head = carried("x-spantap-key") + b"Authorization: Bearer " + OWN + b"\r\n"
    async with relaying(inbound_keys=[KEY]) as (upstream, running):
        assert (await ask(running.address, request_bytes(head=head))).status == 200
    assert upstream.last.field(b"authorization") == b"Bearer " + OWN
    assert KEY.encode() not in upstream.last.head


async def test_a_key_sent_twice_is_taken_out_twice() -> None:
    """As SDKs do that put their key into more than one field."""
    head = carried("Authorization") + carried("api-key") + carried("x-spantap-key")
    async with relaying(inbound_keys=[KEY]) as (upstream, running):
        assert (await ask(running.address, request_bytes(head=head))).status == 200
    assert KEY.encode() not in upstream.last.head


@pytest.mark.parametrize("name", ["x-spantap-key", "Authorization", "api-key"])
@pytest.mark.parametrize("target", [b"/v1/chat/completions", b"/v1/models"])
async def test_the_key_that_the_proxy_holds_takes_the_place_of_ours(
    name: str, target: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its place where it came as ``Authorization``, else at the end; neither is in a frame."""
    held = "sk-held-canary"
    monkeypatch.setenv("HELD_KEY", held)

    async with ScriptedUpstream(
        lambda c: c.answer(f"bad {held}".encode(), status=b"401 Unauthorized")
    ) as upstream:
        table = UpstreamConfig(name="held", url=upstream.url, api_key_env="HELD_KEY")
        settings: dict[str, Any] = {"upstreams": (table,), "inbound_keys": [KEY]}
        async with running_proxy(upstream.url, **settings) as running:
            head = b"X-A: 1\r\n" + carried(name) + b"X-B: 2\r\n"
            answer = await ask(running.address, request_bytes(head=head, target=target))
            assert answer.body == f"bad {held}".encode()  # the upstream's, not ours
        sent = upstream.last
    values = [value for field, value in sent.fields if field.lower() == b"authorization"]
    assert values == [f"Bearer {held}".encode()]
    assert KEY.encode() not in sent.head
    if name == "Authorization":
        names = [field for field, _ in sent.fields]
        assert names.index(b"Authorization") == names.index(b"X-A") + 1
    frames = repr(running.sink.frames)
    assert any(isinstance(frame, Begin) for frame in running.sink.frames) is (b"chat" in target)
    assert KEY not in frames
    assert held not in frames
