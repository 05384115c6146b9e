"""OTLP over HTTP: stored bytes are sent as they are, in one POST.

Only the ``OTEL_*`` variables say how; ``HTTP_PROXY``, ``~/.netrc`` and ``REQUESTS_CA_BUNDLE`` have
no effect. The SDK's exporter is not used: it hides status, ``Retry-After`` and rejected spans, and
retries within ten seconds (``docs/contract/spans.md#delivery``). Its library requests is not used,
either: a request costs six times as much CPU as with ``http.client``.
"""

from __future__ import annotations

import contextlib
import gzip
import select
import ssl
import time
from base64 import b64encode
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, unquote_plus, urlsplit

import certifi

from codec._version import __version__
from telemetry.export.delivery import (
    MAX_ANSWER_BYTES,
    Answer,
    Verdict,
    classify_http,
    parse_retry_after,
    without_secrets,
)

if TYPE_CHECKING:
    import socket
    from http.client import HTTPResponse
    from urllib.parse import SplitResult

    from telemetry.export.settings import OtlpSettings

_GZIP_LEVEL = 1
"""A quarter of the default level's CPU for a fifth more bytes, measured on prose."""

_READ_BYTES = 8 << 10
"""Bytes of the answer per read, between looks at the clock."""

_IN_A_TARGET = "!#$%&'()*+,/:;=?@[]~"
"""Characters that stand in a path or query as they are; all else is sent percent-encoded."""


class HttpSender:
    """Sends batches to an OTLP/HTTP backend over a kept-alive connection; for one thread."""

    def __init__(self, settings: OtlpSettings) -> None:
        self._settings = settings
        self._url = url = urlsplit(settings.endpoint)
        target = url._replace(scheme="", netloc="", fragment="", path=url.path or "/").geturl()
        self._target = quote(target, safe=_IN_A_TARGET)
        self._headers: dict[str, str | bytes] = {
            "user-agent": f"spantap/{__version__}",
            # Text would have to be Latin-1; names and values are UTF-8.
            **{name: value.encode() for name, value in settings.headers},
            # Phoenix answers 415 to a parameter (``docs/contract/spans.md#phoenix-ingest``).
            "content-type": "application/x-protobuf",
            "accept-encoding": "identity",
        }
        if settings.gzip:
            self._headers["content-encoding"] = "gzip"
        self._secrets = [value for _, value in settings.headers]
        self._secrets.extend(_query_values(url.query))
        if url.username:
            password = unquote(url.password or "")
            credentials = b64encode(f"{unquote(url.username)}:{password}".encode())
            self._headers["authorization"] = b"Basic " + credentials
            self._secrets.extend((credentials.decode(), url.password or "", password))
        self._connection: HTTPConnection | None = None

    @property
    def backend(self) -> str:
        """The backend's scheme, host and port."""
        return self._settings.backend

    def send(self, batch: bytes) -> Answer:
        """POST `batch`, a serialised request, and classify the answer."""
        deadline = time.monotonic() + self._settings.timeout_seconds
        body = gzip.compress(batch, _GZIP_LEVEL) if self._settings.gzip else batch
        connected = False
        try:
            connection = self._connect()
            connected = True
            answer = self._post(connection, body, deadline)
        except (HTTPException, OSError, UnicodeError) as error:
            self.close()
            return Answer(
                verdict=Verdict.RETRY,
                words=_describe(error, self._settings),
                # The backend can have failed on the spans only if it had them.
                suspect=connected and not isinstance(error, ssl.SSLError),
            )
        return replace(answer, words=without_secrets(answer.words, self._secrets))

    def close(self) -> None:
        """Close the connection; the next batch makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> HTTPConnection:
        """Return the connection, made again if the backend has closed it.

        Raises:
            OSError: the backend cannot be connected.
            UnicodeError: the host's name is not valid.
        """
        connection = self._connection
        if connection is None or connection.sock is None or _is_over(connection.sock):
            self.close()
            self._connection = connection = _make_connection(self._url, self._settings)
            connection.connect()
        return connection

    def _post(self, connection: HTTPConnection, body: bytes, deadline: float) -> Answer:
        """Send a body and read the answer.

        A redirect is not followed: that would send the credentials to another server, and the
        setting is wrong.

        Raises:
            HTTPException, OSError: the answer did not come whole.
        """
        # A server may refuse a body that is too large, and close, before it has read all of it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", self._target, body, self._headers)
        with connection.getresponse() as response:
            words = _read_bounded(response, deadline)
            if len(words) == MAX_ANSWER_BYTES:
                self.close()  # the rest would look like the next answer
            return classify_http(
                response.status,
                words,
                parse_retry_after(response.headers.get("Retry-After"), time.time()),
                response.headers.get("Content-Type"),
            )


def _query_values(query: str) -> list[str]:
    """Return what may be a key in a URL's query, in each form that a backend may quote."""
    values = [part.partition("=")[2] or part for part in query.split("&")]
    forms = (str, partial(quote, safe=_IN_A_TARGET), unquote, unquote_plus)
    return [form(value) for value in values for form in forms]


def _make_connection(url: SplitResult, settings: OtlpSettings) -> HTTPConnection:
    """Make a connection; it reads the certificates again, so that they may be renewed."""
    host = url.hostname or ""
    if url.scheme != "https":
        return HTTPConnection(host, url.port, timeout=settings.timeout_seconds)
    context = ssl.create_default_context(cafile=settings.certificate or certifi.where())
    if settings.client_certificate is not None:
        context.load_cert_chain(settings.client_certificate, settings.client_key)
    return HTTPSConnection(host, url.port, timeout=settings.timeout_seconds, context=context)


def _is_over(sock: socket.socket) -> bool:
    """Tell whether an idle connection has something to read: its end, or unexpected bytes."""
    polled = select.poll()
    polled.register(sock, select.POLLIN)
    return bool(polled.poll(0))


def _read_bounded(response: HTTPResponse, deadline: float) -> bytes:
    """Read the body, up to :data:`MAX_ANSWER_BYTES`.

    Raises:
        IncompleteRead: it ended before its length.
        TimeoutError: it is not complete at `deadline`, on the monotonic clock. The connection's
            own timeout is for each read, which a slow drip of bytes never meets.
    """
    body = bytearray()
    while len(body) < MAX_ANSWER_BYTES and (data := response.read1(_READ_BYTES)):
        body += data
        if time.monotonic() > deadline:
            raise TimeoutError
    if len(body) < MAX_ANSWER_BYTES and response.length:
        raise IncompleteRead(bytes(body), response.length)
    return bytes(body[:MAX_ANSWER_BYTES])


def _describe(error: Exception, settings: OtlpSettings) -> str:
    """Describe an error in our words: its text may hold the URL, and a key in it."""
    if isinstance(error, TimeoutError):
        return f"no answer within {settings.timeout_seconds:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return f"no connection: {error.strerror}"
    return f"no connection: {type(error).__name__}"
