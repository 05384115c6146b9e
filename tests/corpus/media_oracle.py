"""What spans about images and sound must say.

It is written from ``docs/contract/apis.md#images`` and ``docs/contract/apis.md#sound``.

It shares nothing with the codec or the telemetry, so that neither can be wrong alone. Forms are
read by the standard library.
"""

from __future__ import annotations

import base64
import copy
import json
import re
from email.parser import BytesParser
from email.policy import HTTP
from typing import TYPE_CHECKING, Any

from tests.corpus.oracle import parse_json

if TYPE_CHECKING:
    from email.message import EmailMessage

    from tests.corpus.recordings import Recording

__all__ = (
    "expect_image_span",
    "expect_request",
    "expect_speech_span",
    "expect_transcription_span",
    "fold_typed",
    "is_events",
    "write_request",
)

_LONGEST_IMAGE = 32_000
_TOP = {"created_at": "created", "size": "size", "quality": "quality"}
_TOP |= {"background": "background", "output_format": "output_format"}


def is_events(body: bytes) -> bool:
    """An answer is a stream where it begins as one."""
    return body.lstrip().startswith((b"data:", b"event:", b":"))


def _streams(recording: Recording) -> bool:
    """Whether what came is a stream, or the beginning of one."""
    text = recording.text.lstrip()
    named = (b"content-type", b"text/event-stream") in [
        (name, kind.partition(b";")[0]) for name, kind in recording.head
    ]
    return is_events(text) or (named and bool(text) and text[:1] != b"{")


def read_events(body: bytes) -> list[dict[str, Any]]:
    """The values of a stream's events."""
    events = []
    for block in re.split(r"(?:\r\n|\n|\r){2,}", body.decode("utf-8", "replace")):
        data = [line[5:].strip() for line in re.split(r"\r\n|\n|\r", block) if line[:5] == "data:"]
        if isinstance(event := parse_json("\n".join(data)), dict):
            events.append(event)
    return events


def fold_typed(body: bytes) -> dict[str, Any]:
    """How many chunks a stream has."""
    return {"chunks": sum(event["type"] != "error" for event in read_events(body))}


# --- the request


def expect_request(recording: Recording) -> Any:
    """What ``input.value`` must say: the JSON, or the fields of the form."""
    if b"json" in recording.content_type:
        return parse_json(recording.request)
    head = b"Content-Type: " + recording.content_type + b"\r\n\r\n"
    whole = BytesParser(policy=HTTP).parsebytes(head + recording.request)
    fields: dict[str, list[Any]] = {}
    parts: Any = whole.get_payload()
    for part in parts:
        name = part.get_param("name", header="content-disposition")
        fields.setdefault(name, []).append(_read_part(part, recording.request))
    return {name: found[0] if len(found) == 1 else found for name, found in fields.items()}


def write_request(recording: Recording) -> bytes:
    """The request as telemetry has it: the fields of a form as JSON, anything else as it is."""
    if b"json" in recording.content_type:
        return recording.request
    return json.dumps(expect_request(recording)).encode()


def _read_part(part: EmailMessage, request: bytes) -> Any:
    filename = part.get_filename()
    if filename is None:
        return bytes(part.get_payload(decode=True) or b"").decode()
    # The standard library makes one of all line ends, so the size is told by the bytes.
    start = request.index(b"\r\n\r\n", request.index(f'filename="{filename}"'.encode())) + 4
    delimiter = b"\r\n" + request.partition(b"\r\n")[0]
    told: dict[str, Any] = {"filename": filename}
    if kind := (part["content-type"] or ""):
        told["content_type"] = kind
    return told | {"bytes": request.index(delimiter, start) - start}


# --- the answer


