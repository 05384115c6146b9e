"""All settings in one class: flags > ``SPANTAP_*`` environment > TOML file > these defaults.

The names never change (``docs/contract/promises.md#names``). Telemetry itself is configured by the
standard ``OTEL_*`` and ``OPENINFERENCE_*`` variables and has no setting here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from codec.usage_option import UsagePolicy
from proxy.key_hashes import hash_key, hash_keys
from proxy.limits import MAX_ANSWER_BYTES, MAX_BODIES_BYTES
from proxy.logging.logs import LogFormat
from proxy.on_disconnect import OnDisconnect
from proxy.own_address import is_loopback
from proxy.page_access.digests import NO_TOKEN
from proxy.settings.sources import TABLES, read_sources
from proxy.settings.store_path import DEFAULT_STORE
from proxy.settings.tables import PriceConfig, UpstreamConfig, Url
from proxy.settings.variable_names import check_names
from proxy.upstream_entry import WebSocketPolicy
from telemetry.conversation_position import ConversationForm
from telemetry.conversations.memory import MAX_CALLS
from telemetry.conversations.run import RUN_IDLE_SECONDS
from telemetry.errors import ConfigurationError
from telemetry.frames.shedding import MAX_HELD_BYTES
from telemetry.frames.spool import MAX_SPOOL_BYTES, SEGMENT_BYTES
from telemetry.observing.client_context import HeaderMap
from telemetry.observing.heads import AllowedFields
from telemetry.span_identity import TraceParentPolicy
from telemetry.spans.keep_rules import KeepReason
from telemetry.spans.rules import RawPolicy, SpanNaming
from telemetry.spans.size_limits import SizeLimits
from telemetry.spans.value_texts import ValueForm

if TYPE_CHECKING:
    from collections.abc import Sequence

_MIB = 1024 * 1024


def _split(value: object) -> object:
    """Split a variable's list at its commas."""
    if isinstance(value, str):
        return [word for word in map(str.strip, value.split(",")) if word]
    return value


Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
Words = BeforeValidator(_split)


