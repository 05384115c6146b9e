"""Watchers of the page, as its screen of calls is one: ``python -m tests.bench.watchers``.

Each has a stream of live news. It asks for what was recorded since, as often as the screen does
(``proxy/page/static/calls.js``), and for the newest calls where there is too much of it. With
``--text`` it reads the text of one open call along, of the next one once that has ended. They take
what the load leaves of a core: who looks at a page has another machine, or a core, for it.

Prints ``ready`` once all of them watch; a line of standard input ends them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import Any, Final

import aiohttp

from codec.text.jsontext import decode_json

CATCH_UP_SECONDS: Final = 1.0
"""As ``CATCH_UP_MS`` of the screen, which after so many rows as these waits longer:"""

MANY_ROWS, MANY_SECONDS = 50, 2.0

STATUS_SECONDS, CHART_SECONDS = 1.0, 10.0

NEWEST: Final = 100
CATCH_UP: Final = 300


class Watcher:
    """One that watches."""

    def __init__(self, session: aiohttp.ClientSession, *, reads_text: bool) -> None:
        self._session = session
        self._reads_text = reads_text
        self._text = ""
        self._newest = 0
        self._news = asyncio.Event()
        self.is_ready = asyncio.Event()

    async def watch(self) -> None:
        """Watch for ever."""
        status = self._look_around("/api/status", STATUS_SECONDS)
        chart = self._look_around("/api/stats", CHART_SECONDS)
        beside = [asyncio.ensure_future(work) for work in (self._ask(), status, chart)]
        try:
            while True:
                await self._listen()
        finally:
            for work in beside:
                work.cancel()

    async def _listen(self) -> None:
        """Read a stream of news until another one is wanted."""
        async with self._session.get("/api/live", params={"text": self._text}) as answer:
            name = ""
            async for line in answer.content:
                if line.startswith(b"event: "):
                    name = line[7:].decode().strip()
                elif not line.startswith(b"data: "):
                    continue
                elif name == "hello":
                    self.is_ready.set()
                elif name == "recorded":
                    self._news.set()
                elif name == "end" and self._text and self._text.encode() in line:
                    self._text = ""
                    return
                elif name == "open" and self._reads_text and not self._text:
                    self._text = decode_json(line[6:])["span_id"]
                    return

    async def _ask(self) -> None:
        """Ask for the rows that are new, as often as may be."""
        while True:
            await self._news.wait()
            self._news.clear()
            rows = await self._get({"after": self._newest, "limit": CATCH_UP})
            if len(rows) >= CATCH_UP:
                await self._get({"limit": NEWEST})
            await asyncio.sleep(MANY_SECONDS if len(rows) >= MANY_ROWS else CATCH_UP_SECONDS)

    async def _get(self, wanted: dict[str, int]) -> list[Any]:
        async with self._session.get("/api/calls", params=wanted) as answer:
            rows: list[Any] = decode_json(await answer.read())["calls"]
        self._newest = max([self._newest, *(row["seq"] for row in rows)])
        return rows

    async def _look_around(self, path: str, seconds: float) -> None:
        """Ask for what stands beside the list, now and then."""
        while True:
            await asyncio.sleep(seconds)
            async with self._session.get(path) as answer:
                await answer.read()


async def watch_all(url: str, token: str, count: int, *, reads_text: bool) -> None:
    """Watch `count` times until somebody says that it is enough."""
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, headers=headers, connector=connector) as session:
        watchers = [Watcher(session, reads_text=reads_text) for _ in range(count)]
        tasks = [asyncio.ensure_future(watcher.watch()) for watcher in watchers]
        await asyncio.gather(*(watcher.is_ready.wait() for watcher in watchers))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for task in tasks:
            task.cancel()


def main() -> None:
    """Read the command line, and watch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--text", action="store_true")
    options = parser.parse_args()
    os.nice(19)
    asyncio.run(watch_all(options.url, options.token, options.count, reads_text=options.text))


if __name__ == "__main__":
    main()
