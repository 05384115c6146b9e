"""``proxy.page.live_browser``: what one browser is told, and what it loses."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from proxy.page import live_browser
from proxy.page.live_browser import LiveBrowser, encode_event
from proxy.page.live_news import Live, summarise
from proxy.page.reads import Reads
from proxy.reading.record import build_summary_record
from telemetry.facts import CallColumns
from telemetry.finding.filter import parse_filter
from telemetry.news.messages import EndedCall, Recorded, Said

if TYPE_CHECKING:
    from pathlib import Path

SPAN_ID = "0a" * 8


def watch(text: str = "", *texts: str) -> LiveBrowser:
    return LiveBrowser(parse_filter(text, now_ns=time.time_ns()), texts or (SPAN_ID,))


def said(at: int, text: str, **members: Any) -> Said:
    defaults: dict[str, Any] = {"span_id": SPAN_ID, "kind": "text", "part": 0, "name": None}
    return Said(at=at, text=text, **(defaults | members))


async def read(browser: LiveBrowser) -> str:
    return (await browser.take(0.01)).decode()


ROW = EndedCall(
    span_id=SPAN_ID,
    trace_id="0b" * 16,
    name="ChatCompletion",
    start_ns=1,
    end_ns=2_000_001,
    model="m-1",
    status="OK",
    outcome="completed",
    prompt_tokens=1,
    completion_tokens=None,
    total_tokens=None,
    launch=None,
    recorded_ns=3,
    size_bytes=4,
    columns=CallColumns(kind="LLM"),
)


async def test_what_does_not_fit_is_lost_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, behind what did fit."""
    monkeypatch.setattr(live_browser, "MAX_QUEUED_BYTES", 100)
    browser = watch()
    event = encode_event("recorded", {"seq": 1}, 1)
    for _ in range(20):
        browser.put(event)
    kept = 100 // len(event)
    assert (
        await read(browser) == (event * kept + encode_event("lost", {"count": 20 - kept})).decode()
    )
    browser.put(event)
    assert await read(browser) == event.decode()
    assert await read(browser) == ""


async def test_texts_come_once_and_without_a_gap() -> None:
    """Others may have had them told once more meanwhile; each text has its own place."""
    browser = watch()
    for one in (
        said(5, "too early"),
        said(0, "Hel"),
        said(3, "lo"),
        said(0, "Hello, you"),  # told once more
        said(20, "after a gap"),
        said(0, "args", part=1, kind="arguments", name="grep"),
        said(0, "of another call", span_id="0c" * 8),
    ):
        browser.put_text(one)
    events = (await read(browser)).split("\n\n")
    assert [event.partition('"at": ')[2] for event in events[:-1]] == [
        '0, "text": "Hel"}',
        '3, "text": "lo"}',
        '5, "text": ", you"}',
        '0, "text": "args"}',
    ]
    assert '"name": "grep"' in events[3]


async def test_texts_that_were_dropped_are_wanted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """And then come where they were missing."""
    monkeypatch.setattr(live_browser, "MAX_QUEUED_BYTES", 200)
    browser = watch()
    browser.put_text(said(0, "a" * 20))
    browser.put_text(said(20, "b" * 300))
    assert browser.needs_texts_again
    had_room = browser.has_room
    await read(browser)
    assert (had_room, browser.has_room) == (False, True)
    browser.put_text(said(0, "a" * 20 + "b"))
    assert '"at": 20, "text": "b"' in await read(browser)


async def test_a_new_begin_makes_all_texts_begin_again() -> None:
    """Telemetry was started again."""
    browser = watch()
    browser.put_text(said(0, "Hello"))
    browser.begin(b"")
    browser.put_text(said(0, "Hello"))
    assert (await read(browser)).count('"at": 0, "text": "Hello"') == 2


async def test_conversations_that_have_changed_are_told(tmp_path: Path) -> None:
    """Each by its number; where there are so many that none is named, one event tells so."""
    live = Live(tmp_path / "t.db", Reads(tmp_path / "t.db"))
    browser = watch()
    live.join(browser)
    await read(browser)
    live._hear(Recorded(seq=1, conversations=(7, 8)))
    live._hear(Recorded(seq=2, conversations=None))
    told = (await read(browser)).splitlines()
    numbers = [told[at + 1] for at, line in enumerate(told) if line == "event: conversation"]
    assert numbers == [f'data: {{"number": {number}}}' for number in ("7", "8", "null")]


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("model:m-*", True),
        ("status:error", False),
        ("-state:pending", True),
        ("hello", False),
    ],
)
def test_rows_that_fit_are_told(text: str, fits: bool) -> None:
    """What cannot be known of a row in memory does not."""
    assert watch(text).fits(summarise(ROW)) is fits


def test_a_row_in_memory_has_every_member_of_a_recorded_one() -> None:
    """What it has not got yet is null."""
    record = build_summary_record(summarise(ROW))
    assert (record["seq"], record["state"], record["duration_ms"]) == (None, None, 2.0)
    assert record["completion_tokens"] is None


def test_hostile_words_stay_on_their_line() -> None:
    """No event can be smuggled in."""
    event = encode_event("open", {"model": "x\n\nevent: end\u2028\x00"}, 3)
    assert event.count(b"\n") == 4
    assert event.isascii()
