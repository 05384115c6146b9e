"""Remembers for a while which models at which upstream take the option that asks for usage.

Rules:

1. An upstream that refused a request with the option, and took it without, is not asked with it for
   :data:`REMEMBERED_SECONDS`: it rejects the option.
2. One that refused the request without it, too, did not mean the option. For as long no request is
   sent there a second time only to find that out: an outage costs it one more request, whatever
   comes meanwhile. What is refused while such a second request is under way waits for its end.
3. One that took the option once means something else by what it refuses later, unless it names the
   option.
4. One that refused a request by the option's name, and without the option as well, may have quoted
   the request: where the option was taken before, it did, and for as long its name says nothing.
   Elsewhere nobody knows, and the option is left out, so that no request goes up twice.
5. At most :data:`MAX_REMEMBERED` are remembered, and no key over :data:`MAX_KEY_BYTES`; those least
   recently used go first (``docs/contract/promises.md#rejections``).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.clock import Clock

MAX_REMEMBERED = 1024
"""Upstreams' models, with the paths that they are asked at."""

MAX_KEY_BYTES = 2048
"""Longest target and model: the client chooses both, and real ones take about a hundred."""

REMEMBERED_SECONDS = 600
"""An upstream may learn the option any day; one extra request per ten minutes finds out."""

RejectionKey = tuple[str, str, bytes | None]
"""Upstream name, target with query, model as JSON text."""


class _Known(Enum):
    TAKES = auto()  # the option
    REJECTS = auto()  # the option
    REFUSES = auto()  # the request, with and without it
    QUOTES = auto()  # the option, which it takes (rule 4)


class Rejections:
    """What is known, in an LRU. It belongs to one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[RejectionKey, tuple[_Known, int | None]] = OrderedDict()
        self._trials: dict[RejectionKey, asyncio.Future[None]] = {}

    def __contains__(self, key: RejectionKey) -> bool:
        """Whether the option is rejected there (rule 1)."""
        return self._find(key) is _Known.REJECTS

    def add(self, key: RejectionKey) -> None:
        """Remember that the option was rejected, and the request taken without it."""
        self._keep(key, _Known.REJECTS)

    def note_taken(self, key: RejectionKey) -> None:
        """Remember that a request was taken with the option (rule 3)."""
        # Where it is rejected by now, a request that went up before says nothing of the next.
        if self._find(key) not in {_Known.TAKES, _Known.REJECTS, _Known.QUOTES}:
            self._keep(key, _Known.TAKES)

    def note_refused(self, key: RejectionKey) -> None:
        """Remember that a refusal named the option, and that another came without it (rule 4)."""
        is_taken = self._find(key) in {_Known.TAKES, _Known.QUOTES}
        self._keep(key, _Known.QUOTES if is_taken else _Known.REJECTS)

    def is_quoted(self, key: RejectionKey) -> bool:
        """Tell whether a refusal there that names the option only quotes it (rule 4)."""
        return self._find(key) is _Known.QUOTES

    def leaves_doubt(self, key: RejectionKey) -> bool:
        """Tell whether a refusal there may mean the option though it does not name it."""
        is_kept = _size_bytes(key) <= MAX_KEY_BYTES
        return is_kept and self._find(key) not in {_Known.TAKES, _Known.REFUSES, _Known.QUOTES}

    async def wait_for_trial(self, key: RejectionKey) -> None:
        """Wait until no trial is under way there."""
        while (trial := self._trials.get(key)) is not None:
            await asyncio.wait({trial})

    def begin_trial(self, key: RejectionKey) -> None:
        """Begin to find out whether a refused request is taken without the option."""
        self._trials[key] = asyncio.get_running_loop().create_future()

    def end_trial(self, key: RejectionKey, *, taken: bool | None) -> None:
        """End it: the request was taken, or not; ``None`` where that was not found out."""
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
