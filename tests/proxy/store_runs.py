"""Runs of ``spantap store`` in this process, by its command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from codec.text.jsontext import decode_json_object
from proxy.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

__all__ = ("RanStore", "StoreRunner")


class RanStore(NamedTuple):
    """What a run gave: its status, its output, and what else it said."""

    status: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """The JSON lines of its output."""
        return [decode_json_object(line) for line in self.out.splitlines()]


class StoreRunner:
    """Runs subcommands on one store."""

    def __init__(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.store = store
        self._capsys = capsys

    def __call__(self, *words: str) -> RanStore:
        """Run ``spantap store`` with these words."""
        self._capsys.readouterr()
        status = main(["store", *words, "--store", str(self.store)])
        return RanStore(status, *self._capsys.readouterr())
