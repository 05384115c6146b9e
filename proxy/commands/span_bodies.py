"""The bodies of a recorded call, of whichever form its span's values are (``docs/spans.md``)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from openinference.semconv.trace import SpanAttributes

from codec.text.jsontext import decode_json
from telemetry.semconv import REQUEST_BODY, RESPONSE_BODY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ("read_document", "read_request_body", "read_response_body")


def read_request_body(attributes: Mapping[str, Any], cut: Collection[str]) -> Any:
    """Read the client's body; `cut` has the names of what was cut or left out for its size."""
    return _read_body(attributes, cut, REQUEST_BODY, SpanAttributes.INPUT_VALUE)


def read_response_body(attributes: Mapping[str, Any], cut: Collection[str]) -> Any:
    """Read the answer as the client received it, as :func:`read_request_body` does the request."""
    return _read_body(attributes, cut, RESPONSE_BODY, SpanAttributes.OUTPUT_VALUE)


def _read_body(attributes: Mapping[str, Any], cut: Collection[str], apart: str, value: str) -> Any:
    # Of a body that was left out the value is a text, and no body.
    is_apart = apart in attributes or apart in cut
    return read_document(attributes.get(apart if is_apart else value))


def read_document(text: object) -> Any:
    """Decode strict JSON; any other text stays a text, so that what is written again is valid."""
    if not isinstance(text, str):
        return None
    try:
        value = decode_json(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return text
    return value
