"""The one table of all metrics: names, units, labels and buckets.

Rules:

1. ``gen_ai.client.*`` are named, measured and bucketed as the GenAI conventions have it
   (``span-contract.md`` 7.3). spantap is a client of the model, so ``gen_ai.server.*`` are not its
   to give. All others are ``spantap.*``.
2. No rates and no quotients: tokens per second, for example, are the tokens that were used over
   the time that it took, and whoever reads both can divide.
3. Prometheus' names follow from OpenTelemetry's (OpenTelemetry specification, "Prometheus and
   OpenMetrics Compatibility"): underscores for what Prometheus does not allow, the unit in words,
   ``_total`` behind a counter.
4. What the settings fix, or a list in this code, may be a label without further care. What clients
   or providers say goes through a :class:`telemetry.metrics.label_limit.LabelLimit`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv.attributes.server_attributes import SERVER_ADDRESS, SERVER_PORT
from opentelemetry.semconv.attributes.url_attributes import URL_PATH

from telemetry.metrics.buckets import DURATION_BUCKETS_SECONDS

__all__ = (
    "ANOMALIES",
    "BODIES_HELD",
    "CLIENT_DISCONNECTS",
    "CONNECTIONS_OPEN",
    "CONNECTIONS_REFUSED",
    "CONNECTIONS_STALLED",
    "EXCHANGES_OPEN",
    "EXPORT_FAILURES",
    "INSTRUMENTS",
    "LABEL_OVERFLOWS",
    "OPERATION_DURATION",
    "PROCESSES",
    "PROCESS_RESTARTS",
    "REQUESTS",
    "REQUESTS_REFUSED",
    "REQUESTS_UNOBSERVED",
    "SERIES_OVERFLOWS",
    "SPANS_CUT",
    "SPANS_DROPPED",
    "SPANS_EXPORTED",
    "SPANS_FAILED",
    "SPANS_KEPT_BY_RULE",
    "SPANS_RECORDED",
    "SPANS_REJECTED",
    "SPANS_WAITING",
    "SPOOL_SIZE",
    "STORE_OLDEST_PENDING_AGE",
    "STORE_SIZE",
    "STORE_SPANS",
    "TAP_QUEUE",
    "TAP_SHED",
    "TIME_PER_OUTPUT_CHUNK",
    "TIME_TO_FIRST_CHUNK",
    "TOKEN_USAGE",
    "UPSTREAM_ERRORS",
    "UPSTREAM_FAILURES",
    "USAGE_RESENDS",
    "DropReason",
    "Instrument",
    "Kind",
    "prometheus_label",
)


class Kind(StrEnum):
    """What an instrument's values do."""

    COUNTER = "counter"
    """They only grow, until the process ends."""
    GAUGE = "gauge"
    """They are as they are now."""
    HISTOGRAM = "histogram"
    """They are distributions, which only grow."""


class DropReason(StrEnum):
    """Why a span was given up: values of the label ``reason``."""

    STORE_FULL = "store_full"
    """It was pending when the store needed its room."""
    STORE_DAMAGED = "store_damaged"
    """Damaged or missing in the store, where it was. The backend may have had it before."""
    STORE_UNAVAILABLE = "store_unavailable"
    """The store did not take it, and memory was needed for later ones."""
    OBSERVER_FAILED = "observer_failed"
    """A defect of ours."""
    TAP_SHED = "tap_shed"
    """Telemetry fell behind or was away, and the exchange was left out whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """One metric.

    Attributes:
        name: as OpenTelemetry has it.
        kind: what its values do.
        unit: in UCUM: ``s``, ``By``, or a thing that is counted, in braces.
        description: one sentence without its full stop.
        labels: their names, as OpenTelemetry has them. A series gives their values in this order.
        bounds: of a histogram, the upper bounds of its buckets; a value that is equal to a bound
            belongs to it. The last bucket has none.
        merges_to_largest: of a gauge: several processes together have the largest of their values,
            otherwise the sum.
    """

    name: str
    kind: Kind
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    merges_to_largest: bool = False

    @property
    def prometheus_name(self) -> str:
        """The name by rule 3, that of the whole family where it is a histogram."""
        unit = _UNIT_WORDS.get(self.unit, "")
        total = "_total" if self.kind is Kind.COUNTER else ""
        return f"{_FORBIDDEN.sub('_', self.name)}{unit}{total}"


def prometheus_label(name: str) -> str:
    """A label's name by rule 3."""
    return _FORBIDDEN.sub("_", name)


_FORBIDDEN = re.compile(r"[^a-zA-Z0-9]+")
"""What is no letter or digit, several of them being one: ``__`` is Prometheus' own."""

_UNIT_WORDS: Final = {"s": "_seconds", "By": "_bytes"}
"""What is in braces is not said."""

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

