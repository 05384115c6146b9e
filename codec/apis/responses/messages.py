"""The messages of a session, as far as they say which response they are about.

Those of Responses and those of Realtime say it in the same members.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from codec.members import object_of, text_of
from codec.text.jsontext import decode_json

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("MessageHead", "ResponseHead", "decode_object", "glimpse", "items_of", "read_head")


class ResponseHead(msgspec.Struct, frozen=True, gc=False):
    """The response that an event begins, or describes; what is unset did not come."""

    id: str | None = None
    previous_response_id: str | None = None
    conversation_id: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: Any = msgspec.UNSET


class MessageHead(msgspec.Struct, frozen=True, gc=False):
    """What every message says of itself."""

    type: str = ""
    stream_id: str | None = None
    response_id: str | None = None
    response: ResponseHead | None = None


_decode_head = msgspec.json.Decoder(MessageHead).decode

_TYPE: Final = re.compile(rb'"type"\s{0,9}:\s{0,9}"([a-z_]{1,40}\.[\w.]{1,99}|error)"').search
_STREAM: Final = re.compile(rb'"stream_id"\s{0,9}:\s{0,9}"([\w.-]{1,256})"').search
_RESPONSE_ID: Final = re.compile(rb'"response_id"\s{0,9}:\s{0,9}"([^"\\]{1,256})"').search
_RESPONSE: Final = re.compile(
    rb'"response"\s{0,9}:\s{0,9}\{[^{}\[\]]{0,256}?"id"\s{0,9}:\s{0,9}"([^"\\]{1,256})"'
).search
_PREVIOUS: Final = re.compile(rb'"previous_response_id"\s{0,9}:\s{0,9}"([^"\\]{1,256})"').search
_MODEL: Final = re.compile(rb'"model"\s{0,9}:\s{0,9}"([^"\\]{1,256})"').search


def read_head(text: bytes) -> MessageHead:
    """Read the head of a message; it is empty if the message is not one of an API's."""
    try:
        return _decode_head(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = decode_object(text)
    response = value.get("response")
    return MessageHead(
        type=text_of(value.get("type")) or "",
        stream_id=text_of(value.get("stream_id")),
        response_id=text_of(value.get("response_id")),
        response=_describe(response) if isinstance(response, dict) else None,
    )


def _describe(response: JsonObject) -> ResponseHead:
    return ResponseHead(
        id=text_of(response.get("id")),
        previous_response_id=text_of(response.get("previous_response_id")),
        conversation_id=text_of(response["conversation_id"])
        if "conversation_id" in response
        else msgspec.UNSET,
        metadata=response.get("metadata", msgspec.UNSET),
    )


def decode_object(text: bytes) -> JsonObject:
    """Decode a message; whatever is not an object is an empty one."""
    try:
        return object_of(decode_json(text))
    except ValueError:
        return {}


def glimpse(text: bytes) -> tuple[MessageHead, JsonObject]:
    """Read the head of a message that is too large to be read whole, and some members of a request.

    A name within a text has escaped quotes, so that it is not found.
    """
    found = {
        name: match[1].decode("utf-8", "replace")
        for name, search in (
            ("type", _TYPE),
            ("stream_id", _STREAM),
            ("response_id", _RESPONSE_ID),
            ("id", _RESPONSE),
            ("previous_response_id", _PREVIOUS),
            ("model", _MODEL),
        )
        if (match := search(text)) is not None
    }
    response = ResponseHead(found.get("id"), found.get("previous_response_id"))
    head = MessageHead(
        type=found.get("type", ""),
        stream_id=found.get("stream_id"),
        response_id=found.get("response_id"),
        response=response if "id" in found else None,
    )
    return head, {name: found[name] for name in ("model", "previous_response_id") if name in found}


def items_of(given: Any) -> list[Any]:
    """List the items of an input, which may be a text."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return given if isinstance(given, list) else []
