"""Calls of every API with a canary in each field, and what each privacy switch hides of these.

Whoever adds an API adds its shapes here; with every member of all others they are made below.
"""

from __future__ import annotations

from typing import Any

from codec.apis.table import ENCLOSED_REQUESTS, get_api
from codec.text.jsontext import decode_json_object
from telemetry.frames.ending import EndKind
from tests.telemetry.canaries import CANARY, body, plant
from tests.telemetry.chat_canaries import (
    ANSWERED,
    ASKED,
    EMBEDDING_ANSWERED,
    EMBEDDING_ASKED,
    ERROR,
    ERROR_WORDS,
    INPUT_WORDS,
    LEGACY_ANSWERED,
    LEGACY_ASKED,
    MESSAGE_WORDS,
    OUTPUT_WORDS,
    PARAMETER_WORDS,
    RANKED_WORDS,
    TOOL_WORDS,
    streamed,
)
from tests.telemetry.gemini_canaries import (
    GEMINI_ANSWERED,
    GEMINI_ASKED,
    GEMINI_EMBEDDED,
    GEMINI_EMBEDDING,
    GEMINI_EMBEDDING_WORDS,
    GEMINI_PATH,
    GEMINI_WORDS,
    LIVE_ASKED,
    stream_gemini,
    stream_live,
)
from tests.telemetry.media_canaries import (
    EDIT_ASKED,
    IMAGES_ANSWERED,
    IMAGES_ASKED,
    IMAGES_WORDS,
    SPEECH_ANSWERED,
    SPEECH_ASKED,
    SPEECH_WORDS,
    TRANSCRIPTION_ANSWERED,
    TRANSCRIPTION_ASKED,
    TRANSCRIPTION_WORDS,
    WRITTEN_ASKED,
    stream_images,
    stream_speech,
    stream_transcription,
)
from tests.telemetry.message_canaries import (
    MESSAGES_ANSWERED,
    MESSAGES_ASKED,
    MESSAGES_WORDS,
    stream_messages,
)
from tests.telemetry.ollama_canaries import (
    OLLAMA_ANSWERED,
    OLLAMA_ASKED,
    OLLAMA_EMBEDDED,
    OLLAMA_EMBEDDING,
    OLLAMA_EMBEDDING_WORDS,
    OLLAMA_PROMPT,
    OLLAMA_PROMPT_WORDS,
    OLLAMA_TEXT,
    OLLAMA_TEXT_WORDS,
    OLLAMA_WORDS,
    stream_lines,
)
from tests.telemetry.ranking_canaries import (
    MODERATION_ANSWERED,
    MODERATION_ASKED,
    MODERATION_WORDS,
    RANKING_ANSWERED,
    RANKING_ASKED,
    RANKING_WORDS,
    TEI_ANSWERED,
    TEI_ASKED,
)
from tests.telemetry.realtime_canaries import REALTIME_ASKED, REALTIME_WORDS, stream_realtime
from tests.telemetry.response_canaries import (
    RESPONSES_ANSWERED,
    RESPONSES_ASKED,
    RESPONSES_WORDS,
    stream_response,
)

