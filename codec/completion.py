"""The answer as one complete ``chat.completion`` object, however it arrived (``seeds.md`` S4.19).

:attr:`codec.answer.ChatResponse.body` is what the client received: of a stream, the accumulated
chunks as an instrumentor in the client's process would have them (``span-contract.md`` 1.5). Here
is what the same answer looks like unstreamed, with the members that OpenAI's reference requires.

Rules:

1. A stream and a plain body with the same answer give equal objects, but for the order of members
   (N3).
2. A role that never came is ``assistant``, content that never came is null, and so is a finish
   reason (S1.3). All else that never came is absent.
3. Nothing unknown is lost, and nothing of the stream's own remains (``obfuscation``; the ``index``
   of tool calls).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codec.answer import ChatResponse
    from codec.jsontext import JsonObject

__all__ = ("build_completion",)

_OF_STREAMS = frozenset({"obfuscation", "p"})  # padding of OpenAI and of Mistral
_OBJECTS = {
    "chat.completion.chunk": "chat.completion",
    "text_completion.chunk": "text_completion",
}


def build_completion(response: ChatResponse) -> JsonObject:
    """Build the unstreamed form of an answer; the answer itself is not changed.

    The usage is that of the answer, also where its event was hidden from the client.
    """
    body = {key: value for key, value in response.body.items() if key not in _OF_STREAMS}
    name = body.get("object")
    body["object"] = (
        _OBJECTS.get(name, name) if isinstance(name, str) and name else ("chat.completion")
    )
    for key in ("id", "model", "created", "system_fingerprint", "service_tier"):
        if (value := getattr(response, key)) is not None:
            body[key] = value
    choices = body.get("choices")
    body["choices"] = [
        _choice(choice, position)
        for position, choice in enumerate(choices if isinstance(choices, list) else [])
        if isinstance(choice, dict)
    ]
    if response.usage is not None:
        body["usage"] = dict(response.usage.raw)
    return body


def _choice(choice: JsonObject, position: int) -> JsonObject:
    whole = {"index": position, "finish_reason": None} | choice
    if "text" in whole and "message" not in whole:
        return whole
    return whole | {"message": _message(whole.get("message"))}


def _message(value: Any) -> JsonObject:
    message = value if isinstance(value, dict) else {}
    whole: JsonObject = {"role": "assistant", "content": None} | message
    whole["role"] = whole["role"] or "assistant"
    calls = whole.get("tool_calls")
    if isinstance(calls, list):
        whole["tool_calls"] = [_call(call) for call in calls]
    return whole


def _call(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: member for key, member in value.items() if key != "index"}
