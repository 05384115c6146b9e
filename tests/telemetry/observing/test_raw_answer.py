"""``telemetry.observing.raw_answer``: what is kept of an answer while its call is open."""

from __future__ import annotations

import pytest

from telemetry.frames.frame import ResponseData
from telemetry.observing import raw_answer
from telemetry.observing.open_bodies import Holding, OpenBodies
from telemetry.observing.raw_answer import RawCapture
from tests.telemetry.tap_frames import MS, START_NS


def feed(capture: RawCapture, *reads: bytes) -> None:
    """Reads that come 10 ms apart."""
    for at, data in enumerate(reads):
        capture.feed(ResponseData(1, START_NS + 10 * at * MS, data))


def test_bytes_and_times_are_kept_within_the_room() -> None:
    """And the room is given back; a record that was made stays."""
    bodies = OpenBodies()
    capture = RawCapture(bodies)
    feed(capture, b"ab", b"c")
    assert bodies.held_bytes > 3
    answer = capture.finish((("content-encoding", "gzip"), ("content-encoding", "br")), 7)
    capture.close()
    assert bodies.held_bytes == 0
    assert answer is not None
    assert (answer.body, answer.sizes_bytes, answer.left_bytes) == (b"abc", (2, 1), 7)
    assert (answer.first_ns, answer.waits_ns) == (START_NS, (0, 10 * MS))
    assert (answer.content_type, answer.content_encoding) == ("", "gzip, br")


def test_an_answer_without_a_byte_is_none() -> None:
    """There is nothing to show."""
    capture = RawCapture(OpenBodies())
    assert capture.finish((), 0) is None


@pytest.mark.parametrize(("name", "limit"), [("MAX_RAW_BYTES", 5), ("MAX_RAW_READS", 2)])
def test_what_comes_after_a_limit_is_counted(
    name: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is kept after a gap, however short it is."""
    monkeypatch.setattr(raw_answer, name, limit)
    capture = RawCapture(OpenBodies())
    feed(capture, b"abc", b"de", b"f", b"g")
    answer = capture.finish((), 10)
    assert answer is not None
    assert (answer.body, answer.left_bytes) == (b"abcde", 12)


def test_bytes_that_others_need_are_given_up_first() -> None:
    """Even those of a call that holds less; it keeps none from then on."""
    bodies = OpenBodies(1_000)
    capture = RawCapture(bodies)
    feed(capture, b"a" * 500)
    other = Holding(bodies, lambda: pytest.fail("a body was given up"))
    assert other.reserve(900)
    assert bodies.held_bytes == 900
    other.release()
    feed(capture, b"b")
    assert capture.finish((), 0) is None
    assert bodies.held_bytes == 0


def test_bytes_for_which_there_is_no_room_are_not_kept() -> None:
    """Nobody gives up anything for them."""
    bodies = OpenBodies(1_000)
    other = Holding(bodies, lambda: pytest.fail("a body was given up"))
    assert other.reserve(800)
    capture = RawCapture(bodies)
    feed(capture, b"a" * 100, b"b" * 100)
    assert capture.finish((), 0) is None
    assert bodies.held_bytes == 800
