"""Spans that the backend refuses, and those that make it fail."""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING

import pytest

from telemetry.export.delivery import Answer, Verdict
from telemetry.export.exporter import GATHER_SECONDS, Exporter
from telemetry.store.rows import SpanState
from telemetry.store.store import Store
from tests.otlp_sink import HttpSink, SinkAnswer
from tests.telemetry.exporting import (
    BAD,
    DELIVERED,
    DOWN,
    Clock,
    ScriptedSender,
    ids,
    in_state,
    lines,
    running,
    stepwise,
    summaries,
)
from tests.telemetry.span_rows import SECOND_NS, make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


# Refusals


@pytest.mark.parametrize(
    "refusal",
    [SinkAnswer(status=400, words="no such day"), SinkAnswer(rejected_spans=1, words="too old")],
)
@pytest.mark.parametrize("bad", [[0], [63], [5, 6, 40]])
def test_refused_spans_are_found(store: Store, refusal: SinkAnswer, bad: list[int]) -> None:
    """Only the refused spans are set aside, with the reason; the others are delivered."""
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
    """Halves not sent yet stay pending, and go out in order later."""
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
    exporter.step()
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


def after_finding(
    store: Store, clock: Clock, numbers: Iterable[int], *, poison: int = 1, seconds: float = 60
) -> tuple[Exporter, ScriptedSender]:
    """An exporter that has met a poisonous one among these spans, and its backend."""
    store.add(make_rows(numbers))
    sender = ScriptedSender()
    sender.rule = poisoned({poison})
    exporter = stepwise(store, sender, clock)
    run_for(exporter, clock, seconds)
    return exporter, sender


@pytest.mark.parametrize(
    "bad", [{1}, {64}, {17}, {5, 6, 40}, set(range(20, 30)), set(range(1, 129))]
)
def test_poison_does_not_hold_the_others(
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


def test_new_spans_are_not_held_by_old_poison(store: Store, clock: Clock) -> None:
    """A batch that comes later goes out in one request, though the poison is due now and then."""
    exporter, sender = after_finding(store, clock, range(10), poison=3)
    store.add(make_rows([50, 51]))
    for start in range(100, 700, 100):
        run_for(exporter, clock, 30)
        store.add(make_rows(range(start, start + 20)))
        clock.now_ns += 4000 * SECOND_NS  # the poison is due
        sender.batches.clear()
        assert [exporter.step() for _ in range(3)] == [0.0, GATHER_SECONDS, math.inf]
        assert sender.batches == [
            make_row(3).span,
            b"".join(row.span for row in make_rows(range(start, start + 20))),
        ]


def test_own_waits_grow_and_never_end(store: Store, clock: Clock) -> None:
    """A poison span is tried alone after 1, 2, 4 ... 60 minutes, and delivered when it may be."""
    exporter, sender = after_finding(store, clock, [1, 2], seconds=30)
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


def test_a_failing_backend_gets_little(store: Store, clock: Clock) -> None:
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


def test_span_that_takes_the_backend_down(store: Store, clock: Clock) -> None:
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


def test_backend_that_takes_small_batches_only(store: Store, clock: Clock) -> None:
    """What is too much for it at once is sent in parts; nothing is put aside."""
    store.add(make_rows(range(640)))
    sender = ScriptedSender()
    one = len(make_row(1).span)
    sender.rule = lambda batch: FAILS if len(batch) > 20 * one else DELIVERED
    exporter = stepwise(store, sender, clock)
    run_for(exporter, clock, 120)
    assert store.counts().delivered == 640
    assert len(sender.batches) < 250


def test_what_is_refused_under_suspicion_is_found_too(store: Store, clock: Clock) -> None:
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
    exporter, sender = after_finding(store, clock, [1, 2], seconds=30)
    clock.now_ns += 600 * SECOND_NS
    sender.script.append(DOWN)
    assert exporter.step() == 1.0
    store.add([make_row(5)])
    sender.script.append(DOWN)
    assert exporter.step() == 2.0  # the other one comes first while the backend is waited for
    assert exporter.step() == GATHER_SECONDS
    assert store.counts().delivered == 2
    clock.now_ns += 600 * SECOND_NS
    sender.script.append(BAD)
    assert exporter.step() == 0.0
    assert in_state(store, SpanState.REJECTED) == {span_id(1)}


def test_clock_put_back_does_not_silence_poison(store: Store, clock: Clock) -> None:
    """The turn of spans that are tried alone comes though the clock says it is long to go."""
    exporter, _ = after_finding(store, clock, range(1, 4), seconds=300)
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
