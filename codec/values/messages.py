"""The messages of a request (``docs/contract/sources.md#s4-5``).

Every value in the list is a message here. One that makes no sense keeps its place and its JSON,
because encoding must not lose what decoding did not understand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from codec.chat.reasoning import REASONING_MEMBERS
from codec.members import object_of, string_of
from codec.values._members import Members, others, put
from codec.values.parts import ContentPart, decode_part

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("ChatMessage", "MessageCall", "OtherMessage", "decode_message")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCall:
    """A tool call in a message, or a value in the place of one.

    Attributes:
        arguments: as they came: text, usually JSON; some servers send an object.
        type: ``function`` or ``custom``; ``None`` if none was given.
        native: the entry as it came, if it is neither (such as null); else ``UNSET``.
    """

    id: str | None = None
    name: str | None = None
    arguments: Any = None
    type: str | None = None
    function_extra: Members = field(default_factory=dict)
    extra: Members = field(default_factory=dict)
    native: Any = UNSET

    def to_json(self) -> Any:
        """Return the entry of ``tool_calls``."""
        if self.native is not UNSET:
            return self.native
        custom = self.type == "custom"
        named = {"input" if custom else "arguments": self.arguments}
        called = put({}, name=self.name, **named) | dict(self.function_extra)
        entry = put({}, id=self.id, type=self.type)
        return entry | {"custom" if custom else "function": called} | dict(self.extra)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message.

    Attributes:
        role: as sent; ``None`` if it is missing.
        name: the name of the participant or the tool.
        tool_call_id: the id of the call whose result this is.
        tool_calls: ``None`` if the message has no list of them.
        function_call: the legacy single call, without id.
        reasoning_member: the name of the member with the reasoning, such as ``reasoning_content``.
        extra: all other members (``audio``, ``annotations``, ``cache_control``, ...), and those
            whose value has the wrong type.
    """

    role: str | None = None
    content: str | tuple[ContentPart, ...] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: tuple[MessageCall, ...] | None = None
    function_call: MessageCall | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_member: str = "reasoning_content"
    extra: Members = field(default_factory=dict)

    @property
    def text(self) -> str | None:
        """The text of the content, joined if it comes in parts."""
        if not isinstance(self.content, tuple):
            return self.content
        texts = [getattr(part, "text", None) for part in self.content]
        return "".join(text for text in texts if isinstance(text, str)) or None

    def to_json(self) -> JsonObject:
        """Return the message as OpenAI has it."""
        content = self.content
        call = self.function_call
        members = put(
            {},
            role=self.role,
            content=[p.to_json() for p in content] if isinstance(content, tuple) else content,
            name=self.name,
            tool_call_id=self.tool_call_id,
            tool_calls=None if self.tool_calls is None else [c.to_json() for c in self.tool_calls],
            function_call=None if call is None else call.to_json()["function"],
            refusal=self.refusal,
            **{self.reasoning_member: self.reasoning},
        )
        return members | dict(self.extra)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherMessage:
    """A value among the messages that is not an object, as it came."""

    native: Any

    def to_json(self) -> Any:
        """Return the value as it came."""
        return self.native


def decode_message(value: Any) -> ChatMessage | OtherMessage:
    """Read one message, of any JSON type."""
    if not isinstance(value, dict):
        return OtherMessage(native=value)
    content = value.get("content")
    calls = value.get("tool_calls")
    legacy = value.get("function_call")
    spoken = next(
        (n for n in REASONING_MEMBERS if string_of(value.get(n)) is not None), REASONING_MEMBERS[0]
    )
    read: dict[str, Any] = {
        "role": string_of(value.get("role")),
        "content": tuple(map(decode_part, content))
        if isinstance(content, list)
        else string_of(content),
        "name": string_of(value.get("name")),
        "tool_call_id": string_of(value.get("tool_call_id")),
        "tool_calls": tuple(map(_decode_call, calls)) if isinstance(calls, list) else None,
        "function_call": _decode_call({"function": legacy}) if isinstance(legacy, dict) else None,
        "refusal": string_of(value.get("refusal")),
        spoken: string_of(value.get(spoken)),
    }
    extra = others(value, **read)
    return ChatMessage(reasoning=read.pop(spoken), reasoning_member=spoken, extra=extra, **read)


def _decode_call(value: Any) -> MessageCall:
    entry = object_of(value)
    member = "custom" if isinstance(entry.get("custom"), dict) else "function"
    called = entry.get(member)
    if not isinstance(called, dict) or (member == "custom") != (entry.get("type") == "custom"):
        return MessageCall(native=value)
    argument = "input" if member == "custom" else "arguments"
    known = {"id": string_of(entry.get("id")), "type": string_of(entry.get("type"))}
    name = string_of(called.get("name"))
    arguments = called.get(argument)
    return MessageCall(
        **known,
        name=name,
        arguments=arguments,
        function_extra=others(called, **{"name": name, argument: arguments}),
        extra=others(entry, member, **known),
    )
