"""What is new in a call, beside the call that it goes on from: told by digests of messages.

Rules:

1. The system messages that a request begins with stand apart: where they change, as a date in them
   does, the rest is not new for that.
2. What both histories begin with is unchanged. Where they begin with nothing in common, as after
   the beginning was cut, it is the longest end of the one before that comes again; what stands
   before that in the new one, as a summary, is taken as known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.page.api.messages import digest_message
from proxy.reading.call_order import is_system

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.reading.flat_messages import RecordedMessage

__all__ = ("NOTHING_BEFORE", "Growth", "find_growth")


class Growth(NamedTuple):
    """What is new.

    Attributes:
        new_from: the place of the first new message.
        unchanged: places of those that are not, from the first to before the last.
        system_changed: the system messages are others.
    """

    new_from: int
    unchanged: range
    system_changed: bool


NOTHING_BEFORE: Final = Growth(0, range(0), system_changed=False)
"""All is new: nothing was before."""


def find_growth(now: Sequence[RecordedMessage], before: Sequence[RecordedMessage]) -> Growth:
    """Find what is new."""
    system, system_before = _count_system(now), _count_system(before)
    digests, digests_before = ([*map(digest_message, one)] for one in (now, before))
    changed = digests[:system] != digests_before[:system_before]
    history, history_before = digests[system:], digests_before[system_before:]
    common = _count_common(history, history_before)
    end, length = (common, common) if common else _find_end(history, history_before)
    new_from = system + end
    start = new_from - length if changed or length < end else 0
    return Growth(new_from, range(start, new_from), changed)


def _count_system(messages: Sequence[RecordedMessage]) -> int:
    return next((at for at, one in enumerate(messages) if not is_system(one)), len(messages))


def _count_common(now: Sequence[str], before: Sequence[str]) -> int:
    pairs = enumerate(zip(now, before, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(now), len(before)))


def _find_end(now: Sequence[str], before: Sequence[str]) -> tuple[int, int]:
    """Find where the longest end of `before` that comes again ends in `now`, and its length."""
    best_end = best = 0
    for at, digest in enumerate(now):
        if before and digest == before[-1]:
            length = 1
            while length < min(at + 1, len(before)) and now[at - length] == before[-1 - length]:
                length += 1
            if length > best:
                best_end, best = at + 1, length
    return best_end, best
