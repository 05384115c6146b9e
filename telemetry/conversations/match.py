"""A match: what a rule found, and which of the calls is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from telemetry.conversations.strangers import is_telling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telemetry.conversations.link import Rule
    from telemetry.conversations.memory import Origin, RememberedCall


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


def choose(match: Match, origin: Origin) -> tuple[RememberedCall | None, bool]:
    """Choose the call that is meant, never by a coin toss; tell whether several may be.

    Of several it is the one that nobody continued yet, if that is one alone, and the caller's own.
    A stranger's that is found alone has to be telling, and so has one whose conversation has
    another name. Those come first whose conversation has the name that the client gives this one,
    or none as well.

    Args:
        match: what was found.
        origin: of the call that goes on, with the name that its client gives.
    """
    calls = leave_out_names(match.calls, origin)
    if not calls:
        calls = [call for call in match.calls if is_telling(call, match.rule)]
    calls = [call for call in calls if have_one_name(call.origin, origin)] or calls
    if not calls:
        return None, False
    if len(calls) == 1:
        is_meant = not calls[0].is_stranger or is_telling(calls[0], match.rule)
        return (calls[0] if is_meant else None), False
    left = [call for call in calls if not call.is_continued]
    if len(left) == 1 and not left[0].is_stranger:
        return left[0], False
    return None, True


def leave_out_names(calls: Sequence[RememberedCall], origin: Origin) -> list[RememberedCall]:
    """Leave out the calls whose conversation has another name than the client gives this one."""
    return [call for call in calls if not have_other_names(call.origin, origin)]


def have_other_names(one: Origin, other: Origin) -> bool:
    """Tell whether clients name the conversations of both calls, and not alike."""
    return not have_one_name(one, other) and None not in {_find_name(one), _find_name(other)}


def have_one_name(one: Origin, other: Origin) -> bool:
    """Tell whether clients give the conversations of both calls one name, or none."""
    return _find_name(one) == _find_name(other)


def _find_name(origin: Origin) -> str | None:
    """Find how the client names the conversation of a call."""
    return None if origin.source == "inferred" else origin.session
