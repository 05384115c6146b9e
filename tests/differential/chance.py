"""Calls made by chance, the same in every run."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.differential.answers import call_tools, plain_body, say, stream_events, think
from tests.differential.calls import EVENTS, Call
from tests.differential.request_shapes import WEATHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.generator import Answer
    from codec.text.jsontext import JsonObject

__all__ = ("draw_calls",)

_WORDS = ("ahoy", " ", "", "🌊", "é", "\n", '"quoted"', "\\", "{}", "x" * 300, "\0", "日本")
_MEMBERS: dict[str, tuple[Any, ...]] = {
    "temperature": (0, 0.7, 2),
    "n": (1, 2, 3),
    "stop": ("x", ["a", "b"], None),
    "user": ("u", ""),
    "seed": (0, 2**53),
    "tools": ([], [WEATHER], [WEATHER, WEATHER]),
    "tool_choice": ("auto", "none", {"type": "function", "function": {"name": "f"}}),
    "response_format": ({"type": "text"}, {"type": "json_object"}),
    "metadata": ({}, {"a": "b"}),
    "logit_bias": ({}, {"1": 1}),
}


def draw_calls(count: int) -> Iterator[Call]:
    """So many chats, plain and streamed."""
    dice = random.Random(count)
    return (_draw_call(dice, f"chance {number}") for number in range(count))


def _draw_call(dice: random.Random, name: str) -> Call:
    body: JsonObject = {
        "model": dice.choice(("gpt-4o-mini", "m-1")),
        "messages": [_draw_message(dice) for _ in range(dice.randrange(1, 6))],
    }
    for member, values in _MEMBERS.items():
        if dice.random() < 0.2:
            body[member] = dice.choice(values)
    answers = [_draw_answer(dice) for _ in range(dice.randrange(1, 4))]
    if dice.random() < 0.4:
        return Call(id=name, body=body, answer=plain_body(*answers))
    body["stream"] = True
    if dice.random() < 0.6:
        body["stream_options"] = {"include_usage": True}
    return Call(id=name, body=body, answer=b"".join(stream_events(*answers)), head=EVENTS)


def _draw_text(dice: random.Random) -> str:
    return "".join(dice.choices(_WORDS, k=dice.randrange(5)))


def _draw_message(dice: random.Random) -> JsonObject:
    role = dice.choice(("system", "developer", "user", "assistant", "tool"))
    content = dice.choice((_draw_text(dice), None, _draw_parts(dice)))
    message: JsonObject = {"role": role, "content": content}
    if dice.random() < 0.2:
        message["name"] = _draw_text(dice)
    if role == "tool":
        message["tool_call_id"] = _draw_text(dice)
    if role == "assistant" and dice.random() < 0.5:
        message["tool_calls"] = [_draw_call_of_tool(dice) for _ in range(dice.randrange(4))]
    return message


def _draw_call_of_tool(dice: random.Random) -> JsonObject:
    function = {"name": _draw_text(dice), "arguments": _draw_text(dice)}
    return {"id": _draw_text(dice), "type": "function", "function": function}


def _draw_parts(dice: random.Random) -> list[JsonObject]:
    kinds: tuple[JsonObject, ...] = (
        {"type": "text", "text": _draw_text(dice)},
        {"type": "image_url", "image_url": {"url": f"https://x.example/{_draw_text(dice)}"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "mp3"}},
    )
    return dice.choices(kinds, weights=(4, 3, 1), k=dice.randrange(4))


def _draw_answer(dice: random.Random) -> Answer:
    text = say(_draw_text(dice), dice.choice(("stop", "length", "content_filter")))
    tools = [("f", _draw_text(dice)) for _ in range(dice.randrange(1, 4))]
    answer = dice.choice((text, call_tools(*tools), call_tools(*tools, text=_draw_text(dice))))
    return think(_draw_text(dice), answer) if dice.random() < 0.3 else answer
