"""Puts together what the events of a stream say of their response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.budget import size_bytes
from codec.members import list_of, object_of, text_of
from codec.text.jsontext import compact_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.apis.responses.item_fold import ItemFold
    from codec.text.jsontext import JsonObject

__all__ = ("essentials_of", "have_same_kinds", "is_another", "join_outputs", "merge")

_MAX_ESSENTIAL_BYTES: Final = 64 * 1024
"""Largest member that is kept beyond the limit; a usage has 2 KiB."""

_ESSENTIALS: Final = (
    *("id", "object", "created_at", "model", "status", "service_tier", "system_fingerprint"),
    *("usage", "error", "incomplete_details", "status_details"),
)


def essentials_of(response: Mapping[str, Any]) -> JsonObject:
    """Return the members of a response that are kept even if it is too large."""
    return {
        name: response[name]
        for name in _ESSENTIALS
        if name in response and size_bytes(response[name]) <= _MAX_ESSENTIAL_BYTES
    }


def merge(known: JsonObject, later: Mapping[str, Any]) -> JsonObject:
    """Add to a response what a later event says of it; null and empty texts replace nothing."""
    return known | {
        name: value
        for name, value in later.items()
        if not (value is None or value == "") or name not in known
    }


def is_another(known: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two responses name ids that differ."""
    ids = text_of(known.get("id")), text_of(other.get("id"))
    return None not in ids and ids[0] != ids[1]


def join_outputs(output: Any, items: Sequence[ItemFold]) -> list[Any]:
    """List the items of a terminal object, and add the streamed ones that it lacks."""
    listed = [*list_of(output)]
    if len(listed) >= len(items):
        return listed
    known = {mark for item in listed for mark in _marks(object_of(item))}
    for place, item in enumerate(items):
        is_known = not known.isdisjoint(_marks(item.body())) if known else False
        if not is_known and (item.is_done or item.texts):
            listed.insert(place, item.body())
    return listed


def have_same_kinds(output: Sequence[Any], items: Sequence[ItemFold]) -> bool:
    """Tell whether items have the same types as the streamed ones, one by one."""
    return [*map(_kind_of, output)] == [_kind_of(item.value) for item in items]


def _kind_of(item: Any) -> str | None:
    return text_of(object_of(item).get("type"))


def _marks(item: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the marks that identify an item: either of its ids, or all that it says."""
    kind = text_of(item.get("type")) or ""
    for name in ("id", "call_id"):
        if (text := text_of(item.get(name))) is not None:
            yield name, kind, text
    yield "", kind, compact_text({name: value for name, value in item.items() if name != "id"})
