"""The strings of a JSON text, rewritten where they stand.

Rules:

1. Every string is looked at: names of members too, of members with one name each (a parser would
   keep the last alone), and those in a string that is a JSON object or array itself, as the
   arguments of tools are. Below :data:`MAX_NESTED_TEXTS` such a string is hidden whole.
2. What is not rewritten stays as it was, character by character: white space, escapes, numbers.
3. A text that is not a JSON object, array or string is one string.
4. An integer of :data:`MIN_TELLING_DIGITS` is read like a string: it may be a card's number.
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
"""The word in place of a hidden text: the reference's, which Phoenix knows."""

MAX_NESTED_TEXTS = 8
"""JSON in a string of JSON, and so on: real traffic has two levels, each doubles the escapes."""

MAX_JSON_DEPTH = 100
"""How deep a decoded value is walked. What is deeper is hostile, and hidden."""

MIN_TELLING_DIGITS = 12
"""Digits of an integer that may identify a person; counts and times in seconds have fewer."""

_SHORT_CHARS = 1_024
"""Longest string that a pattern passes over; an image is passed over by ``str.find``, far
faster."""

_START = re.compile(r'[\ufeff\s]*+[\[{"]')

_TOKEN = re.compile(
    rf'"[^"\\]{{0,{_SHORT_CHARS}}}+"?|(?<![\w.+-])\d{{{MIN_TELLING_DIGITS},}}+(?![\w.])'
)
"""A string, else a long integer. Of a string that is long or has escapes its beginning."""

_TO_STRING_END = re.compile(r'(?:\\.[^"\\]*+)*+"', re.DOTALL).match
"""From an escape. Possessive throughout, hence linear."""

_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def looks_like_json(text: str) -> bool:
    """Tell whether a text begins as a JSON object, array or string does."""
    return _START.match(text) is not None


def rewrite_strings(
    text: str, rewrite: Callable[[str], str], *, over: int = 0, levels: int = MAX_NESTED_TEXTS
) -> str:
    """A JSON text with its strings rewritten, by the rules above.

    Args:
        text: JSON or not.
        rewrite: gives each string, escapes undone, as it shall be.
        over: strings of no more characters stay as they are, and are not decoded.
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
    """Start and end of each string and long integer in a JSON text."""
    end = 0
    while token := _TOKEN.search(text, end):
        start, end = token.span()
        if text[start] == '"' and (text[end - 1] != '"' or end - start == 1):
            end = _find_string_end(text, end)
        yield start, end


def _find_string_end(text: str, at: int) -> int:
    """The end of a string of which the characters before `at` were passed over."""
    quote = text.find('"', at)
    escape = text.find("\\", at, quote)
    if escape < 0:
        return quote + 1
    found = _TO_STRING_END(text, escape)
    return len(text) if found is None else found.end()  # never: it is JSON


def splice(text: str, pieces: Iterable[tuple[int, int, str]]) -> str:
    """A text with pieces of it replaced; the very same text where there are none.

    The pieces come in their order, start and end of each with what takes its place. Nothing is kept
    of what stays, however many pieces a hostile text has.
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
    """A text without its JSON escapes: one that is not JSON may hold a piece of it."""
    return clean_text(_ESCAPE.sub(_unescape_one, text)) if "\\" in text else text


def _unescape_one(escape: re.Match[str]) -> str:
    code, char = escape.groups()
    return chr(int(code, 16)) if code else _ESCAPED.get(char, char)
