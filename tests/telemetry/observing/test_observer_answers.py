"""What the body of an answer is taken for: a stream, a plain answer, a refusal or mere text."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.frames.ending import EndKind
from telemetry.frames.frame import MAX_ERROR_BYTES
from telemetry.observing import provider_words
from telemetry.observing.encryption import KEY_BYTES, OWN_CIPHER, Cipher
from telemetry.observing.exchange import Outcome
from telemetry.observing.provider_words import _LAST_WORD, _LAST_WORD_CHARS
from telemetry.privacy.json_strings import REDACTED
from tests.telemetry.observed import content, observe
from tests.telemetry.tap_frames import (
    ANSWER,
    ASKED,
    ASKED_STREAM,
    DONE,
    HEL,
    STOP,
    USAGE,
    begin,
    exchange_frames,
)


@pytest.mark.parametrize("before", [b"\n\n", b" \r\n\t", b"\xef\xbb\xbf", b"\n\xef\xbb\xbf "])
def test_what_comes_before_a_plain_answer_does_not_make_it_a_stream(before: bytes) -> None:
    """Blank lines while the request is queued (DeepSeek), or a byte order mark."""
    exchange = observe(exchange_frames(before, ANSWER))
    assert exchange == observe(exchange_frames(ANSWER))
    assert exchange == observe(exchange_frames(before + ANSWER))


def test_a_refusal_keeps_its_body_as_text_up_to_the_limit() -> None:
    """With the provider's message; what an answer would have lacks is no anomaly here."""
    body = b'{"error":{"message":"No such model","type":"invalid_request_error"}}'
    exchange = observe(exchange_frames(body, status=404))
    assert exchange.error_body == body.decode()
    assert (exchange.error_type, exchange.error_message) == ("404", "No such model")
    assert exchange.anomalies == ()
    html = b"<h1>" + b"x" * MAX_ERROR_BYTES
    exchange = observe(exchange_frames(html[:9], html[9:], b"more", status=502))
    assert exchange.error_body == html[: MAX_ERROR_BYTES - 256].decode()
    assert exchange.anomalies == ("observer_limit",)
    spaced = b"<p>" * (MAX_ERROR_BYTES // 3) + b" key sk-abcd"
    cut_off = spaced[-MAX_ERROR_BYTES - 4 :]  # within the last word
    exchange = observe(exchange_frames(cut_off + b"efgh", status=502))
    assert exchange.error_body is not None
    assert exchange.error_body.endswith(" key "), "half a secret is found by no pattern"
    exchange = observe(exchange_frames(b'{"detail":"no key"}', status=403))
    assert (exchange.error_message, exchange.anomalies) == ("no key", ())
    exchange = observe(exchange_frames(b"\xff<h1>", status=502))
    assert (exchange.error_body, exchange.anomalies) == ("\ufffd<h1>", ())


def test_the_last_word_of_a_cut_error_is_looked_for_in_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pattern that is tried at each of 65,536 places of one long word takes seconds."""
    looked_into: list[str] = []

    class Watched:
        """The pattern, and what it is given."""

        def sub(self, by: str, text: str) -> str:
            looked_into.append(text)
            return _LAST_WORD.sub(by, text)

    monkeypatch.setattr(provider_words, "_LAST_WORD", Watched())
    exchange = observe(exchange_frames(b"a" * (MAX_ERROR_BYTES + 1), status=502))
    assert exchange.error_body == "a" * (MAX_ERROR_BYTES - 256)
    assert [len(text) for text in looked_into] == [_LAST_WORD_CHARS]


def test_a_refusal_by_an_event_stream_is_kept_as_text() -> None:
    """The status decides what the body is."""
    exchange = observe(exchange_frames(HEL, DONE, status=500, asked=ASKED_STREAM))
    assert exchange.error_body == (HEL + DONE).decode()
    assert exchange.streamed is False


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        (b'{"id":', Outcome.TRUNCATED),
        (b"[1]", Outcome.NOT_AN_ANSWER),
        (b"{\xff}", Outcome.NOT_AN_ANSWER),
    ],
)
def test_an_answer_that_is_no_json_object_is_an_error(data: bytes, outcome: Outcome) -> None:
    """Its end was clean, and no client can read it: half a one, another value, no JSON."""
    exchange = observe(exchange_frames(data))
    assert exchange.response is None
    assert exchange.outcome is outcome
    assert exchange.anomalies == ("response_undecodable",)


TEXTS: dict[str, bytes] = {
    "HTML": b"<!doctype html><title>Welcome</title>",
    "text": b"OK",
    "text after blank lines": b"\r\n\r\nService is up: yes\ndata: none\n\n",
    "text that begins like a field": b"date: today",
    "the beginning of a field": b"dat",
    "a JSON string": b'"no"',
    "XML": b"<?xml version='1.0'?><Error/>",
}


@pytest.mark.parametrize("asked", [ASKED, ASKED_STREAM])
@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS)
def test_a_text_that_is_no_stream_is_no_answer(data: bytes, asked: bytes) -> None:
    """Whatever was asked for: its end was clean, its text is kept, and it is an error."""
    exchange = observe(exchange_frames(data, asked=asked, headers=[("content-type", "text/html")]))
    is_begun = data == TEXTS["the beginning of a field"]
    assert exchange.outcome is (Outcome.TRUNCATED if is_begun else Outcome.NOT_AN_ANSWER)
    assert exchange.error_type == ("stream_truncated" if is_begun else "not_an_answer")
    assert (exchange.streamed, exchange.response) == (False, None)
    assert exchange.undecoded_body == data.lstrip().decode()
    assert exchange.anomalies == ("response_undecodable",)
    broken = observe(exchange_frames(data, asked=asked, kind=EndKind.UPSTREAM_BROKEN))
    assert (broken.outcome, broken.undecoded_body) == (
        Outcome.TRUNCATED,
        data.lstrip().decode(),
    )


@pytest.mark.parametrize("line", [b": hi", b"data:{}", b"event: x", b"id: 1", b"retry: 5"])
@pytest.mark.parametrize("content_type", ["application/json", "text/plain", None])
def test_a_body_whose_first_line_is_a_streams_is_one(line: bytes, content_type: str | None) -> None:
    """Content types are often wrong (``docs/contract/wire.md#content-types``)."""
    headers = [("content-type", content_type)] if content_type else []
    exchange = observe(exchange_frames(line, b"\n\n", HEL, STOP, USAGE, DONE, headers=headers))
    assert exchange.streamed is True
    assert content(exchange) == "Hel"


def test_an_error_field_makes_a_stream() -> None:
    """Old llama.cpp (``docs/contract/wire.md#error-line``)."""
    exchange = observe(exchange_frames(b'error: {"message":"no slot"}\n\n', asked=ASKED_STREAM))
    assert (exchange.streamed, exchange.outcome) == (True, Outcome.STREAM_ERROR)


@pytest.mark.parametrize("content_type", ["text/event-stream", "Text/Event-Stream;charset=UTF-8"])
def test_what_is_called_an_event_stream_is_one(content_type: str) -> None:
    """Unless it is a JSON object: a field that nobody knows may come first."""
    headers = [("content-type", content_type)]
    exchange = observe(exchange_frames(b"x-note: 1\n", HEL, STOP, USAGE, DONE, headers=headers))
    assert (exchange.streamed, content(exchange)) == (True, "Hel")
    exchange = observe(exchange_frames(ANSWER, headers=headers))
    assert (exchange.streamed, content(exchange)) == (False, "Hello")
    exchange = observe(exchange_frames(b"", asked=ASKED_STREAM, headers=headers))
    assert exchange.outcome is Outcome.TRUNCATED


@pytest.mark.parametrize(
    ("data", "members", "providers"),
    [
        (b'{"error":{"message":"No","type":"t"}}', {"status": 401}, True),
        (b"", {"status": 503}, False),
        (b'data: {"error":{"message":"No"}}\n\n', {}, True),
        (b"", {"status": None, "kind": EndKind.CONNECT_ERROR, "message": "refused"}, False),
    ],
)
def test_whose_words_an_error_is_told_in_is_known(
    data: bytes, members: dict[str, Any], providers: bool
) -> None:
    """The provider's words may quote content, ours do not."""
    exchange = observe(exchange_frames(data, **members))
    assert exchange.error_message
    assert exchange.error_is_providers is providers


def test_what_another_key_has_sealed_hides_what_a_provider_says_of_an_error() -> None:
    """Frames that outlived all processes: nobody knows what to look for. An answer stays."""
    encrypted = Cipher(b"k" * KEY_BYTES).encrypt(b"authorization:Bearer sk-secret")
    refused, answered = (
        observe([begin(encrypted=encrypted), *exchange_frames(data, status=status)[1:]])
        for data, status in ((b'{"error":{"message":"sk-secret"}}', 401), (ANSWER, 200))
    )
    assert (refused.error_message, refused.error_body) == (REDACTED, REDACTED)
    assert answered.error_message is None
    assert answered.response == observe(exchange_frames(ANSWER)).response


@pytest.mark.parametrize("code", ["sk-secretpass", "hunterhunter"])
def test_a_key_as_the_code_of_an_error_becomes_no_label(code: str) -> None:
    """The type of an error is one of metrics."""
    encrypted = OWN_CIPHER.encrypt(f"x-pass:{code}".encode())
    data = b'data: {"error":{"message":"no","code":"%b"}}\n\n' % code.encode()
    exchange = observe([begin(encrypted=encrypted), *exchange_frames(data, asked=ASKED_STREAM)[1:]])
    assert exchange.error_type == "stream_error"