class Settings(BaseModel):
    """Every setting of ``spantap serve``; each is also ``SPANTAP_<NAME>`` in the environment."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        hide_input_in_errors=True,  # it may be a key (R7)
    )

    upstream: Url | None = None
    """Base URL for every path that no ``[[upstream]]`` table takes. If unset, each API goes to its
    own provider."""
    upstreams: tuple[UpstreamConfig, ...] = ()
    catalogue: bool | None = None
    """Whether each well-known provider has a prefix. If unset: when no upstream takes all paths."""
    host: str = "127.0.0.1"
    port: Port = 4000
    admin_host: str = "127.0.0.1"
    admin_port: Port = 4001
    page: bool = True
    """Whether to serve the page, which shows calls in a browser (``docs/page.md``)."""
    page_host: str = "127.0.0.1"
    page_port: Port = 4002
    page_hosts: Annotated[tuple[str, ...], Words] = ()
    """More host names under which browsers ask for the page, for example behind a reverse proxy."""
    page_token: Annotated[str | None, Field(repr=False)] = None
    """The page's token, hashed here. If unset, the one in the file beside the store; with ``none``
    no token is needed, which is allowed only on loopback."""
    intercept_port: Port = 0
    """A port on loopback that is the HTTPS proxy of programs, and opens the TLS of hosts of models
    (``docs/interception.md``). 0: there is none."""
    intercept_hosts: Annotated[tuple[str, ...], Words] = ()
    """Hosts that interception opens besides the model hosts."""
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """Worker processes: one for each core that relaying may use; telemetry is one more process."""
    usage: UsagePolicy = UsagePolicy.ALWAYS
    """The policy of upstreams that do not name one."""
    websockets: WebSocketPolicy = WebSocketPolicy.RELAY
    """What becomes of requests for a WebSocket, at upstreams that do not say it: ``relay`` or
    ``refuse``."""
    on_disconnect: OnDisconnect = OnDisconnect.CANCEL
    store: Path = DEFAULT_STORE
    store_max_bytes: Annotated[int, Field(ge=_MIB)] = 1024 * _MIB
    """Largest size of the store, including the write-ahead log; delivered spans are deleted
    first."""
    store_max_age_days: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] = 30
    """Older spans are deleted, except pending ones."""
    pictures: bool = True
    """Whether pictures of requests and answers are kept beside their spans, for the page: up to 8
    MiB each, and a quarter of ``store_max_bytes`` together. Exported spans do not have them."""
    raw: RawPolicy = RawPolicy.OFF
    """Whether answers are kept beside their spans as the upstream sent them (``off``, ``errors`` or
    ``all``): up to 1 MiB each, and a tenth of ``store_max_bytes`` together."""
    websocket_audio: bool = False
    """Whether the sound of Realtime and Gemini Live is kept in spans; else it is only counted."""
    store_fsync: bool = False
    """Whether each commit of spans waits for the disk. Without it, no span is lost however a
    process ends, but a crash of the machine may lose the last ones."""
    linger_seconds: Seconds = 0
    """After SIGTERM, how long requests are still answered while readiness says no, so that a
    balancer can notice. Ctrl-C never lingers."""
    drain_seconds: Seconds = 5
    """After the linger, how long open exchanges may take to end. By default everything is over
    within the ten seconds that Docker gives."""
    connect_timeout_seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 10
    """For name look-up, TCP and TLS to the upstream together. A healthy one needs well under a
    second."""
    first_byte_timeout_seconds: Seconds = 900
    """From the request's last byte to the answer's head; long, because models may think. 0: no
    timeout."""
    idle_timeout_seconds: Seconds = 900
    """The time between two reads of an answer; longer than the 10 minutes that clients wait. 0: no
    timeout."""
    max_connections: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    """The most open client connections per worker; fewer if twice as many open files are not
    allowed. They take some 400 MB at the 0.1 MB of an open stream, and 2 GB if no client reads its
    answer. Bodies of requests (max_bodies_bytes) come on top, and for each connection 0.3 MB if its
    upstream speaks TLS (asyncio's buffer), 0.1 MB if the port does."""
    header_timeout_seconds: Seconds = 60
    """From a connection's beginning, or from the first byte of a later request, to the end of the
    head; as long as nginx and Node wait. 0: no timeout."""
    client_idle_timeout_seconds: Seconds = 60
    """The time between two reads of a request's body; clients upload in one go. 0: no timeout."""
    client_stall_timeout_seconds: Seconds = 900
    """How long a client may read nothing of its answer; long, because TCP reports only in steps
    what was read, and a slow reader must not be cut. 0: for ever."""
    upstream_stall_timeout_seconds: Seconds = 900
    """How long an upstream may read nothing of a request; long, because a server that serves one
    request at a time reads the next one only when it is done. 0: for ever."""
    max_body_bytes: Annotated[int, Field(ge=1024)] = 64 * _MIB
    """Largest chat request that is buffered, rewritten and recorded; a larger one is only
    relayed."""
    max_bodies_bytes: Annotated[int, Field(ge=_MIB)] = MAX_BODIES_BYTES
    """Largest size of all buffered requests of a worker; a rewritten one counts twice, as it came
    and as it is sent. A request that does not fit is relayed like one that is too large."""
    max_answer_bytes: Annotated[int, Field(ge=1024)] = MAX_ANSWER_BYTES
    """How much of an answer is recorded; the span says if more was relayed."""
    max_waiting_bytes: Annotated[int, Field(ge=_MIB)] = MAX_HELD_BYTES
    """How much each worker keeps for telemetry until it is stored; bodies take at most two thirds
    of it."""
    max_spool_bytes: Annotated[int, Field(ge=0)] = MAX_SPOOL_BYTES
    """Largest size of the folder ``<store>.spool``, where calls wait while telemetry is behind; at
    least :data:`~telemetry.frames.spool.SEGMENT_BYTES`. 0: no spool. There is also no spool if
    anything is hidden from spans, because it would be on the disk in clear text."""
    max_header_bytes: Annotated[int, Field(ge=1024)] = 64 * 1024
    """Largest header field or request line; common servers take no more."""
    ca_file: Path | None = None
    """Additional certificate authorities (PEM) for TLS to the upstream."""
    client_cert: Path | None = None
    """Our certificate (PEM) for TLS to the upstream; its key may be in the same file."""
    client_key: Path | None = None
    tls_cert: Path | None = None
    """Certificate chain (PEM) of the traffic port, which then speaks only TLS; its key may be in
    the same file."""
    tls_key: Path | None = None
    inbound_keys: Annotated[tuple[str, ...] | None, Field(repr=False)] = None
    """Clients must send one of these keys. They are hashed here; the plain ones are not kept."""
    inbound_keys_file: Path | None = None
    """A file with further keys, one a line, so that none is in the environment; ``#`` begins a
    comment."""
    trace_parent: TraceParentPolicy = TraceParentPolicy.HONOR
    """The meaning of a client's ``traceparent``: ``honor``, ``link`` or ``ignore``."""
    propagate: bool = True
    """Whether the upstream gets a ``traceparent`` with our span."""
    answer_ids: bool = False
    """Whether answers name their span: ``x-spantap-span-id``, ``x-spantap-trace-id``."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Maps request headers to attributes, in addition to the default map; ``ignore`` removes
    one."""
    record_headers: Annotated[tuple[str, ...], Words] = ("default",)
    """Which fields of both heads are recorded: ``default`` (those of a list), ``none``, or the
    names of further fields."""
    keep: Annotated[frozenset[KeepReason], Words] = frozenset()
    """Kinds of unsampled calls that still get a span: ``errors``, ``cancelled``, ``slow``."""
    keep_slow_seconds: Seconds = 30
    """A call that takes longer is slow."""
    count_tokens: bool = True
    """Whether token counts that a client asks for are recorded; they are relayed in any case."""
    span_name: SpanNaming = SpanNaming.OPENINFERENCE
    """How spans are named: ``openinference`` (``ChatCompletion``) or ``genai`` (``chat MODEL``)."""
    values: ValueForm = ValueForm.TEXT
    """What ``input.value`` and ``output.value`` hold: ``text`` (the bodies are separate), or
    ``json``."""
    conversations_as: ConversationForm = ConversationForm.RUNS
    """How spans show that calls continue one another: ``runs``, ``links``, or ``off``."""
    run_idle_seconds: Annotated[int, Field(ge=1, le=86_400)] = RUN_IDLE_SECONDS
    """A run is over after this time without a call."""
    conversations: Annotated[int, Field(ge=100, le=1_000_000)] = MAX_CALLS
    """How many calls are remembered to find conversations; each takes at most 2 KiB."""
    content: bool = True
    """Whether messages, tools, parameters and answers are recorded at all."""
    redact: Annotated[frozenset[str], Words] = frozenset()
    """Ready-made patterns; what matches them is hidden: ``email``, ``card``, ``api_key``."""
    redact_patterns: dict[str, str] = Field(default_factory=dict)
    """Names and regular expressions (RE2); what matches them is hidden too."""
    cost: bool = True
    """Whether a call's cost is recorded, from the provider, the prices here, or genai-prices."""
    prices: tuple[PriceConfig, ...] = ()
    max_value_bytes: Annotated[int, Field(ge=1024, le=64 * _MIB)] = SizeLimits().value_bytes
    """Largest value of one span attribute; a larger one is cut and marked."""
    max_span_bytes: Annotated[int, Field(ge=64 * 1024, le=256 * _MIB)] = SizeLimits().span_bytes
    """Largest size of a span's attributes together; the least important are left out first."""
    log_level: str = "INFO"
    log_format: LogFormat = LogFormat.HUMAN
    """``human``, or ``json`` for programs: one object a line."""
    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _file: str = PrivateAttr("")

    @property
    def origins(self) -> Mapping[str, str]:
        """Where each value that is not a default comes from, in words for people."""
        return self._origins

    @property
    def file(self) -> str:
        """The path of the TOML file that was read; empty if there was none."""
        return self._file

    def replaced(self, by: str, values: Mapping[str, Any]) -> Self:
        """Return a copy with these values; `by` says where they come from."""
        origins = {**self._origins, **dict.fromkeys(values, by)}
        return self.model_copy(update=values).with_origins(origins, self._file)

    def with_origins(self, origins: Mapping[str, str], file: str) -> Self:
        """Remember where the values come from, and return the settings."""
        self._origins, self._file = origins, file
        return self

    @field_validator("inbound_keys", mode="before")
    @classmethod
    def _inbound_keys(cls, value: object) -> object:
        """Hash the keys before anything else is done with them."""
        value = _split(value)
        if value is None:  # only a process that hands settings to another one can say this
            return None
        if not isinstance(value, (list, tuple)):
            raise ValueError("must be a list of keys")  # noqa: TRY004 - pydantic accepts no other
        return hash_keys(value)

    @field_validator("page_token", mode="before")
    @classmethod
    def _page_token(cls, value: object) -> object:
        """Hash the token before anything else is done with it."""
        return value if value is None or value == NO_TOKEN else hash_key(value, "it")

    @field_validator("headers")
    @classmethod
    def _headers(cls, value: dict[str, str]) -> dict[str, str]:
        try:
            HeaderMap.build(value)
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("record_headers")
    @classmethod
    def _record_headers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        try:
            AllowedFields.build(value)
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("store")
    @classmethod
    def _store(cls, value: Path) -> Path:
        if not value.name:
            raise ValueError("must be the path of a file")
        return value.expanduser()

    @field_validator("max_spool_bytes")
    @classmethod
    def _max_spool_bytes(cls, value: int) -> int:
        if 0 < value < SEGMENT_BYTES:  # nothing would ever be written
            raise ValueError(f"must be 0, for no spool, or at least {SEGMENT_BYTES} (16 MiB)")
        return value

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if self.client_key is not None and self.client_cert is None:
            raise ValueError("client_key needs client_cert, which is not set")
        if self.tls_key is not None and self.tls_cert is None:
            raise ValueError("tls_key needs tls_cert, which is not set")
        if self.page and self.page_token == NO_TOKEN and not is_loopback(self.page_host):
            raise ValueError(
                "page_token must not be none if other machines reach page_host: they could read "
                "all that is recorded"
            )
        if self.max_value_bytes > self.max_span_bytes:
            raise ValueError("max_value_bytes must not be more than max_span_bytes")
        return self

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, value: str) -> str:
        if value.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
            raise ValueError("must be DEBUG, INFO, WARNING or ERROR")
        return value.upper()


