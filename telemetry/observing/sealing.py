"""Credentials on their way from a worker to telemetry, sealed: frames hold nothing that opens them.

Whoever masks what a provider quotes must know what to look for, and masking is telemetry's work
(R2). But frames may wait on a disk, and a key must not (R7).

Rules:

1. A text is sealed with a key that lives in memory alone: made when spantap starts, the same for
   all of its processes.
2. It is mixed with bytes that only the key and the text's own digest make, so no two texts are
   mixed with the same; and one that comes again, as a client's key does with each call, is sealed
   to the same bytes, which are at hand (as RFC 5297 does it).
3. What another key has sealed, before a restart, does not open: its digest is another one.
"""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import blake2b, shake_256

__all__ = ("KEY_BYTES", "OWN_SEAL", "Seal")

KEY_BYTES = 32

MAX_KEPT = 64
"""Texts that are at hand: the heads of so many clients, of 64 KiB each at most."""

_DIGEST_BYTES = 16


class Seal:
    """Seals and opens.

    Args:
        key: of :data:`KEY_BYTES` random bytes.

    Attributes:
        close: gives a text sealed.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.close = lru_cache(MAX_KEPT)(self._close)

    def _close(self, text: bytes) -> bytes:
        digest = self._digest(text)
        return digest + self._mix(text, digest)

    def open(self, sealed: bytes) -> bytes | None:
        """The text; ``None`` where another key has sealed it (rule 3)."""
        digest, mixed = sealed[:_DIGEST_BYTES], sealed[_DIGEST_BYTES:]
        text = self._mix(mixed, digest)
        return text if self._digest(text) == digest else None

    def _digest(self, text: bytes) -> bytes:
        return blake2b(text, key=self._key, digest_size=_DIGEST_BYTES).digest()

    def _mix(self, text: bytes, digest: bytes) -> bytes:
        size = len(text)
        pad = shake_256(self._key + digest).digest(size)
        mixed = int.from_bytes(text, "little") ^ int.from_bytes(pad, "little")
        return mixed.to_bytes(size, "little")


OWN_SEAL = Seal(os.urandom(KEY_BYTES))
"""Of a process that relays and observes by itself."""
