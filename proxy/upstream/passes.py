"""Base URLs that travel in a path, each in a pass that only this proxy can have written.

A pass is the URL, encrypted (:mod:`telemetry.observing.encryption`) with the key that the processes
of one proxy share and that ends with them. So no request can name where it goes: passes are handed
out by the supervisor, on a socket that only its own user reaches. A pass has only letters, digits,
``-`` and ``_``, which every client leaves as they are.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry.observing.encryption import Cipher

_MARK = b"base URL "
"""The mark that tells a pass from other texts that are encrypted with the same key."""


def write_pass(url: str, cipher: Cipher) -> str:
    """Write a pass to a base URL."""
    return base64.urlsafe_b64encode(cipher.encrypt(_MARK + url.encode())).rstrip(b"=").decode()


def read_pass(text: str, cipher: Cipher) -> str | None:
    """Read the base URL of a pass; ``None`` where another key wrote it, or none."""
    try:
        encrypted = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        text = (cipher.decrypt(encrypted) or b"").decode()
    except ValueError:
        return None
    mark = _MARK.decode()
    return text.removeprefix(mark) if text.startswith(mark) else None
