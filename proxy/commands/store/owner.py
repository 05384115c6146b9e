"""The owner of a store, for commands that change it: the proxy that has it, or this process.

A store has one owner (:mod:`telemetry.store.lock`). If a proxy runs, it carries out the orders,
which come over its control socket; else the store is opened here, and is ours until the command
ends.
"""

from __future__ import annotations

import contextlib
import socket
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from proxy.processes.launch_channel import (
    MAX_LINE_BYTES,
    decode_line,
    encode_line,
    find_control_socket,
)
from proxy.processes.store_orders import CompactStore, DeleteSpans, Undone, carry_out
from telemetry.errors import StoreError, StoreLocked, StoreUnavailable
from telemetry.store.rows import CompactStep, DeleteStep
from telemetry.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from proxy.processes.launch_channel import LaunchMessage
    from proxy.processes.store_orders import StoreOrder

WAIT_SECONDS: Final = 10.0
"""How long to wait for an owner that is just starting or ending: the end of a proxy takes no longer
by default."""

LOOK_SECONDS: Final = 0.1
"""The time between two attempts."""

ANSWER_SECONDS: Final = 60.0
"""How long a step may take. It takes milliseconds, unless the disk is stuck."""

MAX_PAUSE_SECONDS: Final = 0.05
"""The longest pause between two steps."""


class StoreOwner:
    """Carries out orders, one short step at a time.

    A method raises :exc:`~telemetry.errors.StoreError` if nothing was done.

    Attributes:
        own: the store, if this process owns it; ``None`` if a proxy does.
    """

    def __init__(
        self, ask: Callable[[StoreOrder], LaunchMessage | None], own: Store | None = None
    ) -> None:
        self.own = own
        self._ask = ask

    def delete(self, seqs: Sequence[int]) -> DeleteStep:
        """Delete the first of these spans (:meth:`telemetry.store.store.Store.delete`)."""
        answer = self._give(DeleteSpans(seqs=tuple(seqs)))
        if isinstance(answer, DeleteStep):
            return answer
        raise _explain(answer)

    def compact(self, *, gives_back: bool) -> CompactStep:
        """Cut the log, and free room (:meth:`telemetry.store.store.Store.compact`)."""
        answer = self._give(CompactStore(gives_back=gives_back))
        if isinstance(answer, CompactStep):
            return answer
        raise _explain(answer)

    def _give(self, order: StoreOrder) -> LaunchMessage | None:
        """Give an order; again if the process that carries it out is just being restarted.

        So an order may be given twice.
        """
        if self.own is not None:
            return self._ask(order)
        deadline = time.monotonic() + WAIT_SECONDS
        while isinstance(answer := self._ask_proxy(order), Undone) and answer.may_pass:
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK_SECONDS)
        return answer

    def _ask_proxy(self, order: StoreOrder) -> LaunchMessage | None:
        """Give an order once, and then pause for as long as it took.

        The pause leaves at least half of the time to recording.

        Raises:
            StoreUnavailable: there is no answer.
        """
        began = time.monotonic()
        try:
            answer = self._ask(order)
        except OSError as error:
            why = str(error) or type(error).__name__
            raise StoreUnavailable(
                f"the proxy that has the store does not answer ({why})"
            ) from error
        time.sleep(min(time.monotonic() - began, MAX_PAUSE_SECONDS))
        return answer


@contextlib.contextmanager
def open_owner(store: Path) -> Iterator[StoreOwner]:
    """Find the owner of the store at `store`, or become it, as long as the block runs.

    Raises:
        StoreError: its owner takes no orders, or it cannot be opened.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        if (sock := _connect(store)) is not None:
            with sock, sock.makefile("rb") as lines:

                def ask(order: StoreOrder) -> LaunchMessage | None:
                    sock.sendall(encode_line(order))
                    return decode_line(lines.readline(MAX_LINE_BYTES))

                yield StoreOwner(ask)
                return
        try:
            opened = Store.open(store, delivers=False)
        except StoreLocked as error:
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"{error} (it takes no orders)") from error
            time.sleep(LOOK_SECONDS)
            continue
        with opened:
            yield StoreOwner(partial(carry_out, opened), opened)
            return


def _connect(store: Path) -> socket.socket | None:
    """Connect to the proxy that has the store; ``None`` if there is none."""
    if (control_socket := find_control_socket(store)) is None:
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(ANSWER_SECONDS)
        sock.connect(control_socket)
    except OSError:  # the proxy's processes were killed
        sock.close()
        return None
    return sock


def _explain(answer: LaunchMessage | None) -> StoreError:
    """Say why there is no answer to an order."""
    if isinstance(answer, Undone):
        return StoreUnavailable(answer.words)
    return StoreUnavailable(
        "the proxy that has the store takes no such order: it is another version, or just ending"
    )
