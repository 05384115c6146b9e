"""``GET /api/live``: a real proxy, watched while streams grow, and a store without one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import encode_json
from proxy.page import live, live_news
from proxy.page.live_browser import LiveBrowser
from proxy.page.live_news import Live
from proxy.page.reads import Reads
from telemetry.finding.filter import parse_filter
from telemetry.store.store import Store
from tests.faults.stage import running_spantap
from tests.proxy.page.live_events import watching
from tests.proxy.page.pages import open_page
from tests.proxy.recorded_calls import make_exchange, make_row, make_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.faults.stage import RunningSpantap
    from tests.proxy.page.live_events import Events
    from tests.proxy.page.pages import Page

BODY = {"model": "gpt-live", "stream": True, "messages": [{"role": "user", "content": "hi"}]}

NOWHERE = "http://127.0.0.1:9"
"""A backend that is not there."""


def chunk(content: str) -> bytes:
    delta = {"choices": [{"index": 0, "delta": {"content": content}}]}
    return f"data: {encode_json(delta)}\n\n".encode()


class Upstream:
    """An upstream that says what the test wants, when it wants; one answer at a time."""

    def __init__(self) -> None:
        self._said: asyncio.Queue[bytes] = asyncio.Queue()
        self.url = ""

    def say(self, *words: str) -> None:
        for word in words:
            self._said.put_nowait(chunk(word))

    def end(self) -> None:
        self._said.put_nowait(b"data: [DONE]\n\n")
        self._said.put_nowait(b"")

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        )
        while data := await self._said.get():
            writer.write(data)
            await writer.drain()
        writer.close()

    @classmethod
    @contextlib.asynccontextmanager
    async def serving(cls) -> AsyncIterator[Upstream]:
        upstream = cls()
        server = await asyncio.start_server(upstream.answer, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        upstream.url = f"http://{host}:{port}"
        async with server:
            yield upstream


@contextlib.asynccontextmanager
async def stage(
    tmp_path: Path, **environment: str
) -> AsyncIterator[tuple[RunningSpantap, Upstream, Page]]:
    """A proxy, its upstream, and a page of its store."""
    with contextlib.ExitStack() as stack:
        async with Upstream.serving() as upstream:
            spantap = await asyncio.to_thread(
                stack.enter_context,
                running_spantap(tmp_path, upstream=upstream.url, environment=environment),
            )
            async with open_page(spantap.store) as page:
                yield spantap, upstream, page
            await asyncio.to_thread(stack.close)


@contextlib.asynccontextmanager
async def calling(spantap: RunningSpantap) -> AsyncIterator[None]:
    """A call that is open until the block ends, at least."""
    body = encode_json(BODY).encode()
    head = [
        "POST /v1/chat/completions HTTP/1.1",
        "host: x",
        "user-agent: codex/1",
        "authorization: Bearer sk-canary-0123456789",
        f"content-length: {len(body)}",
    ]
    reader, writer = await asyncio.open_connection("127.0.0.1", spantap.port)
    writer.write("\r\n".join([*head, "", ""]).encode() + body)
    yield
    async with asyncio.timeout(30):
        await reader.read(1 << 20)
    writer.close()


async def read_lost(page: Page) -> int | None:
    """Read how many spans were lost, as far as the page knows."""
    async with page.session.get(f"{page.url}/api/status") as response:
        lost: int | None = (await response.json())["lost"]
        return lost


async def begin_live(events: Events) -> dict[str, Any]:
    """Read until telemetry tells."""
    return await events.until("hello", lambda data: data["live"])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("key", [None, "one-of-our-own-keys-0123"])
async def test_the_status_says_where_the_proxy_is(tmp_path: Path, key: str | None) -> None:
    """On which port it listens, and whether it wants a key, from the moment that it sends news."""
    keys = {} if key is None else {"SPANTAP_INBOUND_KEYS": key}
    async with stage(tmp_path, **keys) as (spantap, _, page), watching(page) as events:
        await begin_live(events)
        async with page.session.get(f"{page.url}/api/status") as response:
            told = await response.json()
    assert told["proxy_url"] == f"http://127.0.0.1:{spantap.port}"
    assert told["asks_for_key"] is (key is not None)
    assert key is None or key not in str(told)


@pytest.mark.timeout(120)
async def test_a_stream_is_seen_while_it_grows(tmp_path: Path) -> None:
    """From its begin to the row that the store has, for two browsers; the second comes later."""
    async with stage(tmp_path) as (spantap, upstream, page), watching(page) as events:
        hello = await begin_live(events)
        assert (hello["open"], hello["live_text"]) == ([], True)
        async with calling(spantap):
            opened = await events.until("open")
            assert (opened["client"], opened["open"]) == ("codex", True)
            span_id = opened["span_id"]
            upstream.say("Hel", "lo")
            progress = await events.until("progress", lambda data: data["chars"] == 5)
            assert (progress["model"], progress["http_status"]) == ("gpt-live", 200)
            assert progress["ttft_ms"] > 0
            async with watching(page, text=span_id) as second:
                hello = await begin_live(second)
                [known] = hello["open"]
                assert (known["span_id"], known["chars"]) == (span_id, 5)
                await second.until("text")
                begin = time.monotonic()
                upstream.say(" you")
                await second.until("text", lambda data: " you" in data["text"])
                assert time.monotonic() - begin < 2  # 0.25 on a machine that has time
                assert second.texts() == {0: "Hello you"}
                async with watching(page, text=span_id) as third:
                    await third.until("text", lambda data: "you" in data["text"])
                    assert third.texts() == {0: "Hello you"}
                    upstream.say("!")
                    await second.until("text")
                    assert second.texts() == {0: "Hello you!"}
            upstream.end()
        ended = await events.until("end")
        assert (ended["span_id"], ended["call"]["outcome"]) == (span_id, "completed")
        assert (ended["call"]["seq"], ended["call"]["span_id"]) == (None, span_id)
        assert (await events.until("recorded"))["seq"] == 1
        assert (await events.until("conversation"))["number"] == 1
        assert not any(event.name == "text" for event in events.seen)  # it asked for none
        assert "canary" not in repr(events.seen)


@pytest.mark.timeout(120)
async def test_spans_that_were_lost_are_told(tmp_path: Path) -> None:
    """A store without room for spans that no backend takes loses some: the status counts them."""
    full = {"SPANTAP_STORE_MAX_BYTES": str(1 << 20), "OTEL_EXPORTER_OTLP_ENDPOINT": NOWHERE}
    async with stage(tmp_path, **full) as (spantap, upstream, page), watching(page) as events:
        await begin_live(events)
        assert await read_lost(page) == 0
        for _ in range(12):
            async with calling(spantap):
                upstream.say(*(os.urandom(1 << 15).hex() for _ in range(8)))
                upstream.end()
        async with asyncio.timeout(60):
            while not (lost := await read_lost(page)):
                await asyncio.sleep(0.1)
        assert (await events.until("dropped"))["count"] <= lost
        counted = spantap.metrics()["spantap_spans_dropped_total"]
        assert lost <= counted <= 12


async def test_without_a_proxy_nobody_knows_what_was_lost(tmp_path: Path) -> None:
    """The status says null, and not 0."""
    make_store(tmp_path / "traces.db", make_exchange())
    async with open_page(tmp_path / "traces.db") as page:
        assert await read_lost(page) is None


@pytest.mark.timeout(120)
async def test_watching_goes_on_after_telemetry_was_killed(tmp_path: Path) -> None:
    """Open calls are told anew, with their texts, and what is recorded by the next telemetry."""
    async with stage(tmp_path) as (spantap, upstream, page), calling(spantap):
        upstream.say("before")
        async with watching(page) as events:
            hello = await begin_live(events)
            opened = hello["open"][0] if hello["open"] else await events.until("open")
        async with watching(page, text=opened["span_id"]) as events:
            await events.until("text")
            [telemetry] = spantap.children()["telemetry"]
            os.kill(telemetry, signal.SIGKILL)
            assert (await events.until("hello", lambda data: not data["live"]))["open"] == []
            await begin_live(events)
            upstream.say(" after")
            await events.until("text", lambda data: "after" in data["text"])
            assert events.texts() == {0: "before after"}
            upstream.end()
            assert (await events.until("end"))["call"]["outcome"] == "completed"
            assert (await events.until("recorded", lambda data: data["seq"] > 0))["seq"] == 1


@pytest.mark.timeout(120)
async def test_of_hidden_content_only_counts_are_seen(tmp_path: Path) -> None:
    """Neither in texts nor anywhere else in the events."""
    hidden = {"OPENINFERENCE_HIDE_OUTPUTS": "true"}
    async with stage(tmp_path, **hidden) as (spantap, upstream, page), calling(spantap):
        upstream.say("c4n4ry")
        async with watching(page) as events:
            hello = await begin_live(events)
            assert hello["live_text"] is False
            opened = hello["open"][0] if hello["open"] else await events.until("open")
        async with watching(page, text=opened["span_id"]) as events:
            await begin_live(events)
            upstream.say(" c4n4ry")
            await events.until("progress", lambda data: data["chars"] == 13)
            upstream.end()
            await events.until("recorded", lambda data: data["seq"] == 1)
            assert "c4n4ry" not in repr(events.seen)
            assert not any(event.name == "text" for event in events.seen)


async def test_without_a_proxy_what_is_recorded_is_seen(tmp_path: Path) -> None:
    """By somebody else, into the store."""
    path = make_store(tmp_path / "t.db", make_exchange(1))
    async with open_page(path) as page, watching(page) as events:
        hello = (await events.read()).data
        assert (hello["live"], hello["live_text"], hello["open"]) == (False, False, [])
        assert (await events.until("recorded"))["seq"] == 1
        with Store.open(path) as store:
            store.add([make_row(make_exchange(2))])
        assert (await events.until("recorded"))["seq"] == 2
        assert events.seen[-1].seq == "2"


async def test_a_store_that_comes_later_is_seen(tmp_path: Path) -> None:
    """And nothing fails before."""
    async with open_page(tmp_path / "t.db") as page, watching(page) as events:
        await events.read()
        await asyncio.sleep(2 * live_news.STORE_SECONDS)
        make_store(tmp_path / "t.db", make_exchange(1))
        assert (await events.until("recorded"))["seq"] == 1


@pytest.mark.parametrize(
    ("headers", "asked"),
    [({"Last-Event-ID": "1"}, {}), ({}, {"after": "1"})],
    ids=["header", "after"],
)
async def test_who_comes_again_is_told_the_newest_at_once(
    headers: dict[str, str], asked: dict[str, str], tmp_path: Path
) -> None:
    """Behind the first word."""
    path = make_store(tmp_path / "t.db", make_exchange(1))
    async with open_page(path) as page, watching(page) as events:
        await events.until("recorded")
        async with watching(page, headers, **asked) as again:
            assert [(await again.read()).name for _ in range(2)] == ["hello", "recorded"]
            assert again.seen[1].data == {"seq": 1}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"text": "0a"}, "parameter"),
        ({"text": ",".join(["0a" * 8] * 9)}, "parameter"),
        ({"filter": "nonsense:1"}, "filter"),
    ],
)
async def test_what_cannot_be_followed_is_refused(
    asked: dict[str, str], code: str, tmp_path: Path
) -> None:
    """Before anything is told."""
    async with (
        open_page(tmp_path / "t.db") as page,
        page.session.get(f"{page.url}/api/live", params=asked) as answer,
    ):
        error = (await answer.json())["error"]
        assert (answer.status, error["code"]) == (400, code)
        assert ("position" in error) is (code == "filter")


async def test_there_is_an_end_to_browsers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told so; and a place is free when another has gone."""
    monkeypatch.setattr(live_news, "MAX_BROWSERS", 2)
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    async with open_page(tmp_path / "t.db") as page:
        async with watching(page) as first, watching(page) as second:
            await first.read()
            await second.read()
            async with page.session.get(f"{page.url}/api/live") as answer:
                assert (answer.status, (await answer.json())["error"]["code"]) == (503, "busy")
        for _ in range(100):
            await asyncio.sleep(0.05)
            async with page.session.get(f"{page.url}/api/live") as answer:
                if answer.status == 200:
                    break
        else:
            pytest.fail("no place has become free")


async def test_a_comment_comes_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing happens."""
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(live, "COMMENT_SECONDS", 0.02)
    async with open_page(tmp_path / "t.db") as page, watching(page) as events:
        await events.read()
        assert await events.answer.content.readline() == b":\n"
        assert events.answer.headers["Content-Type"] == "text/event-stream"
        assert events.answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("turns", range(6))
async def test_the_end_is_heard_while_the_last_browser_goes(tmp_path: Path, turns: int) -> None:
    """A page that ends just then does not wait for ever for its own news."""
    reads = Reads(tmp_path / "traces.db")
    told = Live(tmp_path / "traces.db", reads)
    running = asyncio.ensure_future(told.run())
    browser = LiveBrowser(parse_filter("", now_ns=0), ())
    told.join(browser)
    await asyncio.sleep(0.05)
    told.leave(browser)
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=5)
    assert done
    await reads.close()
