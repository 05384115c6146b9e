"""Tap frames: the seam between relaying and observing.

The relaying side copies bytes and a clock reading into frames and parses nothing. The observing
side (:mod:`telemetry.observing.observer`) gets only frames, so the same frames give the same
record, in this process or in another one. Both sides rely on these rules:

1. Six kinds: ``begin``, ``request_body``, ``response_head``, ``response_data``, ``end``, and for a
   WebSocket ``socket_data``. One ``begin`` comes first, one ``end`` comes last, whatever ends the
   exchange (R3).
2. Every time is an integer of nanoseconds since the epoch, read where the bytes were read.
3. Frames hold only plain values and bytes: :func:`encode_frames` and :func:`decode_frames` carry
   them over any byte stream. No frame can be part of a cycle, so the garbage collector does not
   track them (``gc=False``): thousands are kept until they are acknowledged.
4. A credential from a request's head is in a frame only encrypted
   (:mod:`telemetry.observing.encryption`). A header is copied only if
   :data:`RECORDED_REQUEST_HEADERS`, :data:`RECORDED_RESPONSE_HEADERS`,
   :data:`RECORDED_RESPONSE_PREFIXES`, the header map (:mod:`telemetry.observing.client_context`)
   or the list of recorded fields (:mod:`telemetry.observing.heads`) names it. In the body of an
   error, credentials that are not encoded are masked. Everything else of an answer is as it came,
   and the observer masks it (R7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from codec.text.multipart import FormState
from telemetry.frames.ending import EndKind
from telemetry.span_identity import SpanIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORDED_REQUEST_HEADERS = frozenset(
    {
        b"amz-sdk-request",
        b"anthropic-beta",
        b"content-encoding",
        b"content-type",
        b"user-agent",
        b"x-spantap-content",
        b"x-stainless-retry-count",
    }
)
"""Request headers (lower case) that an observer needs, whatever the header map says."""

RECORDED_RESPONSE_HEADERS = frozenset(
    {
        b"apim-request-id",
        b"cf-ray",
        b"content-encoding",
        b"content-type",
        b"request-id",
        b"retry-after",
        b"sec-websocket-extensions",
        b"x-ms-request-id",
        b"x-request-id",
    }
)
"""Response headers (lower case) that an observer needs."""

RECORDED_RESPONSE_PREFIXES = (b"x-ratelimit-", b"ratelimit", b"anthropic-ratelimit-")
"""Beginnings of the names of rate-limit headers: OpenAI's and most others', the IETF draft's
(``draft-ietf-httpapi-ratelimit-headers``), Anthropic's."""

MAX_ERROR_BYTES = 64 * 1024
"""The most bytes that are kept of a body with status >= 400: error messages are short, and web
pages are not worth keeping."""

Headers = tuple[tuple[str, str], ...]
"""Lower-case names with their values, bytes read as Latin-1."""


class Begin(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="begin", array_like=True):
    """An observed exchange begins: the request's head was read.

    Attributes:
        exchange: its number, unique in its worker; every frame has it.
        at_ns: when the proxy began to handle it.
        endpoint: the name of the API (:class:`codec.apis.api.Api`).
        path: as the client sent it, without the query, which may hold a key.
        upstream: its name in the settings; provider, address and port come from its settings too.
        on_disconnect: the policy in force, ``cancel`` or ``drain``.
        encrypted: the fields of the head that may be credentials, encrypted. Each is a line: its
            name in lower case, a colon and its value.
        launch: the label of the launch that it belongs to (:mod:`telemetry.launch_labels`); empty
            if there is none.
        is_socket: it is the handshake of a WebSocket, and ``socket_data`` follows an answer 101; or
            it is one of the calls on it (:mod:`telemetry.observing.socket_calls`).
    """

    exchange: int
    at_ns: int
    identity: SpanIdentity
    endpoint: str
    method: str
    path: str
    headers: Headers = ()
    upstream: str
    provider: str | None = None
    server_address: str | None = None
    server_port: int | None = None
    on_disconnect: str = "cancel"
    encrypted: bytes = b""
    launch: str = ""
    is_socket: bool = False


