"""A chat request as one value, and back to the bytes it came from.

:class:`codec.chat.request.ChatRequest` is the observer's cheap view of a body. Library users read
and change this value instead: everything has a name, it is immutable, and nothing is lost.

Rules:

1. Members that are not modelled, or have the wrong type, are in ``extra``.
2. Encoding is a merge into the original (``docs/contract/sources.md#s4-4``): everything that was
   not changed keeps its bytes, also messages that make no sense. Nothing is added.
3. If ``extra`` names a member that has a field, ``extra`` wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from codec.errors import MalformedRequest
from codec.text.integers import count_of
from codec.text.jsontext import decode_json_object
from codec.values._changes import merge_changes
from codec.values._members import Members, others, put
from codec.values.messages import ChatMessage, OtherMessage, decode_message
from codec.values.splice import splice_json
from codec.values.tools import ToolChoice, ToolDefinition, decode_tool, decode_tool_choice

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = (
    "GenerationParameters",
    "RequestValues",
    "decode_parameters",
    "decode_request_values",
    "encode_request_values",
)


_LIMITS = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationParameters:
    """The parameters of generation.

    Attributes:
        max_tokens: the limit of tokens, under either of its keys.
        max_tokens_key: that key, which is written back.
        stop: the stop sequences; one that came as a string is a tuple of one.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_tokens_key: str = "max_completion_tokens"
    stop: tuple[str, ...] | None = None

    def to_json(self) -> JsonObject:
        """Return the members of the request."""
        stop = None if self.stop is None else list(self.stop)
        return put(
            {},
            temperature=self.temperature,
            top_p=self.top_p,
            stop=stop,
            **{self.max_tokens_key: self.max_tokens},
        )


def decode_parameters(body: JsonObject) -> GenerationParameters | None:
    """Read the parameters; ``None`` if none is usable (``docs/contract/sources.md#s4-7``).

    A number may be of either JSON form; a limit is a non-negative integer, and
    ``max_completion_tokens`` comes before ``max_tokens``.
    """
    limits = [(key, body[key]) for key in _LIMITS if _is_limit(body.get(key))]
    key, limit = limits[0] if limits else (_LIMITS[0], None)
    parameters = GenerationParameters(
        temperature=_number(body.get("temperature")),
        top_p=_number(body.get("top_p")),
        max_tokens=limit,
        max_tokens_key=key,
        stop=_stop(body.get("stop")),
    )
    return parameters if parameters.to_json() else None


def _is_limit(value: Any) -> bool:
    return isinstance(value, int) and count_of(value) is not None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or isfinite(value) else None


def _stop(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None


_CONTROLS: dict[str, type | tuple[type, ...]] = {
    "stream": bool,
    "store": bool,
    "user": str,
    "metadata": dict,
    "service_tier": str,
    "parallel_tool_calls": bool,
    "top_logprobs": int,
}
"""Members that have a field, and their types (``docs/contract/sources.md#s4-t9``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestValues:
    """The values of a chat request.

    Attributes:
        model: ``None`` if it is absent or not a string.
        messages: the messages in order; empty if there are none.
        params: ``None`` if none of them is usable.
        tools: ``None`` if there is no list of them.
        tool_choice: ``None`` if absent.
        extra: all other members (rule 1).
    """

    model: str | None = None
    messages: tuple[ChatMessage | OtherMessage, ...] = ()
    params: GenerationParameters | None = None
    tools: tuple[ToolDefinition, ...] | None = None
    tool_choice: ToolChoice | None = None
    stream: bool | None = None
    store: bool | None = None
    user: str | None = None
    metadata: Members | None = None
    service_tier: str | None = None
    parallel_tool_calls: bool | None = None
    top_logprobs: int | None = None
    extra: Members = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """Return the request as OpenAI has it."""
        members = put(
            {},
            model=self.model,
            messages=[message.to_json() for message in self.messages] or None,
            tools=None if self.tools is None else [tool.to_json() for tool in self.tools],
            tool_choice=None if self.tool_choice is None else self.tool_choice.to_json(),
            **{name: getattr(self, name) for name in _CONTROLS},
        )
        params = {} if self.params is None else self.params.to_json()
        return members | params | dict(self.extra)


def decode_request_values(body: bytes) -> RequestValues:
    """Decode a request body.

    Raises:
        MalformedRequest: it is not a JSON object, ``messages`` or ``tools`` is not a list, or
            ``tool_choice`` has no known form (``docs/contract/sources.md#s4-10``).
    """
    try:
        members = decode_json_object(body)
    except ValueError as error:
        raise MalformedRequest(f"request body: {error}") from error
    return _read(members)


def encode_request_values(values: RequestValues, original: bytes) -> bytes:
    """Encode a request as a merge into the body it was decoded from (rule 2).

    Raises:
        MalformedRequest: as :func:`decode_request_values`, for the original.
        ValueError: a value cannot be written as JSON.
    """
    before = decode_request_values(original)
    body = merge_changes(decode_json_object(original), before.to_json(), values.to_json())
    return splice_json(original, body)


def _read(members: JsonObject) -> RequestValues:
    messages, tools = _list(members, "messages"), _list(members, "tools")
    model = members.get("model")
    params = decode_parameters(members)
    controls: dict[str, Any] = {
        name: value
        for name, kind in _CONTROLS.items()
        if isinstance(value := members.get(name), kind)
        and (kind is bool or not isinstance(value, bool))
    }
    read: dict[str, Any] = {
        "model": model if isinstance(model, str) else None,
        "messages": messages,
        "tools": tools,
        "tool_choice": decode_tool_choice(members.get("tool_choice")),
        **controls,
        **({} if params is None else params.to_json()),
    }
    return RequestValues(
        model=read["model"],
        messages=tuple(map(decode_message, messages or ())),
        params=params,
        tools=None if tools is None else tuple(map(decode_tool, tools)),
        tool_choice=read["tool_choice"],
        **controls,
        extra=others(members, **read),
    )


def _list(members: JsonObject, name: str) -> list[Any] | None:
    value = members.get(name)
    if value is not None and not isinstance(value, list):
        raise MalformedRequest(f"{name} is not a list")
    return value
