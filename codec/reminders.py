"""Reminders: what programs put into the user's text, which the user never said.

Claude Code adds blocks of ``<system-reminder>`` to a message and takes them away between turns
(``docs/contract/conversations.md#c4``).
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ("REMINDER_MARK", "without_reminders")

REMINDER_MARK: Final = "<system-reminder>"
"""What a block begins with: a text without it has none."""

_REMINDER: Final = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def without_reminders(text: str) -> str:
    """Leave the blocks out of a user's text; one that does not end goes up to the text's end.

    >>> without_reminders("<system-reminder>Mind the gap.</system-reminder>Fix it")
    'Fix it'
    """
    return _REMINDER.sub("", text) if REMINDER_MARK in text else text
