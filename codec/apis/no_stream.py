"""The stream of an API that has none: what else an upstream sends as one is not an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.call import Said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.growing_text import GrowingText

__all__ = ("NoStream",)


class NoStream:
    """Reads nothing. It is made for any arguments, as :class:`codec.apis.api.OpenStream` has it."""

    chunk_count = 0
    has_content = False
    is_complete = False

    def __init__(self, **_: object) -> None:
        pass

    def feed(self, data: bytes) -> None:
        """Pass over a read."""

    def look(self) -> Sequence[GrowingText]:
        """Return no texts."""
        return ()

    def finish(self) -> Said:
        """Return an answer that says nothing."""
        return Said(anomalies=("foreign_chunk",))
