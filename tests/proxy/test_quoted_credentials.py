"""What a provider quotes of a request's head is in nothing that is recorded (R7)."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, NamedTuple

import brotli  # type: ignore[import-untyped]  # it has no stubs
import pytest
from msgspec.structs import replace

from codec.apis.api import Api
from codec.apis.table import POSTED
from codec.text.jsontext import encode_json
from proxy.relay.tap import MAX_MASKED_BYTES
from telemetry.frames.frame import MAX_ERROR_BYTES, ResponseData
from telemetry.observing.encryption import Cipher
from telemetry.observing.observer import Observer
from telemetry.privacy.credentials import MAX_CREDENTIALS
from telemetry.privacy.json_strings import REDACTED
from tests.proxy.harness import ANSWER, Connection, relaying, request_bytes
from tests.proxy.raw_client import ask
from tests.proxy.recorded_calls import tell_span
from tests.telemetry.observed import observe
from tests.zstd import compress_zstd

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.frames.frame import Frame
    from telemetry.observing.exchange import Exchange

KEY = b"sk-SECRET/abc+def-canary"
HEAD = b"Authorization: Bearer " + KEY + b"\r\n"
CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": compress_zstd,
    "deflate, gzip": lambda data: gzip.compress(zlib.compress(data)),
}


async def record(
    body: bytes,
    *,
    head: bytes = HEAD,
    status: bytes = b"401 Unauthorized",
    answered: bytes = b"",
    target: bytes = b"/v1/chat/completions",
    pieces: int = 1,
    breaks_off: bool = False,
) -> tuple[Exchange, list[Frame]]:
    """The record of a call that is answered so; its client gets the bytes as they are (R1)."""

    async def script(connection: Connection) -> None:
        if pieces == 1 and not breaks_off:
            await connection.answer(body, status=status, head=answered)
            return
        length = b"Content-Length: %d\r\n" % (len(body) + breaks_off)
        await connection.send(b"HTTP/1.1 " + status + b"\r\n" + answered + length + b"\r\n")
        size = -(-len(body) // pieces)
        for start in range(0, len(body), size):
            await connection.send(body[start : start + size])
        connection.writer.close()

    async with relaying(script) as (_, running):
        answer = await ask(running.address, request_bytes(head=head, target=target))
        exchange = await running.sink.wait_for()
    if not breaks_off:
        assert answer.body == body
    return exchange, running.sink.frames


def assert_unseen(exchange: Exchange, *secrets: bytes) -> str:
    """None of them is in the span, or in the record but for the answer itself; gives the span."""
    span = tell_span(exchange)
    told = repr(replace(exchange, response=None, request_body=None)) + span
    for secret in secrets:
        assert secret.decode() not in told
    return span


@pytest.mark.parametrize("encoding", CODINGS)
async def test_an_error_that_quotes_the_key_is_recorded_without_it(encoding: str) -> None:
    """In whatever coding, with whatever escapes."""
    words = encode_json({"error": {"message": f"no such key: {KEY.decode()}", "type": "x"}})
    body = CODINGS[encoding](words.replace("/", r"\/").replace("+", r"\u002b").encode())
    answered = b"Content-Encoding: %b\r\n" % encoding.encode() if encoding else b""
    exchange, _ = await record(body, answered=answered)
    assert_unseen(exchange, b"SECRET")
    assert exchange.error_message == f"no such key: {REDACTED}"
    assert exchange.anomalies == ()


@pytest.mark.parametrize("name", [b"key", b"$alt=json&key"])
async def test_a_key_of_the_query_is_nowhere(name: bytes) -> None:
    """Gemini's clients may send it there: neither where it is quoted, nor in a path (R7)."""
    told = encode_json({"error": {"code": 400, "message": f"key {KEY.decode()} is not valid"}})
    target = b"/v1beta/models/m-1:generateContent?" + name + b"=" + KEY
    exchange, frames = await record(told.encode(), head=b"", target=target)
    assert_unseen(exchange, b"SECRET")
    assert exchange.endpoint == "gemini.generate"
    assert exchange.error_message == f"key {REDACTED} is not valid"
    assert exchange.path == "/v1beta/models/m-1:generateContent"
    assert b"SECRET" not in repr(frames).encode()


async def test_what_an_error_quotes_as_it_stands_is_in_no_frame() -> None:
    """A worker masks what it need not search for: frames may wait on a disk."""
    body = b"bad key " + KEY + b", and once more: " + KEY
    exchange, frames = await record(body)
    assert exchange.error_body == f"bad key {REDACTED}, and once more: {REDACTED}"
    assert KEY.decode() not in repr(frames)


