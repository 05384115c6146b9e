"""Names what came instead of an answer and cannot be one, and finds the words in it."""

from __future__ import annotations

import re
from enum import StrEnum
from html import unescape
from typing import TYPE_CHECKING, Any, Final

from codec.text.json_stream import JsonSplitter
from codec.text.jsontext import compact_text, decode_json, is_json_to_others

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("NoAnswer", "find_lack", "find_message", "find_page_words", "find_words")

_MESSAGES: Final = ("message", "detail")

_MAX_PAGE_CHARS: Final = 64 * 1024
"""Only this much of a page is searched for words: a title comes first."""

_NAME: Final = re.compile(r"/?[a-z]+", re.IGNORECASE)
_NOT_SHOWN: Final = frozenset({"script", "style"})


class NoAnswer(StrEnum):
    """What came instead of an answer."""

    NOTHING = "nothing"
    """No byte."""
    HALF = "half"
    """The beginning of one: JSON that ends before its brackets do, whatever length it promised."""
    OTHER = "other"
    """Something else: a page, a text, JSON without any member of an answer of its API."""


def find_lack(body: bytes) -> NoAnswer | None:
    """Tell why a body is not JSON that can be an answer.

    Returns:
        ``None`` if the body is not judged, because others may read it and only we cannot.
    """
    try:
        decode_json(body)
    except ValueError:
        if is_json_to_others(body):
            return None
        return NoAnswer.HALF if _is_open(body) else NoAnswer.OTHER
    return NoAnswer.OTHER  # JSON of another kind


def _is_open(body: bytes) -> bool:
    """Tell whether a JSON object or array has no end."""
    body = body.lstrip()
    if not body.startswith((b"{", b"[")):
        return False
    splitter = JsonSplitter(limit_bytes=len(body))
    values = splitter.split(body)
    return not (splitter.is_closed if splitter.in_array else values)


def find_message(value: Any) -> str | None:
    """Find the message in JSON that is not an answer; ``None`` if it has none.

    It is ``message`` (Cohere), or ``detail`` (FastAPI, which Jina, Voyage and Mistral use).
    """
    if not isinstance(value, dict):
        return None
    for name in _MESSAGES:
        if words := value.get(name):
            return words if isinstance(words, str) else compact_text(words)
    return None


def find_words(value: Mapping[str, Any]) -> str:
    """Find the message in JSON that is not an answer, else return all of the JSON."""
    return find_message(value) or compact_text(value)


def find_page_words(text: str) -> str:
    """Find the title of a page, else its text; a text without tags is returned itself."""
    begun = text[:_MAX_PAGE_CHARS].lstrip()
    if not begun.startswith("<"):
        return _write(begun)
    shown, within = [], ""
    for piece in begun.split("<")[1:]:
        tag, _, said = piece.partition(">")
        found = _NAME.match(tag)
        name = found[0].lower() if found else ""
        if within in _NOT_SHOWN and name != f"/{within}":
            continue
        within = name
        if name == "title" and (title := _write(said)):
            return title
        if name not in _NOT_SHOWN:
            shown.append(said)
    return _write(" ".join(shown))


def _write(text: str) -> str:
    return " ".join(unescape(text).split())
