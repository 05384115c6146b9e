"""End markers that some servers leave in the text (``seeds.md`` S3.3).

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
    marked: StopReason | None = None
    for _ in range(MAX_MARKERS):
        found = next((m for m in END_MARKERS if text.endswith(m)), None)
        if found is None:
            break
        text = text.removesuffix(found)
        marked = marked or END_MARKERS[found]
    return text, marked or stop


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
        """Take a piece of text and return what cannot be a marker at the end."""
        self._held += text
        start = _start_of_markers(self._held)
        passed, self._held = self._held[:start], self._held[start:]
        return passed

    def finish(self) -> str:
        """Take the end of the text and return what was held back and is not a marker."""
        rest, self.stop = cut_end_markers(self._held, None)
        self._held = ""
        return rest


def _start_of_markers(text: str) -> int:
    """Return where the markers at the end of a text begin, the last of which may be unfinished."""
    start = len(text)
    for length in range(min(_LONGEST - 1, len(text)), 0, -1):
        if any(marker.startswith(text[-length:]) for marker in END_MARKERS):
            start = len(text) - length
            break
    for _ in range(MAX_MARKERS):
        found = next((m for m in END_MARKERS if text.endswith(m, 0, start)), None)
        if found is None:
            break
        start -= len(found)
    return start
