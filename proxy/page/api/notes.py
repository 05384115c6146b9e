"""Sentences about a call that a person should know, made from its metadata.

They have nothing of the content, except names that are in the metadata.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from openinference.semconv.trace import ImageAttributes

from codec.chat.rewrite import USAGE_REWRITE
from codec.members import list_of, object_of
from proxy.reading.costs import explain_gap
from proxy.reading.pictures import list_pictures
from telemetry.privacy.json_strings import REDACTED
from telemetry.semconv import MetadataMember

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.text.jsontext import JsonObject
    from proxy.reading.call import RecordedCall

_UNCHANGED = "expired_or_evicted"
"""The word for a break of the cache although nothing changed
(:mod:`telemetry.conversations.cache_breaks`)."""

_MAX_NAMES = 8

_IMAGE_URL = f".{ImageAttributes.IMAGE_URL}"
"""The end of the names of images, which the limit of images leaves out: no setting hides them."""


def write_notes(call: RecordedCall) -> list[str]:
    """Write the sentences, the most important first."""
    return [*_write(call)]


def _write(call: RecordedCall) -> Iterator[str]:
    metadata = call.metadata
    place = object_of(metadata.get(MetadataMember.CONVERSATION))
    if call.summary.last_error and not call.span.attributes:
        yield f"the record is damaged: {call.span.status_message}"
    yield from _describe_cache(place, call.summary.columns.cached_tokens)
    if place.get("compacted") is True:
        yield "the history was cut or compacted before this call"
    if place.get("forked") is True:
        yield "another call continued the same call before: this is a fork"
    if call.is_over_websocket:
        yield "it came over a WebSocket"
    retry = metadata.get(MetadataMember.RETRY)
    if _is_count(retry):
        yield f"the client sent this request again: retry {retry}"
    resent = metadata.get(MetadataMember.RETRY_COUNT)
    if _is_count(resent):
        yield f"spantap sent the request again, {resent} times"
    if anomalies := _names(metadata.get(MetadataMember.ANOMALIES)):
        yield f"the traffic had anomalies: {anomalies}"
    if near := [limit for limit in call.limits if limit.is_near]:
        names = _names([f"{limit.left:.0%} of {limit.name}" for limit in near])
        yield f"little was left of the provider's rate limits: {names}"
    columns = call.summary.columns
    if columns.cost_gap is not None:
        gap = explain_gap(columns.cost_gap, call.summary.model, columns.upstream)
        yield f"the cost is unknown: {gap.why}" + (f"; {gap.mend}" if gap.mend else "")
    if metadata.get(MetadataMember.USAGE_SOURCE) == "none":
        yield "the provider reported no tokens"
    if refused := list_of(metadata.get(MetadataMember.REFUSED_CHOICES)):
        yield f"the model refused to answer ({len(refused)} of its choices)"
    yield from _describe_hidden(call, metadata)
    rewrites = _names(metadata.get(MetadataMember.PROXY_REWRITES))
    if rewrites == USAGE_REWRITE:
        yield f"spantap asked for token counts ({rewrites}); the application had not"
    elif rewrites:
        yield f"spantap changed the request on its way: {rewrites}"
    if kept_by := metadata.get(MetadataMember.KEPT_BY):
        yield f"the call was kept by the rule {str(kept_by)[:200]}"


def _describe_cache(place: JsonObject, cached: int | None) -> Iterator[str]:
    """Say where the provider's cache broke."""
    at, expected = place.get("cache_broke_at"), place.get("cache_expected_tokens")
    if not isinstance(at, str):
        return
    if at == _UNCHANGED:
        words = "the provider's cache expired, or was evicted"
    else:
        words = f"the cache broke at {at[:200]}"
    if isinstance(expected, int) and isinstance(cached, int) and expected > cached:
        words += f": {expected - cached:,} tokens were paid in full"
    yield words


def _describe_hidden(call: RecordedCall, metadata: JsonObject) -> Iterator[str]:
    """Say what was cut, and what is hidden."""
    cut = object_of(metadata.get(MetadataMember.CUT))
    if cut:
        names = _names([*cut])
        yield f"too large to be recorded whole: {names}"
    if metadata.get(MetadataMember.CONTENT_HIDDEN_BY) is not None:
        yield "the client asked that no content be recorded"
    elif any(
        value == REDACTED and not name.endswith(_IMAGE_URL)
        for name, value in call.span.attributes.items()
    ):
        yield "some of this is hidden by the settings"
    pictures = list_pictures((*call.input_messages, *call.output_messages))
    reasons = Counter(one.left_out for one in pictures if one.left_out is not None)
    for reason, count in reasons.items():
        yield f"{count} picture{'s' if count > 1 else ''} not kept: {reason.words}"


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _names(value: object) -> str:
    """Join some foreign names, each shortened."""
    names = [str(name)[:80] for name in list_of(value)]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
