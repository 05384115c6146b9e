"""The script of the demo upstream: from a request to its answers, without any wire format.

Nothing is random: the same request always gets the same answers. The script knows the record
(:mod:`codec.asked`) and no API; ``docs/demo-upstream.md`` has its rules for users.

A token is a word with the white space before it, and a delta has one token. So an answer has as
many completion tokens as deltas.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from codec.apis.player import Script
from codec.generator import Answer, CallFragment, Delta, TokenLogprob
from proxy.demo.directions import find_place, is_answer, is_result, restore_answers, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from codec.asked import Asked, Tool
    from codec.parts import Message
    from codec.text.jsontext import JsonObject
    from proxy.demo.directions import Place

MODEL = "gpt-demo"
"""The model that answers; any unknown name answers like it."""

ENDLESS_MODEL = "gpt-demo-endless"
"""The model whose answer a client should abandon."""

REASONING_MODEL = "gpt-demo-reasoning"
"""The model that thinks before it answers."""

ERROR_MODEL = "gpt-demo-error"
"""The model that is always over its rate limit."""

FAILING_MODEL = "gpt-demo-failing"
"""The model that fails in the middle of its answer."""

MODELS = (MODEL, REASONING_MODEL, ENDLESS_MODEL, ERROR_MODEL, FAILING_MODEL)

MAX_ENDLESS_NUMBER = 2_000
"""The number at which the endless model stops: after half a minute at the default pace, so that no
demo hangs for ever."""

MAX_QUOTED_CHARACTERS = 200
"""How much of one tool result is repeated: enough for a demo, and a short answer stays short."""

MAX_SAMPLED_TOOLS = 3
"""The most tools that an example offers. A client that offers more is an agent, and its tools do
something: they are called only if directions say so."""

REFUSED_PHRASES = ("pick a lock", "break into")
"""Phrases in a question that the demo upstream refuses to answer."""

_REFUSAL = "I'm sorry, but I can't help with getting into places that are not yours."
_GREETINGS = (
    "Hello! I am a demo model on your own machine. I never leave it, and I cost nothing.",
    "Good day! Every word of mine is scripted, but it travels as a real model's would.",
    "Welcome! Ask me for the weather with a tool, and I shall call it twice at once.",
)
_THOUGHTS = "The user wants an answer. It should be short and friendly."
_SAMPLES: Mapping[str, Sequence[Any]] = {
    "string": ("Lisbon", "Oslo"),
    "integer": (1, 2),
    "number": (1.5, 2.5),
    "boolean": (True, False),
    "array": ([], []),
    "object": ({}, {}),
}
"""One argument value for each of the two calls, by the parameter's JSON Schema type."""

_CALLED = frozenset({"function", "custom"})
"""Tools that the client runs; a provider would run all others."""

_WORD = re.compile(r"\s*\S+(?:\s+\Z)?")


def write_script(asked: Asked, *, answer_id: str, created: int) -> Script:
    """Write the answers to a valid request; `created` in seconds since the epoch.

    A request without messages is answered like a question. Prompt tokens are the words of every
    string in the members that are content; those of a leading system message count as cached.
    """
    messages = restore_answers([*asked.read_messages()])
    is_cached = bool(messages) and messages[0].role == "system"
    return Script(
        answers=tuple([_answer(asked, messages, index) for index in range(asked.choice_count)]),
        prompt_tokens=_count_words([asked.body.get(name) for name in asked.content_members]),
        cached_tokens=len(text_of(messages[0]).split()) if is_cached else 0,
        answer_id=answer_id,
        created=created,
    )


def _answer(asked: Asked, messages: Sequence[Message], index: int) -> Answer:
    """Answer one choice, cut and with its logprobs."""
    options = asked.options
    answer = _answer_choice(asked, messages, index)
    if options.get("reasoning_effort") not in {None, "none"} or asked.model == REASONING_MODEL:
        answer = _think(answer) if messages else answer
    # A chat says whether it wants them and how many; a legacy completion only how many.
    wanted = options.get("logprobs")
    if isinstance(wanted, bool):
        wanted = options.get("top_logprobs") or 0 if wanted else None
    return _with_logprobs(_cut(options, answer), wanted)


def _answer_choice(asked: Asked, messages: Sequence[Message], index: int) -> Answer:
    """Answer one choice by the first condition that applies.

    Offered tools are called, two calls at once, unless they are many or in a namespace: then they
    are an agent's. Each choice of ``n`` gets another friendly text.
    """
    options, last = asked.options, messages[-1] if messages else None
    if asked.model == ENDLESS_MODEL:
        return _say(_count_aloud())
    if asked.model == FAILING_MODEL:
        half = _say(_GREETINGS[0]).deltas[:6]
        return Answer(deltas=half, finish_reason="error")
    tools = _list_tools(asked)
    place = find_place(messages, {tool.name for tool in tools})
    tools = [tool for tool in tools if tool.namespace is None]
    if place is not None:
        return _answer_directed(place, index, _count_calls(messages))
    if last is not None and is_result(last):
        return _say(_sum_up(_last_results(messages)))
    question = text_of(last).lower() if last is not None else ""
    if any(phrase in question for phrase in REFUSED_PHRASES):
        return Answer(deltas=tuple(Delta(refusal=word) for word in _WORD.findall(_REFUSAL)))
    if 0 < len(tools) <= MAX_SAMPLED_TOOLS:
        calls = 1 if options.get("parallel_tool_calls") is False else 2
        return _call(_sample_calls(tools, calls, choice=index, first=_count_calls(messages)))
    return _say(_GREETINGS[index % len(_GREETINGS)])


