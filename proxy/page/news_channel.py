"""The page's channel to the news of a running proxy (:mod:`proxy.processes.news_server`)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codec._version import __version__
from proxy.processes.launch_channel import find_control_socket
from proxy.processes.scratch import news_path
from telemetry.news.feed import MAX_FEED_BYTES
from telemetry.news.messages import Hello, Refused, Watch, decode_news, encode_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from telemetry.news.messages import News

_log = logging.getLogger("spantap.page")

RETRY_SECONDS: Final = 0.25
"""The time between two attempts to find telemetry, which takes a second to start again."""

REFUSED_SECONDS: Final = 5.0
"""The time between two attempts with a proxy that has refused us, because it has another version.
It may be restarted."""


def find_news(store: Path) -> str | None:
    """Find the news socket of the proxy that has the store; ``None`` if there is none.

    Like the control socket (:mod:`proxy.processes.launch_channel`), it counts only if it and its
    folder belong to our user.
    """
    if (control_socket := find_control_socket(store)) is None:
        return None
    path = news_path(control_socket)  # in the same folder, which belongs to our user
    with contextlib.suppress(OSError):
        status = Path(path).lstat()
        if stat.S_ISSOCK(status.st_mode) and status.st_uid == os.geteuid():
            return path
    return None


class NewsChannel:
    """The channel of one page, for all its browsers.

    Args:
        find: finds the news socket.
        hear: called with each piece of news.
        lose: called when telemetry is gone.

    Attributes:
        is_open: telemetry sends news.
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
        """Ask for the texts of these calls, and for some again from the beginning."""
        wanted = tuple(texts)
        if wanted == self._texts and not again:
            return
        self._texts = wanted
        if self._writer is not None:
            self._writer.write(self._say(again))

    def _say(self, again: Collection[str] = ()) -> bytes:
        return encode_line(Watch(version=__version__, texts=self._texts, again=tuple(again)))

    async def run(self) -> None:
        """Receive news until cancelled, from any telemetry process that comes.

        When one is gone, look for the next: telemetry or the proxy may be started again. Then ask
        for the same texts again.
        """
        while True:
            wait_seconds = RETRY_SECONDS
            try:
                if (path := self._find()) is not None and await self._listen(path):
                    wait_seconds = REFUSED_SECONDS
            except OSError:  # it is gone
                pass
            except Exception as error:  # noqa: BLE001 - the page works without live news
                _log.error("live news cannot be received: %s", type(error).__name__)
                wait_seconds = REFUSED_SECONDS
            await asyncio.sleep(wait_seconds)

    async def _listen(self, path: str) -> bool:
        """Receive news until telemetry is gone; true if it refuses us.

        Raises:
            OSError: telemetry is gone.
            ValueError: it sent something that is not news.
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
