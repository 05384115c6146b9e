"""Limits on the size of a span's attributes: of each one, and of all together.

Readers of spans can rely on these rules (R5, ``docs/contract/spans.md#cut``):

1. A text over :attr:`SizeLimits.value_bytes` is cut between two characters, and ends in a mark with
   its original length.
2. Half of a JSON text is not JSON: such a value has its long strings cut instead, each marked. If
   that is not enough it is left out, except for input and output value and the bodies: these are
   cut as text, and lose their MIME type. Half an image is useless: a ``data:`` URL is left out.
3. All attributes together have at most :attr:`SizeLimits.span_bytes`. Short values outside of lists
   get room first, because a span is useless without its kind and its counts. All others get room
   from the last one to the first, because the most valuable ones come last
   (:mod:`telemetry.spans.exchange_attributes`). A value that finds no room is left out, but smaller
   ones before it may still find some. A list of texts that is too long is left out.
4. A cut value is noted with its original size in bytes. Values that were left out are noted
   together for each list, under the list's name and ``.*``.
5. Sizes are measured as UTF-8, keys included. A number counts eight bytes. Each member of a list
   counts eight bytes in addition to its own size, because OTLP frames it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import (
    AudioAttributes,
    DocumentAttributes,
    ImageAttributes,
    MessageAttributes,
    SpanAttributes,
    ToolAttributes,
)

from codec.text.jsontext import decode_json
from telemetry.attribute_values import NUMBER_CHARS, count_chars, is_readable, json_text
from telemetry.privacy.json_strings import MAX_JSON_DEPTH, looks_like_json
from telemetry.privacy.mask import MIME_TYPES
from telemetry.semconv import REQUEST_BODY, RESPONSE_BODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.attribute_values import AttributeValue
    from telemetry.spans.otlp.attributes import WrittenAttributes

MAX_CUT_NOTES = 64
"""The most names in ``metadata.cut``: the first ones are enough to see what happened."""

_STRING_CHARS = (256, 4_096, 65_536)
"""How long the strings of a JSON text may be, tried in turn: a sentence, a page, a document. The
longest that fits is taken; if even a sentence is too long, it is not strings that make it large."""

_NUMBER_BYTES = 4 * NUMBER_CHARS

ESSENTIAL_BYTES = 1_024
"""Values up to this size, outside of lists, get room first: some sixty models, counts, ids."""

_WHOLE_KEYS: Final = frozenset({*MIME_TYPES, REQUEST_BODY, RESPONSE_BODY})
"""Values that are cut as text if they cannot be cut as JSON."""

_JSON_KEYS: Final = frozenset(
    {
        SpanAttributes.LLM_INVOCATION_PARAMETERS,
        SpanAttributes.EMBEDDING_INVOCATION_PARAMETERS,
        SpanAttributes.LLM_PROMPT_TEMPLATE_VARIABLES,
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
    }
)
_URL_SUFFIXES: Final = (
    ImageAttributes.IMAGE_URL,
    AudioAttributes.AUDIO_URL,
    DocumentAttributes.DOCUMENT_URL,
)
_JSON_SUFFIXES: Final = (
    ToolAttributes.TOOL_JSON_SCHEMA,
    MessageAttributes.MESSAGE_FUNCTION_CALL_ARGUMENTS_JSON,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimits:
    """The limits in force, in bytes.

    Attributes:
        value_bytes: the limit of one attribute.
        span_bytes: the limit of all attributes of a span. The rest of the span also has to fit into
            the 4 MiB of a gRPC message in Phoenix (``docs/contract/spans.md#phoenix-ingest``).
    """

    value_bytes: int = 1_048_576
    span_bytes: int = 3_670_016


def fit_attributes(
    attributes: dict[str, AttributeValue], limits: SizeLimits, most_chars: int | None = None
) -> tuple[dict[str, AttributeValue], dict[str, int]]:
    """Return the attributes within the limits, in their order, and the notes on what was cut.

    Args:
        attributes: are returned themselves if nothing is to be cut.
        limits: in bytes.
        most_chars: the result of :func:`count_chars` for them, if it is known.
    """
    if _surely_fits(attributes, limits, most_chars):
        return attributes, {}
    notes: dict[str, int] = {}
    room = limits.span_bytes
    fitting: dict[str, AttributeValue] = {}
    # Stable, so that within both groups the last ones stay first.
    from_the_last = [*attributes.items()][::-1]
    for key, value in sorted(from_the_last, key=_is_less_worth):
        size = size_bytes(value)
        kept: AttributeValue | None = value
        if size > limits.value_bytes:
            kept = _shorten(key, value, limits.value_bytes) if isinstance(value, str) else None
            _note(notes, key if kept is not None else _list_of(key), size)
        taken = len(key) + (size_bytes(kept) if kept is not None else 0)
        if kept is not None and taken > room:
            kept = None
            _note(notes, _list_of(key), size)
        if kept is not None:
            room -= taken
            fitting[key] = kept
    for value_key, mime_key in MIME_TYPES.items():
        if value_key in notes and not _is_json(fitting.get(value_key)):
            fitting.pop(mime_key, None)  # it is plain text now
    return {key: fitting[key] for key in attributes if key in fitting}, notes


def _is_less_worth(item: tuple[str, AttributeValue]) -> bool:
    """Tell whether an attribute gets room only after the short ones."""
    key, value = item
    return size_bytes(value) > ESSENTIAL_BYTES or _list_of(key) != key


def _surely_fits(
    attributes: dict[str, AttributeValue], limits: SizeLimits, most_chars: int | None
) -> bool:
    """Tell whether it fits without measuring it: no character takes more than four bytes."""
    most_bytes = limits.value_bytes
    total = 4 * (count_chars(attributes.values()) if most_chars is None else most_chars)
    if total > most_bytes and any(4 * count_chars([v]) > most_bytes for v in attributes.values()):
        return False
    return total + sum(map(len, attributes)) <= limits.span_bytes


def surely_fits(written: WrittenAttributes, limits: SizeLimits) -> bool:
    """Tell from the written bytes whether nothing is to be cut; the limits are in bytes.

    By the definition of sizes, nothing has more than twice as many bytes as are written of it.
    """
    size = 2 * len(written.whole)
    return size <= limits.span_bytes and (
        size <= limits.value_bytes or 2 * max(map(len, written.fields)) <= limits.value_bytes
    )


def size_bytes(value: AttributeValue) -> int:
    """The size of a value in bytes; see the module for the definition."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, tuple):
        return sum([size_bytes(member) + _NUMBER_BYTES for member in value])
    return _NUMBER_BYTES


def cut_text(text: str, limit_bytes: int) -> str:
    """Return a text within a limit, with a mark at the end if it was cut."""
    size = size_bytes(text)
    if size <= limit_bytes:
        return text
    mark = f"… [cut: {size} bytes]"
    room = max(limit_bytes - size_bytes(mark), 0)
    # A character takes at least a byte, so no more of a long text is copied than may be kept.
    return text[:room].encode("utf-8", "surrogatepass")[:room].decode("utf-8", "ignore") + mark


def _shorten(key: str, text: str, limit_bytes: int) -> str | None:
    """Shorten a value that is over its limit; ``None`` if it is to be left out."""
    if key.endswith(_URL_SUFFIXES) and text.startswith("data:"):
        return None
    whole = key in _WHOLE_KEYS
    if not whole and key not in _JSON_KEYS and not key.endswith(_JSON_SUFFIXES):
        return cut_text(text, limit_bytes)
    shorter = None
    if looks_like_json(text) and is_readable(text):
        with suppress(ValueError):
            shorter = _shorten_value(decode_json(text), limit_bytes)
    return cut_text(text, limit_bytes) if shorter is None and whole else shorter


def _shorten_value(value: Any, limit_bytes: int) -> str | None:
    fitting = None
    for chars in _STRING_CHARS:
        shorter = _shorter_json(value, chars)
        if shorter is None or size_bytes(shorter) > limit_bytes:
            break
        fitting = shorter
    return fitting


def write_within(
    value: Any, limit_bytes: int, search: Callable[[str], str]
) -> tuple[str | None, bool, bool]:
    """Write a large value as JSON text within a limit.

    Args:
        value: decoded JSON.
        limit_bytes: the limit of the text.
        search: returns a text as it may be shown. It is called before anything is cut, because half
            a secret is not found.

    Returns:
        The text, whether it is JSON, and whether it was cut.
    """

    def search_long(text: str) -> str:
        return search(text) if len(text) > _STRING_CHARS[0] else text  # short ones are never cut

    shown = _rewrite_strings(value, search_long, MAX_JSON_DEPTH)
    if _least_chars(shown, MAX_JSON_DEPTH) <= limit_bytes:
        text = json_text(shown)
        if text is None or size_bytes(text) <= limit_bytes:
            return text, True, False
        del text
    if (text := _shorten_value(shown, limit_bytes)) is not None:
        return text, True, True
    text = _shorter_json(shown, _STRING_CHARS[0])
    return None if text is None else cut_text(search(text), limit_bytes), False, True


def _rewrite_strings(value: Any, rewrite: Callable[[str], str], depth: int) -> Any:
    """A value with its strings rewritten, down to a depth."""
    if isinstance(value, str):
        return rewrite(value)
    if not depth:
        return value
    if isinstance(value, dict):
        return {key: _rewrite_strings(item, rewrite, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_rewrite_strings(item, rewrite, depth - 1) for item in value]
    return value


def _least_chars(value: Any, depth: int) -> int:
    """Return the least length of a value's text, without writing it."""
    if isinstance(value, str):
        return len(value)
    if not depth or not isinstance(value, dict | list):
        return 0
    items = value.values() if isinstance(value, dict) else value
    return sum([_least_chars(item, depth - 1) for item in items])


def _shorter_json(value: Any, chars: int) -> str | None:
    """Write a value as JSON, its strings cut to a number of characters."""

    def shorten(text: str) -> str:
        return cut_text(text, chars) if len(text) > chars else text

    return json_text(_rewrite_strings(value, shorten, MAX_JSON_DEPTH))


def _is_json(value: AttributeValue | None) -> bool:
    try:
        decode_json(str(value))
    except ValueError:
        return False
    return True


def _list_of(key: str) -> str:
    """The name under which a value that is left out is noted: that of its list, if it is in one."""
    parts = key.split(".")
    position = next((at for at, part in enumerate(parts) if part.isdecimal()), None)
    return key if position is None else ".".join([*parts[:position], "*"])


def _note(notes: dict[str, int], name: str, size: int) -> None:
    if name in notes or len(notes) < MAX_CUT_NOTES:
        notes[name] = notes.get(name, 0) + size
