"""Real OTLP backends on loopback, over HTTP and gRPC, that answer as a test tells them.

Each is a server with sockets and threads of its own::

    with HttpSink() as sink:
        sink.script.append(SinkAnswer(status=503))  # the next request only
        ...
        sink.wait_for_spans(3)

``script`` is used up first, one answer per request; then ``rule`` decides, which takes everything
unless told otherwise. ``accepted`` holds the ids of the spans that were taken, in order of arrival.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import socket
import struct
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal, Self

from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

__all__ = ("GrpcSink", "HttpSink", "SinkAnswer", "SinkRequest")

_SERVICES = (
    "opentelemetry.proto.collector.trace.v1.TraceService",
    "opentelemetry.proto.collector.metrics.v1.MetricsService",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAnswer:
    """How a sink answers one request.

    Attributes:
        status: HTTP status; 200 takes the spans.
        grpc_code: name of a gRPC status code, ``OK`` takes the spans.
        words: the message of an error (of a 400 in a ``google.rpc.Status``, as OTLP asks for), or
            of a partial success.
        rejected_spans: count in a success's ``partial_success``; of metrics, their data points.
        headers: further HTTP headers, such as ``Retry-After``.
        retry_delay_seconds: in a gRPC error's ``RetryInfo``.
        grpc_details: a gRPC error's ``grpc-status-details-bin`` as it is.
        delay_seconds: wait before answering.
        breaks: the connection is reset ``before`` the answer or ``within`` it, or closed
            ``silently``, without one.
        body: the body of an HTTP answer instead of one made from the rest.
        content_type: of an HTTP answer.
        drip_seconds: wait before each of its bytes.
    """

    status: int = 200
    grpc_code: str = "OK"
    words: str = ""
    rejected_spans: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    retry_delay_seconds: float | None = None
    grpc_details: bytes | None = None
    delay_seconds: float = 0.0
    breaks: Literal["no", "before", "within", "silently"] = "no"
    body: bytes | None = None
    content_type: str = "application/x-protobuf"
    drip_seconds: float = 0.0

    @property
    def takes(self) -> bool:
        """Whether the spans count as taken."""
        errs = self.status >= 300 or self.grpc_code != "OK"
        return not (errs or self.rejected_spans or self.breaks != "no")

    def encode(self) -> bytes:
        """The body of the answer."""
        if self.body is not None:
            return self.body
        if self.status == 400:
            return bytes(Status(code=3, message=self.words).SerializeToString())
        if self.status >= 300:
            return self.words.encode()
        partial = ExportTracePartialSuccess(
            rejected_spans=self.rejected_spans, error_message=self.words
        )
        return bytes(ExportTraceServiceResponse(partial_success=partial).SerializeToString())


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRequest:
    """One request that a sink received.

    Attributes:
        path: the request's path, or the gRPC method.
        headers: names in lower case; gRPC metadata likewise.
        body: the uncompressed body.
        at_seconds: on the monotonic clock.
    """

    path: str
    headers: dict[str, str]
    body: bytes = field(repr=False)
    at_seconds: float

    @property
    def span_ids(self) -> list[str]:
        """The ids of the spans in the body, in order; none where it holds metrics."""
        return [span.span_id.hex() for span in self.spans]

    @property
    def spans(self) -> list[Span]:
        """The spans in the body, in order; none where it holds metrics."""
        if "metrics" in self.path:
            return []
        request = ExportTraceServiceRequest.FromString(self.body)
        return [
            span
            for resource_spans in request.resource_spans
            for scope_spans in resource_spans.scope_spans
            for span in scope_spans.spans
        ]

    @property
    def metrics(self) -> ResourceMetrics:
        """The metrics in the body, all of one resource and scope."""
        request = ExportMetricsServiceRequest.FromString(self.body)
        metrics: ResourceMetrics = request.resource_metrics[0]
        return metrics

    @property
    def metric_names(self) -> set[str]:
        """The names of the metrics in the body."""
        return {metric.name for metric in self.metrics.scope_metrics[0].metrics}

    def counted(self, name: str) -> int:
        """The value of a counter without labels."""
        [metric] = [one for one in self.metrics.scope_metrics[0].metrics if one.name == name]
        return int(metric.sum.data_points[0].as_int)


class _Sink:
    """What both sinks share: the record and the script."""

    def __init__(self) -> None:
        self.requests: list[SinkRequest] = []
        self.accepted: list[str] = []
        self.script: deque[SinkAnswer] = deque()
        self.rule: Callable[[list[str]], SinkAnswer] = lambda _: SinkAnswer()
        self._change = threading.Condition()

    def receive(self, request: SinkRequest) -> SinkAnswer:
        """Record `request` and decide on its answer."""
        with self._change:
            span_ids = request.span_ids
            self.requests.append(request)
            answer = self.script.popleft() if self.script else self.rule(span_ids)
            if answer.takes:
                self.accepted.extend(span_ids)
            self._change.notify_all()
        time.sleep(answer.delay_seconds)
        return answer

    def wait_for_spans(self, count: int, timeout_seconds: float = 10.0) -> list[str]:
        """The ids of the spans taken, once there are `count` of them."""
        with self._change:
            assert self._change.wait_for(lambda: len(self.accepted) >= count, timeout_seconds), (
                f"{len(self.accepted)} of {count} spans arrived"
            )
            return list(self.accepted)

    def wait_for_requests(self, count: int, timeout_seconds: float = 10.0) -> list[SinkRequest]:
        """The requests received, once there are `count` of them."""
        with self._change:
            assert self._change.wait_for(lambda: len(self.requests) >= count, timeout_seconds), (
                f"{len(self.requests)} of {count} requests arrived"
            )
            return list(self.requests)


class HttpSink(_Sink):
    """An OTLP/HTTP backend; `port` 0 takes a free one."""

    def __init__(self, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.connections = 0
        self._server = _Server(self, port, tls)
        self.port = self._server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server and all of its connections, as a killed backend does."""
        self._server.shutdown()
        self._thread.join()
        self._server.close_connections()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that server_close waits for them

    def __init__(self, sink: HttpSink, port: int, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.sink = sink
        self._tls = tls
        self._connections: set[socket.socket] = set()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        if self._tls is not None:
            # The handshake happens in the handler's thread, at its first read.
            connection = self._tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        self._connections.add(connection)
        self.sink.connections += 1
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away or fails the handshake is what tests are about."""

    def close_connections(self) -> None:
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes: 40 ms a request otherwise
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.sink.receive(
            SinkRequest(path=self.path, headers=headers, body=body, at_seconds=time.monotonic())
        )
        if answer.breaks == "before":
            self._reset()
            return
        if answer.breaks == "silently":
            self.close_connection = True
            return
        encoded = answer.encode()
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        missing = 10 if answer.breaks == "within" else 0
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(encoded) + missing))
        self.end_headers()
        pieces = [bytes([byte]) for byte in encoded] if answer.drip_seconds else [encoded]
        for piece in pieces:
            time.sleep(answer.drip_seconds)
            self.wfile.write(piece)
        if answer.breaks == "within":
            self._reset()

    def _reset(self) -> None:
        """RST instead of FIN."""
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        os.close(self.connection.detach())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Tests say what they need to."""


class GrpcSink(_Sink):
    """An OTLP/gRPC backend; `port` 0 takes a free one, `gzip` says whether it knows that."""

    def __init__(self, *, port: int = 0, gzip: bool = True, credentials: Any = None) -> None:
        import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 - only who asks pays

        super().__init__()
        # A set of bits: 1 is "identity", 4 is "gzip". The message limit stays gRPC's own, 4 MiB.
        algorithms = ("grpc.compression_enabled_algorithms_bitset", 5 if gzip else 1)
        self._pool = ThreadPoolExecutor(4)
        self._server = grpc.server(self._pool, options=[algorithms])
        for service in _SERVICES:
            export = partial(self._export, f"/{service}/Export")
            methods = {"Export": grpc.unary_unary_rpc_method_handler(export)}
            handler = grpc.method_handlers_generic_handler(service, methods)
            self._server.add_generic_rpc_handlers((handler,))
        address = f"127.0.0.1:{port}"
        self.port: int = (
            self._server.add_secure_port(address, credentials)
            if credentials
            else self._server.add_insecure_port(address)
        )
        self.address = f"127.0.0.1:{self.port}"
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server and all calls under way."""
        self._server.stop(grace=None).wait()
        self._pool.shutdown()

    def _export(self, path: str, body: bytes, context: Any) -> bytes:
        import grpc  # noqa: PLC0415 - as above

        headers = {name: str(value) for name, value in context.invocation_metadata()}
        answer = self.receive(
            SinkRequest(path=path, headers=headers, body=body, at_seconds=time.monotonic())
        )
        details = answer.grpc_details
        if answer.retry_delay_seconds is not None:
            details = _encode_retry_info(answer.retry_delay_seconds)
        if details is not None:
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
        if answer.grpc_code != "OK":
            context.abort(grpc.StatusCode[answer.grpc_code], answer.words)
        return answer.encode()


def _encode_retry_info(delay_seconds: float) -> bytes:
    """A ``google.rpc.Status`` whose detail is a ``RetryInfo``."""
    from google.rpc.error_details_pb2 import (  # type: ignore[import-untyped]  # noqa: PLC0415
        RetryInfo,
    )

    info = RetryInfo()
    info.retry_delay.FromNanoseconds(int(delay_seconds * 1e9))
    status = Status(code=8)
    status.details.add().Pack(info)
    return bytes(status.SerializeToString())
