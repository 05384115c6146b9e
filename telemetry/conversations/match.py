"""A match: what a rule found, and which of the calls is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from telemetry.conversations.strangers import is_telling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telemetry.conversations.link import Rule
    from telemetry.conversations.memory import RememberedCall

__all__ = ("Match", "choose")


class Match(NamedTuple):
    """What a rule found.

    Attributes:
        depth: how many units of the history it covers.
        rule: which one.
        calls: those that may be meant.
    """

    depth: int
    rule: Rule
    calls: Sequence[RememberedCall]


def choose(match: Match) -> tuple[RememberedCall | None, bool]:
    """Choose the call that is meant, never by a coin toss; tell whether several may be.

    Of several it is the one that nobody continued yet, if that is one alone, and the caller's own.
    A stranger's that is found alone has to be telling.
    """
    calls = match.calls
    if len(calls) == 1:
        return (calls[0] if is_telling(calls[0], match.rule) else None), False
    left = [call for call in calls if not call.is_continued]
    if len(left) == 1 and not left[0].is_stranger:
        return left[0], False
    return None, True
