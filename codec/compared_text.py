"""Leaves out of texts what is not compared: what clients put in, take out, or change each time.

Rules:

1. Of a user's text, reminders are left out: what programs put into it, which the user never said.
   Claude Code adds blocks of ``<system-reminder>`` to a message and takes them away between turns
   (``docs/contract/conversations.md#c4``).
2. Of a system text, the line is left out in which Claude Code tells Anthropic whom to bill. It
   begins ``x-anthropic-billing-header:``, is a block of the system prompt, mostly the first one,
   and differs in every request.
3. Of an assistant's text, the thoughts at its beginning are left out: servers that do not know a
   model's tags send them as text (``<think>`` of DeepSeek and Qwen, ``<thought>`` of Gemma), and
   clients take them out before they send the answer back. The first tag may be missing: some
   prompts end with it.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ("BILLING_MARK", "REMINDER_MARK", "SYSTEM_ROLES", "compare_as", "without_reminders")

REMINDER_MARK: Final = "<system-reminder>"
"""What a block begins with: a text without it has none."""

_REMINDER: Final = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def without_reminders(text: str) -> str:
    """Leave the blocks out of a user's text; one that does not end goes up to the text's end.

    >>> without_reminders("<system-reminder>Mind the gap.</system-reminder>Fix it")
    'Fix it'
    """
    return _REMINDER.sub("", text) if REMINDER_MARK in text else text


SYSTEM_ROLES: Final = frozenset({"system", "developer"})

BILLING_MARK: Final = "x-anthropic-billing-header:"

_THOUGHTS: Final = re.compile(
    r"\s*<(think|thinking|thoughts?|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE
)
_THOUGHTS_END: Final = "</think>"


def compare_as(text: str, role: str | None) -> str:
    """Return a text, or a part of one, as it is compared.

    >>> compare_as("<think>An easy one.</think>Yes", "assistant")
    'Yes'
    """
    if role == "user":
        return without_reminders(text)
    if role == "assistant":
        return _without_thoughts(text)
    if role in SYSTEM_ROLES and text.startswith(BILLING_MARK):
        return text.partition("\n")[2]
    return text


def _without_thoughts(text: str) -> str:
    found = _THOUGHTS.match(text)
    if found is not None:
        return text[found.end() :]
    _, mark, rest = text.partition(_THOUGHTS_END)
    return rest if mark else text
