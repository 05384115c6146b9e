"""The messages of a Realtime session, as far as they say what they are about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from codec.members import object_of, text_of
from codec.text.jsontext import decode_json

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("MessageHead", "decode_object", "glimpse", "read_head")


class ResponseHead(msgspec.Struct, frozen=True, gc=False):
    """The response that an event begins, or ends; what is unset did not come."""

    id: str | None = None
    conversation_id: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: Any = msgspec.UNSET


class MessageHead(msgspec.Struct, frozen=True, gc=False):
    """What every message says of itself."""

    type: str = ""
    response_id: str | None = None
    response: ResponseHead | None = None


_decode_head = msgspec.json.Decoder(MessageHead).decode

_TYPE: Final = re.compile(rb'"type"\s{0,9}:\s{0,9}"([a-z][\w.]{1,99})"').search
_RESPONSE_ID: Final = re.compile(rb'"response_id"\s{0,9}:\s{0,9}"([^"\\]{1,256})"').search
_RESPONSE: Final = re.compile(
    rb'"response"\s{0,9}:\s{0,9}\{[^{}\[\]]{0,256}?"id"\s{0,9}:\s{0,9}"([^"\\]{1,256})"'
).search


def read_head(text: bytes) -> MessageHead:
    """Read the head of a message; it is empty if the message is not one of an API's."""
    try:
        return _decode_head(text)
    except (msgspec.MsgspecError, UnicodeError):
        value = decode_object(text)
    response = value.get("response")
    return MessageHead(
        type=text_of(value.get("type")) or "",
        response_id=text_of(value.get("response_id")),
        response=ResponseHead(
            id=text_of(response.get("id")),
            conversation_id=text_of(response["conversation_id"])
            if "conversation_id" in response
            else msgspec.UNSET,
            metadata=response.get("metadata", msgspec.UNSET),
        )
        if isinstance(response, dict)
        else None,
    )


def glimpse(text: bytes) -> MessageHead:
    """Read what the beginning of a message tells that is too large to be read.

    A name within a text has escaped quotes, so that it is not found.
    """
    kind, named, begun = _TYPE(text), _RESPONSE_ID(text), _RESPONSE(text)
    return MessageHead(
        type="" if kind is None else kind[1].decode("utf-8", "replace"),
        response_id=None if named is None else named[1].decode("utf-8", "replace"),
        response=None if begun is None else ResponseHead(id=begun[1].decode("utf-8", "replace")),
    )


def decode_object(text: bytes) -> JsonObject:
    """Decode a message; whatever is not an object is an empty one."""
    try:
        return object_of(decode_json(text))
    except ValueError:
        return {}
