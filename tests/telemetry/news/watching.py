"""One who watches a service, without a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec._version import __version__
from telemetry.news.feed import Feed
from telemetry.news.messages import Hello, Said, Watch, decode_news

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telemetry.news.messages import News
    from telemetry.service import TelemetryService


class Watching:
    """A watcher of all calls of a service that are fed to it itself.

    Attributes:
        raw: all lines that it got so far.
    """

    def __init__(self, service: TelemetryService, *, texts: Sequence[str] = ()) -> None:
        self.service = service
        self.feed = Feed()
        self.reporter = service.report_to(lambda: [service._own])
        self.raw = b""
        self.want(*texts)
        self.reporter.join(self.feed)

    def want(self, *texts: str, again: Sequence[str] = ()) -> None:
        """Ask for the texts of these calls."""
        self.feed.watches.append(Watch(version=__version__, texts=texts, again=tuple(again)))

    def look(self) -> list[News]:
        """Look twice, for a call is told of when it is seen again, and read the news."""
        self.reporter.look()
        self.reporter.look()
        return self.read()

    def read(self) -> list[News]:
        """Read the news since the last time."""
        taken = self.feed.take(1 << 30)
        self.raw += taken
        news = [decode_news(line) for line in taken.splitlines()]
        assert None not in news
        return [one for one in news if one is not None]

    def read_texts(self) -> dict[int, str]:
        """Look, and read the texts that are new, by their part; nothing may be missing."""
        texts: dict[int, str] = {}
        for one in self.look():
            if isinstance(one, Said):
                texts[one.part] = texts.get(one.part, "") + one.text
        return texts

    def read_hello(self) -> Hello:
        """Read the first word."""
        hello, *_ = self.read()
        assert isinstance(hello, Hello)
        return hello
