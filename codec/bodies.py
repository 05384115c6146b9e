"""The JSON objects that the bodies of requests and answers are, of any API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.error_objects import find_error
from codec.errors import MalformedRequest, MalformedResponse
from codec.text.jsontext import decode_json, decode_json_object

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("decode_request_object", "decode_response_object", "decode_response_value")


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
            (Google front ends, ``docs/contract/wire.md#error-in-a-list``) is taken for that object.
    """
    value = decode_response_value(body)
    if not isinstance(value, dict):
        raise MalformedResponse(f"response body: a JSON {type(value).__name__}, no object")
    return value


def decode_response_value(body: bytes) -> Any:
    """Decode the JSON value of a response: some APIs answer with a list.

    Raises:
        MalformedResponse: it is not JSON in UTF-8. A list that holds an error object is taken for
            that object, too.
    """
    try:
        value = decode_json(body.strip())
    except ValueError as error:
        raise MalformedResponse(f"response body: {error}") from error
    return value[0] if isinstance(value, list) and find_error(value) else value
