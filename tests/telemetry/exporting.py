"""Exporters, the backends they send to, and what became of the spans."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING

from telemetry.export.delivery import Answer, Backoff, Verdict
from telemetry.export.exporter import Exporter, open_sender
from telemetry.export.settings import read_otlp_settings
from telemetry.reading.stored_calls import open_calls
from tests.telemetry.span_rows import SECOND_NS, span_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from telemetry.export.delivery import Sender
    from telemetry.store.rows import SpanState, SpanSummary
    from telemetry.store.store import Store

SOON = Backoff(first_seconds=0.01, max_seconds=0.05)
"""Waits that a test can wait for."""

DELIVERED = Answer(verdict=Verdict.DELIVERED)
DOWN = Answer(verdict=Verdict.RETRY, words="no connection: Connection refused", suspect=False)
BAD = Answer(verdict=Verdict.REFUSED, words="HTTP 400: bad")


class ScriptedSender:
    """A backend without sockets: its answers are a script, then a rule."""

    backend = "http://backend:4318"

    def __init__(self, *script: Answer | Exception) -> None:
        self.script = deque(script)
        self.batches: list[bytes] = []
        self.rule: Callable[[bytes], Answer] = lambda _: DELIVERED

    def send(self, batch: bytes) -> Answer:
        """The next answer of the script, then that of the rule."""
        self.batches.append(batch)
        answer = self.script.popleft() if self.script else self.rule(batch)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Nothing is open."""


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * SECOND_NS

    def __call__(self) -> int:
        return self.now_ns


def stepwise(store: Store, sender: ScriptedSender, clock: Clock) -> Exporter:
    """An exporter to be stepped by hand, whose waits are not drawn."""
    return Exporter(store, sender, clock_ns=clock, jitter=lambda: 1.0)


def make_sender(endpoint: str, **variables: str) -> Sender:
    """A sender with settings from variables (their common prefix left out)."""
    settings = read_otlp_settings(
        {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        | {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()}
    )
    assert settings is not None
    return open_sender(settings)


@contextlib.contextmanager
def running(store: Store, endpoint: str, protocol: str = "http/protobuf") -> Iterator[Exporter]:
    """An exporter in its thread, as the application runs it."""
    sender = make_sender(endpoint, PROTOCOL=protocol)
    exporter = Exporter(store, sender, backoff=SOON)
    exporter.start()
    try:
        yield exporter
    finally:
        exporter.stop(5.0)
        sender.close()


def summaries(store: Store) -> dict[str, SpanSummary]:
    """What became of each span, by span id."""
    with open_calls(store.path) as reader:
        return {summary.span_id: summary for summary in reader.page(1000).rows}


def in_state(store: Store, state: SpanState) -> set[str]:
    """The ids of the spans in one state."""
    return {one for one, summary in summaries(store).items() if summary.state is state}


def ids(numbers: range | list[int]) -> list[str]:
    """Span ids by number."""
    return [span_id(number) for number in numbers]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged since the last look."""
    messages = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
    caplog.clear()
    return messages
