"""``telemetry.observing.crash_counter``: what telemetry died of is not looked at a third time."""

from __future__ import annotations

import gzip
import os
import random
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from opentelemetry.sdk.resources import Resource

from codec import bodies
from codec.apis import api
from telemetry.observing.answer_body import StreamBody
from telemetry.observing.content_decoding import ContentDecoder
from telemetry.observing.crash_counter import LARGE_BYTES, MAX_ENTRIES, CrashCounter
from telemetry.observing.observer import Observer
from telemetry.service import TelemetryService
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.store.store import Store
from tests.telemetry.tap_frames import (
    ANSWER,
    ASKED,
    DONE,
    GZIP,
    ROLE,
    STOP,
    begin,
    event,
    exchange_frames,
    identity,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from telemetry.frames.frame import Frame

IDS = [identity(number).span_id for number in range(1, 200)]
LARGE = ASKED.replace(b"hi", b"x" * 300_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db.strikes"


def _die_during(path: Path, span_id: str, *, is_large: bool = True) -> None:
    """A process that is killed in the step writes nothing more."""
    CrashCounter.open(path).during(span_id, is_large=is_large).__enter__()


def test_after_a_second_crash_an_exchange_is_given_up(path: Path) -> None:
    """And no other one."""
    for is_given_up in (False, False, True, True):
        crashes = CrashCounter.open(path)
        assert (crashes.is_given_up(IDS[0]), crashes.is_given_up(IDS[1])) == (is_given_up, False)
        crashes.close()
        _die_during(path, IDS[0])


def test_a_step_that_ends_is_no_crash(path: Path) -> None:
    """Nor one that fails: the process lives."""
    for _ in range(5):
        crashes = CrashCounter.open(path)
        with pytest.raises(MemoryError), crashes.during(IDS[0], is_large=True):
            raise MemoryError
        assert not crashes.is_given_up(IDS[0])
        crashes.close()
    assert path.stat().st_size == 0


def test_what_is_small_is_not_noted(path: Path) -> None:
    """A kill by chance finds usual calls in no step."""
    for _ in range(3):
        _die_during(path, IDS[0], is_large=False)
    assert path.stat().st_size == 0


def test_the_oldest_go_first(path: Path) -> None:
    """As many as there is room for are remembered, and forgotten once their span is made."""
    for span_id in IDS[: MAX_ENTRIES + 1]:
        _die_during(path, span_id)
        _die_during(path, span_id)
    crashes = CrashCounter.open(path)
    assert [span_id for span_id in IDS if crashes.is_given_up(span_id)] == IDS[1 : MAX_ENTRIES + 1]
    for span_id in IDS:
        crashes.forget(span_id)
    assert path.stat().st_size == 0
    crashes.close()


def test_the_file_is_its_owners(path: Path) -> None:
    """Whatever the umask."""
    umask = os.umask(0)
    try:
        CrashCounter.open(path).close()
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content", [b"x", bytes(9), b"\xff" * 5000, random.Random(0).randbytes(64)], ids=len
)
def test_a_damaged_file_does_no_harm(path: Path, content: bytes) -> None:
    """It is read as far as it has entries."""
    path.write_bytes(content)
    crashes = CrashCounter.open(path)
    with crashes.during(IDS[0], is_large=True):
        pass
    assert not crashes.is_given_up(IDS[0])
    crashes.close()


def test_without_a_file_nothing_is_remembered(tmp_path: Path) -> None:
    """A folder that is not there, a file that cannot be written."""
    crashes = CrashCounter.open(tmp_path / "no" / "s.db.strikes")
    with crashes.during(IDS[0], is_large=True):
        pass
    assert not crashes.is_given_up(IDS[0])
    crashes.close()


class _Killed(BaseException):
    """The end of a process, for a test in one."""


def _serve(tmp_path: Path, store: Store, frames: list[Frame]) -> TelemetryService:
    """One life of the telemetry process: what a worker sends again each time."""
    service = TelemetryService(
        SpanRecorder(Resource.get_empty(), build_span_limits()),
        store,
        crashes=CrashCounter.open(tmp_path / "s.db.strikes"),
        now_ns=lambda: 0,
    )
    source = service.open_source()
    source.feed(*frames)
    service.commit()
    return service


LONG = "y" * 400_000
PLAIN = [ANSWER.replace(b"Hello", LONG.encode())]
EVENT = event(f'"content":"{LONG}"')
STREAM = [ROLE, EVENT[:390_000], EVENT[390_000:], STOP, DONE]


class Step(NamedTuple):
    """A step that works on bodies, and which of its calls ends the process."""

    owner: Any
    name: str
    is_fatal: Callable[..., bool]
    answer: list[bytes]
    headers: tuple[tuple[str, str], ...] = ()


STEPS = {
    "asked": Step(api, "decode_request_object", lambda body: len(body) > LARGE_BYTES, PLAIN),
    "answered": Step(bodies, "decode_json", lambda body: len(body) > LARGE_BYTES, PLAIN),
    "unpacked": Step(
        ContentDecoder, "decode", lambda *_: True, [gzip.compress(PLAIN[0])], tuple(GZIP)
    ),
    "folded": Step(StreamBody, "feed", lambda _, data, __: data is STREAM[2], STREAM),
    "joined": Step(StreamBody, "finish", lambda _: True, STREAM),
    "span": Step(SpanRecorder, "record", lambda _, exchange: exchange.is_large, PLAIN),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_the_third_time_a_span_is_made_without_bodies(
    step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two kills in a step with large bodies; the calls behind it lose nothing."""
    frames = exchange_frames(*step.answer, number=1, asked=LARGE, headers=step.headers)
    others = exchange_frames(ANSWER, number=2)
    works = getattr(step.owner, step.name)
    write = CrashCounter.note

    def die(*arguments: Any) -> Any:
        if not step.is_fatal(*arguments):
            return works(*arguments)
        # As a kill would: nothing behind it is done, not even what `finally` holds.
        monkeypatch.setattr(CrashCounter, "note", lambda *_: None)
        raise _Killed

    monkeypatch.setattr(step.owner, step.name, die)
    with Store.open(tmp_path / "s.db") as store:
        for _ in range(2):
            with pytest.raises(_Killed):
                _serve(tmp_path, store, [*frames, *others])
            monkeypatch.setattr(CrashCounter, "note", write)
        service = _serve(tmp_path, store, [*frames, *others])
        assert (service.counts.recorded, service.counts.failed) == (2, 1)
        assert service.held_bytes == 0
    # What was recorded is forgotten.
    assert (tmp_path / "s.db.strikes").stat().st_size == 0


def test_an_exchange_that_is_out_says_so(tmp_path: Path) -> None:
    """Its span has times, ids and status, and the word."""
    path = tmp_path / "s.db.strikes"
    for _ in range(2):
        _die_during(path, IDS[0])
    observer = Observer(crashes=CrashCounter.open(path))
    *frames, last = exchange_frames(ANSWER, number=1, asked=LARGE)
    assert frames[0] == begin(1)
    for frame in frames:
        assert observer.feed(frame) is None
    exchange = observer.feed(last)
    assert exchange is not None
    assert (exchange.request, exchange.request_body, exchange.response) == (None, None, None)
    assert exchange.request_size_bytes == len(LARGE)
    assert exchange.response_status == 200
    assert exchange.anomalies == ("observer_died",)
