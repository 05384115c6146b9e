"""A canary in every field of request and answer, and where it is seen under each privacy switch.

``docs/contract/spans.md#privacy``, its leaks closed: whatever a switch hides is in no attribute,
event or status, nowhere in the store's files and in no line of the log. Every plant has a word of
its own, and is seen where nothing hides it: a plant that nobody records would prove nothing.
"""

from __future__ import annotations

import logging
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.resources import Resource

from codec.apis.table import APIS
from proxy.settings.settings import Settings
from proxy.settings.spans import SpanSettings, build_span_rules
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import Begin
from telemetry.observing.socket_calls import derive_identity
from telemetry.privacy.switches import PrivacySwitches
from telemetry.raw_answer import unpack_raw_answer
from telemetry.service import TelemetryService
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.store.store import Store
from tests.telemetry.canaries import CANARY, body, plant
from tests.telemetry.canary_shapes import (
    HIDDEN,
    LEFT,
    OF_SOME_ENDPOINTS,
    OWN,
    SHAPES,
)
from tests.telemetry.chat_canaries import (
    ANSWERED,
    ASKED,
    EMBEDDING_ANSWERED,
    EMBEDDING_ASKED,
    ERROR_WORDS,
    LEGACY_ASKED,
    streamed,
)
from tests.telemetry.news.watching import Watching
from tests.telemetry.socket_canaries import SOCKET_SHAPES, speak
from tests.telemetry.tap_frames import begin, cut, exchange_frames

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from telemetry.spans.rules import SpanRules

ALL_SHAPES = SHAPES | SOCKET_SHAPES

ALL_CONTENT = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
"""So that the content in the words of the GenAI conventions is there to be hidden, too."""


def test_every_api_has_its_shapes() -> None:
    """And so has one that will be added."""
    assert OWN.keys() == {api.name for api in APIS}


def test_every_switch_has_its_plants() -> None:
    """But for that of vectors, which nobody records unasked."""
    others = {"HIDE_EMBEDDINGS_VECTORS"}
    known = {field.name.upper() for field in fields(PrivacySwitches)}
    assert HIDDEN.keys() == {name for name in known if name.startswith("HIDE_")} - others
    assert LEFT.keys() == HIDDEN.keys()


def rules_of(*switches: str, **settings: Any) -> SpanRules:
    """The rules of an environment with these switches on.

    Where something is hidden the true bytes of answers are asked for: nothing of it may be there.
    """
    if switches or settings:
        settings.setdefault("raw", "all")
    environ = dict([ALL_CONTENT], **{f"OPENINFERENCE_{switch}": "true" for switch in switches})
    return build_span_rules(SpanSettings.of(Settings(**settings)), environ)


def read_files(folder: Path) -> bytes:
    """Read all that the store wrote; its reserve is 16 MiB of room that nobody writes to."""
    files = (file for file in folder.iterdir() if file.suffix != ".reserve")
    return b"".join(file.read_bytes() for file in files)


def read_spans(folder: Path) -> bytes:
    """Read the spans that the store holds."""
    with Store.open(folder / "traces.db") as store:
        pending = store.read_due(3, 1 << 30, time.time_ns())
        return repr([decode_spans(one.span) for one in pending]).encode()


