"""``telemetry.news.reporter``: what watchers are told of calls, and what they are not."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.resources import Resource

from codec.text.jsontext import encode_json
from proxy.reading.record import build_summary_record
from telemetry.frames.frame import RequestBody, ResponseHead
from telemetry.news import feed as news_feed
from telemetry.news import reporter
from telemetry.news.messages import Ended, Lost, News, Numbers, Opened, Progress, Recorded, Said
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.privacy.redaction import Redaction
from telemetry.privacy.switches import PrivacySwitches
from telemetry.rate_limit import RateLimit
from telemetry.reading.stored_calls import open_calls
from telemetry.service import TelemetryService
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store.store import Store
from tests.telemetry.news.watching import Watching
from tests.telemetry.tap_frames import (
    ASKED_STREAM,
    HEL,
    LO,
    START_NS,
    WHOLE_STREAM,
    begin,
    end,
    event,
    exchange_frames,
    identity,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST = identity(1).span_id


def make_service(store: Store, rules: SpanRules | None = None) -> TelemetryService:
    rules = rules or SpanRules()
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
    return TelemetryService(recorder, store, rules=rules, now_ns=time.time_ns)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "t.db") as store:
        yield store


@pytest.fixture
def service(store: Store) -> TelemetryService:
    return make_service(store)


def feed(service: TelemetryService, *data: bytes, number: int = 1, **members: Any) -> None:
    """Feed a call up to these reads of its answer; it stays open."""
    *frames, _ = exchange_frames(*data, number=number, asked=ASKED_STREAM, **members)
    for frame in frames:
        service.feed(frame)


def kinds(news: list[News]) -> list[str]:
    return [type(one).__name__ for one in news]


def test_a_call_is_told_from_its_begin_to_its_row(service: TelemetryService, store: Store) -> None:
    """Open, how far it is, what it says, its row, and that it is recorded."""
    watching = Watching(service, texts=[FIRST])
    assert watching.read_hello().open == ()
    frames = iter(exchange_frames(*WHOLE_STREAM, asked=ASKED_STREAM))
    service.feed(next(frames))
    [opened] = watching.look()
    assert isinstance(opened, Opened)
    assert (opened.call.span_id, opened.call.model, opened.chars) == (FIRST, None, None)
    for _ in range(4):  # request, head, role, the first word
        service.feed(next(frames))
    news = [one for _ in range(reporter.PROGRESS_LOOKS) for one in watching.look()]
    [progress] = [one for one in news if isinstance(one, Progress)]
    assert (progress.model, progress.http_status) == ("m-1", 200)
    assert (progress.chunks, progress.chars) == (2, 3)
    assert progress.first_ns == START_NS + 100_000_000
    [said] = [one for one in news if isinstance(one, Said)]
    assert (said.kind, said.part, said.at, said.text) == ("text", 0, 0, "Hel")
    for frame in frames:
        service.feed(frame)
    rest, ended = watching.read()
    assert isinstance(rest, Said)
    assert isinstance(ended, Ended)
    assert (rest.at, rest.text) == (3, "lo")
    service.commit()
    assert watching.read() == [Recorded(seq=store.last_seq(), conversations=(1,))]


def test_words_that_are_known_late_are_told(service: TelemetryService) -> None:
    """Of a session that is spoken: a request that comes again takes the place of the first."""

    def ask(transcript: str | None) -> RequestBody:
        content = [{"type": "input_audio", "transcript": transcript}]
        body = {"model": "m-1", "input": [{"type": "message", "role": "user", "content": content}]}
        data = encode_json(body).encode()
        return RequestBody(exchange=1, data=data, size_bytes=len(data))

    watching = Watching(service)
    service.feed(begin(endpoint="realtime", path="/v1/realtime"))
    service.feed(ask(None))
    *_, opened = watching.look()
    assert isinstance(opened, Opened)
    assert opened.call.what is None
    service.feed(ask("What time is it?"))
    service.feed(ResponseHead(exchange=1, at_ns=START_NS, status=200))
    news = [one for _ in range(reporter.PROGRESS_LOOKS) for one in watching.look()]
    assert [one.what for one in news if isinstance(one, Progress)] == ["What time is it?"]


def test_numbers_are_told_once(service: TelemetryService) -> None:
    """Those who come and those who are there get them; nothing more until one changes."""
    watching = Watching(service)
    assert watching.read_hello().numbers == Numbers()
    watching.reporter.numbers = Numbers(dropped=3, web_sockets=2)
    assert watching.look() == [Numbers(dropped=3, web_sockets=2)]
    assert watching.look() == []
    watching.reporter.join(watching.feed)
    assert watching.read_hello().numbers.dropped == 3


def test_one_commit_is_delivered_once(service: TelemetryService) -> None:
    """Rows and what a look finds come together; nothing comes where nothing is new."""
    watching, delivered = Watching(service), []
    watching.read()
    watching.reporter.deliver = lambda: delivered.append(kinds(watching.read()))
    feed(service, HEL, number=2)
    watching.reporter.look()
    feed(service, *WHOLE_STREAM)
    service.feed(end())
    assert service._looks.admit() is not None  # the next commit does not look
    service.commit()
    service._looks = RateLimit(time.time_ns, interval_seconds=0)
    for _ in range(2):
        service.commit()
    assert delivered == [["Ended", "Recorded"], ["Opened"]]


def test_the_row_is_the_one_that_is_recorded(
    service: TelemetryService, store: Store, tmp_path: Path
) -> None:
    """But for what it gets in the store."""
    from proxy.page.live_news import summarise  # noqa: PLC0415 - the page's

    watching = Watching(service)
    feed(service, *WHOLE_STREAM)
    service.feed(end())
    service.commit()
    [ended] = [one for one in watching.read() if isinstance(one, Ended)]
    assert ended.call is not None
    told = build_summary_record(summarise(ended.call))
    with open_calls(tmp_path / "t.db") as reader:
        [row] = reader.rows(reader.numbers(1))
    assert told == build_summary_record(row) | {"seq": None, "state": None}


def test_nobody_is_told_anything_before_and_after(service: TelemetryService) -> None:
    """The service knows no reporter then."""
    known = [service.reporter]
    watching, other = Watching(service), Watching(service)
    watching.reporter.leave(other.feed)  # not one of its own
    known.append(service.reporter)
    for _ in range(2):
        other.reporter.leave(other.feed)
        known.append(service.reporter)
    assert known == [None, other.reporter, None, None]
    other.read()
    feed(service, *WHOLE_STREAM)
    service.feed(end())
    service.commit()
    assert other.read() == []


def test_who_comes_later_is_told_what_is_open(service: TelemetryService) -> None:
    """With how far it is, and its texts from the beginning."""
    first = Watching(service)
    feed(service, HEL)
    first.look()
    second = Watching(service, texts=[FIRST])
    [opened] = second.read_hello().open
    assert (opened.call.model, opened.call.chunks, opened.chars) == ("m-1", 1, 3)
    assert second.read_texts() == {0: "Hel"}


def test_texts_are_told_again_to_who_asks(service: TelemetryService) -> None:
    """As when a second browser wants them; who does not ask is told none."""
    watching = Watching(service, texts=[FIRST])
    feed(service, HEL)
    assert watching.read_texts() == {0: "Hel"}
    service.feed(exchange_frames(LO)[3])
    watching.want(FIRST, again=[FIRST])
    assert watching.read_texts() == {0: "Hello"}
    watching.want()
    service.feed(exchange_frames(LO)[3])
    assert watching.read_texts() == {}


def test_a_look_tells_of_so_many_calls(
    service: TelemetryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others have their turn in the next looks, and each has it."""
    monkeypatch.setattr(reporter, "MAX_OPENED", 3)
    watching = Watching(service)
    watching.read()
    for number in range(1, 11):
        feed(service, HEL, number=number)
    looks = [kinds(watching.look()) for _ in range(20)]
    assert max(look.count("Opened") for look in looks) <= 6
    assert max(look.count("Progress") for look in looks) <= 4
    assert sum(look.count("Opened") for look in looks) == 10
    assert sum(look.count("Progress") for look in looks) == 10


