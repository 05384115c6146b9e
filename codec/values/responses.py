"""An answer as one value, from a stream or a plain body alike, and back to a body's bytes.

:class:`codec.answer.ChatResponse` is what the observer's fold gives. This is the library's full
value of it: calls with their arguments parsed, finish reasons normalised, nothing lost.

Rules:

1. A stream and the plain body of the same answer give equal values (S4.19, N3).
2. A call without a function or a name is left out; a list of which nothing is left is empty, not
   ``None`` (S4.13).
3. Encoding is a merge into the original, as for requests: what was not changed keeps its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codec.completion import build_completion
from codec.finish import normalise_finish_reason
from codec.jsontext import compact_text, decode_json, decode_json_object
from codec.response import decode_response
from codec.values._changes import merge_changes
from codec.values._members import Members, object_of, others, put, text_of
from codec.values.parts import ContentPart, TextPart, decode_part
from codec.values.splice import splice_json

if TYPE_CHECKING:
    from codec.answer import ChatResponse
    from codec.cost import Cost
    from codec.jsontext import JsonObject
    from codec.usage import Usage

__all__ = (
    "AnsweredCall",
    "AnsweredChoice",
    "ResponseValues",
    "decode_response_values",
    "encode_response_values",
    "read_response_values",
)

_REASONING = ("reasoning_content", "reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredCall:
    """A tool call of an answer.

    Attributes:
        id: empty where there was none.
        name: what is called.
        arguments: parsed; text that is no JSON stands for itself, and without any they are an empty
            object (S4.13, S4.14).
    """

    id: str = ""
    name: str
    arguments: Any = field(default_factory=dict)
    extra: Members = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """Return the entry of ``tool_calls``."""
        text = self.arguments if isinstance(self.arguments, str) else compact_text(self.arguments)
        function = {"name": self.name, "arguments": text}
        return {"id": self.id, "function": function, **self.extra}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredChoice:
    """One choice of an answer.

    Attributes:
        index: its own.
        role: of the message.
        content: text or parts; ``None`` where there is neither. Of a legacy completion its text.
        reasoning: each text that came, by the name it came by.
        refusal: the refusal's text.
        tool_calls: ``None`` where the message has no list of them.
        function_call: the legacy single call.
        finish_reason: as on the wire.
        logprobs: as on the wire.
        extra: other members of the message.
        choice_extra: other members of the choice.
    """

    index: int = 0
    role: str | None = None
    content: str | tuple[ContentPart, ...] | None = None
    reasoning: Members = field(default_factory=dict)
    refusal: str | None = None
    tool_calls: tuple[AnsweredCall, ...] | None = None
    function_call: AnsweredCall | None = None
    finish_reason: str | None = None
    logprobs: Any = None
    is_completion: bool = False
    extra: Members = field(default_factory=dict)
    choice_extra: Members = field(default_factory=dict)

    @property
    def finish(self) -> str | None:
        """The finish reason, normalised (:func:`codec.finish.normalise_finish_reason`)."""
        return normalise_finish_reason(self.finish_reason)

    @property
    def text(self) -> str | None:
        """The text of the content, joined where it comes in parts."""
        if not isinstance(self.content, tuple):
            return self.content
        texts = [part.text for part in self.content if isinstance(part, TextPart)]
        return "".join(texts) or None

    def to_json(self) -> JsonObject:
        """Return the choice as OpenAI has it."""
        choice = put(
            {"index": self.index}, finish_reason=self.finish_reason, logprobs=self.logprobs
        ) | dict(self.choice_extra)
        if self.is_completion:
            return choice | put({}, text=self.content)
        content = self.content
        call = self.function_call
        message = put(
            {},
            role=self.role,
            content=[p.to_json() for p in content] if isinstance(content, tuple) else content,
            refusal=self.refusal,
            tool_calls=None if self.tool_calls is None else [c.to_json() for c in self.tool_calls],
            function_call=None if call is None else call.to_json()["function"],
            **self.reasoning,
        )
        return choice | {"message": message | dict(self.extra)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseValues:
    """What an answer says.

    Attributes:
        id: the answer's id.
        model: the model that answered.
        choices: sorted by index.
        usage: what was reported.
        cost: what was reported.
        api_specific: ``system_fingerprint``, ``service_tier`` and the first choice's ``logprobs``,
            as far as they are there (S4.16).
        extra: all other members, ``object`` and ``created`` among them.
    """

    id: str | None = None
    model: str | None = None
    choices: tuple[AnsweredChoice, ...] = ()
    usage: Usage | None = None
    cost: Cost | None = None
    api_specific: Members = field(default_factory=dict)
    extra: Members = field(default_factory=dict)

    @property
    def first(self) -> AnsweredChoice:
        """The first choice, an empty one where there is none."""
        return self.choices[0] if self.choices else AnsweredChoice()

    @property
    def message(self) -> str | None:
        """The first choice's text."""
        return self.first.text

    @property
    def tool_calls(self) -> tuple[AnsweredCall, ...] | None:
        """The first choice's calls."""
        return self.first.tool_calls

    @property
    def finish(self) -> str | None:
        """The first choice's finish reason, normalised."""
        return self.first.finish

    def to_json(self) -> JsonObject:
        """Return the answer as a ``chat.completion``."""
        tiers = {key: value for key, value in self.api_specific.items() if key != "logprobs"}
        members = put(
            {},
            id=self.id,
            model=self.model,
            choices=[choice.to_json() for choice in self.choices] or None,
            usage=None if self.usage is None else dict(self.usage.raw),
            **tiers,
        )
        return members | dict(self.extra)


