"""A call of Messages with a canary in every field (``docs/contract/apis.md#messages``)."""

from __future__ import annotations

from typing import Any

from tests.telemetry.canaries import IMAGE_URL, body, plant

__all__ = ("MESSAGES_ANSWERED", "MESSAGES_ASKED", "MESSAGES_WORDS", "stream_messages")

MESSAGES_ASKED: dict[str, Any] = {
    "model": "m-1",
    "max_tokens": 9,
    "system": [{"type": "text", "text": plant("system")}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": plant("part")},
                {"type": "image", "source": {"type": "url", "url": IMAGE_URL}},
                {
                    "type": "document",
                    "title": plant("file"),
                    "source": {"type": "text", "media_type": "text/plain", "data": plant("audio")},
                },
                {"type": "unheard_of", "unheard_of": plant("oddpart")},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": plant("thought"), "signature": plant("signature")},
                {"type": "redacted_thinking", "data": plant("data")},
                {
                    "type": "tool_use",
                    "id": "t-1",
                    "name": "f",
                    "input": {"q": plant("arguments")},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t-1",
                    "content": [{"type": "text", "text": plant("result")}],
                }
            ],
        },
    ],
    "tools": [
        {
            "name": plant("toolname"),
            "description": plant("description"),
            "input_schema": {"type": "object", "title": plant("schema")},
        }
    ],
    "tool_choice": {"type": "tool", "name": plant("chosen")},
    "stop_sequences": [plant("stop")],
    "metadata": {"user_id": plant("user"), "k": plant("metadata")},
    "output_config": {"format": {"type": "json_schema", "schema": {"title": plant("format")}}},
    "unheard_of": {plant("oddkey"): plant("oddmember")},
}
MESSAGES_ANSWERED: dict[str, Any] = {
    "id": "msg-1",
    "type": "message",
    "role": "assistant",
    "model": "m-1",
    "content": [
        {"type": "thinking", "thinking": plant("reasoning"), "signature": plant("token")},
        {"type": "text", "text": plant("content"), "citations": [{"t": plant("refusal")}]},
        {"type": "tool_use", "id": "t-2", "name": "g", "input": {"a": plant("called")}},
        {"type": "web_search_tool_result", "content": [{"title": plant("oddanswer")}]},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 4, "note": plant("usage")},
    "unheard_of": plant("oddbody"),
}
MESSAGES_WORDS = {
    *("system", "part", "image", "file", "audio", "oddpart", "thought", "signature", "data"),
    *("arguments", "result", "toolname", "description", "schema", "chosen", "stop", "user"),
    *("metadata", "format", "oddkey", "oddmember"),
}


def stream_messages(answer: dict[str, Any]) -> bytes:
    """The same answer of Messages as a stream: each block begins as it is."""
    head = {name: value for name, value in answer.items() if name not in {"content", "stop_reason"}}
    events = [
        {"type": "message_start", "message": head},
        *(
            {"type": "content_block_start", "index": index, "content_block": block}
            for index, block in enumerate(answer["content"])
        ),
        {
            "type": "message_delta",
            "delta": {"stop_reason": answer["stop_reason"]},
            "usage": answer["usage"],
        },
        {"type": "message_stop"},
    ]
    return b"".join(b"data: " + body(event) + b"\n\n" for event in events)
