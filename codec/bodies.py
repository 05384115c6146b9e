"""Decodes the bodies of requests and answers of any API: JSON objects and forms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codec.asked import Asked
from codec.error_objects import find_error
from codec.errors import MalformedRequest, MalformedResponse
from codec.text.jsontext import decode_json, decode_json_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.text.jsontext import JsonObject

__all__ = (
    "FormRequest",
    "decode_request_object",
    "decode_response_object",
    "decode_response_value",
)


def decode_request_object(body: bytes) -> JsonObject:
    """Decode the JSON object of a request body, whatever its API.

    Raises:
        MalformedRequest: it is not a JSON object in UTF-8.
    """
    try:
        return decode_json_object(body)
    except ValueError as error:
        raise MalformedRequest(f"request body: {error}") from error


def decode_response_object(body: bytes) -> JsonObject:
    """Decode the JSON object of a response, whatever its API.

    Raises:
        MalformedResponse: it is not a JSON object in UTF-8. A list that holds an error object
            (Google front ends, ``docs/contract/wire.md#error-in-a-list``) is read as that object.
    """
    value = decode_response_value(body)
    if not isinstance(value, dict):
        raise MalformedResponse(f"response body: a JSON {type(value).__name__}, not an object")
    return value


def decode_response_value(body: bytes) -> Any:
    """Decode the JSON value of a response: some APIs answer with a list.

    Raises:
        MalformedResponse: it is not JSON in UTF-8. A list that holds an error object is read as
            that object, too.
    """
    try:
        value = decode_json(body.strip())
    except ValueError as error:
        raise MalformedResponse(f"response body: {error}") from error
    return value[0] if isinstance(value, list) and find_error(value) else value


_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_NUMBERS: Final = ("n", "temperature")
"""The members with a span attribute whose values are numbers."""


class FormRequest(Asked, frozen=True, gc=False):
    """A request that comes as JSON or as a form; in a form all values are texts.

    Its body has the values as they came.
    """

    @property
    def stream(self) -> bool:
        """Whether a stream was asked for: by ``true``, as JSON or as a text."""
        value = self.body.get("stream")
        return value is True or (isinstance(value, str) and value.lower() == "true")

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters, with texts of numbers and truth values as numbers and truth values."""
        named: dict[str, Any] = {
            name: _read_number(self.body[name]) for name in _NUMBERS if name in self.body
        }
        return {**self.body, **named, "stream": self.stream}


def _read_number(value: Any) -> Any:
    """Read a number from its text; anything else stays as it is."""
    if not isinstance(value, str) or (found := _NUMBER.fullmatch(value)) is None:
        return value
    return float(value) if found[1] else int(value)
