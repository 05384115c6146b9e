"""The tap: frames out of what the relay sees, and never a fault of its own (R2)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text.blocks import Blocks
from proxy.headers import Head
from proxy.limits import MAX_ANSWER_BYTES
from proxy.relay.tap import RecordedHeaders, Tap, TapSource
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import Begin, End, Frame, RequestBody, ResponseData, ResponseHead
from telemetry.frames.kept import frame_bytes
from telemetry.privacy.credential_names import looks_like_credential
from tests.proxy.harness import ANSWER, relaying, request_bytes
from tests.proxy.raw_client import ask
from tests.proxy.turned_time import TurnedClock

if TYPE_CHECKING:
    from proxy.clock import Clock

SECOND_NS = 1_000_000_000


class ListSink:
    def __init__(self, fails_at: int | None = None) -> None:
        self.frames: list[Frame] = []
        self.calls = 0
        self.fails_at = fails_at

    def open_exchange(self, number: int) -> ListSink:
        assert number > 0
        return self

    def add(self, frame: Frame, size_bytes: int) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError("full")
        assert size_bytes == frame_bytes(frame)
        self.frames.append(frame)


class JumpingClock(TurnedClock):
    """Its wall clock is set back by an hour after the first reading."""

    def __init__(self) -> None:
        super().__init__()
        self.readings = 0

    def wall_ns(self) -> int:
        self.readings += 1
        return self.now_ns - (self.readings > 1) * 3600 * SECOND_NS


def open_tap(sink: ListSink, clock: Clock | None = None) -> Tap:
    return TapSource(sink, clock or TurnedClock()).open(observed=True)


def test_rule_1_a_sink_that_fails_is_left_alone_afterwards(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One log line, no exception, no further call for this exchange."""
    sink = ListSink(fails_at=2)
    tap = open_tap(sink)
    with caplog.at_level(logging.ERROR, "spantap.tap"):
        tap.request_body(b"{}", 2)
        tap.response_data(b"a")
        tap.response_data(b"b")
        tap.end(EndKind.UPSTREAM_EOF)
    assert sink.frames == [RequestBody(exchange=1, data=b"{}", size_bytes=2)]
    assert sink.calls == 2
    assert len(caplog.records) == 1


def test_a_body_in_blocks_is_a_frame_for_each() -> None:
    """None of them a copy; each says how large the whole is."""
    sink = ListSink()
    blocks = Blocks([b"ab", b"cde"])
    open_tap(sink).request_body(blocks, len(blocks))
    assert sink.frames == [
        RequestBody(exchange=1, data=b"ab", size_bytes=5),
        RequestBody(exchange=1, data=b"cde", size_bytes=5),
    ]


def test_rule_2_the_end_is_told_once() -> None:
    """Whoever calls it a second time is not heard, and nothing follows it."""
    sink = ListSink()
    tap = open_tap(sink)
    tap.end(EndKind.CLIENT_GONE)
    tap.end(EndKind.RELAY_ERROR, "later")
    tap.response_data(b"later")
    [end] = sink.frames
    assert isinstance(end, End)
    assert end.kind is EndKind.CLIENT_GONE


