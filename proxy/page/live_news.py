"""What happens now, for all browsers of a page: news from telemetry, and changes of the store.

All browsers share one channel to telemetry (:mod:`proxy.page.news_channel`), which exists only
while somebody watches. The first event is ``hello``. It comes again whenever telemetry was started
again, or is gone: then a browser forgets the open calls that it knew.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from proxy.page.live_browser import encode_event
from proxy.page.news_channel import NewsChannel, find_news
from proxy.reading.record import build_open_record, build_summary_record, format_time
from telemetry.news.messages import (
    MAX_ASKED_TEXTS,
    Ended,
    Hello,
    Lost,
    Numbers,
    Opened,
    Progress,
    ProxyPlace,
    Recorded,
    Said,
)
from telemetry.store.rows import SpanSummary

if TYPE_CHECKING:
    from pathlib import Path

    from codec.text.jsontext import JsonObject
    from proxy.page.live_browser import LiveBrowser
    from proxy.page.reads import Reads
    from telemetry.news.messages import EndedCall, News
    from telemetry.reading.calls import Calls
    from telemetry.store.rows import SpanState

MAX_BROWSERS: Final = 64
"""How many tabs may watch at a time. One that reads nothing takes at most half a megabyte."""

STORE_SECONDS: Final = 0.5
"""How often the store is checked for new rows if telemetry sends no news."""


class Live:
    """What happens now, for all browsers of a page.

    Args:
        store: the path of the store.
        reads: reads it on threads.
    """

    def __init__(self, store: Path, reads: Reads) -> None:
        self._reads = reads
        self._channel = NewsChannel(partial(find_news, store), self._hear, self._begin_anew)
        self._watched, self._unwatched = asyncio.Event(), asyncio.Event()
        self._browsers: set[LiveBrowser] = set()
        self._open: dict[str, Opened] = {}  # by span id
        self._hello: Hello | None = None
        self._seq = 0
        self._numbers = Numbers()

    @property
    def is_live(self) -> bool:
        """Whether telemetry sends news."""
        return self._channel.is_open

    @property
    def shows_text(self) -> bool:
        """Whether texts come if somebody asks for them."""
        return self.is_live and self._hello is not None and self._hello.live_text

    @property
    def numbers(self) -> Numbers | None:
        """Numbers of the whole proxy; ``None`` if they are not known."""
        return self._numbers if self.is_live and self._hello is not None else None

    @property
    def proxy(self) -> ProxyPlace:
        """Where clients reach the proxy, if that is known."""
        return self._hello.proxy if self.is_live and self._hello is not None else ProxyPlace()

    async def run(self) -> None:
        """Listen to telemetry while somebody watches."""
        while True:
            await self._watched.wait()
            parts = (self._channel.run(), self._look_at_store())
            works = [asyncio.ensure_future(part) for part in parts]
            try:
                await self._unwatched.wait()
            finally:
                for work in works:
                    work.cancel()
                await asyncio.wait(works)  # unlike `gather`, this lets our own cancellation through

    async def _look_at_store(self) -> None:
        """If telemetry sends no news, check the store: ``recorded`` comes in any case."""
        while True:
            if not self.is_live:
                with contextlib.suppress(Exception):  # it is busy, or not there yet
                    seq = await self._reads.run(_read_seq)
                    if seq != self._seq:
                        self._hear(Recorded(seq=seq))
            await asyncio.sleep(STORE_SECONDS)

    @property
    def is_full(self) -> bool:
        """Whether the largest number of browsers watch."""
        return len(self._browsers) >= MAX_BROWSERS

    def join(self, browser: LiveBrowser) -> None:
        """Begin to send events to a browser."""
        self._browsers.add(browser)
        self._unwatched.clear()
        self._watched.set()
        browser.begin(self._encode_hello())
        self._want(browser.texts)

    def leave(self, browser: LiveBrowser) -> None:
        """Send no more events to a browser."""
        self._browsers.discard(browser)
        self._want()
        if not self._browsers:
            self._watched.clear()
            self._unwatched.set()

    def close(self) -> None:
        """End the streams of all browsers."""
        for browser in self._browsers:
            browser.end()

    def send_newest(self, browser: LiveBrowser) -> None:
        """Send a browser the newest number of the store."""
        browser.put(encode_event("recorded", {"seq": self._seq}, self._seq))

    def _want(self, again: frozenset[str] = frozenset()) -> None:
        """Ask telemetry for the texts that browsers want, and for some again from the beginning."""
        wanted = sorted({text for browser in self._browsers for text in browser.texts})
        self._channel.want(wanted[:MAX_ASKED_TEXTS], again)

    def _begin_anew(self) -> None:
        """Note that telemetry is gone, so that nobody knows what is open."""
        self._open.clear()
        self._hello = None
        hello = self._encode_hello()
        for browser in self._browsers:
            browser.begin(hello)

    def _encode_hello(self) -> bytes:
        now_ns = time.time_ns()
        data: JsonObject = {
            "open": [_build_opened_record(opened, now_ns) for opened in self._open.values()],
            "seq": self._seq,
            "live": self.is_live,
            "live_text": self.shows_text,
            "now": format_time(now_ns),
        }
        return encode_event("hello", data, self._seq)

    def _hear(self, news: News) -> None:
        """Send news from telemetry to all browsers."""
        match news:
            case Opened():
                self._open[news.call.span_id] = news
                self._send_all("open", _build_opened_record(news, time.time_ns()))
            case Progress():
                self._follow(news)
            case Said():
                for browser in self._browsers:
                    browser.put_text(news)
                    self._repair(browser)
            case Ended():
                self._end(news)
            case Recorded():
                self._seq = news.seq
                self._send_all("recorded", {"seq": news.seq}, news.seq)
                changed = (None,) if news.conversations is None else news.conversations
                for number in changed:
                    self._send_all("conversation", {"number": number})
            case Numbers():
                self._take_numbers(news)
            case Lost():
                self._send_all("lost", {"count": news.count})
                self._want(frozenset(text for one in self._browsers for text in one.texts))
            case Hello():
                self._hello, self._seq, self._numbers = news, news.seq, news.numbers
                self._open = {opened.call.span_id: opened for opened in news.open}
                hello = self._encode_hello()
                for browser in self._browsers:
                    browser.begin(hello)
                    self.send_newest(browser)

    def _take_numbers(self, numbers: Numbers) -> None:
        before, self._numbers = self._numbers, numbers
        if numbers.dropped != before.dropped:
            self._send_all("dropped", {"count": numbers.dropped})
        if numbers.web_sockets != before.web_sockets:
            self._send_all("websockets", {"count": numbers.web_sockets})

    def _follow(self, progress: Progress) -> None:
        """Send how far a call is, and note it for browsers that come later."""
        if (opened := self._open.get(progress.span_id)) is None:
            return
        self._open[progress.span_id] = opened.advance(progress)
        self._send_all("progress", _build_progress_record(progress, opened.call.start_ns))

    def _repair(self, browser: LiveBrowser) -> None:
        """If some texts for a browser were dropped, ask for them again."""
        if browser.needs_texts_again and browser.has_room:
            browser.needs_texts_again = False
            self._want(browser.texts)

    def _end(self, ended: Ended) -> None:
        self._open.pop(ended.span_id, None)
        without = encode_event("end", {"span_id": ended.span_id, "call": None})
        if ended.call is None:
            for browser in self._browsers:
                browser.put(without)
            return
        row = summarise(ended.call)
        data = {"span_id": ended.span_id, "call": build_summary_record(row)}
        event = encode_event("end", data)
        for browser in self._browsers:
            browser.put(event if browser.fits(row) else without)

    def _send_all(self, name: str, data: JsonObject, seq: int | None = None) -> None:
        event = encode_event(name, data, seq)
        for browser in self._browsers:
            browser.put(event)


def _read_seq(reader: Calls) -> int:
    return reader.last_seq()


def summarise(call: EndedCall) -> SpanSummary:
    """Make the row of a call that has ended and is not in the store yet, so it has no state."""
    return SpanSummary(
        seq=cast("int", None),
        state=cast("SpanState", None),
        attempts=0,
        next_try_ns=0,
        last_error=cast("str", None),
        **{name: getattr(call, name) for name in call.__struct_fields__},
    )


def _build_opened_record(opened: Opened, now_ns: int) -> JsonObject:
    """Build the record of an open call, with how much of its answer has come."""
    call = opened.call
    return build_open_record(call, now_ns) | {
        "chars": opened.chars,
        "ttft_ms": _since(opened.first_ns, call.start_ns),
    }


def _build_progress_record(progress: Progress, start_ns: int) -> JsonObject:
    """Build the record of how far a call is; the call began at `start_ns`."""
    return {
        "span_id": progress.span_id,
        "model": progress.model,
        "what": progress.what,
        "http_status": progress.http_status,
        "chunks": progress.chunks,
        "chars": progress.chars,
        "ttft_ms": _since(progress.first_ns, start_ns),
    }


def _since(at_ns: int | None, start_ns: int) -> float | None:
    return None if at_ns is None else max(0, at_ns - start_ns) / 1e6
