"""What is live, as the status tells it."""

from __future__ import annotations

from typing import Final, NamedTuple


class LiveState(NamedTuple):
    """What is live.

    Attributes:
        live: a proxy tells what is under way.
        live_text: and texts as they come.
        lost: spans that were given up or lost since the proxy began; ``None`` where nobody knows.
    """

    live: bool
    live_text: bool
    lost: int | None


NOT_LIVE: Final = LiveState(live=False, live_text=False, lost=None)
