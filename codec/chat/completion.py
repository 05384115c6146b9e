"""The answer as one complete ``chat.completion`` (``docs/contract/sources.md#s4-19``).

:attr:`codec.chat.answer.ChatResponse.body` is what the client received. For a stream these are the
accumulated chunks, as an instrumentor in the client's process would have them
(``docs/contract/spans.md#accumulated-object``). This module builds the same answer as it looks
without streaming, with the members that OpenAI's reference requires.

A stream and a plain body with the same answer give equal objects, except for the order of members:
both go through one fold, within its limits (:mod:`codec.chat.accumulator`). Unknown members are
kept; members that only streams have (``obfuscation``, the ``index`` of tool calls) are not. A value
that is not a choice or a call, but stands in the place of one, is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.chat.answer import whole_object
from codec.chat.response import fold_body
from codec.members import text_of

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse
    from codec.text.jsontext import JsonObject

__all__ = ("build_completion", "fold_completion")

_NO_FUNCTION: JsonObject = {"name": "", "arguments": ""}
_NO_CUSTOM: JsonObject = {"name": "", "input": ""}
_OF_STREAMS = frozenset({"obfuscation", "p"})  # padding of OpenAI and of Mistral


def build_completion(response: ChatResponse) -> JsonObject:
    """Build the form of an answer without streaming; the answer itself is not changed.

    A role that never came is ``assistant``; content or a finish reason that never came is null. A
    call has an id, a type, a name and argument text, each of them empty if it never came. Every
    other member that never came, or came as null, is absent. The usage is the answer's, also if its
    event was hidden from the client.

    A choice with ``text`` and no message belongs to a legacy completion, unless the text is empty
    and ``object`` says that this is a chat: Together's chunks have ``text`` beside an empty delta.
    """
    body = fold_completion(response)
    for choice in body["choices"]:
        message = choice.get("message", {})
        if "tool_calls" in message:
            message["tool_calls"] = [*map(_whole_call, message["tool_calls"])]
        if "function_call" in message:
            message["function_call"] = _NO_FUNCTION | message["function_call"]
    return body


def fold_completion(response: ChatResponse) -> JsonObject:
    """Build the same, but leave out the members of calls that never came."""
    folded = fold_body(dict(response.body)).body
    body = {key: value for key, value in folded.items() if key not in _OF_STREAMS}
    name = text_of(body.get("object")) or ""
    body["object"] = whole_object(name) or "chat.completion"
    for key in ("id", "model", "created", "system_fingerprint", "service_tier"):
        if (value := getattr(response, key)) is not None:
            body[key] = value
    is_chat = name.startswith("chat.")
    body["choices"] = [_whole(choice, is_chat=is_chat) for choice in body.get("choices", ())]
    if response.usage is not None:
        body["usage"] = dict(response.usage.raw)
    return body


def _whole(choice: JsonObject, *, is_chat: bool) -> JsonObject:
    whole = {"index": choice["index"], "finish_reason": None} | choice
    if "text" in choice and "message" not in choice and (choice["text"] or not is_chat):
        return whole
    message = {"role": "assistant", "content": None} | choice.get("message", {})
    if "tool_calls" in message:
        message["tool_calls"] = [_without_index(call) for call in message["tool_calls"]]
    return whole | {"message": message}


def _without_index(call: JsonObject) -> JsonObject:
    return {key: member for key, member in call.items() if key != "index"}


def _whole_call(call: JsonObject) -> JsonObject:
    is_custom = "custom" in call and "function" not in call
    kind, nothing = ("custom", _NO_CUSTOM) if is_custom else ("function", _NO_FUNCTION)
    return {"id": "", "type": kind} | call | {kind: nothing | call.get(kind, {})}
