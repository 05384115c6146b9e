"""The numbers that an exchange adds to the metrics (``docs/contract/spans.md#metrics``).

Every exchange is recorded once, however it ended: a histogram without cancelled streams would show
only the lucky ones. A client that went away is not an error: it has no ``error.type``, and another
counter. Tokens are the provider's; if it reported none, none are recorded (R6).

Models, classes of errors and anomalies have separate limits (R5).
"""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from telemetry.metrics.instruments import (
    ANOMALIES,
    CLIENT_DISCONNECTS,
    COST,
    LABEL_OVERFLOWS,
    OPERATION_DURATION,
    SPANS_KEPT_BY_RULE,
    TIME_PER_OUTPUT_CHUNK,
    TIME_TO_FIRST_CHUNK,
    TOKEN_USAGE,
    UPSTREAM_ERRORS,
    USAGE_RESENDS,
)
from telemetry.metrics.label_limit import MAX_LABEL_CHARS, OTHER, LabelLimit
from telemetry.observing.exchange import Outcome
from telemetry.provider import find_genai_provider

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.metrics.instruments import Instrument
    from telemetry.metrics.registry import MetricsRegistry
    from telemetry.metrics.snapshot import Labels
    from telemetry.observing.exchange import Exchange

MAX_MODELS = 200
"""Distinct names of models, in requests and answers together."""

MAX_ERROR_TYPES = 100
"""HTTP statuses and some words; a provider may make up more of them
(``docs/contract/spans.md#error-type``)."""

MAX_ANOMALIES = 100
"""A few dozen are known (``docs/contract/spans.md#anomalies``)."""

MAX_CALLS = 1_000
"""Kinds of calls, by endpoint, upstream and models, whose labels are remembered: as many as a
histogram has series."""

_OUR_DOING = frozenset({Outcome.DRAIN_DEADLINE, Outcome.WORKER_LOST, Outcome.RELAY_ERROR})
"""Errors that say nothing about the upstream."""

_find_provider = lru_cache(maxsize=64)(find_genai_provider)
"""Remembered for the upstreams in the settings: a comparison with all known hosts takes as long as
the rest."""


class ExchangeMetrics:
    """Records exchanges into a registry. For one thread.

    `redact` removes from a label what must not be shown.
    """

    def __init__(
        self, registry: MetricsRegistry, *, redact: Callable[[str], str] | None = None
    ) -> None:
        self._registry = registry
        self._redact = redact
        self._models = self._limit("model", MAX_MODELS)
        self._error_types = self._limit("error.type", MAX_ERROR_TYPES)
        self._anomalies = self._limit("anomaly", MAX_ANOMALIES)
        self._labels: dict[tuple[object, ...], Labels] = {}  # by what they are made of

    def record(self, exchange: Exchange) -> None:
        """Record `exchange`, which never comes again."""
        call = self._call_labels(exchange)
        error_type = exchange.error_type
        if error_type is not None:
            error_type = self._error_types.admit(self._shown(error_type))
        seconds = _seconds(exchange.start_ns, exchange.end_ns)
        observed: list[tuple[Instrument, float, Labels]] = [
            (OPERATION_DURATION, seconds, (*call, error_type or ""))
        ]
        usage = exchange.response.usage if exchange.response is not None else None
        if usage is not None:
            if usage.prompt is not None:
                observed.append((TOKEN_USAGE, usage.prompt, (*call, "input")))
            if usage.completion is not None:
                observed.append((TOKEN_USAGE, usage.completion, (*call, "output")))
        if exchange.streamed and exchange.first_chunk_ns is not None:
            seconds = _seconds(exchange.start_ns, exchange.first_chunk_ns)
            observed.append((TIME_TO_FIRST_CHUNK, seconds, call))
        self._registry.observe_all(observed)
        chunks = exchange.chunks
        if chunks is not None and chunks.count > 1:
            seconds = _seconds(chunks.first_ns, chunks.last_ns)
            self._registry.observe_counts(TIME_PER_OUTPUT_CHUNK, chunks.wait_counts, seconds, call)
        self._count(exchange, error_type)

    def record_cost(self, exchange: Exchange, dollars: float, basis: str = "") -> None:
        """Record what an exchange cost; its basis is ``list`` where a subscription pays."""
        if 0 <= dollars < inf:
            self._registry.add(COST, dollars, (*self._call_labels(exchange), basis))

    def _count(self, exchange: Exchange, error_type: str | None) -> None:
        add = self._registry.add
        if exchange.outcome is Outcome.CLIENT_DISCONNECTED:
            add(CLIENT_DISCONNECTS)
        if error_type and exchange.outcome not in _OUR_DOING:
            add(UPSTREAM_ERRORS, 1, (error_type,))
        if exchange.resend_count:
            add(USAGE_RESENDS, exchange.resend_count)
        if exchange.kept_by is not None:
            add(SPANS_KEPT_BY_RULE, 1, (exchange.kept_by,))
        for anomaly in exchange.anomalies:
            add(ANOMALIES, 1, (self._anomalies.admit(anomaly),))

    def _call_labels(self, exchange: Exchange) -> Labels:
        request, response = exchange.request, exchange.response
        asked = request.model if request is not None else None
        answered = response.model if response is not None else None
        made_of = (
            exchange.endpoint,
            exchange.provider,
            exchange.server_address,
            exchange.server_port,
            asked,
            answered,
        )
        labels = self._labels.get(made_of)
        if labels is None:
            labels = (
                exchange.api.operation or "",
                _find_provider(exchange.provider, exchange.server_address),
                self._models.admit(self._shown(asked)),
                self._models.admit(self._shown(answered)),
                exchange.server_address or "",
                exchange.server_port or "",
            )
            # A label that was not admitted is counted each time.
            rememberable = OTHER not in labels and len(self._labels) < MAX_CALLS
            if rememberable and len(asked or "") + len(answered or "") <= 2 * MAX_LABEL_CHARS:
                self._labels[made_of] = labels
        return labels

    def _shown(self, text: str | None) -> str | None:
        return self._redact(text) if text is not None and self._redact is not None else text

    def _limit(self, label: str, max_values: int) -> LabelLimit:
        return LabelLimit(max_values, lambda: self._registry.add(LABEL_OVERFLOWS, 1, (label,)))


def _seconds(start_ns: int, end_ns: int) -> float:
    """Return the seconds between two times, never negative: a histogram's sum must not shrink."""
    return max(0, end_ns - start_ns) / 1e9
