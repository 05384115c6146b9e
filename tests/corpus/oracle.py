"""What a recorded answer says and which of its bytes a client may see, worked out the slow way.

Nothing of the codec is used here, neither code nor types: a fault in the codec must not be able to
hide in its own test. The rules are those of ``docs/contract/wire.md#chats-on-the-wire``,
``docs/contract/sources.md#s0-11`` and ``docs/contract/promises.md#usage``, written down as plainly
as possible.

A *fold* is a plain JSON object without nulls and empty members::

    {"id", "model", "created", "done", "error": message, "usage": {"prompt": 3, ...},
     "choices": {"0": {"role", "content", "reasoning", "refusal", "finish_reason",
                       "tool_calls": [[id, name, arguments]], "function_call": [name, arguments],
                       "logprob_tokens": [...]}}}
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

__all__ = ("expect_outcome", "fold_answer", "is_stream", "parse_json", "without_usage_events")

Json = dict[str, Any]

_LINES = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BOM = b"\xef\xbb\xbf"
_ERROR_FINISHES = ("error", "abort", "insufficient_system_resource", "network_error")
_LONGEST_REMOVED_EVENT = 16 * 1024 - 4
_OF_ANSWERS = ("choices", "usage", "object", "value", "data", "embedding")


def parse_json(text: bytes | str) -> Any:
    """The value of a JSON text, ``None`` where it is none."""
    try:
        return json.loads(text)  # noqa: TID251 - the codec's parser is under test
    except ValueError:
        return None


def is_stream(body: bytes) -> bool:
    """An answer is an event stream unless it begins as JSON does, whatever its type says."""
    return bool(body.strip()) and body.lstrip()[:1] not in {b"{", b"["}


# --- bytes -----------------------------------------------------------------------------------


@cache
def without_usage_events(body: bytes) -> bytes:
    """The stream without the events that report usage and nothing else.

    See ``docs/contract/promises.md#usage``.
    """
    if body.startswith(_BOM):
        return _BOM + without_usage_events(body[len(_BOM) :])
    kept = b""
    event: list[bytes] = []
    for line in _LINES.findall(body):
        if line.strip(b"\r\n"):
            event.append(line)
            continue
        if not _is_usage_event(event):
            kept += b"".join(event) + line
        event = []
    return kept if _is_usage_event(event) else kept + b"".join(event)


def _is_usage_event(lines: list[bytes]) -> bool:
    block = b"".join(lines).rstrip(b"\r\n")
    [(name, data, _)] = _events(block) or [("", None, [])]
    value = parse_json(data or "")
    if name == "error" or not isinstance(value, dict) or len(block) > _LONGEST_REMOVED_EVENT:
        return False
    others = ("prompt_filter_results", "citations", "error", "delta", "type", "warning")
    return (
        not value.get("choices")
        and value.get("usage") is not None
        and not any(value.get(name) is not None for name in others)
    )


def _events(body: bytes) -> list[tuple[str, str | None, list[str]]]:
    """The events of a stream: name, data, comments."""
    events: list[tuple[str, str | None, list[str]]] = []
    name, comments = "", list[str]()
    data: str | None = None
    lines = re.split(r"\r\n|\r|\n", body.removeprefix(_BOM).decode("utf-8", "replace"))
    for line in [*lines, ""]:
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if name or data is not None or comments:
                events.append((name, data, comments))
            name, data, comments = "", None, []
        elif not key:
            comments.append(value)
        elif key == "data":
            data = value if data is None else data + "\n" + value
        elif key == "event":
            name = value
        elif key == "error":  # old llama.cpp
            name, data = "error", value
    return events


# --- meaning ---------------------------------------------------------------------------------


@cache
def fold_answer(body: bytes) -> Json:
    """The fold of an answer, a stream or a whole body; not to be changed, for it is kept."""
    if not is_stream(body):
        return _fold([parse_json(body)], done=False, error=None, plain=True)
    chunks, done, error = [], False, None
    for name, data, comments in _events(body):
        if data and data.startswith("[DONE]"):
            done = True
        elif data:
            value = parse_json(data)
            chunks.append(value)
            if name == "error" and error is None:
                error = _error_in(value) or _message_of(value) or data
        elif name == "error" and error is None:
            error = " ".join(comments) or "error"
    return _fold(chunks, done=done, error=error)


def expect_outcome(status: int, body: bytes, fold: Json) -> str:
    """The outcome (``docs/contract/spans.md#outcome``) of an answer that was relayed to its end."""
    finishes = [choice.get("finish_reason") for choice in fold.get("choices", {}).values()]
    if status >= 400:
        return "upstream_error"
    if "error" in fold or any(finish in _ERROR_FINISHES for finish in finishes):
        return "stream_error"
    value = None if is_stream(body) else parse_json(body)
    if isinstance(value, dict) and value.keys().isdisjoint(_OF_ANSWERS):
        return "not_an_answer"
    if is_stream(body) and not fold.get("done") and not any(finishes):
        return "truncated"
    return "completed"


def _fold(chunks: list[Any], *, done: bool, error: str | None, plain: bool = False) -> Json:
    if len(chunks) == 1 and isinstance(chunks[0], list):  # Google wraps errors in a list
        chunks = chunks[0][:1]
    objects = [chunk for chunk in chunks if isinstance(chunk, dict)]
    said: Json = {"done": done, "error": error or _first(_error_in(chunk) for chunk in objects)}
    for name, kind in (("id", str), ("model", str), ("created", int)):
        values = (chunk.get(name) for chunk in objects)
        said[name] = _first(value for value in values if type(value) is kind)
    choices: dict[int, Json] = {}
    usages: list[Json] = []
    alone: list[tuple[int, Json]] = []
    for chunk in objects:
        listed = chunk.get("choices")
        if [*chunk] == ["value"]:  # Writer's legacy completions
            listed = [{"text": chunk["value"]}]
        for position, choice in enumerate(listed if isinstance(listed, list) else []):
            usages += _object(choice.get("usage"))
            index = choice.get("index")
            known = choices.setdefault(position if index is None else index, {})
            _add_choice(known, choice, plain=plain)
        for groq in _object(chunk.get("x_groq")):
            usages += _object(groq.get("usage"))
        usages += _object(chunk.get("usage"))
        if listed == [] and chunk.get("usage"):
            finished = sum(1 for choice in choices.values() if choice.get("finish_reason"))
            alone.append((finished, chunk["usage"]))
    said["usage"] = _counts(_sum_of_prompts(objects) or _merge(usages), alone)
    said["choices"] = {str(index): _close(choices[index]) for index in sorted(choices)}
    return _without_empty(said)


def _sum_of_prompts(chunks: list[Json]) -> Json | None:
    """TGI's usage of several prompts: one object with the finish of each, none elsewhere."""
    with_usage = [chunk for chunk in chunks if chunk.get("usage")]
    finishes = [
        choice["index"]
        for chunk in with_usage
        for choice in chunk.get("choices") or ()
        if "text" in choice and choice.get("finish_reason")
    ]
    usages = [chunk["usage"] for chunk in with_usage]
    if len(usages) < 2 or len(set(finishes)) < len(usages):
        return None
    if len({usage["prompt_tokens"] for usage in usages}) == 1:
        return None
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return {name: sum(usage[name] for usage in usages) for name in names}


def _add_choice(choice: Json, piece: Json, *, plain: bool) -> None:
    """Add a chunk's choice to what that choice said so far."""
    delta = piece.get("delta")
    if "message" in piece and (plain or ("delta" not in piece and not _has_spoken(choice))):
        delta = piece["message"]  # in a stream, beside a delta it only repeats (Perplexity)
    if isinstance(delta, dict):
        _add_delta(choice, delta)
    elif piece.get("text"):  # a legacy completion
        _add_delta(choice, {"content": piece["text"]})
    if not choice.get("finish_reason"):
        choice["finish_reason"] = piece.get("finish_reason")
    for logprobs in _object(piece.get("logprobs")):
        tokens = [entry["token"] for entry in logprobs.get("content") or []]
        choice.setdefault("logprob_tokens", []).extend(tokens)


def _has_spoken(choice: Json) -> bool:
    names = ("content", "thought", "detailed", "refusal", "calls", "function_call")
    return any(choice.get(name) for name in names)


def _add_delta(choice: Json, delta: Json) -> None:
    choice["role"] = delta.get("role") or choice.get("role")
    for name in ("refusal", "reasoning_content", "reasoning"):
        choice[name] = choice.get(name, "") + (delta.get(name) or "")
    spoken = [text for name in ("reasoning_content", "reasoning") if (text := delta.get(name))]
    choice["thought"] = choice.get("thought", "") + "".join(dict.fromkeys(spoken))
    for detail in delta.get("reasoning_details") or []:
        text = detail.get("text") or detail.get("summary") or ""
        choice["detailed"] = choice.get("detailed", "") + text
    content = delta.get("content")
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else "text"
        name = "thought" if kind in {"thinking", "reasoning"} else "content"
        choice[name] = choice.get(name, "") + _part_text(part)
    _add_calls(choice.setdefault("calls", []), delta.get("tool_calls") or [])
    function = delta.get("function_call") or {}
    if function.get("name") or function.get("arguments"):  # Snowflake's are empty
        call = choice.setdefault("function_call", {})
        call["name"] = call.get("name") or function.get("name")
        call["arguments"] = call.get("arguments", "") + _text(function.get("arguments"))


def _part_text(part: Any) -> str:
    """The text of a content part: Mistral's, Databricks', OpenAI's, or a plain string."""
    if isinstance(part, dict):
        kind = part.get("type")
        inner = {"thinking": "thinking", "reasoning": "summary"}.get(str(kind), "text")
        return _part_text(part.get(inner))
    if isinstance(part, list):
        return "".join(_part_text(item) for item in part)
    return part if isinstance(part, str) else ""


def _add_calls(calls: list[Json], entries: list[Json]) -> None:
    """The rules of ``docs/contract/wire.md#tool-calls`` and ``docs/contract/sources.md#s0-11``."""
    unnumbered = 0
    for entry in entries:
        function = entry.get("function") or {}
        call_id = entry.get("id") if entry.get("id") not in {"", "null"} else None
        name = function.get("name")
        index = entry.get("index")
        if index is None:
            unnumbered += 1
            call = _find_unnumbered(calls, call_id, name, alone=unnumbered == 1)
        else:
            call = _find_numbered(calls, index, call_id, name)
        if call is None:
            call = {"index": index, "arguments": ""}
            calls.append(call)
        call["id"] = call.get("id") or call_id
        call["name"] = call.get("name") or name
        call["arguments"] += _text(function.get("arguments"))
        call["turn"] = 1 + max((other.get("turn", 0) for other in calls), default=0)


def _find_numbered(calls: list[Json], index: int, call_id: Any, name: Any) -> Json | None:
    here = [call for call in calls if call["index"] == index]
    known = [call for call in here if call_id and call.get("id") == call_id]
    if known or not here:
        return known[0] if known else None
    another = call_id and name and here[-1].get("id")
    return None if another else here[-1]


def _find_unnumbered(calls: list[Json], call_id: Any, name: Any, *, alone: bool) -> Json | None:
    if not calls:
        return None
    last = max(calls, key=lambda call: int(call["turn"]))
    if not (call_id or name):
        return last
    same = last.get("id") == call_id if call_id else last.get("name") == name
    return last if same and alone else None


def _close(choice: Json) -> Json:
    """The choice as a fold has it."""
    first, second = choice.get("reasoning_content"), choice.get("reasoning")
    calls = choice.get("calls", [])
    if all(call["index"] is not None for call in calls):
        calls = sorted(calls, key=lambda call: int(call["index"]))
    function = choice.get("function_call")
    return _without_empty(
        {
            "role": choice.get("role"),
            "content": choice.get("content"),
            # The same text under two names, be it in different deltas, was said once.
            "reasoning": (first if first and first == second else choice.get("thought"))
            or choice.get("detailed"),
            "refusal": choice.get("refusal"),
            "tool_calls": [[call["id"], call["name"], call["arguments"]] for call in calls],
            "function_call": [function["name"], function["arguments"]] if function else None,
            "finish_reason": choice.get("finish_reason"),
            "logprob_tokens": choice.get("logprob_tokens"),
        }
    )


def _error_in(value: Any) -> str | None:
    """The message of the error that a value holds (``docs/contract/wire.md#errors-in-a-200``)."""
    if not isinstance(value, dict):
        return None
    if value.get("error"):
        return _message_of(value["error"])
    if value.get("object") == "error" or value.get("type") == "error":
        return _message_of(value)
    return None


def _message_of(error: Any) -> str | None:
    if isinstance(error, dict):
        message = error.get("message")
        if isinstance(message, str) and message:
            return message
    if isinstance(error, str) or not error:
        return error or None
    return json.dumps(error, separators=(",", ":"), ensure_ascii=False)


# --- usage -----------------------------------------------------------------------------------


def _merge(usages: list[Json]) -> Json:
    """Field by field the last that is not null."""
    merged: Json = {}
    for usage in usages:
        for name, value in usage.items():
            if isinstance(value, dict) and isinstance(merged.get(name), dict):
                merged[name] = _merge([merged[name], value])
            elif value is not None:
                merged[name] = value
    return merged


def _counts(usage: Json, alone: list[tuple[int, Json]]) -> Json:
    """The counts of a fold; an impossible total is left out (``docs/contract/spans.md#total``)."""
    prompt_details = usage.get("prompt_tokens_details") or {}
    completion_details = usage.get("completion_tokens_details") or {}
    counts = {
        "prompt": usage.get("prompt_tokens"),
        "completion": usage.get("completion_tokens"),
        "total": usage.get("total_tokens"),
        "cache_read": _first_number(
            prompt_details.get("cached_tokens"),
            usage.get("prompt_cache_hit_tokens"),
            usage.get("cached_tokens"),
            usage.get("cache_read_input_tokens"),
            (usage.get("input_tokens_details") or {}).get("cached_tokens"),
        ),
        "cache_write": _first_number(
            prompt_details.get("cache_write_tokens"), usage.get("cache_creation_input_tokens")
        ),
        "prompt_audio": prompt_details.get("audio_tokens"),
        "reasoning": _first_number(
            completion_details.get("reasoning_tokens"), usage.get("reasoning_tokens")
        ),
        "completion_audio": completion_details.get("audio_tokens"),
    }
    by_choice = dict(alone)
    if len(by_choice) > 1 and len({each.get("prompt_tokens") for each in by_choice.values()}) == 1:
        # llama.cpp with n > 1 reports once per choice, its own tokens only.
        counts["completion"] = sum(each["completion_tokens"] for each in by_choice.values())
        counts["total"] = (counts["prompt"] or 0) + counts["completion"]
    numbers = {
        name: int(count)
        for name, count in counts.items()
        if isinstance(count, int | float) and count >= 0
    }
    both = numbers.get("prompt", 0) + numbers.get("completion", 0)
    if "completion" in numbers and numbers.get("total") == both + numbers.get("reasoning", 0):
        numbers["completion"] += numbers.get("reasoning", 0)  # of xAI only the total has it
    elif numbers.get("total", 0) < both:
        numbers.pop("total", None)
    for part, whole in (("cache_read", "prompt"), ("reasoning", "completion")):
        if numbers.get(part, 0) > numbers.get(whole, 2**63):
            del numbers[part]
    return numbers


# --- small ------------------------------------------------------------------------------------


def _first(values: Any) -> Any:
    return next((value for value in values if value), None)


def _first_number(*values: Any) -> Any:
    return next((value for value in values if isinstance(value, int)), None)


def _object(value: Any) -> list[Json]:
    """The value as a list of one, or none where it is no object with members."""
    return [value] if isinstance(value, dict) and value else []


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _without_empty(members: Json) -> Json:
    return {
        name: value for name, value in members.items() if value not in (None, "", [], {}, False)
    }
