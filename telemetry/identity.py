"""The identity of a span, decided once, in the worker, when an exchange begins.

It consists of trace id, span id, parent, trace state and the sampling decision
(``docs/contract/promises.md#span-identity``). The upstream receives the identity of this very span.
The recorder builds the span from it, and never samples again.
"""

from __future__ import annotations

import re
from random import getrandbits
from typing import TYPE_CHECKING

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, DEFAULT_ON, Decision
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    Link,
    SpanKind,
    TraceFlags,
    format_span_id,
    format_trace_id,
    get_current_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from telemetry.span_identity import SpanIdentity, TraceParentPolicy

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.sampling import Sampler
    from opentelemetry.trace import SpanContext

MAX_TRACEPARENT_CHARS = 512
"""The most that the SDK reads. Version 00 has 55; a later one may have more."""

MAX_TRACESTATE_CHARS = 8192
"""The most that the SDK reads. The standard asks everybody to pass on at least 512 (W3C Trace
Context, section 3.3.1.5)."""

MAX_TRACESTATE_MEMBERS = 32
"""W3C Trace Context, section 3.3.1.1."""

_SAMPLED_ROOT = TraceFlags.SAMPLED | TraceFlags.RANDOM_TRACE_ID

_MEMBER = re.compile(
    r"([a-z][_0-9a-z*/-]{0,255}|[a-z0-9][_0-9a-z*/-]{0,240}@[a-z][_0-9a-z*/-]{0,13})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
"""W3C Trace Context, sections 3.3.1.3.1 and 3.3.1.3.2: a key, and a value without ``,`` and ``=``,
and without a blank at its end."""


_RATIO = re.compile(r"TraceIdRatioBased\{([0-9.e-]+)\}")
"""The share in a sampler's description. In that of a parent-based sampler the root's comes first
(OpenTelemetry's trace SDK, "TraceIdRatioBased", ``GetDescription``)."""


class SpanIdentitySource:
    """Decides identities; built once per worker.

    The standard samplers decide (``docs/contract/spans.md#sampling``). A parent-based sampler sees
    the caller only if the caller is the parent.

    Args:
        policy: what a caller's ``traceparent`` does (``docs/contract/spans.md#span-parent``). The
            policy ``link`` makes a root that links to the caller, so that an instrumented caller
            does not count the same call twice.
        sampler: ``None`` takes the one that ``OTEL_TRACES_SAMPLER`` and
            ``OTEL_TRACES_SAMPLER_ARG`` name, as the SDK reads them.
    """

    def __init__(
        self,
        policy: TraceParentPolicy = TraceParentPolicy.HONOR,
        *,
        sampler: Sampler | None = None,
    ) -> None:
        self._policy = policy
        self._sampler = sampler or _sampler_of_environment()
        self._random = RandomIdGenerator()
        # Most calls are roots, and if all are sampled no sampler need be asked.
        self._takes_all = self._sampler in {ALWAYS_ON, DEFAULT_ON}
        self._propagator = TraceContextTextMapPropagator()

    @property
    def samples_some(self) -> bool:
        """Whether the sampler takes a share of the calls whose callers decided nothing."""
        found = _RATIO.search(self._sampler.get_description())
        return found is not None and 0 < float(found[1]) < 1

    def decide(self, traceparent: str | None, tracestate: str | None, *, name: str) -> SpanIdentity:
        """Decide the identity of the span of an exchange that begins.

        Args:
            traceparent: the client's header; ``None`` if absent. Anything may be in it: only a
                value that is valid by W3C Trace Context counts, otherwise the span is a root.
            tracestate: the client's header, several joined by commas.
            name: the span's name, which samplers may look at.
        """
        if traceparent is None and self._takes_all:
            # As the SDK's generator makes them, in a fifth of the steps. An id is never zero.
            return SpanIdentity(
                trace_id=f"{getrandbits(128) or 1:032x}",
                span_id=f"{getrandbits(64) or 1:016x}",
                trace_flags=_SAMPLED_ROOT,
            )
        context, caller = self._read_caller(traceparent, tracestate)
        parent = caller if self._policy is TraceParentPolicy.HONOR else INVALID_SPAN_CONTEXT
        linked = caller if self._policy is TraceParentPolicy.LINK else INVALID_SPAN_CONTEXT
        trace_id = parent.trace_id if parent.is_valid else self._random.generate_trace_id()
        sampling = self._sampler.should_sample(
            context if parent.is_valid else Context(),
            trace_id,
            name,
            SpanKind.CLIENT,
            links=(Link(linked),) if linked.is_valid else (),
        )
        # As the SDK's tracer does: our own trace ids are random, a caller's if its flag says so.
        sampled = sampling.decision is Decision.RECORD_AND_SAMPLE
        random = not parent.is_valid or parent.trace_flags.random_trace_id
        return SpanIdentity(
            trace_id=format_trace_id(trace_id),
            span_id=format_span_id(self._random.generate_span_id()),
            parent_span_id=format_span_id(parent.span_id) if parent.is_valid else None,
            trace_flags=TraceFlags.SAMPLED * sampled | TraceFlags.RANDOM_TRACE_ID * random,
            trace_state=sampling.trace_state.to_header() if sampling.trace_state else "",
            linked=_ids(linked) if linked.is_valid else None,
        )

    def _read_caller(
        self, traceparent: str | None, tracestate: str | None
    ) -> tuple[Context, SpanContext]:
        carrier = {}
        if traceparent is not None and len(traceparent) <= MAX_TRACEPARENT_CHARS:
            carrier["traceparent"] = traceparent
        if tracestate is not None and _is_valid_state(tracestate):
            carrier["tracestate"] = tracestate
        # Starts from an empty context: what the worker itself may be tracing is not a caller.
        context = self._propagator.extract(carrier, Context())
        return context, get_current_span(context).get_span_context()


def _is_valid_state(tracestate: str) -> bool:
    """Tell whether the SDK accepts a ``tracestate`` without a log line, which would quote it (R7).

    One that is not valid counts as absent, as a whole, as W3C Trace Context wants it (section
    3.3.1). A valid ``traceparent`` stands. A header that is too long counts as absent too.
    """
    if len(tracestate) > MAX_TRACESTATE_CHARS:
        return False
    members = [member for part in tracestate.split(",") if (member := part.strip(" \t"))]
    return len(members) <= MAX_TRACESTATE_MEMBERS and all(map(_MEMBER.fullmatch, members))


def _ids(span: SpanContext) -> tuple[str, str]:
    return format_trace_id(span.trace_id), format_span_id(span.span_id)


def _sampler_of_environment() -> Sampler:
    # The SDK's reading of the two variables is private; its provider is the public way to it.
    return TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False).sampler
