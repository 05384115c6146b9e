"""Base URLs that travel in a path, each in a pass that only this proxy can have written.

A pass is the URL, encrypted (:mod:`telemetry.observing.encryption`) with a key that the processes
of one proxy share, and that is gone when they end. So no request can name the host that it goes to:
only the supervisor hands out passes, on a socket that only its own user can reach. A pass has only
letters, digits, ``-`` and ``_``, which every client leaves as they are.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry.observing.encryption import Cipher

_MARK = b"base URL "
"""The mark that distinguishes a pass from other texts that are encrypted with the same key."""


def write_pass(url: str, cipher: Cipher) -> str:
    """Write a pass to a base URL."""
    return base64.urlsafe_b64encode(cipher.encrypt(_MARK + url.encode())).rstrip(b"=").decode()


def read_pass(text: str, cipher: Cipher) -> str | None:
    """Read the base URL of a pass; ``None`` if it was not written with this key."""
    try:
        encrypted = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        text = (cipher.decrypt(encrypted) or b"").decode()
    except ValueError:
        return None
    mark = _MARK.decode()
    return text.removeprefix(mark) if text.startswith(mark) else None
