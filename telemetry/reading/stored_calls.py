"""The calls of a store that one proxy writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry.reading.calls import Calls
from telemetry.reading.sqlite.engine import SqliteEngine

if TYPE_CHECKING:
    from pathlib import Path


def open_calls(path: Path, *, is_kept: bool = False) -> Calls:
    """Open the store at `path` for reading, while its owner may be writing it.

    Args:
        path: of the store.
        is_kept: it is asked later whether these still are the calls at that path.

    Raises:
        StoreError: it cannot be read.
    """
    return Calls(SqliteEngine(path, is_kept=is_kept))
