"""Transcripts of what the user said that are still to come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.members import list_of, object_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.text.jsontext import JsonObject

__all__ = ("WAIT_NS", "AwaitedTranscripts")

WAIT_NS: Final = 5_000_000_000
"""How long a transcript is waited for. In recorded sessions it comes within two seconds."""

_MAX_AWAITED: Final = 32
"""The most transcripts that are waited for; in a conversation they come one after the other."""


class AwaitedTranscripts:
    """The items that will get a transcript.

    Attributes:
        until_ns: until when each is waited for, by the item's id.
    """

    __slots__ = ("until_ns",)

    def __init__(self) -> None:
        self.until_ns: dict[str, int] = {}

    def expect(self, item: JsonObject, settings: Mapping[str, Any], at_ns: int) -> None:
        """Wait for the transcript of an item, if the session's settings ask for one."""
        heard = object_of(object_of(settings.get("audio")).get("input"))
        is_wanted = heard.get("transcription") or settings.get("input_audio_transcription")
        item_id = text_of(item.get("id"))
        if not is_wanted or item_id is None:
            return
        parts = (object_of(part) for part in list_of(item.get("content")))
        if any(it.get("type") == "input_audio" and it.get("transcript") is None for it in parts):
            self.until_ns[item_id] = at_ns + WAIT_NS
            if len(self.until_ns) > _MAX_AWAITED:
                self.end(next(iter(self.until_ns)))

    def end(self, item_id: Any) -> None:
        """Note that the transcript came, or will not come."""
        self.until_ns.pop(text_of(item_id) or "", None)

    def find_wait(self, items: Sequence[Any], at_ns: int) -> int:
        """Find until when the transcripts of these items may come; 0 if none is to come."""
        if not self.until_ns:
            return 0
        names = (text_of(object_of(item).get("id")) or "" for item in items)
        until_ns = max((self.until_ns.get(name, 0) for name in names), default=0)
        return until_ns if until_ns > at_ns else 0
