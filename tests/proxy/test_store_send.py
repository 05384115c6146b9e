"""``spantap store send``: calls sent to a backend once more."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from proxy.commands.store.send import SendOptions, run_send
from telemetry.reading.stored_calls import open_calls
from telemetry.store.store import Store
from tests.otlp_sink import GrpcSink, HttpSink, SinkAnswer
from tests.proxy.recorded_calls import make_exchange, make_failed_exchange, make_row, span_id_of
from tests.proxy.store_runs import StoreRunner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "sekret-key-123"


@pytest.fixture
def sink() -> Iterator[HttpSink]:
    """A backend."""
    with HttpSink() as opened:
        yield opened


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> StoreRunner:
    """On a store with a call in every state."""
    path = tmp_path / "traces.db"
    with Store.open(path, delivers=False) as store:
        store.add([make_row(make_exchange(1))])
    with Store.open(path) as store:
        exchanges = (make_exchange(2), make_failed_exchange(3), make_exchange(4))
        store.add([make_row(exchange) for exchange in exchanges])
        store.mark_delivered([2])
        store.mark_rejected([3], "no")
    return StoreRunner(path, capsys)


def states(path: Path) -> list[str]:
    """The states of all calls."""
    with open_calls(path) as reader:
        return [row.state for row in reader.since(0)]


def test_calls_of_every_state_go_and_nothing_is_written_down(
    run: StoreRunner, sink: HttpSink
) -> None:
    """Oldest first, beside the owner of the store."""
    before = states(run.store)
    with Store.open(run.store):
        ran = run("send", "--to", sink.url, "--header", "X-Project=a b")
    assert (ran.status, ran.out, ran.err) == (0, f"sent 4 calls to {sink.url}\n", "")
    assert sink.accepted == [span_id_of(number) for number in (1, 2, 3, 4)]
    assert sink.requests[0].headers["x-project"] == "a b"
    assert states(run.store) == before == ["kept", "delivered", "rejected", "pending"]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [(("state:kept",), (1,)), (("status:error",), (3,)), (("Rate limit",), (3,)), (("in>9",), ())],
)
def test_a_filter_chooses(
    words: tuple[str, ...], numbers: tuple[int, ...], run: StoreRunner, sink: HttpSink
) -> None:
    """And a dry run counts the same, and sends nothing."""
    count = "1 call" if len(numbers) == 1 else f"{len(numbers)} calls"
    ran = run("send", "--to", sink.url, "--dry-run", *words)
    assert ran.status == 0
    assert ran.out.startswith(f"{count}, ")
    assert not sink.requests
    ran = run("send", "--to", sink.url, *words)
    assert ran.out == f"sent {count} to {sink.url}\n"
    assert sink.accepted == [*map(span_id_of, numbers)]


def test_without_an_address_the_variables_name_the_backend(
    run: StoreRunner, sink: HttpSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their headers, as the proxy sends; a dry run names it, too."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-key={KEY}")
    ran = run("send", "--dry-run")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.endswith(f"would be sent to {sink.url}\n")
    ran = run("send")
    assert (ran.status, ran.out, ran.err) == (0, f"sent 4 calls to {sink.url}\n", "")
    assert sink.requests[0].headers["x-key"] == KEY
    assert sink.requests[0].path == "/v1/traces"
    assert run("send", "--header", "a=b").err.startswith(
        "spantap store send: --header goes with --to"
    )


def test_the_variables_may_name_a_grpc_backend(
    run: StoreRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they may for the proxy."""
    with GrpcSink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{sink.port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        ran = run("send")
        assert (ran.status, ran.err) == (0, "")
        assert ran.out == f"sent 4 calls to grpc://127.0.0.1:{sink.port}\n"
        assert sink.accepted == [span_id_of(number) for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({}, "OTEL_EXPORTER_OTLP_ENDPOINT is not set"),
        ({"OTEL_TRACES_EXPORTER": "none"}, "OTEL_TRACES_EXPORTER is none"),
        ({"OTEL_SDK_DISABLED": "true"}, "OTEL_SDK_DISABLED is true"),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "only otlp and none are known"),
    ],
)
def test_without_a_backend_it_says_which_variable_decides(
    environ: dict[str, str], why: str, run: StoreRunner, sink: HttpSink
) -> None:
    """With status 2, and nothing is sent to the endpoint that is set beside it."""
    if environ:
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url, **environ}
    out, err = io.StringIO(), io.StringIO()
    assert run_send(run.store, SendOptions(), environ=environ, out=out, err=err) == 2
    assert why in err.getvalue()
    assert not sink.requests
    # A backend that somebody names is asked all the same.
    named = {name: text for name, text in environ.items() if text != "zipkin"}
    assert run_send(run.store, SendOptions(to=sink.url), environ=named, out=out, err=err) == 0


def test_no_credential_is_printed(run: StoreRunner, sink: HttpSink) -> None:
    """Wherever it stands, whatever fails, and if the backend says it."""
    url = sink.url.replace("://", f"://me:{KEY}@") + f"/v1/traces?token={KEY}"
    sink.rule = lambda _: SinkAnswer(status=401, words=f"bad key {KEY}")
    ran = run("send", "--to", url, "--header", f"authorization=Bearer {KEY}")
    assert (ran.status, ran.out) == (1, f"sent 0 calls to {sink.url}\n")
    assert "the rest was not sent: HTTP 401: bad key ***" in ran.err
    for arguments in (
        ("--to", f"htp://{KEY}"),
        ("--to", "http://h", "--header", KEY),
        ("--to", "http://h", "--header", f"a b={KEY}"),
    ):
        ran = run("send", *arguments)
        assert ran.status == 2
        assert ran.err.startswith("spantap store send: ")
        assert KEY not in ran.out + ran.err


def test_tries_and_refusals_are_told(run: StoreRunner, sink: HttpSink) -> None:
    """With status 1 where a call was not accepted."""
    out, err, waits = io.StringIO(), io.StringIO(), list[float]()
    sink.script.append(SinkAnswer(status=503, headers=(("Retry-After", "20"),)))
    bad = span_id_of(3)
    sink.rule = lambda ids: SinkAnswer(status=422, words="odd") if bad in ids else SinkAnswer()
    status = run_send(
        run.store, SendOptions(to=sink.url), environ={}, out=out, err=err, wait=waits.append
    )
    assert (status, waits) == (1, [20.0])
    assert out.getvalue() == f"sent 3 calls to {sink.url}\n"
    assert err.getvalue().splitlines() == [
        "spantap store send: HTTP 503; trying again in 20.0 s",
        "spantap store send: 1 call refused, the last with: HTTP 422: odd",
    ]


def test_a_store_that_is_missing_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With status 1."""
    ran = StoreRunner(tmp_path / "none.db", capsys)("send", "--to", "http://127.0.0.1:1")
    assert ran.status == 1
    assert "there is no store at" in ran.err
