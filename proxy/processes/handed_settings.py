"""The settings as they go from process to process: JSON, read by each as far as it needs.

Only who reads and checks them, and the workers, import the class of all settings with its library:
the supervisor and telemetry stay small.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from proxy.settings.settings import Settings

__all__ = ("StoreSettings", "SupervisorSettings", "hand_over")


def hand_over(settings: Settings) -> bytes:
    """All settings as JSON. Keys are in it as digests, and of held ones the variables' names."""
    return settings.model_dump_json().encode()


class SupervisorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor needs of :class:`proxy.settings.settings.Settings`: see there."""

    host: str
    port: int
    admin_host: str
    admin_port: int
    tls_cert: str | None
    workers: int
    store: str
    linger_seconds: float
    drain_seconds: float
    log_level: str
    log_format: str


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What telemetry needs of them, beside :class:`proxy.settings.spans.SpanSettings`."""

    store: str
    store_max_bytes: int
    store_max_age_days: float
    store_fsync: bool
    log_level: str
    log_format: str

    @property
    def path(self) -> Path:
        """The path of the store."""
        return Path(self.store)