async def test_the_body_of_an_error_is_copied_as_it_comes() -> None:
    """A worker gathers nothing of it and decodes nothing: its other calls would wait (R2)."""
    body = gzip.compress(b'{"error": {"message": "%b"}}' % (rb"\n\"\u002b" * 4_000))
    exchange, frames = await record(body, answered=b"Content-Encoding: gzip\r\n", pieces=3)
    reads = [frame.data for frame in frames if isinstance(frame, ResponseData)]
    assert b"".join(reads) == body
    assert exchange.error_message == '\n"+' * 4_000


async def test_a_key_over_the_end_of_a_read_is_masked() -> None:
    """Of an error in many reads, and longer keys that begin as shorter ones do."""
    longer = KEY + b"-and-more"
    body = b"wrong key " + KEY + b" or " + longer + b" " + KEY + b"!"
    head = HEAD + b"X-Api-Key: " + longer + b"\r\n"
    exchange, _ = await record(body, head=head, pieces=30)
    assert exchange.error_body == f"wrong key {REDACTED} or {REDACTED} {REDACTED}!"


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_an_error_that_breaks_off_within_a_key_shows_no_part_of_it(encoding: str) -> None:
    """Nor the last word before that: it may be the half of another secret."""
    words = b"Some words. The card 4111 1111 1111 was refused. Key: " + KEY
    body = CODINGS[encoding](words)[: -12 if encoding else -4]
    answered = b"Content-Encoding: %b\r\n" % encoding.encode() if encoding else b""
    exchange, _ = await record(body, answered=answered, breaks_off=True)
    assert (exchange.error_body or "").startswith("Some words. The card ")
    assert_unseen(exchange, b"sk-")


async def test_of_a_long_error_no_more_is_copied_than_is_kept() -> None:
    """64 KiB, whatever its reads are like; its anomaly says so."""
    exchange, frames = await record(b"word " * 200_000)
    copied = sum(len(frame.data) for frame in frames if isinstance(frame, ResponseData))
    assert copied == MAX_ERROR_BYTES
    assert MAX_ERROR_BYTES - 100 < len(exchange.error_body or "") <= MAX_ERROR_BYTES
    assert exchange.anomalies == ("observer_limit",)


async def test_of_a_head_with_too_many_parts_no_error_is_copied() -> None:
    """To look through it keeps other calls waiting (R2); its anomaly says what is missing."""
    junk = b"".join(b"x-a%d: %b\r\n" % (number, b"a=1 " * 1_020) for number in range(48))
    exchange, frames = await record(b"no such key: " + KEY, head=HEAD + junk)
    assert exchange.error_message == "HTTP status 401"
    assert exchange.error_body is None
    assert exchange.anomalies == ("observer_limit",)
    assert not any(isinstance(frame, ResponseData) for frame in frames)
    assert KEY not in repr(frames).encode()


async def test_of_an_error_fewer_bytes_are_copied_where_many_values_are_masked() -> None:
    """A worker looks for each in all that it copies (R2)."""
    keys = b"".join(b"x-key-%d: canary-%05d\r\n" % (number, number) for number in range(40))
    exchange, frames = await record(b"canary-00003 " + b"word " * 20_000, head=keys)
    copied = sum(len(frame.data) for frame in frames if isinstance(frame, ResponseData))
    assert 0 < copied * MAX_CREDENTIALS <= MAX_MASKED_BYTES + 100
    assert (exchange.error_body or "").startswith(REDACTED)
    assert exchange.anomalies == ("observer_limit",)


@pytest.mark.parametrize("encoding", [coding for coding in CODINGS if coding])
async def test_a_few_bytes_that_decode_to_many_are_decoded_so_far(encoding: str) -> None:
    """And what was not is told to be missing."""
    body = CODINGS[encoding](b"word " * 2_000_000)
    exchange, _ = await record(body, answered=b"Content-Encoding: %b\r\n" % encoding.encode())
    assert 0 < len(exchange.error_body or "") <= MAX_ERROR_BYTES
    assert exchange.anomalies == ("observer_limit",)


async def test_an_error_in_an_unknown_coding_is_left_out() -> None:
    """Nobody can search it."""
    exchange, _ = await record(b"abc" + KEY, answered=b"Content-Encoding: dcb\r\n")
    assert exchange.error_message == "HTTP status 401"
    assert exchange.anomalies == ("response_undecodable",)


