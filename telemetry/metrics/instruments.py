"""The one table of all metrics: names, units, labels and buckets.

``gen_ai.client.*`` are named, measured and bucketed as the GenAI conventions define them
(``docs/contract/spans.md#metrics``). spantap is a client of the model, so it has no
``gen_ai.server.*``. All others are ``spantap.*``. There are no rates and no quotients: a reader can
divide the tokens that were used by the time that they took.

The value of a label is fixed by the settings or by a list in this code. If clients or providers
choose it, it goes through a :class:`telemetry.metrics.label_limit.LabelLimit`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv.attributes.server_attributes import SERVER_ADDRESS, SERVER_PORT
from opentelemetry.semconv.attributes.url_attributes import URL_PATH

from telemetry.metrics.buckets import DURATION_BUCKETS_SECONDS


class Kind(StrEnum):
    """The way in which an instrument's values change."""

    COUNTER = "counter"
    """Counters only grow, until the process ends."""
    GAUGE = "gauge"
    """Gauges say how much there is now."""
    HISTOGRAM = "histogram"
    """Histograms are distributions, which only grow."""


class DropReason(StrEnum):
    """The reason why a span was given up: values of the label ``reason``."""

    STORE_FULL = "store_full"
    """The span was pending when the store needed its room."""
    STORE_DAMAGED = "store_damaged"
    """Damaged or missing in the store, where it was. The backend may have had it before."""
    STORE_UNAVAILABLE = "store_unavailable"
    """The store did not take it, and memory was needed for later ones."""
    OBSERVER_FAILED = "observer_failed"
    """A defect of ours."""
    TAP_SHED = "tap_shed"
    """Telemetry fell behind or was away, and the exchange was left out whole."""


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric.

    Attributes:
        kind: what its values do.
        name: as OpenTelemetry writes it.
        unit: in UCUM: ``s``, ``By``, or a thing that is counted, in braces.
        description: one sentence without its full stop.
        labels: their names, as OpenTelemetry writes them. A series has their values in this order.
        bounds: of a histogram, the upper bounds of its buckets; a value that is equal to a bound
            belongs to it. The last bucket has none.
        merges_to_largest: of a gauge: several processes together have the largest of their values,
            otherwise the sum.
    """

    kind: Kind
    name: str
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    merges_to_largest: bool = False

    @property
    def prometheus_name(self) -> str:
        """The name in Prometheus' style; for a histogram the one before ``_bucket`` and ``_sum``.

        It follows from OpenTelemetry's (OpenTelemetry specification, "Prometheus and OpenMetrics
        Compatibility"): underscores for what Prometheus does not allow, the unit in words,
        ``_total`` at the end of a counter.
        """
        unit = _UNIT_WORDS.get(self.unit, "")
        total = "_total" if self.kind is Kind.COUNTER else ""
        return f"{_FORBIDDEN.sub('_', self.name)}{unit}{total}"


def prometheus_label(name: str) -> str:
    """A label's name in Prometheus' style."""
    return _FORBIDDEN.sub("_", name)


_FORBIDDEN = re.compile(r"[^a-zA-Z0-9]+")
"""All but letters and digits, several of them as one: ``__`` is Prometheus' own."""

_UNIT_WORDS: Final = {"s": "_seconds", "By": "_bytes"}
"""Units in braces are left out."""

_counter = partial(Instrument, Kind.COUNTER)
_gauge = partial(Instrument, Kind.GAUGE)
_histogram = partial(Instrument, Kind.HISTOGRAM)

_CALL: Final = (
    gen_ai.GEN_AI_OPERATION_NAME,
    gen_ai.GEN_AI_PROVIDER_NAME,
    gen_ai.GEN_AI_REQUEST_MODEL,
    gen_ai.GEN_AI_RESPONSE_MODEL,
    SERVER_ADDRESS,
    SERVER_PORT,
)
"""The labels of every ``gen_ai.client.*``."""

_TOKEN_BUCKETS: Final = tuple(float(4**power) for power in range(14))
"""1, 4, 16 ... 67,108,864."""

