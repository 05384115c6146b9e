"""A real Jaeger, all in one process: started, stopped, and read back by the API of its own pages.

Jaeger shows a span in its own words (``docs/contract/spans.md#jaeger``), and here they stay:
status, kind and scope are tags, an event is a log, parent and link are references, times are
microseconds.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import requests

from tests.e2e.processes import ServerProcess, find_free_port, get, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codec.text.jsontext import JsonObject

__all__ = ("Jaeger", "ShownEvent", "ShownReference", "ShownSpan")

PROGRAM = Path(".e2e/jaeger/jaeger").absolute()

_START_SECONDS = 30.0
"""A tenth of a second on two idle cores."""

_SHOWN_SECONDS = 10.0
"""What is acknowledged is shown some milliseconds later."""

_MAX_TRACES = 1_000
"""More than all tests together make."""

_TYPES: dict[str, Callable[[Any], object]] = {
    "bool": bool,
    "float64": float,  # a whole one is written without its point
    "int64": int,  # one that a browser cannot hold is written as text
    "string": str,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownReference:
    """The parent of a span (``CHILD_OF``) or what it links to (``FOLLOWS_FROM``)."""

    kind: str
    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEvent:
    """An event of a span."""

    name: str
    at_us: int
    attributes: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSpan:
    """A span as Jaeger shows it.

    Attributes:
        service: whose span it is.
        resource: what else is told of the service.
        tags: attributes of the types that Jaeger says they have.
    """

    operation: str
    trace_id: str
    span_id: str
    references: tuple[ShownReference, ...]
    start_us: int
    duration_us: int
    tags: JsonObject
    events: tuple[ShownEvent, ...]
    service: str
    resource: JsonObject
    warnings: tuple[str, ...]


class Jaeger:
    """A Jaeger that keeps what it gets in its memory.

    Args:
        folder: for its configuration and its log.
    """

    def __init__(self, folder: Path) -> None:
        self._url = f"http://127.0.0.1:{find_free_port()}"
        self._health_url = f"http://127.0.0.1:{find_free_port()}"
        self.http_url = f"http://127.0.0.1:{find_free_port()}"
        self.grpc_url = f"http://127.0.0.1:{find_free_port()}"
        configuration = folder / "jaeger.yaml"
        configuration.write_text(json.dumps(self._configure()))
        self._server = ServerProcess(
            [str(PROGRAM), "--config", str(configuration)],
            environment={},
            log=folder / "jaeger.log",
        )

    def _configure(self) -> JsonObject:
        """OTLP in, the API out, and nothing that would need another port than those given."""
        return {
            "service": {
                "extensions": ["jaeger_storage", "jaeger_query", "healthcheckv2"],
                "pipelines": {
                    "traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}
                },
                "telemetry": {"metrics": {"level": "none"}},
            },
            "extensions": {
                "healthcheckv2": {"use_v2": True, "http": {"endpoint": _host(self._health_url)}},
                "jaeger_query": {
                    "storage": {"traces": "memory"},
                    "http": {"endpoint": _host(self._url)},
                    "grpc": {"endpoint": "127.0.0.1:0"},
                },
                "jaeger_storage": {"backends": {"memory": {"memory": {"max_traces": _MAX_TRACES}}}},
            },
            "receivers": {
                "otlp": {
                    "protocols": {
                        "http": {"endpoint": _host(self.http_url)},
                        "grpc": {"endpoint": _host(self.grpc_url)},
                    }
                }
            },
            "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}},
        }

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Start it, and end it at the end."""
        with self._server:
            self._server.wait_for(f"{self._health_url}/status", _START_SECONDS)
            yield self

    def read_trace(self, trace_id: str, *, raw: bool = False) -> list[ShownSpan]:
        """The spans of a trace, oldest first; none while it is unknown.

        Args:
            trace_id: in hexadecimal digits.
            raw: as they are kept, and not as they are made up for its pages.
        """
        response = get(f"{self._url}/api/traces/{trace_id}", raw=str(raw).lower())
        if response.status_code == requests.codes.not_found:
            return []
        return _read_traces(response)

    def read_service(self, service: str) -> list[ShownSpan]:
        """The spans of a service, oldest first."""
        response = get(f"{self._url}/api/traces", service=service, limit=_MAX_TRACES)
        # What is found are traces, and others take part in them.
        return [span for span in _read_traces(response) if span.service == service]

    def wait_for_trace(self, trace_id: str, count: int, *, raw: bool = False) -> list[ShownSpan]:
        """What :meth:`read_trace` gives once it is `count` spans, or more."""
        return _wait(lambda: self.read_trace(trace_id, raw=raw), count)

    def wait_for_spans(self, service: str, count: int) -> list[ShownSpan]:
        """What :meth:`read_service` gives once it is `count` spans, or more."""
        return _wait(lambda: self.read_service(service), count)


def _wait(read: Callable[[], list[ShownSpan]], count: int) -> list[ShownSpan]:
    wait_until(lambda: len(read()) >= count, _SHOWN_SECONDS, f"{count} spans shown")
    return read()


def _host(url: str) -> str:
    return url.removeprefix("http://")


def _read_traces(response: requests.Response) -> list[ShownSpan]:
    response.raise_for_status()
    spans = [
        _read_span(span, trace["processes"][span["processID"]])
        for trace in response.json()["data"]
        for span in trace["spans"]
    ]
    return sorted(spans, key=lambda span: span.start_us)


def _read_span(span: JsonObject, process: JsonObject) -> ShownSpan:
    return ShownSpan(
        operation=span["operationName"],
        trace_id=span["traceID"],
        span_id=span["spanID"],
        references=tuple(
            ShownReference(
                kind=reference["refType"],
                trace_id=reference["traceID"],
                span_id=reference["spanID"],
            )
            for reference in span["references"]
        ),
        start_us=span["startTime"],
        duration_us=span["duration"],
        tags=_read_tags(span["tags"]),
        events=tuple(_read_event(log) for log in span["logs"]),
        service=process["serviceName"],
        resource=_read_tags(process["tags"]),
        warnings=tuple(span["warnings"] or ()),
    )


def _read_event(log: JsonObject) -> ShownEvent:
    attributes = _read_tags(log["fields"])
    return ShownEvent(name=attributes.pop("event"), at_us=log["timestamp"], attributes=attributes)


def _read_tags(tags: list[JsonObject]) -> JsonObject:
    read = {tag["key"]: _TYPES[tag["type"]](tag["value"]) for tag in tags}
    assert len(read) == len(tags), "a key stands there twice"
    return read
