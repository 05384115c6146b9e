"""A call of the Responses API with a canary in every field.

See ``docs/contract/apis.md#responses``.
"""

from __future__ import annotations

from typing import Any

from tests.telemetry.canaries import IMAGE_URL, body, plant

__all__ = ("RESPONSES_ANSWERED", "RESPONSES_ASKED", "RESPONSES_WORDS", "stream_response")

RESPONSES_ASKED: dict[str, Any] = {
    "model": "m-1",
    "instructions": plant("system"),
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": plant("part")},
                {"type": "input_image", "image_url": IMAGE_URL},
                {"type": "input_audio", "input_audio": {"data": plant("audio"), "format": "mp3"}},
                {"type": "input_file", "filename": plant("file")},
                {"type": "unheard_of", "unheard_of": plant("oddpart")},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs-1",
            "summary": [{"type": "summary_text", "text": plant("thought")}],
            "encrypted_content": plant("data"),
        },
        {
            "type": "function_call",
            "call_id": "c-1",
            "name": "f",
            "arguments": f'{{"q": "{plant("arguments")}"}}',
        },
        {"type": "function_call_output", "call_id": "c-1", "output": plant("result")},
    ],
    "tools": [
        {
            "type": "function",
            "name": plant("toolname"),
            "description": plant("description"),
            "parameters": {"type": "object", "title": plant("schema")},
        }
    ],
    "tool_choice": {"type": "function", "name": plant("chosen")},
    "prompt": {"id": "p-1", "variables": {"v": plant("stop")}},
    "text": {"format": {"type": "json_schema", "name": plant("format"), "schema": {}}},
    "user": plant("user"),
    "metadata": {"k": plant("metadata"), "session_id": plant("session")},
    "prompt_cache_key": plant("cachekey"),
    "unheard_of": {plant("oddkey"): plant("oddmember")},
}
RESPONSES_WORDS = {
    *("system", "part", "image", "audio", "file", "oddpart", "thought", "data", "arguments"),
    *("result", "toolname", "description", "schema", "chosen", "stop", "format", "user"),
    *("metadata", "session", "cachekey", "oddkey", "oddmember"),
}
RESPONSES_ANSWERED: dict[str, Any] = {
    "id": "resp-1",
    "object": "response",
    "status": "completed",
    "model": "m-1",
    "output": [
        {
            "type": "reasoning",
            "id": "rs-2",
            "summary": [{"type": "summary_text", "text": plant("reasoning")}],
            "encrypted_content": plant("token"),
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": plant("content"), "annotations": []},
                {"type": "refusal", "refusal": plant("refusal")},
            ],
        },
        {
            "type": "function_call",
            "call_id": "c-2",
            "name": "g",
            "arguments": f'{{"a": "{plant("called")}"}}',
        },
        {"type": "unheard_of", "unheard_of": plant("oddanswer")},
    ],
    "usage": {"input_tokens": 3, "output_tokens": 4, "note": plant("usage")},
    "unheard_of": plant("oddbody"),
    **{name: RESPONSES_ASKED[name] for name in ("instructions", "tools", "prompt", "text", "user")},
}
"""It repeats its request, as OpenAI's do."""


def stream_response(answer: dict[str, Any]) -> bytes:
    """The same answer as a stream: each item is done at once, and the end repeats all of it."""
    begun = answer | {"status": "in_progress", "output": []}
    events = [
        {"type": "response.created", "response": begun},
        *(
            {"type": "response.output_item.done", "output_index": index, "item": item}
            for index, item in enumerate(answer["output"])
        ),
        {"type": f"response.{answer['status']}", "response": answer},
    ]
    return b"".join(b"data: " + body(event) + b"\n\n" for event in events)
