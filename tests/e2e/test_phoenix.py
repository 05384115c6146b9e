"""Chats by the real SDK through the proxy, read back from a real Phoenix field by field."""

from __future__ import annotations

import re
import secrets
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from codec.text.jsontext import decode_json, encode_json
from tests.docs.blocks import DOCS, Page
from tests.e2e.calls import CALLS, Call, ask, have_chats, open_client
from tests.e2e.expected import expected_attributes, expected_cost, prune
from tests.e2e.processes import clean_environment
from tests.e2e.spantap import running_proxy
from tests.e2e.special_calls import (
    PRICED_CALLS,
    SESSION_CALLS,
    SESSION_USER,
    SPECIAL_CALLS,
    have_special_chats,
    open_clients,
)

if TYPE_CHECKING:
    from pathlib import Path

    from codec.text.jsontext import JsonObject
    from tests.e2e.phoenix import Phoenix, StoredEvent, StoredSpan
    from tests.e2e.spantap import Upstream

pytestmark = pytest.mark.e2e

ALL_CALLS = (*CALLS, *SPECIAL_CALLS)

FIRST_CHUNK_NS = 120_000_000
"""The demo upstream thinks so long before it speaks (its ``Pace``)."""

MICROSECOND_NS = 1_000
"""What Phoenix rounds times to."""

TIMES = frozenset(
    {
        "gen_ai.response.time_to_first_chunk",
        "metadata.chunk_wait_ms",
        "metadata.first_content_ms",
        "metadata.longest_chunk_wait_at",
        "metadata.longest_chunk_wait_ms",
        "metadata.ttft_ms",
    }
)
"""Attributes that no client can tell to the microsecond."""

PAGE = Page(DOCS / "backends.md")

PRICES_SECONDS = 10.0
"""Phoenix reads its prices anew every five seconds."""

LATE_NS = 1_000_000_000
"""A client that hangs up is noticed within 100 ms, and one that reads ``[DONE]`` has not waited for
the end of the response; the rest is for a loaded machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The same calls, told by both sides.

    Attributes:
        calls: by name, as the client saw them.
        spans: as Phoenix has them.
        totals: what Phoenix makes of the project.
        caller: trace and span id of the caller that is traced itself.
        session_id: of the one session.
        ports: of the upstreams by name.
    """

    calls: dict[str, Call]
    spans: list[StoredSpan]
    totals: JsonObject
    caller: tuple[str, str]
    session_id: str
    ports: dict[str, int]

    def find(self, name: str) -> tuple[Call, StoredSpan]:
        """A call and its one span."""
        call = self.calls[name]
        (span,) = (span for span in self.spans if span.request_id == call.request_id)
        return call, span

    def find_view(self, name: str) -> tuple[Call, StoredSpan, JsonObject]:
        """A call, its span, and what Phoenix makes of that."""
        call, span = self.find(name)
        (view,) = (view for view in self.totals["spans"] if view["spanId"] == span.span_id)
        return call, span, view


