"""A second fold of Gemini's answers: slow and obvious.

It is written from ``docs/contract/apis.md#gemini``.

It shares nothing with the codec or the telemetry, so that neither can be wrong alone.
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tests.corpus.oracle import parse_json

if TYPE_CHECKING:
    from tests.corpus.recordings import Recording

__all__ = ("expect_embedding_span", "expect_plain_span", "expect_stream_span", "fold_answer")

_LONGEST_OPAQUE = 4_096
_HIDDEN = "__REDACTED__"
_BAD_CALLS = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")
_KNOWN = ("candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId")
_decoder = json.JSONDecoder(strict=False)


def fold_answer(body: bytes) -> dict[str, Any]:
    """What a stream says: its body, the first error's message, its chunks, whether it broke off."""
    text = body.decode("utf-8", "replace").lstrip()
    in_array = text.startswith("[")
    if text.startswith(("[", "{")):
        chunks, is_cut = _read_values(text[in_array:])
        is_closed = in_array and not is_cut and text.rstrip().endswith("]")
        is_cut = is_cut or (in_array and not is_closed)
    else:
        chunks, is_cut = _read_events(text)
        is_closed = False
    whole: dict[str, Any] = {}
    usage: dict[str, Any] = {}
    candidates: dict[int, dict[str, Any]] = {}
    error, count = None, 0
    for chunk in map(_peel, chunks):
        if chunk.get("error"):
            error = error or chunk["error"]["message"]
            continue
        count += 1
        for place, one in enumerate(chunk.get("candidates") or []):
            index = one.get("index", place)
            _add(candidates.setdefault(index, {}), copy.deepcopy(one))
        usage |= {
            name: value
            for name, value in (chunk.get("usageMetadata") or {}).items()
            if value is not None or name not in usage
        }
        for name, value in chunk.items():
            if name not in {"candidates", "usageMetadata"} and (
                value is not None or name not in whole
            ):
                whole[name] = value
    if candidates:
        whole["candidates"] = [_end(candidates[index]) for index in sorted(candidates)]
    if usage:
        whole["usageMetadata"] = usage
    return {"body": whole, "error": error, "chunks": count, "cut": is_cut, "closed": is_closed}


def _peel(chunk: Any) -> Any:
    """What is in Code Assist's envelope."""
    if not isinstance(chunk, dict) or "response" not in chunk:
        return chunk
    beside = {name: value for name, value in chunk.items() if name not in {"response", "traceId"}}
    return beside | chunk["response"] | {"responseId": chunk["traceId"]}


def _read_values(text: str) -> tuple[list[Any], bool]:
    """The JSON values one after another, and whether the last one breaks off."""
    values: list[Any] = []
    text = text.lstrip(" \t\r\n,")
    while text and not text.startswith("]"):
        try:
            value, end = _decoder.raw_decode(text)
        except ValueError:
            return values, True
        values.append(value)
        text = text[end:].lstrip(" \t\r\n,")
    return values, False


def _read_events(text: str) -> tuple[list[Any], bool]:
    """The data of each line; bare JSON between them is as good; whether the last breaks off."""
    chunks: list[Any] = []
    lines = re.split(r"\r\n|\n|\r", text)
    for number, line in enumerate(lines):
        if line.startswith("data:"):
            value = parse_json(line[5:].strip())
            if value is not None:
                chunks.append(value)
            elif number == len(lines) - 1 and line[5:].strip():
                return chunks, True
        elif line == "{":
            value = parse_json("\n".join(lines[number:]))
            return [*chunks, *([value] if value else [])], value is None
    return chunks, False


def _add(known: dict[str, Any], more: dict[str, Any]) -> None:
    """Add what a chunk says of a candidate."""
    content = more.pop("content", None)
    if content is not None:
        parts = content.pop("parts", None) or []
        kept = known.setdefault("content", {})
        kept |= content
        for part in parts:
            _add_part(kept.setdefault("parts", []), part)
    for name, value in more.items():
        if name == "finishReason" and not value:
            continue
        if value is not None or name not in known:
            known[name] = value


def _add_part(parts: list[Any], part: dict[str, Any]) -> None:
    if set(part) <= {"text", "thought"} and "text" in part:
        last = parts[-1] if parts else {}
        if not part["text"]:
            return
        joins = set(last) <= {"text", "thought"} and "text" in last
        if joins and bool(last.get("thought")) == bool(part.get("thought")):
            last["text"] += part["text"]
        else:
            parts.append({name: value for name, value in part.items() if value})
        return
    call = part.get("functionCall")
    if call is not None and not call.get("name"):
        going = [one["functionCall"] for one in parts if "functionCall" in one][-1:]
        if going and going[0].get("willContinue"):
            going[0]["partialArgs"] = going[0].get("partialArgs", []) + call.get("partialArgs", [])
            going[0]["willContinue"] = call.get("willContinue", False)
        return
    if part:
        parts.append(part)


