"""``telemetry.observing.open_bodies``: what the bodies of open exchanges may take together."""

from __future__ import annotations

import gc
import gzip
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import brotli  # type: ignore[import-untyped]  # it has no stubs
import pytest

from telemetry.observing.observer import Observer
from telemetry.observing.open_bodies import Holding, OpenBodies
from telemetry.observing.source import FrameSource
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import content, observe
from tests.telemetry.tap_frames import (
    ANSWER,
    ASKED,
    ASKED_STREAM,
    DONE,
    GZIP,
    STOP,
    USAGE,
    WHOLE_STREAM,
    event,
    exchange_frames,
)
from tests.zstd import compress_zstd

if TYPE_CHECKING:
    from collections.abc import Iterator


def _asked(chars: int) -> bytes:
    return ASKED.replace(b"hi", b"x" * chars)


def test_where_room_lacks_the_largest_gives_up() -> None:
    """Of all observers; its span lacks the request, and no other lacks anything."""
    bodies = OpenBodies(200_000)
    observers = [Observer(bodies=bodies) for _ in range(2)]
    large = exchange_frames(ANSWER, number=1, asked=_asked(80_000))
    usual = exchange_frames(ANSWER, number=2, asked=_asked(30_000))
    for frame in large[:-1]:
        observers[0].feed(frame)
    assert observe(usual, observers[1]).request_body == _asked(30_000)
    without_request = observers[0].feed(large[-1])
    assert without_request is not None
    assert (without_request.request, without_request.request_body) == (None, None)
    assert content(without_request) == "Hello"
    assert without_request.anomalies == ("observer_limit",)
    assert bodies.held_bytes == 0
    assert observe(exchange_frames(ANSWER), observers[0]).anomalies == ()


def test_what_would_be_the_largest_is_refused() -> None:
    """It takes no room from those that came before it."""
    bodies = OpenBodies(200_000)
    observer = Observer(bodies=bodies)
    usual = exchange_frames(ANSWER, number=1, asked=_asked(30_000))
    for frame in usual[:-1]:
        observer.feed(frame)
    refused = observe(exchange_frames(ANSWER, number=2, asked=_asked(80_000)), observer)
    assert (refused.request_body, refused.anomalies) == (None, ("observer_limit",))
    assert content(refused) == "Hello"
    whole = observer.feed(usual[-1])
    assert whole is not None
    assert whole.request_body == _asked(30_000)
    assert (whole.anomalies, bodies.held_bytes) == ((), 0)


def test_what_values_take_counts() -> None:
    """A request is left out whose values have no room, however short it is."""
    bodies = OpenBodies(1 << 20)
    asked = ASKED[:-1] + b',"x":[' + b"{}," * 10_000 + b"0]}"
    exchange = observe(exchange_frames(ANSWER, asked=asked), Observer(bodies=bodies))
    assert (exchange.request, exchange.request_body) == (None, None)
    assert exchange.request_size_bytes == len(asked)
    assert exchange.anomalies == ("observer_limit",)
    answer = ANSWER[:-1] + b',"x":[' + b"{}," * 10_000 + b"0]}"
    exchange = observe(exchange_frames(answer), Observer(bodies=bodies))
    assert (exchange.response, exchange.anomalies) == (None, ("observer_limit",))
    assert bodies.held_bytes == 0


def test_streams_count_with_all_others() -> None:
    """Folded text beyond the little that each has; the largest gives it up, marked."""
    bodies = OpenBodies(400_000)
    observers = [Observer(bodies=bodies) for _ in range(2)]
    long = [event(f'"content":"{"x" * 1000}"') for _ in range(300)]
    large = exchange_frames(*long, STOP, USAGE, DONE, number=1, asked=ASKED_STREAM)
    usual = exchange_frames(*WHOLE_STREAM, number=2, asked=ASKED_STREAM)
    for frame in large[:-1]:
        observers[0].feed(frame)
    assert bodies.held_bytes > 250_000
    for frame in usual[:-1]:
        observers[1].feed(frame)
    assert observe(exchange_frames(ANSWER, number=3, asked=_asked(90_000))).anomalies == ()
    third = exchange_frames(ANSWER, number=3, asked=_asked(90_000))
    assert observe(third, observers[1]).request_body == _asked(90_000)
    given_up, whole = observers[0].feed(large[-1]), observers[1].feed(usual[-1])
    assert given_up is not None
    assert whole is not None
    assert (given_up.response, given_up.anomalies) == (None, ("observer_limit",))
    assert (content(whole), whole.anomalies) == ("Hello", ())
    assert bodies.held_bytes == 0


@pytest.mark.parametrize("encoding", ["br", "zstd"])
def test_what_a_decoder_remembers_counts(encoding: str) -> None:
    """However few bytes came, and though nothing of what they decode to is kept."""
    bodies = OpenBodies(1_000_000)
    observer = Observer(bodies=bodies)
    plain = STOP + USAGE + b": a comment\n\n" * 40_000
    encoded = brotli.compress(plain) if encoding == "br" else compress_zstd(plain)
    headers = [("content-encoding", encoding)]
    one, two = (
        exchange_frames(encoded, number=number, asked=ASKED_STREAM, headers=headers)
        for number in (1, 2)
    )
    for frame in one[:-1]:
        observer.feed(frame)
    assert len(plain) <= bodies.held_bytes < len(plain) + 10_000
    assert observe(two, observer).anomalies == ("observer_limit",)
    whole = observer.feed(one[-1])
    assert whole is not None
    assert whole.anomalies == ()
    assert bodies.held_bytes == 0


