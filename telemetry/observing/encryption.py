"""Encrypts credentials on their way from a worker to telemetry.

Telemetry masks credentials that a provider quotes (R2), so it has to know them. But frames may wait
on a disk, where credentials must not be (R7). So the credentials are encrypted with a key that
exists only in memory: it is made when spantap starts, and all of its processes have the same key.
"""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import blake2b, shake_256

KEY_BYTES = 32

MAX_KEPT = 64
"""The number of texts that are remembered: the heads of 64 clients, of at most 64 KiB each."""

_DIGEST_BYTES = 16


class Cipher:
    """Encrypts and decrypts texts, with a key of :data:`KEY_BYTES` random bytes.

    A text is mixed with bytes made of the key and the text's digest, so that different texts are
    mixed with different bytes (as in RFC 5297). A text that comes again, as a client's key does
    with each call, is encrypted to the same bytes, which are remembered.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.encrypt = lru_cache(MAX_KEPT)(self._encrypt)

    def _encrypt(self, text: bytes) -> bytes:
        digest = self._digest(text)
        return digest + self._mix(text, digest)

    def decrypt(self, encrypted: bytes) -> bytes | None:
        """Decrypt a text; ``None`` if another key encrypted it, before a restart."""
        digest, mixed = encrypted[:_DIGEST_BYTES], encrypted[_DIGEST_BYTES:]
        text = self._mix(mixed, digest)
        return text if self._digest(text) == digest else None

    def _digest(self, text: bytes) -> bytes:
        return blake2b(text, key=self._key, digest_size=_DIGEST_BYTES).digest()

    def _mix(self, text: bytes, digest: bytes) -> bytes:
        size = len(text)
        pad = shake_256(self._key + digest).digest(size)
        mixed = int.from_bytes(text, "little") ^ int.from_bytes(pad, "little")
        return mixed.to_bytes(size, "little")


OWN_CIPHER = Cipher(os.urandom(KEY_BYTES))
"""The cipher of a process that both relays and observes."""
