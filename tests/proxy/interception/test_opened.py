"""Opened connections: what a client and an upstream see, and what is recorded."""

from __future__ import annotations

import asyncio
import http.client
import logging
import re
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.resources import Resource

from proxy.interception.interception import Refusal, TunnelReason
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import Begin
from telemetry.metrics.instruments import REQUESTS_UNOBSERVED
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from tests.proxy.harness import (
    ANSWER,
    CHAT,
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    Connection,
    frames_of,
    relaying,
    request_bytes,
)
from tests.proxy.interception.intercepting import (
    HOST,
    LABEL,
    OTHER_HOST,
    Intercepted,
    connect_bytes,
    credentials,
    intercepting,
    run_authority,
)
from tests.proxy.raw_client import ask, parse_answer, read_answer, read_to_end, until

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange
    from tests.proxy.interception.intercepting import Streams


_WHERE_AND_WHEN = re.compile(r'"upstream": "[^"]+"|"\w+_ms": [0-9.]+')


def read_span(exchange: Exchange) -> dict[str, Any]:
    """The attributes of its span."""
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), SpanRules())
    span = recorder.record(exchange)
    assert span is not None
    return dict(span.attributes or {})


def call_bytes(body: bytes = CHAT, *, host: str = HOST, **options: Any) -> bytes:
    """A request to the model host."""
    data = request_bytes(body, **options)
    return data.replace(b"Host: client.example", f"Host: {host}".encode())


async def exchange(streams: Streams, data: bytes) -> Any:
    reader, writer = streams
    writer.write(data)
    return parse_answer(await read_answer(reader), reset=False)


async def test_a_call_is_relayed_to_its_own_host_and_recorded() -> None:
    """Its head and body are the client's, and it belongs to the launch."""
    async with intercepting() as it:
        streams = await it.secure()
        answer = await exchange(streams, call_bytes(close=False, head=b"X-Odd:  a\r\n"))
        assert (answer.status, answer.body) == (200, ANSWER)
        assert (await it.running.wait_for_end()).kind is EndKind.UPSTREAM_EOF
        [begin] = frames_of(it.running, Begin)
        assert (begin.server_address, begin.server_port) == (HOST, 443)
        assert (begin.launch, begin.path) == (LABEL, "/v1/chat/completions")
        seen = it.upstream.last
        assert seen.request_line == b"POST /v1/chat/completions HTTP/1.1"
        assert [name for name, _ in seen.fields] == [
            b"Host",
            b"Content-Type",
            b"Content-Length",
            b"X-Odd",
            b"traceparent",  # of the span, as on the traffic port
        ]
        assert (seen.field(b"host"), seen.body) == (HOST.encode(), CHAT)
        streams[1].close()
        report = it.port.report()
        assert (report.opened, report.tunnelled, report.distrusted) == ({HOST: 1}, (), {})


async def test_a_stream_has_the_span_that_it_has_by_base_url() -> None:
    """Usage is asked for and hidden; all attributes are equal but where the call went."""

    async def stream(connection: Connection) -> None:
        await connection.stream(*STREAM, USAGE_EVENT, DONE)

    async with relaying(stream) as (upstream, running):
        target = f"/~run/{LABEL}/v1/chat/completions".encode()
        direct = await ask(running.address, request_bytes(STREAMED_CHAT, target=target))
        by_base_url = read_span(await running.sink.wait_for())
        sent = upstream.last.body
    async with intercepting(stream) as it:
        answer = await exchange(await it.secure(), call_bytes(STREAMED_CHAT))
        intercepted = read_span(await it.running.sink.wait_for())
        assert it.upstream.last.body == sent != STREAMED_CHAT
    assert answer.body == direct.body == b"".join([*STREAM, DONE])
    for span in (intercepted, by_base_url):
        span["metadata"] = _WHERE_AND_WHEN.sub("", span["metadata"])
        for name in ("gen_ai.response.time_to_first_chunk", "server.address", "server.port"):
            del span[name]
    assert intercepted == by_base_url


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_request_in_the_segment_that_ends_the_handshake_is_served(
    version: ssl.TLSVersion,
) -> None:
    """With asyncio's start_tls it would reach a protocol that has no connection yet."""
    async with intercepting() as it:
        reader, writer = await it.connect()
        context = it.trust()
        context.maximum_version = version
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname=HOST)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                if outgoing.pending:
                    writer.write(outgoing.read())
                incoming.write(await reader.read(65536))
        tls.write(call_bytes())
        writer.write(outgoing.read())  # in TLS 1.3 with the client's Finished
        answer = b""
        while ANSWER not in answer:
            incoming.write(await reader.read(65536))
            try:
                answer += tls.read(65536)
            except ssl.SSLWantReadError:
                continue
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        await it.running.sink.wait_for()
        writer.close()


