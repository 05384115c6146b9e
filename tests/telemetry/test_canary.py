"""A canary in every field of request and answer, and where it is seen under each privacy switch.

Contract section 3, its leaks closed: whatever a switch hides is in no attribute, event or status,
nowhere in the store's files and in no line of the log. Every plant has a word of its own, and is
seen where nothing hides it: a plant that nobody records would prove nothing.
"""

from __future__ import annotations

import logging
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.resources import Resource

from codec.apis.table import APIS, get_api
from codec.text.jsontext import decode_json_object
from proxy.settings.settings import Settings
from proxy.settings.spans import SpanSettings, build_span_rules
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import Begin
from telemetry.privacy.switches import PrivacySwitches
from telemetry.service import TelemetryService
from telemetry.spans.otlp.encoding import decode_spans
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.store.store import Store
from tests.telemetry.canaries import CANARY, IMAGE_URL, body, plant
from tests.telemetry.gemini_canaries import (
    GEMINI_ANSWERED,
    GEMINI_ASKED,
    GEMINI_EMBEDDED,
    GEMINI_EMBEDDING,
    GEMINI_EMBEDDING_WORDS,
    GEMINI_PATH,
    GEMINI_WORDS,
    stream_gemini,
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
from tests.telemetry.news.watching import Watching
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
from tests.telemetry.response_canaries import (
    RESPONSES_ANSWERED,
    RESPONSES_ASKED,
    RESPONSES_WORDS,
    stream_response,
)
from tests.telemetry.tap_frames import begin, cut, exchange_frames, identity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from telemetry.spans.rules import SpanRules

ALL_CONTENT = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
"""So that the content in the words of the GenAI conventions is there to be hidden, too."""


ASKED: dict[str, Any] = {
    "model": "m-1",
    "messages": [
        {"role": "system", "content": plant("system")},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": plant("part")},
                {"type": "image_url", "image_url": {"url": IMAGE_URL}},
                {"type": "input_audio", "input_audio": {"data": plant("audio"), "format": "mp3"}},
                {"type": "file", "file": {"file_data": f"data:x;base64,{plant('file')}"}},
                {"type": "unheard_of", "unheard_of": plant("oddpart")},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": plant("thought"),
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "f", "arguments": f'{{"q": "{plant("arguments")}"}}'},
                }
            ],
            "function_call": {"name": "f", "arguments": f'{{"q": "{plant("oldarguments")}"}}'},
        },
        {"role": "tool", "tool_call_id": "call_1", "content": plant("result")},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": plant("toolname"),
                "description": plant("description"),
                "parameters": {"type": "object", "title": plant("schema")},
            },
        }
    ],
    "functions": [{"name": plant("function")}],
    "tool_choice": {"type": "function", "function": {"name": plant("chosen")}},
    "function_call": {"name": plant("chosenfunction")},
    "response_format": {"type": "json_schema", "json_schema": {"name": plant("format")}},
    "stop": [plant("stop")],
    "user": plant("user"),
    "metadata": {"k": plant("metadata"), "session_id": plant("session")},
    "prompt_cache_key": plant("cachekey"),
    "unheard_of": {plant("oddkey"): plant("oddmember")},
}

MESSAGE_WORDS = {
    *("signature", "data"),
    *("system", "part", "audio", "file", "oddpart", "arguments", "oldarguments", "result"),
    "thought",
}
TOOL_WORDS = {"toolname", "description", "schema", "function", "chosen", "chosenfunction"}
PARAMETER_WORDS = {
    *("stop", "user", "metadata", "session", "cachekey", "oddkey", "oddmember", "format"),
    *("chosen", "chosenfunction"),
}
CHAT_WORDS = MESSAGE_WORDS - {"signature", "data"}
INPUT_WORDS = CHAT_WORDS | TOOL_WORDS | PARAMETER_WORDS | {"image"}

