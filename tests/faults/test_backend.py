"""Rows of the backend: away, slow, flapping, refusing, breaking off, not to be trusted.

Whatever it does, every client gets its answer byte for byte (R2), and once it is well it holds one
span of every exchange (R8), those it refused for good excepted.
"""

from __future__ import annotations

import itertools
import ssl
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import trustme

from telemetry.store.rows import SpanState
from tests.e2e.processes import clean_environment
from tests.e2e.spantap import PROGRAM
from tests.faults.backend import TAKE_ALL, Judgement
from tests.faults.beside import beside
from tests.faults.scene import playing
from tests.faults.stage import is_long, scaled
from tests.otlp_sink import SinkAnswer

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from telemetry.store.rows import SpanSummary
    from tests.faults.backend import SentSpan
    from tests.faults.scene import Scene

pytestmark = pytest.mark.timeout(900 if is_long() else 120)

OUTAGE_COUNT = 30_000
"""Exchanges of ten minutes at 50 a second."""

RATE = 50.0
"""Exchanges per second where a fault takes its time: what the outage is reckoned with."""

EXPORTED = "spantap_spans_exported_total"
FAILURES = "spantap_export_failures_total"
RECORDED = "spantap_spans_recorded_total"
REJECTED = "spantap_spans_rejected_total"

NOBODY: frozenset[str] = frozenset()


