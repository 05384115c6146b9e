"""Remembers for a while which models at which upstream take the option that asks for usage.

``docs/contract/promises.md#rejections`` has the promise: an outage costs one extra request, however
many requests come, and none is sent twice only to find out what is known already. At most
:data:`MAX_REMEMBERED` keys are remembered, for :data:`REMEMBERED_SECONDS`; the least recently used
go first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.clock import Clock

MAX_REMEMBERED = 1024
"""How many models of upstreams, with their paths, are remembered."""

MAX_KEY_BYTES = 2048
"""The longest target and model together. The client chooses both; real ones have about a hundred
bytes."""

REMEMBERED_SECONDS = 600
"""An upstream may accept the option one day; one extra request in ten minutes finds out."""

RejectionKey = tuple[str, str, bytes | None]
"""Upstream name, target with query, model as JSON text."""


class _Known(Enum):
    TAKES = auto()
    """It took a request with the option. A later refusal has another reason, unless it names the
    option."""
    REJECTS = auto()
    """It refused a request with the option and took it without. The option is not sent to it."""
    REFUSES = auto()
    """It refused a request with the option and without, so the option was not the reason. Meanwhile
    no refused request is sent there a second time."""
    QUOTES = auto()
    """It takes the option, and refused a request that has it with and without, each time naming the
    option: so it quotes requests, and the name in a refusal proves nothing."""


class Rejections:
    """What is known of the option, in an LRU cache. It belongs to one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[RejectionKey, tuple[_Known, int | None]] = OrderedDict()
        self._trials: dict[RejectionKey, asyncio.Future[None]] = {}

    def __contains__(self, key: RejectionKey) -> bool:
        """Whether the option is rejected there, so that it must not be sent."""
        return self._find(key) is _Known.REJECTS

    def add(self, key: RejectionKey) -> None:
        """Remember that the option was rejected, and the request taken without it."""
        self._keep(key, _Known.REJECTS)

    def note_taken(self, key: RejectionKey) -> None:
        """Remember that a request was taken with the option."""
        # If the option is rejected by now, a request that was sent earlier proves nothing.
        if self._find(key) not in {_Known.TAKES, _Known.REJECTS, _Known.QUOTES}:
            self._keep(key, _Known.TAKES)

    def note_refused(self, key: RejectionKey) -> None:
        """Remember a request that was refused naming the option, and again without it."""
        is_taken = self._find(key) in {_Known.TAKES, _Known.QUOTES}
        # If it never took the option, nobody knows the reason. To leave the option out is safe: no
        # request is sent twice.
        self._keep(key, _Known.QUOTES if is_taken else _Known.REJECTS)

    def is_quoted(self, key: RejectionKey) -> bool:
        """Tell whether a refusal there that names the option only quotes the request."""
        return self._find(key) is _Known.QUOTES

    def leaves_doubt(self, key: RejectionKey) -> bool:
        """Tell whether the option may be the reason of a refusal that does not name it."""
        is_kept = _size_bytes(key) <= MAX_KEY_BYTES
        return is_kept and self._find(key) not in {_Known.TAKES, _Known.REFUSES, _Known.QUOTES}

    async def wait_for_trial(self, key: RejectionKey) -> None:
        """Wait until no trial with this key runs, so that one trial answers for all."""
        while (trial := self._trials.get(key)) is not None:
            await asyncio.wait({trial})

    def begin_trial(self, key: RejectionKey) -> None:
        """Begin to find out whether a refused request is taken without the option."""
        self._trials[key] = asyncio.get_running_loop().create_future()

    def end_trial(self, key: RejectionKey, *, taken: bool | None) -> None:
        """End the trial: whether the request was taken; ``None`` if that is not known."""
        self._trials.pop(key).set_result(None)
        if taken is not None and self._find(key) not in {_Known.TAKES, _Known.QUOTES}:
            self._keep(key, _Known.REJECTS if taken else _Known.REFUSES)

    def _keep(self, key: RejectionKey, known: _Known) -> None:
        if _size_bytes(key) > MAX_KEY_BYTES:
            return
        until_ns = None
        if known is not _Known.TAKES:
            until_ns = self._clock.monotonic_ns() + REMEMBERED_SECONDS * 1_000_000_000
        self._known[key] = known, until_ns
        self._known.move_to_end(key)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)

    def _find(self, key: RejectionKey) -> _Known | None:
        found = self._known.get(key)
        if found is None:
            return None
        known, until_ns = found
        if until_ns is not None and until_ns <= self._clock.monotonic_ns():
            del self._known[key]
            return None
        self._known.move_to_end(key)
        return known


def _size_bytes(key: RejectionKey) -> int:
    _, target, model = key
    return len(target) + len(model or b"")
