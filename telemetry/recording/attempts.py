"""Attempts at one call: what a client's SDK sends again is linked to the attempt before.

Rules:

1. A call is a retry where its client says so (:mod:`telemetry.observing.client_headers`). The
   attempt before is a call that failed, or that its client left, with the same body to the same
   path of the same upstream, by the same program, one attempt earlier, that ended before it in the
   last :data:`MAX_WAIT_NS`.
2. One attempt is the one before of one retry. Where several could be, none is: a link is right or
   absent.
3. Of what failed the last :data:`MAX_ATTEMPTS` are remembered, and no body but a keyed digest (R5,
   R7). Bodies over :data:`MAX_BODY_BYTES` are not compared.
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
"""Some 300 KB; an upstream that refuses a hundred calls a second is retried within ten."""

MAX_WAIT_NS: Final = 120_000_000_000
"""SDKs wait for some seconds, or a minute where the provider says so (``retry-after``)."""

MAX_BODY_BYTES: Final = 4 << 20
"""4 ms of hashing."""

_LEFT = frozenset({Outcome.CLIENT_DISCONNECTED, Outcome.CANCELLED})


class _Call(NamedTuple):
    """What two attempts have alike, and which attempt it is."""

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
        """Return an exchange with its attempt before, itself where none is known."""
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
        """Remember a recorded exchange, if it may be tried again."""
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
