"""What the user's own patterns find, hidden.

Rules:

1. Patterns are RE2's, which finds in time linear in the text whatever pattern and text are: no
   request can make one hang the process. RE2 is loaded only where there is a pattern.
2. Each pattern is looked for in the text as it came. What any of them finds is hidden; what
   overlaps is hidden as one.
3. In JSON each string is looked at for itself (:mod:`telemetry.privacy.json_strings`); a pattern
   never sees quotes, braces and escapes around it.
4. A text with escapes that is no JSON, such as arguments that broke off, is also looked at without
   them. Where something is found there, that is what stays of the text.
5. A pattern that cannot be read, or that finds the empty string, is refused at start.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from telemetry.attribute_values import clean_text
from telemetry.errors import ConfigurationError
from telemetry.privacy.json_strings import (
    MAX_NESTED_TEXTS,
    REDACTED,
    rewrite_strings,
    unescape,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Finder = Callable[[str], Iterable[tuple[int, int]]]
    """Where in a text something is to be hidden."""

__all__ = ("READY_MADE", "Redaction")

_EMAIL: Final = r"[\p{L}\p{N}._%+'-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+"

_API_KEYS: Final = (
    r"\bsk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic, OpenRouter, DeepSeek
    r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}",  # AWS
    r"\bAIza[A-Za-z0-9_-]{30,}",  # Google
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",  # GitHub
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{20,}",  # GitLab
    r"\b(?:gsk|hf|r8)_[A-Za-z0-9]{20,}",  # Groq, Hugging Face, Replicate
    r"\b(?:xai|pplx|csk|nvapi)-[A-Za-z0-9_-]{20,}",  # xAI, Perplexity, Cerebras, NVIDIA
    r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",  # JWT, RFC 7519
    r"\b(?i:bearer)\s+[A-Za-z0-9._~+/-]{16,}=*",  # RFC 6750
)
"""Keys and tokens by the forms that their makers give them."""

_CARD_DIGITS: Final = range(13, 20)
"""How long the number of a card is (ISO/IEC 7812-1)."""

_CARD_START = re.compile(r"[2-9]")
"""0 is for national use and 1 for airlines' own cards: times in ms and ns begin with a 1."""

_DIGITS_AND_SEPARATORS = re.compile(r"[0-9](?:[ -]?[0-9]){12,}+")
_DIGITS = re.compile(r"[0-9]+")

_MIN_FIRST_GROUP = 4
"""Digits of the first group of a card's number that is written in groups."""

_SAMPLES = ("", "a", "a b")
"""Texts in which a pattern for the empty string finds it: at the end, or at the bounds of words."""


class Redaction:
    """Patterns to look for, and what is done with what they find. Immutable.

    Args:
        patterns: RE2 patterns by name; the name is for messages.
        ready_made: names in :data:`READY_MADE`.

    Raises:
        ConfigurationError: a pattern cannot be taken (rule 5), or a ready-made one is not known.
    """

    def __init__(self, patterns: Mapping[str, str], *, ready_made: Iterable[str] = ()) -> None:
        self._finders = [
            *(_ready_made_finder(name) for name in ready_made),
            *(_compile(name, pattern) for name, pattern in patterns.items()),
        ]

    def redact_text(self, text: str) -> str:
        """A plain text without what the patterns find (rules 2 and 4)."""
        redacted = plain = self._redact(text)
        for _ in range(MAX_NESTED_TEXTS):
            escaped, plain = plain, unescape(plain)
            if plain == escaped:
                break
            if (found := self._redact(plain)) != plain:
                redacted = plain = found
        return redacted

    def redact_json(self, text: str) -> str:
        """A text, JSON or not, without what the patterns find (rule 3).

        Where they find nothing it is the very same text.
        """
        return rewrite_strings(text, self.redact_text)

    def _redact(self, text: str) -> str:
        encodable = clean_text(text)  # a lone half of a surrogate pair has no UTF-8
        found = sorted(span for finder in self._finders for span in finder(encodable))
        if not found:
            return text
        pieces: list[str] = []
        end = 0
        for start, stop in found:
            if start >= end:
                pieces += (encodable[end:start], REDACTED)
            end = max(end, stop)
        return "".join((*pieces, encodable[end:]))


def _compile(name: str, pattern: str) -> Finder:
    re2: Any = import_module("re2")  # rule 1
    options = re2.Options()
    options.log_errors = False  # they are raised
    where = f"redaction pattern {name!r}"
    try:
        compiled = re2.compile(pattern, options)
    except UnicodeError:
        raise ConfigurationError(f"{where} is no Unicode text") from None
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace")
        raise ConfigurationError(f"{where} is no RE2 pattern: {reason}") from None
    if any(start == end for sample in _SAMPLES for start, end in _spans(compiled, sample)):
        raise ConfigurationError(f"{where} finds the empty string, which is everywhere")
    return lambda text: (span for span in _spans(compiled, text) if span[0] < span[1])


def _spans(compiled: Any, text: str) -> Iterator[tuple[int, int]]:
    return (match.span() for match in compiled.finditer(text))


def _find_cards(text: str) -> Iterator[tuple[int, int]]:
    """Numbers of cards, whole or in groups, wherever they stand among other digits."""
    for run in _DIGITS_AND_SEPARATORS.finditer(text):
        groups = [group.span() for group in _DIGITS.finditer(text, *run.span())]
        first = 0
        while first < len(groups):
            count = _card_groups(text, groups[first : first + _CARD_DIGITS.stop])
            if count:
                yield groups[first][0], groups[first + count - 1][1]
            first += count or 1


def _card_groups(text: str, groups: list[tuple[int, int]]) -> int:
    """How many of the groups, from the first, are the number of a card; the most that can be."""
    digits, most = "", 0
    for count, (start, end) in enumerate(groups, 1):
        digits += text[start:end]
        if len(digits) >= _CARD_DIGITS.stop:
            break
        if len(digits) in _CARD_DIGITS and _CARD_START.match(digits) and _passes_luhn(digits):
            most = count
    first = groups[0][1] - groups[0][0]
    return most if first >= _MIN_FIRST_GROUP else 0


def _passes_luhn(digits: str) -> bool:
    """The check digit of ISO/IEC 7812-1, annex B."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


READY_MADE: Final[tuple[str, ...]] = ("email", "card", "api_key")
"""Patterns that need only be named."""


def _ready_made_finder(name: str) -> Finder:
    match name:
        case "email":
            return _compile(name, _EMAIL)
        case "card":
            return _find_cards
        case "api_key":
            return _compile(name, "|".join(_API_KEYS))
        case _:
            known = ", ".join(READY_MADE)
            raise ConfigurationError(
                f"there is no ready-made redaction pattern {name!r}, only {known}"
            )
