"""Redaction: hides every text that the user's patterns find.

Patterns are searched by RE2, which takes time linear in the text for any pattern and text. All
finds of one of the user's patterns in one text together have a budget (:data:`MAX_LOOKED_CHARS`); a
text that uses it up is hidden whole. So no request can make a pattern hang the process. RE2 is
loaded only if there is a pattern. If it is not installed, the user's own patterns are refused at
start; the ready-made ones then use other code, which takes linear time too.

Each pattern searches the original text. Every find of any pattern is hidden; finds that overlap or
touch are hidden as one. In JSON each string is searched separately
(:mod:`telemetry.privacy.json_strings`); a pattern never sees quotes, braces and escapes around it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from heapq import merge
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from telemetry.attribute_values import clean_text
from telemetry.errors import ConfigurationError
from telemetry.privacy.json_strings import (
    MAX_NESTED_TEXTS,
    REDACTED,
    rewrite_strings,
    splice,
    unescape,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Finder = Callable[[str], Iterable[tuple[int, int]]]
    """Finds the pieces of a text to hide: their starts and ends, from the first to the last."""

_EMAIL: Final = r"[\p{L}\p{N}._%+'-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+"

_MIN_KEY_CHARS = 13
"""The shortest key that the following list finds."""

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
    r"\b(?i:bearer)\s+[A-Za-z0-9._~+/-]{16,}=*",  # RFC 6750
)
"""Keys and tokens by the forms that their makers give them. Each pattern ends with its repetition,
so the search is linear with ``re`` as well."""

_JWT: Final = r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
"""RFC 7519."""

# Addresses and tokens for Python's ``re``. Their form makes the search linear: they match a run of
# characters whole or not at all, and only from its beginning, so that no run is read once for each
# of its characters. RE2 is some hundred times as fast.
_USER: Final = r"[\w.%+'-]"
_HOST: Final = r"(?:[^\W_]|-)"
_EMAILS = re.compile(rf"(?<!{_USER})(?:{_USER}++@{_HOST}++(?:\.{_HOST}++)++)+")

_PART: Final = "[A-Za-z0-9_-]"
_TOKEN = re.compile(rf"(?<!{_PART})({_PART}++)\.eyJ{_PART}{{8,}}+\.{_PART}*+")
_TOKEN_BEGINS = re.compile(rf"\beyJ{_PART}{{8}}", re.ASCII)

_MIN_CARD_DIGITS = 13
_MAX_CARD_DIGITS = 19

_CARD = re.compile(r"[2-9][0-9]{12,18}")
"""The digits of a card's number (ISO/IEC 7812-1). 0 is for national use and 1 for airlines' own
cards: times in milliseconds and nanoseconds begin with a 1."""

_FIRST_GROUP = re.compile(r"[0-9]{4,}+")
_NEXT_GROUP = re.compile(r"[ -]([0-9]{1,15})(?![0-9])")
"""Matches the number of a card, whole or in groups; the first group has at least four digits."""

MAX_LOOKED_CHARS = 100_000_000
"""The most characters of one text that a pattern may read, which takes a third of a second. Each
find counts as if it had read the whole text."""

MAX_SHORT_CHARS = 64
"""Longest text whose result is kept for the next equal text: words, numbers, names."""

MAX_KEPT_TEXTS = 4_096
"""The number of results that are kept: half a megabyte."""

_SAMPLES = ("", "a")
"""A pattern that finds the empty string anywhere finds it in one of these texts: the first meets
all of RE2's conditions except the boundary of a word, and the second has one."""


class Redaction:
    """Hides the finds of patterns. Immutable.

    Args:
        patterns: RE2 patterns by name; the name is for messages.
        ready_made: names in :data:`READY_MADE`.

    Raises:
        ConfigurationError: a pattern cannot be read or finds the empty string, or a ready-made
            pattern is not known.
    """

    def __init__(self, patterns: Mapping[str, str], *, ready_made: Iterable[str] = ()) -> None:
        self._finders = [
            *(_ready_made_finder(name) for name in ready_made),
            *(_within_budget(_compile(name, pattern)) for name, pattern in patterns.items()),
        ]
        self._redact_short = lru_cache(MAX_KEPT_TEXTS)(self._redact_any)

    def redact_text(self, text: str) -> str:
        """Return a plain text without the finds of the patterns.

        A text with escapes that is not JSON, such as arguments that broke off, is also searched
        without its escapes. If something is found in that form, the text without escapes is
        returned.
        """
        return self._redact_short(text) if len(text) <= MAX_SHORT_CHARS else self._redact_any(text)

    def _redact_any(self, text: str) -> str:
        redacted = plain = self._redact(text)
        for _ in range(MAX_NESTED_TEXTS):
            escaped, plain = plain, unescape(plain)
            if plain == escaped:
                break
            if (found := self._redact(plain)) != plain:
                redacted = plain = found
        return redacted

    def redact_json(self, text: str) -> str:
        """Return a text, JSON or not, without the finds of the patterns.

        If they find nothing it is the same object.
        """
        return rewrite_strings(text, self.redact_text)

    def _redact(self, text: str) -> str:
        encodable = clean_text(text)  # a lone half of a surrogate pair has no UTF-8
        redacted = splice(encodable, self._find(encodable))
        return text if redacted is encodable else redacted

    def _find(self, text: str) -> Iterator[tuple[int, int, str]]:
        start = end = -1
        for first, last in merge(*(finder(text) for finder in self._finders)):
            if first > end:
                if start >= 0:
                    yield start, end, REDACTED
                start = first
            end = max(end, last)
        if start >= 0:
            yield start, end, REDACTED