SHAPES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "plain": ({"asked": body(ASKED), "data": body(ANSWERED)}, INPUT_WORDS | OUTPUT_WORDS),
    "stream": (
        {"asked": body({**ASKED, "stream": True}), "data": streamed(ANSWERED)},
        INPUT_WORDS | OUTPUT_WORDS,
    ),
    "refused": (
        {"asked": body(ASKED), "data": body(ERROR), "status": 400},
        INPUT_WORDS | ERROR_WORDS,
    ),
    "error in a stream": (
        {"asked": body({**ASKED, "stream": True}), "data": b"data: " + body(ERROR) + b"\n\n"},
        INPUT_WORDS | ERROR_WORDS,
    ),
    "legacy": (
        {
            "asked": body(LEGACY_ASKED),
            "data": body(LEGACY_ANSWERED),
            "endpoint": "completions",
        },
        {"prompt", "suffix", "text"},
    ),
    "embedding": (
        {
            "asked": body(EMBEDDING_ASKED),
            "data": body(EMBEDDING_ANSWERED),
            "endpoint": "embeddings",
        },
        {"embedded", "user"},
    ),
    "responses": (
        {
            "asked": body(RESPONSES_ASKED),
            "data": body(RESPONSES_ANSWERED),
            "endpoint": "responses",
        },
        RESPONSES_WORDS | OUTPUT_WORDS,
    ),
    "streamed responses": (
        {
            "asked": body({**RESPONSES_ASKED, "stream": True}),
            "data": stream_response(RESPONSES_ANSWERED),
            "endpoint": "responses",
        },
        RESPONSES_WORDS | OUTPUT_WORDS,
    ),
    "failed response": (
        {
            "asked": body({**RESPONSES_ASKED, "stream": True}),
            "data": stream_response(RESPONSES_ANSWERED | {"status": "failed", **ERROR}),
            "endpoint": "responses",
        },
        RESPONSES_WORDS | OUTPUT_WORDS | ERROR_WORDS,
    ),
    "messages": (
        {
            "asked": body(MESSAGES_ASKED),
            "data": body(MESSAGES_ANSWERED),
            "endpoint": "messages",
        },
        MESSAGES_WORDS | OUTPUT_WORDS,
    ),
    "streamed messages": (
        {
            "asked": body({**MESSAGES_ASKED, "stream": True}),
            "data": stream_messages(MESSAGES_ANSWERED),
            "endpoint": "messages",
        },
        MESSAGES_WORDS | OUTPUT_WORDS,
    ),
    "ranking": (
        {"asked": body(RANKING_ASKED), "data": body(RANKING_ANSWERED), "endpoint": "rerank"},
        RANKING_WORDS,
    ),
    "ranking as a list": (
        {"asked": body(TEI_ASKED), "data": body(TEI_ANSWERED), "endpoint": "rerank"},
        {"query", "document", "oddanswer"},
    ),
    "ranking that broke off": (
        {
            "asked": body(TEI_ASKED),
            "data": body([{"index": 0, "text": plant("document")}])[:-1],
            "endpoint": "rerank",
            "kind": EndKind.UPSTREAM_BROKEN,
        },
        {"query", "document"},
    ),
    "refused ranking": (
        {
            "asked": body(RANKING_ASKED),
            "data": body({"message": plant("message")}),
            "status": 422,
            "endpoint": "rerank",
        },
        (RANKING_WORDS - OUTPUT_WORDS) | {"message"},
    ),
    "moderation": (
        {
            "asked": body(MODERATION_ASKED),
            "data": body(MODERATION_ANSWERED),
            "endpoint": "moderations",
        },
        MODERATION_WORDS,
    ),
    "refused moderation": (
        {
            "asked": body(MODERATION_ASKED),
            "data": body({"detail": [{"input": plant("message")}]}),
            "status": 422,
            "endpoint": "moderations",
        },
        (MODERATION_WORDS - OUTPUT_WORDS) | {"message"},
    ),
    "ollama": (
        {
            "asked": body({**OLLAMA_ASKED, "stream": False}),
            "data": body(OLLAMA_ANSWERED),
            "endpoint": "ollama.chat",
        },
        OLLAMA_WORDS | OUTPUT_WORDS,
    ),
    "streamed ollama": (
        {
            "asked": body(OLLAMA_ASKED),
            "data": stream_lines(OLLAMA_ANSWERED),
            "endpoint": "ollama.chat",
        },
        OLLAMA_WORDS | OUTPUT_WORDS,
    ),
    "failed ollama": (
        {
            "asked": body(OLLAMA_ASKED),
            "data": stream_lines(OLLAMA_ANSWERED)
            + body({"error": f"{plant('message')} {plant('param')} {plant('quotedtool')}"}),
            "endpoint": "ollama.chat",
        },
        OLLAMA_WORDS | OUTPUT_WORDS | ERROR_WORDS,
    ),
    "ollama text": (
        {
            "asked": body(OLLAMA_PROMPT),
            "data": stream_lines(OLLAMA_TEXT),
            "endpoint": "ollama.generate",
        },
        OLLAMA_PROMPT_WORDS | OLLAMA_TEXT_WORDS,
    ),
    "ollama embedding": (
        {
            "asked": body(OLLAMA_EMBEDDING),
            "data": body(OLLAMA_EMBEDDED),
            "endpoint": "ollama.embed",
        },
        OLLAMA_EMBEDDING_WORDS,
    ),
    "gemini": (
        {
            "asked": body(GEMINI_ASKED),
            "data": body(GEMINI_ANSWERED),
            "endpoint": "gemini.generate",
        },
        GEMINI_WORDS | OUTPUT_WORDS,
    ),
    "gemini embedding": (
        {
            "asked": body(GEMINI_EMBEDDING),
            "data": body(GEMINI_EMBEDDED),
            "endpoint": "gemini.embed",
        },
        GEMINI_EMBEDDING_WORDS,
    ),
    "streamed gemini": (
        {
            "asked": body(GEMINI_ASKED),
            "data": stream_gemini(GEMINI_ANSWERED),
            "endpoint": "gemini.stream",
            "path": GEMINI_PATH.replace(":g", ":streamG"),
        },
        GEMINI_WORDS | OUTPUT_WORDS,
    ),
    "error in a stream of gemini": (
        {
            "asked": body(GEMINI_ASKED),
            "data": b"[" + body(ERROR) + b"]",
            "endpoint": "gemini.stream",
            "path": GEMINI_PATH.replace(":g", ":streamG"),
        },
        GEMINI_WORDS | {"message"},
    ),
    "live": (
        {
            "asked": body(LIVE_ASKED),
            "data": stream_live(GEMINI_ANSWERED),
            "endpoint": "gemini.live",
        },
        GEMINI_WORDS | {"heard", "text"} | (OUTPUT_WORDS - {"oddbody"}),
    ),
    "code assist": (
        {
            "asked": body({"model": "m", "request": GEMINI_ASKED}),
            "data": body({"response": GEMINI_ANSWERED, "traceId": "t-1"}),
            "endpoint": "code_assist.generate",
            "path": "/v1internal:generateContent",
        },
        GEMINI_WORDS | OUTPUT_WORDS,
    ),
    "streamed code assist": (
        {
            "asked": body({"model": "m", "request": GEMINI_ASKED}),
            "data": stream_gemini({"response": GEMINI_ANSWERED, "traceId": "t-1"}),
            "endpoint": "code_assist.stream",
            "path": "/v1internal:streamGenerateContent",
        },
        GEMINI_WORDS | OUTPUT_WORDS,
    ),
    **{
        f"count of {endpoint}": (
            {
                "asked": body(asked),
                "data": body({"totalTokens": 3, "unheard_of": plant("oddbody")}),
                "endpoint": endpoint,
            },
            GEMINI_WORDS | {"oddbody"},
        )
        for endpoint, asked in (
            ("gemini.count", GEMINI_ASKED),
            ("code_assist.count", {"request": GEMINI_ASKED}),
        )
    },
    "images": (
        {"asked": body(IMAGES_ASKED), "data": body(IMAGES_ANSWERED), "endpoint": "images"},
        IMAGES_WORDS,
    ),
    "streamed images of a form": (
        {"asked": body(EDIT_ASKED), "data": stream_images(IMAGES_ANSWERED), "endpoint": "images"},
        IMAGES_WORDS,
    ),
    "refused images": (
        {"asked": body(EDIT_ASKED), "data": body(ERROR), "status": 400, "endpoint": "images"},
        (IMAGES_WORDS - OUTPUT_WORDS) | ERROR_WORDS,
    ),
    "speech in JSON": (
        {"asked": body(SPEECH_ASKED), "data": body(SPEECH_ANSWERED), "endpoint": "audio.speech"},
        SPEECH_WORDS | {"usage", "oddbody"},
    ),
    "speech": (
        {
            "asked": body(SPEECH_ASKED),
            "data": plant("sound").encode(),
            "headers": [("content-type", "audio/mpeg")],
            "endpoint": "audio.speech",
        },
        SPEECH_WORDS,
    ),
    "streamed speech": (
        {"asked": body(SPEECH_ASKED), "data": stream_speech(), "endpoint": "audio.speech"},
        SPEECH_WORDS | {"usage"},
    ),
    "transcription": (
        {
            "asked": body(TRANSCRIPTION_ASKED),
            "data": body(TRANSCRIPTION_ANSWERED),
            "endpoint": "audio.transcriptions",
        },
        TRANSCRIPTION_WORDS,
    ),
    "streamed translation": (
        {
            "asked": body(TRANSCRIPTION_ASKED),
            "data": stream_transcription(TRANSCRIPTION_ANSWERED),
            "endpoint": "audio.translations",
        },
        TRANSCRIPTION_WORDS,
    ),
    "transcription in bare text": (
        {
            "asked": body(WRITTEN_ASKED),
            "data": plant("oddtext").encode(),
            "endpoint": "audio.transcriptions",
        },
        {"audio", "oddtext"} | (TRANSCRIPTION_WORDS - OUTPUT_WORDS - {"part"}),
    ),
    "realtime": (
        {"asked": body(REALTIME_ASKED), "data": stream_realtime(), "endpoint": "realtime"},
        REALTIME_WORDS,
    ),
    "count of tokens": (
        {
            "asked": body(MESSAGES_ASKED),
            "data": body({"input_tokens": 3, "unheard_of": plant("oddbody")}),
            "endpoint": "count_tokens",
        },
        (MESSAGES_WORDS - OUTPUT_WORDS) | {"oddbody"},
    ),
    "no JSON on either side": (
        {"asked": plant("oddrequest").encode(), "data": plant("oddtext").encode()},
        {"oddrequest", "oddtext"},
    ),
}


