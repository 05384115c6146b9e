"""Calls of Ollama's own API with a canary in every field (``docs/contract/apis.md#ollama``)."""

from __future__ import annotations

from typing import Any

from tests.telemetry.canaries import IMAGE_URL, body, plant

__all__ = (
    "OLLAMA_ANSWERED",
    "OLLAMA_ASKED",
    "OLLAMA_EMBEDDED",
    "OLLAMA_EMBEDDING",
    "OLLAMA_EMBEDDING_WORDS",
    "OLLAMA_PROMPT",
    "OLLAMA_PROMPT_WORDS",
    "OLLAMA_TEXT",
    "OLLAMA_TEXT_WORDS",
    "OLLAMA_WORDS",
    "stream_lines",
)

OLLAMA_ASKED: dict[str, Any] = {
    "model": "m-1",
    "messages": [
        {"role": "system", "content": plant("system")},
        {"role": "user", "content": plant("part"), "images": [IMAGE_URL]},
        {
            "role": "assistant",
            "content": "",
            "thinking": plant("thought"),
            "tool_calls": [{"function": {"name": "f", "arguments": {"q": plant("arguments")}}}],
            "unheard_of": plant("oddpart"),
        },
        {"role": "tool", "tool_name": "f", "content": plant("result")},
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
    "format": {"type": "object", "title": plant("format")},
    "options": {"stop": [plant("stop")], "temperature": 0.5},
    "unheard_of": {plant("oddkey"): plant("oddmember")},
}
OLLAMA_WORDS = {
    *("system", "part", "image", "thought", "arguments", "oddpart", "result", "toolname"),
    *("description", "schema", "format", "stop", "oddkey", "oddmember"),
}
OLLAMA_ANSWERED: dict[str, Any] = {
    "model": "m-1",
    "message": {
        "role": "assistant",
        "content": plant("content"),
        "thinking": plant("reasoning"),
        "tool_calls": [{"function": {"name": "g", "arguments": {"a": plant("called")}}}],
        "unheard_of": plant("oddanswer"),
    },
    "logprobs": [{"token": plant("token")}, {"token": plant("refusal")}],
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 3,
    "eval_count": 4,
    "odd_count": plant("usage"),
    "unheard_of": plant("oddbody"),
}

OLLAMA_PROMPT: dict[str, Any] = {
    "model": "m-1",
    "prompt": plant("prompt"),
    "suffix": plant("suffix"),
    "system": plant("system"),
    "images": [IMAGE_URL],
}
OLLAMA_PROMPT_WORDS = {"prompt", "suffix", "system", "image"}
OLLAMA_TEXT: dict[str, Any] = {
    "model": "m-1",
    "response": plant("text"),
    "thinking": plant("reasoning"),
    "context": [1, 2, 3],
    "done": True,
    "done_reason": "stop",
    "eval_count": 4,
}
OLLAMA_TEXT_WORDS = {"text", "reasoning"}

OLLAMA_EMBEDDING = {"model": "m-1", "input": [plant("embedded")]}
OLLAMA_EMBEDDED = {"model": "m-1", "embeddings": [[0.5]], "prompt_eval_count": 2}
OLLAMA_EMBEDDING_WORDS = {"embedded"}


def stream_lines(answer: dict[str, Any]) -> bytes:
    """The same answer as a stream: what it says, and then its end."""
    words = {name: answer[name] for name in ("response", "thinking", "message") if name in answer}
    end = {name: value for name, value in answer.items() if name not in words}
    silent: dict[str, Any] = {"response": ""}
    if "message" in words:
        silent = {"message": {"content": ""}}
    head: dict[str, Any] = {"model": answer["model"], "done": False}
    return body(head | words) + b"\n" + body(end | silent) + b"\n"
