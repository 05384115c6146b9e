"""How each API's streams are written, and what a built exchange is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.corpus.recordings import Recording

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = (
    "EVENTS",
    "JSON",
    "LINES",
    "Built",
    "write_array",
    "write_chunks",
    "write_events",
    "write_lines",
)

JSON, EVENTS, LINES = "application/json", "text/event-stream", "application/x-ndjson"


class Built(NamedTuple):
    """What is asked, and what is answered.

    Attributes:
        body: of the answer: as it is on the wire, or its JSON.
        asked: members of the request beside those that its API's others have.
        target: its path and query, where that is not its API's usual one.
    """

    body: Any
    asked: Mapping[str, Any] = {}
    target: str = ""
    status: int = 200

    def record(self, name: str, target: str, asked: Mapping[str, Any]) -> Recording:
        """It as a recording."""
        is_wire = isinstance(self.body, bytes)
        return Recording(
            id=f"built: {name}",
            target=(self.target or target).encode(),
            request=json.dumps({**asked, **self.asked}).encode(),
            status=self.status,
            head=((b"content-type", _kind_of(self.body).encode()),),
            body=self.body if is_wire else json.dumps(self.body).encode(),
        )


def _kind_of(body: Any) -> str:
    if not isinstance(body, bytes) or body.startswith(b"["):
        return JSON
    return LINES if body.startswith(b"{") else EVENTS


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