def _end(candidate: dict[str, Any]) -> dict[str, Any]:
    """The candidate with its calls put together."""
    content = candidate.get("content", {})
    if not content.get("parts", True):
        del content["parts"]
    for part in content.get("parts", []):
        call = part.get("functionCall", {})
        pieces = call.pop("partialArgs", [])
        call.pop("willContinue", None)
        if pieces:
            call["args"] = {}
        for piece in pieces:
            _place(call["args"], piece)
    return candidate


def _place(into: Any, piece: dict[str, Any]) -> None:
    [value] = [piece[name] for name in ("stringValue", "numberValue", "boolValue") if name in piece]
    steps = [
        int(step) if step.isdigit() else step
        for step in re.findall(r"[^.\[\]$]+", piece["jsonPath"])
    ]
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(step, int) and step == len(into):
            into.append(value if following is None else empty)
        elif following is not None:
            if isinstance(into, dict):
                into.setdefault(step, empty)
        elif isinstance(value, str) and isinstance(into, dict):
            into[step] = into.get(step, "") + value
        elif isinstance(value, str):
            into[step] += value
        else:
            into[step] = value
        if following is not None:
            into = into[step]


def _read_plain(recording: Recording) -> dict[str, Any]:
    """The same of an answer that is no stream."""
    body = _peel(parse_json(recording.text))
    if isinstance(body, list) and body and body[0].get("error"):
        body = body[0]
    if not isinstance(body, dict):
        words = recording.text.decode().strip() if recording.status >= 400 else ""
        return {"body": {}, "error": words or None, "lost": bool(recording.text)}
    error = body.get("error")
    message = error["message"] if error else None
    if message is None and recording.status >= 400:
        message = recording.text.decode().strip()
    return {"body": body, "error": message, "lost": False}


def expect_plain_span(recording: Recording) -> dict[str, Any]:
    """What the span of a plain answer must say, and how the exchange ended."""
    return _expect_span(recording, streamed=False)


def expect_stream_span(recording: Recording) -> dict[str, Any]:
    """What the span of a streamed answer must say, and how the exchange ended."""
    return _expect_span(recording, streamed=bool(recording.text.strip()))


def expect_embedding_span(recording: Recording) -> dict[str, Any]:
    """The same of embeddings, whose vectors are hidden."""
    failed = recording.status >= 400
    fold = _read_plain(recording)
    body, lost = fold["body"], fold["lost"] and not failed
    hidden = copy.deepcopy(body)
    for vector in [hidden["embedding"]] if "embedding" in hidden else hidden.get("embeddings", []):
        vector["values"] = _HIDDEN
    output = hidden or (_HIDDEN if recording.text else "")
    outcome = "upstream_error" if failed else "truncated" if recording.breaks_off and lost else ""
    asked = parse_json(recording.request)
    contents = [one["content"] for one in asked.get("requests", [])] or [asked["content"]]
    texts = ["".join(part["text"] for part in content["parts"]) for content in contents]
    return {
        "embedding.model_name": _model_of(recording),
        **{f"embedding.embeddings.{n}.embedding.text": text for n, text in enumerate(texts)},
        "outcome": outcome or "completed",
        "status": "ERROR" if outcome else "OK",
        "error": fold["error"],
        "lost": lost,
        "output.value": "" if failed else output,
        **{
            key: value
            for key, value in _count({} if failed else body.get("usageMetadata") or {}).items()
            if value is not None
        },
    }


def _model_of(recording: Recording) -> str | None:
    found = re.search(r"/models/(.*):", recording.target.decode())
    if found:
        return unquote(found.group(1))
    named: str | None = parse_json(recording.request).get("model")
    return named