def _begin(recording: Recording) -> tuple[dict[str, Any], Any]:
    """What all spans say, and the body as JSON, ``None`` where it is none."""
    asked = expect_request(recording) or {}
    body = parse_json(recording.text)
    failed = recording.status >= 400
    text = recording.text.decode(errors="replace")
    members = body if isinstance(body, dict) else {}
    words = (members.get("error") or {}).get("message") or members.get("detail")
    said = {
        "outcome": "upstream_error" if failed else "completed",
        "status": "ERROR" if failed else "OK",
        "error": words or (text.strip() or None if failed else None),
        "lost": False,
        "llm.model_name": members.get("model"),
        "output.value": "" if failed else text if body is None else copy.deepcopy(body),
    }
    said["llm.model_name"] = said["llm.model_name"] or asked.get("model")
    return said, body


def _truncate(said: dict[str, Any]) -> None:
    said["outcome"], said["status"] = "truncated", "ERROR"


def _fail(said: dict[str, Any], error: dict[str, Any]) -> None:
    said["outcome"], said["status"], said["error"] = "stream_error", "ERROR", error["message"]


def _add_counts(said: dict[str, Any], usage: dict[str, Any] | None) -> None:
    if not usage:
        return
    details = usage.get("input_token_details") or usage.get("prompt_tokens_details") or {}
    counts = {
        "prompt": usage.get("input_tokens", usage.get("prompt_tokens")),
        "completion": usage.get("output_tokens", usage.get("completion_tokens")),
        "total": usage.get("total_tokens"),
        "prompt_details.audio": details.get("audio_tokens"),
        "prompt_details.cache_read": details.get("cached_tokens"),
    }
    both = sum(counts[name] or 0 for name in ("prompt", "completion"))
    if counts["prompt"] and counts["total"] == both + (counts["prompt_details.audio"] or 0):
        counts["prompt"] = counts["total"] - (counts["completion"] or 0)  # Mistral's is without it
    said |= {f"llm.token_count.{name}": count for name, count in counts.items()}
    said["metadata.usage_raw"] = usage


def _without_none(said: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if value is not None}


def expect_image_span(recording: Recording) -> dict[str, Any]:
    """What the span of a call for images must say."""
    said, body = _begin(recording)
    asked = expect_request(recording) or {}
    if recording.status < 400 and _streams(recording):
        body = _fold_images(recording.text, said)
        is_cut = recording.breaks_off and len(body.get("data", [])) < int(asked.get("n") or 1)
        if is_cut and said["error"] is None:
            _truncate(said)
        said["output.value"] = body or ""
    elif body is None and recording.status < 400:
        _truncate(said)
        said["lost"] = bool(recording.text)
    body = body if isinstance(body, dict) and recording.status < 400 else {}
    parts: list[dict[str, Any]] = []
    for image in said["output.value"].get("data", []) if body else []:
        parts += _shorten_image(image, body.get("output_format"))
    for place, part in enumerate(parts):
        prefix = f"llm.output_messages.0.message.contents.{place}.message_content"
        said["llm.output_messages.0.message.role"] = "assistant"
        said |= {f"{prefix}.{name}": value for name, value in part.items()}
    _drop_single_text(said, parts)
    _add_counts(said, body.get("usage"))
    return _without_none(said)


