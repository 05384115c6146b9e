"""What is new in a call compared with the call that it continues, by digests of messages.

The answer of that call comes back in the request. It is new there, but not added: it was shown
already, with that call.

The system messages at the beginning of a request are compared separately: if they change, for
example because they have a date, the rest is not new because of that.

The common beginning of both histories is unchanged. If they have no common beginning, for example
because the client cut it, the unchanged part is the longest end of the earlier history that occurs
in the new one; messages before that, such as a summary, do not count as new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.reading.call import read_with_pictures
from proxy.reading.call_order import is_system
from proxy.reading.message_digests import digest_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.reading.call import RecordedCall
    from proxy.reading.flat_messages import RecordedMessage
    from telemetry.reading.calls import Calls


class Growth(NamedTuple):
    """What is new in a call.

    Attributes:
        new_from: the place of the first new message.
        unchanged: the places of unchanged messages.
        system_changed: the system messages differ.
        added_from: the place of the first message behind the answer before.
    """

    new_from: int
    unchanged: range
    system_changed: bool
    added_from: int


NOTHING_BEFORE: Final = Growth(0, range(0), system_changed=False, added_from=0)
"""First call of a conversation: every message is new."""

_FROM_ANOTHER: Final = frozenset({"sent_context", ""})
"""Relations of links that do not lead to an earlier call, but to the context that the upstream got
or to a caller's context."""


def read_call_of(reader: Calls, span_id: str) -> RecordedCall | None:
    """Read the call with a span id; ``None`` if there is no such call."""
    stored = reader.one(span_id)
    return None if stored is None else read_with_pictures(reader, stored)


def find_before(
    reader: Calls, call: RecordedCall, last: RecordedCall | None = None
) -> RecordedCall | None:
    """Find the call that `call` continues; ``None`` if it continues no call, or that one is gone.

    `last` is a call that was read before, and may be the one.
    """
    span = call.span
    for (_, span_id), relation in zip(span.links, span.relations, strict=False):
        if relation in _FROM_ANOTHER:
            continue
        if last is not None and last.summary.span_id == span_id:
            return last
        if (found := read_call_of(reader, span_id)) is not None:
            return found
    return None


def read_growth(call: RecordedCall, before: RecordedCall | None) -> Growth:
    """Find what is new in a call compared with the one that it continues, if there is one."""
    if before is None:
        return NOTHING_BEFORE
    return find_growth(call.input_messages, before.input_messages, before.output_messages)


def find_growth(
    now: Sequence[RecordedMessage],
    before: Sequence[RecordedMessage],
    answer: Sequence[RecordedMessage] = (),
) -> Growth:
    """Find what is new in the messages of a request; `answer` is that of the call before."""
    system, system_before = _count_system(now), _count_system(before)
    digests, digests_before = ([*map(digest_message, one)] for one in (now, before))
    changed = digests[:system] != digests_before[:system_before]
    history, history_before = digests[system:], digests_before[system_before:]
    common = _count_common(history, history_before)
    end, length = (common, common) if common else _find_end(history, history_before)
    new_from = system + end
    start = new_from - length if changed or length < end else 0
    shown = frozenset(map(digest_message, answer))
    added_from = new_from
    while added_from < len(now) and digests[added_from] in shown:
        added_from += 1
    return Growth(new_from, range(start, new_from), changed, added_from)


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
