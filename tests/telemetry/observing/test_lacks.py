"""What comes in the place of an answer, and what only seems to."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import encode_json
from telemetry.frames.ending import EndKind
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.observing.exchange import Outcome
from telemetry.observing.observer import Observer
from telemetry.observing.provider_words import MAX_WORDS_CHARS
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import (
    ANSWER,
    ASKED,
    ASKED_STREAM,
    DONE,
    GZIP,
    begin,
    exchange_frames,
)

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

BUSY = b'{"detail":"busy"}'
PAGE = b"<!DOCTYPE html><html><title>Sign in</title></html>"
HTML = [("content-type", "text/html")]
LINES = [("content-type", "application/x-ndjson")]
EVENTS = [("content-type", "text/event-stream")]
KEY = "sk-live-0123456789abcdef"
ENCRYPTED = OWN_CIPHER.encrypt(f"authorization:Bearer {KEY}".encode())
_RECORDING = {"model": "m", "file_url": "https://sounds.example/a"}


def call(endpoint: str, *data: bytes, asked: Any, **members: Any) -> Exchange:
    """The record of a call of some API."""
    frames = exchange_frames(*data, asked=encode_json(asked).encode(), **members)
    path = "/v1beta/models/m:streamGenerateContent" if endpoint == "gemini.stream" else "/v1/x"
    return observe([begin(endpoint=endpoint, path=path), *frames[1:]])


@pytest.mark.parametrize("status", [200, 201, 203, 206])
@pytest.mark.parametrize("asked", [ASKED, ASKED_STREAM])
def test_a_success_without_an_answer_is_an_error(status: int, asked: bytes) -> None:
    """Whatever was asked for; its words are the provider's, and what came is kept."""
    exchange = observe(exchange_frames(BUSY, asked=asked, status=status))
    assert (exchange.outcome, exchange.error_type) == (Outcome.NOT_AN_ANSWER, "not_an_answer")
    assert (exchange.error_message, exchange.error_is_providers) == ("busy", True)
    assert exchange.response is not None
    assert exchange.response.body == {"detail": "busy"}
    assert exchange.anomalies == ("foreign_chunk",)


@pytest.mark.parametrize("headers", [HTML, EVENTS, LINES, []], ids=str)
def test_a_page_is_a_page_whatever_it_is_called(headers: Any) -> None:
    """No line of any stream begins as one does."""
    for asked in (ASKED, ASKED_STREAM):
        exchange = observe(exchange_frames(PAGE, asked=asked, headers=headers))
        assert (exchange.outcome, exchange.streamed) == (Outcome.NOT_AN_ANSWER, False)
        assert (exchange.error_message, exchange.undecoded_body) == ("Sign in", PAGE.decode())


@pytest.mark.parametrize("kind", [EndKind.UPSTREAM_EOF, EndKind.UPSTREAM_UNFRAMED_END])
def test_half_a_json_broke_off_however_it_is_framed(kind: EndKind) -> None:
    """It is as long as the upstream promised."""
    exchange = observe(exchange_frames(ANSWER[:-1], kind=kind))
    assert (exchange.outcome, exchange.error_type) == (Outcome.TRUNCATED, "stream_truncated")
    assert (exchange.undecoded_body, exchange.error_is_providers) == (ANSWER[:-1].decode(), False)


@pytest.mark.parametrize("data", [(PAGE,), (BUSY,), (ANSWER[:-1],), ()], ids=str)
@pytest.mark.parametrize("status", [202, 204, 205, 307])
def test_where_no_answer_is_due_none_is_missed(data: tuple[bytes, ...], status: int) -> None:
    """Work that was taken on, no content, an address to go to."""
    for asked in (ASKED, ASKED_STREAM):
        exchange = observe(exchange_frames(*data, asked=asked, status=status))
        assert (exchange.outcome, exchange.error_type) == (Outcome.COMPLETED, None)


