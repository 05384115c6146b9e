"""Every member of every recorded exchange has a canary once; where it is seen under each switch.

:mod:`tests.telemetry.test_canary` plants by hand into the members that somebody thought of; here
nobody has to think of one. What may be seen is told by the rules below, which know no more of an
API than which members of a request are its content, and which its tools.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.resources import Resource

from codec.apis.table import APIS
from telemetry.observing.observer import Observer
from telemetry.privacy.switches import PrivacySwitches
from telemetry.service import TelemetryService
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.spans.otlp.encoding import encode_span
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.value_texts import ValueForm
from telemetry.store.store import Store
from tests.corpus.live_recordings import load_live
from tests.corpus.media_oracle import write_request
from tests.corpus.planting import Member, Planted, find_images, plant_all, plant_in_turn
from tests.corpus.realtime_recordings import load_realtime
from tests.corpus.recordings import (
    NEEDS_RECORDINGS,
    load_all,
    load_chats,
    load_completions,
    load_embeddings,
)
from tests.corpus.test_apis import CASES
from tests.telemetry.canaries import CANARY
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import begin, exchange_frames
from tests.telemetry.test_canary import rules_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from telemetry.frames.frame import Frame
    from telemetry.spans.rules import SpanRules
    from tests.corpus.recordings import Recording

pytestmark = [*NEEDS_RECORDINGS, pytest.mark.timeout(240)]

ENCLOSED = ("code_assist.count", "code_assist.generate", "code_assist.stream", "gemini.count")
"""Code Assist's APIs, whose members are in an envelope, and one that is not."""

CONTENT = {
    "audio.speech": ("input",),
    "audio.transcriptions": ("file", "file_url", "input_audio", "prompt"),
    "audio.translations": ("file", "file_url", "input_audio", "prompt"),
    "chat.completions": ("messages", "functions", "tools"),
    **dict.fromkeys(ENCLOSED, ("contents", "systemInstruction", "tools", "generateContentRequest")),
    "completions": ("prompt",),
    "count_tokens": ("messages", "system", "tools"),
    "embeddings": ("input",),
    "gemini.embed": ("content", "requests"),
    "gemini.generate": ("contents", "systemInstruction", "tools"),
    **dict.fromkeys(
        ("gemini.live", "gemini.stream"), ("contents", "systemInstruction", "tools", "input_audio")
    ),
    "images": ("prompt", "image", "image[]", "images", "mask"),
    "messages": ("messages", "system", "tools"),
    "moderations": ("input",),
    "ollama.chat": ("messages", "tools"),
    "ollama.embed": ("input",),
    "ollama.generate": ("prompt",),
    "realtime": ("input", "input_audio", "instructions", "tools"),
    "rerank": ("query", "documents", "texts"),
    "responses": ("input", "instructions", "tools"),
}
"""Members of requests that are no parameters."""

TOOLS = {
    "chat.completions": ("tools", "tool_choice", "functions", "function_call"),
    **dict.fromkeys(
        (*ENCLOSED, "gemini.generate", "gemini.live", "gemini.stream"), ("tools", "toolConfig")
    ),
    "messages": ("tools", "tool_choice", "mcp_servers", "context_management"),
}
"""Members that hold tools, or name some, where these are not ``tools`` and ``tool_choice``."""

KEPT = {
    *("model", "modelVersion", "id", "responseId", "traceId", "service_tier", "system_fingerprint"),
    *("finishReason", "blockReason", "finish_reason", "stop_reason", "done_reason", "status"),
    *("reason",),
}
"""What always stays: models, ids of answers, why they ended
(``docs/contract/spans.md#what-stays``)."""

NAMES = {
    *("role", "id", "name", "type", "call_id", "tool_use_id", "tool_call_id", "tool_name"),
    *("mimeType", "mime_type", "media_type", "modality", "file_id"),
}
"""What hidden text leaves of a message: whose it is, and what refers to what."""

ERRORS = {
    *("error", "detail", "message", "error_type", "request_id", "user_id", "code", "type"),
    *("contentType", "method", "pathname"),  # of a recorded answer that is none
}
"""Members of an answer that may quote anything, and are hidden with either side."""

ECHOES = {"images": {"data"}, "rerank": {"results", "data", "*"}}
"""Members of an answer that repeat the request."""

REPEATING = {"realtime", "responses"}
"""APIs any member of whose answers may repeat the request, and whose streams repeat themselves."""

WHOLE = ("HIDE_INPUTS", "HIDE_INPUT_MESSAGES", "HIDE_OUTPUTS", "HIDE_OUTPUT_MESSAGES")
TEXTS = ("HIDE_INPUT_TEXT", "HIDE_OUTPUT_TEXT")
OTHERS = ("HIDE_LLM_TOOLS", "HIDE_LLM_INVOCATION_PARAMETERS")
OF_SOME = {
    "HIDE_PROMPTS": ("completions", "ollama.generate"),
    "HIDE_CHOICES": ("completions", "ollama.generate"),
    "HIDE_EMBEDDINGS_TEXT": ("embeddings", "ollama.embed", "gemini.embed"),
    "HIDE_RETRIEVAL_DOCUMENTS": ("rerank",),
}
OLDER = {
    "chat.completions": load_chats,
    "completions": load_completions,
    "embeddings": load_embeddings,
    "gemini.live": load_live,
    "realtime": load_realtime,
}
"""APIs whose recordings are not among the cases of those that are called by ``POST``."""

