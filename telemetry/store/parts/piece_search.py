"""Searches spans that are stored in parts: each streak of pieces and each seam between two, once.

A span holds a text if one of its streaks of pieces does, or the bytes around a place where two
streaks meet, as far as the text may reach
(:attr:`telemetry.store.wanted_text.WantedText.reach`). A result for a streak, or for two that meet,
holds for all spans of a family that have them. Streaks that are shorter than the reach are searched
together with those after them. A span in which the text may reach further than usual is searched
whole.
"""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from telemetry.store.parts.part_reader import PartReader
from telemetry.store.parts.recipe import FAMILY_BITS, read_recipe

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from telemetry.store.wanted_text import WantedText

MAX_KNOWN: Final = 100_000
"""The most streaks whose result is remembered, for each text (R5): some 30 MB, with the seams.
Beyond that all are searched again. Each further call of an agent brings a dozen new ones."""


class PieceSearch:
    """Searches for texts; a span has to hold each of them."""

    def __init__(self, connection: sqlite3.Connection, wanted: Sequence[WantedText]) -> None:
        self._reader = PartReader(connection)
        self._wanted = wanted
        self._known: dict[int, list[_Known]] = {}  # by family, of each text
        self._count = 0

    def find(self, part: object, recipe: object) -> object:
        """Return the bytes of a span that holds the texts, ``None`` if it does not.

        Raises:
            sqlite3.Error: a part cannot be read.
        """
        streaks = read_recipe(recipe)
        if streaks is None or not isinstance(part, int):  # a disk damaged one
            return None
        family = part >> FAMILY_BITS
        if self._count > MAX_KNOWN:
            self._known.clear()
            self._count = 0
        if family not in self._known:
            self._known[family] = [_Known(text) for text in self._wanted]
        for known in self._known[family]:
            before = len(known.streaks)
            holds = known.find(self._reader, family, streaks)
            self._count += len(known.streaks) - before
            if not holds:
                return None
        return self._reader.read(part, recipe)


class _Known:
    """What is known of a family, about one text."""

    def __init__(self, text: WantedText) -> None:
        self._text = text
        self._across = text.reach - 1  # on either side of a place where two streaks meet
        self.streaks: set[int] = set()
        self._holding: set[object] = set()  # streaks, groups and meetings
        self._further: set[int] = set()  # streaks in which the text may reach further than usual
        self._short: dict[int, int] = {}  # streaks, with their sizes
        self._groups: set[object] = set()
        self._meetings: set[object] = set()

    def find(self, reader: PartReader, family: int, streaks: Sequence[int]) -> bool:
        """Tell whether a span of these streaks holds the text; false if it is damaged."""
        unknown = [*set(streaks).difference(self.streaks)]
        found = reader.read_streaks(family, unknown)
        if found is None:
            return False
        for streak, data in zip(unknown, found, strict=True):
            lowered = data.lower()
            if self._text.is_in(lowered):
                self._holding.add(streak)
            if self._text.may_reach_further(lowered):
                self._further.add(streak)
            if len(data) < self._across:
                self._short[streak] = len(data)
        self.streaks.update(unknown)
        if not self._holding.isdisjoint(streaks):
            return True
        if not self._further.isdisjoint(streaks):
            return self._look(b"".join(reader.read_streaks(family, streaks) or ()))
        groups = (
            [(streak,) for streak in streaks]
            if self._short.keys().isdisjoint(streaks)
            else self._group(streaks)
        )
        return self._is_across(reader, family, groups)

    def _group(self, streaks: Sequence[int]) -> list[tuple[int, ...]]:
        """Join short streaks with those after them, and the last ones with those before."""
        groups: list[tuple[int, ...]] = []
        begun: list[int] = []
        size = 0
        for streak in streaks:
            begun.append(streak)
            size += self._short.get(streak, self._across)
            if size >= self._across:
                groups.append((*begun,))
                begun, size = [], 0
        if begun:
            groups[-1:] = [(*chain(*groups[-1:]), *begun)]
        return groups

    def _is_across(
        self, reader: PartReader, family: int, groups: Sequence[tuple[int, ...]]
    ) -> bool:
        """Tell whether the text is inside a group, or where two of them meet."""
        wide = {group for group in groups if len(group) > 1}
        meetings = {*pairwise(groups)}
        for group in wide - self._groups:
            if self._look(b"".join(reader.read_streaks(family, group) or ())):
                self._holding.add(group)
        for meeting in meetings - self._meetings:
            before, behind = (b"".join(reader.read_streaks(family, one) or ()) for one in meeting)
            if self._across and self._look(before[-self._across :] + behind[: self._across]):
                self._holding.add(meeting)
        self._groups |= wide
        self._meetings |= meetings
        return not (self._holding.isdisjoint(wide) and self._holding.isdisjoint(meetings))

    def _look(self, data: bytes) -> bool:
        return self._text.is_in(data.lower())