ANSWERED: dict[str, Any] = {
    "id": "chatcmpl-1",
    "model": "m-1",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": plant("content"),
                "reasoning_content": plant("reasoning"),
                "refusal": plant("refusal"),
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "call_2",
                        "type": "function",
                        "function": {"name": "g", "arguments": f'{{"a": "{plant("called")}"}}'},
                    }
                ],
                "unheard_of": plant("oddanswer"),
            },
            "logprobs": {"content": [{"token": plant("token"), "logprob": -1.0}]},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "note": plant("usage")},
    "unheard_of": plant("oddbody"),
}
OUTPUT_WORDS = {
    *("content", "reasoning", "refusal", "called", "oddanswer", "token", "usage", "oddbody"),
}

ERROR = {
    "error": {"message": f"cannot {plant('message')}", "type": "t", "param": plant("param")},
    "detail": [{"loc": ["body", "tools", 0], "input": plant("quotedtool")}],  # as FastAPI quotes
}
ERROR_WORDS = {"message", "param", "quotedtool"}
RANKED_WORDS = {"query", "document", "doctext", "docfield"}

LEGACY_ASKED = {"model": "m-1", "prompt": [plant("prompt")], "suffix": plant("suffix")}
LEGACY_ANSWERED = {
    "model": "m-1",
    "choices": [{"index": 0, "text": plant("text"), "finish_reason": "stop"}],
}
EMBEDDING_ASKED = {"model": "m-1", "input": [plant("embedded")], "user": plant("user")}
EMBEDDING_ANSWERED = {"model": "m-1", "data": [{"index": 0, "embedding": [0.5]}]}


