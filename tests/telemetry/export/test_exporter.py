"""``telemetry.export.exporter``: batches, waits, what is logged, and trouble of its own."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import pytest

from telemetry.export.delivery import Answer, Verdict
from telemetry.export.exporter import GATHER_SECONDS, MAX_BATCH_BYTES, MAX_BATCH_SPANS, ExportCounts
from telemetry.store.rows import SpanState
from tests.telemetry.exporting import (
    BAD,
    DELIVERED,
    DOWN,
    Clock,
    ScriptedSender,
    lines,
    stepwise,
    summaries,
)
from tests.telemetry.span_rows import SECOND_NS, make_row, make_rows, span_id

if TYPE_CHECKING:
    from telemetry.store.store import Store


# Batches


def test_batches_are_bounded_by_spans(store: Store, clock: Clock) -> None:
    """The oldest first, so many at a time, then nothing to do."""
    rows = make_rows(range(MAX_BATCH_SPANS + 5))
    store.add(rows)
    sender = ScriptedSender()
    exporter = stepwise(store, sender, clock)
    assert [exporter.step() for _ in range(3)] == [0.0, GATHER_SECONDS, math.inf]
    assert sender.batches == [
        b"".join(row.span for row in rows[:MAX_BATCH_SPANS]),
        b"".join(row.span for row in rows[MAX_BATCH_SPANS:]),
    ]
    assert store.counts().delivered == len(rows)


def test_batches_are_bounded_by_bytes(store: Store, clock: Clock) -> None:
    """A batch stays under the limit, a larger single span goes alone."""
    sizes = [MAX_BATCH_BYTES // 2, MAX_BATCH_BYTES // 3, 2 * MAX_BATCH_BYTES, 1, 1]
    store.add([make_row(number, padding_bytes=size) for number, size in enumerate(sizes)])
    sender = ScriptedSender()
    exporter = stepwise(store, sender, clock)
    while exporter.step() < math.inf:
        pass
    assert [len(batch) <= MAX_BATCH_BYTES for batch in sender.batches] == [True, False, True]
    assert store.counts().delivered == len(sizes)


@pytest.mark.parametrize(
    ("count", "padding_bytes", "wait_seconds"),
    [
        (MAX_BATCH_SPANS, 0, 0.0),
        (MAX_BATCH_SPANS - 1, 0, GATHER_SECONDS),
        (1, MAX_BATCH_BYTES // 2, 0.0),
    ],
)
def test_spans_gather(
    store: Store, clock: Clock, count: int, padding_bytes: int, wait_seconds: float
) -> None:
    """After a batch that left nothing behind there is a pause, after others none."""
    store.add([make_row(number, padding_bytes=padding_bytes) for number in range(count)])
    assert stepwise(store, ScriptedSender(), clock).step() == wait_seconds


def test_what_happened_is_counted(store: Store, clock: Clock) -> None:
    """Spans taken and refused, and requests that were not taken."""
    store.add(make_rows(range(2)))
    exporter = stepwise(store, ScriptedSender(DOWN, BAD, BAD, DELIVERED), clock)
    exporter.step()
    clock.now_ns += 3600 * SECOND_NS
    exporter.step()
    assert exporter.counts == ExportCounts(delivered=1, rejected=1, failures=1)
    assert store.counts().size_bytes >= store.path.stat().st_size > 0


# Failing and coming back


def test_failed_tries_wait_longer_and_go_on(store: Store, clock: Clock) -> None:
    """Each wait is longer than the last, none is the last, and the reason is kept."""
    store.add(make_rows([1, 2]))
    sender = ScriptedSender(*[DOWN] * 9)
    exporter = stepwise(store, sender, clock)
    waits = []
    for _ in range(9):
        waits.append(exporter.step())
        clock.now_ns += int(waits[-1] * 1e9)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    oldest = summaries(store)[span_id(1)]
    assert (oldest.state, oldest.attempts) == (SpanState.PENDING, 9)
    assert oldest.last_error == DOWN.words
    assert oldest.next_try_ns == clock.now_ns
    assert exporter.step() == GATHER_SECONDS
    assert store.counts().delivered == 2


def test_recovery_starts_the_waits_anew(store: Store, clock: Clock) -> None:
    """After a success the first wait is short again."""
    store.add([make_row(1)])
    exporter = stepwise(store, ScriptedSender(DOWN, DOWN, DELIVERED, DOWN), clock)
    assert [exporter.step() for _ in range(3)] == [1, 2, GATHER_SECONDS]
    store.add([make_row(2)])
    assert exporter.step() == 1


def test_backend_may_ask_for_a_longer_wait(store: Store, clock: Clock) -> None:
    """``Retry-After`` is honoured."""
    store.add([make_row(1)])
    asked = Answer(verdict=Verdict.RETRY, words="HTTP 429", retry_after_seconds=17.0)
    assert stepwise(store, ScriptedSender(asked), clock).step() == 17.0


@pytest.mark.parametrize("step_seconds", [-3600, 0, 3600])
def test_order_of_age_survives_a_failure(store: Store, clock: Clock, step_seconds: int) -> None:
    """What failed goes out before what came meanwhile, whatever the wall clock did."""
    store.add(make_rows([1, 2]))
    sender = ScriptedSender(DOWN)
    exporter = stepwise(store, sender, clock)
    exporter.step()
    store.add([make_row(3)])
    clock.now_ns += step_seconds * SECOND_NS
    exporter.step()
    assert sender.batches[1] == b"".join(row.span for row in make_rows([1, 2, 3]))


# The log


def test_one_line_per_outage(store: Store, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """One line when it begins, one when it ends."""
    caplog.set_level(logging.INFO, "spantap.exporter")
    store.add([make_row(1)])
    exporter = stepwise(store, ScriptedSender(*[DOWN] * 5), clock)
    for _ in range(5):
        clock.now_ns += int(exporter.step() * 1e9)
    (line,) = lines(caplog)
    assert line.startswith(
        "WARNING http://backend:4318 accepts no spans (no connection: Connection refused);"
    )
    exporter.step()
    exporter.step()
    assert lines(caplog) == ["INFO http://backend:4318 accepts spans again, after 5 failed tries"]


def test_flapping_backend_is_told_once_a_minute(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """At most a pair of lines per minute, but a lasting outage is told however it began."""
    caplog.set_level(logging.INFO, "spantap.exporter")
    sender = ScriptedSender()
    exporter = stepwise(store, sender, clock)
    for number in range(20):
        store.add([make_row(number)])
        sender.script.append(DOWN)
        exporter.step()
        exporter.step()
        clock.now_ns += SECOND_NS
    assert len(lines(caplog)) == 2
    store.add([make_row(100)])
    sender.rule = lambda _: DOWN
    for _ in range(10):
        clock.now_ns += int(exporter.step() * 1e9)
    assert len(lines(caplog)) == 1


def test_rejections_are_told_and_counted(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Refused spans are one line a minute, with their count."""
    sender = ScriptedSender()
    sender.rule = lambda _: BAD
    exporter = stepwise(store, sender, clock)
    store.add(make_rows(range(3)))
    exporter.step()
    (line,) = lines(caplog)
    assert f"refused span {span_id(0)} (HTTP 400: bad)" in line
    clock.now_ns += 61 * SECOND_NS
    store.add([make_row(3)])
    exporter.step()
    (line,) = lines(caplog)
    assert "3 in all" in line


