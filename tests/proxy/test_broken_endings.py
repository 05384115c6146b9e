"""Endings that the connections tell, of every API: before the mark of an end and behind it."""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from codec.apis.table import POSTED
from tests.proxy.api_endings import BUILT, Ended, cut, head_of, ok, request_of, tell
from tests.proxy.chat_endings import ROWS
from tests.proxy.harness import relaying
from tests.proxy.observed_ends import the_end
from tests.proxy.raw_client import ask

if TYPE_CHECKING:
    from tests.corpus.recordings import Recording
    from tests.proxy.harness import Connection
    from tests.proxy.raw_client import Address


class Marked(NamedTuple):
    """A streamed answer, and where the mark of its end is.

    Attributes:
        mark: how that begins, of which the last one counts.
        whole: how the span of all of it ends.
        before: what that of the rest tells; complete where the rest is as good as all.
        needs_end: whether only the end of the bytes makes all of it complete.
    """

    recording: Recording
    mark: bytes
    whole: Ended
    before: Ended = cut()
    needs_end: bool = False

    def split(self) -> tuple[bytes, bytes]:
        """What comes before the mark, and the mark with what comes behind."""
        at = self.recording.body.rindex(self.mark)
        return self.recording.body[:at], self.recording.body[at:]

    def expect(self, end: _End, *, marked: bool) -> Ended:
        """How the span ends, by what came and by the connection's end."""
        came = self.whole if marked else self.before
        has_gone_well = end is _End.CLIENT_LEAVES
        if came.outcome == "completed" and (has_gone_well or not (marked and self.needs_end)):
            return came
        outcome, error = _TOLD[end]
        return came._replace(outcome=outcome, error=error)


class _End(Enum):
    """How a connection ends."""

    UPSTREAM_CLOSES = auto()
    UPSTREAM_RESETS = auto()
    UPSTREAM_IS_SILENT = auto()
    CLIENT_LEAVES = auto()


_TOLD = {
    _End.UPSTREAM_CLOSES: ("truncated", "stream_truncated"),
    _End.UPSTREAM_RESETS: ("truncated", "stream_truncated"),
    _End.UPSTREAM_IS_SILENT: ("timeout", "timeout"),
    _End.CLIENT_LEAVES: ("client_disconnected", None),
}


def _marked(api: str, name: str, mark: bytes, **members: Any) -> Marked:
    recording, whole = ROWS[api, name]
    return Marked(recording, mark, whole, **members)


_TWO_CALLS = "thinking, text and two calls"
_REASON = b'data: {"choices": [{"index": 0, "finish_reason": "stop"'
_ARRAY = "a thought, words and a call in an array"
STREAMS = {
    "chat": _marked("chat.completions", "words in pieces", _REASON),
    "a legacy completion": _marked("completions", "words in pieces", _REASON),
    "Messages": _marked("messages", _TWO_CALLS, b"event: message_delta"),
    "Messages, its reason told": _marked(
        *("messages", _TWO_CALLS, b"event: message_stop"),
        before=ok("tool_use", "no_message_stop"),
    ),
    "Messages on Vertex AI": _marked(
        "messages", "a stream of Vertex AI's", b"event: message_delta"
    ),
    "Gemini's events": _marked(
        *("gemini.stream", "a thought, words and a call in pieces", b"data:"), needs_end=True
    ),
    "Gemini's events, inside one": _marked(
        *("gemini.stream", "two candidates, one after the other", b'"MAX_TOKENS"'),
        before=cut("STOP"),
        needs_end=True,
    ),
    "Gemini's array": _marked("gemini.stream", _ARRAY, b"]", before=cut("STOP")),
    "Ollama's chat": _marked("ollama.chat", "thinking and a call", b'{"model"'),
    "Ollama's text": _marked("ollama.generate", "a context", b'{"model"'),
    "Images": _marked("images", "an image and two before it", b"event: image_generation.completed"),
    "Speech": _marked("audio.speech", "sound in events", b"event: speech.audio.done"),
    "Transcription": _marked(
        "audio.transcriptions", "words in pieces", b"event: transcript.text.done"
    ),
    "Responses": _marked(
        *("responses", "a refusal", b"event: response.completed"),
        before=cut()._replace(refused=(0,)),
    ),
    "Responses, cut by a limit": _marked(
        "responses", "an answer cut by its limit", b"event: response.incomplete"
    ),
}
IDLE_SECONDS = 0.2
streams = pytest.mark.parametrize("name", STREAMS)


