"""What the demo upstream says: from a request to its answers, without any wire format.

Rules:

1. Nothing is random: the same request always gets the same answers.
2. The first that applies decides what is said: the model ``gpt-demo-endless`` counts aloud; a
   last message that is a tool result is summed up; a question that holds one of
   :data:`REFUSED_PHRASES` is refused; offered tools are called, two calls at once; anything else
   gets a short friendly text, another one for each choice of ``n``.
3. A token is a word together with the white space before it, and one delta carries one token.
   So an answer has as many completion tokens as deltas, and ``max_tokens`` cuts the list of deltas.
4. Prompt tokens are the words of every string inside ``messages`` and ``tools``; those of a
   leading system message count as cached.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.jsontext import JsonObject

__all__ = (
    "ENDLESS_MODEL",
    "ERROR_MODEL",
    "MAX_CHOICES",
    "MAX_ENDLESS_NUMBER",
    "MODEL",
    "REFUSED_PHRASES",
    "Answer",
    "answer_request",
    "count_cached_tokens",
    "count_prompt_tokens",
)

MODEL = "gpt-demo"
"""The model that answers; any unknown name answers like it."""

ENDLESS_MODEL = "gpt-demo-endless"
"""The model whose answer is meant to be abandoned."""

ERROR_MODEL = "gpt-demo-error"
"""The model that is always over its rate limit."""

MAX_ENDLESS_NUMBER = 2_000
"""Where the endless model stops: half a minute at the default pace, so no demo hangs for ever."""

MAX_CHOICES = 128
"""The largest ``n``: OpenAI's own limit."""

MAX_QUOTED_CHARACTERS = 200
"""How much of one tool result is repeated: enough for a demo, and a short answer stays short."""

REFUSED_PHRASES = ("pick a lock", "break into")
"""What the demo upstream refuses to talk about."""

_REFUSAL = "I'm sorry, but I can't help with getting into places that are not yours."
_GREETINGS = (
    "Hello! I am a demo model on your own machine. I never leave it, and I cost nothing.",
    "Good day! Every word of mine is scripted, but it travels as a real model's would.",
    "Welcome! Ask me for the weather with a tool, and I shall call it twice at once.",
)
_SAMPLES: Mapping[str, Sequence[Any]] = {
    "string": ("Lisbon", "Oslo"),
    "integer": (1, 2),
    "number": (1.5, 2.5),
    "boolean": (True, False),
    "array": ([], []),
    "object": ({}, {}),
}
"""One argument value for each of the two calls, by the parameter's JSON Schema type."""

_WORD = re.compile(r"\s*\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One choice of the answer.

    Attributes:
        opening: the first delta, which names the role and carries no token.
        deltas: one per completion token, in the shape of ``choices[].delta``.
        finish_reason: ``stop``, ``tool_calls``, or ``length`` where ``max_tokens`` cut it.
    """

    opening: JsonObject
    deltas: tuple[JsonObject, ...]
    finish_reason: str


def answer_request(request: JsonObject) -> tuple[Answer, ...]:
    """The answers to a chat completion request, one for each of its ``n`` choices (rule 2)."""
    return tuple(_answer_choice(request, index) for index in range(request.get("n") or 1))


def count_prompt_tokens(request: JsonObject) -> int:
    """The words of every string inside the messages and tools (rule 4)."""
    texts = _strings([request.get("messages"), request.get("tools")])
    return sum(len(text.split()) for text in texts)


def count_cached_tokens(request: JsonObject) -> int:
    """The words of a leading system message, as though a prompt cache held them (rule 4)."""
    first = request["messages"][0]
    return len(_text_of(first).split()) if first.get("role") == "system" else 0


def _answer_choice(request: JsonObject, index: int) -> Answer:
    messages = request["messages"]
    question = _text_of(messages[-1])
    if request.get("model") == ENDLESS_MODEL:
        answer = _say(" ".join(str(number) for number in range(1, MAX_ENDLESS_NUMBER + 1)))
    elif messages[-1].get("role") == "tool":
        answer = _say(_sum_up(messages))
    elif any(phrase in question.lower() for phrase in REFUSED_PHRASES):
        answer = _refuse(_REFUSAL)
    elif request.get("tools") and request.get("tool_choice") != "none":
        calls = 1 if request.get("parallel_tool_calls") is False else 2
        answer = _call_tools(request["tools"], calls, choice=index)
    else:
        answer = _say(_GREETINGS[index % len(_GREETINGS)])
    return _cut(answer, request.get("max_completion_tokens") or request.get("max_tokens"))


def _say(text: str) -> Answer:
    opening = {"role": "assistant", "content": "", "refusal": None}
    deltas = tuple({"content": word} for word in _WORD.findall(text))
    return Answer(opening=opening, deltas=deltas, finish_reason="stop")


def _refuse(text: str) -> Answer:
    opening = {"role": "assistant", "content": None, "refusal": ""}
    deltas = tuple({"refusal": word} for word in _WORD.findall(text))
    return Answer(opening=opening, deltas=deltas, finish_reason="stop")


def _call_tools(tools: Sequence[Any], count: int, *, choice: int) -> Answer:
    """Call the offered functions in turn; a single one is called again with other arguments."""
    deltas: list[JsonObject] = []
    for index in range(count):
        function = tools[index % len(tools)]["function"]
        head = {"name": function["name"], "arguments": ""}
        call_id = f"call_demo_{choice}_{index}"
        deltas.append(_call_delta(index, {"id": call_id, "type": "function", "function": head}))
        arguments = json.dumps(_sample_arguments(function.get("parameters"), index))
        deltas += [
            _call_delta(index, {"function": {"arguments": piece}})
            for piece in _WORD.findall(arguments)
        ]
    opening = {"role": "assistant", "content": None}
    return Answer(opening=opening, deltas=tuple(deltas), finish_reason="tool_calls")


def _call_delta(index: int, members: JsonObject) -> JsonObject:
    return {"tool_calls": [{"index": index, **members}]}


def _sample_arguments(schema: Any, call: int) -> JsonObject:
    """Arguments for the parameters that a function's JSON Schema lists."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: _sample(member, call) for name, member in properties.items()}


def _sample(schema: Any, call: int) -> Any:
    """A value of the schema's ``enum`` or ``type``; a string where neither is simply said."""
    members = schema if isinstance(schema, dict) else {}
    enum, kind = members.get("enum"), members.get("type")
    if isinstance(enum, list) and enum:
        return enum[call % len(enum)]
    return _SAMPLES.get(kind if isinstance(kind, str) else "string", _SAMPLES["string"])[call]


def _cut(answer: Answer, max_tokens: int | None) -> Answer:
    """Keep the first ``max_tokens`` deltas (rule 3)."""
    if max_tokens is None or len(answer.deltas) <= max_tokens:
        return answer
    return replace(answer, deltas=answer.deltas[:max_tokens], finish_reason="length")


def _sum_up(messages: Sequence[JsonObject]) -> str:
    """Repeat the tool results that came since the last message that was not one."""
    results: list[str] = []
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        results.append(_text_of(message)[:MAX_QUOTED_CHARACTERS])
    return f"This is what the tools told me: {'; '.join(reversed(results))}."


def _text_of(message: JsonObject) -> str:
    """The text of a message, whether its content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return " ".join(text for text in texts if isinstance(text, str))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list):
        for member in value:
            yield from _strings(member)
