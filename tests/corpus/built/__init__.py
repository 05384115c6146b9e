"""Exchanges that nobody recorded; the name of each begins with ``built``.

They are built from ``docs/contract/apis.md#the-apis-on-the-wire``.

What the recordings lack, by their README: errors after content and pauses of Messages, errors of
Messages on Vertex AI, arrays and embeddings of Gemini, errors of Ollama, Jina's, vLLM's and TEI's
rankings, Mistral's moderations, refused and failed Responses, images and speech in events,
transcriptions in bare text.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.corpus.built.code_assist import CODE_ASSIST, CODE_ASSIST_STREAM, COUNT, enclose_request
from tests.corpus.built.gemini import GEMINI, GEMINI_EMBED, GEMINI_STREAM
from tests.corpus.built.media import IMAGES, SPEECH, TRANSCRIPTIONS, TRANSLATIONS
from tests.corpus.built.messages import MESSAGES
from tests.corpus.built.ollama import OLLAMA_CHAT, OLLAMA_EMBED, OLLAMA_GENERATE
from tests.corpus.built.others import COUNT_TOKENS, MODERATIONS, RERANK, RESPONSES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.corpus.built.wire import Built
    from tests.corpus.recordings import Recording

__all__ = ("as_array", "build_calls")

_HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Where to?"}]}
_CONTENTS: dict[str, Any] = {"contents": [{"parts": [{"text": "Where to?"}]}]}
_RECORDING: dict[str, Any] = {"model": "m-1", "file_url": "https://sounds.example/a.mp3"}

_APIS: dict[str, tuple[str, dict[str, Any], Mapping[str, Built]]] = {
    "audio.speech": (
        "/v1/audio/speech",
        {"model": "tts-m", "input": "Ahoy there", "voice": "alloy"},
        SPEECH,
    ),
    "audio.transcriptions": ("/v1/audio/transcriptions", _RECORDING, TRANSCRIPTIONS),
    "audio.translations": ("/v1/audio/translations", _RECORDING, TRANSLATIONS),
    "code_assist.count": (
        "/v1internal:countTokens",
        {"request": {"model": "models/gemini-3", **_CONTENTS}},
        COUNT,
    ),
    "code_assist.generate": (
        "/v1internal:generateContent",
        enclose_request(_CONTENTS),
        CODE_ASSIST,
    ),
    "code_assist.stream": (
        "/v1internal:streamGenerateContent?alt=sse",
        enclose_request(_CONTENTS),
        CODE_ASSIST_STREAM,
    ),
    "count_tokens": ("/v1/messages/count_tokens", {"model": "m", **_HELLO}, COUNT_TOKENS),
    "gemini.count": (
        "/v1beta/models/gemini-3:countTokens",
        {"generateContentRequest": {"model": "models/gemini-3", **_CONTENTS}},
        COUNT,
    ),
    "gemini.embed": (
        "/v1beta/models/text-embedding-004:embedContent",
        {"content": {"parts": [{"text": "Ahoy "}, {"text": "there"}]}},
        GEMINI_EMBED,
    ),
    "gemini.generate": ("/v1beta/models/gemini-3:generateContent", _CONTENTS, GEMINI),
    "gemini.stream": (
        "/v1beta/models/gemini-3:streamGenerateContent?alt=sse",
        _CONTENTS,
        GEMINI_STREAM,
    ),
    "images": ("/v1/images/generations", {"model": "image-m", "prompt": "A cat"}, IMAGES),
    "messages": ("/v1/messages", {"model": "claude-m", "max_tokens": 9, **_HELLO}, MESSAGES),
    "moderations": (
        "/v1/moderations",
        {"model": "mod-m", "input": ["Where to?", "There!"]},
        MODERATIONS,
    ),
    "ollama.chat": ("/api/chat", {"model": "llama-m", **_HELLO}, OLLAMA_CHAT),
    "ollama.embed": ("/api/embed", {"model": "embed-m", "input": ["Ahoy", "there"]}, OLLAMA_EMBED),
    "ollama.generate": (
        "/api/generate",
        {"model": "llama-m", "prompt": "Where to?"},
        OLLAMA_GENERATE,
    ),
    "rerank": (
        "/v1/rerank",
        {
            "model": "rank-m",
            "query": "land",
            "documents": ["sea", {"text": "land"}, {"title": "sky"}],
        },
        RERANK,
    ),
    "responses": ("/v1/responses", {"model": "gpt-m", "input": "Where to?"}, RESPONSES),
}
"""The path and the request of each API's calls, and what is answered."""


def build_calls() -> Iterator[tuple[str, Recording]]:
    """Each with the name of its API."""
    for api, (target, asked, calls) in _APIS.items():
        for name, built in calls.items():
            yield api, built.record(name, target, asked)


def as_array(recording: Recording) -> Recording | None:
    """A stream of Gemini's as the array that it is without ``alt=sse``, pretty-printed.

    ``None`` where it is an array already, or is no good as one.
    """
    events = re.split(rb"(?:\r?\n){2,}", recording.body.strip())
    values = [event.removeprefix(b"data:") for event in events]
    if not all(event.startswith(b"data:") and b"\n" not in event for event in events):
        return None
    chunks = [json.dumps(json.loads(one), indent=2, ensure_ascii=False) for one in values]  # noqa: TID251 - as Google would
    body = "[" + "\n,\n".join(chunks) + "\n]\n"
    return replace(
        recording,
        id=f"built: the array of {recording.id}",
        target=recording.target.partition(b"?")[0],
        head=((b"content-type", b"application/json; charset=UTF-8"),),
        body=body.replace("\n", "\r\n").encode(),
    )
