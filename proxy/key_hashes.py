"""Inbound keys as the settings keep them: only their SHA-256 digests."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MIN_KEY_CHARS = 16
"""The shortest plain key; a shorter one can be guessed from its digest."""

_HASHED = re.compile(r"sha256:([0-9a-fA-F]{64})")
_PLAIN = re.compile(r"[!-~]+")


def hash_keys(entries: Iterable[object]) -> tuple[str, ...]:
    """Hash plain keys, and keep digests as they are: each result is ``sha256:<64 hex digits>``.

    Raises:
        ValueError: there is no key, or one entry cannot be a key; the message has its number.
    """
    hashed = [hash_key(entry, f"entry {number}") for number, entry in enumerate(entries, start=1)]
    if not hashed:
        raise ValueError("is set, and holds no key: that would let everybody in")
    return tuple(hashed)


def hash_key(entry: object, place: str) -> str:
    """Hash one entry, as ``sha256:<64 hex digits>``.

    Raises:
        ValueError: it cannot be a key. The message names `place`, and never quotes the entry (R7).
    """
    text = entry.strip() if isinstance(entry, str) else ""
    if found := _HASHED.fullmatch(text):
        return f"sha256:{found[1].lower()}"
    if text.startswith("sha256:"):
        raise ValueError(f"{place} begins with 'sha256:', but 64 hexadecimal digits do not follow")
    if len(text) < MIN_KEY_CHARS:
        raise ValueError(f"{place} must be a key of at least {MIN_KEY_CHARS} characters")
    if not _PLAIN.fullmatch(text):
        raise ValueError(f"{place} must be printable ASCII without white space")
    return f"sha256:{hashlib.sha256(text.encode('ascii')).hexdigest()}"
