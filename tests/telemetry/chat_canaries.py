"""Canaries in the fields of chats, of old completions and of embeddings, and in their errors."""

from __future__ import annotations

from typing import Any

from tests.telemetry.canaries import IMAGE_URL, body, plant

ASKED: dict[str, Any] = {
    "model": "m-1",
    "messages": [
        {"role": "system", "content": plant("system")},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": plant("part")},
                {"type": "image_url", "image_url": {"url": IMAGE_URL}},
                {"type": "input_audio", "input_audio": {"data": plant("audio"), "format": "mp3"}},
                {"type": "file", "file": {"file_data": f"data:x;base64,{plant('file')}"}},
                {"type": "unheard_of", "unheard_of": plant("oddpart")},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": plant("thought"),
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "f", "arguments": f'{{"q": "{plant("arguments")}"}}'},
                }
            ],
            "function_call": {"name": "f", "arguments": f'{{"q": "{plant("oldarguments")}"}}'},
        },
        {"role": "tool", "tool_call_id": "call_1", "content": plant("result")},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": plant("toolname"),
                "description": plant("description"),
                "parameters": {"type": "object", "title": plant("schema")},
            },
        }
    ],
    "functions": [{"name": plant("function")}],
    "tool_choice": {"type": "function", "function": {"name": plant("chosen")}},
    "function_call": {"name": plant("chosenfunction")},
    "response_format": {"type": "json_schema", "json_schema": {"name": plant("format")}},
    "stop": [plant("stop")],
    "user": plant("user"),
    "metadata": {"k": plant("metadata"), "session_id": plant("session")},
    "prompt_cache_key": plant("cachekey"),
    "unheard_of": {plant("oddkey"): plant("oddmember")},
}

MESSAGE_WORDS = {
    *("signature", "data"),
    *("system", "part", "audio", "file", "oddpart", "arguments", "oldarguments", "result"),
    "thought",
}
TOOL_WORDS = {"toolname", "description", "schema", "function", "chosen", "chosenfunction"}
PARAMETER_WORDS = {
    *("stop", "user", "metadata", "session", "cachekey", "oddkey", "oddmember", "format"),
    *("chosen", "chosenfunction"),
}
CHAT_WORDS = MESSAGE_WORDS - {"signature", "data"}
INPUT_WORDS = CHAT_WORDS | TOOL_WORDS | PARAMETER_WORDS | {"image"}

ANSWERED: dict[str, Any] = {
    "id": "chatcmpl-1",
    "model": "m-1",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": plant("content"),
                "reasoning_content": plant("reasoning"),
                "refusal": plant("refusal"),
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "call_2",
                        "type": "function",
                        "function": {"name": "g", "arguments": f'{{"a": "{plant("called")}"}}'},
                    }
                ],
                "unheard_of": plant("oddanswer"),
            },
            "logprobs": {"content": [{"token": plant("token"), "logprob": -1.0}]},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "note": plant("usage")},
    "unheard_of": plant("oddbody"),
}
OUTPUT_WORDS = {
    *("content", "reasoning", "refusal", "called", "oddanswer", "token", "usage", "oddbody"),
}

ERROR = {
    "error": {"message": f"cannot {plant('message')}", "type": "t", "param": plant("param")},
    "detail": [{"loc": ["body", "tools", 0], "input": plant("quotedtool")}],  # as FastAPI quotes
}
ERROR_WORDS = {"message", "param", "quotedtool"}
RANKED_WORDS = {"query", "document", "doctext", "docfield"}

LEGACY_ASKED = {"model": "m-1", "prompt": [plant("prompt")], "suffix": plant("suffix")}
LEGACY_ANSWERED = {
    "model": "m-1",
    "choices": [{"index": 0, "text": plant("text"), "finish_reason": "stop"}],
}
EMBEDDING_ASKED = {"model": "m-1", "input": [plant("embedded")], "user": plant("user")}
EMBEDDING_ANSWERED = {"model": "m-1", "data": [{"index": 0, "embedding": [0.5]}]}


def streamed(answer: dict[str, Any]) -> bytes:
    """The same answer as a stream: one chunk with all of it, and the usage."""
    choice = dict(answer["choices"][0])
    choice["delta"] = choice.pop("message")
    chunk = {**answer, "choices": [choice]}
    return b"data: " + body(chunk) + b"\n\ndata: [DONE]\n\n"