OPERATION_DURATION: Final = _histogram(
    "gen_ai.client.operation.duration",
    "s",
    "How long a call took, however it ended",
    (*_CALL, ERROR_TYPE),
    DURATION_BUCKETS_SECONDS,
)
TIME_TO_FIRST_CHUNK: Final = _histogram(
    "gen_ai.client.operation.time_to_first_chunk",
    "s",
    "From a call's beginning to the first chunk of its stream",
    _CALL,
    DURATION_BUCKETS_SECONDS,
)
TIME_PER_OUTPUT_CHUNK: Final = _histogram(
    "gen_ai.client.operation.time_per_output_chunk",
    "s",
    "How long each chunk of a stream after its first was waited for",
    _CALL,
    DURATION_BUCKETS_SECONDS,
)
TOKEN_USAGE: Final = _histogram(
    "gen_ai.client.token.usage",
    "{token}",
    "Tokens of a call as the provider reported them",
    (*_CALL, gen_ai.GEN_AI_TOKEN_TYPE),
    _TOKEN_BUCKETS,
)
COST: Final = _counter(
    "spantap.cost.usd",
    "{usd}",
    "The cost of all calls whose cost is known, in US dollars",
    (*_CALL, "cost.basis"),
)
EXCHANGES_OPEN: Final = _gauge(
    "spantap.exchanges.open",
    "{exchange}",
    "Requests whose answer has not ended, open WebSockets among them",
)
REQUESTS: Final = _counter("spantap.requests", "{request}", "Requests on the traffic port")
REQUESTS_REFUSED: Final = _counter(
    "spantap.requests.refused",
    "{request}",
    "Requests that never became an exchange: spantap answered them itself",
)
REQUESTS_UNOBSERVED: Final = _counter(
    "spantap.requests.unobserved",
    "{request}",
    "Calls and WebSockets of APIs that are not observed: relayed, and in no span",
    (URL_PATH,),
)
UPGRADES_REFUSED: Final = _counter(
    "spantap.upgrades.refused",
    "{request}",
    "Requests for a WebSocket that spantap refused itself (426)",
    (URL_PATH,),
)
CONNECTIONS_OPEN: Final = _gauge(
    "spantap.connections.open", "{connection}", "Connections of clients, idle ones among them"
)
CONNECTIONS_REFUSED: Final = _counter(
    "spantap.connections.refused",
    "{connection}",
    "Connections answered with 503 because as many as allowed were open",
)
CONNECTIONS_STALLED: Final = _counter(
    "spantap.connections.stalled",
    "{connection}",
    "Connections cut because their client read nothing of its answer for too long",
)
WEBSOCKETS_OPEN: Final = _gauge(
    "spantap.websockets.open", "{connection}", "WebSockets that are open"
)
WEBSOCKET_MESSAGES: Final = _counter(
    "spantap.websockets.messages",
    "{message}",
    "Messages on WebSockets, by where they go: to_upstream or to_client",
    ("direction",),
)
WEBSOCKET_BYTES: Final = _counter(
    "spantap.websockets.relayed",
    "By",
    "What WebSockets carried, the heads of frames included, by where it goes",
    ("direction",),
)
CLIENT_DISCONNECTS: Final = _counter(
    "spantap.client.disconnects",
    "{exchange}",
    "Observed calls whose client went away before the end",
)
UPSTREAM_ERRORS: Final = _counter(
    "spantap.upstream.errors",
    "{exchange}",
    "Observed calls that the upstream refused, broke off, did not answer, or answered with "
    "something else, by class",
    (ERROR_TYPE,),
)
UPSTREAM_FAILURES: Final = _counter(
    "spantap.upstream.failures",
    "{request}",
    "Requests of any kind to which the upstream gave no valid answer in time",
)
USAGE_RESENDS: Final = _counter(
    "spantap.usage_resends",
    "{request}",
    "Requests sent again as the client wrote them, because the upstream refused them with "
    "the option that asks for usage",
)
ANOMALIES: Final = _counter(
    "spantap.anomalies",
    "{exchange}",
    "Observed calls that were odd in some way, by its name in the span's metadata",
    ("anomaly",),
)
SPANS_RECORDED: Final = _counter("spantap.spans.recorded", "{span}", "Spans committed to the store")
SPANS_EXPORTED: Final = _counter(
    "spantap.spans.exported", "{span}", "Spans that the OTLP backend accepted"
)
SPANS_REJECTED: Final = _counter(
    "spantap.spans.rejected", "{span}", "Spans that the OTLP backend refused for good"
)
SPANS_DROPPED: Final = _counter(
    "spantap.spans.dropped", "{span}", "Spans given up or lost, by reason", ("reason",)
)
SPANS_FAILED: Final = _counter(
    "spantap.spans.failed",
    "{span}",
    "Spans that lack their content, or do not exist, because of a defect of spantap",
)
SPANS_CUT: Final = _counter(
    "spantap.spans.cut", "{span}", "Spans whose content was cut to the size limits"
)
SPANS_KEPT_BY_RULE: Final = _counter(
    "spantap.spans.kept_by_rule",
    "{span}",
    "Spans of calls that were not sampled, by the rule that kept them",
    ("rule",),
)
CONVERSATION_LINKS: Final = _counter(
    "spantap.conversation.links",
    "{exchange}",
    "Calls that continue an earlier one, by the rule that found it",
    ("rule",),
)
CONVERSATION_AMBIGUOUS: Final = _counter(
    "spantap.conversation.ambiguous",
    "{exchange}",
    "Calls that may continue several earlier ones, and so are linked to none",
)
CONVERSATION_REMEMBERED: Final = _gauge(
    "spantap.conversation.remembered",
    "{exchange}",
    "Calls kept in memory so that later calls that continue them are recognized",
)
RUNS_OPEN: Final = _gauge(
    "spantap.conversation.runs.open",
    "{run}",
    "Runs of agents that are not over",
)
RUNS_ENDED: Final = _counter(
    "spantap.conversation.runs.ended",
    "{run}",
    "Runs of agents that are over, by what ended them",
    ("reason",),
)
BODIES_HELD: Final = _gauge(
    "spantap.bodies.held",
    "By",
    "Memory of the bodies of open calls that telemetry holds, an estimate",
)
SPANS_WAITING: Final = _gauge(
    "spantap.spans.waiting", "{span}", "Spans in memory that the store has not accepted yet"
)
EXPORT_FAILURES: Final = _counter(
    "spantap.export.failures",
    "{request}",
    "Requests that the OTLP backend did not accept, to be tried again",
)
STORE_SPANS: Final = _gauge(
    "spantap.store.spans",
    "{span}",
    "Spans in the store by state: pending, delivered, rejected, or kept where there is no backend",
    ("state",),
)
STORE_SIZE: Final = _gauge(
    "spantap.store.size", "By", "The store on disk, its write-ahead log included"
)
STORE_OLDEST_PENDING_AGE: Final = _gauge(
    "spantap.store.oldest_pending_age",
    "s",
    "How long the oldest pending span has waited; 0 if none waits",
    merges_to_largest=True,
)
TAP_QUEUE: Final = _gauge(
    "spantap.tap.queue", "By", "Memory of what was relayed and is not stored yet, an estimate"
)
TAP_SHED: Final = _counter(
    "spantap.tap.shed", "By", "Content left out of spans because telemetry fell behind or was away"
)
SPOOL_SIZE: Final = _gauge(
    "spantap.spool.size",
    "By",
    "The spool on disk: calls that wait whole, because telemetry could not follow",
)
PROCESSES: Final = _gauge(
    "spantap.processes",
    "{process}",
    "Processes at work, by role: worker, telemetry, or page, while somebody looks",
    ("role",),
)
PROCESS_RESTARTS: Final = _counter(
    "spantap.process.restarts",
    "{process}",
    "Processes that ended unasked, by role; all but the page are started again",
    ("role",),
)
LABEL_OVERFLOWS: Final = _counter(
    "spantap.label_overflows",
    "{value}",
    "Label values counted as _other because the label has too many, by label",
    ("label",),
)
SERIES_OVERFLOWS: Final = _counter(
    "spantap.series_overflows",
    "{value}",
    "Values counted under labels that are all _other because the metric has too many "
    "series, by metric",
    ("metric",),
)

INSTRUMENTS: Final = tuple(row for row in [*globals().values()] if isinstance(row, Instrument))
"""All instruments, in the order in which they are shown."""
