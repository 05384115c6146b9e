"""Credentials that are known by their names: headers, and members of JSON in headers (R7)."""

from __future__ import annotations

import re
from typing import Any

from codec.text.json_size import decoded_bytes
from codec.text.jsontext import decode_json, encode_json

__all__ = (
    "MAX_HEADER_JSON_BYTES",
    "MAX_METADATA_DEPTH",
    "has_many_values",
    "leave_out_credentials",
    "looks_like_credential",
    "without_credentials",
)

MAX_HEADER_JSON_BYTES = 512 * 1024
"""The most that the values of JSON in a header may take, some two thousand of them: to read more
takes a worker more than a few milliseconds, in which its other calls wait."""

MAX_METADATA_DEPTH = 32
"""Levels of objects in a header's metadata; deeper ones are hostile, and left out."""

_CREDENTIAL_NAME = re.compile(
    r"auth(?!ors?(?:$|[-_]))|cookie|token|secret|passw|passphrase|jwt|credential|signature|bearer"
    r"|virtual[-_]?key|api[-_]?key|(?:^|[-_])(?:key|pass|pwd|sig)$"
)
"""In the names of headers, and of members of JSON, that carry credentials."""


def looks_like_credential(name: str) -> bool:
    """Tell whether a header, lower case, carries a credential by its name."""
    return _CREDENTIAL_NAME.search(name) is not None


def has_many_values(text: str) -> bool:
    """Tell whether a header has JSON with more values than are looked at."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    return decoded_bytes(text.encode("utf-8", "replace")) > MAX_HEADER_JSON_BYTES


def leave_out_credentials(text: str) -> str:
    """A JSON text without members that carry credentials by their names; else the same text.

    Of one with more values than are looked at nothing is left.
    """
    if has_many_values(text):
        return ""
    try:
        value = decode_json(text.encode("latin-1"))
    except ValueError:
        return text
    left = without_credentials(value, MAX_METADATA_DEPTH)
    return text if left == value else encode_json(left).encode().decode("latin-1")


def without_credentials(value: Any, levels: int) -> Any:
    """A JSON value without members that carry credentials by their names.

    Values below `levels` levels become ``None``.
    """
    if not isinstance(value, (dict, list)):
        return value
    if not levels:
        return None
    if isinstance(value, list):
        return [without_credentials(item, levels - 1) for item in value]
    return {
        name: without_credentials(item, levels - 1)
        for name, item in value.items()
        if not looks_like_credential(name.lower())
    }
