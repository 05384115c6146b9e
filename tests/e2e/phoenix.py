"""A real Phoenix: started, stopped, read back by its APIs (``docs/contract/spans.md#phoenix``).

What Phoenix measured as its own oddities is undone here and nowhere else: typed values come from
``/spans/otlpv1``, times are rounded to microseconds, and the start as well as the first span of a
project take a while.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import requests

from tests.e2e.processes import ServerProcess, find_free_port, get, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.text.jsontext import JsonObject

__all__ = ("Phoenix", "StoredEvent", "StoredSpan")

PROGRAM = str(Path(".e2e/phoenix/bin/phoenix").absolute())

_START_SECONDS = 90.0
"""Twelve seconds on two idle cores."""

_SETTLE_SECONDS = 1.0
"""A span that came twice would be seen by then: what was sent is visible 0.2 s later."""

_COST = "costSummary{prompt{cost tokens} completion{cost tokens} total{cost tokens}}"
_SPAN = f"""
    spanId spanKind statusCode latencyMs userId
    cumulativeTokenCountPrompt cumulativeTokenCountCompletion
    tokenCountTotal tokenCountPrompt tokenCountCompletion tokenPromptDetails{{cacheRead audio}}
    {_COST} costDetailSummaryEntries{{tokenType isPrompt value{{tokens cost}}}}
"""
_SESSION = f"""
    id sessionId userId numTraces numTracesWithError startTime endTime
    firstInput{{value mimeType}} lastOutput{{value mimeType}} tokenUsage{{prompt completion total}}
    {_COST} traces(first:100){{edges{{node{{traceId}}}}}}
"""
_PROJECT = f"""
    name id traceCount tokenCountPrompt tokenCountCompletion {_COST}
    spans(first:1000){{edges{{node{{{_SPAN}}}}}}} sessions(first:100){{edges{{node{{{_SESSION}}}}}}}
"""
"""What is asked of a project (``docs/contract/spans.md#phoenix-reading``)."""

_STATUS_CODES = {0: "UNSET", 1: "OK", 2: "ERROR"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event of a span, as Phoenix gives it back."""

    name: str
    at_ns: int
    attributes: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSpan:
    """A span as Phoenix gives it back; attributes are flat, with ``metadata`` flattened too."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str | None
    status: str
    status_message: str
    start_ns: int
    end_ns: int
    attributes: JsonObject
    events: tuple[StoredEvent, ...]

    @property
    def request_id(self) -> str:
        """The provider's id of the call."""
        return str(self.attributes["metadata.request_id"])


class Phoenix:
    """A Phoenix that can be ended and started again on the same ports and the same data.

    Args:
        folder: its working directory, and its log.
    """

    def __init__(self, folder: Path) -> None:
        port, self.grpc_port = find_free_port(), find_free_port()
        self.url = f"http://127.0.0.1:{port}"
        environment = {
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(self.grpc_port),
            "PHOENIX_WORKING_DIR": str(folder),
            "PHOENIX_TELEMETRY_ENABLED": "false",
            "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
            "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
        }
        self._server = ServerProcess(
            [PROGRAM, "serve"], environment=environment, log=folder / "phoenix.log"
        )

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Start it, and end it at the end; what it holds stays in its folder."""
        with self._server:
            self._server.wait_for(f"{self.url}/healthz", _START_SECONDS)
            yield self

    def read_spans(self, project: str) -> list[StoredSpan]:
        """All spans of a project with typed values, oldest first; none while it is unknown."""
        spans: list[StoredSpan] = []
        cursor = ""
        while True:
            more = {"cursor": cursor} if cursor else {}
            url = f"{self.url}/v1/projects/{project}/spans/otlpv1"
            response = get(url, limit=100, **more)
            if response.status_code == requests.codes.not_found:
                return []
            response.raise_for_status()
            page = response.json()
            spans += [_read_span(span) for span in page["data"]]
            cursor = page["next_cursor"]
            if not cursor:
                return sorted(spans, key=lambda span: span.start_ns)

    def wait_for_spans(
        self, project: str, count: int, *, seconds: float = 20.0
    ) -> list[StoredSpan]:
        """The spans of a project once there are ``count``, and those that come soon after."""
        wait_until(
            lambda: len(self.read_spans(project)) >= count, seconds, f"{count} spans in {project}"
        )
        time.sleep(_SETTLE_SECONDS)
        return self.read_spans(project)

    def read_project(self, project: str) -> JsonObject:
        """What Phoenix itself makes of a project: its sums, and those of its spans and sessions.

        ``spans`` and ``sessions`` are lists of their nodes; the members are GraphQL's.
        """
        projects = self._ask(f"{{projects{{edges{{node{{{_PROJECT}}}}}}}}}")["projects"]["edges"]
        found: JsonObject = next(e["node"] for e in projects if e["node"]["name"] == project)
        nodes = {name: [e["node"] for e in found[name]["edges"]] for name in ("spans", "sessions")}
        return found | nodes

    def dump_project(self, project: str) -> str:
        """Everything that REST has to say of a project, as text."""
        parts = ("spans", "spans/otlpv1", "traces?include_spans=true", "sessions")
        answers = [get(f"{self.url}/v1/projects/{project}/{part}") for part in parts]
        for answer in answers:
            answer.raise_for_status()
            assert answer.json()["next_cursor"] is None, "there are more pages"
        return "\n".join(json.dumps(answer.json(), ensure_ascii=False) for answer in answers)

    def _ask(self, query: str) -> JsonObject:
        with requests.Session() as session:
            session.trust_env = False
            response = session.post(f"{self.url}/graphql", json={"query": query}, timeout=30)
        response.raise_for_status()
        answer = response.json()
        assert "errors" not in answer, answer
        data: JsonObject = answer["data"]
        return data


def _read_span(span: JsonObject) -> StoredSpan:
    return StoredSpan(
        name=span["name"],
        trace_id=span["trace_id"],
        span_id=span["span_id"],
        parent_id=span["parent_span_id"],
        status=_STATUS_CODES[span["status"]["code"]],
        status_message=span["status"]["message"] or "",
        start_ns=_to_microsecond(span["start_time_unix_nano"]),
        end_ns=_to_microsecond(span["end_time_unix_nano"]),
        attributes=_read_attributes(span["attributes"]),
        events=tuple(
            StoredEvent(
                name=event["name"],
                at_ns=_to_microsecond(event["time_unix_nano"]),
                attributes=_read_attributes(event["attributes"]),
            )
            for event in span["events"] or ()
        ),
    )


def _read_attributes(pairs: list[JsonObject]) -> JsonObject:
    return {pair["key"]: _read_value(pair["value"]) for pair in pairs}


def _read_value(value: JsonObject) -> Any:
    """The one member of an OTLP ``AnyValue`` that is set."""
    (kind, content), *others = ((k, v) for k, v in value.items() if v is not None)
    assert not others, value
    if kind == "array_value":
        return [_read_value(member) for member in content["values"]]
    return content


def _to_microsecond(at_ns: int) -> int:
    # Phoenix keeps microseconds and makes nanoseconds of them by way of a float.
    return round(at_ns / 1000) * 1000
