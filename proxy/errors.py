"""Answers that the proxy itself gives: errors in OpenAI's shape, or in Amazon's for its SDKs.

Each has a status, a code for programs, and a message that says what happened, where, and what to do
about it. No message holds a credential (R7): it names an upstream by name and origin, without
headers or query.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from telemetry.frames.ending import EndKind

if TYPE_CHECKING:
    from collections.abc import Iterable

_FIELDS = {
    HTTPStatus.UNAUTHORIZED: "WWW-Authenticate: Bearer\r\n",
    HTTPStatus.METHOD_NOT_ALLOWED: "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n",
}
"""RFC 9110 (15.5.2, 15.5.6) requires these. Other methods than those listed are relayed too."""


class GatewayError(Exception):
    """An error that the proxy itself answers.

    Attributes:
        status: HTTP status for the client.
        code: a word for programs, which never changes, e.g. ``upstream_unreachable``.
        message: one or two sentences for people.
        end: how the exchange is recorded to have ended.
    """

    def __init__(self, status: int, code: str, message: str, end: EndKind) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.end = end


def broken_request_body(reason: str) -> GatewayError:
    """The answer to a client whose body broke off, or does not fit its framing."""
    return GatewayError(
        400,
        "invalid_request_body",
        f"The request's body broke off or is not well framed: {reason}",
        EndKind.CLIENT_GONE,
    )


def late_request_body() -> GatewayError:
    """The answer to a client that stopped sending its body in the middle (RFC 9110, 15.5.9)."""
    return GatewayError(
        408,
        "request_timeout",
        "The request's body did not continue within the client idle timeout.",
        EndKind.REQUEST_TIMEOUT,
    )


def encode_error(
    status: int,
    code: str,
    message: str,
    *,
    as_amazon: bool = False,
    has_body: bool = True,
    fields: Iterable[tuple[bytes, bytes]] = (),
) -> bytes:
    """Encode a :class:`GatewayError` as a whole HTTP/1.1 answer.

    It is the last answer on its connection, because the request's body may not have been read, or
    its end may be unknown. An answer to HEAD has the same head and no body. `fields` are more
    fields of the head, in ASCII. Amazon's SDKs read the code in a header (Smithy, restJson1).
    """
    value: dict[str, Any] = {"message": message}
    if as_amazon:
        fields = [(b"x-amzn-errortype", code.encode("ascii")), *fields]
    else:
        is_clients = status < 500 or status == HTTPStatus.NOT_IMPLEMENTED
        kind = "invalid_request_error" if is_clients else "spantap_error"
        value = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
    connection = "Connection: close"
    if status == HTTPStatus.UPGRADE_REQUIRED:  # it must name a protocol (RFC 9110 section 15.5.22)
        connection = "Upgrade: HTTP/1.1\r\nConnection: close, upgrade"
    own = "".join([f"{name.decode()}: {value.decode()}\r\n" for name, value in fields])
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"{_FIELDS.get(HTTPStatus(status), '')}"
        f"{own}"
        f"{connection}\r\n\r\n"
    )
    return head.encode("ascii") + (body if has_body else b"")
