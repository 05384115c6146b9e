"""The value of JSON that is still arriving (``docs/contract/sources.md#s1-11``).

Rules:

1. Open strings, lists and objects are closed. A key without a value is dropped.
2. A number that is cut off has the value of its longest beginning that is a number (``1e`` is 1,
   ``-`` is nothing); a literal that is cut off (``tru``) is dropped.
3. An escape that is cut off is dropped, and so is the first half of a surrogate pair until the
   second half has come: the two are one character.
4. A text that nothing could complete to valid JSON has no value: ``{"city":}``.
5. Everything behind a complete value is ignored.
6. Nothing raises, whatever the text is, and the work is linear in it.

If a document has no repeated keys, every beginning of its text therefore gives a beginning of its
value: the first members of a list or an object, all of them whole except for the last one, or the
first characters of a string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from codec.text.jsontext import decode_json

__all__ = ("MAX_NESTING", "PartialJson", "parse_partial_json", "parse_payload")

MAX_NESTING = 256
"""The most lists and objects inside each other; a deeper text has no value. No schema that a model
is asked to fill is as deep, and the parser accepts four times as much."""

_TOKEN = re.compile(
    r"[ \t\n\r]*(?:(?P<mark>[\[\]{}:,\"])"
    r"|(?P<literal>true|false|null|NaN|-?Infinity)"
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?))"
)
_LITERALS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")  # "-" begins numbers, too
_NUMBER_CUT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.|(?:\.[0-9]+)?[eE][+-]?)\Z")

_IN_STRING = re.compile(
    r'(?P<end>")|\\u[dD][89abAB][0-9a-fA-F]{2}(?:(?P<pair>\\u[dD][c-fC-F][0-9a-fA-F]{2})|(?P<half>))'
    r"|\\u[0-9a-fA-F]{4}|\\[^u]|(?P<broken>\\)"
)
_ESCAPE_CUT = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_SECOND_HALF_CUT = re.compile(r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?\Z")

_FENCE = re.compile(r"\s*```(?:json)?\s*", re.IGNORECASE)
_CLOSERS = {"{": "}", "[": "]"}

_KEY, _COLON, _VALUE, _COMMA = range(4)  # what comes next, unless a container ends


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialJson:
    """A value. It has a separate type because ``null`` is a value, too.

    Attributes:
        value: any JSON value.
        complete: all of it has come. A number at the very end of a text counts as whole.
    """

    value: Any
    complete: bool


def parse_payload(text: str) -> PartialJson | None:
    r"""Parse what a model wrote if it looks like JSON, in a Markdown fence or not.

    It does if it begins with ``{`` or ``[``, after white space or after an opening fence that names
    ``json`` or no language (``docs/contract/sources.md#s1-18``). So the value is a list or an
    object.

    Args:
        text: a message's content or a call's arguments, as far as they have come.

    Returns:
        ``None`` where it looks otherwise, or as :func:`parse_partial_json`.

    >>> parse_payload("```json\n[1, 2").value
    [1, 2]
    >>> parse_payload("1 or 2")
    """
    fence = _FENCE.match(text)
    body = text[fence.end() :] if fence else text.lstrip()
    return parse_partial_json(body) if body.startswith(("{", "[")) else None


def parse_partial_json(text: str) -> PartialJson | None:
    """Parse a JSON text that may end anywhere.

    Args:
        text: a document or the beginning of one, with or without white space around it or a BOM.

    Returns:
        ``None`` if there is no value: none has begun, the text is not JSON (rule 4), or it nests
        deeper than :data:`MAX_NESTING`.

    >>> parse_partial_json('{"a": [1, "tw')
    PartialJson(value={'a': [1, 'tw']}, complete=False)
    """
    document = _document(text.removeprefix("\ufeff"))
    if document is None:
        return None
    whole, complete = document
    try:
        return PartialJson(value=decode_json(whole), complete=complete)
    except ValueError:  # an escape that does not exist, a number of thousands of digits
        return None


def _document(text: str) -> tuple[str, bool] | None:
    """Cut and close a text so that it is a document, and tell whether it was one before."""
    closers: list[str] = []  # of the containers that are open, the outermost first
    expected = _VALUE
    at = 0
    safe = 0  # up to here and closed, the text is a document

    def cut(end: int, quote: str = "") -> tuple[str, bool]:
        return text[:end] + quote + "".join(reversed(closers)), False

    while token := _TOKEN.match(text, at):
        at = token.end()
        mark = token["mark"]
        if mark == "," and expected == _COMMA:
            expected = _KEY if closers[-1] == "}" else _VALUE
            continue
        if mark == ":" and expected == _COLON:
            expected = _VALUE
            continue
        if mark == '"' and expected == _KEY:
            at, closed = _string_end(text, at)
            if not closed:
                return cut(safe)
            expected = _COLON
            continue
        if closers and mark == closers[-1]:
            closers.pop()  # the parser will say whether it may end here
        elif expected != _VALUE:
            return None
        elif mark in _CLOSERS:
            if len(closers) == MAX_NESTING:
                return None
            closers.append(_CLOSERS[mark])
            expected = _KEY if mark == "{" else _VALUE
            safe = at
            continue
        elif mark == '"':
            at, closed = _string_end(text, at)
            if not closed:
                return cut(at, '"')
        elif mark:
            return None
        elif token["number"] and _NUMBER_CUT.match(text, token.start("number")):
            return cut(at)
        # a value has ended
        safe = at
        expected = _COMMA
        if not closers:
            return text[:safe], True
    return cut(safe) if closers and _may_continue(text[at:], expected) else None


def _may_continue(rest: str, expected: int) -> bool:
    """Tell whether a rest without a token is the beginning of one, or only white space."""
    rest = rest.lstrip(" \t\n\r")
    if not rest:
        return True
    return expected == _VALUE and any(word.startswith(rest) for word in _LITERALS)


def _string_end(text: str, at: int) -> tuple[int, bool]:
    """Find the end of a string that begins at a character.

    Returns:
        Where the string ends, including its closing quote, and ``True``; without a closing quote,
        where to cut it (rule 3), and ``False``.
    """
    while special := _IN_STRING.search(text, at):
        at = special.end()
        if special.lastgroup == "end":
            return at, True
        if special.lastgroup == "half" and _SECOND_HALF_CUT.match(text, at):
            return special.start(), False
        if special.lastgroup == "broken" and _ESCAPE_CUT.match(text, special.start()):
            return special.start(), False
    return len(text), False