def test_all_spans_of_a_long_outage_arrive_in_order(load_upstream: str, tmp_path: Path) -> None:
    """30,000 exchanges while the port is closed: each span once, oldest first, few lines."""
    count = scaled(OUTAGE_COUNT)
    with playing(tmp_path, load_upstream) as scene:
        calm = scene.calm_load(scaled(OUTAGE_COUNT // 10))
        during = scene.load(count)
        scene.wait_for_number(RECORDED, lambda number: number == len(scene.sent))
        size_bytes = scene.spantap.metrics()["spantap_store_size_bytes"]
        with scene.backend():
            scene.wait_for_all()
        rows = scene.stored()
        scene.finish(
            "backend down (10 minutes at 50/s, sent at full speed), then up",
            during,
            calm,
            {"store while down": f"{size_bytes / 1e6:.0f} MB", "log lines": log_lines(scene)},
        )
        assert scene.ledger.span_ids == [row.span_id for row in rows], "not in order of age"
        scene.wait_for_number(FAILURES, lambda number: number >= 1)
        scene.wait_for_number(EXPORTED, lambda number: number == len(scene.sent))
        assert log_lines(scene) <= 10, "an outage is a line, and another each ten minutes"


def test_a_slow_backend_slows_nobody(load_upstream: str, tmp_path: Path) -> None:
    """Each of its answers takes 5 s; clients are answered as before, and all spans arrive."""
    seconds = 5.0 if is_long() else 0.3
    slow = Judgement(answer=SinkAnswer(delay_seconds=seconds))
    with playing(tmp_path, load_upstream) as scene:
        calm = scene.calm_load(scaled(1_000), rate=RATE)
        with scene.backend(lambda _: slow):
            during = scene.load(scaled(1_000), rate=RATE)
            scene.wait_for_all()
        requests = len(scene.ledger.request_seconds)
        scene.finish(
            f"backend slow ({seconds:g} s an answer)", during, calm, {"requests": requests}
        )


def test_spans_get_through_to_a_flapping_backend(load_upstream: str, tmp_path: Path) -> None:
    """Up for a second, down for a second, connections cut: all arrive, a pair of lines a minute."""
    seconds = 1.0 if is_long() else 0.3
    with playing(tmp_path, load_upstream) as scene:
        calm = scene.calm_load(scaled(1_500), rate=RATE)
        with flapping(scene, seconds) as flaps:
            during = scene.load(scaled(1_500, least=60), rate=RATE)
        with scene.backend():
            scene.wait_for_all()
        assert next(flaps) >= 2
        scene.finish(
            f"backend flapping ({seconds:g} s up, {seconds:g} s down)",
            during,
            calm,
            {"log lines": log_lines(scene)},
        )


def test_retry_after_is_heeded(load_upstream: str, tmp_path: Path) -> None:
    """No request comes before the seconds that a 429 asked for are over."""
    asked_seconds = 3.0  # longer than the exporter's own first two waits
    refusals = 2 if is_long() else 1
    busy = Judgement(
        answer=SinkAnswer(status=429, headers=(("Retry-After", f"{asked_seconds:g}"),)),
        holds=NOBODY,
    )
    with playing(tmp_path, load_upstream) as scene:
        calm = scene.calm_load(scaled(1_000))
        before = len(scene.ledger.request_seconds)
        with scene.backend(first(refusals, busy)):
            during = scene.load(scaled(1_000))
            scene.wait_for_all()
        times = scene.ledger.request_seconds[before : before + refusals + 1]
        waits = [later - earlier for earlier, later in itertools.pairwise(times)]
        scene.finish(
            f"backend answers 429 with Retry-After: {asked_seconds:g}, {refusals} times",
            during,
            calm,
            {"shortest wait": f"{min(waits):.1f} s"},
        )
        # The arrival is read in another process: a trifle earlier or later.
        assert min(waits) > asked_seconds - 0.1


@pytest.mark.parametrize(
    "refuse",
    [
        pytest.param(
            lambda others, _: Judgement(
                answer=SinkAnswer(status=400, words="span too odd for us"), holds=NOBODY
            ),
            id="400",
        ),
        pytest.param(
            lambda others, refused: Judgement(
                answer=SinkAnswer(rejected_spans=len(refused), words="span too odd for us"),
                holds=others,
            ),
            id="partial success",
        ),
    ],
)
def test_only_a_refused_span_is_set_aside(
    load_upstream: str,
    tmp_path: Path,
    refuse: Callable[[frozenset[str], frozenset[str]], Judgement],
    request: pytest.FixtureRequest,
) -> None:
    """Of some batches one span is refused: it is shown with the backend's words, others arrive."""
    with playing(tmp_path, load_upstream) as scene:
        calm = scene.calm_load(scaled(2_000))
        healthy = set(scene.sent)
        during = scene.load(scaled(2_000))
        refused = frozenset(sorted(scene.sent - healthy)[::200])
        requests = len(scene.ledger.request_seconds)

        def judge(spans: list[SentSpan]) -> Judgement:
            marks = frozenset(span.mark for span in spans)
            return refuse(marks - refused, marks & refused) if marks & refused else TAKE_ALL

        with scene.backend(judge):
            scene.wait_for_all(missing=refused)
        rows = [row for row in scene.stored() if row.state is SpanState.REJECTED]
        scene.finish(
            f"backend refuses one span of a batch ({request.node.callspec.id})",
            during,
            calm,
            {
                "set aside, shown with the backend's words": len(rows),
                "requests for all of them": len(scene.ledger.request_seconds) - requests,
            },
            set_aside=refused,
        )
        assert len(rows) == len(refused)
        scene.wait_for_number(REJECTED, lambda number: number == len(refused))
        assert "span too odd for us" in show(scene, rows[0])
        assert "span too odd for us" not in scene.spantap.log, "words of others stay out of the log"


BREAKS = {
    "resets the connection before its answer": SinkAnswer(breaks="before"),
    "resets the connection within its answer": SinkAnswer(breaks="within"),
    "closes the connection without an answer": SinkAnswer(breaks="silently"),
}
ERRORS = {
    "answers 503": SinkAnswer(status=503, words="later"),
    "answers 200 with a web page": SinkAnswer(body=b"<html>", content_type="text/html"),
}


@pytest.mark.parametrize("fault", [*BREAKS, *ERRORS])
def test_a_backend_that_fails_for_a_while_gets_all(
    load_upstream: str, tmp_path: Path, fault: str
) -> None:
    """Where the answer was lost but the spans were not, they come again and say the same."""
    failures = 3 if is_long() else 1
    bad = (
        Judgement(answer=BREAKS[fault])  # the worst case: it held what it did not acknowledge
        if fault in BREAKS
        else Judgement(answer=ERRORS[fault], holds=NOBODY)
    )
    with playing(tmp_path, load_upstream) as scene:
        calm = scene.calm_load(scaled(1_000))
        with scene.backend(first(failures, bad)):
            during = scene.load(scaled(1_000))
            scene.wait_for_all()
        scene.finish(f"backend {fault}, {failures} times", during, calm)
        scene.wait_for_number(FAILURES, lambda number: number >= failures)
        assert (scene.ledger.again > 0) is (fault in BREAKS)


def test_spans_wait_for_a_certificate_that_is_trusted(load_upstream: str, tmp_path: Path) -> None:
    """Nothing is sent to who cannot prove to be the backend; the log says why."""
    trusted = trustme.CA()
    trusted.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with playing(
        tmp_path,
        load_upstream,
        tls=server_tls(trusted),
        environment={"OTEL_EXPORTER_OTLP_CERTIFICATE": str(tmp_path / "ca.pem")},
    ) as scene:
        calm = scene.calm_load(scaled(1_000))
        requests = len(scene.ledger.request_seconds)
        with scene.backend(tls=server_tls(trustme.CA())):
            during = scene.load(scaled(1_000))
            scene.wait_for_number(FAILURES, lambda number: number >= 1)
            assert len(scene.ledger.request_seconds) == requests, "spans went to a stranger"
        with scene.backend():
            scene.wait_for_all()
        scene.finish("backend with a certificate that is not trusted, then with one", during, calm)
        assert "TLS: " in scene.spantap.log


def first(count: int, bad: Judgement) -> Callable[[list[SentSpan]], Judgement]:
    """`bad` for the first `count` requests, and then all is taken."""
    judgements = itertools.chain([bad] * count, itertools.repeat(TAKE_ALL))
    return lambda _: next(judgements)


@contextmanager
def flapping(scene: Scene, seconds: float) -> Iterator[Iterator[int]]:
    """A backend that is up for so long and down for so long; counts how often it came up."""
    flaps = itertools.count()

    def flap(over: threading.Event) -> None:
        while not over.is_set():
            with scene.backend():
                next(flaps)
                over.wait(seconds)
            over.wait(seconds)

    with beside(flap):
        yield flaps


def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    """TLS of a server on loopback, by a certificate of `authority`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def log_lines(scene: Scene) -> int:
    """How many lines the exporter has said."""
    return sum("spantap.exporter" in line for line in scene.spantap.log.splitlines())


def show(scene: Scene, row: SpanSummary) -> str:
    """What ``spantap traces show`` says of a span."""
    line = [PROGRAM, "traces", "show", row.span_id, "--store", str(scene.spantap.store)]
    return subprocess.run(
        line, env=clean_environment(), capture_output=True, text=True, check=True
    ).stdout