class RequestBody(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="request_body", array_like=True
):
    """The client's body as sent, before any rewrite. A large body comes in several frames.

    Attributes:
        data: all bytes, or the next of them; ``None`` past the capture limit (R5). For a form its
            fields, as the JSON object of :mod:`codec.text.multipart`; empty if it cannot be read.
        size_bytes: of the whole body, as far as known.
        form: how much of a form is known; ``None`` for other bodies.
        is_partial: the input lacks something that a WebSocket did not show, or that had no room.
    """

    exchange: int
    data: bytes | None
    size_bytes: int
    form: FormState | None = None
    is_partial: bool = False


class ResponseHead(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="response_head", array_like=True
):
    """The head of the answer that the client gets.

    Attributes:
        resend_count: how often the request was sent again before this answer.
        rewrites: what the proxy changed in the request that got this answer.
        hides_usage: usage events that we caused are removed from the client's stream.
        usage_event_not_stripped: they could not be removed, because the upstream compressed.
    """

    exchange: int
    at_ns: int
    status: int
    headers: Headers = ()
    resend_count: int = 0
    rewrites: tuple[str, ...] = ()
    hides_usage: bool = False
    usage_event_not_stripped: bool = False


class ResponseData(msgspec.Struct, frozen=True, gc=False, tag="response_data", array_like=True):
    """Bytes of one read from the upstream, as received, cut anywhere.

    An error (status >= 400) has at most :data:`MAX_ERROR_BYTES` in all, and credentials that are
    whole within one read are masked.
    """

    exchange: int
    at_ns: int
    data: bytes


class SocketData(msgspec.Struct, frozen=True, gc=False, tag="socket_data", array_like=True):
    """Bytes of one read from an end of a WebSocket, as received, cut anywhere."""

    exchange: int
    at_ns: int
    from_client: bool
    data: bytes


class SocketState(msgspec.Struct, frozen=True, gc=False, tag="socket_state", array_like=True):
    """What an observer needs to continue with a WebSocket.

    The observer makes it, and the sender keeps it instead of the ``socket_data`` before it.

    Attributes:
        at_ns: when the last of these bytes were read.
        read_bytes: how many there were, since the answer to the handshake.
        data: only the observer knows what it means.
    """

    exchange: int
    at_ns: int
    read_bytes: int
    data: bytes


class End(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="end", array_like=True):
    """The exchange is over.

    Attributes:
        message: the cause in words, without credentials; empty for a clean end.
        undelivered_reads: how many of the last reads did not reach the client.
        shed_bytes: how many bytes at the end of the answer were left out because a limit was
            reached (R5).
    """

    exchange: int
    at_ns: int
    kind: EndKind
    message: str = ""
    undelivered_reads: int = 0
    shed_bytes: int = 0


Frame = Begin | RequestBody | ResponseHead | ResponseData | SocketData | SocketState | End

BODIES = (RequestBody, ResponseData, SocketData, SocketState)
"""The kinds that hold bodies; a tuple, because ``|`` makes a new union at each evaluation."""

_NO_CONTENT_HEADER = "x-spantap-content"
"""The header by which a client turns content off for one call."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Frame]] = msgspec.msgpack.Decoder(list[Frame])


def encode_frames(frames: Sequence[Frame]) -> bytes:
    """Encode frames as MessagePack; the carrier adds the length."""
    return _encoder.encode(frames)


def decode_frames(data: bytes | memoryview) -> list[Frame]:
    """Decode what :func:`encode_frames` encoded.

    Raises:
        msgspec.MsgspecError: the bytes are not frames.
    """
    return _decoder.decode(data)


def asks_no_content(headers: Headers) -> bool:
    """Tell whether the client asks that no content of this call be recorded.

    Every value except ``on`` asks for that: a client that sends the header cares about it, so
    content is not recorded for a misspelt value.
    """
    for name, value in headers:
        if name == _NO_CONTENT_HEADER and value.strip().lower() != "on":
            return True
    return False
