"""How each API's streams are written, and what a built exchange is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.corpus.recordings import Recording

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = (
    "EVENTS",
    "FORM",
    "JSON",
    "LINES",
    "STREAM_FIELD",
    "Built",
    "find_type",
    "write_array",
    "write_chunks",
    "write_events",
    "write_lines",
)

FORM = (
    b'--built\r\nContent-Disposition: form-data; name="%b"; filename="a.bin"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\n\x00\r\n--buil\xff\r\n"
    b'--built\r\nContent-Disposition: form-data; name="model"\r\n\r\nm-1\r\n%b--built--\r\n'
)
"""A form of a file under some name, a model, and any other fields."""

STREAM_FIELD = b'--built\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n'

JSON, EVENTS, LINES = "application/json", "text/event-stream", "application/x-ndjson"


class Built(NamedTuple):
    """What is asked, and what is answered.

    Attributes:
        body: of the answer: as it is on the wire, or its JSON.
        asked: members of the request beside those that its API's others have; ``None`` takes one of
            these out.
        target: its path and query, where that is not its API's usual one.
        form: the request, where it is not JSON.
        kind: the answer's content type, where its first byte does not tell it.
    """

    body: Any
    asked: Mapping[str, Any] = {}
    target: str = ""
    status: int = 200
    form: bytes = b""
    kind: str = ""

    def record(self, name: str, target: str, asked: Mapping[str, Any]) -> Recording:
        """It as a recording."""
        is_wire = isinstance(self.body, bytes)
        members = {**asked, **self.asked}
        told = {name: value for name, value in members.items() if value is not None}
        request = self.form or json.dumps(told).encode()
        return Recording(
            id=f"built: {name}",
            target=(self.target or target).encode(),
            request=request,
            content_type=find_type(request),
            status=self.status,
            head=((b"content-type", (self.kind or _kind_of(self.body)).encode()),),
            body=self.body if is_wire else json.dumps(self.body).encode(),
        )


def _kind_of(body: Any) -> str:
    if not isinstance(body, bytes) or body.startswith(b"["):
        return JSON
    return LINES if body.startswith(b"{") else EVENTS


def find_type(request: bytes) -> bytes:
    """The content type of a request: a form's, or JSON's."""
    if not request.startswith(b"--"):
        return JSON.encode()
    boundary = request.partition(b"\r\n")[0].removeprefix(b"--")
    return b"multipart/form-data; boundary=" + boundary


def write_events(*events: dict[str, Any]) -> bytes:
    return b"".join(
        f"event: {one['type']}\ndata: {json.dumps(one, ensure_ascii=False)}\n\n".encode()
        for one in events
    )


def write_chunks(*chunks: dict[str, Any]) -> bytes:
    return b"".join(f"data: {json.dumps(one)}\r\n\r\n".encode() for one in chunks)


def write_array(*chunks: dict[str, Any], end: str = "]") -> bytes:
    return ("[" + "\r\n,\r\n".join(map(json.dumps, chunks)) + end).encode()


def write_lines(*lines: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(line).encode() for line in lines)