async def test_a_connect_and_a_first_message_in_single_bytes_are_understood() -> None:
    async with intercepting() as it:
        reader, writer = await asyncio.open_connection(*it.address)
        for byte in connect_bytes(f"{HOST}:443"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        await reader.readuntil(b"\r\n\r\n")
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = it.trust().wrap_bio(incoming, outgoing, server_hostname=HOST)
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        hello = outgoing.read()
        for place in range(len(hello)):
            writer.write(hello[place : place + 1])
            await asyncio.sleep(0)
        incoming.write(await reader.read(65536))
        tls.do_handshake()
        assert tls.version() == "TLSv1.3"
        writer.close()


@pytest.mark.parametrize("target", [f"{HOST}.:443", f"{HOST.upper()}:443"])
async def test_a_host_is_known_by_its_name_however_it_is_spelled(target: str) -> None:
    """A final dot and capital letters are the same host."""
    async with intercepting() as it:
        answer = await exchange(await it.secure(target, name=HOST), call_bytes())
        assert answer.status == 200
        await it.running.sink.wait_for()
        assert it.port.report().opened == {HOST: 1}


async def test_a_client_that_names_no_server_is_served() -> None:
    async with intercepting() as it:
        tls = it.trust()
        tls.check_hostname = False
        reader, writer = await it.connect()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = tls.wrap_bio(incoming, outgoing)
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        writer.write(outgoing.read())
        incoming.write(await reader.read(65536))
        client.do_handshake()
        writer.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (HOST, 200),
        (HOST.upper(), 200),
        (f"{HOST}:443", 200),
        (f"{HOST}.", 200),
        (f"{HOST}:8443", 421),
        (f"{HOST}:4430", 421),
        (f"x{HOST}", 421),
        (f"{HOST}.evil.test", 421),
        (OTHER_HOST, 421),
        ("", 421),
    ],
)
async def test_a_request_for_another_host_is_refused(host: str, status: int) -> None:
    """One for the host of the CONNECT passes with ``Host`` as it came, since it may be signed."""
    async with intercepting() as it:
        answer = await exchange(await it.secure(), call_bytes(host=host))
        assert answer.status == status
        if status == 200:
            assert it.upstream.last.field(b"host") == host.encode()
            await it.running.sink.wait_for()
        else:
            assert answer.error["code"] == "misdirected_request"
            assert it.port.report().refused == {Refusal.HOST: 1}
            assert it.upstream.requests == []


@pytest.mark.parametrize(
    "target", [b"/~run/other/v1/models", b"/~to/abc/v1/models", b"/", b"/groq/v1", b"/a//b?%zz"]
)
async def test_a_path_is_the_upstreams_whatever_it_looks_like(target: bytes) -> None:
    """No prefix of ours, no page, no catalogue; a browser gets the upstream's own page."""
    async with intercepting() as it:
        data = call_bytes(b"", method=b"GET", target=target, head=b"Accept: text/html\r\n")
        answer = await exchange(await it.secure(), data)
        assert answer.status == 200
        assert it.upstream.last.request_line == b"GET %b HTTP/1.1" % target


