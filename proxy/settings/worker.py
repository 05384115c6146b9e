"""The settings that a worker needs, without the code that reads and checks them.

The supervisor sends them as JSON, already checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from codec.usage_option import UsagePolicy
from proxy.logging.logs import LogFormat
from proxy.on_disconnect import OnDisconnect
from proxy.upstream_entry import UpstreamEntry, WebSocketPolicy
from telemetry.conversation_position import ConversationForm
from telemetry.span_identity import TraceParentPolicy
from telemetry.spans.keep_rules import KeepReason

if TYPE_CHECKING:
    from proxy.settings.settings import Settings


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of :class:`proxy.settings.settings.Settings` that a worker needs."""

    upstream: str | None
    upstreams: tuple[UpstreamEntry, ...]
    catalogue: bool | None
    host: str
    port: int
    intercept_port: int
    workers: int
    usage: UsagePolicy
    websockets: WebSocketPolicy
    on_disconnect: OnDisconnect
    drain_seconds: float
    connect_timeout_seconds: float
    first_byte_timeout_seconds: float
    idle_timeout_seconds: float
    max_connections: int
    header_timeout_seconds: float
    client_idle_timeout_seconds: float
    client_stall_timeout_seconds: float
    upstream_stall_timeout_seconds: float
    max_body_bytes: int
    max_bodies_bytes: int
    max_answer_bytes: int
    max_waiting_bytes: int
    max_spool_bytes: int
    store: Path
    max_header_bytes: int
    ca_file: Path | None
    client_cert: Path | None
    client_key: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    inbound_keys: tuple[str, ...] | None
    inbound_keys_file: Path | None
    trace_parent: TraceParentPolicy
    propagate: bool
    answer_ids: bool
    headers: dict[str, str]
    record_headers: tuple[str, ...]
    keep: frozenset[KeepReason]
    conversations_as: ConversationForm
    count_tokens: bool
    log_level: str
    log_format: LogFormat

    def __repr__(self) -> str:
        """Show no field, because some hold digests of keys (R7)."""
        return "WorkerSettings(...)"

    @classmethod
    def decode(cls, handed: bytes) -> WorkerSettings:
        """Decode them from all settings as JSON."""
        return msgspec.json.decode(handed, type=cls, dec_hook=_make)


RelaySettings: TypeAlias = "Settings | WorkerSettings"
"""Either kind: ``spantap check`` has the first, a worker the second."""


def _make(kind: type, text: Any) -> Any:
    """Make a path, the only field type that msgspec does not know."""
    return kind(text)
