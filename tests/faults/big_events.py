"""Streams of every API with one event of any size in them: words, or a picture in base64."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.proxy.api_endings import BUILT, head_of
from tests.proxy.harness import ASKING_CHAT, DONE, STREAM, chunk_event

if TYPE_CHECKING:
    from tests.corpus.recordings import Recording

__all__ = ("PICTURES", "WORDS", "Big")


class Big(NamedTuple):
    """A stream with room for more in one event.

    Attributes:
        head: of the answer.
        before: the events before that one, and its beginning.
        after: its end, and the events behind it.
    """

    target: str
    request: bytes
    head: bytes
    before: bytes
    after: bytes


def _put(recording: Recording, at: bytes, event: bytes) -> Big:
    """Put an event with a ``|`` in the place of what there is more of, before these words."""
    place = recording.body.rindex(at)
    beginning, end = event.split(b"|")
    return Big(
        target=recording.target.decode(),
        request=recording.request,
        head=head_of(recording),
        before=recording.body[:place] + beginning,
        after=end + recording.body[place:],
    )


def _event(value: dict[str, Any]) -> bytes:
    return f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode()


def _chunk(part: dict[str, Any]) -> bytes:
    return json.dumps({"candidates": [{"content": {"role": "model", "parts": [part]}}]}).encode()


_MESSAGE = BUILT["messages", "thinking, text and two calls"]
_EVENTS = BUILT["gemini.stream", "a thought, words and a call in pieces"]
_ARRAY = BUILT["gemini.stream", "a thought, words and a call in an array"]
_LINES = BUILT["ollama.chat", "thinking and a call"]
_RESPONSE = BUILT["responses", "a refusal"]

_IMAGE = BUILT["images", "an image and two before it"]
_SPEECH = BUILT["audio.speech", "sound in events"]
_HEARD = BUILT["audio.transcriptions", "words in pieces"]

_DELTA = {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "|"}}
_SAID = {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "|"}
_LINE = {"model": "llama-m", "message": {"role": "assistant", "content": "|"}, "done": False}
_PNG = "iVBORw0KGgoA|"
"""How a picture begins, in base64."""

_BLOB = {"inlineData": {"mimeType": "image/png", "data": _PNG}}
_DRAWN = {"id": "i-1", "type": "image_generation_call", "result": _PNG}
_PARTIAL = {
    "type": "response.image_generation_call.partial_image",
    "output_index": 1,
    "partial_image_b64": _PNG,
}

_CHAT_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_BEGIN, _END = chunk_event('"content":"|"').split(b"|")

WORDS = {
    "chat": Big(
        *("/v1/chat/completions", ASKING_CHAT, _CHAT_HEAD),
        STREAM[0] + _BEGIN,
        _END + STREAM[3] + DONE,
    ),
    "Messages": _put(_MESSAGE, b"event: message_delta", _event(_DELTA)),
    "Gemini's events": _put(_EVENTS, b"data:", b"data: " + _chunk({"text": "|"}) + b"\r\n\r\n"),
    "Gemini's array": _put(_ARRAY, b",\r\n{", b",\r\n" + _chunk({"text": "|"}) + b"\r\n"),
    "Ollama's lines": _put(_LINES, b'{"model"', json.dumps(_LINE).encode() + b"\n"),
    "Responses": _put(_RESPONSE, b"event: response.completed", _event(_SAID)),
    "transcriptions": _put(
        _HEARD,
        b"event: transcript.text.done",
        _event({"type": "transcript.text.delta", "delta": "|"}),
    ),
    "speech": _put(
        _SPEECH, b"event: speech.audio.done", _event({"type": "speech.audio.delta", "audio": "|"})
    ),
}
"""By what they are of; sound, which is counted event by event, is words of speech."""

PICTURES = {
    "Gemini's events": _put(_EVENTS, b"data:", b"data: " + _chunk(_BLOB) + b"\r\n\r\n"),
    "Gemini's array": _put(_ARRAY, b",\r\n{", b",\r\n" + _chunk(_BLOB) + b"\r\n"),
    "images, a partial one": _put(
        _IMAGE,
        b"event: image_generation.completed",
        _event({"type": "image_generation.partial_image", "b64_json": _PNG}),
    ),
    "images, a finished one": _put(
        _IMAGE,
        b"event: image_generation.completed",
        _event({"type": "image_generation.completed", "b64_json": _PNG}),
    ),
    "Responses, a partial image": _put(_RESPONSE, b"event: response.completed", _event(_PARTIAL)),
    "Responses, an image": _put(
        _RESPONSE,
        b"event: response.completed",
        _event({"type": "response.output_item.done", "output_index": 1, "item": _DRAWN}),
    ),
}
"""Where an API has base64 in an answer."""