class Quote(NamedTuple):
    """A status, and a body in which two things are quoted."""

    status: bytes
    body: bytes


OPENAI = Quote(b"400 Bad Request", b'{"error": {"message": "no %b", "code": "%b"}}')
OPENAI_STREAM = Quote(b"200 OK", b'data: {"error": {"message": "no %b", "code": "%b"}}\n\n')
ANTHROPIC = Quote(
    b"401 Unauthorized",
    b'{"type": "error", "error": {"type": "x", "message": "no %b"}, "request_id": "%b"}',
)
GOOGLE = Quote(b"400 Bad Request", b'{"error": {"code": 400, "message": "no %b", "status": "%b"}}')
BLOCKED = Quote(
    b"200 OK", b'{"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "no %b, %b"}}'
)
OLLAMA = Quote(b"404 Not Found", b'{"error": "no %b", "signin_url": "https://a/?k=%b"}')
OLLAMA_STREAM = Quote(b"200 OK", b'{"error": "no %b"}\n{"error": "%b"}\n')
COHERE = Quote(b"422 Unprocessable Entity", b'{"message": "no %b", "id": "%b"}')
FASTAPI = Quote(b"422 Unprocessable Entity", b'{"detail": [{"msg": "no %b", "input": "%b"}]}')

ERROR_EVENT = Quote(b"200 OK", b"event: error\ndata: %b\n\n" % OPENAI.body)
BARE = Quote(b"200 OK", b"hello %b and %b")

OF_ALL = (
    Quote(b"502 Bad Gateway", b"<p>no %b</p>%b"),
    Quote(b"200 OK", b'{"error": {"message": "no %b", "x": "%b"}}'),
    Quote(b"307 Temporary Redirect", b"go to %b or %b"),
    BARE,
)
"""Pages, errors in a success, redirects, and other kinds of bodies."""

QUOTES: dict[str, tuple[Quote, ...]] = {
    "chat.completions": (OPENAI, OPENAI_STREAM, FASTAPI),
    "completions": (OPENAI, OPENAI_STREAM),
    "embeddings": (OPENAI,),
    "responses": (
        OPENAI,
        Quote(b"200 OK", b'data: {"type": "error", "code": "%b", "message": "no %b"}\n\n'),
        Quote(
            b"200 OK",
            b'data: {"type": "response.failed", "response": {"id": "r", "status": "failed", '
            b'"error": {"code": "%b", "message": "no %b"}}}\n\n',
        ),
    ),
    "messages": (ANTHROPIC, Quote(b"200 OK", b"event: error\ndata: %b\n\n" % ANTHROPIC.body)),
    "count_tokens": (ANTHROPIC,),
    **dict.fromkeys(("gemini.generate", "code_assist.generate"), (GOOGLE, BLOCKED)),
    **dict.fromkeys(
        ("gemini.stream", "code_assist.stream"),
        (
            *(GOOGLE, BLOCKED),
            *(
                Quote(b"200 OK", form % one.body)
                for one in (GOOGLE, BLOCKED)
                for form in (b"[%b]", b"data: %b\n\n")
            ),
        ),
    ),
    **dict.fromkeys(("gemini.embed", "gemini.count", "code_assist.count"), (GOOGLE,)),
    "ollama.chat": (OLLAMA, OLLAMA_STREAM),
    "ollama.generate": (OLLAMA, OLLAMA_STREAM),
    "ollama.embed": (OLLAMA,),
    "rerank": (COHERE, FASTAPI),
    "images": (OPENAI, ERROR_EVENT),
    "audio.speech": (OPENAI, ERROR_EVENT),
    "audio.transcriptions": (OPENAI, ERROR_EVENT),
    "audio.translations": (OPENAI,),
    "moderations": (OPENAI, FASTAPI),
}
"""How the providers of each API tell of an error (``docs/contract/apis.md#shapes-of-errors``)."""

ANSWERS: dict[str, Quote] = dict.fromkeys(("audio.transcriptions", "audio.translations"), BARE)
"""What is not an error: a bare text says what was said."""

PLACES = ("x-pass", "x-sig", "x-acme", "config", "query", "cookie")


def test_every_api_has_its_quotes() -> None:
    """And so has one that will be added."""
    assert QUOTES.keys() == {api.name for api in POSTED}


