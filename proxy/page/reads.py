"""Reads of the store for the page, on threads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from telemetry.store.reader import StoreReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ("Reads",)

P = ParamSpec("P")
T = TypeVar("T")


class Reads:
    """Reader of the store at `store`, which need not be there yet."""

    def __init__(self, store: Path) -> None:
        self._store = store

    async def run(
        self, function: Callable[Concatenate[StoreReader, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a function with a reader of the store, on a thread."""

        def read() -> T:
            with StoreReader(self._store) as reader:
                return function(reader, *args, **kwargs)

        return await asyncio.to_thread(read)

    async def close(self) -> None:
        """Let go of threads and readers; nothing is read any more."""
