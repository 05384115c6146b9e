"""The bodies of a recorded call, of whichever form its span's values are (``docs/spans.md``)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from openinference.semconv.trace import SpanAttributes

from codec.members import string_of
from codec.text.jsontext import decode_json
from telemetry.semconv import REQUEST_BODY, RESPONSE_BODY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def find_request_body(attributes: Mapping[str, Any], cut: Collection[str]) -> str | None:
    """Find the text of the client's body; `cut` has the names of what was cut or left out."""
    return _find_body(attributes, cut, REQUEST_BODY, SpanAttributes.INPUT_VALUE)


def find_response_body(attributes: Mapping[str, Any], cut: Collection[str]) -> str | None:
    """Find the text of the answer, as :func:`find_request_body` does that of the request."""
    return _find_body(attributes, cut, RESPONSE_BODY, SpanAttributes.OUTPUT_VALUE)


def _find_body(
    attributes: Mapping[str, Any], cut: Collection[str], apart: str, value: str
) -> str | None:
    # Of a body that was left out the value is a text, and no body.
    is_apart = apart in attributes or apart in cut
    return string_of(attributes.get(apart if is_apart else value))


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