def _expect_span(recording: Recording, *, streamed: bool) -> dict[str, Any]:
    text, failed = recording.text, recording.status >= 400
    streamed = streamed and not failed
    fold = fold_answer(text) if streamed else _read_plain(recording)
    body = {} if failed else fold["body"]
    candidates = body.get("candidates") or []
    blocked = (body.get("promptFeedback") or {}).get("blockReason")
    words = [str(one["finishReason"]) for one in candidates if one.get("finishReason")]
    output: Any = ""
    if failed:
        outcome = "upstream_error"
    elif fold["error"]:
        outcome, output = "stream_error", body
    elif streamed:
        ended = bool(words or blocked) and not fold["cut"]
        is_whole = ended and (fold["closed"] or not recording.breaks_off)
        outcome, output = "completed" if is_whole else "truncated", body
    else:
        outcome = "truncated" if recording.breaks_off else "completed"
        output = body or text.decode(errors="replace")
    first = [one for place, one in enumerate(candidates) if one.get("index", place) == 0]
    reason = str(first[0].get("finishReason") or "") if first else ""
    said = {
        "outcome": outcome,
        "status": "OK" if outcome == "completed" else "ERROR",
        "error": fold["error"],
        "lost": not streamed and not failed and fold["lost"],
        "llm.model_name": body.get("modelVersion") or _model_of(recording),
        "gen_ai.response.id": body.get("responseId"),
        "llm.finish_reason": reason or (None if words else blocked),
        "output.value": output or "",
        **_count(body.get("usageMetadata") or {}),
    }
    for place, one in enumerate(candidates):
        said |= _message(f"llm.output_messages.{one.get('index', place)}.message", one)
    return {key: value for key, value in said.items() if value is not None}


def _count(usage: dict[str, Any]) -> dict[str, Any]:
    """The counts, by the table of ``docs/contract/apis.md#counts``."""
    prompt, said, thought, total = (
        usage.get(name)
        for name in (
            *("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount"),
        )
    )
    if prompt is not None:
        prompt += usage.get("toolUsePromptTokenCount") or 0
    completion = said
    if thought is not None and (said is None or (prompt or 0) + said != total or said < thought):
        completion = (said or 0) + thought
    if total is not None and total < (prompt or 0) + (completion or 0):
        total = None
    cached = usage.get("cachedContentTokenCount")
    audio = {
        side: [one.get("tokenCount") for one in usage.get(name) or [] if one["modality"] == "AUDIO"]
        for side, name in (
            ("prompt", "promptTokensDetails"),
            ("completion", "candidatesTokensDetails"),
        )
    }
    return {
        "llm.token_count.prompt": prompt,
        "llm.token_count.completion": completion,
        "llm.token_count.total": total,
        "llm.token_count.prompt_details.cache_read": (
            cached if cached is None or prompt is None or cached <= prompt else None
        ),
        "llm.token_count.completion_details.reasoning": thought,
        **{f"llm.token_count.{side}_details.audio": of[0] for side, of in audio.items() if of},
    }


def _message(prefix: str, candidate: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a candidate, by the table of ``docs/apis.md#gemini``."""
    content = candidate.get("content") or {}
    parts = content.get("parts") or []
    if not parts:
        return {}
    said = {f"{prefix}.role": content.get("role") or "model"}
    if len(parts) == 1 and set(parts[0]) <= {"text"}:
        return said | {f"{prefix}.content": parts[0].get("text") or None}
    place = call_place = 0
    for part in parts:
        if (call := _call(part)) is not None:
            said |= {f"{prefix}.tool_calls.{call_place}.{key}": it for key, it in call.items()}
            call_place += 1
        elif (other := _part(part)) is not None:
            said |= {f"{prefix}.contents.{place}.{key}": it for key, it in other.items()}
            place += 1
    return said


def _opaque(part: dict[str, Any]) -> str | None:
    signature = part.get("thoughtSignature") or ""
    return signature if 0 < len(signature) <= _LONGEST_OPAQUE else None


def _call(part: dict[str, Any]) -> dict[str, Any] | None:
    if "functionCall" in part:
        call = part["functionCall"]
        asked, name = call.get("args"), call.get("name")
    elif "executableCode" in part:
        call = part["executableCode"]
        asked = {key: call[key] for key in ("language", "code") if key in call}
        name = "code_execution"
    else:
        return None
    written = json.dumps(asked, ensure_ascii=False, separators=(",", ":"))
    return {
        "tool_call.id": call.get("id"),
        "tool_call.function.name": name,
        "tool_call.function.arguments": None if asked is None else written,
        "tool_call.reasoning_signature": _opaque(part),
    }


def _part(part: dict[str, Any]) -> dict[str, Any] | None:
    if blob := part.get("inlineData"):
        kind, data = blob["mimeType"].partition("/")[0], blob["data"]
        url = f"data:{blob['mimeType']};base64,{data}"
        if kind == "image":
            return {"message_content.type": kind, "message_content.image.image.url": url}
        return {
            "message_content.type": kind,
            "message_content.audio.audio.url": url,
            "message_content.audio.audio.mime_type": blob["mimeType"],
        }
    if "text" not in part:
        return None
    return {
        "message_content.type": "reasoning" if part.get("thought") else "text",
        "message_content.text": part["text"] or None,
        "message_content.signature": _opaque(part),
    }