@pytest.fixture(scope="module", params=["http/protobuf", "grpc"])
def told(
    request: pytest.FixtureRequest,
    phoenix: Phoenix,
    upstreams: tuple[Upstream, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> Told:
    """All chats of the lists, over each of OTLP's two protocols."""
    is_grpc = request.param == "grpc"
    project = "chats-grpc" if is_grpc else "chats-http"
    # Never the same trace or session in two projects: Phoenix puts all of one where its first
    # span went.
    caller, session_id = (secrets.token_hex(16), secrets.token_hex(8)), secrets.token_hex(8)
    default, *others = upstreams
    with running_proxy(
        tmp_path_factory.mktemp(project),
        upstream_port=default.port,
        project=project,
        endpoint=f"http://127.0.0.1:{phoenix.grpc_port}" if is_grpc else phoenix.url,
        protocol=request.param,
        upstreams=others,
    ) as proxy:
        with open_clients(proxy, upstreams) as clients:
            calls = have_chats(clients.default, caller)
            calls |= have_special_chats(clients, session_id)
        spans = phoenix.wait_for_spans(project, len(calls))
    return Told(
        calls=calls,
        spans=spans,
        totals=phoenix.read_project(project),
        caller=caller,
        session_id=session_id,
        ports={upstream.name: upstream.port for upstream in upstreams},
    )


def test_every_call_is_one_span(told: Told) -> None:
    """R3: Phoenix has exactly one span for each call, and nothing else."""
    assert tuple(told.calls) == ALL_CALLS
    wanted = Counter(call.request_id for call in told.calls.values())
    assert Counter(span.request_id for span in told.spans) == wanted
    assert len({span.span_id for span in told.spans}) == len(ALL_CALLS)


@pytest.mark.parametrize("name", ALL_CALLS)
def test_span_holds_what_the_client_sent_and_saw(told: Told, name: str) -> None:
    """Every attribute has the value and the type that the client's side of the call implies."""
    call, span = told.find(name)
    wanted = expected_attributes(call, upstream_port=told.ports[call.upstream])
    found = _decode(span.attributes, is_stream="stream" in call.request)
    if call.is_left:
        _take_what_was_on_its_way(wanted, found)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        same = pytest.approx(value) if key.startswith("llm.cost.") else value
        assert (type(found[key]), found[key]) == (type(value), same), key


def _decode(attributes: JsonObject, *, is_stream: bool) -> JsonObject:
    """Attributes in the form of :func:`expected_attributes`."""
    decoded = {
        key: decode_json(value)
        if key in {"output.value", "llm.invocation_parameters"} or key.endswith(".json_schema")
        else value
        for key, value in attributes.items()
        if key not in TIMES
    }
    if is_stream:
        decoded["output.value"] = prune(decoded["output.value"])
    return decoded


def _take_what_was_on_its_way(wanted: JsonObject, found: JsonObject) -> None:
    """Of an abandoned call the span holds what the client read, and perhaps a few words more."""
    key = "llm.output_messages.0.message.content"
    read, recorded = wanted[key], found[key]
    assert recorded.startswith(read)
    assert " ".join(map(str, range(1, 100))).startswith(recorded), "and did not go on for ever"
    wanted[key] = recorded
    wanted["output.value"]["choices"][0]["message"]["content"] = recorded
    # The first chunk has the role only, each other one a word.
    wanted["metadata.chunk_count"] = 1 + len(recorded.split())


@pytest.mark.parametrize("name", ALL_CALLS)
def test_span_has_name_status_and_place(told: Told, name: str) -> None:
    """Status says how the call ended; only a caller's own trace context gives it a parent."""
    call, span = told.find(name)
    assert span.name == "ChatCompletion"
    statuses = {"abandoned": "UNSET", "upstream error": "ERROR", "stream error": "ERROR"}
    assert span.status == statuses.get(name, "OK")
    assert span.status_message == _error_in_words(call)
    if name == "traced caller":
        assert (span.trace_id, span.parent_id) == told.caller
    else:
        assert span.parent_id is None
        assert [other.trace_id for other in told.spans].count(span.trace_id) == 1


def _error_in_words(call: Call) -> str:
    if call.status >= 400:
        return f"RateLimitError: {decode_json(call.error_text)['error']['message']}"
    if call.stream_error is not None:
        return "{type}: {message}".format(**call.stream_error)
    return ""


@pytest.mark.parametrize("name", ALL_CALLS)
def test_events_tell_the_first_token_and_the_error(told: Told, name: str) -> None:
    """A stream has its First Token event, a failed call its exception, another one none."""
    call, span = told.find(name)
    events = list(span.events)
    if "stream" in call.request:
        first = events.pop(0)
        assert (first.name, first.attributes) == ("First Token Stream Event", {})
    if span.status == "ERROR":
        last = events.pop()
        error_type, message = ("RateLimitError", call.error_text)
        if call.stream_error is not None:
            error_type, message = call.stream_error["type"], call.stream_error["message"]
        assert (last.name, last.at_ns) == ("exception", span.end_ns)
        assert last.attributes == {
            "exception.type": error_type,
            "exception.message": message,
            "exception.stacktrace": "",
            "exception.escaped": "False",
        }
    assert not events


@pytest.mark.parametrize("name", ALL_CALLS)
def test_times_are_those_of_the_wire(told: Told, name: str) -> None:
    """The span lies within what the client measured, its first token where the client saw it."""
    call, span = told.find(name)
    assert call.started_ns - MICROSECOND_NS <= span.start_ns < span.end_ns
    assert span.end_ns <= call.finished_ns + LATE_NS
    if "stream" in call.request:
        assert call.chunk_ns is not None
        event = span.events[0]
        assert span.start_ns + FIRST_CHUNK_NS <= event.at_ns <= call.chunk_ns + MICROSECOND_NS
        _check_times(span, event)
    else:
        assert not TIMES & span.attributes.keys()
        if call.status == 200:
            assert span.end_ns - span.start_ns >= FIRST_CHUNK_NS


def _check_times(span: StoredSpan, event: StoredEvent) -> None:
    first_ms, longest_ms = (
        span.attributes[f"metadata.{name}"] for name in ("ttft_ms", "longest_chunk_wait_ms")
    )
    assert first_ms == pytest.approx((event.at_ns - span.start_ns) / 1e6, abs=0.002)
    seconds = span.attributes["gen_ai.response.time_to_first_chunk"]
    assert seconds == pytest.approx(first_ms / 1e3, abs=1e-6)
    # The first chunk names the role only; the content comes with the next one, perhaps at once.
    assert first_ms <= span.attributes["metadata.first_content_ms"] < _duration_ms(span)
    wait_ms, count = (
        span.attributes[f"metadata.{name}"] for name in ("chunk_wait_ms", "chunk_count")
    )
    assert 0 < wait_ms <= longest_ms
    assert 2 <= span.attributes["metadata.longest_chunk_wait_at"] <= count
    assert first_ms + wait_ms * (count - 1) <= _duration_ms(span) + 0.1  # all are rounded


def _duration_ms(span: StoredSpan) -> float:
    return (span.end_ns - span.start_ns) / 1e6


@pytest.mark.parametrize("name", ALL_CALLS)
def test_phoenix_knows_tokens_cost_and_latency(told: Told, name: str) -> None:
    """What Phoenix itself makes of a span: the provider's counts, the list's price, our times."""
    call, span, view = told.find_view(name)
    assert (view["spanKind"], view["statusCode"]) == ("llm", span.status)
    assert view["latencyMs"] == pytest.approx(_duration_ms(span), abs=0.002)
    assert view["userId"] == span.attributes.get("user.id")
    usage = call.usage or {}
    for side in ("prompt", "completion", "total"):
        # Phoenix has no count that is not known: it shows zero, and the attribute is absent.
        assert (view[f"tokenCount{side.title()}"] or 0) == usage.get(f"{side}_tokens", 0), side
    details = usage.get("prompt_tokens_details", {})
    assert view["tokenPromptDetails"]["cacheRead"] == details.get("cached_tokens")
    if name in (*PRICED_CALLS, *SESSION_CALLS):
        _check_cost(call, view)
    else:
        # Nobody knows what a demo model costs, and nothing is made up.
        assert view["costSummary"] is None or view["costSummary"]["total"]["cost"] is None


def _check_cost(call: Call, view: JsonObject) -> None:
    """Phoenix's prices and ours agree, in the sums and in the details."""
    cost = expected_cost(call)
    for side in ("prompt", "completion", "total"):
        assert view["costSummary"][side]["cost"] == pytest.approx(cost[f"llm.cost.{side}"])
    for entry in view["costDetailSummaryEntries"]:
        side = "prompt" if entry["isPrompt"] else "completion"
        wanted = cost[f"llm.cost.{side}_details.{entry['tokenType']}"]
        assert entry["value"]["cost"] == pytest.approx(wanted), entry


def test_phoenix_adds_up_what_the_provider_counted(told: Told) -> None:
    """The totals in Phoenix are the provider's, for streams too whose client asked for no usage."""
    usages = [call.usage for call in told.calls.values() if call.usage is not None]
    without = {name for name, call in told.calls.items() if call.usage is None}
    assert without == {"upstream error", "abandoned", "stream error"}
    assert told.totals["traceCount"] == len(ALL_CALLS)
    for side in ("prompt", "completion"):
        total = told.totals[f"tokenCount{side.title()}"]
        assert total == sum(usage[f"{side}_tokens"] for usage in usages)
    costs = [expected_cost(call) for call in told.calls.values()]
    total = sum(cost["llm.cost.total"] for cost in costs if cost)
    assert told.totals["costSummary"]["total"]["cost"] == pytest.approx(total)


def test_phoenix_shows_the_session(told: Told) -> None:
    """A session's three chats are one session: who, how many, first and last, tokens and cost."""
    calls = [told.calls[name] for name in SESSION_CALLS]
    (session,) = told.totals["sessions"]
    assert (session["sessionId"], session["userId"]) == (told.session_id, SESSION_USER)
    assert (session["numTraces"], session["numTracesWithError"]) == (3, 0)
    traces = {edge["node"]["traceId"] for edge in session["traces"]["edges"]}
    assert traces == {told.find(name)[1].trace_id for name in SESSION_CALLS}
    assert session["firstInput"] == {"value": calls[0].request_text, "mimeType": "json"}
    last = told.find(SESSION_CALLS[-1])[1]
    assert session["lastOutput"] == {"value": last.attributes["output.value"], "mimeType": "json"}
    assert calls[-1].message["content"] in session["lastOutput"]["value"]
    usages = [call.usage for call in calls if call.usage is not None]
    for side in ("prompt", "completion", "total"):
        wanted = sum(usage[f"{side}_tokens"] for usage in usages)
        assert session["tokenUsage"][side] == wanted
        cost = sum(expected_cost(call)[f"llm.cost.{side}"] for call in calls)
        assert session["costSummary"][side]["cost"] == pytest.approx(cost)


def test_phoenix_shows_the_users_prices_once_it_has_them(
    phoenix: Phoenix, upstream_port: int, tmp_path: Path
) -> None:
    """It takes no notice of our cost; with docs/backends.md's command its own is the same."""
    [command] = re.findall(r"^(curl .*?\n)```", PAGE.text, re.MULTILINE | re.DOTALL)
    price = {"model": "my-llama-*", "input": 0.05, "output": 0.08}
    project = "prices"
    with (
        running_proxy(
            tmp_path,
            upstream_port=upstream_port,
            project=project,
            endpoint=phoenix.url,
            protocol="http/protobuf",
            environment={"SPANTAP_PRICES": encode_json([price])},
        ) as proxy,
        open_client(proxy.base_url, proxy.base_url) as client,
    ):
        client.complete(model="my-llama-8b", messages=ask("What do you cost?"))
        phoenix.wait_for_spans(project, 1)
        script = command.replace("http://localhost:6006", phoenix.url)
        subprocess.run(["sh", "-ec", script], check=True, env=clean_environment())
        time.sleep(PRICES_SECONDS)
        client.complete(model="my-llama-8b", messages=ask("And now?"))
        spans = phoenix.wait_for_spans(project, 2)
    views = {view["spanId"]: view["costSummary"] for view in phoenix.read_project(project)["spans"]}
    shown = [views[span.span_id]["total"]["cost"] for span in spans]
    assert shown == [None, pytest.approx(spans[1].attributes["llm.cost.total"])]
    assert spans[0].attributes["llm.cost.total"] > 0
