"""Digests of the page's token: what it is checked by, and what is signed with it."""

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
"""The setting that lets everybody in who can connect."""

TICKET_SECONDS: Final = 60
"""How long a ticket holds: a browser that has to start takes some seconds."""


def digest_token(token: str) -> bytes:
    """Digest a token; what is checked, and signed with, is always this."""
    return hashlib.sha256(token.encode(errors="backslashreplace")).digest()


def sign(digest: bytes, words: str) -> str:
    """Sign words, as nobody can who has not the token."""
    return hmac.new(digest, f"spantap page {words}".encode(), "sha256").hexdigest()


def make_ticket(digest: bytes, now_seconds: float | None = None) -> str:
    """Make a ticket, which stands in for the token once (:mod:`proxy.page.token`)."""
    now = time.time() if now_seconds is None else now_seconds
    until, nonce = str(int(now) + TICKET_SECONDS), secrets.token_hex(16)
    return f"ticket.{until}.{nonce}.{sign(digest, f'ticket {until} {nonce}')}"


def find_digest(page_token: str | None, store: Path) -> bytes | None:
    """Find the digest of the token: that of the setting, else of the store's file, made if need be.

    Returns:
        ``None`` where nobody needs one.

    Raises:
        ConfigurationError: the file cannot be trusted, or made.
    """
    if page_token == NO_TOKEN:
        return None
    if page_token is not None:
        return bytes.fromhex(page_token.removeprefix("sha256:"))
    return digest_token(read_token(store))


def describe_way_in(page_token: str | None, store: Path, url: str, *, to_person: bool) -> str:
    """Say how one gets in.

    The token stands in it only where a person reads it, on a terminal. In a log it would go
    wherever logs go; there the file is named that holds it.

    Raises:
        ConfigurationError: the token's file cannot be trusted.
    """
    if page_token == NO_TOKEN:
        return f"{url} (it asks for no token: whoever can connect on this machine sees all calls)"
    if page_token is not None:
        return f"{url} (its token is that of SPANTAP_PAGE_TOKEN)"
    if to_person:
        return f"{url}/#token={read_token(store)}"
    return f"{url} (its token is in {token_path(store)})"