def decode_response_values(body: bytes) -> ResponseValues:
    """Decode a plain body.

    Raises:
        MalformedResponse: it is no JSON object (S4.T4).
    """
    response = decode_response(body)
    return _read(response, object_of(response.body))


def read_response_values(response: ChatResponse) -> ResponseValues:
    """Read the values of an answer that was decoded or folded (rule 1)."""
    return _read(response, build_completion(response))


def encode_response_values(values: ResponseValues, original: bytes) -> bytes:
    """Encode an answer as a merge into the body it was decoded from (rule 3).

    Raises:
        MalformedResponse: the original is no JSON object.
        ValueError: the original is no JSON document of its own, or a value cannot be written.
    """
    before = decode_response_values(original)
    body = merge_changes(decode_json_object(original), before.to_json(), values.to_json())
    return splice_json(original, body)


def _read(response: ChatResponse, body: JsonObject) -> ResponseValues:
    listed = body.get("choices")
    entries = (
        [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    )
    choices = tuple(map(_read_choice, range(len(entries)), entries))
    api_specific: JsonObject = {
        name: body[name] for name in ("system_fingerprint", "service_tier") if name in body
    }
    if entries and entries[0].get("logprobs") is not None:
        api_specific["logprobs"] = entries[0]["logprobs"]
    return ResponseValues(
        id=response.id,
        model=response.model,
        choices=choices,
        usage=response.usage,
        cost=response.cost,
        api_specific=api_specific,
        extra=others(body, "choices", "usage", *api_specific, id=response.id, model=response.model),
    )


def _read_choice(position: int, choice: JsonObject) -> AnsweredChoice:
    index = choice.get("index")
    finish_reason = text_of(choice.get("finish_reason"))
    whole = choice.get("message")
    known: dict[str, Any] = {
        "index": index if type(index) is int else position,
        "finish_reason": finish_reason,
        "logprobs": choice.get("logprobs"),
    }
    if not isinstance(whole, dict) and isinstance(choice.get("text"), str):
        return AnsweredChoice(
            **known,
            content=choice["text"],
            is_completion=True,
            choice_extra=others(choice, "index", "text", "finish_reason", "logprobs"),
        )
    message = object_of(whole)
    content = message.get("content")
    calls, legacy = message.get("tool_calls"), message.get("function_call")
    reasoning = {n: message[n] for n in _REASONING if text_of(message.get(n)) is not None}
    return AnsweredChoice(
        **known,
        role=text_of(message.get("role")),
        content=tuple(map(decode_part, content)) if isinstance(content, list) else text_of(content),
        reasoning=reasoning,
        refusal=text_of(message.get("refusal")),
        tool_calls=_read_calls(calls) if isinstance(calls, list) else None,
        function_call=_read_call({"function": legacy}) if isinstance(legacy, dict) else None,
        extra=others(
            message, "role", "content", "refusal", "tool_calls", "function_call", *reasoning
        ),
        choice_extra=others(choice, "index", "message", "finish_reason", "logprobs"),
    )


def _read_calls(entries: list[Any]) -> tuple[AnsweredCall, ...]:
    calls = (_read_call(entry) for entry in entries)
    return tuple(call for call in calls if call is not None)


def _read_call(value: Any) -> AnsweredCall | None:
    entry = object_of(value)
    function = object_of(entry.get("function"))
    name = text_of(function.get("name"))
    if not name:
        return None
    return AnsweredCall(
        id=text_of(entry.get("id")) or "",
        name=name,
        arguments=_parse(function.get("arguments")),
        extra=others(entry, "id", "function"),
    )


def _parse(arguments: Any) -> Any:
    if arguments is None:
        return {}
    if not isinstance(arguments, str):
        return arguments
    try:
        return decode_json(arguments)
    except ValueError:
        return arguments
