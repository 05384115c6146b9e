"""A 200 that cannot be an answer, of every API and in every framing, over real sockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from codec.apis.table import POSTED, get_api
from tests.corpus.oracle import parse_json
from tests.proxy.api_endings import Ended, cut, request_of, tell
from tests.proxy.chat_endings import ROWS
from tests.proxy.harness import relaying
from tests.proxy.observed_ends import the_end
from tests.proxy.raw_client import ask

if TYPE_CHECKING:
    from tests.corpus.recordings import Recording
    from tests.proxy.harness import Connection

PAGE = b"<!DOCTYPE html><html><title>Sign in</title></html>"
NONE = Ended("not_an_answer", "not_an_answer")


class _Said(NamedTuple):
    """What an upstream says in the place of an answer, and what the span says of that."""

    kind: bytes
    body: bytes
    ended: Ended
    message: str


SAID = {
    "a page": _Said(b"text/html", PAGE, NONE, "Sign in"),
    "a page that is called events": _Said(b"text/event-stream", PAGE, NONE, "Sign in"),
    "a page that is called JSON": _Said(b"application/json", PAGE, NONE, "Sign in"),
    "FastAPI's word": _Said(b"application/json", b'{"detail":"busy"}', NONE, "busy"),
    "an empty object": _Said(b"application/json", b"{}", NONE, ""),
    "a text": _Said(b"text/plain", b"no healthy upstream", NONE, "no healthy upstream"),
    "half a JSON": _Said(b"application/json", b'{"id":"c","choi', cut(), ""),
    "no byte": _Said(b"application/json", b"", cut(), ""),
    "no byte of events": _Said(b"text/event-stream", b"", cut(), ""),
}
FRAMINGS = ("length", "chunked", "close")


def _list_requests() -> dict[str, Recording]:
    """A plain request of each API and one for a stream, where it has both."""
    found: dict[str, Recording] = {}
    for (name, _), (recording, _) in ROWS.items():
        asked = get_api(name).ask(parse_json(recording.request) or {}, recording.target.decode())
        if recording.status == 200 and asked.fault is None and not asked.wants_text:
            found.setdefault(f"{name}, {'streamed' if asked.stream else 'plain'}", recording)
    return found


REQUESTS = _list_requests()


def test_every_api_is_asked() -> None:
    """None is left out."""
    assert {name.partition(",")[0] for name in REQUESTS} == {api.name for api in POSTED}


async def _send(connection: Connection, said: _Said, framing: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n" % said.kind
    if framing == "chunked":
        await connection.send(head + b"Transfer-Encoding: chunked\r\n\r\n")
        await connection.send_chunks(*([said.body] if said.body else []))
        return
    length = b"Content-Length: %d\r\n" % len(said.body) if framing == "length" else b""
    await connection.send(head + length + b"\r\n" + said.body)
    if framing == "close":
        connection.writer.close()


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("request_name", REQUESTS)
async def test_a_success_that_cannot_be_an_answer_is_an_error(request_name: str, name: str) -> None:
    """The client has its bytes; the span has a word for it, and what the provider said."""
    said, recording = SAID[name], REQUESTS[request_name]
    api = request_name.partition(",")[0]
    is_text = name == "a text" and api in {"audio.transcriptions", "audio.translations"}
    number = sorted(REQUESTS).index(request_name) + list(SAID).index(name)
    framing = FRAMINGS[number % len(FRAMINGS)]

    async def script(connection: Connection) -> None:
        await _send(connection, said, framing)

    async with relaying(script) as (_, running):
        answer = await ask(running.address, request_of(recording))
        exchange = await the_end(running)
    assert (answer.status, answer.body, answer.clean) == (200, said.body, True)
    if is_text:
        assert exchange.error_type is None
        return
    status, ended = tell(exchange)
    assert (status, ended._replace(anomalies=())) == ("ERROR", said.ended)
    assert said.message in (exchange.error_message or "")


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("request_name", ["chat.completions, plain", "chat.completions, streamed"])
async def test_the_framing_does_not_matter(request_name: str, name: str, framing: str) -> None:
    """Each request of a chat is tried in each framing."""
    said = SAID[name]

    async def script(connection: Connection) -> None:
        await _send(connection, said, framing)

    async with relaying(script) as (_, running):
        answer = await ask(running.address, request_of(REQUESTS[request_name]))
        exchange = await the_end(running)
    assert (answer.body, answer.clean) == (said.body, True)
    assert tell(exchange)[1]._replace(anomalies=()) == said.ended


TAILS = [b"d", b"da", b"data", b"data:", b"data: ", b"event: x\n", b"id", b"data: {"]


def _behind_a_reason(api: str) -> bytes:
    """A stream up to its finish reason, behind which its API has no mark of an end yet."""
    if api == "gemini.stream":
        return ROWS[api, "a blocked prompt"][0].body
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    text = b'data: {"choices":[{"index":0,"text":"Hi","finish_reason":"stop"}]}\n\n'
    return chunk if api == "chat.completions" else text


@pytest.mark.parametrize("tail", [*TAILS, b"", b"\n", b": bye", b": bye\n"])
@pytest.mark.parametrize("api", ["chat.completions", "completions", "gemini.stream"])
async def test_a_stream_that_ends_within_an_event_broke_off(api: str, tail: bytes) -> None:
    """Though nothing but the first letter of a field came, and a reason before it."""
    body = _behind_a_reason(api) + tail

    async def script(connection: Connection) -> None:
        await _send(connection, _Said(b"text/event-stream", body, cut(), ""), "chunked")

    async with relaying(script) as (_, running):
        answer = await ask(running.address, request_of(REQUESTS[f"{api}, streamed"]))
        exchange = await the_end(running)
    assert (answer.body, answer.clean) == (body, True)
    ended = tell(exchange)[1]
    assert ended.outcome == ("truncated" if tail in TAILS else "completed")
    if tail in TAILS:
        assert exchange.error_message == (
            "the stream ended behind a finish reason, and before its own end"
        )


@pytest.mark.parametrize("tail", [*TAILS, b"", b": bye"])
async def test_a_client_that_leaves_within_an_event_had_not_all(tail: bytes) -> None:
    """The API marks no end."""
    body = _behind_a_reason("gemini.stream") + tail

    async def script(connection: Connection) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        await connection.send_chunks(body, end=False)
        await asyncio.sleep(30)

    async with relaying(script) as (_, running):
        await _read_and_leave(
            running.address, request_of(REQUESTS["gemini.stream, streamed"]), body
        )
        exchange = await the_end(running)
    assert tell(exchange)[1].outcome == ("client_disconnected" if tail in TAILS else "completed")


async def _read_and_leave(address: Any, request: bytes, body: bytes) -> None:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    got = b""
    while body not in got:
        got += await asyncio.wait_for(reader.read(65_536), 10)
    writer.close()
