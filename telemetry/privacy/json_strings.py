"""Rewrites the strings of a JSON text in place.

Every string is rewritten. This includes the names of members, every member if several have one name
(a parser would keep only the last), and the strings inside a string that is itself a JSON object or
array, such as the arguments of tools. Everything else stays as it was, character by character:
white space, escapes, numbers. A text that is not a JSON object, array or string counts as one
string.
"""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING, Final

from codec.text.jsontext import decode_json, encode_json, is_json
from telemetry.attribute_values import clean_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

REDACTED: Final = "__REDACTED__"
"""The word that replaces a hidden text. It is the reference's word, which Phoenix knows."""

MAX_NESTED_TEXTS = 8
"""Levels of JSON in a string of JSON, and so on; a deeper string is hidden whole. Real traffic has
two levels, and each doubles the escapes."""

MAX_JSON_DEPTH = 100
"""How deep a decoded value is walked. Deeper values come from an attack, and are hidden."""

MIN_TELLING_DIGITS = 12
"""Digits of an integer that is rewritten like a string, because it may be a card's number; counts
and times in seconds have fewer."""

_SHORT_CHARS = 1_024
"""Longest string that a pattern skips; ``str.find`` skips an image, and is far faster."""

_START = re.compile(r'[\ufeff\s]*+[\[{"]')

_TOKEN = re.compile(
    rf'"[^"\\]{{0,{_SHORT_CHARS}}}+"?|(?<![\w.+-])\d{{{MIN_TELLING_DIGITS},}}+(?![\w.])'
)
"""Matches a string or a long integer; only the beginning of a string that is long or has
escapes."""

_TO_STRING_END = re.compile(r'(?:\\.[^"\\]*+)*+"', re.DOTALL).match
"""Matches from an escape to the end of a string. It is possessive throughout, so it is linear."""

_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def looks_like_json(text: str) -> bool:
    """Tell whether a text begins as a JSON object, array or string does."""
    return _START.match(text) is not None


def rewrite_strings(
    text: str, rewrite: Callable[[str], str], *, over: int = 0, levels: int = MAX_NESTED_TEXTS
) -> str:
    """Return a JSON text with its strings rewritten.

    Args:
        text: JSON or not.
        rewrite: gets a string with its escapes undone, and returns the text that replaces it.
        over: strings of at most so many characters stay as they are, and are not decoded.
        levels: how many texts may be nested in this one.
    """
    if not (looks_like_json(text) and is_json(text)):
        return rewrite(text)
    if not levels:
        return REDACTED

    def rewrite_tokens() -> Iterator[tuple[int, int, str]]:
        for start, end in _find_tokens(text):
            if text[start] != '"':
                literal = text[start:end]
                if rewrite(literal) != literal:
                    yield start, end, f'"{REDACTED}"'
            elif end - start > over:
                is_plain = text.find("\\", start, end) < 0
                string = text[start + 1 : end - 1] if is_plain else decode_json(text[start:end])
                rewritten = rewrite_strings(string, rewrite, over=over, levels=levels - 1)
                if rewritten != string:
                    yield start, end, encode_json(rewritten)

    return splice(text, rewrite_tokens())


def _find_tokens(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each string and long integer in a JSON text."""
    end = 0
    while token := _TOKEN.search(text, end):
        start, end = token.span()
        if text[start] == '"' and (text[end - 1] != '"' or end - start == 1):
            end = _find_string_end(text, end)
        yield start, end


def _find_string_end(text: str, at: int) -> int:
    """Find the end of a string; the characters before `at` were skipped."""
    quote = text.find('"', at)
    escape = text.find("\\", at, quote)
    if escape < 0:
        return quote + 1
    found = _TO_STRING_END(text, escape)
    return len(text) if found is None else found.end()  # never: it is JSON


def splice(text: str, pieces: Iterable[tuple[int, int, str]]) -> str:
    """Replace pieces of a text; return the same object if there are no pieces.

    The pieces come in their order: start, end and replacement of each. No object is kept for a
    piece, or for the text between two, however many pieces an attack makes.
    """
    spliced, done = StringIO(), 0
    for start, end, replacement in pieces:
        spliced.write(text[done:start])
        spliced.write(replacement)
        done = end
    if not done:
        return text
    spliced.write(text[done:])
    return spliced.getvalue()


def unescape(text: str) -> str:
    """Return a text without its JSON escapes: a text that is not JSON may hold a piece of JSON."""
    return clean_text(_ESCAPE.sub(_unescape_one, text)) if "\\" in text else text


def _unescape_one(escape: re.Match[str]) -> str:
    code, char = escape.groups()
    return chr(int(code, 16)) if code else _ESCAPED.get(char, char)