def _load_re2() -> Any:
    """Import RE2; return ``None`` if it is not installed."""
    try:
        return import_module("re2")
    except ImportError:
        return None


def _compile(name: str, pattern: str) -> Finder:
    where = f"redaction pattern {name!r}"
    re2 = _load_re2()
    if re2 is None:
        raise ConfigurationError(
            f"{where} needs RE2, which is not installed for this Python: pip install google-re2"
        )
    options = re2.Options()
    options.log_errors = False  # they are raised
    try:
        compiled = re2.compile(pattern, options)
    except UnicodeError:
        raise ConfigurationError(f"{where} is not Unicode text") from None
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace")
        raise ConfigurationError(f"{where} is not an RE2 pattern: {reason}") from None
    if any(start == end for sample in _SAMPLES for start, end in _spans(compiled, sample)):
        raise ConfigurationError(f"{where} finds the empty string, which is everywhere")
    return lambda text: _spans(compiled, text)


def _within_budget(finder: Finder) -> Finder:
    """Make a finder of a pattern, with a budget for each text."""

    def find(text: str) -> Iterable[tuple[int, int]]:
        max_finds = MAX_LOOKED_CHARS // max(len(text), 1)
        found = list(islice(finder(text), max_finds + 1))  # ten thousand at most
        return [(0, len(text))] if len(found) > max_finds else found

    return find


def _spans(compiled: Any, text: str) -> Iterator[tuple[int, int]]:
    return (match.span() for match in compiled.finditer(text))


def _find_cards(text: str) -> Iterator[tuple[int, int]]:
    """Find numbers of cards, whole or in groups, also among other digits."""
    for group in _FIRST_GROUP.finditer(text):
        if end := _card_end(text, group):
            yield group.start(), end


def _card_end(text: str, first: re.Match[str]) -> int:
    """Find the end of the longest card number that begins with this group; 0 if there is none."""
    digits, group, end = first[0], first, 0
    while len(digits) <= _MAX_CARD_DIGITS:
        if _CARD.fullmatch(digits) and _passes_luhn(digits):
            end = group.end()
        following = _NEXT_GROUP.match(text, group.end())
        if following is None:
            break
        group = following
        digits += group[1]
    return end


def _passes_luhn(digits: str) -> bool:
    """Tell whether a number has the right check digit (ISO/IEC 7812-1, annex B)."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def _find_emails(text: str) -> Iterator[tuple[int, int]]:
    """Find addresses; several in a row without anything between them count as one."""
    return (found.span() for found in _EMAILS.finditer(text))


def _find_tokens(text: str) -> Iterator[tuple[int, int]]:
    """Find tokens that are JWT (RFC 7519)."""
    for found in _TOKEN.finditer(text):
        if begin := _TOKEN_BEGINS.search(text, found.start(1), found.end(1)):
            yield begin.start(), found.end()


_KEYS = re.compile("|".join(_API_KEYS), re.ASCII)


def _find_keys(text: str) -> Iterable[tuple[int, int]]:
    return merge((found.span() for found in _KEYS.finditer(text)), _find_tokens(text))


READY_MADE: Final[tuple[str, ...]] = ("email", "card", "api_key")
"""Patterns that the user only has to name."""


def _ready_made_finder(name: str) -> Finder:
    match name:
        case "email":
            find = _compile(name, _EMAIL) if _load_re2() else _find_emails
            return lambda text: find(text) if "@" in text else ()
        case "card":
            return lambda text: _find_cards(text) if len(text) >= _MIN_CARD_DIGITS else ()
        case "api_key":
            pattern = "|".join((*_API_KEYS, _JWT))
            find_keys = _compile(name, pattern) if _load_re2() else _find_keys
            return lambda text: find_keys(text) if len(text) >= _MIN_KEY_CHARS else ()
        case _:
            known = ", ".join(READY_MADE)
            raise ConfigurationError(
                f"there is no ready-made redaction pattern {name!r}, only {known}"
            )
