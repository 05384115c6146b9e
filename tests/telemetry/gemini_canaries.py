"""A call of Gemini with a canary in every field (``docs/contract/apis.md#gemini``)."""

from __future__ import annotations

from typing import Any

from tests.telemetry.canaries import IMAGE_URL, body, plant

__all__ = (
    "GEMINI_ANSWERED",
    "GEMINI_ASKED",
    "GEMINI_EMBEDDED",
    "GEMINI_EMBEDDING",
    "GEMINI_EMBEDDING_WORDS",
    "GEMINI_PATH",
    "GEMINI_WORDS",
    "LIVE_ASKED",
    "stream_gemini",
    "stream_live",
)

GEMINI_PATH = "/v1beta/models/m-1:generateContent"
GEMINI_ASKED: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": plant("system")}]},
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": plant("part")},
                {"fileData": {"mimeType": "image/png", "fileUri": IMAGE_URL}},
                {"inlineData": {"mimeType": "application/pdf", "data": plant("audio")}},
                {"inlineData": {"mimeType": "text/plain", "displayName": plant("file")}},
                {"unheard_of": plant("oddpart")},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": plant("thought"), "thought": True, "thoughtSignature": plant("signature")},
                {
                    "functionCall": {"name": "f", "args": {"q": plant("arguments")}},
                    "thoughtSignature": plant("data"),
                },
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "f", "response": {"r": plant("result")}}}],
        },
    ],
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": plant("toolname"),
                    "description": plant("description"),
                    "parameters": {"type": "OBJECT", "title": plant("schema")},
                }
            ]
        }
    ],
    "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": [plant("chosen")]}},
    "generationConfig": {
        "stopSequences": [plant("stop")],
        "responseSchema": {"title": plant("format")},
    },
    "labels": {"k": plant("metadata")},
    "unheard_of": {plant("oddkey"): plant("oddmember")},
}
GEMINI_ANSWERED: dict[str, Any] = {
    "responseId": "r-1",
    "modelVersion": "m-1",
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {
                        "text": plant("reasoning"),
                        "thought": True,
                        "thoughtSignature": plant("token"),
                    },
                    {"text": plant("content")},
                    {"functionCall": {"name": "g", "args": {"a": plant("called")}}},
                    {"codeExecutionResult": {"output": plant("oddanswer")}},
                ],
            },
            "finishReason": "STOP",
            "groundingMetadata": {"t": plant("refusal")},
        }
    ],
    "usageMetadata": {"promptTokenCount": 3, "note": plant("usage")},
    "unheard_of": plant("oddbody"),
}
GEMINI_WORDS = {
    *("system", "part", "image", "file", "audio", "oddpart", "thought", "signature", "data"),
    *("arguments", "result", "toolname", "description", "schema", "chosen", "stop"),
    *("metadata", "format", "oddkey", "oddmember"),
}


LIVE_ASKED: dict[str, Any] = GEMINI_ASKED | {
    "model": "models/m-1",
    "contents": [
        {"role": "user", "parts": [{"text": plant("heard"), "transcript": True}]},
        *GEMINI_ASKED["contents"],
    ],
    "session_id": "s-1",
    "input_audio": {"bytes": 9, "seconds": 0.1},
}


GEMINI_EMBEDDING = {
    "requests": [{"content": {"parts": [{"text": plant("embedded")}]}, "title": plant("title")}]
}
GEMINI_EMBEDDED = {"embeddings": [{"values": [0.5]}], "usageMetadata": {"promptTokenCount": 2}}
GEMINI_EMBEDDING_WORDS = {"embedded", "title"}


def stream_gemini(answer: dict[str, Any]) -> bytes:
    """The same answer as an array: one chunk with all of it, and one that says nothing."""
    return b"[" + body(answer) + b"\r\n,\r\n" + body({"modelVersion": "m-1"}) + b"]"


def stream_live(answer: dict[str, Any]) -> bytes:
    """The same answer as the messages of a turn, with a transcript before it."""
    [candidate] = answer["candidates"]
    said = {"modelTurn": candidate["content"], "groundingMetadata": candidate["groundingMetadata"]}
    messages = (
        {"serverContent": {"outputTranscription": {"text": plant("text")}}},
        {"serverContent": said},
        {"serverContent": {"turnComplete": True}, "usageMetadata": answer["usageMetadata"]},
    )
    return b"".join(b"data: " + body(message) + b"\n\n" for message in messages)
