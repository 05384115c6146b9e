"""What is new in a call compared with the call that it continues, by digests of messages.

The system messages at the beginning of a request are compared separately: if they change, for
example because they have a date, the rest is not new because of that.

The common beginning of both histories is unchanged. If they have no common beginning, for example
because the client cut it, the unchanged part is the longest end of the earlier history that occurs
in the new one; messages before that, such as a summary, do not count as new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.page.api.messages import digest_message
from proxy.reading.call_order import is_system

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.reading.flat_messages import RecordedMessage


class Growth(NamedTuple):
    """What is new in a call.

    Attributes:
        new_from: the place of the first new message.
        unchanged: the places of unchanged messages.
        system_changed: the system messages differ.
    """

    new_from: int
    unchanged: range
    system_changed: bool


NOTHING_BEFORE: Final = Growth(0, range(0), system_changed=False)
"""First call of a conversation: every message is new."""


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
    """Find the longest end of `before` that occurs in `now`: where it ends there, and its length.

    Both are reversed, so that an end is a beginning. Gusfield's Z values (how much of a sequence's
    beginning occurs at each place) take time proportional to the length, even if a client repeats a
    message ten thousand times.
    """
    pattern, text = before[::-1], now[::-1]
    joined = [*pattern, None, *text]  # nothing equals the separator
    lengths = [0] * len(joined)
    start = end = 0  # the part furthest right that is known to equal a beginning
    best_end = best = 0
    for at in range(1, len(joined)):
        length = min(end - at, lengths[at - start]) if at < end else 0
        while at + length < len(joined) and joined[length] == joined[at + length]:
            length += 1
        lengths[at] = length
        if at + length > end:
            start, end = at, at + length
        place = at - len(pattern) - 1
        if place >= 0 and length and length >= best:  # of two, the one further ahead
            best_end, best = len(now) - place, length
    return best_end, best
