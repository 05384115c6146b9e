"""Gives a choice the shape of a dialect, delta by delta or as a whole message, tool calls included.

One delta of a generator becomes no delta (reasoning that the dialect leaves out, a call that is not
whole yet), one, or several (a call that was kept, then what came). The content does not change;
only what a dialect has no place for is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.dialects.profile import CallIndex, RolePlace

if TYPE_CHECKING:
    from codec.dialects.profile import CallShape, Dialect, ReasoningShape
    from codec.text.jsontext import JsonObject

__all__ = ("DeltaShaper", "shape_message")

_FUNCTION, _CUSTOM = ("function", "arguments"), ("custom", "input")
"""The member of a call, and that of its text in there; a custom tool takes free text."""


class _CallShaper:
    """Reshapes the calls of one choice; it keeps what a dialect sends later."""

    def __init__(self, shape: CallShape) -> None:
        self.first_index = 0
        self._shape = shape
        self._kept: dict[int, JsonObject] = {}
        self._ids: dict[int, str] = {}

    def feed(self, entry: JsonObject) -> list[JsonObject]:
        """Feed an entry of ``tool_calls``; return the entries that the dialect sends now."""
        shape, index = self._shape, entry["index"]
        kind, text = _CUSTOM if _CUSTOM[0] in entry else _FUNCTION
        if "id" in entry:
            due = [] if shape.with_finish else self.flush()
            self._ids[index] = entry["id"]
            if shape.whole or shape.with_finish or shape.joined:
                self._kept[index] = entry | {kind: dict(entry[kind])}
                return due
            return [*due, self._header(entry)]
        if index not in self._kept:
            return [self._later(entry)]
        self._kept[index][kind][text] += entry[kind][text]
        return [] if shape.whole or shape.with_finish else self.flush()

    def flush(self) -> list[JsonObject]:
        """Return what was kept."""
        kept, self._kept = self._kept, {}
        return [self._header(entry) for entry in kept.values()]

    def _header(self, entry: JsonObject) -> JsonObject:
        return self._numbered(entry) | self._shape.members

    def _later(self, entry: JsonObject) -> JsonObject:
        if _CUSTOM[0] in entry:  # later pieces of OpenAI's custom tools have only this
            return self._numbered(entry)
        function = {**self._shape.later_function, **entry["function"]}
        repeated = {"id": self._ids[entry["index"]]} if self._shape.repeats_id else {}
        return self._numbered(entry) | self._shape.later | repeated | {"function": function}

    def _numbered(self, entry: JsonObject) -> JsonObject:
        others = {name: member for name, member in entry.items() if name != "index"}
        if self._shape.index is CallIndex.MISSING:
            return others
        return {"index": entry["index"] + self.first_index} | others


class DeltaShaper:
    """Reshapes the deltas of one choice.

    Attributes:
        content: the text so far.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.content = ""
        self._dialect = dialect
        self._calls = _CallShaper(dialect.calls)
        self._opened = False
        self._thinking = False  # inside tags

    def feed(self, delta: JsonObject, *, finishes: bool) -> list[JsonObject]:
        """Reshape a generator's delta, whose chunk may have the finish reason."""
        extras, with_finish = self._dialect.extras, self._dialect.calls.with_finish
        text = self._text(delta)
        due = self._due(delta.get("tool_calls", []), finishes=finishes)
        if finishes:
            last = {"tool_calls": due} if with_finish and due else {}
            whole = [] if with_finish else due
            calls = [self._delta({"tool_calls": [one]}, extras.call_delta) for one in whole]
            return [*calls, self._delta(text | last, extras.finish_delta)]
        # Kept entries come before what follows them, a new call behind the text beside it.
        said = [text] if text else []
        parts = [{"tool_calls": [one]} for one in due]
        order = [*said, *parts] if "tool_calls" in delta else [*parts, *said]
        return [
            self._delta(part, extras.call_delta if "tool_calls" in part else extras.delta)
            for part in order
        ]

    def _due(self, entries: list[JsonObject], *, finishes: bool) -> list[JsonObject]:
        if self.content and self._dialect.calls.index is CallIndex.AFTER_TEXT:
            self._calls.first_index = 1
        due = [one for entry in entries for one in self._calls.feed(entry)]
        if finishes or not (entries or self._dialect.calls.with_finish):
            due += self._calls.flush()
        return due

    def _delta(self, said: JsonObject, others: JsonObject) -> JsonObject:
        opened, self._opened = self._opened, True
        place = self._dialect.role
        role: JsonObject = {}
        if place is RolePlace.EVERY or (place is not RolePlace.NONE and not opened):
            role = {"role": "assistant"}
        elif place is RolePlace.NULL_LATER:
            role = {"role": None}
        return role | others | said

    def _text(self, delta: JsonObject) -> JsonObject:
        """Return the members of a delta besides calls."""
        dialect = self._dialect
        said = {"content": delta["content"]} if "content" in delta else {}
        if "refusal" in delta and dialect.refuses_apart:
            said["refusal"] = delta["refusal"]
        elif delta.get("refusal") is not None:
            said["content"] = delta["refusal"]
        reasoning = delta.get("reasoning_content")
        if dialect.reasoning.tags is not None:
            said |= self._tagged(reasoning, said.get("content"), dialect.reasoning.tags)
        if reasoning is not None:
            said |= _write_reasoning(dialect.reasoning, reasoning) | dialect.reasoning.members
        text = said.get("content")
        if isinstance(text, str) and text:
            self.content += text
            if dialect.cumulative_content:
                said["content"] = self.content
        return said

    def _tagged(
        self, reasoning: str | None, content: str | None, tags: tuple[str, str]
    ) -> JsonObject:
        """Return the content with the reasoning in it."""
        opening, closing = tags
        if reasoning:
            tag = "" if self._thinking else opening
            self._thinking = True
            return {"content": tag + reasoning}
        if self._thinking:
            self._thinking = False
            return {"content": closing + (content or "")}
        return {}


