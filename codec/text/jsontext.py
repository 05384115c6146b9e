"""JSON text to plain Python values and back: the one place that chooses a parser.

Rules:

1. A number keeps its value: integers of any size stay integers (Together sends 64-bit seeds,
   ``docs/contract/wire.md#dialects``). This rules out parsers that fall back to floats.
2. If the strict parser refuses a text, the standard library's lenient one reads it (NaN, lone
   surrogates, a BOM), because providers send such things and R6 forbids to lose them.
3. Only :class:`ValueError` is raised, by either parser, also for nesting deeper than
   :data:`MAX_DEPTH`; the interpreter's limit is never reached.
4. Text that comes in pieces is joined by :func:`join_text`, because a character may be cut in two.
5. Text of :func:`encode_json` is valid UTF-8 once encoded: a lone surrogate is written as the
   escape it came as.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import chain, compress, repeat
from operator import is_
from typing import TYPE_CHECKING, Any

import msgspec

from codec.text.nesting import MAX_DEPTH, has_many_brackets, is_shallow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = (
    "NO_STRING",
    "JsonObject",
    "compact_text",
    "decode_json",
    "decode_json_object",
    "decode_literals",
    "decode_string",
    "encode_json",
    "is_deep_text",
    "is_json",
    "is_json_to_others",
    "is_too_deep",
    "is_utf8",
    "join_text",
    "split_object",
)

JsonObject = dict[str, Any]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.encode
_check = msgspec.json.Decoder(msgspec.Raw).decode
_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_lenient = json.JSONDecoder(strict=False)
_others = json.JSONDecoder(strict=False, parse_int=str)

decode_string = msgspec.json.Decoder(str).decode
"""Parse one JSON string, strictly: the lenient parser is not used, and no function of ours is in
between, because this happens for each token. Raises one of :data:`NO_STRING`."""

_decode_strings = msgspec.json.Decoder(list[str]).decode

NO_STRING = (msgspec.MsgspecError, UnicodeError)

_CONTAINERS = frozenset({dict, list})
_TOO_DEEP = "JSON nested too deeply"
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|([\[{])|[\]}]')

_MAX_FOLLOWED_BYTES = 1024 * 1024
"""Largest text whose brackets are followed, in two copies of it, before its values are made."""

_MAX_SECOND_CHANCE_CHARACTERS = 64 * 1024
"""The longest text that :func:`is_json` reads with the lenient parser, which builds values of up to
25 times the text's size."""


def decode_json(data: bytes | str) -> Any:
    """Parse one JSON document.

    Args:
        data: UTF-8 text, with or without surrounding white space or a BOM.

    Raises:
        ValueError: it is not a JSON document, not UTF-8, or nested too deeply.
    """
    try:
        value = _decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = _decode_leniently(data)
    if len(data) > 2 * MAX_DEPTH and _may_be_deep(data) and is_too_deep(value):
        raise ValueError(_TOO_DEEP)
    return value


def _may_be_deep(data: bytes | str) -> bool:
    """Tell whether a text must be checked level by level; it takes 0.1 µs for a message."""
    if not has_many_brackets(data):
        return False
    return type(data) is not bytes or len(data) > _MAX_FOLLOWED_BYTES or not is_shallow(data)


def _decode_leniently(data: bytes | str) -> Any:
    text = data if isinstance(data, str) else data.decode("utf-8-sig")
    try:
        return _lenient.decode(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def is_too_deep(value: Any, max_depth: int | None = None) -> bool:
    """Tell whether a JSON value nests deeper than :data:`MAX_DEPTH`, or another limit."""
    items = [value]
    # This goes level by level, and runs none of our code for each item.
    for _ in range(MAX_DEPTH if max_depth is None else max_depth):
        types = [*map(type, items)]
        objects = compress(items, map(is_, types, repeat(dict)))
        arrays = compress(items, map(is_, types, repeat(list)))
        items = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(arrays)]
        if not items:
            return False
    return not _CONTAINERS.isdisjoint(map(type, items))


def decode_json_object(data: bytes | str) -> JsonObject:
    """Parse a JSON document that must be an object.

    Raises:
        ValueError: as :func:`decode_json`, or the value is not an object.
    """
    value = decode_json(data)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")  # noqa: TRY004
    return value


def decode_literals(literals: Sequence[bytes]) -> list[str]:
    """Decode the bytes between the quotes of JSON strings, up to the first that is not a string."""
    joined = b'","'.join(literals)
    # If none has a quote or ends in a backslash, each is a string if all together are a list.
    if joined.count(b'"') == 2 * (len(literals) - 1) and b'\\"' not in joined:
        with suppress(*NO_STRING):
            return _decode_strings(b'["%b"]' % joined)
    texts = []
    with suppress(*NO_STRING):
        for literal in literals:
            texts.append(decode_string(b'"%b"' % literal))  # noqa: PERF401 - those before it stay
    return texts


def is_utf8(data: bytes) -> bool:
    """Tell whether bytes are UTF-8; msgspec does not check that of values that it skips."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def split_object(data: bytes) -> dict[str, msgspec.Raw]:
    """The text of each member's value in a JSON object; the last one if a name comes twice.

    Only the strict parser is used, and it does not check that the values are UTF-8.

    Raises:
        ValueError: it is not a strict JSON object, or nested too deeply.
    """
    try:
        return _split(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError("not a strict JSON object") from error


def is_json(text: str) -> bool:
    """Tell whether a text is one JSON document, by the rules above, without building its values.

    The lenient parser (rule 2) reads texts of up to 64 Ki characters.
    """
    try:
        _check(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        if len(text) > _MAX_SECOND_CHANCE_CHARACTERS:
            return False
    else:
        return not is_deep_text(text)
    try:
        return not is_too_deep(_decode_leniently(text))
    except ValueError:
        return False


def is_json_to_others(data: bytes) -> bool:
    """Tell whether other parsers read as JSON what :func:`decode_json` refuses.

    Such a text is in another encoding, has bytes of no encoding, integers of thousands of digits,
    or deep nesting.
    """
    text = data.decode(json.detect_encoding(data), "replace")
    try:
        _others.decode(text)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def is_deep_text(text: str) -> bool:
    """Tell whether the value of a valid JSON text :func:`is_too_deep`."""
    if not has_many_brackets(text):
        return False
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        if found[1]:
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif found[0] in "]}":
            depth -= 1
    return False


def join_text(pieces: Iterable[str]) -> str:
    """Join text that came in several strings, each of which may end in half a character.

    JSON writes a character beyond the first 65,536 as two escapes, and servers that cut between
    them send two lone surrogates. Joined they are the character; other surrogates stay.
    """
    text = "".join(pieces)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def encode_json(value: Any) -> str:
    """Dump a value as JSON, non-ASCII kept (``docs/contract/spans.md#accumulated-object``).

    Raises:
        ValueError: the value is nested too deeply.
    """
    if is_too_deep(value):
        raise ValueError(_TOO_DEEP)
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() else _escape_surrogates(text)


def compact_text(value: Any) -> str:
    """Dump a JSON value without white space, whatever it holds.

    The standard encoder writes values that the fast one refuses (lone surrogates, big integers).
    If neither can write a value (nested too deeply, thousands of digits), it is only named.
    """
    if is_too_deep(value):
        return f"[{_TOO_DEEP}]"
    try:
        return _encode(value).decode()
    except (msgspec.MsgspecError, ValueError, OverflowError):
        pass
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except ValueError as error:
        return f"[{type(error).__name__}]"


def _escape_surrogates(text: str) -> str:
    # A lone surrogate exists inside JSON strings only, where `\udXXX` is its proper escape.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
