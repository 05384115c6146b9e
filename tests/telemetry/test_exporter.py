"""``telemetry.exporter``: from the store to the backend, whatever the backend does."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import random
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

import pytest

from telemetry.delivery import Answer, Backoff, Verdict
from telemetry.exporter import (
    MAX_BATCH_BYTES,
    MAX_BATCH_SPANS,
    ExportCounts,
    Exporter,
    open_sender,
)
from telemetry.otlp_settings import read_otlp_settings
from telemetry.store import Store
from telemetry.store_reader import StoreReader
from telemetry.store_rows import SpanState
from tests.otlp_sink import GrpcSink, HttpSink, SinkAnswer
from tests.telemetry.span_rows import SECOND_NS, make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from telemetry.store_rows import SpanSummary

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


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new store."""
    with Store.open(tmp_path / "spans.db") as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


def stepwise(store: Store, sender: ScriptedSender, clock: Clock) -> Exporter:
    """An exporter to be stepped by hand, whose waits are not drawn."""
    return Exporter(store, sender, clock_ns=clock, jitter=lambda: 1.0)


@contextlib.contextmanager
def running(store: Store, endpoint: str, protocol: str = "http/protobuf") -> Iterator[Exporter]:
    """An exporter in its thread, as the application runs it."""
    settings = read_otlp_settings(
        {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    )
    assert settings is not None
    sender = open_sender(settings)
    exporter = Exporter(store, sender, backoff=SOON)
    exporter.start()
    try:
        yield exporter
    finally:
        exporter.stop(5.0)
        sender.close()


def summaries(store: Store) -> dict[str, SpanSummary]:
    """What became of each span, by span id."""
    with StoreReader(store.path) as reader:
        return {summary.span_id: summary for summary in reader.latest(1000)}


def in_state(store: Store, state: SpanState) -> set[str]:
    """The ids of the spans in one state."""
    return {one for one, summary in summaries(store).items() if summary.state is state}


def ids(numbers: range | list[int]) -> list[str]:
    """Span ids by number."""
    return [span_id(number) for number in numbers]


# Batches


def test_batches_are_bounded_by_spans(store: Store, clock: Clock) -> None:
    """Rule 1: the oldest first, so many at a time, then nothing to do."""
    rows = make_rows(range(MAX_BATCH_SPANS + 5))
    store.add(rows)
    sender = ScriptedSender()
    exporter = stepwise(store, sender, clock)
    assert [exporter.step() for _ in range(3)] == [0.0, 0.0, math.inf]
    assert sender.batches == [
        b"".join(row.span for row in rows[:MAX_BATCH_SPANS]),
        b"".join(row.span for row in rows[MAX_BATCH_SPANS:]),
    ]
    assert store.counts().delivered == len(rows)


def test_batches_are_bounded_by_bytes(store: Store, clock: Clock) -> None:
    """Rule 1: a batch stays under the limit, a larger single span goes alone."""
    sizes = [MAX_BATCH_BYTES // 2, MAX_BATCH_BYTES // 3, 2 * MAX_BATCH_BYTES, 1, 1]
    store.add([make_row(number, padding_bytes=size) for number, size in enumerate(sizes)])
    sender = ScriptedSender()
    exporter = stepwise(store, sender, clock)
    while exporter.step() == 0.0:
        pass
    assert [len(batch) <= MAX_BATCH_BYTES for batch in sender.batches] == [True, False, True]
    assert store.counts().delivered == len(sizes)


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
    """Rule 2: each wait is longer than the last, none is the last, and the reason is kept."""
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
    assert exporter.step() == 0.0
    assert store.counts().delivered == 2


def test_recovery_starts_the_waits_anew(store: Store, clock: Clock) -> None:
    """Rule 2: after a success the first wait is short again."""
    store.add([make_row(1)])
    exporter = stepwise(store, ScriptedSender(DOWN, DOWN, DELIVERED, DOWN), clock)
    assert [exporter.step() for _ in range(3)] == [1, 2, 0]
    store.add([make_row(2)])
    assert exporter.step() == 1


def test_backend_may_ask_for_a_longer_wait(store: Store, clock: Clock) -> None:
    """Rule 2: ``Retry-After`` is honoured."""
    store.add([make_row(1)])
    asked = Answer(verdict=Verdict.RETRY, words="HTTP 429", retry_after_seconds=17.0)
    assert stepwise(store, ScriptedSender(asked), clock).step() == 17.0


@pytest.mark.parametrize("step_seconds", [-3600, 0, 3600])
def test_order_of_age_survives_a_failure(store: Store, clock: Clock, step_seconds: int) -> None:
    """Rule 2: what failed goes out before what came meanwhile, whatever the wall clock did."""
    store.add(make_rows([1, 2]))
    sender = ScriptedSender(DOWN)
    exporter = stepwise(store, sender, clock)
    exporter.step()
    store.add([make_row(3)])
    clock.now_ns += step_seconds * SECOND_NS
    exporter.step()
    assert sender.batches[1] == b"".join(row.span for row in make_rows([1, 2, 3]))


def test_outage_loses_and_doubles_nothing(store: Store) -> None:
    """R8: spans recorded while the backend was away arrive once it is back, in order, once each."""
    with HttpSink() as sink:
        port = sink.port
    with running(store, f"http://127.0.0.1:{port}") as exporter:
        for number in range(0, 300, 10):
            store.add(make_rows(range(number, number + 10)))
            exporter.wake()
            time.sleep(0.005)
        assert store.counts().pending == 300
        with HttpSink(port=port) as sink:
            assert sink.wait_for_spans(300) == ids(range(300))
            assert exporter.flush(5.0) == 0
            assert len(sink.accepted) == 300
    assert len(in_state(store, SpanState.DELIVERED)) == 300


@pytest.mark.parametrize(
    "trouble",
    [
        SinkAnswer(status=503),
        SinkAnswer(status=429, headers=(("Retry-After", "0"),)),
        SinkAnswer(status=401, words="who are you"),
        SinkAnswer(breaks="before"),
        SinkAnswer(breaks="within"),
    ],
)
def test_flapping_backend(store: Store, trouble: SinkAnswer) -> None:
    """R8: a backend that fails every other request gets every span, in order."""
    with HttpSink() as sink:
        sink.script.extend([trouble, SinkAnswer()] * 5)
        with running(store, sink.url) as exporter:
            for number in range(5):
                store.add(make_rows([number]))
                exporter.wake()
                sink.wait_for_spans(number + 1)
        assert sink.accepted == ids(range(5))
        assert len(sink.requests) == 10


def test_restart_goes_on_where_it_ended(store: Store) -> None:
    """R8: what one exporter could not send is sent by the next one, from the same file."""
    store.add(make_rows(range(10)))
    with HttpSink() as sink:
        sink.rule = lambda _: SinkAnswer(status=503)
        with running(store, sink.url) as exporter:
            assert exporter.flush(0.1) == 10
    store.close()
    with Store.open(store.path) as successor, HttpSink() as sink, running(successor, sink.url):
        assert sink.wait_for_spans(10) == ids(range(10))


# Refusals


@pytest.mark.parametrize(
    "refusal",
    [SinkAnswer(status=400, words="no such day"), SinkAnswer(rejected_spans=1, words="too old")],
)
@pytest.mark.parametrize("bad", [[0], [63], [5, 6, 40]])
def test_refused_spans_are_found(store: Store, refusal: SinkAnswer, bad: list[int]) -> None:
    """Rule 3: only the refused spans are set aside, with the reason; the others are delivered."""
    poison = set(ids(bad))
    store.add(make_rows(range(64)))
    with HttpSink() as sink:
        sink.rule = lambda span_ids: refusal if poison.intersection(span_ids) else SinkAnswer()
        with running(store, sink.url) as exporter:
            assert exporter.flush(10.0) == 0
        assert sink.accepted == [one for one in ids(range(64)) if one not in poison]
        # Halving finds one of 64 in 1 + 2 * 6 requests.
        assert len(sink.requests) <= len(bad) * 13
    assert in_state(store, SpanState.REJECTED) == poison
    assert len(in_state(store, SpanState.DELIVERED)) == 64 - len(bad)
    for one in poison:
        assert str(summaries(store)[one].last_error).endswith(refusal.words)


def test_slip_of_the_settings_costs_no_span(store: Store) -> None:
    """R8: what a TLS port says to plain HTTP is about us; the spans wait for the right setting."""
    store.add(make_rows(range(3)))
    page = b"<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>"
    with HttpSink() as sink:
        sink.script.append(SinkAnswer(status=400, body=page, content_type="text/html"))
        with running(store, sink.url) as exporter:
            sink.wait_for_requests(1)
            assert exporter.flush(5.0) == 0
        assert sink.accepted == ids(range(3))
    assert in_state(store, SpanState.REJECTED) == set()


def test_backend_that_fails_amid_halving(store: Store, clock: Clock) -> None:
    """Rules 2 and 3: halves not sent yet stay pending, and go out in order later."""
    rows = make_rows(range(4))
    store.add(rows)
    sender = ScriptedSender(BAD, DELIVERED, DOWN)
    exporter = stepwise(store, sender, clock)
    assert exporter.step() == 1.0
    assert (store.counts().delivered, store.counts().pending) == (2, 2)
    exporter.step()
    assert sender.batches[-1] == rows[2].span + rows[3].span


def test_stop_amid_halving(store: Store, clock: Clock) -> None:
    """A stop is heard between two halves; what was not sent stays pending."""
    store.add(make_rows(range(4)))
    sender = ScriptedSender(BAD)
    exporter = stepwise(store, sender, clock)

    def stop(_: bytes) -> Answer:
        exporter.stop()
        return DELIVERED

    sender.rule = stop
    assert exporter.step() == 0.0
    assert len(sender.batches) == 2
    assert store.counts().pending == 2


# Spans that make the backend fail

FAILS = Answer(verdict=Verdict.RETRY, words="HTTP 500: no such day", brief="HTTP 500")


def poisoned(numbers: set[int], failure: Answer = FAILS) -> Callable[[bytes], Answer]:
    """A rule: every batch with one of these spans, whose numbers are not 0, fails."""
    marks = [bytes.fromhex(span_id(number)) for number in numbers]
    return lambda batch: failure if any(mark in batch for mark in marks) else DELIVERED


def run_for(exporter: Exporter, clock: Clock, seconds: float) -> None:
    """Step as the thread does, in a time of our own."""
    end_ns = clock.now_ns + int(seconds * 1e9)
    while clock.now_ns < end_ns:
        wait_seconds = exporter.step()
        clock.now_ns += int(min(wait_seconds, 5.0 if math.isinf(wait_seconds) else 1e9) * 1e9)


@pytest.mark.parametrize(
    "bad", [{1}, {64}, {17}, {5, 6, 40}, set(range(20, 30)), set(range(1, 129))]
)
def test_rule_4_poison_does_not_hold_the_others(
    store: Store, clock: Clock, bad: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    """All others arrive; those that fail stay pending, with the reason and their own next try."""
    store.add(make_rows(range(1, 129)))
    sender = ScriptedSender()
    sender.rule = poisoned(bad)
    exporter = Exporter(store, sender, clock_ns=clock, jitter=random.Random(1).random)
    run_for(exporter, clock, 600)
    assert in_state(store, SpanState.DELIVERED) == set(
        ids([n for n in range(1, 129) if n not in bad])
    )
    assert in_state(store, SpanState.PENDING) == set(ids(list(bad)))
    for number in bad:
        summary = summaries(store)[span_id(number)]
        assert summary.last_error == FAILS.words or len(bad) == 128
    if len(bad) < 64:
        assert any("fails on span" in line and "HTTP 500" in line for line in lines(caplog))


def test_rule_4_new_spans_are_not_held_by_old_poison(store: Store, clock: Clock) -> None:
    """A batch that comes later goes out in one request, though the poison is due now and then."""
    store.add(make_rows(range(10)))
    sender = ScriptedSender()
    sender.rule = poisoned({3})
    exporter = stepwise(store, sender, clock)
    run_for(exporter, clock, 60)
    store.add(make_rows([50, 51]))
    for start in range(100, 700, 100):
        run_for(exporter, clock, 30)
        store.add(make_rows(range(start, start + 20)))
        clock.now_ns += 4000 * SECOND_NS  # the poison is due
        sender.batches.clear()
        assert [exporter.step() for _ in range(3)] == [0.0, 0.0, math.inf]
        assert sender.batches == [
            make_row(3).span,
            b"".join(row.span for row in make_rows(range(start, start + 20))),
        ]


def test_rule_4_own_waits_grow_and_never_end(store: Store, clock: Clock) -> None:
    """A poison span is tried alone after 1, 2, 4 ... 60 minutes, and delivered when it may be."""
    store.add(make_rows([1, 2]))
    sender = ScriptedSender()
    sender.rule = poisoned({1})
    exporter = stepwise(store, sender, clock)
    run_for(exporter, clock, 30)
    tries: list[int] = []

    def note(batch: bytes) -> Answer:
        tries.append(clock.now_ns)
        return FAILS

    sender.rule = note
    run_for(exporter, clock, 24 * 3600)
    waits = [(after - before) / 60e9 for before, after in itertools.pairwise(tries)]
    assert [round(wait) for wait in waits[:6]] == [2, 4, 8, 16, 32, 60]
    assert {round(wait) for wait in waits[6:]} == {60}
    sender.rule = lambda _: DELIVERED
    run_for(exporter, clock, 3700)
    assert store.counts().delivered == 2


def test_rule_4_a_failing_backend_gets_little(store: Store, clock: Clock) -> None:
    """Two small requests per wait, none of them a batch; then all in order of age, at once."""
    store.add(make_rows(range(200)))
    sender = ScriptedSender()
    sender.rule = lambda _: FAILS
    exporter = Exporter(store, sender, clock_ns=clock, jitter=random.Random(1).random)
    run_for(exporter, clock, 3600)
    largest = max(len(row.span) for row in make_rows(range(200)))
    assert all(len(batch) <= largest for batch in sender.batches[3:])
    assert len(sender.batches) < 3 + 2 * 3600 / 30
    assert store.counts().pending == 200
    sender.batches.clear()
    sender.rule = lambda _: DELIVERED
    run_for(exporter, clock, 70)
    assert b"".join(sender.batches) == b"".join(row.span for row in make_rows(range(200)))
    assert len(sender.batches) == 1 + 4


def test_rule_4_span_that_takes_the_backend_down(store: Store, clock: Clock) -> None:
    """It is found though nobody is there right after it was sent."""
    store.add(make_rows(range(64)))
    sender = ScriptedSender()
    reset = Answer(verdict=Verdict.RETRY, words="no connection: Connection reset by peer")
    mark = bytes.fromhex(span_id(20))
    up_ns = 0

    def crash(batch: bytes) -> Answer:
        nonlocal up_ns
        if clock.now_ns < up_ns:
            return DOWN
        if mark in batch:
            up_ns = clock.now_ns + 10 * SECOND_NS
            return reset
        return DELIVERED

    sender.rule = crash
    exporter = Exporter(store, sender, clock_ns=clock, jitter=random.Random(1).random)
    run_for(exporter, clock, 900)
    assert in_state(store, SpanState.PENDING) == {span_id(20)}
    assert summaries(store)[span_id(20)].last_error == reset.words


def test_rule_4_backend_that_takes_small_batches_only(store: Store, clock: Clock) -> None:
    """What is too much for it at once is sent in parts; nothing is put aside."""
    store.add(make_rows(range(640)))
    sender = ScriptedSender()
    one = len(make_row(1).span)
    sender.rule = lambda batch: FAILS if len(batch) > 20 * one else DELIVERED
    exporter = stepwise(store, sender, clock)
    run_for(exporter, clock, 120)
    assert store.counts().delivered == 640
    assert len(sender.batches) < 250


def test_rule_4_what_is_refused_under_suspicion_is_found_too(store: Store, clock: Clock) -> None:
    """A refused span and a poisonous one in a batch: each gets its own."""
    store.add(make_rows(range(64)))
    sender = ScriptedSender()
    fails, refuses = poisoned({10}), poisoned({40}, BAD)
    sender.rule = lambda batch: answer if (answer := fails(batch)) is FAILS else refuses(batch)
    exporter = stepwise(store, sender, clock)
    run_for(exporter, clock, 60)
    assert in_state(store, SpanState.PENDING) == {span_id(10)}
    assert in_state(store, SpanState.REJECTED) == {span_id(40)}
    assert store.counts().delivered == 62


def test_backend_that_goes_while_a_span_is_tried_alone(store: Store, clock: Clock) -> None:
    """Then it is the backend that is waited for; refused alone, the span is settled."""
    store.add(make_rows([1, 2]))
    sender = ScriptedSender()
    sender.rule = poisoned({1})
    exporter = stepwise(store, sender, clock)
    run_for(exporter, clock, 30)
    clock.now_ns += 600 * SECOND_NS
    sender.script.append(DOWN)
    assert exporter.step() == 1.0
    store.add([make_row(5)])
    sender.script.append(DOWN)
    assert exporter.step() == 2.0  # the other one comes first while the backend is waited for
    assert exporter.step() == 0.0
    assert store.counts().delivered == 2
    clock.now_ns += 600 * SECOND_NS
    sender.script.append(BAD)
    assert exporter.step() == 0.0
    assert in_state(store, SpanState.REJECTED) == {span_id(1)}


def test_clock_put_back_does_not_silence_poison(store: Store, clock: Clock) -> None:
    """The turn of spans that are tried alone comes though the clock says it is long to go."""
    store.add(make_rows(range(1, 4)))
    sender = ScriptedSender()
    sender.rule = poisoned({1})
    exporter = stepwise(store, sender, clock)
    run_for(exporter, clock, 300)
    assert in_state(store, SpanState.PENDING) == {span_id(1)}
    with Store.open(store.path.with_name("other.db")) as other:
        exporter._store = other
        other.add(make_rows([7]))
        other.mark_failed_alone(1, 0, "poison")
        clock.now_ns -= 900 * SECOND_NS
        assert exporter.step() == 0.0
        assert other.counts().delivered == 1


def test_poison_over_sockets(store: Store) -> None:
    """With a real backend and thread: a 5xx, a reset and a time-out; a flush ends without them."""
    store.add(make_rows(range(40)))
    trouble = {
        span_id(7): SinkAnswer(status=500),
        span_id(20): SinkAnswer(breaks="before"),
        span_id(33): SinkAnswer(breaks="within"),
    }
    with HttpSink() as sink:
        sink.rule = lambda span_ids: next(
            (answer for one, answer in trouble.items() if one in span_ids), SinkAnswer()
        )
        with running(store, sink.url) as exporter:
            sink.wait_for_spans(37)
            assert exporter.flush(10.0) == 3
        assert set(sink.accepted) == set(ids(range(40))) - set(trouble)
        assert len(sink.accepted) == 37
    assert in_state(store, SpanState.PENDING) == set(trouble)


# The log


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged since the last look."""
    messages = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
    caplog.clear()
    return messages


def test_one_line_per_outage(store: Store, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Rule 4: one line when it begins, one when it ends."""
    caplog.set_level(logging.INFO, "spantap.exporter")
    store.add([make_row(1)])
    exporter = stepwise(store, ScriptedSender(*[DOWN] * 5), clock)
    for _ in range(5):
        clock.now_ns += int(exporter.step() * 1e9)
    (line,) = lines(caplog)
    assert line.startswith(
        "WARNING http://backend:4318 takes no spans (no connection: Connection refused);"
    )
    exporter.step()
    exporter.step()
    assert lines(caplog) == ["INFO http://backend:4318 takes spans again, after 5 failed tries"]


def test_flapping_backend_is_told_once_a_minute(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule 4: at most a pair of lines per minute, but a lasting outage is told however it began."""
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
    """Rule 4: refused spans are one line a minute, with their count."""
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
    told = [line for line in lines(caplog) if "still takes no spans" in line]
    assert 3 <= len(told) <= 4, "in some forty minutes"
    assert "`spantap check` tells more" in told[0]


def test_warning_of_a_success_is_told(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A backend that takes all and has something to say: not what, for it may quote the spans."""
    store.add([make_row(1)])
    warned = Answer(verdict=Verdict.DELIVERED, words="deprecated", brief="with a warning")
    stepwise(store, ScriptedSender(warned), clock).step()
    assert lines(caplog) == ["WARNING http://backend:4318 took the spans with a warning"]
    assert store.counts().delivered == 1


def test_clock_put_back_does_not_silence(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule 4 counts on a clock that may be put back: then a line too many is written, none less."""
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
    """Rule 5, R7: a defect waits like a failed try; its text, which may hold a key, is not told."""
    store.add([make_row(1)])
    exporter = stepwise(store, ScriptedSender(ValueError("sekret")), clock)
    assert exporter.step() == 1.0
    (line,) = lines(caplog)
    assert "ValueError in send, " in line
    assert "sekret" not in line
    assert exporter.step() == 0.0
    assert store.counts().delivered == 1


def test_trouble_with_the_store(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule 5: a store that cannot be read waits like a failed try, and is told."""
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
    assert exporter.step() == 0.0
    assert sender.batches == [make_row(1).span] * 2
    assert store.counts().delivered == 1


# The thread


def test_wake_sends_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle exporter that is woken sends long before it would have looked by itself."""
    monkeypatch.setattr("telemetry.exporter._IDLE_SECONDS", 60.0)
    with HttpSink() as sink, running(store, sink.url) as exporter:
        assert exporter.flush(5.0) == 0
        store.add([make_row(1)])
        exporter.wake()
        assert sink.wait_for_spans(1, timeout_seconds=2.0) == [span_id(1)]


def test_idle_exporter_looks_by_itself(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A span that nobody announced is found."""
    monkeypatch.setattr("telemetry.exporter._IDLE_SECONDS", 0.02)
    with HttpSink() as sink, running(store, sink.url) as exporter:
        exporter.flush(5.0)
        store.add([make_row(1)])
        sink.wait_for_spans(1)


def test_flush_ends_a_wait(store: Store) -> None:
    """A flush tries at once, even where the backend asked for minutes."""
    store.add([make_row(1)])
    with HttpSink() as sink:
        sink.script.append(SinkAnswer(status=503, headers=(("Retry-After", "300"),)))
        with running(store, sink.url) as exporter:
            sink.wait_for_requests(1)
            exporter.wake()
            time.sleep(0.05)
            assert len(sink.requests) == 1
            assert exporter.flush(5.0) == 0
        assert sink.accepted == [span_id(1)]


def test_flush_meets_its_deadline(store: Store) -> None:
    """With a dead backend a flush ends at its deadline and tells what is left."""
    store.add(make_rows(range(3)))
    with HttpSink() as sink:
        url = sink.url
    with running(store, url) as exporter:
        began = time.monotonic()
        assert exporter.flush(0.2) == 3
        assert 0.2 <= time.monotonic() - began < 2.0


def test_flush_without_a_thread(store: Store) -> None:
    """Where nothing was started a flush only counts."""
    store.add([make_row(1)])
    exporter = Exporter(store, ScriptedSender())
    assert exporter.flush(60.0) == 1
    exporter.stop()


def test_stop_does_not_wait_for_a_slow_backend(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """A stop waits for a request under way as long as it is told; the span stays pending."""
    store.add([make_row(1)])
    with HttpSink() as sink:
        sink.script.append(SinkAnswer(delay_seconds=0.5))
        with running(store, sink.url) as exporter:
            sink.wait_for_requests(1)
            began = time.monotonic()
            exporter.stop(0.05)
            assert time.monotonic() - began < 0.4
            assert store.counts().pending == 1
            store.close()
    # The thread has had its answer by now, and nowhere to write it.
    assert lines(caplog) == []


def test_stopped_thread_is_gone(store: Store) -> None:
    """After a stop nothing is sent any more."""
    with HttpSink() as sink, running(store, sink.url) as exporter:
        exporter.flush(5.0)
        exporter.stop()
        exporter.stop()
        assert "spantap-exporter" not in {thread.name for thread in threading.enumerate()}


def test_grpc(store: Store) -> None:
    """The same over gRPC: an outage, a refusal, and a delivery in order."""
    store.add(make_rows(range(10)))
    with GrpcSink() as sink:
        sink.script.append(SinkAnswer(grpc_code="UNAVAILABLE"))
        sink.rule = lambda span_ids: SinkAnswer(
            grpc_code="INVALID_ARGUMENT" if span_id(4) in span_ids else "OK"
        )
        with running(store, f"http://{sink.address}", "grpc") as exporter:
            assert exporter.flush(10.0) == 0
        assert sink.accepted == ids([0, 1, 2, 3, 5, 6, 7, 8, 9])
    assert in_state(store, SpanState.REJECTED) == {span_id(4)}