def _list_tools(asked: Asked) -> Sequence[Tool]:
    """List the tools that a demo may call."""
    if asked.options.get("tool_choice") == "none":
        return ()
    return [tool for tool in asked.read_tools() if tool.name and tool.type in _CALLED]


def _count_calls(messages: Iterable[Message]) -> int:
    """Count the calls that were made so far: each needs a new id, or agents refuse it."""
    return sum([len(message.tool_calls) for message in messages if is_answer(message)])


def _answer_directed(place: Place, choice: int, number: int) -> Answer:
    """Follow the next directions, or sum up after the last one; the first call has this number."""
    if place.next is None:
        return _say(_sum_up(place.results))
    if place.next[0].tool is None:
        return _say(place.next[0].text)
    called = enumerate(place.next, number)
    return _call([(f"call_demo_{choice}_{at}", one.tool, one.text) for at, one in called])


def _count_words(value: Any) -> int:
    return sum(len(text.split()) for text in _strings(value))


def _think(answer: Answer) -> Answer:
    """Reason before the answer. These tokens count, whether or not the dialect shows them."""
    thoughts = tuple(Delta(reasoning=word) for word in _WORD.findall(_THOUGHTS))
    return replace(answer, deltas=thoughts + answer.deltas)


def _count_aloud() -> str:
    return " ".join(str(number) for number in range(1, MAX_ENDLESS_NUMBER + 1))


def _say(text: str) -> Answer:
    return Answer(deltas=tuple(Delta(content=word) for word in _WORD.findall(text)))


def _call(calls: Iterable[tuple[str, str | None, str]]) -> Answer:
    """Make calls; each has an id, the tool's name, and arguments."""
    fragments: list[CallFragment] = []
    for index, (call_id, name, arguments) in enumerate(calls):
        fragments.append(CallFragment(index=index, id=call_id, name=name))
        pieces = _WORD.findall(arguments)
        fragments += [CallFragment(index=index, arguments=piece) for piece in pieces]
    deltas = tuple(Delta(call=fragment) for fragment in fragments)
    return Answer(deltas=deltas, finish_reason="tool_calls")


def _sample_calls(
    tools: Sequence[Tool], count: int, *, choice: int, first: int
) -> Iterator[tuple[str, str | None, str]]:
    """Call the offered functions in turn; a single one is called again with other arguments."""
    for index in range(count):
        tool = tools[index % len(tools)]
        arguments = json.dumps(_sample_arguments(tool.parameters, index))
        yield f"call_demo_{choice}_{first + index}", tool.name, arguments


def _with_logprobs(answer: Answer, alternatives: int | None) -> Answer:
    """Give each token of text its logprob and so many alternatives, if the request wants them."""
    if alternatives is None:
        return answer
    return replace(
        answer, deltas=tuple(_with_logprob(delta, alternatives) for delta in answer.deltas)
    )


def _with_logprob(delta: Delta, alternatives: int) -> Delta:
    text = delta.content or delta.refusal
    return delta if text is None else replace(delta, logprobs=(_logprob(text, alternatives),))


def _logprob(token: str, alternatives: int) -> TokenLogprob:
    """Make a short token more likely than a long one, and alternatives less likely than both."""
    logprob = -len(token) / 100
    # The chosen token is one of them, as :mod:`codec.generator` requires.
    others = tuple((f"{token}{number}", logprob - number) for number in range(1, alternatives))
    return TokenLogprob(token=token, logprob=logprob, alternatives=others if alternatives else None)


def _sample_arguments(schema: Any, call: int) -> JsonObject:
    """Make arguments for the parameters that a function's JSON Schema lists."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: _sample(member, call) for name, member in properties.items()}


def _sample(schema: Any, call: int) -> Any:
    """Pick a value of the schema's ``enum`` or ``type``; a string if it has neither."""
    members = schema if isinstance(schema, dict) else {}
    enum, kind = members.get("enum"), members.get("type")
    if isinstance(enum, list) and enum:
        return enum[call % len(enum)]
    return _SAMPLES.get(kind if isinstance(kind, str) else "string", _SAMPLES["string"])[call]


def _cut(options: Mapping[str, Any], answer: Answer) -> Answer:
    """Keep the first ``max_tokens`` deltas, each of which is one token."""
    max_tokens = options.get("max_completion_tokens") or options.get("max_tokens")
    if max_tokens is None or len(answer.deltas) <= max_tokens:
        return answer
    return replace(answer, deltas=answer.deltas[:max_tokens], finish_reason="length")


def _last_results(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the tool results at the end of the messages, in their order."""
    return [*takewhile(is_result, reversed(messages))][::-1]


def _sum_up(results: Sequence[Message]) -> str:
    """Repeat the results of tools."""
    texts = [text_of(message)[:MAX_QUOTED_CHARACTERS] for message in results]
    return f"This is what the tools told me: {'; '.join(texts)}."


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list):
        for member in value:
            yield from _strings(member)
