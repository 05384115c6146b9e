"""Messages and other members of requests, of all shapes that the SDK sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("MEMBERS", "MESSAGES", "WEATHER")

WEATHER: JsonObject = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": True,
    },
}
"""A tool."""

_PNG = "data:image/png;base64,"
_CALL: JsonObject = {"id": "call_1", "type": "function"}


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _image(url: str, **members: str) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": url, **members}}


def _function_call(arguments: str) -> JsonObject:
    call = {"name": "get_weather", "arguments": arguments}
    return {"role": "assistant", "content": None, "function_call": call}


MESSAGES: dict[str, JsonObject] = {
    "system": {"role": "system", "content": "Be brief."},
    "developer": {"role": "developer", "content": "Be brief.", "name": "captain"},
    "empty content": {"role": "user", "content": ""},
    "no content": {"role": "assistant"},
    "null content": {"role": "assistant", "content": None, "refusal": "No."},
    "NUL, emoji, newlines": {"role": "user", "content": "a\0b\n\r\t\u2028 🏴‍☠️ \U0010ffff é"},
    "text parts": {"role": "user", "content": [_text("Look"), _text("")]},
    "images": {
        "role": "user",
        "content": [
            _text("What is it?"),
            _image("https://x.example/a.png", detail="low"),
            _image(_PNG + "iVBORw0KGgo="),
            {"type": "image_url", "image_url": "https://x.example/bare.png"},
            _image(""),
        ],
    },
    "an image beyond the limit": {"role": "user", "content": [_image(_PNG + "A" * 40_000)]},
    "audio and file parts": {
        "role": "user",
        "content": [
            _text("Listen"),
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {"type": "file", "file": {"file_id": "file-1", "filename": "log.pdf"}},
            {"type": "refusal", "refusal": "No."},
            _text("and look"),
        ],
    },
    "a list of texts": {"role": "user", "content": ["one", "zwei 🌊", {"type": "text"}]},
    "an empty list": {"role": "user", "content": []},
    "a text part without text": {"role": "user", "content": [{"type": "text"}]},
    "tool calls": {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            _CALL | {"function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}},
            _CALL | {"id": "call_2", "function": {"name": "get_weather", "arguments": "no JSON {"}},
            _CALL | {"id": "", "function": {"name": "", "arguments": ""}},
            {"id": "call_3", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
        ],
    },
    "no tool calls": {"role": "assistant", "content": "No.", "tool_calls": []},
    "tool result": {"role": "tool", "tool_call_id": "call_1", "content": "12 °C"},
    "tool result in parts": {"role": "tool", "tool_call_id": "", "content": [_text("12 °C")]},
    "function call": _function_call('{"city": "Oslo"}'),
    "function call without arguments": _function_call(""),
    "function call, arguments no JSON": _function_call('{"city": '),
    "function result": {"role": "function", "name": "get_weather", "content": "12 °C"},
    "unknown members": {"role": "user", "content": "Hm", "cache_control": {"type": "ephemeral"}},
}
"""Messages by what is special."""

MEMBERS: dict[str, JsonObject] = {
    "sampling": {
        "temperature": 0.5,
        "top_p": 1,
        "frequency_penalty": 0,
        "presence_penalty": -0.5,
        "seed": 7,
        "max_tokens": 64,
        "stop": ["\n\n", "END"],
        "logit_bias": {"50256": -100},
    },
    "many members": {
        "max_completion_tokens": 64,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
        "service_tier": "auto",
        "store": True,
        "parallel_tool_calls": False,
        "modalities": ["text"],
        "prediction": {"type": "content", "content": "Good"},
        "verbosity": "low",
        "stream": False,
    },
    "nulls": {"temperature": None, "stop": None, "user": None, "tools": None},
    "who": {
        "user": "u-1",
        "metadata": {"session_id": "s-1", "tags": "a", "voyage": "7"},
        "safety_identifier": "safe-1",
        "prompt_cache_key": "key-1",
    },
    "tools": {
        "tools": [
            WEATHER,
            {"type": "function", "function": {"name": "bare"}},
            {"type": "custom", "custom": {"name": "sh", "description": "Runs it."}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    },
    "no tools": {"tools": []},
    "functions": {
        "functions": [{"name": "get_weather", "parameters": {}}],
        "function_call": "auto",
    },
    "beyond the SDK": {"top_k": 40, "repetition_penalty": 1.1, "thinking": {"type": "enabled"}},
    "no messages": {"messages": []},
}
"""Other members of chat requests, likewise."""
