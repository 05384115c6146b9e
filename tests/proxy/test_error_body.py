"""What may be recorded of an error's body (R7), and how much of it (R5)."""

from __future__ import annotations

import gzip
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

import brotli  # type: ignore[import-untyped]  # it has no stubs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.jsontext import encode_json
from proxy.credentials import MASK
from proxy.error_body import MAX_CREDENTIALS, MAX_ERROR_BYTES, ErrorBody
from telemetry import answer_body
from tests.proxy.harness import Connection, ScriptedUpstream, ask, request_bytes, running_proxy
from tests.zstd import compress_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

KEY = b"sk-SECRET/abc+def-canary"
CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": compress_zstd,
    "deflate, gzip": lambda data: gzip.compress(zlib.compress(data)),
}


def record(
    pieces: Iterable[bytes],
    credentials: tuple[bytes, ...] = (KEY,),
    encoding: str = "",
    *,
    is_whole: bool = True,
) -> tuple[bytes, int]:
    body = ErrorBody(credentials, encoding)
    for piece in pieces:
        body.feed(piece)
    return body.finish(is_whole=is_whole)


@given(st.lists(st.integers(0, 90)))
def test_rule_1_however_the_body_is_cut_all_of_its_credentials_are_masked(cuts: list[int]) -> None:
    """A longer one, too, that begins as a shorter one does."""
    longer = KEY + b"-and-more"
    body = b"wrong key " + KEY + b" or " + longer + KEY + b"!"
    edges = [0, *sorted(cuts), len(body)]
    text, left_out_bytes = record((body[a:b] for a, b in pairwise(edges)), (KEY, longer))
    assert text == b"wrong key " + MASK + b" or " + MASK + b"!"
    assert left_out_bytes == 0


@pytest.mark.parametrize("encoding", CODINGS)
def test_rule_2_what_a_body_decodes_to_is_masked(encoding: str) -> None:
    """Read byte by byte, and at once."""
    encoded = CODINGS[encoding](b'{"error": "wrong key: Bearer %b"}' % KEY)
    expected = (b'{"error": "wrong key: Bearer %b"}' % MASK, 0)
    assert record([encoded], encoding=encoding) == expected
    assert record((bytes([byte]) for byte in encoded), encoding=encoding.upper()) == expected


def test_rule_3_a_body_in_an_unknown_coding_is_left_out() -> None:
    """Nobody can search it."""
    assert record([b"abc", b"de"], encoding="dcb") == (b"", 5)


def test_rule_3_too_many_credentials_are_not_looked_for() -> None:
    """No text is searched for more than so many; the body is left out, to the byte."""
    many = tuple(b"canary-%05d" % number for number in range(MAX_CREDENTIALS + 1))
    pieces = [b"x" * 65_536] * 64
    assert record(pieces, many) == (b"", 64 * 65_536)
    assert record([b"<%b>" % many[5]], many[1:]) == (b"<" + MASK + b">", 0)


def test_rule_3_no_more_is_searched_than_an_observer_keeps() -> None:
    """Of 4 MB 64 KiB, whatever their reads are like."""
    assert MAX_ERROR_BYTES == answer_body.MAX_ERROR_BYTES
    text, left_out_bytes = record([b"word " * 200] * 4_000)
    assert len(text) <= MAX_ERROR_BYTES
    assert len(text) > MAX_ERROR_BYTES - 100
    assert left_out_bytes == 4_000_000 - MAX_ERROR_BYTES


@pytest.mark.parametrize("encoding", CODINGS)
def test_rule_3_a_few_bytes_that_decode_to_many_are_decoded_so_far(encoding: str) -> None:
    """And what was not is told to be missing."""
    encoded = CODINGS[encoding](b"word " * 2_000_000)
    text, left_out_bytes = record([encoded, b"more"], encoding=encoding)
    assert 0 < len(text) <= MAX_ERROR_BYTES
    assert left_out_bytes > 0


def test_rule_3_a_body_that_is_not_encoded_as_it_says_is_left_out() -> None:
    """From where that shows."""
    assert record([b"no gzip", b"at all"], encoding="gzip") == (b"", 13)


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_rule_4_a_body_that_breaks_off_within_a_credential_shows_no_part_of_it(
    encoding: str,
) -> None:
    """Nor the last word before that: it may be the half of another secret."""
    body = b"Some words. The card 4111 1111 1111 was refused. Key: " + KEY
    data = gzip.compress(body)[:-12] if encoding else body[:-4]
    text, _ = record([data], encoding=encoding, is_whole=False)
    assert text.startswith(b"Some words. The card ")
    assert b"sk-" not in text
    if encoding:  # an upstream may say that this was all
        assert record([data], encoding=encoding) == (text, 0)
    ends_in_card, _ = record([b"The card 4111 1111 1111" + b"x" * 27], is_whole=False)
    assert ends_in_card == b"The "


@pytest.mark.parametrize("encoding", [b"", *(name.encode() for name in CODINGS)])
async def test_an_encoded_answer_that_quotes_the_key_is_recorded_without_it(
    encoding: bytes,
) -> None:
    """The client gets what the upstream sent (R1); neither frame nor record has the key (R7)."""
    words = encode_json({"error": {"message": f"no such key: Bearer {KEY.decode()}", "type": "x"}})
    body = words.replace("/", r"\/").replace("+", r"\u002b").encode()
    if encoding:
        body = CODINGS[encoding.decode()](body)

    async def script(connection: Connection) -> None:
        head = b"Content-Encoding: " + encoding + b"\r\n" if encoding else b""
        await connection.answer(body, status=b"401 Unauthorized", head=head)

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        request = request_bytes(head=b"Authorization: Bearer " + KEY + b"\r\n")
        answer = await ask(running.address, request)
        exchange = await running.sink.wait_for()
    assert answer.body == body
    assert exchange.error_message == "no such key: [credential]"
    assert exchange.anomalies == ()
    assert "SECRET" not in repr(exchange) + repr(running.sink.frames)


async def test_a_request_with_too_many_credentials_gets_a_span_without_the_errors_words() -> None:
    """Its anomaly says why; the client gets the words."""
    cookies = b"; ".join(b"c%d=canary-%05d" % (n, n) for n in range(3_000))

    async def script(connection: Connection) -> None:
        await connection.answer(b"x" * 100_000, status=b"401 Unauthorized")

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        answer = await ask(running.address, request_bytes(head=b"Cookie: " + cookies + b"\r\n"))
        exchange = await running.sink.wait_for()
    assert answer.body == b"x" * 100_000
    assert exchange.error_message == "HTTP status 401"
    assert exchange.anomalies == ("observer_limit",)
    assert "canary" not in repr(running.sink.frames)