async def test_other_traffic_is_relayed_without_span_warning_or_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The traffic port warns of such a call, because there it may be a mistake."""
    async with intercepting() as it:
        data = call_bytes(b'{"events":[]}', target=b"/api/event_logging/batch")
        assert (await exchange(await it.secure(), data)).status == 200
        assert it.running.sink.frames == []
        numbers = it.running.proxy.metrics.snapshot()
        assert not numbers.numbers.get(REQUESTS_UNOBSERVED.name)
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_inbound_keys_are_for_the_traffic_port() -> None:
    """A client that is intercepted knows no key of ours; the secret let it in."""
    async with intercepting(inbound_keys=("k" * 20,)) as it:
        assert (await exchange(await it.secure(), call_bytes())).status == 200
        await it.running.sink.wait_for()


SIGNED = (
    b"Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261130/us-east-1/bedrock/"
    b"aws4_request, SignedHeaders=host;x-amz-date, Signature=abc\r\n"
)


@pytest.mark.parametrize("head", [SIGNED, b"X-Amz-Content-Sha256: 00\r\n"])
async def test_a_signed_body_is_never_rewritten(head: bytes) -> None:
    """Elsewhere such a stream is asked for its usage."""

    async def stream(connection: Connection) -> None:
        await connection.stream(*STREAM, DONE)

    async with intercepting(stream) as it:
        answer = await exchange(await it.secure(), call_bytes(STREAMED_CHAT, head=head))
        assert (answer.status, answer.body) == (200, b"".join([*STREAM, DONE]))
        assert it.upstream.last.body == STREAMED_CHAT
        await it.running.sink.wait_for()


async def test_an_upstream_that_cannot_be_verified_is_a_502() -> None:
    """It is never a downgrade."""
    async with intercepting(upstream_ca=run_authority("else.test")[0]) as it:
        answer = await exchange(await it.secure(), call_bytes())
        assert (answer.status, answer.error["code"]) == (502, "upstream_tls_error")
        assert it.upstream.requests == []
        await it.running.sink.wait_for()


async def test_a_websocket_is_refused_as_on_the_traffic_port() -> None:
    async with intercepting(websockets="refuse") as it:
        upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
        data = call_bytes(b"", method=b"GET", target=b"/v1/responses", head=upgrade, close=False)
        assert (await exchange(await it.secure(), data)).status == 426


@pytest.mark.parametrize("first", [b"CONNECT b.test:443 HTTP/1.1", b"GET http://b.test/ HTTP/1.1"])
async def test_inside_an_opened_connection_no_other_host_is_reached(first: bytes) -> None:
    async with intercepting() as it:
        answer = await exchange(await it.secure(), first + b"\r\nHost: b.test\r\n\r\n")
        assert answer.status in {400, 405}
        assert it.upstream.requests == []


async def test_a_connection_counts_once() -> None:
    """In each of its stages, against the limit of the traffic port."""
    async with intercepting(max_connections=2) as it:
        first = await it.connect()
        assert it.running.server.connection_count == 1
        second = await it.secure()
        await until(lambda: it.running.server.connection_count == 2)
        refused = await ask(it.address, connect_bytes(f"{HOST}:443"))
        assert (refused.status, refused.error["code"]) == (503, "too_many_connections")
        refused = await ask(it.running.address, request_bytes())
        assert refused.status == 503
        for _, writer in (first, second):
            writer.close()
        await until(lambda: it.running.server.connection_count == 0)


async def test_connect_and_handshake_together_have_one_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever of them a client does not finish."""
    monkeypatch.setattr("proxy.interception.connection.HANDSHAKE_SECONDS", 0.3)
    async with intercepting() as it:
        loop = asyncio.get_running_loop()
        for sent in (b"", b"CONNECT api.mod", connect_bytes(f"{HOST}:443")):
            start = loop.time()
            reader, writer = await asyncio.open_connection(*it.address)
            writer.write(sent)
            await read_to_end(reader)
            assert 0.2 < loop.time() - start < 5
            writer.close()
        reader, writer = await it.connect()
        writer.write(b"\x16\x03\x01\x00\xff")
        await read_to_end(reader)
        writer.close()
        reader, writer = await it.connect()
        tls = it.trust().wrap_bio(
            ssl.MemoryBIO(), outgoing := ssl.MemoryBIO(), server_hostname=HOST
        )
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        writer.write(outgoing.read())
        await read_to_end(reader)
        writer.close()
        assert it.port.report().distrusted == {}


