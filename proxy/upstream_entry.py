"""An ``[[upstream]]`` table of the settings, as all rooms know it."""

from __future__ import annotations

import os
from typing import Protocol

import msgspec
from yarl import URL

from codec.rewrite import UsagePolicy

__all__ = ("HandedUpstream", "UpstreamEntry", "check_url", "read_key")


class UpstreamEntry(Protocol):
    """What a table says, whoever has read it: see ``UpstreamConfig`` of the settings."""

    @property
    def name(self) -> str:
        """For people and spans."""

    @property
    def url(self) -> str:
        """The upstream's URL (:func:`check_url`)."""

    @property
    def prefix(self) -> str:
        """The path prefix that selects it."""

    @property
    def usage(self) -> UsagePolicy | None:
        """The usage policy, where it is not the one of all upstreams."""

    @property
    def provider(self) -> str | None:
        """The value for ``llm.provider``, where it is not told from the host."""

    @property
    def api_key_env(self) -> str | None:
        """The variable of the key that is held for it (:func:`read_key`)."""


class HandedUpstream(msgspec.Struct, frozen=True, kw_only=True):
    """An ``[[upstream]]`` table as a worker gets it."""

    name: str
    url: str
    prefix: str = "/"
    usage: UsagePolicy | None = None
    provider: str | None = None
    api_key_env: str | None = None


def check_url(value: str) -> str:
    """An upstream's base URL, checked.

    Raises:
        ValueError: it is no http(s) URL, or has a user, a query or a fragment.
    """
    # What may hold a credential is refused first, and not quoted (R7).
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
    """The key in an environment variable, without the white space that files end in.

    Raises:
        ValueError: there is none, or no header can hold it; the key is not told (R7).
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
