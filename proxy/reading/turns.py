"""A conversation as its turns: what the user said, and the calls and tools that followed."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from proxy.reading.branch_sums import BranchSums, measure_row
from proxy.reading.record import SCHEMA_VERSION, build_summary_record, write_time
from proxy.reading.spent_time import build_time, is_step, measure_time
from proxy.reading.sum_members import build_step_sums
from telemetry.finding.where import ALL_ROWS
from telemetry.launch_labels import find_name
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codec.text.jsontext import JsonObject
    from proxy.reading.spent_time import SpentTime
    from telemetry.reading.calls import Calls
    from telemetry.reading.conversations import ConversationSums
    from telemetry.store.rows import SpanSummary

MAX_TURN_ROWS: Final = 2_000
"""The most calls and tools that are read, the first ones; a person reads no more."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """A turn: the user's words, and everything up to their next words.

    Attributes:
        number: from 1; ``None`` for calls of which it is not known.
        rows: its calls and tools, in the order in which they began.
    """

    number: int | None
    rows: list[SpanSummary] = field(default_factory=list)

    @property
    def calls(self) -> list[SpanSummary]:
        """The calls of the turn."""
        return [row for row in self.rows if is_call(row.columns.kind)]

    @property
    def asked(self) -> str | None:
        """The beginning of what the user said; ``None`` if that is not known."""
        return next((row.columns.preview for row in self.rows if row.columns.preview), None)

    @property
    def runs(self) -> list[int]:
        """The numbers of its runs, oldest first."""
        return [*dict.fromkeys(row.columns.run for row in self.rows if row.columns.run is not None)]

    def sum(self) -> BranchSums:
        """Sum it up, without sub-agents."""
        first, *others = map(measure_row, self.rows)
        for one in others:
            first.add(one)
        return first

    def measure(self) -> SpentTime:
        """Measure where its time went."""
        return measure_time(self.rows)


def read_turns(reader: Calls, number: int) -> tuple[list[Turn], bool]:
    """Read the turns of a conversation, and whether these are all.

    Raises:
        StoreError: the store cannot be read.
    """
    rows = reader.that(ALL_ROWS.also(conversation=number)).since(0)
    found = [*islice(filter(is_step, rows), MAX_TURN_ROWS + 1)]
    return list_turns(found[:MAX_TURN_ROWS]), len(found) <= MAX_TURN_ROWS


def list_turns(rows: Iterable[SpanSummary]) -> list[Turn]:
    """List the turns of calls and tools, in the order in which they began.

    A row that does not say its turn is in that of its run.
    """
    steps = sorted(rows, key=lambda row: (row.start_ns, row.seq))
    of_runs = {row.columns.run: row.columns.turn for row in steps if row.columns.turn is not None}
    of_runs.pop(None, None)
    turns: dict[int | None, Turn] = {}
    for row in steps:
        number = row.columns.turn
        if number is None:
            number = of_runs.get(row.columns.run)
        turns.setdefault(number, Turn(number=number)).rows.append(row)
    return [*turns.values()]


def build_conversation_record(
    sums: ConversationSums, turns: Sequence[Turn], sub_runs: Sequence[int], *, is_whole: bool
) -> JsonObject:
    """Build the record of a conversation with its turns."""
    return {
        "schema_version": SCHEMA_VERSION,
        **build_conversation(sums),
        "sub_runs": [*sub_runs],
        "complete": is_whole,
        "turns": [_build_turn(turn) for turn in turns],
    }


def build_conversation(sums: ConversationSums) -> JsonObject:
    """Build the record of a conversation, without its calls."""
    return {
        "number": sums.number,
        "session": sums.session,
        "client": sums.client,
        "launch": find_name(sums.launch),
        "models": sums.models,
        "runs": sums.runs,
        **build_step_sums(sums),
        "start_time": write_time(sums.start_ns),
        "end_time": write_time(sums.end_ns),
        "preview": sums.preview,
        "last_seq": sums.last_seq,
    }


def _build_turn(turn: Turn) -> JsonObject:
    sums = turn.sum()
    return {
        "turn": turn.number,
        "preview": turn.asked,
        "runs": turn.runs,
        "start_time": write_time(sums.start_ns),
        "end_time": write_time(sums.end_ns),
        "duration_ms": (sums.end_ns - sums.start_ns) / 1e6,
        "time": build_time(turn.measure()),
        **build_step_sums(sums),
        "spans": [build_summary_record(row) for row in turn.rows],
    }
