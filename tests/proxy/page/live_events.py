"""Server-sent events, read as a browser reads them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from codec.text.jsontext import decode_json_object

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    import aiohttp

    from tests.proxy.page.pages import Page


class Event(NamedTuple):
    """One event."""

    name: str
    data: dict[str, Any]
    seq: str | None


class Events:
    """The events of one stream.

    Attributes:
        seen: all that came so far.
    """

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.seen: list[Event] = []

    async def read(self) -> Event:
        """Read the next event."""
        fields: dict[str, str] = {}
        while line := (await self.answer.content.readline()).decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "event" in fields:
                event = Event(fields["event"], decode_json_object(fields["data"]), fields.get("id"))
                self.seen.append(event)
                return event
        raise EOFError

    async def until(
        self, name: str, wanted: Callable[[dict[str, Any]], bool] = lambda _: True
    ) -> dict[str, Any]:
        """Read on until there is such an event; its data."""
        async with asyncio.timeout(30):
            while True:
                event = await self.read()
                if event.name == name and wanted(event.data):
                    return event.data

    def texts(self) -> dict[int, str]:
        """All texts so far, by part, without a gap."""
        texts: dict[int, str] = {}
        for event in self.seen:
            if event.name == "hello":
                texts.clear()
            if event.name == "text":
                part = event.data["part"]
                assert event.data["at"] == len(texts.get(part, ""))
                texts[part] = texts.get(part, "") + event.data["text"]
        return texts


@contextlib.asynccontextmanager
async def watching(
    page: Page, headers: Mapping[str, str] | None = None, **asked: str
) -> AsyncIterator[Events]:
    """Watch a page."""
    async with page.session.get(f"{page.url}/api/live", params=asked, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        yield Events(answer)
