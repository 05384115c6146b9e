"""The ``metadata`` of a span: what no attribute has a name for, as one JSON object.

Rules (``span-contract.md`` 1.8):

1. One object; never also ``metadata.x`` attributes, for Phoenix cannot hold a key that is both leaf
   and prefix (5.2).
2. Each member is there only when it applies. Times are milliseconds, to the microsecond.
3. What the client says of the call stands beside our own members. Where it uses one of our names,
   its value stands under ``client_<name>``: nobody can forge what we measured, or lose what is
   theirs.
4. Members of foreign make, the client's and the provider's raw usage, are left out where the whole
   is over its limit or cannot be written, and ``cut`` says so: our own always can (R5).
5. It is JSON that any reader takes: what is no finite number is ``null``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import SpanAttributes

from telemetry.attribute_values import strict_json_text
from telemetry.exchange import Outcome
from telemetry.semconv import MetadataMember
from telemetry.size_limits import size_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from telemetry.exchange import Exchange

__all__ = ("MAX_METADATA_BYTES", "build_metadata", "dump_metadata")

MAX_METADATA_BYTES = 131_072
"""Twice the largest raw usage object that the codec keeps; header values come on top."""

MAX_RATE_LIMIT_CHARS = 256
"""Of a rate-limit header: a number, a time, or a policy of some words."""

_NAMES: Final = {member: member.value for member in MetadataMember}
_OWN_NAMES: Final = frozenset(_NAMES.values())


def build_metadata(
    exchange: Exchange, cut: Mapping[str, int], cost_source: str | None = None
) -> dict[str, Any]:
    """The members, the client's first.

    Args:
        exchange: what the span is of.
        cut: by the name of each list that was cut, how many entries it had
            (:class:`telemetry.flattening.Flattening`); of each value that was cut, how many bytes
            (:mod:`telemetry.size_limits`).
        cost_source: where the cost comes from, ``None`` where none is known.
    """
    own = _own_members(exchange, cut, cost_source)
    foreign = {
        f"client_{name}" if name in _OWN_NAMES else name: value
        for name, value in exchange.context.metadata.items()
    }
    return {**foreign, **own}


def dump_metadata(
    metadata: Mapping[str, Any], limit_bytes: int = MAX_METADATA_BYTES
) -> tuple[str, int]:
    """The object as text, and how large it was where something was left out (rule 4), else 0."""
    whole = strict_json_text(dict(metadata))
    size = size_bytes(whole) if whole is not None else 1
    if whole is not None and size <= limit_bytes:
        return whole, 0
    own = {
        member.value: metadata[member]
        for member in MetadataMember
        if member in metadata and member is not MetadataMember.USAGE_RAW
    }
    cut = {**own.get(MetadataMember.CUT, {}), SpanAttributes.METADATA: size}
    return strict_json_text({**own, MetadataMember.CUT.value: cut}) or "{}", size


def _own_members(
    exchange: Exchange, cut: Mapping[str, int], cost_source: str | None
) -> dict[str, Any]:
    disconnected = exchange.outcome is Outcome.CLIENT_DISCONNECTED
    members = {
        MetadataMember.UPSTREAM: exchange.upstream,
        MetadataMember.REQUEST_ID: exchange.request_id,
        MetadataMember.PROXY_REWRITES: list(exchange.rewrites) or None,
        MetadataMember.RETRY_COUNT: exchange.resend_count or None,
        **_time_members(exchange),
        MetadataMember.OUTCOME: exchange.outcome.value,
        MetadataMember.ON_DISCONNECT: exchange.on_disconnect if disconnected else None,
        MetadataMember.REFUSED_CHOICES: _refused_choices(exchange) or None,
        **_usage_members(exchange),
        MetadataMember.COST_SOURCE: cost_source,
        MetadataMember.RATE_LIMITS: {
            name: value[:MAX_RATE_LIMIT_CHARS] for name, value in exchange.rate_limits.items()
        }
        or None,
        MetadataMember.ANOMALIES: list(exchange.anomalies) or None,
        MetadataMember.KEPT_BY: exchange.kept_by,
        MetadataMember.CONTENT_HIDDEN_BY: "client" if exchange.hides_content else None,
        MetadataMember.USAGE_EVENT_NOT_STRIPPED: exchange.usage_event_not_stripped or None,
        MetadataMember.CUT: dict(cut) or None,
    }
    return {_NAMES[member]: value for member, value in members.items() if value is not None}


def _time_members(exchange: Exchange) -> dict[MetadataMember, Any]:
    chunks = exchange.chunks
    return {
        MetadataMember.TTFT_MS: _since_start_ms(exchange, exchange.first_chunk_ns),
        MetadataMember.FIRST_CONTENT_MS: _since_start_ms(exchange, exchange.first_content_ns),
        MetadataMember.CHUNK_COUNT: chunks.count if chunks is not None else None,
        MetadataMember.CHUNK_WAIT_MS: _ms(chunks.mean_wait_ns) if chunks is not None else None,
        MetadataMember.LONGEST_CHUNK_WAIT_MS: (
            _ms(chunks.longest_wait_ns) if chunks is not None and chunks.count > 1 else None
        ),
    }


def _usage_members(exchange: Exchange) -> dict[MetadataMember, Any]:
    if exchange.response is None:
        return {}
    usage = exchange.response.usage
    return {
        MetadataMember.USAGE_SOURCE: "none" if usage is None else "provider",
        MetadataMember.USAGE_RAW: (dict(usage.raw) or None) if usage is not None else None,
    }


def _refused_choices(exchange: Exchange) -> list[int]:
    # The refusal itself is in output.value only (contract 1.2), and Phoenix draws an empty card.
    choices = exchange.response.choices if exchange.response is not None else ()
    return [choice.index for choice in choices if choice.message.refusal]


def _since_start_ms(exchange: Exchange, at_ns: int | None) -> float | None:
    return None if at_ns is None else _ms(at_ns - exchange.start_ns)


def _ms(duration_ns: float | None) -> float | None:
    return None if duration_ns is None else round(duration_ns / 1e6, 3)