def test_a_long_outage_is_told_again(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Every ten minutes one line, with the number of tries: today's log alone shows it."""
    store.add([make_row(1)])
    exporter = stepwise(store, ScriptedSender(*[DOWN] * 40), clock)
    for _ in range(40):
        clock.now_ns += int(exporter.step() * SECOND_NS)
    told = [line for line in lines(caplog) if "still accepts no spans" in line]
    assert 3 <= len(told) <= 4, "in some forty minutes"
    assert "`spantap check` tells more" in told[0]


def test_warning_of_a_success_is_told(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A backend that takes all and has something to say: not what, for it may quote the spans."""
    store.add([make_row(1)])
    warned = Answer(verdict=Verdict.DELIVERED, words="deprecated", brief="with a warning")
    stepwise(store, ScriptedSender(warned), clock).step()
    assert lines(caplog) == ["WARNING http://backend:4318 accepted the spans with a warning"]
    assert store.counts().delivered == 1


def test_clock_put_back_does_not_silence(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The clock may be put back: then there is a line too many, but never one too few."""
    sender = ScriptedSender(DOWN, DELIVERED, DOWN)
    exporter = stepwise(store, sender, clock)
    store.add([make_row(1)])
    exporter.step()
    exporter.step()
    clock.now_ns -= 3600 * SECOND_NS
    store.add([make_row(2)])
    exporter.step()
    assert len(lines(caplog)) == 2


# Trouble of our own


def test_defect_in_a_sender(store: Store, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A defect waits like a failed try; its text, which may hold a key, is not told (R7)."""
    store.add([make_row(1)])
    exporter = stepwise(store, ScriptedSender(ValueError("sekret")), clock)
    assert exporter.step() == 1.0
    (line,) = lines(caplog)
    assert "ValueError in send, " in line
    assert "sekret" not in line
    assert exporter.step() == GATHER_SECONDS
    assert store.counts().delivered == 1


def test_trouble_with_the_store(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that cannot be read waits like a failed try, and is told."""
    exporter = stepwise(store, ScriptedSender(), clock)
    store.close()
    assert [exporter.step(), exporter.step()] == [1.0, 2.0]
    (line,) = lines(caplog)
    assert "the store" in line
    assert "is closed" in line


def test_unwritten_delivery_is_sent_again(store: Store, clock: Clock) -> None:
    """R8: an answer that could not be written down is asked for again, under the same span id."""
    store.add([make_row(1)])
    sender = ScriptedSender()
    exporter = stepwise(store, sender, clock)
    with store._file.use() as connection:
        connection.execute("PRAGMA query_only = ON")
    assert exporter.step() == 1.0
    with store._file.use() as connection:
        connection.execute("PRAGMA query_only = OFF")
    assert exporter.step() == GATHER_SECONDS
    assert sender.batches == [make_row(1).span] * 2
    assert store.counts().delivered == 1