IMAGES = "HIDE_INPUT_IMAGES"
"""What this one hides depends on the exchange, and has a test of its own."""

NUMBERS = "HIDE_EMBEDDINGS_VECTORS"
"""Hides numbers alone, in which no canary can be."""

SHOW_IMAGES = {"gemini.generate", "gemini.stream", "images", "messages", "moderations", "responses"}
"""APIs whose exchanges have images in requests; a chat's are planted by hand, and Ollama's."""


UNSEEN: dict[str, set[Member]] = {
    "audio.speech": {
        *(("said", "type"), ("said", "error", "type"), ("said", "error", "code")),
        *(("said", "audio"), ("said", "audio_data")),
    },
    "audio.transcriptions": {
        *(("said", "type"), ("said", "error", "code"), ("said", "audio_language")),
    },
    "chat.completions": {
        ("said", "choices", "*", "delta", "content", "*", "thinking", "*", "type"),
    },
    "code_assist.generate": {("asked", "project"), ("said", "response", "responseId")},
    "code_assist.stream": {
        *(("asked", "project"), ("said", "response", "responseId")),
        ("said", "*", "response", "responseId"),
        *(("said", "error", "status"), ("said", "*", "error", "status")),
    },
    "embeddings": {("said", "data", "*", "embedding")},
    "images": {("said", "type")},
    "gemini.live": {
        ("said", "serverContent", "modelTurn", "role"),
        ("said", "serverContent", "modelTurn", "parts", "*", "inlineData", "data"),
    },
    "gemini.stream": {("said", "*", "error", "status")},
    "messages": {
        *(("said", "type"), ("said", "delta", "type")),
        *(("said", "message", "usage", "speed"), ("said", "content_block", "caller", "type")),
        ("said", "content_block", "content", "tool_references", "*", "type"),
        ("said", "content_block", "content", "tool_references", "*", "tool_name"),
    },
    "responses": {("asked", "tools", "*", "authorization")},
}
"""What no span shows: what kind of an event or an error it is, if that is no word; of two messages
in one stream the first, of two languages likewise; a role that comes late; sound; vectors in
base64; credentials; the project of Code Assist, and the id that is in its envelope."""


def may_be_seen(switch: str, api: str, member: Member) -> bool:
    """Whether a switch leaves a member of an exchange of an API."""
    if api.startswith("code_assist") and member[1] in {"request", "response"}:
        member = (member[0], *member[2:])
    side, top, last = member[0], member[1], member[-1]
    asks = side == "asked"
    if not asks and last in KEPT:
        return True
    if asks and member == ("asked", "model"):
        return True
    hides_asked = "INPUT" in switch or switch in {"HIDE_PROMPTS", "HIDE_EMBEDDINGS_TEXT"}
    hides_said = "OUTPUT" in switch or switch == "HIDE_CHOICES"
    if switch == "HIDE_RETRIEVAL_DOCUMENTS":
        return False
    if switch == "HIDE_LLM_TOOLS":
        return not asks or (top not in TOOLS.get(api, ("tool_choice",)) and "tools" not in member)
    if switch == "HIDE_LLM_INVOCATION_PARAMETERS":
        return not asks or top in CONTENT[api]
    tools_stay = "tools" in member and switch in {"HIDE_INPUT_MESSAGES", "HIDE_INPUT_TEXT"}
    if asks and hides_asked:
        return tools_stay or (switch in TEXTS and last in NAMES)
    if not asks and hides_said:
        return switch in TEXTS and last in NAMES
    return True


def exchanges_of(api: str) -> list[Recording]:
    """All that there are of an API: recorded, or built where recordings are thin."""
    if api in OLDER:
        return load_all(OLDER[api])
    return [case.recording for case in CASES if case.api == api]


@cache
def planted_of(api: str) -> list[Planted]:
    """Exchanges of an API in which every member has a canary once, all together."""
    known: set[Member] = set()
    chosen: list[Planted] = []
    turns: set[Member] = set()
    for recorded in exchanges_of(api):
        recording = replace(recorded, request=write_request(recorded))
        planted = plant_all(recording)
        if not known.issuperset(planted.words.values()):
            known |= {*planted.words.values()}
            chosen.append(planted)
        chosen += plant_in_turn(recording, turns)
    return chosen


def write_frames(planted: Planted, api: str, number: int = 1) -> list[Frame]:
    """The frames of an exchange with canaries."""
    recording = planted.recording
    head = tuple((name.decode(), value.decode()) for name, value in recording.head)
    path = recording.target.decode().partition("?")[0]
    _, *frames = exchange_frames(
        planted.said, number=number, asked=planted.asked, status=recording.status, headers=head
    )
    return [begin(number, endpoint=api, path=path), *frames]


