"""What ``spantap run`` says of a command that ended without a recorded call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.launches.variables import read_variables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.interception.interception import InterceptReport
    from proxy.launches.resolving import Resolved

MAX_NAMED = 4
"""How many variables and hosts are named: the sentence fits in a few lines of a terminal."""

_ANY_OTHER = (
    "start it with --intercept, or find out where it reads its base URL; "
    "`spantap help run` lists the variables"
)

_NOT_OBSERVED = (
    "see `spantap help apis`; what it asked of the opened hosts is no API that is observed"
)


class NoCall(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a command that made no call.

    Attributes:
        program: its name.
        given: what it was given: variables, or flags.
        advice: what to try next.
    """

    program: str
    given: tuple[str, ...] = ()
    advice: str = _ANY_OTHER

    @classmethod
    def of(cls, resolved: Resolved, fitted: Iterable[str], summary: str) -> NoCall:
        """Build it of a command, the variables that were set for it, and what else was changed."""
        variables = {row.name for row in read_variables()}
        program, fitted = resolved.program, tuple(name for name in fitted if name in variables)
        if program is None:
            return cls(program=resolved.name, given=fitted)
        read = tuple(name for name in program.reads if name in fitted)
        given = (*read, summary) if summary else read
        return cls(program=resolved.name, given=given, advice=program.advice)

    def after(self, report: InterceptReport) -> NoCall:
        """Fit the advice to what interception has seen of the command."""
        return msgspec.structs.replace(self, advice=_NOT_OBSERVED) if report.opened else self

    def describe(self) -> str:
        """Say it in one line."""
        words = "no call is recorded: none came through, or sampling left it out. "
        given = name_some(self.given, "variables") if self.given else "no variable that it reads"
        words += f"{self.program} was given {given}. "
        return f"{words}To try next: {self.advice}"


def name_some(names: tuple[str, ...], kind: str) -> str:
    """Name some of them.

    >>> name_some(("a", "b"), "hosts"), name_some(("a", "b", "c", "d", "e", "f"), "hosts")
    ('a and b', 'a, b, c, d and 2 more hosts')
    """
    *before, last = names[:MAX_NAMED]
    if rest := len(names) - MAX_NAMED if len(names) > MAX_NAMED else 0:
        before, last = [*before, last], f"{rest} more {kind}"
    return f"{', '.join(before)} and {last}" if before else last