@streams
@pytest.mark.parametrize("marked", [False, True], ids=["before the mark", "behind it"])
@pytest.mark.parametrize("end", _End, ids=lambda end: end.name)
async def test_a_stream_that_breaks_off_is_judged_by_its_mark(
    name: str, end: _End, *, marked: bool
) -> None:
    """The client has what came, and no clean end; what it had all of is complete all the same."""
    stream = STREAMS[name]
    sent = stream.recording.body if marked else stream.split()[0]

    async def script(connection: Connection) -> None:
        await connection.send(head_of(stream.recording))
        await connection.send_chunks(sent, end=False)
        if end is _End.UPSTREAM_CLOSES:
            connection.writer.close()
        elif end is _End.UPSTREAM_RESETS:
            await asyncio.sleep(0.05)  # a reset may overtake what the kernel has not sent yet
            connection.reset()
        else:
            await connection.wait_closed_by_peer()

    is_silent = end is _End.UPSTREAM_IS_SILENT
    limits: dict[str, Any] = {"idle_timeout_seconds": IDLE_SECONDS} if is_silent else {}
    async with relaying(script, **limits) as (_, running):
        if end is _End.CLIENT_LEAVES:
            await _leave_behind(running.address, stream.recording, sent[-16:])
        else:
            answer = await ask(running.address, request_of(stream.recording))
            assert (answer.body, answer.clean) == (sent, False)
        exchange = await the_end(running)
    expected = stream.expect(end, marked=marked)
    assert tell(exchange) == (expected.status, expected)


async def _leave_behind(address: Address, recording: Recording, last: bytes) -> None:
    """Ask, and hang up when these bytes have come."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request_of(recording))
    await reader.readuntil(last)
    writer.close()


@streams
async def test_a_stream_that_ends_without_its_mark_is_cut(name: str) -> None:
    """However cleanly the connection ends; the client's ends likewise."""
    stream = STREAMS[name]
    before, _ = stream.split()

    async def script(connection: Connection) -> None:
        await connection.send(head_of(stream.recording))
        await connection.send_chunks(before)

    async with relaying(script) as (_, running):
        answer = await ask(running.address, request_of(stream.recording))
        exchange = await the_end(running)
    assert (answer.body, answer.clean) == (before, True)
    assert tell(exchange) == (stream.before.status, stream.before)


@pytest.mark.parametrize("more", [True, False], ids=["more came", "no more came"])
async def test_a_client_that_leaves_behind_a_reason_has_all_unless_more_came(*, more: bool) -> None:
    """Gemini marks no end: only what came after the client had gone tells.

    See ``docs/contract/apis.md#gemini-endings``.
    """
    recording = BUILT["gemini.stream", "two candidates, one after the other"]
    at = recording.body.rindex(b"data:")
    gone = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.send(head_of(recording))
        await connection.send_chunks(recording.body[:at], end=False)
        await gone.wait()
        await asyncio.sleep(0.05)  # until the proxy knows
        if more:
            await connection.send_chunks(recording.body[at:])
        else:
            connection.reset()

    async with relaying(script, on_disconnect="drain") as (_, running):
        await _leave_behind(running.address, recording, recording.body[at - 16 : at])
        gone.set()
        exchange = await the_end(running)
    expected = ok("STOP")._replace(outcome="client_disconnected") if more else ok("STOP")
    assert tell(exchange) == (expected.status, expected)


# --- sound, of which only its framing tells the end

