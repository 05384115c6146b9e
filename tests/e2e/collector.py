"""A real OpenTelemetry Collector that writes what it gets to a file, and reading that file."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from tests.e2e.processes import ServerProcess, find_free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

    from codec.text.jsontext import JsonObject

__all__ = ("Collector",)

PROGRAM = Path(".e2e/collector/collector").absolute()

_START_SECONDS = 30.0
"""A tenth of a second on two idle cores."""

_LENGTH_BYTES = 4
"""Each message of the file has its length before it, the high byte first."""


class Collector:
    """A collector; over HTTP it takes gzip and nothing else.

    Args:
        folder: for its configuration, its file and its log.
    """

    def __init__(self, folder: Path) -> None:
        http_port, grpc_port = find_free_port(), find_free_port()
        self.http_url = f"http://127.0.0.1:{http_port}"
        self.grpc_url = f"http://127.0.0.1:{grpc_port}"
        self._file = folder / "spans.binary"
        self._configuration: JsonObject = {
            "receivers": {
                "otlp": {
                    "protocols": {
                        "http": {
                            "endpoint": f"127.0.0.1:{http_port}",
                            "compression_algorithms": ["gzip"],
                        },
                        "grpc": {"endpoint": f"127.0.0.1:{grpc_port}"},
                    }
                }
            },
            "exporters": {"file": {"path": str(self._file), "format": "proto"}, "debug": {}},
            "service": {
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file", "debug"]}},
                "telemetry": {"metrics": {"level": "none"}},
            },
        }
        configuration = folder / "collector.yaml"
        configuration.write_text(json.dumps(self._configuration))
        self._server = ServerProcess(
            [str(PROGRAM), "--config", str(configuration)],
            environment={},
            log=folder / "collector.log",
        )

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Start it, and end it at the end; then everything is in its file."""
        with self._server:
            wait_until(self._is_ready, _START_SECONDS, f"ready, see {self._server.log}")
            yield self

    def _is_ready(self) -> bool:
        output = self._server.output
        assert "Error:" not in output, output
        return "Everything is ready" in output

    def read_spans(self) -> list[ResourceSpans]:
        """What it got, in order; call it when the collector has ended."""
        content = self._file.read_bytes()
        spans: list[ResourceSpans] = []
        while content:
            end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "big")
            spans += TracesData.FromString(content[_LENGTH_BYTES:end]).resource_spans
            content = content[end:]
        return spans
