"""JSON text to plain Python values and back: the one place that chooses a parser.

Rules:

1. A number keeps its value: integers of any size stay integers (Together sends 64-bit seeds,
   ``dialects.md`` section 3), which rules out parsers that fall back to floats.
2. What the strict parser refuses gets a second chance with the standard library's lenient one
   (NaN, lone surrogates, a BOM), for providers send such things and R6 forbids to lose them.
3. Nothing but :class:`ValueError` comes out, either way: nesting too deep for the parser included.
4. Text that comes in pieces is joined by :func:`join_text`: a character may be cut in two.
5. Text of :func:`encode_json` is valid UTF-8 once encoded: a lone surrogate leaves as the escape it
   came as.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = (
    "NO_STRING",
    "JsonObject",
    "compact_text",
    "decode_json",
    "decode_json_object",
    "decode_string",
    "encode_json",
    "is_json",
    "join_text",
    "split_object",
)

JsonObject = dict[str, Any]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.encode
_check = msgspec.json.Decoder(msgspec.Raw).decode
_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_lenient = json.JSONDecoder(strict=False)

decode_string = msgspec.json.Decoder(str).decode
"""Parse one JSON string, strictly: there is no second chance, and no function of ours in between,
for this is done for each token. Raises one of :data:`NO_STRING`."""

NO_STRING = (msgspec.MsgspecError, UnicodeError)

_MAX_SECOND_CHANCE_CHARACTERS = 64 * 1024
"""What :func:`is_json` reads leniently, which builds values, up to 25 times the text's size."""


def decode_json(data: bytes | str) -> Any:
    """Parse one JSON document.

    Args:
        data: UTF-8 text, with or without surrounding white space or a BOM.

    Raises:
        ValueError: it is no JSON document, not UTF-8, or nested too deeply.
    """
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _decode_leniently(data)


def _decode_leniently(data: bytes | str) -> Any:
    text = data if isinstance(data, str) else data.decode("utf-8-sig")
    try:
        return _lenient.decode(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


def decode_json_object(data: bytes | str) -> JsonObject:
    """Parse a JSON document that must be an object.

    Raises:
        ValueError: as :func:`decode_json`, or it is another JSON value.
    """
    value = decode_json(data)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")  # noqa: TRY004
    return value


def split_object(data: bytes) -> dict[str, msgspec.Raw]:
    """The text of each member's value in a JSON object, the last one where a name comes twice.

    The strict parser alone is asked, and it does not look whether the values are UTF-8.

    Raises:
        ValueError: it is no strict JSON object, or nested too deeply.
    """
    try:
        return _split(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError("no strict JSON object") from error


def is_json(text: str) -> bool:
    """Whether a text is one JSON document, by the rules above, told without building its values.

    The second chance of rule 2 is for texts of up to 64 Ki characters.
    """
    try:
        _check(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        if len(text) > _MAX_SECOND_CHANCE_CHARACTERS:
            return False
    else:
        return True
    try:
        _decode_leniently(text)
    except ValueError:
        return False
    return True


def join_text(pieces: Iterable[str]) -> str:
    """Join text that came in strings of their own, each of which may end in half a character.

    JSON writes a character beyond the first 65,536 as two escapes, and servers that cut between
    them send two lone surrogates. Side by side they are the character; others stay what they are.
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
    """Dump a plain value as JSON text, non-ASCII kept (``span-contract.md`` 1.5).

    Raises:
        ValueError: the value is nested too deeply.
    """
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    return text if text.isascii() else _escape_surrogates(text)


def compact_text(value: Any) -> str:
    """Dump a JSON value without white space, whatever it holds.

    What the fast encoder refuses (lone surrogates, big integers) the standard one writes;
    what neither can write (nested too deeply, thousands of digits) is only named.
    """
    try:
        return _encode(value).decode()
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        pass
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        return f"[{type(error).__name__}]"


def _escape_surrogates(text: str) -> str:
    # A lone surrogate exists inside JSON strings only, where `\udXXX` is its proper escape.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