def load_settings(flags: Mapping[str, Any] | None = None, config: str | None = None) -> Settings:
    """Gather the settings.

    Args:
        flags: values of command line flags, by setting name.
        config: path of the TOML file; if ``None``, that in ``SPANTAP_CONFIG``.

    Raises:
        ConfigurationError: a value is wrong, a TOML key unknown, or the file unreadable.
    """
    check_names(os.environ, Settings.model_fields)
    sources = read_sources(Settings.model_fields, flags or {}, config, os.environ)
    try:
        settings = Settings(**sources.values())
    except ValidationError as error:
        raise ConfigurationError(_explain(error)) from error
    return settings.with_origins(sources.origins(), sources.path)


_MESSAGES = {
    "dict_type": "must be a table of names and values",
    "frozen_set_type": "must be a list of words",
    "bool_parsing": "must be true or false",
    "float_parsing": "must be a number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "missing": "is missing",
}
"""Our words for pydantic's messages that name Python's types."""

_UNITS = {"bytes", "seconds", "days"}
"""Last words of the names of numbers that are written without a unit."""


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    head, *rest = first["loc"] or ("settings",)
    name = ".".join(map(str, (TABLES.get(str(head), head) if rest else head, *rest)))
    if first["type"] == "extra_forbidden":
        return f"unknown setting {name!r}; {_advise(str(head), [*map(str, rest)])}"
    message = _MESSAGES.get(first["type"]) or str(first["msg"]).removeprefix("Value error, ")
    if (unit := str(head).rpartition("_")[2]) in _UNITS and message.endswith("number"):
        message = f"{message} of {unit}, without a unit"
    if head in TABLES and not rest:
        message = f"must be tables, each under [[{TABLES[str(head)]}]]"
    return f"setting {name!r}: {message}"


def _advise(head: str, rest: Sequence[str]) -> str:
    """Name the setting, or the member of a table, that an unknown name of the file may mean."""
    if not rest:
        known = [TABLES.get(name, name) for name in Settings.model_fields]
        name = head.lower().removeprefix("spantap_")
    elif rest[-1] in Settings.model_fields:
        return f"if {rest[-1]} of spantap is meant, write it above the first table"
    else:
        table = UpstreamConfig if head == "upstreams" else PriceConfig
        known, name = [*table.model_fields], rest[-1].lower()
    nearest = get_close_matches(name, known, n=1)
    return f"did you mean {nearest[0]}?" if nearest else "`spantap help settings` lists the names"
