"""Decodes values that Python's ``repr`` wrote, as far as JSON has such values.

Python's own parser is not for texts of strangers: deep ones overflow the stack of a thread.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from codec.text.jsontext import decode_json

__all__ = ("decode_python", "unescape_python")

_TOKEN: Final = re.compile(
    r"""'(?P<single>(?:[^'\\]|\\.)*+)'|"(?P<double>(?:[^"\\]|\\.)*+)"|\b(?:True|False|None)\b"""
    r"""|(?P<open>['"])""",
    re.DOTALL,
)
"""What differs from JSON, and the quote of a string that does not end: the search ends there, or
each quote behind it would be tried too."""
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00[01][0-9a-f]{5})|(.?))", re.DOTALL
)
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}


def decode_python(text: str) -> Any:
    """Decode what ``repr`` wrote of a value of JSON.

    Raises:
        ValueError: it is no such value, or nested too deeply.

    >>> decode_python("{'a': [None, True, 1.5]}")
    {'a': [None, True, 1.5]}
    """
    return decode_json(_TOKEN.sub(_write_json, text))


def _write_json(found: re.Match[str]) -> str:
    """Write a token of Python's as JSON.

    Raises:
        ValueError: it is a string that does not end, or has an escape that ``repr`` does not write.
    """
    if found["open"]:
        raise ValueError("a string does not end")
    body = found["single"] if found["double"] is None else found["double"]
    return _WORDS[found[0]] if body is None else json.dumps(unescape_python(body))


def unescape_python(body: str) -> str:
    r"""Return what a string of Python's says, without its quotes.

    >>> unescape_python(r"it\'s \u2028")
    "it's \u2028"

    Raises:
        ValueError: it has an escape that ``repr`` does not write.
    """
    return _ESCAPE.sub(_read_escape, body) if "\\" in body else body


def _read_escape(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code:
        return chr(int(code, 16))
    if found[4] not in _ESCAPED:
        raise ValueError("no escape of repr")
    return _ESCAPED[found[4]]