def read_object(data: bytes) -> dict[str, Any]:
    """The members of a body; none of one that is not a JSON object."""
    try:
        return decode_json_object(data)
    except ValueError:
        return {}


OWN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
"""Of each endpoint the members of the first request and answer above."""
for _members, _ in SHAPES.values():
    OWN.setdefault(
        _members.get("endpoint", "chat.completions"),
        (read_object(_members["asked"]), read_object(_members["data"])),
    )

ALL_ASKED: dict[str, Any] = {}
ALL_ANSWERED: dict[str, Any] = {}
"""Every member, of whatever endpoint, but for those in which an answer repeats its own request, and
for what is in an envelope, which to other endpoints is any member."""
for _endpoint, (_asked, _answered) in OWN.items():
    _api = get_api(_endpoint)
    _quoted = _api.quoted_members | _api.quoted_lists
    _quoted |= ENCLOSED_REQUESTS | {"response"}
    ALL_ASKED |= {name: value for name, value in _asked.items() if name not in ENCLOSED_REQUESTS}
    ALL_ANSWERED |= {name: value for name, value in _answered.items() if name not in _quoted}


def with_every_member(endpoint: str) -> tuple[dict[str, Any], set[str]]:
    """A call with all of them, its own as they should be: everybody sends what they like."""
    own_asked, own_answered = OWN[endpoint]
    asked, answered = body(ALL_ASKED | own_asked), body(ALL_ANSWERED | own_answered)
    planted = {name.decode() for name in CANARY.findall(asked + answered)}
    return {"asked": asked, "data": answered, "endpoint": endpoint}, planted


