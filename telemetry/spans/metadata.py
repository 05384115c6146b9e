"""The ``metadata`` of a span: everything that has no attribute, as one JSON object.

There are never also ``metadata.x`` attributes, because Phoenix cannot hold a key that is both leaf
and prefix (``docs/contract/spans.md#metadata``). Each member is there only if it applies. Times are
milliseconds, to the microsecond. Any reader accepts the JSON: a number that is not finite is
``null``.

The client's members are beside ours. If the client uses one of our names, its value is written as
``client_<name>``: so nobody can forge our measurements, or lose their own data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import SpanAttributes

from codec.apis.api import SpanKind
from telemetry.attribute_values import strict_json_text
from telemetry.observing.exchange import Outcome
from telemetry.semconv import MetadataMember
from telemetry.spans.size_limits import size_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from telemetry.observing.exchange import Exchange
    from telemetry.pricing.span_cost import SpanCost

MAX_METADATA_BYTES = 131_072
"""Twice the largest raw usage object that the codec keeps; header values come on top."""

MAX_RATE_LIMIT_CHARS = 256
"""The most characters of a rate-limit header: a number, a time, or a policy of a few words."""

MAX_NAMES = 16
MAX_NAME_CHARS = 64
"""The most characters of names of members left out with a usage event (llama.cpp has one, others
have none), and of categories in which a moderation found something (OpenAI has 13 in all)."""

_OWN_NAMES: Final = tuple(member.value for member in MetadataMember)
"""Names of the proxy's members, in the order of their values below."""

_FOREIGN: Final = frozenset(
    {MetadataMember.USAGE_RAW, MetadataMember.TRANSCRIPTION_USAGE, MetadataMember.HEADERS}
)
"""The members whose values a client or a provider wrote."""


def build_metadata(
    exchange: Exchange, cut: Mapping[str, int], cost: SpanCost | None = None
) -> dict[str, Any]:
    """The members, the client's first.

    Args:
        exchange: the exchange of the span.
        cut: by name, the original number of entries of a list that was cut
            (:class:`telemetry.spans.flattening.Flattening`), or of bytes of a value
            (:mod:`telemetry.spans.size_limits`).
        cost: of the exchange; ``None`` if it is not known.
    """
    own = _own_members(exchange, cut, cost)
    if not exchange.context.metadata:
        return own
    foreign = {
        f"client_{name}" if name in _OWN_NAMES else name: value
        for name, value in exchange.context.metadata.items()
    }
    return {**foreign, **own}


def dump_metadata(
    metadata: Mapping[str, Any], limit_bytes: int = MAX_METADATA_BYTES
) -> tuple[str, int]:
    """Write the object as text; return it, and its full size if something was left out, else 0.

    Members of foreign origin, the client's, the provider's raw usage and the fields of heads, are
    left out if the whole is over its limit or cannot be written, and ``cut`` says so: ours can
    always be written (R5).
    """
    whole = strict_json_text(dict(metadata))
    size = size_bytes(whole) if whole is not None else 1
    if whole is not None and size <= limit_bytes:
        return whole, 0
    own = {
        member.value: metadata[member]
        for member in MetadataMember
        if member in metadata and member not in _FOREIGN
    }
    cut = {**own.get(MetadataMember.CUT, {}), SpanAttributes.METADATA: size}
    return strict_json_text({**own, MetadataMember.CUT.value: cut}) or "{}", size


