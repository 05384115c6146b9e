"""Answers written by hand: what :mod:`codec.generator` never says, well formed and otherwise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("BODIES", "LEGACY_BODIES", "LEGACY_STREAMS", "STREAMS")

_HEAD: JsonObject = {"id": "chatcmpl-1", "created": 1_764_000_000, "model": "gpt-4o-mini"}
_CHUNK = _HEAD | {"object": "chat.completion.chunk"}
_TEXT = _HEAD | {"object": "text_completion"}
_ROLE: JsonObject = {"role": "assistant"}
_CALL: JsonObject = {"id": "call_1", "type": "function"}
_DONE = "[DONE]"
_AUDIO = {"id": "audio_1", "data": "UklGRg==", "expires_at": 1, "transcript": "Ahoy"}


def _events(*chunks: JsonObject | str) -> bytes:
    """An event stream: objects become events, a text is the data of one."""
    texts = (chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks)
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def _chunk(delta: JsonObject, finish: str | None = None, index: int = 0, **more: Any) -> JsonObject:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return _CHUNK | {"choices": [choice]} | more


def _usage(prompt: int, completion: int, total: int, **details: Any) -> JsonObject:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    return counts | details


def _counts(prompt: int, completion: int, **details: Any) -> JsonObject:
    usage = _usage(prompt, completion, prompt + completion, **details)
    return _CHUNK | {"choices": [], "usage": usage}


def _calls(*entries: JsonObject) -> JsonObject:
    return _chunk(_ROLE | {"tool_calls": list(entries)})


def _function(name: str | None, arguments: str = "") -> JsonObject:
    named = {} if name is None else {"name": name}
    return {"function": named | {"arguments": arguments}}


_A = _chunk(_ROLE | {"content": "a"})
_FINISH = _chunk({}, "stop")
_FINISH_CALLS = _chunk({}, "tool_calls")

STREAMS: dict[str, bytes] = {
    name: _events(*chunks)
    for name, chunks in {
        "function call": (
            _chunk(_ROLE | {"content": None, "function_call": {"name": "f", "arguments": ""}}),
            _chunk({"function_call": {"arguments": '{"a":'}}),
            _chunk({"function_call": {"arguments": "1}"}}),
            _chunk({}, "function_call"),
            _DONE,
        ),
        "function call, arguments no JSON": (
            _chunk(_ROLE | {"function_call": {"name": "f", "arguments": '{"a":'}}),
            _chunk({}, "function_call"),
            _DONE,
        ),
        "a pair of surrogates in two chunks": (
            _chunk(_ROLE | {"content": "wave "}),
            _chunk({"content": "\ud83c"}),
            _chunk({"content": "\udf0a"}),
            _FINISH,
            _DONE,
        ),
        "a lone surrogate": (_chunk(_ROLE | {"content": "half \ud83c"}), _FINISH, _DONE),
        "the second call comes first": (
            _calls(_CALL | {"index": 1} | _function("b")),
            _calls({"index": 1} | _function(None, "{}")),
            _calls(_CALL | {"id": "call_0", "index": 0} | _function("a", "{}")),
            _FINISH_CALLS,
            _DONE,
        ),
        "calls without index": (
            _calls(_CALL | _function("a", "{}")),
            _calls(_CALL | {"id": "call_2"} | _function("b", "{}")),
            _FINISH_CALLS,
            _DONE,
        ),
        "two calls at one index": (
            _calls(_CALL | {"index": 0} | _function("a", "{}")),
            _calls(_CALL | {"id": "call_2", "index": 0} | _function("b", "{}")),
            _FINISH_CALLS,
            _DONE,
        ),
        "an empty name behind a name": (
            _calls(_CALL | {"index": 0} | _function("a")),
            _calls({"index": 0} | _function("", "{}")),
            _FINISH_CALLS,
            _DONE,
        ),
        "choices in any order": (
            _chunk(_ROLE | {"content": "c"}, "stop", index=2),
            _chunk(_ROLE | {"content": "a"}, "length", index=0),
            _DONE,
        ),
        "zero counts": (
            _FINISH,
            _counts(0, 0, prompt_tokens_details={"cached_tokens": 0, "audio_tokens": None}),
            _DONE,
        ),
        "counts for each choice": (
            _chunk(_ROLE | {"content": "a"}, "stop"),
            _counts(28, 8),
            _chunk(_ROLE | {"content": "b"}, "stop", index=1),
            _counts(28, 8),
            _DONE,
        ),
        "an empty finish reason": (_A, _chunk({}, ""), _DONE),
        "no marker behind the finish reason": (_A, _FINISH),
        "no finish reason before the marker": (_A, _DONE),
        "nothing but the marker": (_DONE,),
        "cut off": (_A,),
        "an error": (_A, {"error": {"message": "Overloaded"}}),
        "an error, at once": ({"error": {"message": "Overloaded"}},),
        "an error of another form, at once": ({"object": "error", "message": "Overloaded"},),
        "an error with counts": (_A, _counts(3, 1) | {"error": {"message": "Overloaded"}}),
        "a finish reason that is an error": (_chunk({"content": "a"}, "error"), _DONE),
        "no JSON": (_A, "{", _FINISH, _DONE),
        "no model": (_A | {"model": ""}, _FINISH | {"model": ""}, _DONE),
        "citations with every chunk": (
            _A | {"citations": ["https://x.example/1"]},
            _chunk({"content": "b"}, citations=["https://x.example/1", "https://x.example/2"]),
            _FINISH,
            _DONE,
        ),
    }.items()
}
"""Streams of chats, by what is special."""

LEGACY_STREAMS: dict[str, bytes] = {
    "text beside a delta": _events(
        _TEXT | {"choices": [{"index": 0, "text": "a", "delta": _ROLE | {"content": "a"}}]},
        _TEXT | {"choices": [{"index": 0, "text": "", "delta": {}, "finish_reason": "stop"}]},
        _DONE,
    ),
    "bare values": _events({"value": "a"}, {"value": "b"}),
}
"""Streams of legacy completions."""


def _message(message: JsonObject, **members: Any) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(_HEAD | {"object": "chat.completion", "choices": [choice]} | members).encode()


_SAID: JsonObject = _ROLE | {"content": "a"}

BODIES: dict[str, bytes] = {
    "function call": _message(
        _ROLE | {"content": None, "function_call": {"name": "f", "arguments": '{"a":1}'}}
    ),
    "audio": _message(_ROLE | {"content": None, "audio": _AUDIO}),
    "annotations": _message(_SAID | {"annotations": [{"type": "url_citation"}]}),
    "a call without id": _message(
        _ROLE | {"content": "", "tool_calls": [_CALL | {"id": ""} | _function("f")]}
    ),
    "a custom tool": _message(
        _ROLE
        | {"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]}
    ),
    "content in parts": _message(_ROLE | {"content": [{"type": "text", "text": "a"}]}),
    "a lone surrogate": _message(_ROLE | {"content": "half \ud83c"}),
    "a total that is too small": _message(_SAID, usage=_usage(3, 4, 0)),
    "a larger total": _message(_SAID, usage=_usage(3, 4, 70)),
    "all details of usage": _message(
        _SAID,
        usage=_usage(
            30,
            4,
            34,
            prompt_tokens_details={
                "cached_tokens": 10,
                "cache_write_tokens": 5,
                "audio_tokens": 2,
            },
            completion_tokens_details={
                "reasoning_tokens": 1,
                "audio_tokens": 1,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        ),
    ),
    "more cached than there was": _message(
        _SAID, usage=_usage(30, 4, 34, prompt_tokens_details={"cached_tokens": 40})
    ),
    "a delta for a message": json.dumps(
        _CHUNK | {"choices": [{"index": 0, "delta": _SAID, "finish_reason": "stop"}]}
    ).encode(),
    "no choices": _message({}, choices=[]),
    "no model": _message(_SAID, model=""),
    "an error with status 200": b'{"error": {"message": "Overloaded", "type": "server_error"}}',
}
"""Whole answers to chats."""

LEGACY_BODIES: dict[str, bytes] = {
    "a choice without index": json.dumps(_TEXT | {"choices": [{"text": "a"}]}).encode(),
}
"""Whole answers to legacy completions."""