async def test_after_the_run_everything_is_tunnelled() -> None:
    """An idle connection ends at once, a busy one with its next answer."""
    async with intercepting() as it:
        idle = await it.secure()
        kept = await it.secure()
        await exchange(kept, call_bytes(close=False))
        kept[1].write(b"POST /v1/chat/completions HTTP/1.1\r\n")
        await asyncio.sleep(0.05)
        it.port.tunnel_all()
        assert await read_to_end(idle[0]) == b""
        idle[1].close()
        rest = call_bytes(close=False).partition(b"\r\n")[2]
        answer = await exchange(kept, rest)
        assert (answer.status, answer.field(b"connection")) == (200, b"close")
        kept[1].close()
        outside = await it.secure()  # it sees the upstream's own certificate
        answer = await exchange(outside, call_bytes())
        assert (answer.status, answer.field(b"x")) == (200, None)
        outside[1].close()
        [row] = it.port.report().tunnelled
        assert (row.host, row.reason, row.tunnel_count) == (
            HOST,
            TunnelReason.RUN_OVER,
            1,
        )
        await it.running.sink.wait_for(2)


async def test_two_runs_at_once_have_their_own_secrets_and_labels() -> None:
    """What one opens, the other does not see."""
    async with intercepting() as one, intercepting(hosts=(OTHER_HOST,)) as other:
        await exchange(await one.secure(), call_bytes())
        await one.running.sink.wait_for()
        assert other.port.report().opened == {}
        assert one.port.report().opened == {HOST: 1}


async def test_a_drain_lets_an_opened_call_end() -> None:
    """As on the traffic port: no more connections, and open calls to their end."""
    begun, may_continue = asyncio.Event(), asyncio.Event()

    async def answer_late(connection: Connection) -> None:
        begun.set()
        await may_continue.wait()
        await connection.answer()

    async with intercepting(answer_late) as it:
        reader, writer = await it.secure()
        writer.write(call_bytes(close=False))
        await begun.wait()
        draining = asyncio.ensure_future(it.running.proxy.drain(5))
        await asyncio.sleep(0.05)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*it.address)
        may_continue.set()
        answer = parse_answer(await read_answer(reader), reset=False)
        assert (answer.status, answer.field(b"connection")) == (200, b"close")
        writer.close()
        await draining
        await it.running.sink.wait_for()


async def test_closing_the_port_ends_its_connections() -> None:
    """Busy or not; a call that is open was left by its client."""
    begun = asyncio.Event()

    async def never_answer(connection: Connection) -> None:
        begun.set()
        await connection.wait_closed_by_peer(10)

    async with intercepting(never_answer) as it:
        all_kinds = (
            busy := await it.secure(),
            await it.connect(),
            await it.secure(),
            await it.connect(f"{OTHER_HOST}:443"),
        )
        busy[1].write(call_bytes(close=False))
        await begun.wait()
        await it.port.close()
        for reader, writer in all_kinds:
            assert await read_to_end(reader) == b""
            writer.close()
        assert (await it.running.wait_for_end()).kind is EndKind.CLIENT_GONE
        await until(lambda: it.running.server.connection_count == 0)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*it.address)


async def test_http_client_goes_through() -> None:
    """The standard library's client, with several requests on a connection."""

    def talk(it: Intercepted) -> list[int]:
        connection = http.client.HTTPSConnection(*it.address, context=it.trust())
        head = {"Proxy-Authorization": credentials().decode()}
        connection.set_tunnel(HOST, 443, head)
        statuses = []
        for _ in range(3):
            connection.request(
                "POST", "/v1/chat/completions", CHAT, {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            statuses.append(response.status)
            response.read()
        connection.close()
        return statuses

    async with intercepting() as it:
        assert await asyncio.to_thread(talk, it) == [200, 200, 200]
        await it.running.sink.wait_for(3)
        assert it.port.report().opened == {HOST: 1}
