"""Recorded agents, interleaved, as runs: a TOOL span for each result that somebody recorded (1.8).

The oracle reads the recorded JSON by itself: which ids an answer gave out, and with what words the
next request of the file brings them back.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from opentelemetry.sdk.resources import Resource

from codec.apis.table import find_api
from codec.text.jsontext import decode_json, decode_json_object
from telemetry.frames.frame import RequestBody, ResponseData, ResponseHead
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.reading.stored_calls import open_calls
from telemetry.service import TelemetryService
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store.store import Store
from tests.corpus.recordings import FOLDER, NEEDS_RECORDINGS
from tests.telemetry.tap_frames import START_NS, begin, end, identity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from telemetry.facts import CallColumns
    from telemetry.spans.otlp.decoding import DecodedSpan

pytestmark = NEEDS_RECORDINGS

SECOND_NS = 1_000_000_000
RESULTS = {"function_call_output", "custom_tool_call_output", "tool_result"}


class Seen(NamedTuple):
    """A recorded span and its columns."""

    span: DecodedSpan
    columns: CallColumns


def read(name: str) -> list[dict[str, Any]]:
    """The exchanges of a file of recordings whose bodies are texts."""
    assert FOLDER is not None
    text = (FOLDER / name / "exchanges.jsonl").read_text(encoding="utf-8")
    exchanges = map(decode_json, text.split("\n")[:-1])
    return [
        one
        for one in exchanges
        if isinstance(one["request"]["body"], str) and isinstance(one["response"]["body"], str)
    ]


def file_of(exchange: dict[str, Any]) -> str:
    """Where it was recorded: one caller's."""
    return str(exchange["id"].rpartition("#")[0] or exchange["id"])


def interleave(exchanges: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The exchanges of all files in turn, each file's in its order."""
    files: dict[str, list[dict[str, Any]]] = {}
    for one in exchanges:
        files.setdefault(file_of(one), []).append(one)
    return filter(None, chain.from_iterable(zip_longest(*files.values())))


def record(path: Path, exchanges: list[dict[str, Any]]) -> list[Seen]:
    """Record exchanges, a key for each file; all spans, in their order."""
    rules = SpanRules()
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
    with Store.open(path, delivers=False) as store:
        now = [START_NS]
        service = TelemetryService(recorder, store, rules=rules, now_ns=lambda: now[0])
        for number, exchange in enumerate(interleave(exchanges), 1):
            feed(service, number, exchange)
            now[0] = START_NS + number * SECOND_NS
            if not number % 20:
                service.commit()
        now[0] += 3600 * SECOND_NS
        service.commit()
        assert service.counts.failed == 0
    with open_calls(path).all_rows() as reader:
        stored = [*reader.newest(100_000)]
    return [Seen(decode_spans(one.span)[0], one.summary.columns) for one in stored]


def feed(service: TelemetryService, number: int, exchange: dict[str, Any]) -> None:
    """Feed the frames of an exchange that takes a second."""
    request, response = exchange["request"], exchange["response"]
    api = find_api("POST", request["path"])
    if api is None:
        return
    asked, at_ns = request["body"].encode(), START_NS + (number - 1) * SECOND_NS
    kind = "text/event-stream" if exchange["streaming"] else "application/json"
    encrypted = OWN_CIPHER.encrypt(
        f"authorization: Bearer sk-{file_of(exchange)}-0123456789".encode()
    )
    for frame in (
        begin(
            number,
            at_ns=at_ns,
            endpoint=api.name,
            path=request["path"].partition("?")[0],
            identity=identity(number),
            encrypted=encrypted,
        ),
        RequestBody(exchange=number, data=asked, size_bytes=len(asked)),
        ResponseHead(
            exchange=number,
            at_ns=at_ns + 1,
            status=response["status"],
            headers=(("content-type", kind),),
        ),
        ResponseData(number, at_ns + 2, response["body"].encode()),
        end(number, at_ns=at_ns + SECOND_NS - 1),
    ):
        service.feed(frame)


def list_results(body: str) -> dict[str, str]:
    """The results that a request brings, by the ids of their calls, as the JSON has them."""
    found: dict[str, str] = {}
    try:
        request = decode_json_object(body)
    except ValueError:
        return found
    for item in [*list_of(request.get("messages")), *list_of(request.get("input"))]:
        if not isinstance(item, dict):
            continue
        if item.get("role") == "tool":
            found[item.get("tool_call_id", "")] = tell(item.get("content"))
        if item.get("type") in RESULTS:
            found[item["call_id"]] = tell(item.get("output"))
        for block in list_of(item.get("content")):
            if isinstance(block, dict) and block.get("type") in RESULTS:
                found[block["tool_use_id"]] = tell(block.get("content"))
    return found


def list_of(value: Any) -> list[Any]:
    """A list, empty for what is none."""
    return value if isinstance(value, list) else []


def tell(content: Any) -> str:
    """A result as a text: the texts of parts joined, other JSON by its letters alone."""
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in list_of(content) if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str)) if texts else str(content)


