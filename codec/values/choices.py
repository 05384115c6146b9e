"""The choices of an answer and their calls, for :mod:`codec.values.responses`.

What says nothing is left out, as in a folded stream
(``docs/contract/spans.md#accumulated-object``): empty texts and finish reasons, nulls and empty
objects. A message without a role is the assistant's. Members that are not modelled, or have the
wrong type, are in ``extra``; the ``index`` of a call is not, because it is the call's place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codec.chat.finish import normalise_finish_reason
from codec.chat.reasoning import REASONING_MEMBERS
from codec.members import object_of, string_of
from codec.text.integers import index_of
from codec.text.jsontext import decode_json, encode_json
from codec.values._members import Members, insert_at, others, put, without_nulls
from codec.values.parts import ContentPart, TextPart, decode_part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.text.jsontext import JsonObject

__all__ = ("AnsweredCall", "AnsweredChoice", "decode_call", "decode_choice")

_CALLED = (("function", "arguments"), ("custom", "input"))
"""The members that have a call's name, each with its arguments: a function, a custom tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredCall:
    """A tool call of an answer.

    Attributes:
        id: empty if there was none.
        name: the name of the function or tool.
        arguments: parsed; text that is not JSON stays a text, and no text is an empty object
            (``docs/contract/sources.md#s4-14``). For a custom tool, the input, which is a text and
            never parsed.
        type: ``function`` or ``custom``; any other is in ``extra``.
        function_extra: other members of the object that has the name.
        extra: other members beside it (Gemini's ``extra_content``).
    """

    id: str = ""
    name: str
    arguments: Any = field(default_factory=dict)
    type: str = "function"
    function_extra: Members = field(default_factory=dict)
    extra: Members = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """Return the entry of ``tool_calls``.

        Raises:
            ValueError: the arguments cannot be written as JSON.
        """
        text = self.arguments if isinstance(self.arguments, str) else encode_json(self.arguments)
        member, argument = _CALLED[self.type == "custom"]
        called = {"name": self.name, argument: text} | dict(self.function_extra)
        return {"id": self.id, "type": self.type, member: called} | dict(self.extra)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredChoice:
    """A choice of an answer.

    Attributes:
        role: ``None`` in a legacy completion.
        content: text or parts; ``None`` if there is neither. For a legacy completion, its text.
        reasoning: each text that came, by the name under which it came.
        tool_calls: ``None`` if the message has no list of them.
        other_calls: values among the calls that are not calls, as they came, by their places in the
            list, in order.
        function_call: the legacy single call.
        is_completion: the choice is one of a legacy completion, with text and no message.
        extra: other members of the message.
        choice_extra: other members of the choice.
    """

    index: int = 0
    role: str | None = None
    content: str | tuple[ContentPart, ...] | None = None
    reasoning: Members = field(default_factory=dict)
    refusal: str | None = None
    tool_calls: tuple[AnsweredCall, ...] | None = None
    other_calls: Mapping[int, Any] = field(default_factory=dict)
    function_call: AnsweredCall | None = None
    finish_reason: str | None = None
    logprobs: Any = None
    is_completion: bool = False
    extra: Members = field(default_factory=dict)
    choice_extra: Members = field(default_factory=dict)

    @property
    def finish(self) -> str | None:
        """The finish reason, normalised (:func:`codec.chat.finish.normalise_finish_reason`)."""
        has_calls = bool(self.tool_calls or self.function_call)
        return normalise_finish_reason(self.finish_reason, has_calls=has_calls)

    @property
    def text(self) -> str | None:
        """The text of the content, joined if it comes in parts."""
        if not isinstance(self.content, tuple):
            return self.content
        texts = [part.text for part in self.content if isinstance(part, TextPart)]
        return "".join(texts) or None

    def to_json(self) -> JsonObject:
        """Return the choice as OpenAI has it.

        Raises:
            ValueError: as :meth:`AnsweredCall.to_json`.
        """
        choice = put(
            {"index": self.index}, finish_reason=self.finish_reason, logprobs=self.logprobs
        )
        said = put({}, text=self.content) if self.is_completion else {"message": self._message()}
        return choice | said | dict(self.choice_extra)

    def _message(self) -> JsonObject:
        content, calls, legacy = self.content, self.tool_calls, self.function_call
        message = put(
            {},
            role=self.role,
            content=[p.to_json() for p in content] if isinstance(content, tuple) else content,
            refusal=self.refusal,
            tool_calls=None
            if calls is None
            else insert_at([call.to_json() for call in calls], self.other_calls),
            function_call=None if legacy is None else legacy.to_json()["function"],
            **self.reasoning,
        )
        return message | dict(self.extra)


