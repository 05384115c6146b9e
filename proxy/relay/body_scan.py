"""Scans requests' bodies in parts, so that the loop can serve others between two parts.

Others wait for at most :data:`SCAN_BYTES` of one body, or for the parser to read a short one. That
holds whatever the body contains, however much of it comes at once, and however many bodies are
being scanned.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from codec.text.scan import MAX_WHOLE_BYTES, RequestScanner, scan_parsed

if TYPE_CHECKING:
    from codec.text.scan import BodyScan
    from proxy.headers import Head

SCAN_BYTES = 16 * 1024
"""The piece of a body that is scanned in one turn of the loop: usually 0.1 ms, some milliseconds if
it has as many members as may be followed."""


def may_be_long(headers: Head) -> bool:
    """Tell whether a body may be longer than what is scanned in one turn of the loop."""
    length = headers.find(b"content-length")
    return length is None or int(length) > MAX_WHOLE_BYTES


class BodyScans:
    """Scans the bodies of a worker's calls."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def scan(self, body: bytes, names: frozenset[str]) -> BodyScan:
        """Find the members of these names in a body."""
        scan = scan_parsed(body, names)
        if scan is None:
            scanner = RequestScanner(names)
            await self.feed(scanner, body)
            scan = scanner.finish()
        return scan

    async def feed(self, scanner: RequestScanner, data: bytes) -> None:
        """Scan the next part of a long body."""
        for start in range(0, len(data), SCAN_BYTES):
            async with self._turn:
                scanner.feed(data[start : start + SCAN_BYTES])
                await asyncio.sleep(0)
