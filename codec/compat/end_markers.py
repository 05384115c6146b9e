"""End markers that some servers leave in the text (``docs/contract/sources.md#s3-3``).

They are cut from a copy of the text; what the client receives is never touched.
"""

from __future__ import annotations

from codec.compat.stop_reasons import StopReason

__all__ = ("END_MARKERS", "MAX_MARKERS", "EndMarkerFilter", "cut_end_markers")

END_MARKERS = {
    "<|eot_id|>": StopReason.END_OF_TURN,
    "<|eom_id|>": StopReason.END_OF_MESSAGE,
}
"""Llama's markers, and what each says."""

MAX_MARKERS = 64
"""How many at the end are cut. One is usual; a server that repeats its marker for ever must not
make us hold all of them."""

_LONGEST = max(map(len, END_MARKERS))


def cut_end_markers(text: str, stop: StopReason | None) -> tuple[str, StopReason | None]:
    """Cut the markers at the end of a choice's whole text; the last one overrides the reason."""
    whole = _start_of_markers(text, len(text))
    reasons = (reason for marker, reason in END_MARKERS.items() if text.endswith(marker))
    return text[:whole], next(reasons, stop)


class EndMarkerFilter:
    """Cuts end markers from the text of a stream, also one that comes in pieces.

    Attributes:
        stop: what the last marker at the end says, once :meth:`finish` was called.

    >>> markers = EndMarkerFilter()
    >>> [markers.feed(piece) for piece in ("Hi", "<|eot", "_id|>")], markers.finish(), markers.stop
    (['Hi', '', ''], '', <StopReason.END_OF_TURN: 'end_of_turn'>)
    """

    def __init__(self) -> None:
        self.stop: StopReason | None = None
        self._held = ""  # what may be markers at the end, less than one beyond whole ones

    def feed(self, text: str) -> str:
        """Feed a piece of text and return what cannot be a marker at the end."""
        self._held += text
        start = _start_of_markers(self._held, _start_of_unfinished(self._held))
        passed, self._held = self._held[:start], self._held[start:]
        return passed

    def finish(self) -> str:
        """End the text and return what was held back and is not a marker."""
        rest, self.stop = cut_end_markers(self._held, None)
        self._held = ""
        return rest


def _start_of_unfinished(text: str) -> int:
    """Return where an unfinished marker at the end of a text begins."""
    longest = min(_LONGEST - 1, len(text))
    ends = (text[-length:] for length in range(longest, 0, -1))
    begun = (end for end in ends if any(marker.startswith(end) for marker in END_MARKERS))
    return len(text) - len(next(begun, ""))


def _start_of_markers(text: str, end: int) -> int:
    """Return where the whole markers before a place in a text begin."""
    for _ in range(MAX_MARKERS):
        found = next((marker for marker in END_MARKERS if text.endswith(marker, 0, end)), "")
        end -= len(found)
    return end
