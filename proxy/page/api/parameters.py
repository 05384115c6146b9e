"""Parameters of a request to the API: the one place that reads them.

Rules:

1. A parameter that nobody asks for, comes twice, or has a value that cannot be followed is an
   error that names it, and what would be right. None is quietly passed over.
2. An empty value is none.
3. Times that do not say their zone are UTC: who asks may be anywhere.
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
"""The greatest number of the store."""

MAX_FILTER_CHARACTERS: Final = 4_096
"""A filter that somebody typed has some dozens."""

_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)

_SPAN_ID = re.compile(r"[0-9a-fA-F]{16}", re.ASCII)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Parameters:
    """The parameters of one request, and the parts of its path.

    Args:
        given: by name, as they came; a name may have come several times.
        path: the parts of the path that have a name.
        allowed: the names that may be there (rule 1).
        now_ns: the time, since the epoch.

    Raises:
        PageError: there is one that nobody asks for, or one that came twice.
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
        """Whether there is a filter, be it one that can be followed or not."""
        return bool(self.text("filter"))

    def text(self, name: str) -> str:
        """Read a text; an empty one where there is none."""
        return self._given.get(name, "")

    def number(self, name: str, default: int, *, least: int = 0, most: int = MAX_NUMBER) -> int:
        """Read a whole number.

        Raises:
            PageError: it is none, or out of its bounds.
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
            PageError: it is another one.
        """
        text = self.text(name) or words[0]
        if text not in words:
            raise PageError("parameter", f"{name} is one of {', '.join(words)}")
        return text

    def time_ns(self, name: str) -> int | None:
        """Read a time of ISO 8601, in nanoseconds since the epoch (rule 3); none where none is.

        Raises:
            PageError: it is none.
        """
        text = self.text(name)
        if not text:
            return None
        try:
            # Of nine digits behind the point, as the API writes them, six are read.
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
            PageError: it cannot be followed; the error has the position.
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
        """Read a part of the path that is a place in a list, or a number of the store.

        Raises:
            PageError: there is no such thing.
        """
        text = self._path[name]
        value = int(text) if _NUMBER.fullmatch(text) else MAX_NUMBER + 1
        if value > MAX_NUMBER:
            raise PageError("not_found", f"{text[:40]!a} is no number")
        return value

    def span_id(self, name: str = "id") -> str:
        """Read the id of a call, of the path or of the query.

        Raises:
            PageError: it is none.
        """
        text = self._path.get(name) or self.text(name)
        if not _SPAN_ID.fullmatch(text):
            raise PageError("parameter", f"{name} is a span id: 16 hexadecimal digits")
        return text.lower()