SHAPES |= {f"every member, {endpoint}": with_every_member(endpoint) for endpoint in OWN}

WORDS_OF_REQUESTS = (
    MESSAGE_WORDS
    | ERROR_WORDS
    | RANKED_WORDS
    | {"prompt", "suffix", "embedded", "oddrequest", "heard"}
)
OF_REQUESTS = INPUT_WORDS | WORDS_OF_REQUESTS
OF_ANSWERS = OUTPUT_WORDS | ERROR_WORDS | {"text", "oddtext"}

HIDDEN: dict[str, set[str]] = {
    "HIDE_INPUTS": OF_REQUESTS,
    "HIDE_OUTPUTS": OF_ANSWERS,
    "HIDE_INPUT_MESSAGES": WORDS_OF_REQUESTS | {"image"},
    "HIDE_OUTPUT_MESSAGES": OF_ANSWERS,
    "HIDE_INPUT_TEXT": WORDS_OF_REQUESTS | {"image"},
    "HIDE_OUTPUT_TEXT": OF_ANSWERS,
    "HIDE_INPUT_IMAGES": {"image"},
    "HIDE_LLM_TOOLS": TOOL_WORDS | ERROR_WORDS,
    "HIDE_LLM_INVOCATION_PARAMETERS": PARAMETER_WORDS | ERROR_WORDS | {"suffix"},
    "HIDE_PROMPTS": {"prompt", "suffix"},
    "HIDE_CHOICES": {"text"},
    "HIDE_EMBEDDINGS_TEXT": {"embedded"},
    "HIDE_RETRIEVAL_DOCUMENTS": RANKED_WORDS | OF_ANSWERS,
}
"""What each switch hides at least, by the plants."""

OF_SOME_ENDPOINTS = {
    "HIDE_PROMPTS": ("completions", "ollama.generate"),
    "HIDE_CHOICES": ("completions", "ollama.generate"),
    "HIDE_EMBEDDINGS_TEXT": ("embeddings", "ollama.embed", "gemini.embed"),
    "HIDE_RETRIEVAL_DOCUMENTS": ("rerank",),
}
"""Switches of what means something to some endpoints: to others such a member is any other."""

LEFT = (
    dict.fromkeys(
        ("HIDE_INPUTS", "HIDE_INPUT_MESSAGES", "HIDE_INPUT_TEXT", "HIDE_PROMPTS"),
        OF_ANSWERS - ERROR_WORDS,
    )
    | dict.fromkeys(
        ("HIDE_OUTPUTS", "HIDE_OUTPUT_MESSAGES", "HIDE_OUTPUT_TEXT", "HIDE_CHOICES"),
        OF_REQUESTS - ERROR_WORDS,
    )
    | {
        "HIDE_LLM_INVOCATION_PARAMETERS": OF_ANSWERS - ERROR_WORDS,
        "HIDE_LLM_TOOLS": (OF_ANSWERS | OF_REQUESTS) - TOOL_WORDS - ERROR_WORDS - {"oddrequest"},
        "HIDE_INPUT_IMAGES": (OF_ANSWERS | OF_REQUESTS) - {"image"},
        "HIDE_EMBEDDINGS_TEXT": OF_ANSWERS - ERROR_WORDS,
        "HIDE_RETRIEVAL_DOCUMENTS": {"metadata", "user", "session"},
    }
)
"""What each switch leaves at least, by the plants, where nothing quotes anything; a body that is no
JSON is hidden whole, for nobody knows what is where in it."""