def streamed(answer: dict[str, Any]) -> bytes:
    """The same answer as a stream: one chunk with all of it, and the usage."""
    choice = dict(answer["choices"][0])
    choice["delta"] = choice.pop("message")
    chunk = {**answer, "choices": [choice]}
    return b"data: " + body(chunk) + b"\n\ndata: [DONE]\n\n"


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
    "speech in JSON": (
        {"asked": body(SPEECH_ASKED), "data": body(SPEECH_ANSWERED), "endpoint": "audio.speech"},
        SPEECH_WORDS | {"usage", "oddbody"},
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
"""Every member, of whatever endpoint, but for those in which an answer repeats its own request."""
for _endpoint, (_asked, _answered) in OWN.items():
    _api = get_api(_endpoint)
    _quoted = _api.quoted_members | _api.quoted_lists
    ALL_ASKED |= _asked
    ALL_ANSWERED |= {name: value for name, value in _answered.items() if name not in _quoted}


def with_every_member(endpoint: str) -> tuple[dict[str, Any], set[str]]:
    """A call with all of them, its own as they should be: everybody sends what they like."""
    own_asked, own_answered = OWN[endpoint]
    asked, answered = body(ALL_ASKED | own_asked), body(ALL_ANSWERED | own_answered)
    planted = {name.decode() for name in CANARY.findall(asked + answered)}
    return {"asked": asked, "data": answered, "endpoint": endpoint}, planted


SHAPES |= {f"every member, {endpoint}": with_every_member(endpoint) for endpoint in OWN}

WORDS_OF_REQUESTS = (
    MESSAGE_WORDS | ERROR_WORDS | RANKED_WORDS | {"prompt", "suffix", "embedded", "oddrequest"}
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


def test_every_api_has_its_shapes() -> None:
    """And so has one that will be added."""
    assert OWN.keys() == {api.name for api in APIS}


def test_every_switch_has_its_plants() -> None:
    """But for that of vectors, which nobody records unasked."""
    others = {"HIDE_EMBEDDINGS_VECTORS"}
    known = {field.name.upper() for field in fields(PrivacySwitches)}
    assert HIDDEN.keys() == {name for name in known if name.startswith("HIDE_")} - others


def rules_of(*switches: str, **settings: Any) -> SpanRules:
    """The rules of an environment with these switches on."""
    environ = dict([ALL_CONTENT], **{f"OPENINFERENCE_{switch}": "true" for switch in switches})
    return build_span_rules(SpanSettings.of(Settings(**settings)), environ)


def read_files(folder: Path) -> bytes:
    """Read all that the store wrote; its reserve is 16 MiB of room that nobody writes to."""
    files = (file for file in folder.iterdir() if file.suffix != ".reserve")
    return b"".join(file.read_bytes() for file in files)


def seen(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    rules: SpanRules,
    members: dict[str, Any],
    headers: Iterable[tuple[str, str]] = (),
) -> set[str]:
    """The plants that are found in the spans, the store's files, the log or the live news."""
    caplog.set_level(logging.DEBUG)
    members = dict(members)
    endpoint = members.pop("endpoint", "chat.completions")
    data = members.pop("data")
    path = members.pop("path", "/v1/chat/completions")
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
    tmp_path.mkdir(exist_ok=True)
    with Store.open(tmp_path / "traces.db") as store:
        service = TelemetryService(recorder, store, rules=rules, now_ns=time.time_ns)
        watching = Watching(service, texts=[identity(1).span_id])
        first, *frames = exchange_frames(*cut(data, [len(data) // 2]), **members)
        assert isinstance(first, Begin)
        for frame in (begin(headers=tuple(headers), endpoint=endpoint, path=path), *frames):
            service.feed(frame)
            watching.look()
        service.commit()
        watching.look()
        assert service.counts.failed == 0
        # That of the call, and that of its agent where it calls tools: the run rested long ago.
        pending = store.read_due(3, 1 << 30, time.time_ns())
        spans = [span for one in pending for span in decode_spans(one.span)]
        assert 1 <= len(spans) <= 2
        files = read_files(tmp_path)
    told = f"{spans!r}\n{caplog.text}".encode()
    return {name.decode() for name in CANARY.findall(told + files + watching.raw)}


@pytest.mark.parametrize(("members", "planted"), SHAPES.values(), ids=SHAPES)
def test_without_a_switch_every_plant_is_recorded(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    members: dict[str, Any],
    planted: set[str],
) -> None:
    """So each of the tests below can fail."""
    assert seen(tmp_path, caplog, rules_of(), members) == planted


@pytest.mark.parametrize("switch", HIDDEN)
@pytest.mark.parametrize(("members", "planted"), SHAPES.values(), ids=SHAPES)
def test_what_a_switch_hides_is_nowhere(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    switch: str,
    members: dict[str, Any],
    planted: set[str],
) -> None:
    """Neither in the span nor in the store nor in the log; and the other side stays."""
    found = seen(tmp_path, caplog, rules_of(switch), members)
    assert found <= planted
    endpoint = members.get("endpoint", "chat.completions")
    if endpoint in OF_SOME_ENDPOINTS.get(switch, (endpoint,)):
        assert not found & HIDDEN[switch]
    if switch == "HIDE_INPUTS" and planted.isdisjoint(ERROR_WORDS):  # an error may quote anything
        assert found >= planted & (OF_ANSWERS - ERROR_WORDS)
    if switch == "HIDE_OUTPUTS":
        assert found >= planted & (OF_REQUESTS - ERROR_WORDS)


def test_tools_that_are_kept_explicitly_are_all_that_is_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of hidden inputs, where the switch of tools says so."""
    environ = dict([ALL_CONTENT, ("OPENINFERENCE_HIDE_LLM_TOOLS", "false")])
    for side in ("INPUTS", "OUTPUTS"):
        environ[f"OPENINFERENCE_HIDE_{side}"] = "true"
    rules = build_span_rules(SpanSettings.of(Settings()), environ)
    found = seen(tmp_path, caplog, rules, SHAPES["plain"][0])
    assert found == {"toolname", "description", "schema"}


@pytest.mark.parametrize("switch", ["HIDE_INPUTS", "HIDE_INPUT_TEXT", "HIDE_PROMPTS"])
def test_an_answer_that_repeats_the_prompt_hides_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, switch: str
) -> None:
    """Legacy ``echo``: the text of the answer begins with the prompt."""
    answered = {"model": "m-1", "choices": [{"index": 0, "text": plant("prompt") + " and more"}]}
    members = {
        "asked": body({**LEGACY_ASKED, "echo": True}),
        "data": body(answered),
        "endpoint": "completions",
    }
    assert "prompt" in seen(tmp_path / "a", caplog, rules_of(), members)
    assert "prompt" not in seen(tmp_path / "b", caplog, rules_of(switch), members)


def test_images_in_metadata_are_hidden(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And in stop sequences: wherever the request has one."""
    image = f"data:image/png;base64,{plant('hidden')}"
    asked = {**ASKED, "messages": [], "metadata": {"logo": image}, "stop": [image]}
    rules = rules_of("HIDE_INPUT_IMAGES")
    members = {"asked": body(asked), "data": body(ANSWERED)}
    assert "hidden" not in seen(tmp_path, caplog, rules, members)


@pytest.mark.parametrize(("members", "planted"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("by", ["setting", "header", "switches"])
def test_with_content_off_no_plant_is_anywhere(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    by: str,
    members: dict[str, Any],
    planted: set[str],
) -> None:
    """By the setting, by the header of one request, or by both large switches."""
    assert planted
    headers = [("x-spantap-content", "off")] if by == "header" else []
    switches = ("HIDE_INPUTS", "HIDE_OUTPUTS") if by == "switches" else ()
    rules = rules_of(*switches, content=by != "setting")
    assert seen(tmp_path, caplog, rules, members, headers) == set()


@pytest.mark.parametrize(("members", "planted"), SHAPES.values(), ids=SHAPES)
def test_what_a_pattern_finds_is_nowhere(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    members: dict[str, Any],
    planted: set[str],
) -> None:
    """In values, in keys, in arguments that are JSON in a string, in errors."""
    assert planted
    rules = rules_of(redact_patterns={"canary": "c4n4ry_[a-z]+_"})
    assert seen(tmp_path, caplog, rules, members) == set()


def test_what_a_pattern_finds_is_in_no_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A key that somebody pasted as the model: not in the span's name, nor in the store's row."""
    asked = {**ASKED, "model": plant("model")}
    data = body({**ANSWERED, "model": plant("model")})
    rules = rules_of(redact_patterns={"canary": "c4n4ry_[a-z]+_"}, span_name="genai")
    assert seen(tmp_path, caplog, rules, {"asked": body(asked), "data": data}) == set()


@pytest.mark.parametrize("kind", [EndKind.CLIENT_GONE, EndKind.UPSTREAM_BROKEN])
def test_a_stream_that_is_cut_hides_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: EndKind
) -> None:
    """What came of it is content like the rest."""
    data = streamed(ANSWERED).partition(b"data: [DONE]")[0]
    members = {"asked": body({**ASKED, "stream": True}), "data": data, "kind": kind}
    rules = rules_of("HIDE_OUTPUTS", "HIDE_INPUTS")
    assert seen(tmp_path, caplog, rules, members) == set()


def test_a_span_that_cannot_be_made_is_made_without_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect in the mask costs the content, and shows none of it."""

    def fail(*_: object) -> Any:
        raise KeyError(plant("defect"))

    monkeypatch.setattr("telemetry.privacy.mask.hide_attributes", fail)
    rules = rules_of("HIDE_INPUTS")
    caplog.set_level(logging.DEBUG)
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
    with Store.open(tmp_path / "traces.db") as store:
        service = TelemetryService(recorder, store, rules=rules, now_ns=time.time_ns)
        for frame in exchange_frames(body(ANSWERED), asked=body(ASKED)):
            service.feed(frame)
        service.commit()
        files = read_files(tmp_path)
    assert not CANARY.search(files + caplog.text.encode())
    assert service.counts.failed == 1
