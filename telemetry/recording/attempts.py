"""Attempts at one call: a retry of a client's SDK links to the attempt before it.

A call is a retry if its client says so (:mod:`telemetry.observing.client_headers`). The attempt
before is a call that failed, or that its client left. It had the same body, path, upstream and
program, was one attempt earlier, and ended in the last :data:`MAX_WAIT_NS` before the retry began.
One attempt is the one before a single retry. If several calls could be the attempt before, none is
taken: a link is right or absent.

Of a body only a keyed digest is remembered (R7).
"""

from __future__ import annotations

import os
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from telemetry.observing.exchange import Outcome

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

MAX_ATTEMPTS: Final = 1_024
"""How many failed calls are remembered, in some 300 KB (R5). An upstream that refuses a hundred
calls a second is retried within ten seconds."""

MAX_WAIT_NS: Final = 120_000_000_000
"""SDKs wait for some seconds, or for a minute if the provider says so (``retry-after``)."""

MAX_BODY_BYTES: Final = 4 << 20
"""Larger bodies are not compared: hashing this one takes 4 ms."""

_LEFT = frozenset({Outcome.CLIENT_DISCONNECTED, Outcome.CANCELLED})


class _Call(NamedTuple):
    """What two attempts share, and which attempt it is."""

    digest: bytes
    path: str
    upstream: str
    user_agent: str | None
    retry: int


class _Attempt(NamedTuple):
    trace_id: str
    span_id: str
    end_ns: int


class Attempts:
    """The last calls that failed. Not safe for concurrent calls."""

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._failed: OrderedDict[_Attempt, _Call] = OrderedDict()
        self._alike: dict[_Call, list[_Attempt]] = {}

    def __len__(self) -> int:
        return len(self._failed)

    def with_attempt_before(self, exchange: Exchange) -> Exchange:
        """Return an exchange with its attempt before, or unchanged if none is known."""
        if not exchange.client_retry or not self._failed:
            return exchange
        call = self._describe(exchange, exchange.client_retry - 1)
        earliest_ns = exchange.start_ns - MAX_WAIT_NS
        candidates = [
            attempt
            for attempt in self._alike.get(call, ())
            if earliest_ns <= attempt.end_ns <= exchange.start_ns
        ]
        if len(candidates) != 1:
            return exchange
        (before,) = candidates
        self._forget(before)
        return replace(exchange, attempt_before=(before.trace_id, before.span_id))

    def note(self, exchange: Exchange) -> None:
        """Remember a recorded exchange if it may be tried again."""
        if exchange.error_type is None and exchange.outcome not in _LEFT:
            return
        body = exchange.request_body
        if body is None or len(body) > MAX_BODY_BYTES:
            return
        if len(self._failed) >= MAX_ATTEMPTS:
            self._forget(next(iter(self._failed)))
        identity = exchange.identity
        attempt = _Attempt(identity.trace_id, identity.span_id, exchange.end_ns)
        call = self._describe(exchange, exchange.client_retry)
        self._failed[attempt] = call
        self._alike.setdefault(call, []).append(attempt)

    def _describe(self, exchange: Exchange, retry: int) -> _Call:
        body = exchange.request_body or b""
        digest = blake2b(body[:MAX_BODY_BYTES], key=self._key, digest_size=16).digest()
        return _Call(digest, exchange.path, exchange.upstream, exchange.user_agent, retry)

    def _forget(self, attempt: _Attempt) -> None:
        call = self._failed.pop(attempt)
        alike = self._alike[call]
        alike.remove(attempt)
        if not alike:
            del self._alike[call]
