"""Digests of the page's token, which check a token and sign tickets and cookies."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Final

from proxy.page_access.token_file import read_token, token_path

if TYPE_CHECKING:
    from pathlib import Path

NO_TOKEN: Final = "none"  # noqa: S105 - it says that there is none
"""The value of the setting that lets in everybody who can connect."""

TICKET_SECONDS: Final = 60
"""How long a ticket is valid: a browser takes some seconds to start."""


def digest_token(token: str) -> bytes:
    """Digest a token; everything that checks or signs uses the digest."""
    return hashlib.sha256(token.encode(errors="backslashreplace")).digest()


def sign(digest: bytes, words: str) -> str:
    """Sign words, which needs the token."""
    return hmac.new(digest, f"spantap page {words}".encode(), "sha256").hexdigest()


def make_ticket(digest: bytes, now_seconds: float | None = None) -> str:
    """Make a ticket, which can be used once instead of the token (:mod:`proxy.page.token`)."""
    now = time.time() if now_seconds is None else now_seconds
    until, nonce = str(int(now) + TICKET_SECONDS), secrets.token_hex(16)
    return f"ticket.{until}.{nonce}.{sign(digest, f'ticket {until} {nonce}')}"


def find_digest(page_token: str | None, store: Path) -> bytes | None:
    """Find the digest of the token: from the setting, else from the store's file.

    If there is no file yet, it is made.

    Returns:
        ``None`` if no token is needed.

    Raises:
        ConfigurationError: the file cannot be trusted or made.
    """
    if page_token == NO_TOKEN:
        return None
    if page_token is not None:
        return bytes.fromhex(page_token.removeprefix("sha256:"))
    return digest_token(read_token(store))


def describe_way_in(page_token: str | None, store: Path, url: str, *, to_person: bool) -> str:
    """Say how to open the page.

    The text has the token only if a person reads it, on a terminal. A log may be sent anywhere, so
    there the text names the file that has the token.

    Raises:
        ConfigurationError: the token's file cannot be trusted.
    """
    if page_token == NO_TOKEN:
        return (
            f"{url} (it asks for no token: anybody on this machine who can connect sees all calls)"
        )
    if page_token is not None:
        return f"{url} (its token is that of SPANTAP_PAGE_TOKEN)"
    if to_person:
        return f"{url}/#token={read_token(store)}"
    return f"{url} (its token is in {token_path(store)})"