@pytest.mark.parametrize("endpoint", ["gemini.stream", "ollama.chat"])
def test_lines_where_no_answer_is_due_are_no_answer(endpoint: str) -> None:
    """Streams of JSON read what would be a plain answer of other APIs."""
    asked = {"model": "m", "messages": [], "contents": []}
    assert call(endpoint, BUSY, asked=asked, status=202).outcome is Outcome.COMPLETED
    exchange = call(endpoint, BUSY, asked=asked)
    assert (exchange.outcome, exchange.streamed) == (Outcome.NOT_AN_ANSWER, True)


@pytest.mark.parametrize("kind", [EndKind.CLIENT_GONE, EndKind.CLIENT_STALLED])
@pytest.mark.parametrize("data", [(PAGE,), (BUSY,), (ANSWER[:-1],), ()], ids=str)
def test_a_client_that_left_is_no_error(data: tuple[bytes, ...], kind: EndKind) -> None:
    """Nobody knows what would have come."""
    exchange = observe(exchange_frames(*data, kind=kind))
    assert (exchange.outcome, exchange.error_type) == (Outcome.CLIENT_DISCONNECTED, None)


@pytest.mark.parametrize("data", [(PAGE,), (BUSY,)], ids=str)
def test_what_broke_off_is_no_page(data: tuple[bytes, ...]) -> None:
    """The rest may have been anything."""
    exchange = observe(exchange_frames(*data, kind=EndKind.UPSTREAM_BROKEN))
    assert exchange.outcome is Outcome.TRUNCATED


UNREAD: dict[str, tuple[bytes, dict[str, Any]]] = {
    "an unknown coding": (PAGE, {"headers": [("content-encoding", "sdch")]}),
    "a coding that is not the body's": (PAGE, {"headers": GZIP}),
    "some of it was shed": (ANSWER[:-9], {"shed_bytes": 9}),
    "another encoding": (ANSWER.decode().encode("utf-16"), {}),
    "a letter that is no UTF-8": (ANSWER.replace(b"Hello", b"caf\xe9"), {}),
    "a number of thousands of digits": (ANSWER.replace(b'"created":1', b'"x":' + b"9" * 5_000), {}),
    "nested too deeply": (ANSWER.replace(b'"created":1', b'"x":' + b"[" * 600 + b"]" * 600), {}),
}


@pytest.mark.parametrize(("data", "members"), UNREAD.values(), ids=UNREAD)
def test_what_only_we_cannot_read_is_no_error(data: bytes, members: dict[str, Any]) -> None:
    """It is marked, and its client may have an answer (``docs/contract/sources.md#n13``)."""
    for kind in (EndKind.UPSTREAM_EOF, EndKind.UPSTREAM_UNFRAMED_END):
        exchange = observe(exchange_frames(data, kind=kind, **members))
        assert (exchange.outcome, exchange.error_type) == (Outcome.COMPLETED, None)
        assert {"response_undecodable", "observer_limit"} & {*exchange.anomalies}


def test_a_coding_is_undone_before_a_body_is_judged() -> None:
    """A page, half an answer, nothing, and an answer."""
    wanted = {
        PAGE: Outcome.NOT_AN_ANSWER,
        ANSWER[:-1]: Outcome.TRUNCATED,
        b"": Outcome.TRUNCATED,
        ANSWER: Outcome.COMPLETED,
    }
    for body, outcome in wanted.items():
        assert observe(exchange_frames(gzip.compress(body), headers=GZIP)).outcome is outcome