def read_raw_answers(store: Store) -> bytes:
    """Read the true bytes of answers, which are compressed in the files."""
    with store._file.use() as connection:
        packed = [row for (row,) in connection.execute("SELECT data FROM raw_answers")]
    answers = [unpack_raw_answer(one) for one in packed]
    return b"".join([answer.body for answer in answers if answer is not None])


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
        if "is_compressed" in members:  # over a WebSocket
            begun = {"endpoint": endpoint, "path": path, **members}
            first, *frames = speak(data=data, headers=headers, **begun)
            assert isinstance(first, Begin)
            span_id = derive_identity(first.identity, 1).span_id
        else:
            _, *frames = exchange_frames(*cut(data, [len(data) // 2]), **members)
            first = begin(headers=tuple(headers), endpoint=endpoint, path=path)
            span_id = first.identity.span_id
        watching = Watching(service, texts=[span_id])
        for frame in (first, *frames):
            service.feed(frame)
            watching.look()
        service.commit()
        watching.look()
        assert service.counts.failed == 0
        # That of the call, and that of its agent where it calls tools: the run rested long ago.
        pending = store.read_due(3, 1 << 30, time.time_ns())
        spans = [span for one in pending for span in decode_spans(one.span)]
        assert 1 <= len(spans) <= 2
        files = read_files(tmp_path) + read_raw_answers(store)
    told = f"{spans!r}\n{caplog.text}".encode()
    return {name.decode() for name in CANARY.findall(told + files + watching.raw)}


@pytest.mark.parametrize(("members", "planted"), ALL_SHAPES.values(), ids=ALL_SHAPES)
def test_without_a_switch_every_plant_is_recorded(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    members: dict[str, Any],
    planted: set[str],
) -> None:
    """So each of the tests below can fail."""
    assert seen(tmp_path, caplog, rules_of(), members) == planted


def test_true_bytes_have_what_no_span_has(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where they are asked for, and nothing is hidden: so the tests below can fail by them."""
    data = f": {plant('comment')}\n\n".encode() + streamed(ANSWERED)
    members = {"asked": body({**ASKED, "stream": True}), "data": data}
    assert "comment" not in seen(tmp_path / "a", caplog, rules_of(), members)
    assert "comment" in seen(tmp_path / "b", caplog, rules_of(raw="all"), members)
    for number, switch in enumerate(HIDDEN):
        found = seen(tmp_path / str(number), caplog, rules_of(switch), members)
        assert "comment" not in found, switch


@pytest.mark.parametrize("switch", HIDDEN)
@pytest.mark.parametrize(("members", "planted"), ALL_SHAPES.values(), ids=ALL_SHAPES)
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
    if planted.isdisjoint(ERROR_WORDS):  # an error may quote anything
        assert found >= planted & LEFT[switch]
    if switch == "HIDE_OUTPUTS":
        assert found >= planted & LEFT[switch]


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


@pytest.mark.parametrize(("members", "planted"), ALL_SHAPES.values(), ids=ALL_SHAPES)
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


@pytest.mark.parametrize(("members", "planted"), ALL_SHAPES.values(), ids=ALL_SHAPES)
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


SECRETS = {"email": rb"c4n4ry_\1_@mail.example", "api_key": rb"sk-c4n4ry_\1_0123456789"}
"""What the ready-made patterns find, with canaries in it."""


@pytest.mark.parametrize(("members", "planted"), ALL_SHAPES.values(), ids=ALL_SHAPES)
@pytest.mark.parametrize("name", SECRETS)
def test_what_a_ready_made_pattern_finds_is_nowhere(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    members: dict[str, Any],
    planted: set[str],
) -> None:
    """Each pattern is tried alone."""
    assert planted
    changed = {
        side: CANARY.sub(SECRETS[name], value) if isinstance(value, bytes) else value
        for side, value in members.items()
    }
    assert seen(tmp_path, caplog, rules_of(redact=[name]), changed) == set()


def test_what_a_pattern_finds_in_a_head_is_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In fields of both heads. Switches hide content, and fields of a head are none."""
    fields = [("anthropic-version", plant("version")), ("x-request-id", plant("id"))]
    members = {"asked": body({}), "data": body({}), "headers": [("x-ms-region", plant("region"))]}
    shown = {"version", "id", "region"}
    hidden = [("x-spantap-content", "off"), *fields]
    assert seen(tmp_path / "a", caplog, rules_of(content=False), members, hidden) == shown
    caplog.clear()
    rules = rules_of(redact_patterns={"canary": "c4n4ry_[a-z]+_"})
    assert seen(tmp_path / "b", caplog, rules, members, fields) == set()
    assert seen(tmp_path / "c", caplog, rules_of(record_headers="none"), members, fields) == set()


@pytest.mark.parametrize("shows", [None, "true", "false"])
def test_vectors_are_seen_where_the_switch_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, shows: str | None
) -> None:
    """They are hidden unless it says `false`; all else stays."""
    environ = dict([ALL_CONTENT])
    if shows is not None:
        environ["OPENINFERENCE_HIDE_EMBEDDINGS_VECTORS"] = shows
    rules = build_span_rules(SpanSettings.of(Settings()), environ)
    vector = [0.123456789, 0.987654321]
    answered = {**EMBEDDING_ANSWERED, "data": [{"index": 0, "embedding": vector}]}
    members = {"asked": body(EMBEDDING_ASKED), "data": body(answered), "endpoint": "embeddings"}
    assert seen(tmp_path, caplog, rules, members) == {"embedded", "user"}
    told = read_files(tmp_path) + read_spans(tmp_path)
    assert (b"0.123456789" in told) is (shows == "false")


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
