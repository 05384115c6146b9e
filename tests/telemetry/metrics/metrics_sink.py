"""OTLP backends on loopback that take metrics, over HTTP and gRPC."""

from __future__ import annotations

import gzip
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

__all__ = ("GrpcMetricsSink", "HttpMetricsSink", "partial_success")

METHOD = "Export"
SERVICE = "opentelemetry.proto.collector.metrics.v1.MetricsService"


def partial_success(rejected: int, words: str) -> bytes:
    """The body of an answer that takes some and refuses some."""
    partial = ExportMetricsPartialSuccess(rejected_data_points=rejected, error_message=words)
    return bytes(ExportMetricsServiceResponse(partial_success=partial).SerializeToString())


class _Sink:
    """The record of what came.

    Attributes:
        requests: path, headers in lower case, and the decoded body.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], ExportMetricsServiceRequest]] = []
        self._change = threading.Condition()

    def receive(self, path: str, headers: dict[str, str], body: bytes) -> None:
        request = ExportMetricsServiceRequest.FromString(body)
        with self._change:
            self.requests.append((path, headers, request))
            self._change.notify_all()

    def wait_for(self, count: int) -> None:
        """Until so many requests came."""
        with self._change:
            assert self._change.wait_for(lambda: len(self.requests) >= count, 10.0)

    def counted(self, name: str) -> list[int]:
        """The value of a counter without labels, request by request."""
        return [
            metric.sum.data_points[0].as_int
            for _, _, request in self.requests
            for metric in request.resource_metrics[0].scope_metrics[0].metrics
            if metric.name == name
        ]


class HttpMetricsSink(_Sink):
    """Over HTTP. `answers` are status and body, used up one by one; then 200."""

    def __init__(self, *answers: tuple[int, bytes]) -> None:
        super().__init__()
        self.answers = deque(answers)
        self.hold: threading.Event | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.hold is not None:
            self.hold.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                headers = {name.lower(): value for name, value in self.headers.items()}
                sink.receive(self.path, headers, body)
                if sink.hold is not None:
                    sink.hold.wait(10.0)
                status, answer = sink.answers.popleft() if sink.answers else (200, b"")
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's
                """Tests say what they need to."""

        return Handler


class GrpcMetricsSink(_Sink):
    """Over gRPC; it takes everything."""

    def __init__(self) -> None:
        import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 - only who asks pays

        super().__init__()
        self._pool = ThreadPoolExecutor(2)
        self._server = grpc.server(self._pool)
        handler = grpc.unary_unary_rpc_method_handler(self._export)
        handlers = grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})
        self._server.add_generic_rpc_handlers((handlers,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.stop(grace=None).wait()
        self._pool.shutdown()

    def _export(self, body: bytes, context: Any) -> bytes:
        headers = {name: str(value) for name, value in context.invocation_metadata()}
        self.receive(f"/{SERVICE}/{METHOD}", headers, body)
        return b""
