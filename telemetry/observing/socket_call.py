"""A call of a WebSocket: the frames of its exchange, as if it had come by HTTP."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codec.apis.session import CallEnd, write_event
from codec.members import object_of
from codec.text.jsontext import encode_json
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import (
    RECORDED_REQUEST_HEADERS,
    End,
    RequestBody,
    ResponseData,
    ResponseHead,
)
from telemetry.privacy.credential_names import leave_out_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.apis.session import SessionCall
    from codec.text.jsontext import JsonObject
    from telemetry.frames.frame import Begin, Frame, Headers

_REFUSED_STATUS = 400
"""The status of a call that was refused by an error that names none."""

_AGAIN_NS = 1_000_000_000
"""How long a request that changed is not given again, unless the call ends. Words come one by one,
and the whole conversation is given with each."""

_read_status = re.compile(rb'"status"\s{0,9}:\s{0,9}([45]\d\d)\b').search


class SocketCall:
    """A call that has begun, and makes frames.

    Attributes:
        is_cut: something of its answer is missing.
    """

    def __init__(
        self, call: SessionCall, begin: Begin, headers: Headers, session_id: str | None
    ) -> None:
        self.call = call
        self.is_cut = False
        self._begin = begin
        self._headers = headers
        self._session = {} if session_id is None else {"session_id": session_id}
        self._body = call.body
        self._again_ns = 0  # when the request may be given again

    @property
    def number(self) -> int:
        """The number of its exchange."""
        return self._begin.exchange

    @property
    def end_kind(self) -> EndKind:
        """How the exchange ended, by the call's own end."""
        is_replaced = self.call.end is CallEnd.REPLACED
        return EndKind.UPSTREAM_BROKEN if is_replaced else EndKind.UPSTREAM_EOF

    def begin(self, text: bytes = b"") -> Iterator[Frame]:
        """Yield the frames of the request, and of the answer's head, if an answer began.

        The answer begins with this message of the server.
        """
        yield self._begin
        yield self._ask()
        is_refused = self.call.end is CallEnd.REFUSED
        if self.call.first_ns is None and not is_refused:
            return  # it was never answered
        named = _read_status(text) if is_refused else None
        status = int(named[1]) if named is not None else _REFUSED_STATUS
        yield ResponseHead(
            exchange=self.number,
            at_ns=self.call.first_ns or self.call.end_ns or self._begin.at_ns,
            status=status if is_refused else 200,
            headers=(*self._headers, *self.call.head),
        )

    def take(self, text: bytes, at_ns: int) -> Iterator[Frame]:
        """Take a message of the server, an event of the answer, which may change the request."""
        if self.call.body is not self._body and at_ns >= self._again_ns:
            self._again_ns = at_ns + _AGAIN_NS
            yield self._ask()
        if self.call.end is not CallEnd.REFUSED:
            text = write_event(text)
        yield ResponseData(self.number, at_ns, text)

    def _ask(self) -> Frame:
        """Make the frame of the request; the last one counts."""
        self._body = self.call.body
        body = encode_json(self._session | self._body).encode()
        return RequestBody(
            exchange=self.number,
            data=body,
            size_bytes=len(body),
            is_partial=self.call.is_partial,
        )

    def forget_body(self) -> None:
        """Make no other frame of the request, although another body has taken its place."""
        self._body = self.call.body

    def end(self, at_ns: int, kind: EndKind, message: str = "") -> Iterator[Frame]:
        """End the exchange."""
        if self.call.body is not self._body:
            yield self._ask()
        shed_bytes = int(self.is_cut)
        yield End(
            exchange=self.number, at_ns=at_ns, kind=kind, message=message, shed_bytes=shed_bytes
        )


def prefer_metadata(headers: Headers, body: JsonObject) -> Headers:
    """Let the request say what the handshake said for the whole connection: session, thread, turn.

    Codex repeats its heads in ``client_metadata``, some with underscores. What the observer itself
    heeds stays, such as the wish that no content be recorded, and members that are left out of
    heads are left out here.
    """
    said = object_of(body.get("client_metadata"))
    if not said:
        return headers
    return leave_out_credentials(
        (name, value if (own := _find_own(said, name)) is None else own) for name, value in headers
    )


def _find_own(said: JsonObject, name: str) -> str | None:
    if name.encode("latin-1") in RECORDED_REQUEST_HEADERS:
        return None
    own = said.get(name, said.get(name.replace("-", "_")))
    return own if isinstance(own, str) else None