@pytest.mark.parametrize("end", [b"", DONE], ids=["no mark", "[DONE]"])
@pytest.mark.parametrize("data", [b"data: " + BUSY + b"\n\n", b"data: hello\n\n", b"data: 7\n\n"])
def test_a_stream_of_nothing_of_its_api_is_no_answer(data: bytes, end: bytes) -> None:
    """Though it has the mark of an end, and whoever closed behind that."""
    for kind in (EndKind.UPSTREAM_EOF, EndKind.CLIENT_GONE) if end else (EndKind.UPSTREAM_EOF,):
        exchange = observe(exchange_frames(data, end, asked=ASKED_STREAM, kind=kind))
        assert (exchange.outcome, exchange.streamed) == (Outcome.NOT_AN_ANSWER, True)


@pytest.mark.parametrize(
    ("endpoint", "asked"),
    [
        ("rerank", {"query": "q", "documents": ["a"]}),
        ("moderations", {"input": "a"}),
        ("count_tokens", {"messages": []}),
        ("gemini.embed", {"content": {"parts": [{"text": "a"}]}}),
        ("ollama.embed", {"model": "m", "input": "a"}),
        ("embeddings", {"input": "a"}),
        ("messages", {"messages": []}),
        ("responses", {"input": "a"}),
        ("images", {"prompt": "a"}),
        ("audio.speech", {"input": "a"}),
        ("audio.transcriptions", _RECORDING),
    ],
)
def test_events_that_are_none_of_an_api_are_no_answer(endpoint: str, asked: Any) -> None:
    """Also of an API that has no streams."""
    events = b'data: {"detail": "busy"}\n\ndata: [DONE]\n\n'
    exchange = call(endpoint, events, asked={"stream": True, **asked}, headers=EVENTS)
    assert (exchange.outcome, exchange.streamed) == (Outcome.NOT_AN_ANSWER, True)


def test_a_stream_that_began_broke_off() -> None:
    """Odd events behind what was said do not make it something else."""
    begun = b'data: {"type":"response.created","response":{"id":"r","output":[]}}\n\ndata: wait\n\n'
    exchange = call("responses", begun, asked={"input": "a", "stream": True})
    assert exchange.outcome is Outcome.TRUNCATED


def test_sound_of_an_unknown_type_is_sound() -> None:
    """It is counted by nobody, and is no page; an answer without a byte is none."""
    asked = {"model": "m", "input": "Ahoy", "voice": "v"}
    silence = b"RIFF\x24\0\0\0WAVEfmt " + bytes(40)  # valid UTF-8
    for headers in ([("content-type", "application/x-sound")], []):
        for sound in (b"ID3\x04\0\0\xff\xfb\x90", silence):
            exchange = call("audio.speech", sound, asked=asked, headers=headers)
            assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
            assert exchange.undecoded_body is None
    for headers in ([("content-type", "audio/mpeg")], []):
        exchange = call("audio.speech", asked=asked, headers=headers)
        assert exchange.outcome is Outcome.TRUNCATED
    page = call("audio.speech", PAGE + b"caf\xe9", asked=asked, headers=HTML)
    assert (page.outcome, page.error_message) == (Outcome.NOT_AN_ANSWER, "Sign in")
    assert call("audio.speech", BUSY, asked=asked).error_message == "busy"


@pytest.mark.parametrize(
    ("body", "words"),
    [(PAGE, "Sign in"), (BUSY, "busy"), (b'{"error":{"message":"no voice"}}', "no voice")],
)
def test_text_that_is_called_sound_is_none(body: bytes, words: str) -> None:
    """A gateway may call all that it answers sound; sound may begin as text does."""
    asked = {"model": "m", "input": "Ahoy", "voice": "v"}
    mpeg = [("content-type", "audio/mpeg")]
    exchange = call("audio.speech", body, asked=asked, headers=mpeg)
    assert (exchange.error_message, exchange.error_is_providers) == (words, True)
    for rest in (b"\xff\xfb", b"\0"):
        exchange = call("audio.speech", body + rest, asked=asked, headers=mpeg)
        assert exchange.outcome is Outcome.COMPLETED
        assert exchange.response is not None
        assert exchange.response.output_bytes == len(body + rest)


