"""The header by which a client turns content off for one call."""

from __future__ import annotations

from typing import Final

_CONTENT_HEADER: Final = "x-spantap-content"


def asks_no_content(headers: tuple[tuple[str, str], ...]) -> bool:
    """Tell whether the client asks that no content of this call be recorded.

    Every value except ``on`` asks for that: a client that sends the header cares about it, so
    content is not recorded for a misspelt value.
    """
    for name, value in headers:  # noqa: SIM110 - a generator for each call costs twice as much
        if name == _CONTENT_HEADER and value.strip().lower() != "on":
            return True
    return False