def _own_members(
    exchange: Exchange, cut: Mapping[str, int], cost: SpanCost | None
) -> dict[str, Any]:
    """Collect our members that apply; values are in the order of :class:`MetadataMember`."""
    response = exchange.response
    usage = response.usage if response is not None else None
    counts = response is not None and exchange.api.span_kind in _NAMES_MODEL
    source = None if not counts else "none" if usage is None else "provider"
    left_out = response.hidden_members if response is not None else ()
    limits = exchange.rate_limits
    disconnected = exchange.outcome is Outcome.CLIENT_DISCONNECTED
    values = (
        exchange.upstream,
        None if exchange.api.span_kind in _NAMES_MODEL else _find_model(exchange),
        exchange.request_id,
        list(exchange.rewrites) or None,
        exchange.resend_count or None,
        exchange.client_retry or None,
        *_time_values(exchange),
        exchange.outcome,
        exchange.on_disconnect if disconnected else None,
        list(response.refused) or None if response is not None else None,
        *_verdict_values(exchange),
        response.partial_images if response is not None else None,
        *_sound_values(exchange),
        source,
        dict(usage.raw) or None if usage is not None else None,
        list(response.transcription_usage) or None if response is not None else None,
        *(_NO_COST if cost is None else (cost.source, cost.basis, cost.list_date)),
        {name: text[:MAX_RATE_LIMIT_CHARS] for name, text in limits.items()} if limits else None,
        exchange.heads or None,
        list(exchange.anomalies) or None,
        _tell_position(exchange),
        exchange.kept_by,
        "client" if exchange.hides_content else None,
        exchange.usage_event_not_stripped or None,
        _short_names(left_out),
        dict(cut) or None,
    )
    return {name: v for name, v in zip(_OWN_NAMES, values, strict=True) if v is not None}


def _time_values(exchange: Exchange) -> tuple[float | None, ...]:
    """List the times to the first chunk and content, and the facts about chunks.

    These are their number, their mean wait, the longest, and which chunk had the longest.
    """
    chunks = exchange.chunks
    if chunks is None and exchange.first_chunk_ns is None and exchange.first_content_ns is None:
        return _NO_TIMES
    return (
        _since_start_ms(exchange, exchange.first_chunk_ns),
        _since_start_ms(exchange, exchange.first_content_ns),
        chunks.count if chunks is not None else None,
        _ms(chunks.mean_wait_ns) if chunks is not None else None,
        _ms(chunks.longest_wait_ns) if chunks is not None and chunks.count > 1 else None,
        chunks.longest_wait_at or None if chunks is not None else None,
    )


def _verdict_values(exchange: Exchange) -> tuple[object, object]:
    """Tell whether a moderation found something, and of which categories."""
    response = exchange.response
    verdict = response.verdict if response is not None else None
    if verdict is None or (exchange.response_status or 0) >= 400:
        return None, None
    return verdict.flagged, _short_names(verdict.categories)


def _sound_values(exchange: Exchange) -> tuple[object, object, object]:
    """Count the sound: of the request, and the bytes and seconds of the answer."""
    asked, response = exchange.request, exchange.response
    heard = None if asked is None else asked.input_audio
    if heard:
        heard = {
            name: heard[name] for name in _OF_SOUND if isinstance(heard.get(name), int | float)
        }
    if response is None:
        return heard or None, None, None
    return heard or None, response.output_bytes, response.audio_seconds


def _tell_position(exchange: Exchange) -> dict[str, Any] | None:
    """Describe the position of a call that belongs to a session (``docs/spans.md#metadata``)."""
    position = exchange.position
    if position is None or exchange.context.session_id is None:
        return None
    members = {
        "source": position.source,
        "rule": position.rule,
        "turn": position.turn,
        "call": position.call,
        "new_messages": position.new_items,
        "system_changed": position.system_changed or None,
        "forked": True if position.relation == "fork" else None,
        "compacted": True if position.relation == "compacted" else None,
        **position.usage,
    }
    return {name: value for name, value in members.items() if value is not None}


def _short_names(names: Sequence[str]) -> list[str] | None:
    """Keep foreign names few and short; ``None`` if there are none."""
    return [name[:MAX_NAME_CHARS] for name in names[:MAX_NAMES]] or None


_NAMES_MODEL: Final = frozenset({SpanKind.LLM, SpanKind.EMBEDDING, SpanKind.RERANKER})
"""Kinds of spans with an attribute for the model."""


def _find_model(exchange: Exchange) -> str | None:
    answered = exchange.response.model if exchange.response is not None else None
    return answered or (exchange.request.model if exchange.request is not None else None)


_NO_TIMES: Final = (None,) * 6

_NO_COST: Final = (None,) * 3

_OF_SOUND: Final = ("bytes", "seconds")


def _since_start_ms(exchange: Exchange, at_ns: int | None) -> float | None:
    return None if at_ns is None else _ms(at_ns - exchange.start_ns)


def _ms(duration_ns: float | None) -> float | None:
    return None if duration_ns is None else round(duration_ns / 1e6, 3)
