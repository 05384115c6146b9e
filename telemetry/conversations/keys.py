"""Keys: what calls are remembered by. Each begins with a byte that says what it is of.

Behind that is the scope in which it counts, but for ids that count everywhere; then a digest or an
id. An id of more than :data:`MAX_PLAIN_ID_BYTES` is a digest, too: a key takes as much memory as it
is long.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

SCOPE_BYTES: Final = 8
"""Callers and upstreams that are told apart: of a million, two are taken for one by one chance in
40 million."""

AFTER: Final = b"a"
"""The state after an answer."""
AFTER_BARE: Final = b"b"
"""Likewise, without the ids of calls."""
REQUEST: Final = b"r"
"""The state of a request."""
CALL: Final = b"c"
"""A call of a tool: its id, name and arguments."""
CALL_ID: Final = b"t"
"""The id of such a call alone: it counts everywhere."""
BEGAN_WITH: Final = b"h"
"""Likewise, of a call of somebody else's answer with which a conversation began."""
WINDOW: Final = b"w"
"""Some items in a row."""
RESPONSE: Final = b"i"
"""The id of an answer that is nobody else's."""
WEAK_RESPONSE: Final = b"j"
"""Another id of one, such as ``resp_1``: it counts in its scope alone."""

NO_SCOPE: Final = bytes(SCOPE_BYTES)
"""The scope of a call whose caller cannot be told: nothing is remembered in it."""

MAX_ID_CHARS: Final = 256
"""Longest id that counts: OpenAI's have 64 characters at most."""

MAX_PLAIN_ID_BYTES: Final = 64
"""Bytes of an id that is kept as it came, as nearly all are."""

_ID_BYTES: Final = 16

MIN_STRONG_CHARS: Final = 16
MIN_STRONG_KINDS: Final = 10
"""Letters and digits, and different ones, of an id that is not made twice."""

_FOR_STRANGERS: Final = frozenset({AFTER, AFTER_BARE, CALL, CALL_ID, RESPONSE})

_EVERYWHERE: Final = frozenset({RESPONSE, CALL_ID, BEGAN_WITH})
"""Kinds of keys without a scope."""

_SCOPE_END: Final = 1 + SCOPE_BYTES


def is_strong(call_id: str) -> bool:
    """Tell whether an id is long and mixed enough to be nobody else's.

    >>> is_strong("functions.add:0"), is_strong("toolu_01A09q90qw90lq917835lq9")
    (False, True)
    """
    if len(call_id) > MAX_ID_CHARS:
        return False
    letters = [*filter(str.isalnum, call_id)]
    return len(letters) >= MIN_STRONG_CHARS and len({*letters}) >= MIN_STRONG_KINDS


def encode_id(text: str) -> bytes:
    """Write an id as the end of a key: as it came, or its digest."""
    told = text.encode("utf-8", "replace")
    if len(told) <= MAX_PLAIN_ID_BYTES:
        return told
    return b"#" + blake2b(told, digest_size=_ID_BYTES).digest()


def name_response(response_id: str, scope: bytes) -> bytes:
    """Make the key of an answer by its id."""
    told = encode_id(response_id[:MAX_ID_CHARS])
    return RESPONSE + told if is_strong(response_id) else WEAK_RESPONSE + scope + told


def choose_for_strangers(keys: Iterable[bytes]) -> list[bytes]:
    """Choose the keys that count where callers cannot be told apart.

    Requests and windows do not: strangers ask the same. Ids of responses do where they are strong.
    """
    return [key for key in keys if key[:1] in _FOR_STRANGERS]


def cut_scope(key: bytes) -> bytes:
    """Return a key without its scope."""
    return key if key[:1] in _EVERYWHERE else key[:1] + key[_SCOPE_END:]


def add_scope(key: bytes, scope: bytes) -> bytes:
    """Return a key that was cut, in a scope."""
    return key if key[:1] in _EVERYWHERE else key[:1] + scope + key[1:]


def move_key(key: bytes, scope: bytes) -> bytes:
    """Return the same key in another scope."""
    return add_scope(cut_scope(key), scope)


def find_scope(keys: Iterable[bytes]) -> bytes:
    """Find the scope of a call by its keys; that of nobody where none has one."""
    scopes = (key[1:_SCOPE_END] for key in keys if key[:1] not in _EVERYWHERE)
    return next(scopes, NO_SCOPE)