def decode_choice(choice: JsonObject, *, place: int) -> AnsweredChoice:
    """Read one choice, of a chat or of a legacy completion.

    A delta is read if there is no message, as :func:`codec.chat.response.decode_response` does; a
    delta beside a message repeats it (Perplexity). A choice without an index has its place as one.
    """
    index, finish_reason = index_of(choice.get("index")), string_of(choice.get("finish_reason"))
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, dict):
        logprobs = without_nulls(logprobs) or None
    known: dict[str, Any] = {
        "index": place if index is None else index,
        "finish_reason": finish_reason or None,
        "logprobs": logprobs,
    }
    messages = [name for name in ("message", "delta") if isinstance(choice.get(name), dict)]
    text = None if messages else string_of(choice.get("text"))
    read = {"index": index, "finish_reason": finish_reason, "text": text}
    known["choice_extra"] = without_nulls(others(choice, "logprobs", *messages, **read))
    if text is not None:
        return AnsweredChoice(**known, content=text or None, is_completion=True)
    return AnsweredChoice(**known, **_read_message(choice[messages[0]] if messages else {}))


def decode_call(value: Any) -> AnsweredCall | None:
    """Read one entry of ``tool_calls``, of any JSON type; ``None`` if it is not a call.

    An entry without a function or a name is not a call (``docs/contract/sources.md#s4-13``), and
    keeps its place beside the others. A call of a custom tool is one; its ``input`` becomes the
    arguments.
    """
    entry = object_of(value)
    is_custom = not isinstance(entry.get("function"), dict) and "custom" in entry
    member, argument = _CALLED[is_custom]
    called = object_of(entry.get(member))
    name, call_id = string_of(called.get("name")), string_of(entry.get("id"))
    if not name:
        return None
    kind = member if entry.get("type") == member else None
    return AnsweredCall(
        id="" if call_id is None or call_id == "null" else call_id,  # Mistral writes none so
        name=name,
        arguments=_read_arguments(called.get(argument), is_text=is_custom),
        type=member,
        function_extra=without_nulls(others(called, "name", argument)),
        extra=without_nulls(others(entry, "index", member, id=call_id, type=kind)),
    )


def _read_message(message: JsonObject) -> dict[str, Any]:
    """Read the fields of a choice that come from its message."""
    content, calls, legacy = (message.get(n) for n in ("content", "tool_calls", "function_call"))
    if isinstance(legacy, dict) and not any(legacy.values()):
        # Snowflake sends one with empty strings if nothing is called.
        message = others(message, "function_call")
    parts = tuple(map(decode_part, content)) if isinstance(content, list) else None
    texts = {
        name: message[name]
        for name in REASONING_MEMBERS
        if string_of(message.get(name)) is not None
    }
    read: dict[str, Any] = {
        "role": string_of(message.get("role")),
        "content": string_of(content) if parts is None else parts,
        "refusal": string_of(message.get("refusal")),
        "tool_calls": None,
        "function_call": decode_call({"function": legacy}),
    }
    other_calls: dict[int, Any] = {}
    if isinstance(calls, list):
        found = [decode_call(entry) for entry in calls]
        read["tool_calls"] = tuple(call for call in found if call is not None)
        other_calls = {place: calls[place] for place, call in enumerate(found) if call is None}
    extra = without_nulls(others(message, *texts, **read))
    return read | {
        "role": read["role"] or "assistant",
        "content": read["content"] or None,
        "refusal": read["refusal"] or None,
        "other_calls": other_calls,
        "reasoning": {name: text for name, text in texts.items() if text},
        "extra": extra,
    }


def _read_arguments(value: Any, *, is_text: bool) -> Any:
    if value is None:
        return "" if is_text else {}
    if is_text or not isinstance(value, str):
        return value
    try:
        return decode_json(value)
    except ValueError:
        return value
