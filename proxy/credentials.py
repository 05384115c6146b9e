"""The credentials of a request, kept out of what is recorded of its answer (R7).

Providers like to quote the key that they refuse, or the URL with the key in it. The client gets
their words as they are; the observer's copy of an error's body has the key masked.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from telemetry.client_context import looks_like_credential

if TYPE_CHECKING:
    from proxy.headers import RawHeaders

__all__ = ("MASK", "MAX_QUERY_CREDENTIALS", "CredentialMask", "find_credentials")

MASK = b"[credential]"

MIN_CREDENTIAL_BYTES = 8
"""What is shorter is no key, and masking it would garble words."""

MAX_QUERY_CREDENTIALS = 32
"""Each is looked for in an error's body. Real queries have one, a hostile one thousands."""

_QUERY = re.compile(
    rb"[?&](?:[^=&#]{0,64}[-_.])?(?:access|api|auth)?"
    # the last two by custom alone, of Azure's functions and storage
    rb"(?:auth|credential|jwt|key|password|secret|signature|token|code|sig)=([^&#]+)",
    re.IGNORECASE,
)
"""Members of a query that are credentials by the end of their names."""


def find_credentials(headers: RawHeaders, target: str) -> tuple[bytes, ...]:
    """The secrets that go with a request, longest first.

    Args:
        headers: the client's, and those of ours that hold a key.
        target: raw path and query.
    """
    found: set[bytes] = set()
    for name, value in headers:
        if looks_like_credential(key := name.lower().decode("latin-1")):
            found.add(value)
            found.add(value.rpartition(b" ")[2])  # without `Bearer`
            if key == "cookie":
                found.update(cookie.partition(b"=")[2] for cookie in value.split(b";"))
    matches = _QUERY.finditer(target.encode("utf-8", "surrogateescape"))
    for match in islice(matches, MAX_QUERY_CREDENTIALS):
        found |= {match[1], unquote_to_bytes(match[1])}
    long_enough = (value for value in found if len(value) >= MIN_CREDENTIAL_BYTES)
    return tuple(sorted(long_enough, key=len, reverse=True))


class CredentialMask:
    """Masks exact occurrences in a body that arrives in pieces, cut anywhere."""

    def __init__(self, credentials: tuple[bytes, ...]) -> None:
        self._pattern = re.compile(b"|".join(re.escape(value) for value in credentials))
        self._held_bytes = max(map(len, credentials)) - 1
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What is certain now; the last bytes wait, for they may begin a credential."""
        masked = self._pattern.sub(MASK, self._held + data)
        cut = max(0, len(masked) - self._held_bytes)
        self._held = masked[cut:]
        return masked[:cut]

    def finish(self) -> bytes:
        """What waited."""
        held, self._held = self._held, b""
        return held