def test_each_call_has_its_turn(service: TelemetryService) -> None:
    """However many are under way and grow all the time, also those that began last."""
    watching = Watching(service)
    for number in range(1, 31):
        feed(service, HEL, number=number)
    told: Counter[str] = Counter()
    for look in range(60):
        for number in range(1, 31):
            service.feed(exchange_frames(LO, number=number)[3])
        news = watching.look()
        if look >= 20:
            told.update(one.span_id for one in news if isinstance(one, Progress))
    assert len(told) == 30
    assert max(told.values()) - min(told.values()) <= 1


def test_nothing_is_told_of_a_call_that_stands_still(service: TelemetryService) -> None:
    """However often it is looked at."""
    watching = Watching(service, texts=[FIRST])
    feed(service, HEL)
    for _ in range(2 * reporter.PROGRESS_LOOKS):
        watching.look()
    assert [watching.look() for _ in range(3 * reporter.PROGRESS_LOOKS)].count([]) == 15


def test_a_call_that_ends_soon_is_told_by_its_end_alone(service: TelemetryService) -> None:
    """Nobody would see it open, and there may be hundreds of them in a second."""
    watching = Watching(service)
    watching.read()
    feed(service, *WHOLE_STREAM)
    watching.reporter.look()
    service.feed(end())
    watching.reporter.look()
    assert kinds(watching.read()) == ["Ended"]


