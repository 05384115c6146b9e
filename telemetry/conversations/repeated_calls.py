"""Tool calls that come again in a run: the same tool, with the same arguments.

Arguments are the same if their items are (:mod:`codec.history_items`): neither the order of members
nor white space counts. Only digests of arguments are kept.
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
"""How many calls that came once are kept, the latest ones, in some 80 KB (R5): a call that is
repeated is repeated soon."""

MAX_REPEATED: Final = 64
"""How many calls that came again are counted (R5): a run that goes in circles repeats a few."""

MAX_TOLD: Final = 8
"""How many repeated calls are shown, the most frequent ones."""

MAX_NAME_CHARS: Final = 128
"""The longest name that is shown: OpenAI allows 64 characters, Anthropic 128."""

_KEY_BYTES: Final = 8

_SEEN_BYTES: Final = 150
_REPEATED_BYTES: Final = 1_000
"""The memory of a call of either kind, with its place in a table. All characters of a name may be
wide."""


class _Repeated(msgspec.Struct):
    name: str | None
    times: int


class RepeatedCalls(msgspec.Struct):
    """Counts the repeated tool calls of a run."""

    seen: dict[bytes, int] = {}
    repeated: dict[bytes, _Repeated] = {}

    def note(self, items: Iterable[HistoryItem], digests: Digests, *, shows_names: bool) -> None:
        """Note the calls of an answer.

        Args:
            items: the items of the answer.
            digests: makes the digests of the run.
            shows_names: the names of these calls may be shown.
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
        """The memory that the calls take, more or less."""
        return _SEEN_BYTES * len(self.seen) + _REPEATED_BYTES * len(self.repeated)

    def summarise(self) -> list[dict[str, object]]:
        """List the most frequent calls: the name, if it may be shown, and how often they came."""
        calls = sorted(self.repeated.values(), key=lambda call: -call.times)
        return [
            {"times": call.times} if call.name is None else {"name": call.name, "times": call.times}
            for call in calls[:MAX_TOLD]
        ]


def _read_name(item: HistoryItem) -> str | None:
    """Read the name of a call as text that can be written."""
    name = item.text.partition("\0")[0][:MAX_NAME_CHARS]
    return name.encode("utf-8", "replace").decode() or None
