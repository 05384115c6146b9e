"""The tool calls of a generator's deltas, as a dialect has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.dialects.profile import CallIndex

if TYPE_CHECKING:
    from codec.dialects.profile import CallShape
    from codec.text.jsontext import JsonObject

__all__ = ("CallShaper",)


class CallShaper:
    """Reshapes the calls of one choice; what a dialect sends later is kept until then."""

    def __init__(self, shape: CallShape) -> None:
        self.first_index = 0
        self._shape = shape
        self._kept: dict[int, JsonObject] = {}
        self._ids: dict[int, str] = {}

    def feed(self, entry: JsonObject) -> list[JsonObject]:
        """Feed an entry of ``tool_calls``; return those that are now due."""
        shape, index = self._shape, entry["index"]
        if "id" in entry:
            due = [] if shape.with_finish else self.flush()
            self._ids[index] = entry["id"]
            if shape.whole or shape.with_finish or shape.joined:
                self._kept[index] = entry | {"function": dict(entry["function"])}
                return due
            return [*due, self._header(entry)]
        if index not in self._kept:
            return [self._later(entry)]
        self._kept[index]["function"]["arguments"] += entry["function"]["arguments"]
        return [] if shape.whole or shape.with_finish else self.flush()

    def flush(self) -> list[JsonObject]:
        """Return what was kept."""
        kept, self._kept = self._kept, {}
        return [self._header(entry) for entry in kept.values()]

    def _header(self, entry: JsonObject) -> JsonObject:
        return self._numbered(entry) | self._shape.members

    def _later(self, entry: JsonObject) -> JsonObject:
        function = {**self._shape.later_function, **entry["function"]}
        repeated = {"id": self._ids[entry["index"]]} if self._shape.repeats_id else {}
        return self._numbered(entry) | self._shape.later | repeated | {"function": function}

    def _numbered(self, entry: JsonObject) -> JsonObject:
        others = {name: member for name, member in entry.items() if name != "index"}
        if self._shape.index is CallIndex.MISSING:
            return others
        return {"index": entry["index"] + self.first_index} | others