def letters(text: str) -> str:
    """The letters and digits of a text, by which JSON is compared however it is written."""
    return "".join(filter(str.isalnum, text))


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> list[Seen]:
    """The recordings by which the rules were made, as they are recorded."""
    return record(tmp_path_factory.mktemp("chats") / "spans.db", read("recordings"))


def by_kind(seen: list[Seen], kind: str) -> list[Seen]:
    """Those of a kind."""
    return [one for one in seen if one.columns.kind == kind]


def check_trees(seen: list[Seen]) -> None:
    """Each parent is there, in the same trace; ids are each one span's."""
    spans = {one.span.span_id: one.span for one in seen}
    assert len(spans) == len(seen)
    for one in seen:
        parent = one.span.parent_span_id
        if parent is not None:
            assert spans[parent].trace_id == one.span.trace_id


def test_every_recorded_result_is_a_span(chats: list[Seen]) -> None:
    """Of 74 those 71 whose call an answer made, in 50 runs.

    A client made two calls up; and one was the provider's own search, which the client repeats to
    another provider.
    """
    check_trees(chats)
    runs = Counter(one.columns.run for one in by_kind(chats, "TOOL"))
    assert Counter(runs.values()) == {1: 32, 2: 15, 3: 3}
    agents = by_kind(chats, "AGENT")
    assert {*runs} <= {one.columns.run for one in agents}
    assert Counter(one.columns.finish_reason for one in agents) == {"answer": 50, "idle": 10}


def test_the_results_are_those_that_were_recorded(chats: list[Seen]) -> None:
    """By the ids of their calls, in the words of the request that brought them."""
    recorded: dict[str, set[str]] = {}
    for exchange in read("recordings"):
        for call_id, text in list_results(exchange["request"]["body"]).items():
            recorded.setdefault(call_id, set()).add(letters(text))
    renamed = 0
    for one in by_kind(chats, "TOOL"):
        call_id = one.span.attributes.get("tool_call.id", "")
        shown = letters(one.span.attributes.get("output.value", ""))
        renamed += call_id not in recorded
        for_call = recorded.get(call_id, {*chain.from_iterable(recorded.values())})
        assert any(shown in text or text in shown for text in for_call)
    assert renamed == 3  # by clients that give ids of their own


def test_other_recordings_are_trees(tmp_path: Path) -> None:
    """Those by which no rule was made: Responses, Messages, Gemini and Ollama."""
    seen = record(tmp_path / "spans.db", read("recordings-apis"))
    check_trees(seen)
    apis = {one.columns.run: one.columns.api for one in by_kind(seen, "LLM")}
    told = Counter(apis[one.columns.run] for one in by_kind(seen, "TOOL"))
    assert told == {
        "responses": 57,
        "ollama.chat": 13,
        "gemini.stream": 6,
        "gemini.generate": 2,
        "messages": 2,
    }