def find_members(data: bytes, planted: Planted) -> set[Member]:
    """The members whose canaries are in there."""
    return {planted.words[word.decode()] for word in CANARY.findall(data)}


@cache
def seen(api: str, switch: str = "") -> frozenset[Member]:
    """The members that spans show under a switch, in any exchange of an API."""
    rules = rules_of(*([switch] if switch else ()))
    return frozenset(_look(api, rules))


def _look(api: str, rules: SpanRules) -> Iterator[Member]:
    for planted in planted_of(api):
        yield from map(planted.words.__getitem__, find_words(planted, api, rules))


def find_words(planted: Planted, api: str, rules: SpanRules) -> set[str]:
    """The canaries that the span of an exchange shows, with values of either form."""
    observer = Observer(hides_inputs=rules.hides_bodies)
    exchange = observe(write_frames(planted, api), observer)
    found = []
    for form in ValueForm:
        of_form = replace(rules, values=form)
        recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), of_form)
        span = recorder.record(exchange)
        assert span is not None
        found.append({word.decode() for word in CANARY.findall(encode_span(span))})
    assert found[0] == found[1]  # a text shows no more than a body, and both no less
    return found[0]


apis = pytest.mark.parametrize("api", CONTENT)


def test_every_api_is_here() -> None:
    """And so is one that will be added."""
    assert CONTENT.keys() == {api.name for api in APIS}


def test_every_switch_is_here() -> None:
    """And so is one that will be added."""
    known = {field.name.upper() for field in fields(PrivacySwitches)}
    tried = {*WHOLE, *TEXTS, *OTHERS, *OF_SOME, IMAGES, NUMBERS}
    assert tried == {name for name in known if name.startswith("HIDE_")}


@apis
def test_without_a_switch_every_member_is_seen(api: str) -> None:
    """So whatever is not seen under one is hidden by it."""
    members = {member for one in planted_of(api) for member in one.words.values()}
    unseen = members - seen(api)
    assert len(members) > 2
    if api in REPEATING:  # deltas, of which the end tells the whole
        unseen = {member for member in unseen if member[0] == "asked"}
    assert unseen == UNSEEN.get(api, set())


@apis
@pytest.mark.parametrize("switch", [*WHOLE, *TEXTS, *OTHERS, *OF_SOME])
def test_what_a_switch_hides_is_in_no_span(api: str, switch: str) -> None:
    """Whatever the member; and the other side stays."""
    if api not in OF_SOME.get(switch, (api,)):
        assert seen(api, switch) <= seen(api)
        return
    assert {one for one in seen(api, switch) if not may_be_seen(switch, api, one)} == set()
    if switch in (*WHOLE, *TEXTS) and api not in REPEATING:
        side = "said" if "INPUT" in switch else "asked"
        others = {one for one in seen(api) if one[0] == side}
        others = {one for one in others if side == "asked" or ERRORS.isdisjoint(one[1:3])}
        echoes = ECHOES.get(api, set())
        assert others - seen(api, switch) <= {one for one in others if one[1] in echoes}


@apis
def test_hidden_images_are_in_no_span(api: str) -> None:
    """Of requests; what else these say stays, and of answers all that does not repeat them."""
    may_go, shows_images = ECHOES.get(api, set()), False
    for planted in planted_of(api):
        images = find_images(planted)
        shown, left = (find_words(planted, api, rules_of(*it)) for it in ((), (IMAGES,)))
        shows_images |= not images.isdisjoint(shown)
        assert left & images == set()
        gone = {planted.words[word] for word in shown - left - images}
        assert {one for one in gone if one[0] == "asked"} == set()
        assert api in REPEATING or {one for one in gone if one[1] not in may_go} == set()
    assert shows_images is (api in SHOW_IMAGES)


def test_with_content_off_no_member_is_anywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in a span, nor in the store's files, nor in the log."""
    caplog.set_level("DEBUG")
    rules = rules_of(content=False)
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
    everything = [(api, planted) for api in CONTENT for planted in planted_of(api)]
    found: dict[str, set[Member]] = defaultdict(set)
    spans = b""
    with Store.open(tmp_path / "traces.db") as store:
        service = TelemetryService(recorder, store, rules=rules, now_ns=time.time_ns)
        for number, (api, planted) in enumerate(everything, start=1):
            for frame in write_frames(planted, api, number):
                service.feed(frame)
            service.commit()
            found[api] |= find_members(caplog.text.encode(), planted)
            caplog.clear()
        assert service.counts.failed == 0
        for pending in store.read_due(3 * len(everything), 1 << 30, time.time_ns()):
            [span] = decode_spans(pending.span)
            number = int(span.span_id, 16)
            if number > len(everything):  # that of an agent, in the trace of its first call
                number = int(span.trace_id, 16)
            api, planted = everything[number - 1]
            found[api] |= find_members(pending.span, planted)
            spans += pending.span
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert {*CANARY.findall(files)} <= {*CANARY.findall(spans)}
    told = {api: {one for one in members if one[-1] not in KEPT} for api, members in found.items()}
    assert {api: members for api, members in told.items() if members} == {}
