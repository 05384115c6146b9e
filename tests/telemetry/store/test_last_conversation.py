"""The number from which conversations are counted on, after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from telemetry.facts import CallColumns
from telemetry.store.store import Store
from tests.telemetry.span_rows import make_rows

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.store.rows import SpanRow


def in_conversations(numbers: range, conversation: int | None) -> list[SpanRow]:
    """Rows of calls of a conversation."""
    columns = CallColumns(conversation=conversation)
    return [replace(row, columns=columns) for row in make_rows(numbers)]


def test_nothing_was_recorded(tmp_path: Path) -> None:
    """Counting begins."""
    with Store.open(tmp_path / "spans.db", delivers=False) as store:
        assert store.last_conversation() == 0


def test_no_conversation_is_above_the_number_of_spans(tmp_path: Path) -> None:
    """Also where those of the newest spans are old, and where spans have none."""
    with Store.open(tmp_path / "spans.db", delivers=False) as store:
        store.add(in_conversations(range(1, 6), 5))
        store.add(in_conversations(range(6, 9), 2))
        store.add(in_conversations(range(9, 12), None))
    with Store.open(tmp_path / "spans.db", delivers=False) as store:
        assert store.last_conversation() == 11


def test_numbers_of_spans_that_were_dropped_are_not_given_again(tmp_path: Path) -> None:
    """The newest spans tell how far they went."""
    with Store.open(tmp_path / "spans.db", delivers=False) as store:
        store.add(in_conversations(range(1, 3), 40))
        assert store.last_conversation() == 40
