"""An ``[[upstream]]`` table of the settings, as the relay knows it."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Final

import msgspec
from yarl import URL

from codec.usage_option import UsagePolicy


class KeyHeader(StrEnum):
    """The header in which a provider expects its key."""

    AUTHORIZATION = "authorization"
    X_API_KEY = "x-api-key"
    X_GOOG_API_KEY = "x-goog-api-key"
    API_KEY = "api-key"


class WebSocketPolicy(StrEnum):
    """What becomes of a request for a WebSocket."""

    RELAY = "relay"
    REFUSE = "refuse"


KEY_HEADERS: Final = tuple(header.value.encode("ascii") for header in KeyHeader)
"""The header fields in which clients send a provider's key, in lower case."""


class UpstreamEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One ``[[upstream]]`` table; ``UpstreamConfig`` of the settings has the same fields."""

    name: str
    url: str
    prefix: str = "/"
    usage: UsagePolicy | None = None
    websockets: WebSocketPolicy | None = None
    provider: str | None = None
    api_key_env: str | None = None
    api_key_header: KeyHeader | None = None


def check_url(value: str) -> str:
    """Check an upstream's base URL, and return it.

    Raises:
        ValueError: it is not an http(s) URL, or has a user, a query or a fragment.
    """
    # First refuse a part that may hold a credential, without quoting it (R7).
    if "@" in value or "?" in value or "#" in value:
        raise ValueError("must have no user, password, query or fragment; for keys see api_key_env")
    try:
        url = URL(value, encoded=True)
        usable = url.scheme in {"http", "https"} and bool(url.raw_host and url.port)
    except ValueError:
        usable = False
    if not usable or " " in value or not value.isprintable():
        raise ValueError(f"{value!r} must look like https://host or http://host:port/path")
    return value


def read_key(variable: str) -> bytes:
    """Read the key in an environment variable, without the white space around it.

    Keys from files often end in a line feed.

    Raises:
        ValueError: there is no key, or no header can hold it. The message does not quote it (R7).
    """
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ValueError(f"the environment variable {variable} is empty or not set")
    if not (key.isascii() and key.isprintable()):
        raise ValueError(
            f"the environment variable {variable} holds characters other than printable ASCII, "
            "which no key has; set it again"
        )
    return key.encode("ascii")
