"""What a store's owner is asked to do by others, and how it goes.

Rules:

1. An order is one short step (:mod:`telemetry.store.deletion`), so that recording never waits long.
   Who wants more gives the next order when the answer has come.
2. An order may be given again: spans that are gone stay so, and no number is given twice.
3. The same values travel from the command to the supervisor, through its door
   (:mod:`proxy.processes.launch_link`), and from there to telemetry, which owns the store.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Annotated

import msgspec

from telemetry.errors import StoreError
from telemetry.store.rows import CompactStep, DeleteStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.store.store import Store

_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""What SQLite can compare."""


class DeleteSpans(msgspec.Struct, frozen=True, kw_only=True, tag="delete_spans"):
    """Delete the first of the spans with these numbers, as many as one step may."""

    seqs: tuple[_Number, ...]


class CompactStore(msgspec.Struct, frozen=True, kw_only=True, tag="compact_store"):
    """Cut the write-ahead log to nothing and, if asked, give some free pages to the disk."""

    gives_back: bool


class Undone(msgspec.Struct, frozen=True, kw_only=True, tag="undone"):
    """An order was not carried out.

    Attributes:
        words: why, a sentence without its end.
        may_pass: whoever carries orders out is just being started again.
    """

    words: str
    may_pass: bool = False


StoreOrder = DeleteSpans | CompactStore

StoreAnswer = DeleteStep | CompactStep | Undone


def carry_out(store: Store, order: StoreOrder) -> StoreAnswer:
    """Do what the owner of a store is asked to do; whatever fails is an answer, too."""
    try:
        if isinstance(order, DeleteSpans):
            return store.delete(order.seqs)
        return store.compact(gives_back=order.gives_back)
    except StoreError as error:
        return Undone(words=str(error))
    except Exception as error:  # noqa: BLE001 - who asked waits for an answer
        return Undone(words=f"the store could not do it: {type(error).__name__}")


class OrderTaker:
    """Carries orders out on a thread of its own, one after the other: the store may be slow.

    Args:
        store: its owner.
        answer: told how each order went, on that thread.
    """

    def __init__(self, store: Store, answer: Callable[[StoreAnswer], None]) -> None:
        self._store = store
        self._answer = answer
        # The supervisor waits for an answer before it gives the next order: one at a time.
        self._orders: queue.SimpleQueue[StoreOrder] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def take(self, order: StoreOrder) -> None:
        """Have an order carried out; for one thread. The first one starts ours."""
        self._orders.put(order)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="spantap-orders", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._answer(carry_out(self._store, self._orders.get()))
