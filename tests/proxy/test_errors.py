"""Answers of the proxy's own."""

from __future__ import annotations

import json

import pytest

from proxy.errors import GatewayError, broken_request_body, encode_error
from telemetry.frames.ending import EndKind
from tests.proxy.raw_client import split_answer


@pytest.mark.parametrize(
    ("status", "line", "kind"),
    [
        (400, b"HTTP/1.1 400 Bad Request", "invalid_request_error"),
        (431, b"HTTP/1.1 431 Request Header Fields Too Large", "invalid_request_error"),
        (501, b"HTTP/1.1 501 Not Implemented", "invalid_request_error"),
        (500, b"HTTP/1.1 500 Internal Server Error", "spantap_error"),
        (502, b"HTTP/1.1 502 Bad Gateway", "spantap_error"),
        (504, b"HTTP/1.1 504 Gateway Timeout", "spantap_error"),
    ],
)
def test_an_error_has_the_shape_of_openai_s(status: int, line: bytes, kind: str) -> None:
    """The type says whose fault it is; what is not supported is asked for by the client."""
    got, fields, body = split_answer(encode_error(status, "some_code", 'no "é"\n'))
    assert got == line
    assert fields == [
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"%d" % len(body)),
        (b"Connection", b"close"),
    ]
    assert json.loads(body) == {  # noqa: TID251 - as a client would
        "error": {"message": 'no "é"\n', "type": kind, "param": None, "code": "some_code"}
    }


def test_an_error_without_a_body_tells_its_length() -> None:
    """For HEAD: the same head."""
    whole = encode_error(502, "code", "message")
    assert whole.startswith(encode_error(502, "code", "message", has_body=False))
    assert encode_error(502, "code", "message", has_body=False).endswith(b"\r\n\r\n")


def test_a_message_that_is_no_unicode_is_sent_all_the_same() -> None:
    """A path's undecodable bytes are surrogates in text."""
    assert b"\\\\udcff" in encode_error(502, "code", "\udcff").replace(b"\\", b"\\\\")


def test_a_gateway_error_says_how_the_exchange_ended() -> None:
    """And is its message as text."""
    error = GatewayError(504, "code", "message", EndKind.TIMEOUT)
    assert str(error) == error.message == "message"
    assert (error.status, error.code, error.end) == (504, "code", EndKind.TIMEOUT)


def test_a_client_whose_body_broke_off_is_told_why() -> None:
    """One error, whether the body was being read or relayed; the client ended the exchange."""
    error = broken_request_body("a chunk has no size")
    assert (error.status, error.code, error.end) == (
        400,
        "invalid_request_body",
        EndKind.CLIENT_GONE,
    )
    assert error.message.endswith(": a chunk has no size")
