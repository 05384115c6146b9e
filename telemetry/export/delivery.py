"""Delivery: what a backend's answer means for the spans that were sent, and how long to wait.

Pure: values in, values out. The senders pass in what they received, and the exporter acts on the
result. Every backend can rely on these rules (OTLP specification 1.10, "OTLP/HTTP Response" and
"OTLP/gRPC Response"; R8):

1. Spans count as delivered only after a success that rejects none of them.
2. A failure that may be different next time is tried again without end: no connection, no answer,
   408, 429, 5xx and the similar codes of gRPC. The specification names fewer HTTP statuses and
   allows the rest to be dropped, but a store can wait.
3. An answer that refuses the *sender* (401, 403, 404, a redirect, ...) is tried again too: a wrong
   key or path in the settings must not cost spans. So is a success that is a web page, because many
   servers answer every path with one.
4. Only an answer that refuses the *content* (413, 422, ``INVALID_ARGUMENT``, rejected spans in a
   success) counts against spans. A 400, or another 4xx, does so only in the words of a server that
   has read them: a ``google.rpc.Status``, which OTLP asks for, or a short plain text. An HTML page
   or an empty body comes from a server in between, or from a TLS port that got plain text: rule 3.
5. The spans may be the cause of a failure, unless the answer speaks of the sender or of the moment,
   or the backend never had the request. :mod:`telemetry.export.suspicion` finds out.
6. The backend's words are kept with the span, without any credential of ours that they repeat. No
   log line has them, because they may quote the span (R7).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from codec.text.jsontext import decode_json_object

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_ANSWER_BYTES = 64 << 10
"""The most bytes that are read of an answer; a real one is a count and a sentence."""

_MAX_WORDS = 400
"""The most characters of a body that are shown: a reason fits, an HTML page does not."""

_MIN_SECRET_CHARS = 6
"""Shorter parts of a header value are not masked: they are ordinary words, not credentials."""

_SENDER_REFUSED = frozenset({401, 402, 403, 404, 405, 406, 407, 415, 421, 426, 431, 451})
"""4xx statuses that are about the sender, not about the spans."""

_TRY_AGAIN = frozenset({408, 425, 429})
"""4xx statuses that are about the moment."""

_CONTENT_REFUSED = frozenset({413, 422})
"""4xx statuses that are about the content, whatever their body: too large, or not a valid message,
which Phoenix answers (``docs/contract/spans.md#phoenix-ingest``)."""

_GRPC_SUSPECT = frozenset(
    {
        "ABORTED",
        "DATA_LOSS",
        "DEADLINE_EXCEEDED",
        "FAILED_PRECONDITION",
        "INTERNAL",
        "OUT_OF_RANGE",
        "UNAVAILABLE",
        "UNKNOWN",
    }
)
"""gRPC codes with which a backend may fail on a span; the others are about the sender or the
moment. ``UNAVAILABLE`` is both a connection that was reset during the call and one that was never
made."""

_NOT_REACHED = re.compile(r"failed to connect|resolution failed", re.IGNORECASE)
"""The words of gRPC itself for a connection never made."""

_OF_THE_REQUEST = re.compile(rb"http|bad request", re.IGNORECASE)
"""Parts of the plain texts of HTTP servers themselves: "Client sent an HTTP request to an HTTPS
server", "Invalid HTTP request received.", "400 Bad Request: ..."."""

_NO_OTLP = "answered with JSON that is not an OTLP answer; is this an OTLP backend?"

_WEB_PAGE = "answered with a web page; is this the OTLP port?"


class Verdict(Enum):
    """The verdict on the spans that were sent."""

    DELIVERED = auto()
    RETRY = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of sending a batch.

    Attributes:
        words: why, if possible in the backend's words; a success may have a warning.
        brief: the reason for a log line, never in the backend's words.
        suspect: the try failed, and the spans may be the cause.
        retry_after_seconds: how long the backend asked us to wait.
        status: of an answer over HTTP; ``None`` if none came.
    """

    verdict: Verdict
    words: str = ""
    brief: str = field(default="", compare=False)
    suspect: bool = field(default=True, compare=False)
    retry_after_seconds: float | None = None
    status: int | None = field(default=None, compare=False)


class Sender(Protocol):
    """One way to a backend."""

    @property
    def backend(self) -> str:
        """The backend's scheme, host and port, for log lines."""
        ...

    def send(self, batch: bytes) -> Answer:
        """Send a serialised request and wait for the answer; raises nothing."""
        ...

    def close(self) -> None:
        """Close what is open to the backend."""
        ...


def classify_http(
    status: int,
    body: bytes,
    retry_after_seconds: float | None = None,
    content_type: str | None = None,
) -> Answer:
    """Say what an HTTP answer means; at most :data:`MAX_ANSWER_BYTES` of its body were read."""
    if 200 <= status < 300:
        if body and _media_type(content_type) == "text/html":
            return Answer(
                verdict=Verdict.RETRY,
                words=_WEB_PAGE,
                brief=_WEB_PAGE,
                suspect=False,
                status=status,
            )
        return classify_success(body)
    brief = f"HTTP {status}"
    words = f"{brief}: {_readable(body)}".removesuffix(": ")
    refuses = _refuses_content(status, body, content_type)
    return Answer(
        verdict=Verdict.REFUSED if refuses else Verdict.RETRY,
        words=words,
        brief=brief,
        suspect=status >= 400 and status not in _SENDER_REFUSED | _TRY_AGAIN,
        retry_after_seconds=None if refuses else retry_after_seconds,
        status=status,
    )


def classify_success(body: bytes) -> Answer:
    """Say what a success means: a serialised ``ExportTraceServiceResponse`` may reject spans.

    Any other body (empty, JSON, ``OK``) rejects nothing: the status has said it all.
    """
    if not body:
        return Answer(verdict=Verdict.DELIVERED)
    from telemetry.export import otlp_answer  # noqa: PLC0415 - when a backend first says something

    partial = otlp_answer.read_partial_success(body)
    if partial is None:
        words = _NO_OTLP if _is_foreign_json(body) else ""
    else:
        rejected_spans, message = partial
        words = _one_line(message)
        if rejected_spans > 0:
            why = words or "rejected without a reason"
            return Answer(verdict=Verdict.REFUSED, words=why, brief="partial success")
    return Answer(verdict=Verdict.DELIVERED, words=words, brief="with a warning" if words else "")


def classify_grpc_error(
    code: str, details: str, retry_after_seconds: float | None = None
) -> Answer:
    """Say what a failed gRPC call means; `code` is the name of its status, as ``UNAVAILABLE``."""
    words = f"{code}: {_one_line(details)}".removesuffix(": ")
    # Without RetryInfo this code means "too large for me" (Phoenix, 4 MiB), says the specification.
    exhausted = code == "RESOURCE_EXHAUSTED" and retry_after_seconds is None
    if exhausted or code == "INVALID_ARGUMENT":
        return Answer(verdict=Verdict.REFUSED, words=words, brief=code)
    return Answer(
        verdict=Verdict.RETRY,
        words=words,
        brief=code,
        suspect=code in _GRPC_SUSPECT and not _NOT_REACHED.search(details),
        retry_after_seconds=retry_after_seconds,
    )


def parse_retry_after(value: str | None, now_seconds: float) -> float | None:
    """Read the seconds to wait of a ``Retry-After`` header: a number, or an HTTP date.

    See RFC 9110, section 10.2.3. ``None`` if the header is absent or unreadable.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now_seconds
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The time to wait after a number of failures in a row.

    Attributes:
        first_seconds: the wait after the first failure; each further one doubles it.
        max_seconds: the longest wait that we choose. A backend that is up again is noticed by then.
        max_asked_seconds: the longest wait that a backend may ask for: its clock may be wrong.
    """

    first_seconds: float = 1.0
    max_seconds: float = 60.0
    max_asked_seconds: float = 600.0

    def wait_seconds(self, failures: int, jitter: float, asked_seconds: float | None) -> float:
        """Say how long to wait after `failures` (at least 1) in a row.

        Half of the wait is fixed and half is random (`jitter`, from 0 to 1), so that proxies that
        lost a backend together do not come back together. It is at least `asked_seconds`.
        """
        # The exponent is bounded: 2.0 ** 1024 overflows after a long outage.
        own = min(self.max_seconds, self.first_seconds * 2.0 ** min(failures - 1, 64))
        asked = min(asked_seconds or 0.0, self.max_asked_seconds)
        return max(own * (0.5 + 0.5 * jitter), asked)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Mask the header values `secrets` and any word of them in `text`.

    If the text was cut, the beginning of a secret at its end is masked too.
    """
    is_cut = len(text) >= _MAX_WORDS
    words = {word for secret in secrets for word in (secret, *secret.split())}
    for word in sorted(words, key=len, reverse=True):
        if len(word) >= _MIN_SECRET_CHARS:
            text = text.replace(word, "***")
            sizes = range(len(word) - 1, _MIN_SECRET_CHARS - 1, -1) if is_cut else ()
            known = next((size for size in sizes if text.endswith(word[:size])), 0)
            text = f"{text[:-known]}***" if known else text
    return text


def _refuses_content(status: int, body: bytes, content_type: str | None) -> bool:
    """Tell whether an error counts against the spans."""
    if status in _CONTENT_REFUSED:
        return True
    if not 400 <= status < 500 or status in _SENDER_REFUSED | _TRY_AGAIN:
        return False
    if _media_type(content_type) == "text/plain":
        return 0 < len(body.strip()) <= _MAX_WORDS and not _OF_THE_REQUEST.search(body)
    return _is_status(body)


def _is_status(body: bytes) -> bool:
    """Tell whether `body` is a ``google.rpc.Status`` that says something, in protobuf or JSON."""
    # Some texts can be read as a message of unknown fields.
    if any(_read_status(body)):
        return True
    try:
        value = decode_json_object(body)
    except ValueError:
        return False
    return isinstance(value.get("message"), str) or isinstance(value.get("code"), int)


def _read_status(body: bytes) -> tuple[int, str]:
    """Read code and message of a ``google.rpc.Status`` in protobuf; 0 and "" for other bytes."""
    from telemetry.export import otlp_answer  # noqa: PLC0415 - when a backend first says something

    return otlp_answer.read_status(body)


def _is_foreign_json(body: bytes) -> bool:
    """Tell whether a body is a JSON object that no OTLP backend answers with."""
    try:
        value = decode_json_object(body)
    except ValueError:
        return False
    return bool(value) and value.keys().isdisjoint({"partialSuccess", "partial_success"})


def _media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def _readable(body: bytes) -> str:
    """Read the message in an error's body: of a ``google.rpc.Status``, or all text on one line."""
    _, message = _read_status(body)
    return _one_line(message or body.decode("utf-8", "replace"))


def _one_line(text: str) -> str:
    """Make `text` fit for a log line and a terminal: no control characters, not too long."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())[:_MAX_WORDS]