@pytest.mark.parametrize(
    ("endpoint", "asked", "answer"),
    [
        ("completions", {"prompt": "a"}, {"content": "Ahoy", "stop": True}),  # llama.cpp's own
        ("embeddings", {"input": "a"}, {"embeddings": {"float": [[0.5]]}}),  # Cohere's
    ],
)
def test_an_answer_in_another_form_of_its_api_is_one(
    endpoint: str, asked: Any, answer: Any
) -> None:
    """A server may answer in its own form where the end of the path is the same."""
    exchange = call(endpoint, encode_json(answer).encode(), asked=asked)
    assert exchange.outcome is Outcome.COMPLETED
    assert "foreign_chunk" not in exchange.anomalies
    assert exchange.response is not None
    assert exchange.response.body == answer


@pytest.mark.parametrize("form", ["text", "srt", "vtt"])
def test_a_text_is_an_answer_where_one_was_asked_for(form: str) -> None:
    """That of silence is empty; a page is no text."""
    asked = _RECORDING | {"response_format": form}
    for said in (b"Hello", b"1\n00:00 --> 00:01\nHello\n", b"WEBVTT\n", b"\n", b"data", b""):
        exchange = call("audio.transcriptions", said, asked=asked)
        assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ()), said
    assert call("audio.transcriptions", b"42", asked=asked).outcome is Outcome.COMPLETED
    for body in (PAGE, BUSY, b'<?xml version="1.0"?><Error/>'):
        exchange = call("audio.transcriptions", body, asked=asked)
        assert exchange.outcome is Outcome.NOT_AN_ANSWER
    for body in (b"null", b"[]", b'""', b"42", b"true"):
        exchange = call("audio.transcriptions", body, asked=_RECORDING)
        assert exchange.outcome is Outcome.NOT_AN_ANSWER
    assert call("audio.transcriptions", asked=_RECORDING).outcome is Outcome.TRUNCATED


def test_words_are_masked_and_short() -> None:
    """A page may quote a key, in any spelling, and be of any length."""
    bodies = (
        b'{"detail":"no such key: %b"}' % KEY.encode(),
        b"<title>no such key: %b</title>" % KEY.encode(),
        b"<p>no such key: %b</p>" % KEY.replace("-", "&#45;").encode(),
        b'{"code":7,"msg":"no such key: %b"}' % KEY.encode(),
        b"<p>" + b"x" * (MAX_WORDS_CHARS - 30) + b" no such key: " + KEY.encode() + b"</p>",
        b'data: {"detail":"no such key: %b"}\n\n' % KEY.encode(),
    )
    for body in bodies:
        exchange = observe([begin(encrypted=ENCRYPTED), *exchange_frames(body)[1:]])
        assert exchange.outcome is Outcome.NOT_AN_ANSWER
        message = exchange.error_message or ""
        assert KEY[:12] not in message
        assert "no such key" in message
        assert len(message) <= MAX_WORDS_CHARS
    odd = b'{"id":"%b","detail":"no such key"}' % KEY.encode()
    answer_id = observe([begin(encrypted=ENCRYPTED), *exchange_frames(odd)[1:]]).response
    assert answer_id is not None
    assert KEY not in str(answer_id.id)


def test_a_request_of_another_api_is_due_no_answer_of_this_one() -> None:
    """Programs of all kinds have such paths, and answer in their own way."""
    for said in (b'{"reply":"Hello"}', PAGE, b'0:"Hello"\n'):
        exchange = call("ollama.chat", said, asked={"messages": "Hi"})
        assert exchange.outcome is Outcome.COMPLETED
        assert "request_undecodable" in exchange.anomalies


def test_a_request_that_was_too_large_is_due_its_answer() -> None:
    """Its size says nothing of its shape."""
    exchange = observe(exchange_frames(PAGE, asked=None), Observer())
    assert exchange.outcome is Outcome.NOT_AN_ANSWER