def test_rule_4_what_is_past_the_limit_is_counted_and_left_out() -> None:
    """32 MiB of one answer; the end says how much is missing."""
    sink = ListSink()
    tap = open_tap(sink)
    block = bytes(1024 * 1024)
    for _ in range(MAX_ANSWER_BYTES // len(block)):
        tap.response_data(block)
    tap.response_data(b"over")
    tap.response_data(b"more")
    tap.end(EndKind.UPSTREAM_EOF)
    *data, end = sink.frames
    assert all(isinstance(frame, ResponseData) for frame in data)
    assert len(data) == MAX_ANSWER_BYTES // len(block)
    assert isinstance(end, End)
    assert end.shed_bytes == 8


@pytest.mark.parametrize("delivered", [True, False])
def test_the_end_says_whether_the_last_read_reached_the_client(*, delivered: bool) -> None:
    """A [DONE] that the client never got completes nothing."""
    sink = ListSink()
    tap = open_tap(sink)
    tap.response_data(b"data: [DONE]\n\n")
    if delivered:
        tap.delivered()
    tap.end(EndKind.CLIENT_GONE)
    end = sink.frames[-1]
    assert isinstance(end, End)
    assert end.undelivered_reads == (0 if delivered else 1)


def test_times_of_one_exchange_never_run_backwards() -> None:
    """The wall clock is read once; the rest is measured."""
    sink, clock = ListSink(), JumpingClock()
    start = clock.now_ns
    tap = open_tap(sink, clock)
    clock.turn(1)
    tap.response_data(b"a")
    clock.turn(2)
    tap.end(EndKind.UPSTREAM_EOF)
    assert [getattr(frame, "at_ns", 0) - start for frame in sink.frames] == [
        1 * SECOND_NS,
        3 * SECOND_NS,
    ]


def test_exchanges_are_numbered_and_unobserved_ones_silent() -> None:
    """A number is never used twice in one worker."""
    sink = ListSink()
    source = TapSource(sink, TurnedClock())
    for observed in (True, False, True):
        tap = source.open(observed=observed)
        tap.response_data(b"x")
        tap.end(EndKind.UPSTREAM_EOF)
    assert [frame.exchange for frame in sink.frames] == [1, 1, 3, 3]


RECORDED = RecordedHeaders(
    names=frozenset({b"content-type", b"x-token"}), prefixes=(b"x-user-", b"helicone-")
)
FIELD_NAMES = [
    b"Content-Type", b"authorization", b"X-Token", b"x-user-id", b"X-User-Token",
    b"helicone-auth", b"Helicone-Session", b"x-other",
]  # fmt: skip


@given(st.lists(st.sampled_from(FIELD_NAMES), max_size=6))
def test_what_carries_a_credential_by_its_name_is_never_selected(names: list[bytes]) -> None:
    """R7: whatever the map names, of heads whose shape is remembered as of others."""
    head = Head((name, b"v%d" % number) for number, name in enumerate(names))
    wanted = head.select(RECORDED.names, RECORDED.prefixes)
    expected = tuple(header for header in wanted if not looks_like_credential(header[0]))
    assert RECORDED.select(head) == expected
    assert {name for name, _ in expected} <= {"content-type", "x-user-id", "helicone-session"}


def test_what_a_sink_does_when_it_is_opened_is_its_own() -> None:
    """R2, rule 1: the exchange is relayed, unobserved."""

    class ClosedSink:
        def open_exchange(self, number: int) -> ListSink:
            raise RuntimeError(number)

    tap = TapSource(ClosedSink(), TurnedClock()).open(observed=True)
    tap.response_data(b"a")
    tap.end(EndKind.UPSTREAM_EOF)


async def test_no_credential_enters_a_frame() -> None:
    """R7: of all heads only the recorded fields are copied, of the target only the path."""
    secret = b"sk-very-secret"
    async with relaying(lambda c: c.answer(head=b"Set-Cookie: s=%b\r\n" % secret)) as (
        upstream,
        running,
    ):
        head = b"Authorization: Bearer %b\r\napi-key: %b\r\nCookie: %b\r\n" % ((secret,) * 3)
        target = b"/v1/chat/completions?key=%b" % secret
        answer = await ask(running.address, request_bytes(head=head, target=target))
        assert answer.body == ANSWER
        await running.sink.wait_for()
    assert upstream.last.field(b"authorization") == b"Bearer " + secret
    assert secret not in repr(running.sink.frames).encode()


@pytest.mark.parametrize("setting", [(), ("none",), ("default", "x-team")])
async def test_only_allowed_fields_of_both_heads_enter_a_frame(setting: tuple[str, ...]) -> None:
    """Those of the list, unless the setting says ``none``, and further ones that it names."""
    said = b"X-Team: blue\r\nOpenAI-Organization: org-canary\r\nVia: 10.0.0.7-canary\r\n"
    answered = b"OpenAI-Processing-Ms: 312\r\nX-Rate-Limit-Left: 9\r\nSet-Cookie: canary\r\n"
    settings: dict[str, Any] = {"record_headers": setting} if setting else {}
    async with relaying(lambda c: c.answer(head=answered + said), **settings) as (_, running):
        await ask(running.address, request_bytes(head=b"Anthropic-Version: 1\r\n" + said))
        await running.sink.wait_for()
    begin, head = running.sink.frames[0], running.sink.frames[2]
    assert isinstance(begin, Begin)
    assert isinstance(head, ResponseHead)
    shown = {*dict(begin.headers), *dict(head.headers)} - {"content-type"}
    by_list = {"anthropic-version", "openai-processing-ms", "x-rate-limit-left"}
    assert shown == (set() if "none" in setting else by_list) | {*setting} - {"none", "default"}
    assert "canary" not in repr((begin.headers, head))


@pytest.mark.parametrize("part", ["leave_out_credentials", "find_head_credentials"])
async def test_rule_1_whatever_a_head_holds_its_answer_is_relayed(
    part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault in what looks for credentials costs the span, and no more (R2)."""

    def fail(_: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(f"proxy.relay.tap.{part}", fail)
    async with relaying(lambda c: c.answer(b"no", status=b"400 Bad Request")) as (_, running):
        answer = await ask(running.address, request_bytes(head=b"x-spantap-metadata: {}\r\n"))
    assert (answer.status, answer.body) == (400, b"no")
    assert "the tap failed" in caplog.text
