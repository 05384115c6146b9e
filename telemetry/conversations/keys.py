"""Keys, by which calls are remembered. The first byte says what a key was made of.

Then comes the scope in which the key counts, unless it is an id that counts everywhere; then a
digest or an id. An id of more than :data:`MAX_PLAIN_ID_BYTES` is a digest too, because a key takes
as much memory as it is long.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

SCOPE_BYTES: Final = 8
"""Enough to tell callers and upstreams apart: among a million, the chance that two are confused is
one in 40 million."""

AFTER: Final = b"a"
"""The state after an answer."""
AFTER_BARE: Final = b"b"
"""The state after an answer, without the ids of tool calls."""
AFTER_FAILED: Final = b"f"
"""The state after an answer of which the client repeats no tool calls, because one failed."""
REQUEST: Final = b"r"
"""The state of a request."""
CALL: Final = b"c"
"""A tool call: its id, name and arguments."""
CALL_ID: Final = b"t"
"""The id of a tool call alone. It counts everywhere."""
BEGAN_WITH: Final = b"h"
"""The id of a tool call made in another conversation, found at the start of this one."""
WINDOW: Final = b"w"
"""A window: some items in a row."""
RESPONSE: Final = b"i"
"""The id of an answer, if it is strong. It counts everywhere."""
WEAK_RESPONSE: Final = b"j"
"""The id of an answer that counts in its scope only: a weak one, such as ``resp_1``, or one that a
program names beside its request."""

NO_SCOPE: Final = bytes(SCOPE_BYTES)
"""The scope of a call with an unknown caller: nothing is remembered in it."""

MAX_ID_CHARS: Final = 256
"""Longest id that counts: OpenAI's have 64 characters at most."""

MAX_PLAIN_ID_BYTES: Final = 64
"""The longest id that is kept as it came. Nearly all are shorter."""

_ID_BYTES: Final = 16

MIN_STRONG_CHARS: Final = 16
MIN_STRONG_KINDS: Final = 10
"""How many letters and digits, and how many different ones, make an id that is not made twice."""

_FOR_STRANGERS: Final = frozenset({AFTER, AFTER_BARE, AFTER_FAILED, CALL, CALL_ID, RESPONSE})

_EVERYWHERE: Final = frozenset({RESPONSE, CALL_ID, BEGAN_WITH})
"""Kinds of keys without a scope."""

_SCOPE_END: Final = 1 + SCOPE_BYTES


def is_strong(call_id: str) -> bool:
    """Tell whether an id is long and varied enough that nobody else has it.

    >>> is_strong("functions.add:0"), is_strong("toolu_01A09q90qw90lq917835lq9")
    (False, True)
    """
    if len(call_id) > MAX_ID_CHARS:
        return False
    letters = [*filter(str.isalnum, call_id)]
    return len(letters) >= MIN_STRONG_CHARS and len({*letters}) >= MIN_STRONG_KINDS


def encode_id(text: str) -> bytes:
    """Write an id as the end of a key: as it came, or its digest."""
    plain = text.encode("utf-8", "replace")
    if len(plain) <= MAX_PLAIN_ID_BYTES:
        return plain
    return b"#" + blake2b(plain, digest_size=_ID_BYTES).digest()


def name_response(response_id: str, scope: bytes) -> bytes:
    """Make the key of an answer by its id."""
    end = encode_id(response_id[:MAX_ID_CHARS])
    return RESPONSE + end if is_strong(response_id) else WEAK_RESPONSE + scope + end


def name_message(message_id: str, scope: bytes) -> bytes:
    """Make the key of an answer whose id its program sends with the next request, in a scope."""
    return WEAK_RESPONSE + scope + encode_id(message_id[:MAX_ID_CHARS])


def choose_for_strangers(keys: Iterable[bytes]) -> list[bytes]:
    """Choose the keys that count among unknown callers.

    Requests and windows do not count, because strangers ask the same. Strong ids of responses do.
    """
    return [key for key in keys if key[:1] in _FOR_STRANGERS]


def cut_scope(key: bytes) -> bytes:
    """Return a key without its scope."""
    return key if key[:1] in _EVERYWHERE else key[:1] + key[_SCOPE_END:]


def add_scope(key: bytes, scope: bytes) -> bytes:
    """Return a key that :func:`cut_scope` cut, in a scope."""
    return key if key[:1] in _EVERYWHERE else key[:1] + scope + key[1:]


def move_key(key: bytes, scope: bytes) -> bytes:
    """Return the same key in another scope."""
    return add_scope(cut_scope(key), scope)


def find_scope(keys: Iterable[bytes]) -> bytes:
    """Find the scope of a call by its keys; :data:`NO_SCOPE` if no key has one."""
    scopes = (key[1:_SCOPE_END] for key in keys if key[:1] not in _EVERYWHERE)
    return next(scopes, NO_SCOPE)
