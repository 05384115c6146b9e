"""Answers of Ollama that nobody recorded (``docs/contract/apis.md#ollama``)."""

from __future__ import annotations

from typing import Any

from tests.corpus.built.wire import Built, write_lines

__all__ = (
    "OLLAMA_CHAT",
    "OLLAMA_EMBED",
    "OLLAMA_GENERATE",
)


def _line(content: str, **more: Any) -> dict[str, Any]:
    said = {name: more.pop(name) for name in ("thinking", "tool_calls") if name in more}
    return {"model": "llama-m", "message": {"role": "assistant", "content": content} | said} | more


_DONE = {"done": True, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 3}
_CALL = {"function": {"name": "f", "arguments": {"city": "Łódź"}}}
_AHOY = _line("Ahoy", done=False)
_TEXT = {"model": "llama-m", "response": "Ahoy", "done": False}
_NO_TEXT = {"model": "llama-m", "response": "", "done": True}


def _lines(*lines: dict[str, Any], end: bytes = b"\n", **asked: Any) -> Built:
    return Built(write_lines(*lines) + end, asked)


OLLAMA_CHAT = {
    "an error after words": _lines(_AHOY, {"error": "model runner has stopped"}, end=b""),
    "nothing but an error line": _lines({"error": "out of memory"}, end=b""),
    "no reason for the end": _lines(_AHOY, _line("", done=True)),
    "a cached prompt": _lines(_AHOY, _line("", done=True, eval_count=3)),
    "lines cut by their limit": _lines(_line("On", **_DONE | {"done_reason": "length"}), end=b""),
    "thinking and a call": _lines(
        _line("", thinking="Hm"), _line("", tool_calls=[_CALL]), _line("", **_DONE)
    ),
    "a model that is loaded": _lines(_line("", done=True, done_reason="load"), messages=[]),
    "a model that is unloaded": _lines(_line("", done=True, done_reason="unload"), messages=[]),
    "lines without an end": _lines(_AHOY),
    "a plain chat": Built(_line("Ahoy", **_DONE), {"stream": False}),
    "a plain chat cut by its limit": Built(
        _line("On", **_DONE | {"done_reason": "length"}), {"stream": False}
    ),
    "a chat refused by its status": Built({"error": "model not found"}, status=404),
}
OLLAMA_GENERATE = {
    "a plain text": Built(_TEXT | _DONE, {"stream": False}),
    "a text cut by its limit": _lines(_TEXT | _DONE | {"done_reason": "length"}),
    "a text without an end": _lines(_TEXT),
    "a model that is loaded": _lines(_NO_TEXT | {"done_reason": "load"}, prompt=""),
    "a model that is unloaded": _lines(_NO_TEXT | {"done_reason": "unload"}, prompt=""),
    "an error after a text": _lines(_TEXT, {"error": "stopped"}, end=b""),
    "a text refused by its status": Built({"error": "model not found"}, status=404),
    "a context": _lines(_TEXT, _TEXT | {"response": "", "context": [1, 2, 3], **_DONE}),
}
OLLAMA_EMBED = {
    "several texts": Built(
        {"model": "embed-m", "embeddings": [[0.25], [-0.5]], "prompt_eval_count": 4}
    ),
    "texts refused by their status": Built({"error": "input length exceeds"}, status=400),
}
