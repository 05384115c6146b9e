"""How near each rate limit of a provider came, in the calls that are asked for.

What a provider says about its limits is only in the spans, so calls are read whole: the newest
:data:`MAX_LOOKED` at most, and no longer than the caller gives. An answer says how many they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codec.members import object_of, string_of
from codec.rate_limits import read_rate_limits
from codec.text.jsontext import decode_json_object
from telemetry.semconv import MetadataMember
from telemetry.spans.otlp.decoding import find_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.rate_limits import RateLimit
    from codec.text.jsontext import JsonObject
    from telemetry.finding.where import Where
    from telemetry.reading.engine import Engine
    from telemetry.store.rows import SpanSummary

MAX_LOOKED: Final = 10_000
"""The most calls that are read: some five seconds."""

MAX_LIMITS: Final = 1_000
"""The most limits that are kept: a service has a few for each of its models."""

_METADATA: Final = "metadata"


class Nearest(NamedTuple):
    """How near one limit came.

    Attributes:
        upstream: whose limit it is.
        model: the model that the calls had; limits may differ between models.
        lowest: the limit as that call's answer described it of which least was left.
        row: that call; of two that are alike the newer one.
        calls: how many calls said how much was left.
    """

    upstream: str | None
    model: str | None
    lowest: RateLimit
    row: SpanSummary
    calls: int


class Limits(NamedTuple):
    """How near limits came.

    Attributes:
        nearest: a row for each upstream, model and limit, the nearest first.
        calls: how many calls were looked at, the newest of all.
        is_whole: these are all calls, and all of their limits.
    """

    nearest: Sequence[Nearest]
    calls: int
    is_whole: bool


def find_limits(
    engine: Engine, where: Where, is_late: Callable[[], bool], most: int = MAX_LOOKED
) -> Limits:
    """Find how near each limit came.

    Args:
        engine: reads the calls.
        where: which calls; texts are not looked for.
        is_late: tells that the time is over.
        most: how many calls are read at most.
    """
    known: dict[tuple[str | None, str | None, str], Nearest] = {}
    calls, is_whole = 0, True
    numbers = engine.numbers(where, limit=most + 1, oldest_first=False)
    for stored in engine.bodies(engine.rows(numbers)):
        if calls == most or is_late():
            is_whole = False
            break
        calls += 1
        row = stored.summary
        for limit in read_limits(read_metadata(stored.span)):
            key = (row.columns.upstream, row.model, limit.name)
            before = known.get(key)
            if before is None and len(known) >= MAX_LIMITS:
                is_whole = False
            elif before is None:
                known[key] = Nearest(row.columns.upstream, row.model, limit, row, 1)
            elif limit.left < before.lowest.left:
                known[key] = before._replace(lowest=limit, row=row, calls=before.calls + 1)
            else:
                known[key] = before._replace(calls=before.calls + 1)
    nearest = sorted(known.values(), key=lambda one: (one.lowest.left, -one.row.seq))
    return Limits(nearest, calls, is_whole)


def read_limits(metadata: JsonObject) -> list[RateLimit]:
    """Read the limits in a call's metadata, the nearest first; of an old store, too."""
    answered = object_of(object_of(metadata.get(MetadataMember.HEADERS)).get("response"))
    said = {**object_of(metadata.get(MetadataMember.RATE_LIMITS)), **answered}
    texts = {name: text for name, value in said.items() if (text := string_of(value)) is not None}
    return read_rate_limits(texts)


def read_metadata(span: bytes) -> JsonObject:
    """Read the metadata of a call's bytes; nothing if they are damaged."""
    try:
        text = next(find_texts(span, _METADATA), None)
        return {} if text is None else decode_json_object(text)
    except ValueError:
        return {}