def shape_message(dialect: Dialect, message: JsonObject) -> JsonObject:
    """Return the message of a plain answer in a dialect's shape."""
    shaped = {
        name: member
        for name, member in message.items()
        if name not in {"reasoning_content", "refusal"}
    }
    if dialect.refuses_apart:
        shaped["refusal"] = message["refusal"]
    elif message["refusal"] is not None:
        shaped["content"] = message["refusal"]
    if "tool_calls" in message:
        shaped["tool_calls"] = [call | dialect.calls.members for call in message["tool_calls"]]
    reasoning = message.get("reasoning_content")
    if reasoning is not None:
        members = _write_reasoning(dialect.reasoning, reasoning)
        if dialect.reasoning.part is not None:
            members["content"] += [{"type": "text", "text": shaped["content"] or ""}]
        shaped |= members
        if dialect.reasoning.tags is not None:
            opening, closing = dialect.reasoning.tags
            shaped["content"] = opening + reasoning + closing + (shaped["content"] or "")
    return shaped | dialect.extras.message


def _write_reasoning(shape: ReasoningShape, reasoning: str) -> JsonObject:
    """Return the members with a piece of reasoning, without tags."""
    members: JsonObject = {}
    if shape.member is not None:
        members[shape.member] = reasoning
    if shape.detail:
        detail = {"type": "reasoning.text", "text": reasoning, "format": "unknown", "index": 0}
        members["reasoning_details"] = [detail]
    if shape.part == "thinking":
        members["content"] = [
            {"type": "thinking", "thinking": [{"type": "text", "text": reasoning}]}
        ]
    elif shape.part == "reasoning":
        summary = [{"type": "summary_text", "text": reasoning}]
        members["content"] = [{"type": "reasoning", "summary": summary}]
    return members
