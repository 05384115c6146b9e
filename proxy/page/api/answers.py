"""The bytes of the API's answers: strict JSON, or a file to save.

A file is the answer to ``GET /api/calls/ID/raw``: a body of a call, or its span.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy.page.api.found_calls import find_call, find_raw_answer
from proxy.page.api.rows import build_row
from proxy.page.errors import PageError
from proxy.reading.record import build_call_record

if TYPE_CHECKING:
    from proxy.page.api.parameters import Parameters
    from proxy.reading.call import RecordedCall
    from telemetry.reading.calls import Calls

RAW_PARAMETERS: Final = ("part",)

MAX_DEPTH: Final = 200
"""How deeply JSON may be nested. Bodies of APIs have a dozen levels, and browsers read thousands.
The encoder takes as many levels as the interpreter's recursion limit leaves, some 900."""

MAX_INTEGER_BITS: Final = 1_024
"""The largest integer: some 300 digits, as many as the largest number of a browser."""


class Download(NamedTuple):
    """Bytes that are not JSON of the API.

    Attributes:
        kind: the content type; never one that a browser would run.
        name: the name of the saved file; ``None`` if the bytes are shown instead.
    """

    kind: str
    data: bytes
    name: str | None = None


def encode(value: Any) -> bytes:
    """Encode a value as strict JSON in ASCII, whatever a client, a provider or a damaged row said.

    A lone surrogate becomes an escape, and no byte steers a terminal. A number or a value that JSON
    does not have becomes ``null``; words replace a value that is nested too deeply, or a number of
    thousands of digits.
    """
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (ValueError, TypeError, RecursionError, OverflowError):
        mended = _mend(value, MAX_DEPTH)
        return json.dumps(mended, allow_nan=False, separators=(",", ":")).encode()


def _mend(value: Any, depth: int) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_INTEGER_BITS else "[too large a number]"
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict | list | tuple) and depth == 0:
        return "[nested too deeply]"
    if isinstance(value, dict):
        return {str(name): _mend(item, depth - 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mend(item, depth - 1) for item in value]
    return None


def read_raw(reader: Calls, parameters: Parameters) -> Download:
    """Read the request or the answer as it was recorded, its true bytes, or the span as JSON."""
    part = parameters.word("part", ("request", "response", "span", "stream"))
    if part == "stream":
        row, answer = find_raw_answer(reader, parameters)
        return Download("application/octet-stream", answer.body, f"{row.span_id}-answer.bin")
    call = find_call(reader, parameters)
    span_id = call.summary.span_id
    if part == "span":
        return Download("application/json", _encode_span(call), f"{span_id}-span.json")
    text = call.request_text if part == "request" else call.response_text
    if text is None:
        raise PageError("not_found", f"the {part} was not recorded, or is hidden")
    data = text.encode("utf-8", "backslashreplace")
    is_json = not isinstance(call.request if part == "request" else call.response, str)
    kind, ending = ("application/json", "json") if is_json else ("text/plain", "txt")
    return Download(kind, data, f"{span_id}-{part}.{ending}")


def _encode_span(call: RecordedCall) -> bytes:
    """Encode everything that is known about a call; little is known if its row is damaged."""
    try:
        return encode(build_call_record(call))
    except (TypeError, ValueError, OverflowError, AttributeError):
        return encode(build_row(call.summary))
