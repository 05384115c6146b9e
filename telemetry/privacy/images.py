"""Hides images in texts and in JSON: all of them, or those that are too long.

An image part is an object whose type, modality or MIME type names an image (``image_url``,
``input_image``, ``image/png``), or the value of a member that names one (``image_url``,
``images``), or that is an edit's ``mask`` (``docs/contract/apis.md#images``). All strings in it are
hidden, except its type and the words that name an image (``docs/contract/spans.md#privacy``).

A string that begins with ``data:image/`` is hidden whole. In any other string such a base64 URL is
hidden, and the string whole if a ``data:image`` is left. Scheme and type may be in any case, and
escaped in any way (RFC 2397, RFC 3986 section 3.1, RFC 8259 section 7). Base64 that begins like a
picture counts as a picture, wherever it begins: many APIs take and give pictures without a URL.

A text is not parsed if it cannot hold an image: if it is within the limit, or has no such word.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json
from telemetry.attribute_values import is_readable, json_text
from telemetry.privacy.json_strings import (
    MAX_JSON_DEPTH,
    MAX_NESTED_TEXTS,
    REDACTED,
    looks_like_json,
    rewrite_strings,
    unescape,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_URL_START = "data:image"

_BASE64_URL = re.compile(
    r"data:image\\?/[^,:\s]{0,256}?;base64,[A-Za-z0-9+/=_%\\\r\n-]*+", re.IGNORECASE
)
"""Finds a picture in a URL, also in JSON that broke off, with escaped slashes. The parameters of a
MIME type are limited and have no colon, so a text that repeats the beginning is read only once."""

_PICTURES = ("iVBORw0KGgo", "/9j/", "_9j_", "UklGR", "R0lGOD")
"""The beginnings of PNG, JPEG, WebP and GIF in base64, in either alphabet (RFC 4648)."""

_PICTURE = re.compile(rf"(?:{'|'.join(_PICTURES)})[A-Za-z0-9+/_=\\-]*+")

_ENOUGH_CHARS = 64
"""How much base64 before what looks like a picture's beginning shows that it is none. By chance
one of twenty long sounds has a JPEG's four characters somewhere."""

_is_base64 = re.compile(rf"[A-Za-z0-9+/]{{{_ENOUGH_CHARS}}}").fullmatch

_ESCAPED_ASCII = re.compile(r"\\u00[2-7]")
"""An escape that may hide a letter of the words that are searched for."""

_MASK = "mask"
_TYPE = "type"
_KIND_MEMBERS = (_TYPE, "modality", "mime_type", "mimeType", "media_type", "content_type")


def may_hold_image(text: str) -> bool:
    """Tell whether a text may name or hold an image at all."""
    return _MASK in text or _names_image(text) or _ESCAPED_ASCII.search(text) is not None


def may_hold_long_image(text: str, limit: int) -> bool:
    """Tell whether a text may hold a base64 image of more than `limit` characters."""
    if len(text) <= limit:
        return False
    return _may_hold_url(text) or any(begin in text for begin in (*_PICTURES, r"\/9j\/"))


def redact_long_images(text: str, limit: int) -> str:
    """Return a text, JSON or not, without base64 images of more than `limit` characters.

    The limit is for the whole URL. A string that is an image by the reference's definition, which
    begins with ``data:image/`` and has ``base64`` in it, is measured with everything that it holds.
    """
    if not may_hold_long_image(text, limit):
        return text
    return rewrite_strings(text, partial(_redact_long_urls, limit=limit), over=limit)


def redact_images(text: str, depth: int = MAX_JSON_DEPTH) -> str:
    """Return a text, JSON or not, without images; its JSON is walked no deeper than `depth`.

    The JSON is written again, so that no member stays unseen if two have the same name.
    """
    if not may_hold_image(text):
        return text
    if looks_like_json(text):
        if not is_readable(text):
            return REDACTED
        try:
            value = decode_json(text)
        except ValueError:
            return _redact_urls(text)
        return json_text(redact_image_parts(value, depth)) or REDACTED
    return _redact_urls(text)


def redact_image_parts(value: Any, depth: int = MAX_JSON_DEPTH) -> Any:
    """Return a decoded JSON value without images."""
    if isinstance(value, str):
        return redact_images(value, depth - 1) if depth else REDACTED
    if not isinstance(value, (dict, list)):
        return value
    if not depth:
        return REDACTED
    if isinstance(value, list):
        return [redact_image_parts(item, depth - 1) for item in value]
    if _is_image_part(value):
        return {name: _in_image_part(name, item, depth - 1) for name, item in value.items()}
    return {
        name: (_without_strings if _is_image_member(name) else redact_image_parts)(item, depth - 1)
        for name, item in value.items()
    }


def _is_image_part(part: dict[str, Any]) -> bool:
    kinds = (part.get(member) for member in _KIND_MEMBERS)
    return any(isinstance(kind, str) and _names_image(kind) for kind in kinds)


def _is_image_member(name: str) -> bool:
    return name == _MASK or _names_image(name)


def _names_image(name: str) -> bool:
    return "image" in name.lower()


def _in_image_part(name: str, value: Any, depth: int) -> Any:
    if isinstance(value, str) and (
        name == _TYPE or (name in _KIND_MEMBERS and _names_image(value))
    ):
        return redact_images(value, depth)
    return _without_strings(value, depth)


def _without_strings(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return REDACTED
    if not isinstance(value, (dict, list)):
        return value
    if not depth:
        return REDACTED
    if isinstance(value, list):
        return [_without_strings(item, depth - 1) for item in value]
    return {name: _without_strings(item, depth - 1) for name, item in value.items()}


def _may_hold_url(text: str) -> bool:
    # It is mostly in lower case and near the beginning: then no copy of 20 MB is made to find it.
    return (
        _URL_START in text or _URL_START in text.lower() or _ESCAPED_ASCII.search(text) is not None
    )


def _redact_urls(text: str) -> str:
    if not _may_hold_url(text):
        return text
    if text.lstrip().lower().startswith(_URL_START):
        return REDACTED
    redacted = _BASE64_URL.sub(REDACTED, text)
    return REDACTED if any(_URL_START in view.lower() for view in _views(redacted)) else redacted


def _redact_long_urls(text: str, limit: int) -> str:
    if not may_hold_long_image(text, limit):
        return text
    if text[: len(_URL_START)].lower() == _URL_START and (
        "base64" in text or "base64" in text.lower()
    ):
        return REDACTED

    def redact(url: re.Match[str]) -> str:
        return REDACTED if len(url[0]) > limit else url[0]

    redacted = _BASE64_URL.sub(redact, text)
    # If it is escaped in text that is not JSON, the bounds of the URL are unknown: hide it whole.
    urls = (url[0] for view in _views(redacted) for url in _BASE64_URL.finditer(view))
    if any(len(url) > limit for url in urls):
        return REDACTED
    return _PICTURE.sub(lambda found: found[0] if _is_within(found) else redact(found), redacted)


def _is_within(found: re.Match[str]) -> bool:
    """Tell whether what looks like the beginning of a picture is within other base64."""
    start = found.start()
    return _is_base64(found.string, max(0, start - _ENOUGH_CHARS), start) is not None


def _views(text: str) -> Iterator[str]:
    """Yield a text, then the same without its escapes, then without new escapes, and so on."""
    yield text
    for _ in range(MAX_NESTED_TEXTS):
        plain = unescape(text)
        if plain == text:
            return
        yield plain
        text = plain
