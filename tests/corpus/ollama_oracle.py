"""A second fold of Ollama's own API: slow and obvious.

It is written from ``docs/contract/apis.md#ollama``.

It shares nothing with the codec or the telemetry, so that neither can be wrong alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.corpus.oracle import parse_json

if TYPE_CHECKING:
    from tests.corpus.recordings import Recording

__all__ = (
    "expect_chat_span",
    "expect_embedding_span",
    "expect_text_span",
    "fold_lines",
    "is_lines",
)

_TEXTS = ("content", "thinking", "response")
_STREAMING = (b"/api/chat", b"/api/generate")
_HIDDEN = "__REDACTED__"


def is_lines(recording: Recording) -> bool:
    """A stream of Ollama's own: every answer is one unless the request says otherwise."""
    path = recording.target.partition(b"?")[0]
    asks = (parse_json(recording.request) or {}).get("stream") is not False
    return path.endswith(_STREAMING) and asks


def fold_lines(body: bytes) -> dict[str, Any]:
    """What a stream says: its one object, the first error, and its chunks."""
    told: dict[str, Any] = {}
    error, chunks = None, 0
    lines = [parse_json(line) for line in body.decode("utf-8", "replace").split("\n")]
    for line in lines:
        if not isinstance(line, dict):
            continue
        if "error" in line:
            error = error or line["error"]
            continue
        chunks += 1
        _add(told, line)
    _count_context(told)
    return {"body": told, "error": error, "chunks": chunks}


def _add(told: dict[str, Any], line: dict[str, Any]) -> None:
    for name, value in line.items():
        known = told.get(name)
        if isinstance(value, dict):
            _add(told.setdefault(name, {}), value)
        elif (name in _TEXTS or isinstance(value, list)) and known is not None:
            told[name] = known + value
        else:
            told[name] = value


def _count_context(body: dict[str, Any]) -> None:
    if "context" in body:
        body["context"] = f"<{len(body['context'])} tokens>"


def _read(recording: Recording) -> tuple[dict[str, Any], dict[str, Any]]:
    """What an exchange says: its object, and what the span says of any answer."""
    text = recording.text
    failed, streamed = recording.status >= 400, is_lines(recording)
    if streamed and not failed:
        fold = fold_lines(text)
        body, error = fold["body"], fold["error"]
    else:
        body = parse_json(text) or {}
        error = body.get("error") or (text.decode().strip() if failed else None)
        _count_context(body)
    asked = parse_json(recording.request) or {}
    output: Any = body or ("" if streamed else text.decode(errors="replace"))
    is_whole = body.get("done") is True
    outcome = "completed" if is_whole else "truncated"
    if failed:
        outcome, output = "upstream_error", ""
    elif error:
        outcome = "stream_error"
    prompt = None if failed else body.get("prompt_eval_count")
    completion = None if failed else body.get("eval_count")
    total = None if prompt is None or completion is None else prompt + completion
    said = {
        "outcome": outcome,
        "status": "OK" if outcome == "completed" else "ERROR",
        "error": error or None,
        "lost": bool(text) and not (failed or streamed or body),
        "llm.model_name": body.get("model") or asked.get("model"),
        "llm.finish_reason": body.get("done_reason"),
        "llm.token_count.prompt": prompt,
        "llm.token_count.completion": completion,
        "llm.token_count.total": total,
        "output.value": output,
    }
    return body, said


def _present(said: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if value is not None}


def expect_chat_span(recording: Recording) -> dict[str, Any]:
    """What the span of a chat must say of the answer, and how the exchange ended."""
    body, said = _read(recording)
    is_loaded = body.get("done_reason") in {"load", "unload"}
    message = {} if is_loaded else body.get("message") or {}
    prefix = "llm.output_messages.0.message"
    said[f"{prefix}.role"] = message.get("role")
    content, thinking = message.get("content") or None, message.get("thinking") or None
    parts = [("reasoning", thinking), ("text", content)] if thinking else []
    if not thinking:
        said[f"{prefix}.content"] = content
    for place, (kind, text) in enumerate(part for part in parts if part[1]):
        said[f"{prefix}.contents.{place}.message_content.type"] = kind
        said[f"{prefix}.contents.{place}.message_content.text"] = text
    for place, call in enumerate(message.get("tool_calls") or []):
        key, function = f"{prefix}.tool_calls.{place}.tool_call", call["function"]
        if (asked := function.get("arguments")) is not None:
            written = json.dumps(asked, ensure_ascii=False, separators=(",", ":"))
            said[f"{key}.function.arguments"] = written
        said[f"{key}.id"] = call.get("id")
        said[f"{key}.function.name"] = function["name"]
    return _present(said)


def expect_text_span(recording: Recording) -> dict[str, Any]:
    """The same of a text from a prompt."""
    body, said = _read(recording)
    said["llm.choices.0.completion.text"] = body.get("response") or None
    return _present(said)


def expect_embedding_span(recording: Recording) -> dict[str, Any]:
    """The same of embeddings, whose vectors are hidden."""
    body, said = _read(recording)
    asked = parse_json(recording.request)
    texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
    said |= {f"embedding.embeddings.{n}.embedding.text": text for n, text in enumerate(texts)}
    said["embedding.model_name"] = said.pop("llm.model_name")
    if recording.status >= 400:
        said["output.value"] = ""
    elif body:
        said |= {"outcome": "completed", "status": "OK"}
        said["output.value"] = body | {"embeddings": [_HIDDEN for _ in body["embeddings"]]}
    else:
        said["output.value"] = _HIDDEN if recording.text else ""
    return _present(said)