def _drop_single_text(said: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    assert not (len(parts) == 1 and parts[0]["type"] == "text")  # of the recordings, none is that


def _fold_images(text: bytes, said: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    images: list[Any] = []
    partial = 0
    for event in read_events(text):
        kind = event.pop("type")
        if kind == "error":
            _fail(said, event["error"])
        elif kind.endswith(".partial_image"):
            partial += 1
        elif kind.endswith(".completed"):
            if (usage := event.pop("usage", None)) is not None:
                body["usage"] = usage
            body |= {plain: event.pop(name) for name, plain in _TOP.items() if name in event}
            images.append(event)
    said["metadata.partial_images"] = partial
    if images:
        body["data"] = images
    elif said["error"] is None:
        _truncate(said)
    return body


def _shorten_image(image: dict[str, Any], form: str | None) -> list[dict[str, Any]]:
    """The parts of an image; what is too long or signed goes, in place."""
    parts: list[dict[str, Any]] = []
    if image.get("revised_prompt"):
        parts.append({"type": "text", "text": image["revised_prompt"]})
    url, data = image.get("url"), image.get("b64_json")
    if url:
        url = image["url"] = re.sub(r"\?.*", "?REDACTED", url, flags=re.DOTALL)
    elif data and len(data) > _LONGEST_IMAGE:
        image["b64_json"] = f"<{len(data)} base64 characters, image/png>"
    elif data:
        kind = image.get("mime_type") or f"image/{form or 'png'}"
        url = f"data:{kind};base64,{data}"
    if url or data:
        parts.append({"type": "image"} | ({"image.image.url": url} if url else {}))
    return parts


def expect_speech_span(recording: Recording) -> dict[str, Any]:
    """What the span of speech must say."""
    said, body = _begin(recording)
    said["output.value"] = ""
    kind = dict(recording.head)[b"content-type"].decode().partition(";")[0]
    text = recording.text
    if kind == "text/event-stream" and not text:  # nothing tells that it is one
        _truncate(said)
        return _without_none(said)
    if recording.status >= 400:
        return _without_none(said)
    if "audio_data" in (body or {}):
        sound = body["audio_data"]
        said["output.value"] = body | {"audio_data": f"<{len(sound)} base64 characters>"}
        said["output.mime_type"] = "application/json"
        said["metadata.output_bytes"] = len(base64.b64decode(sound))
        return _without_none(said)
    if kind == "application/json":  # of which the end is missing
        _truncate(said)
        said["lost"] = bool(text)
        said["output.value"] = text.decode()
        return _without_none(said)
    said["output.mime_type"] = kind
    if _streams(recording):
        said["metadata.output_bytes"] = _fold_speech(text, said)
    else:
        assert body is None
        said["metadata.output_bytes"] = len(text)
        if recording.breaks_off:
            _truncate(said)
    return _without_none(said)


def _fold_speech(text: bytes, said: dict[str, Any]) -> int:
    """How many bytes of sound there are in events."""
    size, usage, ended = 0, None, False
    for event in read_events(text):
        if event["type"] == "error":
            _fail(said, event["error"])
        elif event["type"] == "speech.audio.done":
            ended, usage = True, event["usage"]
        else:
            size += len(base64.b64decode(event.get("audio") or event["audio_data"]))
    if not ended and said["error"] is None:
        _truncate(said)
    _add_counts(said, usage)
    return size


def expect_transcription_span(recording: Recording) -> dict[str, Any]:
    """What the span of a transcription or a translation must say."""
    said, body = _begin(recording)
    if recording.status >= 400:
        return _without_none(said)
    text = recording.text
    if _streams(recording):
        body = _fold_text(text)
        error = body.pop("error")
        if not body.pop("ended"):
            _truncate(said) if error is None else _fail(said, error)
        said["output.value"] = body or ""
        said["llm.model_name"] = body.get("model") or said["llm.model_name"]
    elif body is None:
        words = re.sub(r"\ufffd\Z", "", text.decode("utf-8", "replace")).lstrip()
        said["output.value"] = words
        if recording.breaks_off:
            _truncate(said)
        if words.startswith("{"):
            said["lost"] = True
        elif words:
            body = {"text": words}
    if body and "text" in body:
        said["llm.output_messages.0.message.role"] = "assistant"
        said["llm.output_messages.0.message.content"] = body["text"] or None
    _add_counts(said, (body or {}).get("usage"))
    return _without_none(said)


def _fold_text(text: bytes) -> dict[str, Any]:
    pieces: list[str] = []
    segments: list[Any] = []
    end: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    ended = False
    for event in read_events(text):
        match event.pop("type").rpartition(".")[2]:
            case "delta":
                pieces.append(event["delta"] if "delta" in event else event["text"])
            case "segment":
                segments.append(event)
            case "done":
                ended, end = True, end | event
            case "language":
                end["language"] = event["audio_language"]
            case "error":
                error = event["error"]
    body: dict[str, Any] = {"text": "".join(pieces)} if pieces else {}
    if segments:
        body["segments"] = segments
    return body | end | {"ended": ended, "error": error}
