"""Where two spans of one call differ (``docs/contract/spans.md#comparison``).

A difference has a path: the name of an attribute, behind which a value that is JSON is followed to
its leaves (``output.value/choices/0/message/role``); or what else a span has: ``name``, ``status``,
``status description``, how many events of a name there are (``events/exception``) and their
attributes (``exception/exception.type``). SpanKind, scope and timestamps are not looked at.

In JSON a number is a number (``0`` and ``0.0``); in an attribute its type counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.corpus.oracle import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from telemetry.spans.otlp.decoding import DecodedEvent, DecodedSpan

__all__ = ("ABSENT", "Difference", "find_differences")


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
"""What one side lacks; ``None`` is a JSON null."""

_JSON_KEYS = (
    "input.value",
    "output.value",
    "llm.invocation_parameters",
    "embedding.invocation_parameters",
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One leaf that differs; either side may be :data:`ABSENT`."""

    path: str
    theirs: Any
    ours: Any


def find_differences(theirs: DecodedSpan, ours: DecodedSpan) -> list[Difference]:
    """All of them, between the client's own span and the proxy's."""
    return [
        *_compare("name", theirs.name, ours.name),
        *_compare("status", theirs.status, ours.status),
        *_compare("status description", theirs.status_message, ours.status_message),
        *_compare_events(theirs.events, ours.events),
        *_compare_attributes(theirs.attributes, ours.attributes),
    ]


def _compare_events(
    theirs: Sequence[DecodedEvent], ours: Sequence[DecodedEvent]
) -> Iterator[Difference]:
    counts, our_counts = (Counter(event.name for event in events) for events in (theirs, ours))
    yield from _compare("events", dict(counts), dict(our_counts))
    for name in counts:
        named, our_named = (
            [one for one in events if one.name == name] for events in (theirs, ours)
        )
        for event, our_event in zip(named, our_named, strict=False):
            yield from _compare(name, dict(event.attributes), dict(our_event.attributes))


def _compare_attributes(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[Difference]:
    for key in {**theirs, **ours}:
        one, other = theirs.get(key, ABSENT), ours.get(key, ABSENT)
        if isinstance(one, str) and one == other:
            continue
        if key in _JSON_KEYS or key.endswith(".json_schema"):
            yield from _compare(key, _decode(one), _decode(other), in_json=True)
        else:
            yield from _compare(key, one, other)


def _decode(value: Any) -> Any:
    decoded = parse_json(value) if isinstance(value, str) else None
    return value if decoded is None else decoded


def _compare(path: str, theirs: Any, ours: Any, *, in_json: bool = False) -> Iterator[Difference]:
    if isinstance(theirs, list) and isinstance(ours, list):
        theirs, ours = dict(enumerate(theirs)), dict(enumerate(ours))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in {**theirs, **ours}:
            one, other = theirs.get(key, ABSENT), ours.get(key, ABSENT)
            yield from _compare(f"{path}/{key}", one, other, in_json=in_json)
    elif not _is_equal(theirs, ours, in_json=in_json):
        yield Difference(path=path, theirs=theirs, ours=ours)


def _is_equal(theirs: Any, ours: Any, *, in_json: bool) -> bool:
    both = {type(theirs), type(ours)}
    if len(both) > 1 and not (in_json and both == {int, float}):
        return False
    both_nan = theirs != theirs and ours != ours  # noqa: PLR0124 - the test for NaN
    return bool(theirs == ours or both_nan)
