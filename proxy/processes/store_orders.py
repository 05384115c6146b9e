"""Orders that others give to the owner of a store, and the answers.

A command sends an order to the supervisor, over its control socket
(:mod:`proxy.processes.launch_channel`), which sends it to telemetry, the owner of the store. An
order is one short step (:mod:`telemetry.store.deletion`), so that recording never waits long; for
the next step the command gives another order, after the answer. An order may be repeated: deleted
spans stay deleted, and their numbers are not used again.
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
"""The numbers that SQLite can compare."""


class DeleteSpans(msgspec.Struct, frozen=True, kw_only=True, tag="delete_spans"):
    """Delete spans with these numbers: the first ones, as many as one step may delete."""

    seqs: tuple[_Number, ...]


class CompactStore(msgspec.Struct, frozen=True, kw_only=True, tag="compact_store"):
    """Cut the write-ahead log to nothing and, if asked, give some free pages to the disk."""

    gives_back: bool


class Undone(msgspec.Struct, frozen=True, kw_only=True, tag="undone"):
    """An order was not carried out.

    Attributes:
        words: the reason, a sentence without a full stop.
        may_pass: the process that carries out orders is just being restarted.
    """

    words: str
    may_pass: bool = False


StoreOrder = DeleteSpans | CompactStore

StoreAnswer = DeleteStep | CompactStep | Undone


def carry_out(store: Store, order: StoreOrder) -> StoreAnswer:
    """Carry out an order for the store; a failure is an answer too."""
    try:
        if isinstance(order, DeleteSpans):
            return store.delete(order.seqs)
        return store.compact(gives_back=order.gives_back)
    except StoreError as error:
        return Undone(words=str(error))
    except Exception as error:  # noqa: BLE001 - a command waits for the answer
        return Undone(words=f"the store could not do it: {type(error).__name__}")


class OrderTaker:
    """Carries out orders on a separate thread, one after another: the store may be slow.

    Args:
        store: the store that we own.
        answer: called on that thread with the answer to each order.
    """

    def __init__(self, store: Store, answer: Callable[[StoreAnswer], None]) -> None:
        self._store = store
        self._answer = answer
        # The supervisor waits for an answer before it gives the next order: one at a time.
        self._orders: queue.SimpleQueue[StoreOrder] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def take(self, order: StoreOrder) -> None:
        """Queue an order, always from the same thread; the first order starts our thread."""
        self._orders.put(order)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="spantap-orders", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._answer(carry_out(self._store, self._orders.get()))
