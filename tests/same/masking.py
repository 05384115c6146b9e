"""Takes ids and times out of what versions say of calls that each of them made itself."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from tests.same.traffic import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ("mask_bytes", "mask_spans")

_IDS = re.compile(r"\b(?:[0-9a-f]{32}|[0-9a-f]{16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
_PORTS = re.compile(r"127\.0\.0\.1:\d+")
_TRACE_PARENT = re.compile(r"(?im)^(traceparent|x-spantap-\w+-id): .*$")
_TIMED = re.compile(r"time_to_first|duration|server\.port|service\.instance\.id")
_TIMES = re.compile(r'"(?:run|duration|time_to|waited|started|\w*_ms|\w*_seconds)": ?[\d.]+')
_LONGEST_WAIT = re.compile(r'"longest_chunk_wait_at": \d+, ')
"""There only where an answer came in more than one read."""

_DERIVED = '"kind": 1,'
"""A span of our own: a call's is that of a client."""

_CHUNK = re.compile(rb"([0-9a-f]+)\r\n")


def mask_bytes(head_and_body: bytes) -> str:
    """Mask a request or an answer; how its body was cut into chunks is masked, too."""
    head, _, body = head_and_body.partition(b"\r\n\r\n")
    told = head.decode("utf-8", "surrogateescape")
    if "\r\nTransfer-Encoding: chunked" in told:
        body = _join_chunks(body)
    masked = _PORTS.sub("HOST", _TRACE_PARENT.sub(r"\1: ID", told))
    return f"{masked}\r\n\r\n{body.decode('utf-8', 'backslashreplace')}"


def _join_chunks(body: bytes) -> bytes:
    joined, position = b"", 0
    while (size := _CHUNK.match(body, position)) and (length := int(size[1], 16)):
        joined += body[size.end() : size.end() + length]
        position = size.end() + length + 2
    return joined + b" END " + body[position:]


def mask_spans(exported: str, leave_out: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Mask lines of OTLP: names and texts, in which a span is called by what it says.

    What may differ is left out of what it is called by, or all that refer to it would differ, too.
    Those of calls are in the order in which the calls began, and the others, which are made when
    runs end, in the order of what they say.
    """
    told = [read_json(line) for line in exported.split("\n") if line.startswith("{")]
    spans = [_read_span(one) for one in sorted(told, key=_read_start)]
    names = {span_id: _digest(leave_out(masked)) for span_id, masked, _ in spans}
    calls, derived = list[str](), list[str]()
    for _, masked, others in spans:
        found = derived if _DERIVED in masked else calls
        found.append(f"{masked} {[names.get(other, 'none') for other in others]}")
    for kind, lines in (("call", calls), ("derived", sorted(derived))):
        for number, line in enumerate(lines):
            yield f"span of {kind} {number}", line


def _digest(masked: str) -> str:
    return hashlib.sha256(masked.encode()).hexdigest()[:12]


def _read_start(told: dict[str, Any]) -> int:
    return int(_get_span(told)["startTimeUnixNano"])


def _get_span(told: dict[str, Any]) -> dict[str, Any]:
    [resource] = told["resourceSpans"]
    [scope] = resource["scopeSpans"]
    [span] = scope["spans"]
    return span  # type: ignore[no-any-return]


def _read_span(told: dict[str, Any]) -> tuple[str, str, list[str]]:
    """The id of a span, all it says without ids and times, and the spans it refers to."""
    span = _get_span(told)
    others = [span.pop("parentSpanId", "")]
    others += [link.pop("spanId") for link in span.get("links", ())]
    span_id = span.pop("spanId")
    masked = _IDS.sub("ID", json.dumps(_mask(told), sort_keys=True))
    masked = _LONGEST_WAIT.sub("", masked.replace('\\"', '"'))
    return span_id, _TIMES.sub("TIME", masked), others


def _mask(value: Any) -> Any:
    if isinstance(value, list):
        return [_mask(one) for one in value]
    if not isinstance(value, dict):
        return value
    if isinstance(key := value.get("key"), str) and _TIMED.search(key):
        return {"key": key}
    return {name: _mask(one) for name, one in value.items() if not name.endswith("UnixNano")}