OPERATION_DURATION: Final = Instrument(
    name="gen_ai.client.operation.duration",
    kind=Kind.HISTOGRAM,
    unit="s",
    description="How long a call took, however it ended",
    labels=(*_CALL, ERROR_TYPE),
    bounds=DURATION_BUCKETS_SECONDS,
)
TIME_TO_FIRST_CHUNK: Final = Instrument(
    name="gen_ai.client.operation.time_to_first_chunk",
    kind=Kind.HISTOGRAM,
    unit="s",
    description="From a call's beginning to the first chunk of its stream",
    labels=_CALL,
    bounds=DURATION_BUCKETS_SECONDS,
)
TIME_PER_OUTPUT_CHUNK: Final = Instrument(
    name="gen_ai.client.operation.time_per_output_chunk",
    kind=Kind.HISTOGRAM,
    unit="s",
    description="How long each chunk of a stream after its first was waited for",
    labels=_CALL,
    bounds=DURATION_BUCKETS_SECONDS,
)
TOKEN_USAGE: Final = Instrument(
    name="gen_ai.client.token.usage",
    kind=Kind.HISTOGRAM,
    unit="{token}",
    description="Tokens of a call as the provider reported them",
    labels=(*_CALL, gen_ai.GEN_AI_TOKEN_TYPE),
    bounds=_TOKEN_BUCKETS,
)
EXCHANGES_OPEN: Final = Instrument(
    name="spantap.exchanges.open",
    kind=Kind.GAUGE,
    unit="{exchange}",
    description="Requests whose answer has not ended",
)
REQUESTS: Final = Instrument(
    name="spantap.requests",
    kind=Kind.COUNTER,
    unit="{request}",
    description="Requests on the traffic port",
)
REQUESTS_REFUSED: Final = Instrument(
    name="spantap.requests.refused",
    kind=Kind.COUNTER,
    unit="{request}",
    description="Requests that never became an exchange: spantap answered them itself",
)
REQUESTS_UNOBSERVED: Final = Instrument(
    name="spantap.requests.unobserved",
    kind=Kind.COUNTER,
    unit="{request}",
    description="Calls by an API that is not observed: relayed, and in no span",
    labels=(URL_PATH,),
)
CONNECTIONS_OPEN: Final = Instrument(
    name="spantap.connections.open",
    kind=Kind.GAUGE,
    unit="{connection}",
    description="Connections of clients, idle ones among them",
)
CONNECTIONS_REFUSED: Final = Instrument(
    name="spantap.connections.refused",
    kind=Kind.COUNTER,
    unit="{connection}",
    description="Connections answered with 503 because as many as allowed were open",
)
CONNECTIONS_STALLED: Final = Instrument(
    name="spantap.connections.stalled",
    kind=Kind.COUNTER,
    unit="{connection}",
    description="Connections cut because their client took nothing of its answer for too long",
)
CLIENT_DISCONNECTS: Final = Instrument(
    name="spantap.client.disconnects",
    kind=Kind.COUNTER,
    unit="{exchange}",
    description="Observed calls whose client went away before the end",
)
UPSTREAM_ERRORS: Final = Instrument(
    name="spantap.upstream.errors",
    kind=Kind.COUNTER,
    unit="{exchange}",
    description="Observed calls that the upstream refused, broke off or did not answer, by class",
    labels=(ERROR_TYPE,),
)
UPSTREAM_FAILURES: Final = Instrument(
    name="spantap.upstream.failures",
    kind=Kind.COUNTER,
    unit="{request}",
    description="Requests of any kind to which the upstream gave no valid answer in time",
)
USAGE_RESENDS: Final = Instrument(
    name="spantap.usage_resends",
    kind=Kind.COUNTER,
    unit="{request}",
    description="Requests sent again as the client wrote them, because the upstream refused the "
    "option that asks for usage",
)
ANOMALIES: Final = Instrument(
    name="spantap.anomalies",
    kind=Kind.COUNTER,
    unit="{exchange}",
    description="Observed calls that were odd in some way, by its name in the span's metadata",
    labels=("anomaly",),
)
SPANS_RECORDED: Final = Instrument(
    name="spantap.spans.recorded",
    kind=Kind.COUNTER,
    unit="{span}",
    description="Spans committed to the store",
)
SPANS_EXPORTED: Final = Instrument(
    name="spantap.spans.exported",
    kind=Kind.COUNTER,
    unit="{span}",
    description="Spans that the OTLP backend took",
)
SPANS_REJECTED: Final = Instrument(
    name="spantap.spans.rejected",
    kind=Kind.COUNTER,
    unit="{span}",
    description="Spans that the OTLP backend refused for good",
)
SPANS_DROPPED: Final = Instrument(
    name="spantap.spans.dropped",
    kind=Kind.COUNTER,
    unit="{span}",
    description="Spans given up or lost, by reason",
    labels=("reason",),
)
SPANS_FAILED: Final = Instrument(
    name="spantap.spans.failed",
    kind=Kind.COUNTER,
    unit="{span}",
    description="Spans that lack their content, or do not exist, because of a defect of spantap",
)
SPANS_CUT: Final = Instrument(
    name="spantap.spans.cut",
    kind=Kind.COUNTER,
    unit="{span}",
    description="Spans whose content was cut to the size limits",
)
SPANS_KEPT_BY_RULE: Final = Instrument(
    name="spantap.spans.kept_by_rule",
    kind=Kind.COUNTER,
    unit="{span}",
    description="Spans of calls that were not sampled, by the rule that kept them",
    labels=("rule",),
)
BODIES_HELD: Final = Instrument(
    name="spantap.bodies.held",
    kind=Kind.GAUGE,
    unit="By",
    description="Memory of the bodies of open calls that telemetry holds, an estimate",
)
SPANS_WAITING: Final = Instrument(
    name="spantap.spans.waiting",
    kind=Kind.GAUGE,
    unit="{span}",
    description="Spans in memory that the store has not taken yet",
)
EXPORT_FAILURES: Final = Instrument(
    name="spantap.export.failures",
    kind=Kind.COUNTER,
    unit="{request}",
    description="Requests that the OTLP backend did not take, to be tried again",
)
STORE_SPANS: Final = Instrument(
    name="spantap.store.spans",
    kind=Kind.GAUGE,
    unit="{span}",
    description="Spans in the store by state: pending, delivered, rejected, or kept where there "
    "is no backend",
    labels=("state",),
)
STORE_SIZE: Final = Instrument(
    name="spantap.store.size",
    kind=Kind.GAUGE,
    unit="By",
    description="The store on disk, its write-ahead log included",
)
STORE_OLDEST_PENDING_AGE: Final = Instrument(
    name="spantap.store.oldest_pending_age",
    kind=Kind.GAUGE,
    unit="s",
    description="How long the oldest pending span has waited; 0 where none waits",
    merges_to_largest=True,
)
TAP_QUEUE: Final = Instrument(
    name="spantap.tap.queue",
    kind=Kind.GAUGE,
    unit="By",
    description="Memory of what was relayed and is not stored yet, an estimate",
)
TAP_SHED: Final = Instrument(
    name="spantap.tap.shed",
    kind=Kind.COUNTER,
    unit="By",
    description="Content left out of spans because telemetry fell behind or was away",
)
SPOOL_SIZE: Final = Instrument(
    name="spantap.spool.size",
    kind=Kind.GAUGE,
    unit="By",
    description="The spool on disk: calls that wait whole, because telemetry could not follow",
)
PROCESSES: Final = Instrument(
    name="spantap.processes",
    kind=Kind.GAUGE,
    unit="{process}",
    description="Processes that do their work, by role: worker, or telemetry",
    labels=("role",),
)
PROCESS_RESTARTS: Final = Instrument(
    name="spantap.process.restarts",
    kind=Kind.COUNTER,
    unit="{process}",
    description="Processes started again because they ended unasked, by role",
    labels=("role",),
)
LABEL_OVERFLOWS: Final = Instrument(
    name="spantap.label_overflows",
    kind=Kind.COUNTER,
    unit="{value}",
    description="Label values counted as _other because the label has too many, by label",
    labels=("label",),
)
SERIES_OVERFLOWS: Final = Instrument(
    name="spantap.series_overflows",
    kind=Kind.COUNTER,
    unit="{value}",
    description="Values counted under labels that are all _other because the metric has too many "
    "series, by metric",
    labels=("metric",),
)