quotes_of_apis = pytest.mark.parametrize(
    ("api", "quote"),
    [
        (api, quote)
        for api in POSTED
        for quote in QUOTES.get(api.name, ()) + OF_ALL
        if ANSWERS.get(api.name) is not quote
    ],
    ids=lambda part: part.name if isinstance(part, Api) else None,
)


def find_target(api: Api) -> str:
    """A path of the API."""
    path = api.path_ends[0]
    return f"/v1beta/models/m-1{path}" if path.startswith(":") else f"/v1{path}"


@quotes_of_apis
@pytest.mark.parametrize("place", PLACES)
async def test_whatever_came_as_a_credential_is_masked_whatever_the_status(
    api: Api, quote: Quote, place: str
) -> None:
    """Names that say so, JSON in a header, and values under names that say nothing."""
    secret = b"hunterhunter"
    line = {
        "config": b'x-portkey-config: {"provider": "a", "virtual_key": "%b"}\r\n' % secret,
        "cookie": b"cookie: theme=dark; sid=%b\r\n" % secret,
        "query": b"",
    }.get(place, b"%b: %b\r\n" % (place.encode(), secret))
    target = find_target(api)
    if place == "query":
        target += f"?x={secret.decode()}"
    exchange, _ = await record(
        quote.body % (secret, secret), status=quote.status, head=line, target=target.encode()
    )
    assert exchange.endpoint == api.name
    assert REDACTED in assert_unseen(exchange, secret)


@quotes_of_apis
async def test_what_is_read_after_a_restart_has_no_word_of_an_error(api: Api, quote: Quote) -> None:
    """Frames that waited in the spool cannot be decrypted, so nobody knows the key (R7)."""
    escaped = KEY.replace(b"/", rb"\/")  # which no worker sees
    _, frames = await record(
        quote.body % (escaped, escaped),
        status=quote.status,
        answered=b"x-request-id: req-%b\r\n" % KEY,
        target=find_target(api).encode(),
    )
    exchange = observe(frames, Observer(cipher=Cipher(b"another" * 5)))
    assert REDACTED in assert_unseen(exchange, b"SECRET")


async def test_half_a_character_in_a_header_keeps_no_error_from_its_client() -> None:
    """Whatever is written in JSON there, the answer is relayed and recorded (R2)."""
    exchange, _ = await record(
        b"no such key", head=b'x-portkey-config: {"api_key": "\\ud83e-planted-canary"}\r\n'
    )
    assert exchange.error_body == "no such key"


async def test_a_key_in_the_id_of_a_call_and_in_its_limits_is_masked() -> None:
    """They are in the metadata of every span."""
    answered = b"x-request-id: req-%b\r\nx-ratelimit-remaining: %b\r\n" % (KEY, KEY)
    exchange, _ = await record(ANSWER, status=b"200 OK", answered=answered)
    assert_unseen(exchange, KEY)
    assert exchange.request_id == f"req-{REDACTED}"
    assert exchange.rate_limits == {"x-ratelimit-remaining": REDACTED}


async def test_a_key_in_an_answer_is_masked_and_the_rest_of_it_stays() -> None:
    """An echo; the span says all else."""
    body = encode_json(
        {"id": "c", "choices": [{"index": 0, "message": {"content": f"you sent {KEY.decode()}!"}}]}
    ).encode()
    exchange, _ = await record(body, status=b"200 OK")
    assert f"you sent {REDACTED}!" in tell_span(exchange)
    assert "SECRET" not in tell_span(exchange)


async def test_metadata_are_recorded_without_credentials_however_they_come() -> None:
    """One object, or a header for each member."""
    head = (
        b'x-spantap-metadata: {"api_key": "%b", "team": "a", "in": {"token": "b", "n": 1}}\r\n'
        b"x-spantap-metadata-api-key: %b\r\nx-spantap-metadata-feature: search\r\n" % (KEY, KEY)
    )
    exchange, _ = await record(ANSWER, status=b"200 OK", head=head)
    assert exchange.context.metadata == {"team": "a", "in": {"n": 1}, "feature": "search"}
    assert_unseen(exchange, KEY)


async def test_a_list_in_the_header_of_metadata_is_recorded_without_credentials() -> None:
    """Which is no object, and so a text of its own."""
    head = b'x-spantap-metadata: [{"api_key": "%b", "team": "a"}]\r\n' % KEY
    exchange, _ = await record(ANSWER, status=b"200 OK", head=head)
    assert exchange.context.metadata == {"metadata": '[{"team": "a"}]'}
