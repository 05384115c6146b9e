"""The page's link to the news of a running proxy (:mod:`proxy.processes.news_desk`).

Rules:

1. It is found by the store, as its door is (:mod:`proxy.processes.launch_link`), and entered only
   where all of it is our own user's.
2. When telemetry is gone, it is looked for again, for as long as the link runs: it may be started
   again, or a proxy may come. What is wanted is said again then.
3. A proxy of another version is not understood: it is asked again later, for it may be restarted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codec._version import __version__
from proxy.processes.launch_link import find_door
from proxy.processes.scratch import news_path
from telemetry.news.feed import MAX_FEED_BYTES
from telemetry.news.messages import Hello, Refused, Watch, decode_news, encode_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from telemetry.news.messages import News

_log = logging.getLogger("spantap.page")

RETRY_SECONDS: Final = 0.25
"""The time between two looks for telemetry, which takes a second to start again."""

REFUSED_SECONDS: Final = 5.0
"""The time between two looks for a telemetry that has refused the page."""


def find_news(store: Path) -> str | None:
    """Find the socket of news of the proxy that has the store; ``None`` where there is none."""
    if (door := find_door(store)) is None:
        return None
    path = news_path(door)  # in the same folder, which is ours
    with contextlib.suppress(OSError):
        status = Path(path).lstat()
        if stat.S_ISSOCK(status.st_mode) and status.st_uid == os.geteuid():
            return path
    return None


class NewsLink:
    """The link of one page, for all that watch it.

    Args:
        find: tells where the news are.
        hear: is given each piece of news.
        lose: is called when telemetry is gone.

    Attributes:
        is_open: telemetry tells news.
    """

    def __init__(
        self,
        find: Callable[[], str | None],
        hear: Callable[[News], None],
        lose: Callable[[], None],
    ) -> None:
        self._find = find
        self._hear = hear
        self._lose = lose
        self._texts: tuple[str, ...] = ()
        self._writer: asyncio.StreamWriter | None = None
        self.is_open = False

    def want(self, texts: Collection[str], again: Collection[str] = ()) -> None:
        """Say of which calls texts are wanted, and of which from the beginning."""
        wanted = tuple(texts)
        if wanted == self._texts and not again:
            return
        self._texts = wanted
        if self._writer is not None:
            self._writer.write(self._say(again))

    def _say(self, again: Collection[str] = ()) -> bytes:
        return encode_line(Watch(version=__version__, texts=self._texts, again=tuple(again)))

    async def run(self) -> None:
        """Hear the news, from whichever telemetry process there is (rule 2)."""
        while True:
            wait_seconds = RETRY_SECONDS
            try:
                if (path := self._find()) is not None and await self._listen(path):
                    wait_seconds = REFUSED_SECONDS
            except OSError:  # it is gone
                pass
            except Exception as error:  # noqa: BLE001 - the page goes on without it
                _log.error("live news cannot be heard: %s", type(error).__name__)
                wait_seconds = REFUSED_SECONDS
            await asyncio.sleep(wait_seconds)

    async def _listen(self, path: str) -> bool:
        """Listen until telemetry is gone; true where it does not want us (rule 3).

        Raises:
            OSError: it is gone.
            ValueError: what it says is no news.
        """
        reader, writer = await asyncio.open_unix_connection(path, limit=2 * MAX_FEED_BYTES)
        self._writer = writer
        try:
            writer.write(self._say())
            while line := await reader.readline():
                news = decode_news(line)
                if isinstance(news, Refused):
                    return True
                if news is not None:
                    self.is_open = self.is_open or isinstance(news, Hello)
                    self._hear(news)
        finally:
            was_open, self.is_open, self._writer = self.is_open, False, None
            writer.close()
            if was_open:
                self._lose()
        return False