INSTRUMENTS: Final = (
    OPERATION_DURATION,
    TIME_TO_FIRST_CHUNK,
    TIME_PER_OUTPUT_CHUNK,
    TOKEN_USAGE,
    EXCHANGES_OPEN,
    REQUESTS,
    REQUESTS_REFUSED,
    REQUESTS_UNOBSERVED,
    CONNECTIONS_OPEN,
    CONNECTIONS_REFUSED,
    CONNECTIONS_STALLED,
    CLIENT_DISCONNECTS,
    UPSTREAM_ERRORS,
    UPSTREAM_FAILURES,
    USAGE_RESENDS,
    ANOMALIES,
    SPANS_RECORDED,
    SPANS_EXPORTED,
    SPANS_REJECTED,
    SPANS_DROPPED,
    SPANS_FAILED,
    SPANS_CUT,
    SPANS_KEPT_BY_RULE,
    BODIES_HELD,
    SPANS_WAITING,
    EXPORT_FAILURES,
    STORE_SPANS,
    STORE_SIZE,
    STORE_OLDEST_PENDING_AGE,
    TAP_QUEUE,
    TAP_SHED,
    SPOOL_SIZE,
    PROCESSES,
    PROCESS_RESTARTS,
    LABEL_OVERFLOWS,
    SERIES_OVERFLOWS,
)
"""All of them, in the order in which they are shown."""
