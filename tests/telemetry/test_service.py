"""``telemetry.service``: from frames to stored spans, whatever fails on the way."""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from opentelemetry.sdk.resources import Resource

from codec.text.jsontext import decode_json
from telemetry import waiting_rows
from telemetry.errors import StoreUnavailable
from telemetry.facts import NO_COLUMNS, CallColumns
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import Begin, ResponseHead, SocketData
from telemetry.metrics.instruments import COST
from telemetry.metrics.registry import MetricsRegistry
from telemetry.pricing.price_table import Price, PriceTable
from telemetry.pricing.pricing import Pricing
from telemetry.reading.stored_calls import open_calls
from telemetry.recording.span_row import MAX_MODEL_CHARS
from telemetry.service import PRUNE_SECONDS, TelemetryService
from telemetry.spans.keep_rules import KeepReason, KeepRules
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store.store import Store
from tests.telemetry import tap_frames
from tests.telemetry.service_bench import CANARY, Bench, FailingStore, fail_where
from tests.telemetry.tap_frames import (
    ANSWER,
    ASKED_STREAM,
    START_NS,
    WHOLE_STREAM,
    exchange_frames,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from telemetry.frames.frame import Frame
    from telemetry.store.rows import SpanRow


def _fail(*_: object) -> Any:
    raise KeyError(CANARY)


@pytest.fixture
def failing() -> FailingStore:
    return FailingStore()


@pytest.fixture
def bench(failing: FailingStore) -> Bench:
    return Bench(failing)


@pytest.fixture(autouse=True)
def _no_log_line_holds_content(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Checked after every test of this file."""
    caplog.set_level(logging.DEBUG)
    yield
    assert CANARY not in caplog.text


def test_frames_become_a_row_with_what_lists_need(tmp_path: Path) -> None:
    """In a real store: ids, times, models, counts, outcome, and the span's bytes."""
    with Store.open(tmp_path / "s.db") as store:
        bench = Bench(store)
        bench.feed(*exchange_frames(*WHOLE_STREAM, asked=ASKED_STREAM))
        assert store.counts().pending == 0
        bench.service.commit()
        assert store.counts().pending == 1
        (pending,) = store.read_due(1, 1 << 20, bench.now_ns)
    (span,) = decode_spans(pending.span)
    assert pending.span_id == span.span_id == tap_frames.identity().span_id
    assert span.name == "ChatCompletion"
    assert span.attributes["llm.token_count.total"] == 5
    assert bench.counts == (1, 0, 0)
    assert bench.stored == 1


@pytest.mark.parametrize(
    ("frames", "model", "status", "outcome", "tokens"),
    [
        (exchange_frames(ANSWER), "m-1-2026", "OK", "completed", (3, 1, 4)),
        (
            exchange_frames(status=None, kind=EndKind.CONNECT_ERROR),
            "m-1",
            "ERROR",
            "connect_error",
            (None, None, None),
        ),
        (
            exchange_frames(status=None, asked=None, kind=EndKind.CLIENT_GONE),
            None,
            "UNSET",
            "client_disconnected",
            (None, None, None),
        ),
    ],
)
def test_a_row_tells_what_is_known(
    frames: list[Frame],
    model: str | None,
    status: str,
    outcome: str,
    tokens: tuple[int | None, ...],
    bench: Bench,
) -> None:
    """The model that answered, else the one asked for; counts only where they were reported."""
    bench.feed(*frames)
    bench.service.commit()
    (row,) = bench.store.rows
    assert (row.model, row.status, row.outcome) == (model, status, outcome)
    assert (row.prompt_tokens, row.completion_tokens, row.total_tokens) == tokens
    assert (row.start_ns, row.end_ns) == (tap_frames.START_NS, tap_frames.START_NS + 10**9)
    assert row.recorded_ns == bench.now_ns


def test_a_row_has_the_beginning_of_a_long_model(bench: Bench) -> None:
    """A thousand rows are read at once; the span has all of it."""
    model = "m" * 100_000
    bench.feed(
        *exchange_frames(asked=b'{"model": "%b", "messages": []}' % model.encode(), status=None)
    )
    bench.service.commit()
    (row,) = bench.store.rows
    assert row.model == model[:MAX_MODEL_CHARS]
    [span] = decode_spans(row.span)
    assert span.attributes["llm.model_name"] == model


def test_a_row_has_the_columns_of_its_call(tmp_path: Path) -> None:
    """They are in the store with the span, and its minute counts the call by them."""
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
    headers = [("user-agent", "OpenAI/Python 2.8.0"), ("x-stainless-retry-count", "1")]
    with Store.open(tmp_path / "spans.db", delivers=False) as store:
        service = TelemetryService(recorder, store, now_ns=lambda: tap_frames.START_NS)
        for frame in exchange_frames(ANSWER, request_headers=headers):
            service.feed(frame)
        service.commit()
    with open_calls(tmp_path / "spans.db") as reader:
        (summary,) = reader.page(1).rows
        (sums,) = reader.aggregate("model", "upstream").groups
    assert summary.columns == CallColumns(
        kind="LLM",
        finish_reason="stop",
        http_status=200,
        api="chat.completions",
        upstream="default",
        client="openai",
        retry=1,
        streamed=0,
        tool_calls=0,
        new_messages=1,
        preview="hi",
        conversation=1,
        turn=1,
    )
    assert (sums.key, sums.calls) == (("m-1-2026", "default"), 1)
    assert (sums.totals["prompt_tokens"], sums.totals["completion_tokens"]) == (3, 1)


def test_a_defect_of_the_columns_costs_no_span(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The span is whole, and its row has no columns; one line tells where, and no content."""
    monkeypatch.setattr("telemetry.recording.call_rows.build_columns", _fail)
    bench.feed_exchanges(1, 2)
    bench.service.commit()
    assert [row.columns for row in bench.store.rows] == [NO_COLUMNS] * 2
    assert all(CANARY.encode() in row.span for row in bench.store.rows)
    assert bench.counts == (2, 0, 0)
    (line,) = caplog.messages
    assert "a call lacks its columns: KeyError at test_service.py:" in line
    assert CANARY not in line


def test_an_unsampled_exchange_leaves_no_row(bench: Bench) -> None:
    """The decision was made at ``begin``."""
    frames = exchange_frames(ANSWER)
    bench.feed(tap_frames.begin(identity=tap_frames.identity(trace_flags=0)), *frames[1:])
    bench.service.commit()
    assert bench.store.rows == []
    assert bench.counts == (0, 0, 0)
    assert bench.stored == 0


def test_spans_wait_while_the_store_fails_and_are_committed_when_it_recovers(
    bench: Bench, failing: FailingStore, caplog: pytest.LogCaptureFixture
) -> None:
    """In their order, none lost; one line when it begins, one when it ends."""
    failing.error = StoreUnavailable("the disk is full")
    for number in (1, 2, 3):
        bench.feed_exchanges(number)
        bench.service.commit()
    assert (bench.counts, bench.service.waiting) == ((0, 0, 0), 3)
    failing.error = None
    bench.service.commit()
    bench.service.commit()
    assert [row.span_id[-1] for row in failing.rows] == ["1", "2", "3"]
    assert (bench.counts, bench.service.waiting) == ((3, 0, 0), 0)
    assert bench.stored == 1
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "spans wait in memory: the disk is full"),
        ("WARNING", "the store accepts spans again; 0 were dropped so far"),
    ]


def test_what_could_not_be_stored_is_held_by_no_error() -> None:
    """The error of a commit has the batch in its traceback: nobody keeps it."""

    class Full(FailingStore):
        is_full = False

        def add(self, rows: Sequence[SpanRow], runs: Mapping[int, bytes | None]) -> int:
            if self.is_full:
                raise StoreUnavailable("the disk is full")  # each time another
            return len(rows)

    store = Full()
    bench = Bench(store)
    store.is_full = True
    bench.feed_exchanges(1)
    bench.service.commit()  # the first error is logged, and held by who keeps the log
    gc.collect()
    gc.disable()
    try:
        bench.service.commit()
        assert bench.service.waiting == 1
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_what_waits_is_bounded_and_the_oldest_goes_first(
    bench: Bench, failing: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was dropped is counted."""
    bench.feed_exchanges(1)
    bench.service.commit()
    size = len(failing.rows[0].span)
    monkeypatch.setattr(waiting_rows, "MAX_WAITING_BYTES", 3 * size + size // 2)
    failing.error = StoreUnavailable("away")
    bench.service.commit()
    bench.feed_exchanges(*range(2, 10))
    bench.service.commit()
    failing.error = None
    bench.service.commit()
    assert [row.span_id[-1] for row in failing.rows] == ["1", "7", "8", "9"]
    assert bench.counts == (4, 0, 5)


def test_a_backlog_of_frames_is_committed_in_batches(
    bench: Bench, failing: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that works is used before anything would be dropped; one that fails is not asked."""
    monkeypatch.setattr(waiting_rows, "BATCH_BYTES", 1)
    monkeypatch.setattr(waiting_rows, "MAX_WAITING_BYTES", 2)
    bench.feed_exchanges(1, 2)
    assert len(failing.rows) == 2
    failing.error = StoreUnavailable("away")
    bench.feed_exchanges(3)
    assert bench.counts == (2, 0, 1)
    failing.error = None
    bench.feed_exchanges(4)  # nobody asks before the next commit
    assert bench.counts == (2, 0, 2)


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(CANARY), MemoryError(), RecursionError(CANARY)]
)
def test_a_span_that_cannot_be_made_with_its_content_is_made_without(
    error: Exception, bench: Bench, failing: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exists once (R3), with what the relay saw, and marked."""
    fail_where(bench, monkeypatch, lambda exchange: exchange.response is not None, error)
    bench.feed_exchanges(1)
    bench.service.commit()
    (row,) = failing.rows
    (span,) = decode_spans(row.span)
    assert '"observer_failed"' in span.attributes["metadata"]
    assert CANARY.encode() not in row.span
    assert (row.outcome, row.status, row.model) == ("completed", "OK", None)
    assert bench.counts == (1, 1, 0)


def test_a_text_that_is_no_answer_goes_with_the_rest_of_the_content(
    bench: Bench, failing: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be what makes the recorder fail, and it is content."""
    fail_where(
        bench,
        monkeypatch,
        lambda exchange: exchange.undecoded_body is not None,
        ZeroDivisionError(),
    )
    bench.feed(*exchange_frames(b"<html>" + CANARY.encode()))
    bench.service.commit()
    assert b"observer_failed" in failing.rows[0].span
    assert CANARY.encode() not in failing.rows[0].span


def test_a_recorder_that_always_fails_costs_spans_and_nothing_else(
    bench: Bench,
    failing: FailingStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing escapes, each loss is counted, the log names the place once a minute."""
    monkeypatch.setattr(bench.recorder, "record", _fail)
    bench.feed_exchanges(1, 2, 3)
    bench.service.commit()
    assert failing.rows == []
    assert bench.counts == (0, 3, 0)
    texts = [record.getMessage() for record in caplog.records]
    assert [text.partition(" at ")[0] for text in texts] == [
        "a span lacks its content: KeyError",
        "a span was lost: KeyError",
    ]
    assert all(" at test_service.py:" in text for text in texts)
    bench.later(61)
    bench.feed_exchanges(4)
    assert len(caplog.records) == 4
    bench.later(-3600)  # a clock that is put back does not silence anybody
    bench.feed_exchanges(5)
    assert len(caplog.records) == 6


def test_a_defect_of_the_observer_is_counted_and_leaves_a_span(
    bench: Bench, failing: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content is missing from it, and it says so."""
    monkeypatch.setattr("codec.bodies.decode_json", _fail)
    bench.feed_exchanges(1)
    bench.service.commit()
    assert b"observer_failed" in failing.rows[0].span
    assert bench.counts == (1, 1, 0)


def test_websockets_that_cannot_be_read_get_one_line_a_minute(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """It says what is missing, and nothing of what came."""
    for number in (1, 2):
        begun = {"endpoint": "responses", "path": "/v1/responses", "is_socket": True}
        bench.feed(
            tap_frames.begin(number, **begun),
            ResponseHead(exchange=number, at_ns=START_NS, status=101),
            SocketData(number, START_NS, from_client=True, data=CANARY.encode()),
        )
    assert caplog.messages == [
        "a WebSocket cannot be read any more: its further calls have no spans"
    ]


def test_one_row_that_the_store_chokes_on_does_not_take_the_others_with_it(
    bench: Bench, failing: FailingStore
) -> None:
    """An error that is none of the store's own is no reason to wait: the row would stay bad."""
    failing.poison = tap_frames.identity(2).span_id
    bench.feed_exchanges(1, 2, 3)
    bench.service.commit()
    assert [row.span_id[-1] for row in failing.rows] == ["1", "3"]
    assert bench.counts == (2, 1, 0)
    bench.service.commit()
    assert bench.counts == (2, 1, 0)


def test_a_fault_around_the_commit_does_not_escape(
    failing: FailingStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither that of who is told of stored spans, nor an unexpected one of pruning."""
    bench = Bench(failing)
    service = TelemetryService(
        bench.recorder, bench.store, now_ns=lambda: bench.now_ns, on_stored=_fail
    )
    for frame in exchange_frames(ANSWER):
        service.feed(frame)
    service.commit()
    service.commit()
    assert len(failing.rows) == 1
    assert service.counts.recorded == 1
    bench.later(61)
    failing.error = OSError(CANARY)
    bench.service.commit()
    texts = [record.getMessage().partition(" at ")[0] for record in caplog.records]
    assert texts == [
        "the store is not looked after: KeyError",
        "the store is not looked after: OSError",
    ]


def test_the_stores_limits_are_looked_after_now_and_then(
    bench: Bench, failing: FailingStore
) -> None:
    """At once after the start, then every second, with spans or without."""
    bench.service.commit()
    bench.later(PRUNE_SECONDS / 2)
    bench.service.commit()
    bench.later(PRUNE_SECONDS / 2)
    bench.service.commit()
    assert failing.pruned_ns == [
        tap_frames.START_NS,
        tap_frames.START_NS + int(PRUNE_SECONDS * 1e9),
    ]


def test_a_pruning_goes_on_step_by_step(bench: Bench, failing: FailingStore) -> None:
    """One step per commit while work is left, so that no frame waits long; then every second."""
    failing.steps_to_prune = 3
    for _ in range(5):
        bench.service.commit()
        bench.later(0.05)
    assert [(at - tap_frames.START_NS) // 10**6 for at in failing.pruned_ns] == [0, 50, 100]
    bench.later(PRUNE_SECONDS)
    bench.service.commit()
    assert len(failing.pruned_ns) == 4


def test_a_step_of_pruning_that_fails_is_not_repeated_at_once(
    bench: Bench, failing: FailingStore
) -> None:
    """The next one is due a second after the last that was."""
    failing.steps_to_prune = 9
    bench.service.commit()
    failing.error = StoreUnavailable("away")
    bench.service.commit()
    failing.error = None
    bench.service.commit()
    assert len(failing.pruned_ns) == 1
    bench.later(PRUNE_SECONDS)
    bench.service.commit()
    assert len(failing.pruned_ns) == 2


def test_a_store_that_flaps_gets_a_pair_of_lines_a_minute(
    bench: Bench, failing: FailingStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the number of its changes."""
    for _ in range(5):
        failing.error = StoreUnavailable("away")
        bench.feed_exchanges(1)
        bench.service.commit()
        failing.error = None
        bench.service.commit()
    assert len(caplog.records) == 2


def test_keep_rules_decide_over_unsampled_exchanges(failing: FailingStore) -> None:
    """Those that a rule wants are recorded and say so (``docs/contract/spans.md#sampling``)."""
    rules = SpanRules(keep=KeepRules(reasons=frozenset({KeepReason.CANCELLED})))
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
    service = TelemetryService(recorder, failing, rules=rules, now_ns=lambda: 0)  # type: ignore[arg-type]
    for number, kind in enumerate((EndKind.CLIENT_GONE, EndKind.UPSTREAM_EOF), 1):
        first, *others = exchange_frames(number=number, kind=kind, status=None)
        assert isinstance(first, Begin)
        unsampled = tap_frames.identity(number, trace_flags=0)
        for frame in (msgspec.structs.replace(first, identity=unsampled), *others):
            service.feed(frame)
    service.commit()
    [row] = failing.rows
    assert row.outcome == "client_disconnected"
    [span] = decode_spans(row.span)
    assert decode_json(span.attributes["metadata"])["kept_by"] == "cancelled"


def _price_calls(failing: FailingStore, registry: MetricsRegistry) -> TelemetryService:
    """Make a service that prices every call at a dollar for each token of its prompt."""
    table = PriceTable([Price(model="*", input=1e6, output=0.0)])
    rules = SpanRules(pricing=Pricing(table))
    return TelemetryService(
        SpanRecorder(Resource.get_empty(), build_span_limits(), rules),
        failing,  # type: ignore[arg-type]
        rules=rules,
        metrics=registry,
        now_ns=lambda: 0,
    )


def test_what_a_call_costs_is_counted_even_if_its_other_metrics_fail(
    failing: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.observing.exchange_metrics.ExchangeMetrics.record", _fail)
    registry = MetricsRegistry()
    service = _price_calls(failing, registry)
    for frame in exchange_frames(
        b'{"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}'
    ):
        service.feed(frame)
    (series,) = registry.snapshot().numbers[COST.name]
    assert series.value == 2.0


def test_what_calls_cost_is_counted_with_and_without_a_span(failing: FailingStore) -> None:
    """Of calls that are sampled out, too: the metric is that of all."""
    registry = MetricsRegistry()
    service = _price_calls(failing, registry)
    costs = []
    for number, trace_flags in ((1, 1), (2, 0)):
        answer = b'{"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}'
        first, *others = exchange_frames(answer, number=number)
        assert isinstance(first, Begin)
        identity = tap_frames.identity(number, trace_flags=trace_flags)
        for frame in (msgspec.structs.replace(first, identity=identity), *others):
            service.feed(frame)
        (series,) = registry.snapshot().numbers[COST.name]
        costs.append(series.value)
    service.commit()
    assert len(failing.rows) == 1
    assert costs == [costs[0], 2 * costs[0]]
    assert costs[0] == failing.rows[0].columns.cost_usd == 2.0


def test_a_full_disk_is_looked_after_and_taken_up_again() -> None:
    """While adding fails the store is pruned all the same: that is what makes room again."""

    class FullStore(FailingStore):
        """Full until it is pruned."""

        def add(self, rows: Sequence[SpanRow], runs: Mapping[int, bytes | None]) -> int:
            if not self.pruned_ns:
                raise StoreUnavailable("full")
            return super().add(rows, runs)

    bench = Bench(FullStore())
    bench.feed_exchanges(1)
    bench.service.commit()
    assert bench.service.waiting == 1
    bench.service.commit()
    assert bench.service.waiting == 0
