"""Removes from texts the parts that clients add, remove, or change each time.

Conversations are compared without these (``docs/contract/conversations.md#c4``).
"""

from __future__ import annotations

import re
from typing import Final

__all__ = (
    "BILLING_MARK",
    "FORM_MARK",
    "REMINDER_MARK",
    "SYSTEM_ROLES",
    "compare_as",
    "without_reminders",
)

REMINDER_MARK: Final = "<system-reminder>"
"""The beginning of a block that programs put into a user's text; the user never said it.

Claude Code adds such blocks to a message and removes them between turns."""

_REMINDER: Final = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def without_reminders(text: str) -> str:
    """Remove reminders from a user's text; one without an end reaches to the end of the text.

    >>> without_reminders("<system-reminder>Mind the gap.</system-reminder>Fix it")
    'Fix it'
    """
    return _REMINDER.sub("", text) if REMINDER_MARK in text else text


FORM_MARK: Final = "Respond with "
"""The beginning of a message in which DSPy says what form the answer shall have. It stands behind
results of tools, and the next request does not have it."""

_FIELD: Final = r"`[^`]+`(?: \(must be [^`]*\))?"
_FIELDS: Final = f"{_FIELD}(?:, then {_FIELD})*"
_FORM: Final = re.compile(
    rf"{FORM_MARK}(?:"
    rf"the corresponding output fields, starting with the field {_FIELDS}"
    r", and then ending with the marker for `\[\[ ## completed ## \]\]`"
    rf"|a JSON object in the following order of fields: {_FIELDS}"
    r")\.\s*+"
)

SYSTEM_ROLES: Final = frozenset({"system", "developer"})

BILLING_MARK: Final = "x-anthropic-billing-header:"
"""The beginning of the line that tells Anthropic whom to bill. Claude Code puts it into a block of
the system prompt, mostly the first one, and it differs in every request."""

_THOUGHTS: Final = re.compile(
    r"\s*<(think|thinking|thoughts?|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE
)
_THOUGHTS_END: Final = "</think>"


def compare_as(text: str, role: str | None) -> str:
    """Return a text, or a part of one, in the form in which it is compared.

    >>> compare_as("<think>An easy one.</think>Yes", "assistant")
    'Yes'
    """
    if role == "user":
        return "" if _FORM.fullmatch(text) else without_reminders(text)
    if role == "assistant":
        return _without_thoughts(text)
    if role in SYSTEM_ROLES and text.startswith(BILLING_MARK):
        return text.partition("\n")[2]
    return text


def _without_thoughts(text: str) -> str:
    """Leave out the thoughts at the beginning of an assistant's text.

    Servers that do not know a model's tags send thoughts as text (``<think>`` of DeepSeek and Qwen,
    ``<thought>`` of Gemma), and clients remove them before they send the answer back. The first tag
    may be missing, because some prompts end with it.
    """
    found = _THOUGHTS.match(text)
    if found is not None:
        return text[found.end() :]
    _, mark, rest = text.partition(_THOUGHTS_END)
    return rest if mark else text