def test_a_stream_without_room_keeps_what_it_has() -> None:
    """Where it is the largest itself; what comes behind is left out, but for usage and reason."""
    bodies = OpenBodies(200_000)
    long = [event(f'"content":"{"x" * 1000}"') for _ in range(300)]
    frames = exchange_frames(*long, STOP, USAGE, DONE, asked=ASKED_STREAM)
    exchange = observe(frames, Observer(bodies=bodies))
    assert 100_000 < len(content(exchange) or "") < 240_000
    assert exchange.response is not None
    assert exchange.response.usage is not None
    assert "observer_limit" in exchange.anomalies
    assert bodies.held_bytes == 0


def test_what_is_begun_again_or_forgotten_is_not_held() -> None:
    """A number that comes twice, a worker that is disconnected: nothing stays behind."""
    bodies = OpenBodies()
    source = FrameSource(Observer(bodies=bodies), lambda *_: None)
    frames = exchange_frames(ANSWER, asked=_asked(1000))[:-1]
    source.feed(*frames)
    held_bytes = bodies.held_bytes
    assert held_bytes > 1000
    source.feed(*frames)
    assert bodies.held_bytes == held_bytes
    source.forget_all()
    assert (len(source), bodies.held_bytes) == (0, 0)


@pytest.mark.parametrize("call", ["function_call", "tool_calls"])
def test_what_stands_in_a_string_is_weighed_before_it_is_read(call: str) -> None:
    """Arguments are a text of their body, and JSON of millions of values for whoever reads them."""
    arguments = '{"name":"f","arguments":"[' + "[]," * 350_000 + '[]]"}'
    value = arguments if call == "function_call" else f'[{{"id":"a","function":{arguments}}}]'
    asked = ASKED.replace(b'"content":"hi"', f'"{call}":{value}'.encode())
    exchange = observe(exchange_frames(ANSWER, asked=asked))
    assert exchange.request is not None
    tracemalloc.start()
    try:
        attributes = build_exchange_attributes(exchange)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert attributes["llm.input_messages.0.message.role"] == "user"
    assert peak_bytes < 16 * len(asked)


@contextmanager
def nothing_left_for_the_collector() -> Iterator[None]:
    """Let nothing of the block be found by a search for cycles alone."""
    gc.collect()
    gc.disable()
    try:
        yield
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("ending", ["ends", "is forgotten", "begins again"])
@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("streams", [True, False])
def test_what_has_ended_is_free_at_once(ending: str, size: int, *, streams: bool) -> None:
    """Nothing waits for a search for cycles, whatever the end."""
    answer = WHOLE_STREAM if streams else (ANSWER,)
    frames = exchange_frames(*answer, asked=_asked(size))
    observer = Observer()
    for frame in frames:  # what is made once is there
        observer.feed(frame)
    with nothing_left_for_the_collector():
        for frame in frames[:-1]:
            observer.feed(frame)
        if ending == "is forgotten":
            observer.forget_all()
        else:
            observer.feed(frames[-1] if ending == "ends" else frames[0])


def test_what_an_open_stream_gives_up_is_free_at_once() -> None:
    """Sixty open streams had taken 1.3 GB until somebody looked for cycles."""
    bodies = OpenBodies()
    observer = Observer(bodies=bodies)
    for frame in exchange_frames(*WHOLE_STREAM):  # what is made once is there
        observer.feed(frame)
    frames = exchange_frames(*[event(f'"content":"{"x" * 100_000}"')] * 3)
    for frame in frames[:-1]:
        observer.feed(frame)
    assert bodies.held_bytes > 300_000
    with nothing_left_for_the_collector():
        for holding in tuple(bodies._holdings):
            holding.give_up()
    assert bodies.held_bytes == 0
    assert observer.feed(frames[-1]) is not None


@pytest.mark.parametrize("what", ["request", "answer"])
@pytest.mark.parametrize("damage", ["wrong check", "too large"])
def test_a_body_that_cannot_be_decoded_is_free_at_once(what: str, damage: str) -> None:
    """An error that is kept holds what its frames had: 58 MB of a request with a wrong CRC."""
    text = b"".join(WHOLE_STREAM) if what == "answer" else ASKED
    body = gzip.compress(text + b" " * (65 * 1024 * 1024 if damage == "too large" else 1_000_000))
    if damage == "wrong check":
        body = body[:-8] + bytes(8)
    if what == "request":
        frames = exchange_frames(ANSWER, asked=body, request_headers=GZIP)
    else:
        frames = exchange_frames(body, asked=ASKED_STREAM, headers=GZIP)
    observer = Observer()
    for frame in frames:
        observer.feed(frame)
    with nothing_left_for_the_collector():
        for frame in frames[:-1]:
            observer.feed(frame)
        assert gc.collect() == 0  # while it is open
        observer.feed(frames[-1])


def test_pictures_take_only_free_room_and_give_it_up_first() -> None:
    """No body is given up for them."""
    bodies, gone = OpenBodies(100), []
    largest = Holding(bodies, lambda: gone.append("largest"))
    pictures = Holding(bodies, lambda: gone.append("pictures"), is_spare=True)
    assert largest.reserve(60)
    assert pictures.reserve(30)
    assert not pictures.reserve(20)
    assert Holding(bodies, lambda: None).reserve(35)
    assert (gone, bodies.held_bytes) == (["pictures"], 95)
