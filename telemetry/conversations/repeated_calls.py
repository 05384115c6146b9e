"""Tool calls that come again in a run: the same tool, with the same arguments.

Rules:

1. Of arguments digests are kept, and of at most :data:`MAX_SEEN` calls, the latest; at most
   :data:`MAX_REPEATED` that came again are counted (R5).
2. Arguments are the same as items are (:mod:`codec.history_items`): neither the order of members
   nor white space counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from codec.history_items import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codec.history_items import HistoryItem
    from codec.history_states import Digests

MAX_SEEN: Final = 512
"""Calls that came once, of which the latest are kept, some 80 KB: who repeats a call does it soon.
"""

MAX_REPEATED: Final = 64
"""Calls that came again and are counted: of a run that goes round in circles it is a few."""

MAX_TOLD: Final = 8
"""Repeated calls that are told, the most frequent."""

MAX_NAME_CHARS: Final = 128
"""Longest name that is told: OpenAI's and Anthropic's have 64 and 128 characters at most."""

_KEY_BYTES: Final = 8

_SEEN_BYTES: Final = 150
_REPEATED_BYTES: Final = 1_000
"""Memory of one of either, with its place in a table; of a name all characters may be wide."""


class _Repeated(msgspec.Struct):
    name: str | None
    times: int


class RepeatedCalls(msgspec.Struct):
    """Counts the calls of a run."""

    seen: dict[bytes, int] = {}
    repeated: dict[bytes, _Repeated] = {}

    def note(self, items: Iterable[HistoryItem], digests: Digests, *, shows_names: bool) -> None:
        """Note the calls of an answer.

        Args:
            items: of the answer.
            digests: of the run.
            shows_names: the names of these calls may be told.
        """
        for item in items:
            if item.kind != ItemKind.CALL:
                continue
            key = digests.make_of_item(item)[:_KEY_BYTES]
            if (known := self.repeated.get(key)) is not None:
                known.times += 1
            elif self.seen.pop(key, 0) and len(self.repeated) < MAX_REPEATED:
                self.repeated[key] = _Repeated(_read_name(item) if shows_names else None, 2)
            else:
                self.seen[key] = 1
                if len(self.seen) > MAX_SEEN:
                    del self.seen[next(iter(self.seen))]

    @property
    def held_bytes(self) -> int:
        """The memory that all of it takes, more or less."""
        return _SEEN_BYTES * len(self.seen) + _REPEATED_BYTES * len(self.repeated)

    def tell(self) -> list[dict[str, object]]:
        """Tell the most frequent ones: the name, where it may be told, and how often it came."""
        calls = sorted(self.repeated.values(), key=lambda call: -call.times)
        return [
            {"times": call.times} if call.name is None else {"name": call.name, "times": call.times}
            for call in calls[:MAX_TOLD]
        ]


def _read_name(item: HistoryItem) -> str | None:
    """Read the name of a call, as text that can be written."""
    name = item.text.partition("\0")[0][:MAX_NAME_CHARS]
    return name.encode("utf-8", "replace").decode() or None