_SOUND = BUILT["audio.speech", "sound"]
_ALL, _HALF = _SOUND.body, _SOUND.body[: len(_SOUND.body) // 2]
_COUNTED, _CHUNKED = b"Content-Length: %d" % len(_ALL), b"Transfer-Encoding: chunked"
_CLOSED = b"Connection: close"
_CHUNK = b"%x\r\n" % len(_ALL)
SOUNDS = {
    "as long as told": (_COUNTED, _ALL, _ALL, ok()),
    "shorter than told": (_COUNTED, _HALF, _HALF, cut()),
    "none but its length": (_COUNTED, b"", b"", cut()),
    "with its last chunk": (_CHUNKED, _CHUNK + _ALL + b"\r\n0\r\n\r\n", _ALL, ok()),
    "without its last chunk": (_CHUNKED, _CHUNK + _ALL + b"\r\n", _ALL, cut()),
    "cut inside a chunk": (_CHUNKED, _CHUNK + _HALF, _HALF, cut()),
    "until the end": (_CLOSED, _ALL, _ALL, cut()),
    "half of it until the end": (_CLOSED, _HALF, _HALF, cut()),
}
"""The framing, what comes behind the head, the sound in it, and how the call ended."""


@pytest.mark.parametrize("name", SOUNDS)
async def test_sound_is_whole_by_its_framing_alone(name: str) -> None:
    """By its length or its last chunk; where nothing but the connection ends it, nobody knows."""
    framing, wire, sound, expected = SOUNDS[name]

    async def script(connection: Connection) -> None:
        head = b"HTTP/1.1 200 Said\r\nContent-Type: audio/mpeg\r\n%b\r\n\r\n" % framing
        await connection.send(head, wire)
        connection.writer.close()

    async with relaying(script) as (_, running):
        answer = await ask(running.address, request_of(_SOUND))
        exchange = await the_end(running)
    is_clean = expected == ok() or framing is _CLOSED
    assert (answer.body, answer.clean) == (sound, is_clean)
    assert tell(exchange) == (expected.status, expected)


async def test_a_client_that_leaves_amid_sound_leaves_no_error() -> None:
    """Half of it is neither a success nor a fault of the provider's."""

    async def script(connection: Connection) -> None:
        await connection.send(head_of(_SOUND))
        await connection.send_chunks(_HALF, end=False)
        await connection.wait_closed_by_peer()

    async with relaying(script) as (_, running):
        await _leave_behind(running.address, _SOUND, _HALF[-16:])
        exchange = await the_end(running)
    assert tell(exchange) == ("UNSET", Ended("client_disconnected"))


# --- answers in one piece

PLAIN = {
    api: ROWS[api, name]
    for api, name in (
        ("audio.speech", "Mistral's sound"),
        ("audio.transcriptions", "words"),
        ("audio.translations", "words"),
        ("chat.completions", "words in one piece"),
        ("code_assist.count", "a count"),
        ("code_assist.generate", "an answer cut by its limit"),
        ("completions", "words in one piece"),
        ("count_tokens", "a count"),
        ("embeddings", "vectors"),
        ("gemini.count", "a count"),
        ("gemini.embed", "several contents"),
        ("gemini.generate", "an answer cut by its limit"),
        ("images", "an address"),
        ("messages", "a plain refusal"),
        ("moderations", "Mistral's"),
        ("ollama.chat", "a plain chat"),
        ("ollama.embed", "several texts"),
        ("ollama.generate", "a plain text"),
        ("rerank", "Jina's"),
        ("responses", "a refusal in one piece"),
    )
}
plain = pytest.mark.parametrize("api", PLAIN)


def test_every_api_is_here() -> None:
    """But for those that only stream."""
    assert {api.name for api in POSTED} == PLAIN.keys() | {"gemini.stream", "code_assist.stream"}


@plain
@pytest.mark.parametrize("framed", [True, False], ids=["counted", "until the end"])
@pytest.mark.parametrize("half", [True, False], ids=["half", "whole"])
async def test_a_plain_answer_is_whole_or_cut(api: str, *, framed: bool, half: bool) -> None:
    """By its length, or where nothing tells it, by its JSON."""
    recording, whole = PLAIN[api]
    body = recording.body[: len(recording.body) // 2] if half else recording.body
    length = b"Content-Length: %d\r\n" % len(recording.body) if framed else b""

    async def script(connection: Connection) -> None:
        head = b"HTTP/1.1 200 Said\r\nContent-Type: application/json\r\n%b\r\n" % length
        await connection.send(head, body)
        connection.writer.close()

    async with relaying(script) as (_, running):
        answer = await ask(running.address, request_of(recording))
        exchange = await the_end(running)
    assert (answer.body, answer.clean) == (body, not (framed and half))
    status, told = tell(exchange)
    if half:
        assert (status, told.outcome, told.error) == ("ERROR", "truncated", "stream_truncated")
        assert told.reason is None
    else:
        assert (status, told) == (whole.status, whole)


@plain
async def test_a_client_that_waits_no_longer_leaves_no_error(api: str) -> None:
    """Before any answer came."""
    recording, _ = PLAIN[api]
    asked = asyncio.Event()

    async def script(connection: Connection) -> None:
        asked.set()
        await connection.wait_closed_by_peer()

    async with relaying(script) as (_, running):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(request_of(recording))
        await asked.wait()
        writer.close()
        exchange = await the_end(running)
    assert tell(exchange) == ("UNSET", Ended("client_disconnected"))


@plain
async def test_an_upstream_that_answers_nothing_is_an_error(api: str) -> None:
    """The client is told so by us."""
    recording, _ = PLAIN[api]

    async def script(connection: Connection) -> None:
        connection.writer.close()

    async with relaying(script) as (_, running):
        answer = await ask(running.address, request_of(recording))
        exchange = await the_end(running)
    assert (answer.status, answer.clean) == (502, True)
    assert "closed" in answer.error["message"]
    assert tell(exchange) == ("ERROR", Ended("connect_error", "connection_error"))
