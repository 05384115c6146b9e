"""Watchers of the page, as its screen of calls is one: ``python -m tests.bench.watchers``.

Each has a stream of live news. It asks for what was recorded since, as often as the screen does
(``proxy/page/static/calls.js`` and ``rows.js``), and for the newest calls where there is too much
of it. With ``--text`` it reads the text of one open call along, of another one once that has ended.
They take what the load leaves of a core: who looks at a page has another machine, or a core, for
it.

Prints ``ready`` once all of them watch; a line of standard input ends them, and what they saw is
printed. Whoever is refused, or loses its stream, ends them all with an error.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections import Counter
from typing import Any, Final

import aiohttp

from codec.text.jsontext import decode_json

# The pauses and limits of the screen.
CATCH_UP_SECONDS: Final = 1.0
MANY_ROWS: Final = 50
MANY_SECONDS: Final = 2.0
STATUS_SECONDS: Final = 1.0
CHART_SECONDS: Final = 10.0
NEWEST: Final = 100
CATCH_UP: Final = 300


class Watcher:
    """A watcher of the page, with a stream of news and questions of its own.

    Attributes:
        is_ready: it hears what happens.
        saw: how many events of each name, and rows, it got.
    """

    def __init__(self, session: aiohttp.ClientSession, *, reads_text: bool) -> None:
        self._session = session
        self._reads_text = reads_text
        self._text = ""
        self._newest = 0
        self._news = asyncio.Event()
        self.is_ready = asyncio.Event()
        self.saw: Counter[str] = Counter()

    async def watch(self) -> None:
        """Watch until it is cancelled.

        Raises:
            ExceptionGroup: the page refuses it, or ends its stream.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen_on())
            group.create_task(self._ask())
            group.create_task(self._look_around("/api/status", STATUS_SECONDS))
            group.create_task(self._look_around("/api/stats", CHART_SECONDS))

    async def _listen_on(self) -> None:
        """Read one stream of news after the other: each time that another text is wanted."""
        while True:
            async with self._session.get("/api/live", params={"text": self._text}) as answer:
                await self._listen(answer)

    async def _listen(self, answer: aiohttp.ClientResponse) -> None:
        """Read a stream of news until another text is wanted.

        Raises:
            EOFError: the page ended it.
        """
        name = ""
        async for line in answer.content:
            if line.startswith(b"event: "):
                name = line[7:].decode().strip()
            elif line.startswith(b"data: "):
                self.saw[name] += 1
                if name == "recorded":
                    self._news.set()
                elif name == "hello":
                    self.is_ready.set()
                if self._reads_text and self._chooses_anew(name, line[6:]):
                    return
        raise EOFError("the page ended a stream")

    def _chooses_anew(self, name: str, data: bytes) -> bool:
        """Choose another text where there is none, or no more; returns whether it did."""
        if name == "hello":
            told = decode_json(data)
            ids = [call["span_id"] for call in told["open"]]
            if not told["live"] or self._text in ids:
                return False
            self._text = ids[-1] if ids else ""
            return bool(ids)
        if name == "open" and not self._text:
            self._text = decode_json(data)["span_id"]
            return True
        if name == "end" and self._text and self._text.encode() in data:
            self._text = ""
        return False

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
        self.saw["rows"] += len(rows)
        return rows

    async def _look_around(self, path: str, seconds: float) -> None:
        """Ask for what stands beside the list, now and then."""
        while True:
            await asyncio.sleep(seconds)
            async with self._session.get(path) as answer:
                await answer.read()


async def watch_all(url: str, token: str, count: int, *, reads_text: bool) -> Counter[str]:
    """Watch `count` times until somebody says that it is enough; what all of them saw."""
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        url, headers=headers, connector=connector, timeout=timeout, raise_for_status=True
    ) as session:
        watchers = [Watcher(session, reads_text=reads_text) for _ in range(count)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(watcher.watch()) for watcher in watchers]
            for watcher in watchers:
                await watcher.is_ready.wait()
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            for task in tasks:
                task.cancel()
    return sum((watcher.saw for watcher in watchers), Counter[str]())


def main() -> None:
    """Read the command line, and watch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--text", action="store_true")
    options = parser.parse_args()
    os.nice(19)
    saw = asyncio.run(watch_all(options.url, options.token, options.count, reads_text=options.text))
    print(", ".join(f"{count:,} {name}" for name, count in saw.most_common()))


if __name__ == "__main__":
    main()