def test_a_call_that_is_gone_without_a_word_ends(service: TelemetryService) -> None:
    """After a while, for its frames may come again."""
    watching = Watching(service)
    feed(service, HEL)
    watching.look()
    service._own.forget_all()
    news = [one for _ in range(reporter.MISSING_LOOKS + 2) for one in watching.look()]
    assert news == [Ended(span_id=FIRST, call=None)]


def test_of_many_calls_so_many_rows_are_told(
    service: TelemetryService, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks; and the row of each call that was told to be open, besides."""
    monkeypatch.setattr(reporter, "MAX_ROWS", 3)
    watching = Watching(service)
    for number in range(1, 6):
        feed(service, HEL, number=number)
    assert kinds(watching.look()).count("Opened") == 5
    for number in range(6, 16):
        feed(service, *WHOLE_STREAM, number=number)
    ends = [5, *range(15, 5, -1), 4, 3, 2, 1]
    for number in ends:
        service.feed(end(number))
    told = [one for one in watching.read() if isinstance(one, Ended)]
    assert all(one.call is not None for one in told)
    wanted = [identity(number).span_id for number in (5, 15, 14, 13, 4, 3, 2, 1)]
    assert [one.span_id for one in told] == wanted
    service.commit()
    assert store.last_seq() == 15
    watching.look()
    feed(service, *WHOLE_STREAM, number=16)
    service.feed(end(16))
    assert kinds(watching.read()) == ["Ended"]


def test_conversations_are_named_where_they_are_few(
    service: TelemetryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are told of few; where one commit changes more, any conversation may have changed."""
    monkeypatch.setattr(reporter, "MAX_CONVERSATIONS", 2)
    watching, named = Watching(service), []
    for numbers in ((1, 2), (3, 4, 5)):
        for number in numbers:
            feed(service, *WHOLE_STREAM, number=number)
            service.feed(end(number))
        service.commit()
        named += [one.conversations for one in watching.read() if isinstance(one, Recorded)]
    assert named == [(1, 2), None]


def test_a_call_whose_frames_come_again_is_one(service: TelemetryService) -> None:
    """As from a worker that lost its connection: nothing is told twice."""
    watching = Watching(service, texts=[FIRST])
    feed(service, HEL, LO)
    assert watching.read_texts() == {0: "Hello"}
    service._own.forget_all()
    watching.look()
    feed(service, HEL)
    assert watching.read_texts() == {}
    service.feed(exchange_frames(LO)[3])
    assert watching.read_texts() == {}
    service.feed(exchange_frames(event('"content":" you"'))[3])
    assert watching.read_texts() == {0: " you"}


def test_an_unsampled_call_is_not_told_of(service: TelemetryService) -> None:
    """Neither that it is open nor that it ends."""
    watching = Watching(service, texts=[FIRST])
    watching.read()
    service.feed(begin(identity=identity(1, trace_flags=0)))
    for frame in exchange_frames(*WHOLE_STREAM, asked=ASKED_STREAM)[1:]:
        service.feed(frame)
        assert watching.look() == []


HIDING = {
    "outputs": (SpanRules(privacy=PrivacySwitches(hide_output_text=True)), ()),
    "inputs": (SpanRules(privacy=PrivacySwitches(hide_inputs=True)), ()),
    "patterns": (SpanRules(redaction=Redaction({"n": "[0-9]{16}"})), ()),
    "header": (SpanRules(), (("x-spantap-content", "off"),)),
}


@pytest.mark.parametrize("hiding", HIDING)
def test_of_what_is_hidden_only_counts_are_told(store: Store, hiding: str) -> None:
    """Whatever hides it; and who begins to watch is told that no texts come, if none can."""
    rules, headers = HIDING[hiding]
    service = make_service(store, rules)
    watching = Watching(service, texts=[FIRST])
    assert watching.read_hello().live_text is (hiding == "header")
    feed(service, HEL, LO, request_headers=headers)
    news = [one for _ in range(reporter.PROGRESS_LOOKS + 1) for one in watching.look()]
    service.feed(end())
    news += watching.read()
    assert "Said" not in kinds(news)
    [progress] = [one for one in news if isinstance(one, Progress)]
    assert (progress.chars, progress.chunks) == (5, 2)
    assert b"Hel" not in watching.raw


def test_a_key_that_the_model_repeats_is_not_told(store: Store) -> None:
    """That of the head, and one in the body: the span masks both."""
    key, other = "sk-c4n4ry-0123456789", "c4n4ry/secret+1234567"
    body = {
        "model": "m-1",
        "stream": True,
        "messages": [],
        "tools": [{"type": "mcp", "server_url": "https://x", "authorization": other}],
    }
    for number, secret in enumerate((key, other), start=1):
        service = make_service(store)
        span_id = identity(number).span_id
        watching = Watching(service, texts=[span_id])
        pieces = ["It is ", secret[:9], secret[9:], " and"]
        data = [event(f'"content":{encode_json(piece)}') for piece in pieces]
        encrypted = OWN_CIPHER.encrypt(f"authorization:Bearer {key}".encode())
        frames = exchange_frames(*data, number=number, asked=encode_json(body).encode())
        service.feed(begin(number, encrypted=encrypted))
        for frame in frames[1:]:
            service.feed(frame)
            watching.look()
        assert b"c4n4ry" not in watching.raw
        assert b"It is " in watching.raw


def test_who_reads_nothing_loses_news_and_is_told(
    service: TelemetryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits is bounded, and the others get everything."""
    monkeypatch.setattr(news_feed, "MAX_FEED_BYTES", 64 * 1024)
    monkeypatch.setattr(reporter, "MAX_ROWS", 200)
    slow, quick = Watching(service), Watching(service)
    service.reporter = quick.reporter
    quick.reporter.join(slow.feed)
    rows = 0
    for number in range(1, 201):
        for frame in exchange_frames(*WHOLE_STREAM, number=number, asked=ASKED_STREAM):
            service.feed(frame)
        rows += kinds(quick.read()).count("Ended")
    assert rows == 200
    assert slow.feed.size_bytes <= 64 * 1024
    lost, *rest = slow.read()
    assert isinstance(lost, Lost)
    assert lost.count == slow.feed.dropped > 0
    assert kinds(rest).count("Ended") + lost.count >= 200
    assert slow.read() == []


def test_a_defect_here_costs_no_span(
    service: TelemetryService, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watchers miss something, and the log says so."""

    def fail(*_: object) -> None:
        raise KeyError

    watching = Watching(service)
    for name in ("note_end", "end", "commit"):
        monkeypatch.setattr(watching.reporter, name, fail)
    feed(service, *WHOLE_STREAM)
    service.feed(end())
    service.commit()
    assert store.last_seq() == 1
