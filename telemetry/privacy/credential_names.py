"""Credentials that are known by their names: headers, and members of JSON in headers (R7)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from codec.text.json_size import decoded_bytes
from codec.text.jsontext import decode_json, encode_json

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_HEADER_JSON_BYTES = 256 * 1024
"""The most memory for the values of JSON in the headers of one request, some thousand values.
Reading more would take a worker more than a millisecond, and its other calls wait meanwhile."""

MAX_METADATA_DEPTH = 32
"""Levels of objects in a header's metadata; deeper ones come from an attack and are left out."""

MAX_NAME_CHARS = 256
"""Longest name that is searched; real ones are shorter. Searching 64 KB takes a millisecond."""

_CREDENTIAL_NAME = re.compile(
    r"auth(?!ors?(?:$|[-_]))|cookie|token|secret|passw|passphrase|jwt|credential|signature|bearer"
    r"|virtual[-_]?key|api[-_]?key|(?:^|[-_])(?:key|pass|pwd|sig)$"
)
"""Matches parts of the names of headers, and of members of JSON, that carry credentials."""

_NONCE = "sec-websocket-key"
"""A random number in each handshake of a WebSocket (RFC 6455, 4.1), a key in name alone. Otherwise
each connection would be another caller's."""


def looks_like_credential(name: str) -> bool:
    """Tell whether the name of a header, in lower case, says that it carries a credential.

    A name that is too long to be searched counts as such a name.
    """
    if name == _NONCE:
        return False
    return len(name) > MAX_NAME_CHARS or _CREDENTIAL_NAME.search(name) is not None


def json_bytes(text: str) -> int:
    """The memory that the values of a header take, if they are JSON, else 0."""
    if not text.lstrip().startswith(("{", "[")):
        return 0
    return decoded_bytes(text.encode("utf-8", "replace"))


def leave_out_credentials(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return headers without members of JSON whose names say that they carry credentials.

    If the JSON has more values than are read in one request, all of it is left out.
    """
    left_bytes = MAX_HEADER_JSON_BYTES
    shown: list[tuple[str, str]] = []
    for name, text in headers:
        if taken_bytes := json_bytes(text):
            has_room = taken_bytes <= left_bytes
            left_bytes -= taken_bytes if has_room else 0
            shown.append((name, _leave_out(text) if has_room else ""))
        else:
            shown.append((name, text))
    return tuple(shown)


def _leave_out(text: str) -> str:
    """Return a JSON text without members with names of credentials; other text as it is."""
    try:
        value = decode_json(text.encode("latin-1"))
    except ValueError:
        return text
    left = without_credentials(value, MAX_METADATA_DEPTH)
    return text if left == value else encode_json(left).encode().decode("latin-1")


def without_credentials(value: Any, levels: int) -> Any:
    """Return a JSON value without members with names of credentials.

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
