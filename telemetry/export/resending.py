"""Sends spans once more, to any backend, whatever their state is.

Answers mean what :mod:`telemetry.export.delivery` says. A refused batch is halved until the refused
span is alone; it is counted and reported. No result is written to the store, because it may belong
to another process.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

from telemetry.errors import TelemetryError
from telemetry.export.delivery import Backoff, Verdict
from telemetry.export.exporter import MAX_BATCH_BYTES, MAX_BATCH_SPANS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from telemetry.export.delivery import Answer, Sender

MAX_TRIES: Final = 6
"""The most tries in a row: some 20 seconds, unless the backend asks for more. Somebody waits for
the end."""

MAX_REFUSED: Final = 64
"""The refused spans after which sending ends, if none was accepted: a backend that refuses a whole
batch refuses everything."""

_RETRYABLE: Final = frozenset({None, 429, 502, 503, 504})
"""Statuses that OTLP calls retryable; ``None`` means that no answer came."""


class BackendFailed(TelemetryError):  # noqa: N818 - names the condition, as the others do
    """The backend takes no spans; the words are the backend's, without credentials of ours."""


class Resender:
    """Sends spans in batches.

    Args:
        sender: to the backend.
        tell: is called with a sentence, without its full stop, when a request failed and is tried
            again.
        wait: waits a number of seconds.
        jitter: draws a number from 0 to 1.

    Attributes:
        sent: spans that the backend has accepted.
        refused: spans that it has refused.
        refusal: the words with which it refused the last of these.
    """

    def __init__(
        self,
        sender: Sender,
        *,
        tell: Callable[[str], None],
        wait: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.sent = 0
        self.refused = 0
        self.refusal = ""
        self._sender = sender
        self._report = tell
        self._wait = wait
        self._jitter = jitter
        self._backoff = Backoff(max_seconds=10.0)

    def send(self, spans: Iterable[bytes]) -> None:
        """Send spans, each a serialised request; batches are made as they come.

        Raises:
            BackendFailed: not all were sent.
        """
        for batch in _make_batches(spans):
            parts = [batch]
            while parts:
                self._send_part(parts.pop(), parts)

    def _send_part(self, part: Sequence[bytes], parts: list[Sequence[bytes]]) -> None:
        """Send a batch, or a part of one; if it is refused, its halves come next."""
        answer = self._try(b"".join(part))
        if answer.verdict is Verdict.DELIVERED:
            self.sent += len(part)
        elif len(part) > 1:
            middle = len(part) // 2
            parts += [part[middle:], part[:middle]]
        else:
            self.refused += 1
            self.refusal = answer.words
            if not self.sent and self.refused >= MAX_REFUSED:
                raise BackendFailed(f"every call is refused: {answer.words}")

    def _try(self, batch: bytes) -> Answer:
        """Send until there is an answer about the spans.

        Raises:
            BackendFailed: too many tries failed, or the answer will stay the same.
        """
        failures = 0
        while (answer := self._sender.send(batch)).verdict is Verdict.RETRY:
            failures += 1
            if answer.status not in _RETRYABLE or failures >= MAX_TRIES:
                raise BackendFailed(answer.words)
            seconds = self._backoff.wait_seconds(
                failures, self._jitter(), answer.retry_after_seconds
            )
            self._report(f"{answer.words}; trying again in {seconds:.1f} s")
            self._wait(seconds)
        return answer


def _make_batches(spans: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    """Make batches of the exporter's size; a span that is larger goes alone."""
    batch: list[bytes] = []
    size_bytes = 0
    for span in spans:
        if batch and (len(batch) == MAX_BATCH_SPANS or size_bytes + len(span) > MAX_BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(span)
        size_bytes += len(span)
    if batch:
        yield batch
