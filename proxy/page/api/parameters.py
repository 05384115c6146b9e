"""Reads the parameters of a request to the API.

A parameter that does not exist, comes twice, or has a wrong value is an error, which names it and
what would be right; no parameter is ignored. An empty value counts as no value.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from proxy.page.errors import PageError
from telemetry.errors import FilterError
from telemetry.finding.filter import Filter, parse_filter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_NUMBER: Final = (1 << 63) - 1
"""The largest number in the store."""

MAX_FILTER_CHARACTERS: Final = 4_096
"""The longest filter; one that somebody typed has some dozens of characters."""

_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)

_SPAN_ID = re.compile(r"[0-9a-fA-F]{16}", re.ASCII)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Parameters:
    """The parameters of one request, and the parts of its path.

    Args:
        given: names and values as they came; a name may have come several times.
        path: the named parts of the path.
        allowed: the names of parameters that this path has.
        now_ns: the time, since the epoch.

    Raises:
        PageError: a parameter does not exist, or came twice.
    """

    def __init__(
        self,
        given: Sequence[tuple[str, str]],
        path: Mapping[str, str],
        allowed: Sequence[str],
        now_ns: int,
    ) -> None:
        self.now_ns = now_ns
        self._path = path
        self._given: dict[str, str] = {}
        for name, value in given:
            if name not in allowed:
                known = ", ".join(allowed) or "none"
                raise PageError("parameter", f"there is no parameter {name[:40]!a} here: {known}")
            if name in self._given:
                raise PageError("parameter", f"{name} came twice")
            self._given[name] = value

    @property
    def has_filter(self) -> bool:
        """Whether there is a filter, right or wrong."""
        return bool(self.text("filter"))

    def text(self, name: str) -> str:
        """Read a text; empty if there is none."""
        return self._given.get(name, "")

    def number(self, name: str, default: int, *, least: int = 0, most: int = MAX_NUMBER) -> int:
        """Read a whole number.

        Raises:
            PageError: it is not a number, or out of bounds.
        """
        text = self.text(name)
        if not text:
            return default
        value = int(text) if _NUMBER.fullmatch(text) else None
        if value is None or not least <= value <= most:
            raise PageError("parameter", f"{name} is a whole number from {least} to {most}")
        return value

    def word(self, name: str, words: Sequence[str]) -> str:
        """Read one of some words, by default the first.

        Raises:
            PageError: it is another word.
        """
        text = self.text(name) or words[0]
        if text not in words:
            raise PageError("parameter", f"{name} is one of {', '.join(words)}")
        return text

    def time_ns(self, name: str) -> int | None:
        """Read a time of ISO 8601, in nanoseconds since the epoch; ``None`` if there is none.

        A time without a zone is UTC, because the client may be anywhere.

        Raises:
            PageError: it is not a time.
        """
        text = self.text(name)
        if not text:
            return None
        try:
            # Of nine digits after the point, as the API writes them, Python reads six.
            moment = datetime.fromisoformat(re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text))
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            since = moment - _EPOCH
        except (ValueError, OverflowError):
            raise PageError("parameter", f"{name} is a time such as 2026-11-26T14:03:00Z") from None
        rest = re.search(r"\.[0-9]{6}([0-9]{1,3})", text)
        nanoseconds = int(rest[1].ljust(3, "0")) if rest else 0
        seconds = since.days * 86_400 + since.seconds
        value = seconds * 1_000_000_000 + since.microseconds * 1_000 + nanoseconds
        return max(-MAX_NUMBER, min(value, MAX_NUMBER))

    def filter(self, name: str = "filter") -> Filter:
        """Read a filter.

        Raises:
            PageError: it is wrong; the error has the position.
        """
        text = self.text(name)
        if len(text) > MAX_FILTER_CHARACTERS:
            raise PageError("parameter", f"{name} has at most {MAX_FILTER_CHARACTERS} characters")
        try:
            return parse_filter(text, now_ns=self.now_ns, zone=UTC)
        except FilterError as error:
            raise PageError("filter", str(error), position=error.position) from None

    def part(self, name: str) -> str:
        """Return a part of the path."""
        return self._path[name]

    def index(self, name: str) -> int:
        """Read a part of the path that is a place in a list, or a number in the store.

        Raises:
            PageError: it is not such a number.
        """
        text = self._path[name]
        value = int(text) if _NUMBER.fullmatch(text) else MAX_NUMBER + 1
        if value > MAX_NUMBER:
            raise PageError("not_found", f"{text[:40]!a} is not a number")
        return value

    def span_id(self, name: str = "id") -> str:
        """Read the id of a call, from the path or the query.

        Raises:
            PageError: it is not a span id.
        """
        text = self._path.get(name) or self.text(name)
        if not _SPAN_ID.fullmatch(text):
            raise PageError("parameter", f"{name} is a span id: 16 hexadecimal digits")
        return text.lower()
