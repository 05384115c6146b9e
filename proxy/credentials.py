r"""The credentials of a request, found and masked (R7).

Providers like to quote the key that they refuse, or the URL with the key in it. The client gets
their words as they are; in what is recorded of them (:mod:`proxy.error_body`) keys are masked.

Rules:

1. A credential is masked as it stands, with escapes of JSON (``\/``, ``\u002b``, in however many
   texts within texts) and of URLs (``%2B``), and in any mixture of them: text and credentials are
   compared as they are, and without escapes.
2. Of credentials that overlap or are in one another nothing is left; those that touch get
   one mask.
3. A text that is cut may end within a credential: what may be a part of one is left out.
4. The work is linear in the text for each credential; whoever masks bounds both.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from telemetry.client_context import looks_like_credential

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.headers import RawHeaders

__all__ = ("MASK", "find_credentials", "mask_credentials")

MASK = b"[credential]"

MIN_CREDENTIAL_BYTES = 8
"""What is shorter is no key, and masking it would garble words."""

_QUERY = re.compile(
    rb"[?&](?:[^=&#]{0,64}[-_.])?(?:access|api|auth)?"
    # the last two by custom alone, of Azure's functions and storage
    rb"(?:auth|credential|jwt|key|password|secret|signature|token|code|sig)=([^&#]+)",
    re.IGNORECASE,
)
"""Members of a query that are credentials by the end of their names."""

_ESCAPE = re.compile(
    rb"\\*+%([0-9a-fA-F]{2})"
    # A run of backslashes: one more for each text that the text is in.
    rb"|\\++(?:u00([0-9a-fA-F]{2})|([^\\]))",
    re.DOTALL,
)
"""What stands for one byte. Possessive and with no way to fail behind a backslash, hence linear."""

_PARTIAL_ESCAPE_BYTES = 4
"""Of a text that is cut within ``\\u002b``: ``u002``."""


def find_credentials(headers: RawHeaders, target: str) -> tuple[bytes, ...]:
    """The secrets that go with a request, longest first; a hostile one has thousands.

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
    for match in _QUERY.finditer(target.encode("utf-8", "surrogateescape")):
        found |= {match[1], unquote_to_bytes(match[1])}
    long_enough = (value for value in found if len(value) >= MIN_CREDENTIAL_BYTES)
    return tuple(sorted(long_enough, key=len, reverse=True))


def mask_credentials(text: bytes, credentials: tuple[bytes, ...], *, is_whole: bool) -> bytes:
    """A text with :data:`MASK` in place of credentials; all else as it was.

    Args:
        text: any, JSON or not.
        credentials: as :func:`find_credentials` has them.
        is_whole: the text is not cut at its end (rule 3).
    """
    wanted = {_unescape(value)[0] for value in credentials}
    wanted = {value for value in wanted if len(value) >= MIN_CREDENTIAL_BYTES}
    text = text if is_whole else text.rstrip(b"\\")
    plain, starts = _unescape(text)
    end = len(text)
    if not is_whole and wanted:
        tail_bytes = max(map(len, wanted)) - 1 + _PARTIAL_ESCAPE_BYTES
        end = starts[max(0, len(plain) - tail_bytes)]
    marks = bytearray(len(text))
    for value in credentials:
        for first, last in _find(text, value):
            marks[first:last] = b"x" * (last - first)
    if len(plain) == len(text):  # without escapes: what was looked for is not looked for again
        wanted.difference_update(credentials)
    for value in wanted:
        for first, last in _find(plain, value):
            marks[starts[first] : starts[last]] = b"x" * (starts[last] - starts[first])
    masked, done = bytearray(), 0
    for marked in re.finditer(b"x+", marks[:end]):
        masked += text[done : marked.start()] + MASK
        done = marked.end()
    return bytes(masked + text[done:end])


def _unescape(text: bytes) -> tuple[bytes, list[int]]:
    """A text without escapes, and where in the text each of its bytes begins, and the last ends."""
    plain, starts, done = bytearray(), list[int](), 0
    # Backslashes at the end escape nothing.
    for escape in _ESCAPE.finditer(text, 0, len(text.rstrip(b"\\"))):
        plain += text[done : escape.start()]
        starts.extend(range(done, escape.start()))
        code = escape[1] or escape[2]
        plain += bytes.fromhex(code.decode("ascii")) if code else escape[3]
        starts.append(escape.start())
        done = escape.end()
    plain += text[done:].rstrip(b"\\")
    starts.extend(range(done, len(text) + 1))
    return bytes(plain), starts


def _find(plain: bytes, value: bytes) -> Iterator[tuple[int, int]]:
    """Where a credential occurs: start and end."""
    first = plain.find(value)
    while first >= 0:
        yield first, first + len(value)
        first = plain.find(value, first + len(value))
