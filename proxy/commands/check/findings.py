"""Findings of ``spantap check``, and how they are printed.

They are escaped, because they quote strangers, such as a backend or a certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TextIO

from proxy.escape import escape_line

if TYPE_CHECKING:
    from collections.abc import Iterable


class Verdict(StrEnum):
    """How bad a finding is."""

    GOOD = "good"
    NOTE = "note"
    """Everything works, but somebody should know this, or will have to act."""
    BAD = "bad"
    """``spantap serve`` would not start, or would not do what the settings say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The thing that was probed, its state, and how to mend it, if there is anything to do."""

    verdict: Verdict
    what: str
    words: str
    mend: str = ""


def good(what: str, words: str) -> Finding:
    """Make a finding with nothing to do."""
    return Finding(verdict=Verdict.GOOD, what=what, words=words)


def note(what: str, words: str, mend: str) -> Finding:
    """Make a finding that somebody should know."""
    return Finding(verdict=Verdict.NOTE, what=what, words=words, mend=mend)


def bad(what: str, words: str, mend: str) -> Finding:
    """Make a finding of something that must be mended."""
    return Finding(verdict=Verdict.BAD, what=what, words=words, mend=mend)


def print_findings(findings: Iterable[Finding], out: TextIO) -> bool:
    """Print findings as they come; return whether one of them was bad."""
    found_bad = False
    for finding in findings:
        found_bad |= finding.verdict is Verdict.BAD
        out.write(f"{finding.verdict:<5} {finding.what}: {escape_line(finding.words)}\n")
        if finding.mend:
            out.write(f"      -> {escape_line(finding.mend)}\n")
        out.flush()
    return found_bad
