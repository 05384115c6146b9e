"""The differences between the versions that somebody wants, each with its reason."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ("WANTED", "Wanted", "leave_out")


class Wanted(NamedTuple):
    """A difference that is wanted.

    Attributes:
        where: matches the beginning of the name of what was asked.
        what: matches what is left out of both answers.
        why: for whoever reads the list.
    """

    where: str
    what: str
    why: str


WANTED: tuple[Wanted, ...] = (
    Wanted(
        where=r"page stats\?",
        what=r'"duration_ms": ?\{[^}]*\}',
        why="Percentiles were estimates from buckets, 480 ms for calls that all took 392. They are"
        " ranks now, the same as those of `spantap stats`.",
    ),
    Wanted(
        where=r"page stats\?",
        what=r'"cost_usd": ?[-+.\de]+(?=, ?"priced")',
        why="SQLite adds up the dollars of a sum, and Python did: the last digit may differ. Sums"
        " of `spantap stats` are compared to the digit.",
    ),
    Wanted(
        where=r"page stats\?",
        what=r'"output_tokens_per_second": ?[-+.\de]+',
        why="A damaged time to the first output counts as `spantap stats` counts it.",
    ),
    Wanted(
        where=r"page calls/",
        what=r"this part is (?:no picture of|not a picture of type) png"
        r"|this call (?:goes on from none|continues no other one)"
        r"|(?:others went on from|another call continued) the same call before",
        why="Errors and a note of the page are in plainer words.",
    ),
)


def leave_out(name: str, told: str) -> str:
    """Leave out of an answer all that may differ."""
    for wanted in WANTED:
        if re.match(wanted.where, name):
            told = re.sub(wanted.what, "", told)
    return told
