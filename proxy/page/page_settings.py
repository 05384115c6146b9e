"""The settings that the page needs, without the code that reads and checks them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec

from proxy.own_address import build_url

IDLE_SECONDS = 600.0
"""After how long without a watcher the process ends, to free its memory."""


class PageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of :class:`proxy.settings.settings.Settings` that the page needs.

    Attributes:
        page_token: the digest of the token that was set, or ``none``; ``None`` means the token in
            the file beside the store.
        shown: all settings as people may see them, without secrets
            (:class:`proxy.settings.shown.ShownSetting`).
        page_idle_seconds: after how long without a watcher the process ends; users cannot set it.
    """

    store: Path
    page_host: str = "127.0.0.1"
    page_hosts: tuple[str, ...] = ()
    page_token: str | None = None
    host: str = "127.0.0.1"
    port: int = 4000
    tls_cert: str | None = None
    page_idle_seconds: float = IDLE_SECONDS
    log_level: str = "INFO"
    log_format: str = "human"
    shown: tuple[dict[str, str | None], ...] = ()

    @property
    def proxy_url(self) -> str:
        """Where a proxy with these settings listens."""
        return build_url(self.host, self.port, has_tls=self.tls_cert is not None)

    @property
    def store_option(self) -> str:
        """What a command needs to find this store, as a shell reads it; empty for the default."""
        known = next((one["source"] for one in self.shown if one["name"] == "store"), None)
        return "" if known == "default" else f"--store {shlex.quote(str(self.store.absolute()))}"

    def __repr__(self) -> str:
        """Show no field, because one is the digest of a token (R7)."""
        return "PageSettings(...)"

    @classmethod
    def decode(cls, handed: bytes) -> PageSettings:
        """Decode them from all settings as JSON."""
        return msgspec.json.decode(handed, type=cls, dec_hook=_make)


def _make(kind: type, text: Any) -> Any:
    """Make a path, the only field type that msgspec does not know."""
    return kind(text)
