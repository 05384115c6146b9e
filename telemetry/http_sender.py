"""OTLP over HTTP: stored bytes go out as they are, in one POST, and the answer is told whole.

The ``OTEL_*`` variables alone say how: no ``HTTP_PROXY``, ``~/.netrc`` or ``REQUESTS_CA_BUNDLE``.

The SDK's exporter is not used: it hides status, ``Retry-After`` and rejected spans, and retries
inside its own ten seconds (``span-contract.md`` section 8).
"""

from __future__ import annotations

import gzip
import ssl
import time
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import requests
from requests.auth import HTTPBasicAuth
from urllib3.exceptions import HTTPError, NewConnectionError

from codec._version import __version__
from telemetry.delivery import (
    MAX_ANSWER_BYTES,
    Answer,
    Verdict,
    classify_http,
    parse_retry_after,
    without_secrets,
)

if TYPE_CHECKING:
    from telemetry.otlp_settings import OtlpSettings

__all__ = ("HttpSender",)

_GZIP_LEVEL = 1
"""A quarter of the default level's CPU for a fifth more bytes, measured on prose."""

_READ_BYTES = 8 << 10
"""Bytes of the answer per read, between looks at the clock."""


class HttpSender:
    """Sends batches to an OTLP/HTTP backend over kept-alive connections; for one thread."""

    def __init__(self, settings: OtlpSettings) -> None:
        """Prepare for `settings`; nothing is connected yet."""
        self._settings = settings
        self._headers: dict[str, str | bytes] = {
            "User-Agent": f"spantap/{__version__}",
            # Names and values are ASCII or UTF-8; requests would insist on Latin-1 text.
            **{name: value.encode() for name, value in settings.headers},
            # Exactly this: Phoenix answers 415 to a parameter (span-contract.md 5.2).
            "Content-Type": "application/x-protobuf",
            "Accept-Encoding": "identity",
        }
        if settings.gzip:
            self._headers["Content-Encoding"] = "gzip"
        url = urlsplit(settings.endpoint)
        self._session = requests.Session()
        self._session.trust_env = False
        if url.username:
            self._session.auth = HTTPBasicAuth(unquote(url.username), unquote(url.password or ""))
        if settings.certificate:
            self._session.verify = str(settings.certificate)
        self._session.cert = _client_certificate(settings)
        self._secrets = [value for _, value in settings.headers]
        self._secrets.extend(filter(None, (url.password, unquote(url.password or ""))))

    @property
    def backend(self) -> str:
        """The backend's scheme, host and port."""
        return self._settings.backend

    def send(self, batch: bytes) -> Answer:
        """POST `batch`, a serialised ``ExportTraceServiceRequest``, and classify the answer."""
        settings = self._settings
        deadline = time.monotonic() + settings.timeout_seconds
        try:
            with self._session.post(
                settings.endpoint,
                data=gzip.compress(batch, _GZIP_LEVEL) if settings.gzip else batch,
                headers=self._headers,
                timeout=settings.timeout_seconds,
                # A redirect is a wrong setting, and would carry the credentials elsewhere.
                allow_redirects=False,
                stream=True,
            ) as response:
                body = _read_bounded(response, deadline)
                answer = classify_http(
                    response.status_code,
                    body,
                    parse_retry_after(response.headers.get("Retry-After"), time.time()),
                    response.headers.get("Content-Type"),
                )
        except (requests.RequestException, HTTPError, OSError) as error:
            return Answer(
                verdict=Verdict.RETRY,
                words=_describe(error, settings),
                suspect=_had_the_request(error),
            )
        return replace(answer, words=without_secrets(answer.words, self._secrets))

    def close(self) -> None:
        """Close idle connections."""
        self._session.close()


def _client_certificate(settings: OtlpSettings) -> str | tuple[str, str] | None:
    """Our certificate as requests takes it: one file with both, or certificate and key."""
    if settings.client_certificate is None:
        return None
    if settings.client_key is None:
        return str(settings.client_certificate)
    return str(settings.client_certificate), str(settings.client_key)


def _read_bounded(response: requests.Response, deadline: float) -> bytes:
    """The body, up to :data:`MAX_ANSWER_BYTES`.

    Raises:
        TimeoutError: it is not complete at `deadline`, on the monotonic clock. The timeout given
            to requests is one for each read, which a backend that drips would never meet.
    """
    body = bytearray()
    while len(body) < MAX_ANSWER_BYTES and (data := response.raw.read1(_READ_BYTES)):
        body += data
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(body[:MAX_ANSWER_BYTES])


def _had_the_request(error: Exception) -> bool:
    """Whether the backend was connected to, so that the spans may be what it failed on."""
    if isinstance(error, requests.ConnectTimeout | requests.exceptions.SSLError):
        return False
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return not isinstance(reason, NewConnectionError)


def _describe(error: Exception, settings: OtlpSettings) -> str:
    """What went wrong, in words of ours: those of requests hold the URL, and thus maybe a key."""
    cause = _root_cause(error)
    if isinstance(error, (requests.Timeout, TimeoutError)) or isinstance(cause, TimeoutError):
        return f"no answer within {settings.timeout_seconds:g} s"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"TLS: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"TLS: {cause.reason or type(cause).__name__}"
    if isinstance(cause, OSError) and cause.strerror:
        return f"no connection: {cause.strerror}"
    return f"no connection: {type(cause).__name__}"


def _root_cause(error: BaseException) -> BaseException:
    """The innermost error: requests and urllib3 wrap what the socket said, by argument or cause."""
    seen = {id(error)}
    while True:
        inner = [
            *(arg for arg in error.args if isinstance(arg, BaseException)),
            getattr(error, "reason", None),
            error.__cause__,
            error.__context__,
        ]
        for candidate in inner:
            if isinstance(candidate, BaseException) and id(candidate) not in seen:
                seen.add(id(candidate))
                error = candidate
                break
        else:
            return error
