"""Decides whether the true bytes of an answer may be kept beside its span, and packs them.

They are kept whole or not at all: nothing in them can be masked, because they would not be the true
bytes any more. So none are kept if a switch hides anything, or if a credential of the call or a
pattern is found in them. Two texts are searched: the bytes, with their content coding undone, and
the answer that was put together from them, because a stream may break a secret into pieces. What
cannot be searched is not kept, unless there is nothing to search for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import StatusCode

from codec.text.jsontext import compact_text
from codec.text.pictures import decode_base64
from telemetry.observing.content_decoding import ContentDecoder, UndecodableContent
from telemetry.privacy.json_strings import REDACTED
from telemetry.raw_answer import RawAnswer, pack_raw_answer
from telemetry.spans.rules import RawPolicy

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.mask import Mask
    from telemetry.spans.otlp.writer import FinishedSpan
    from telemetry.spans.rules import SpanRules

MAX_SEARCHED_BYTES: Final = 16 * 1024 * 1024
"""The most that is decoded to be searched; a stream shrinks to a tenth when it is encoded."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_=\\-]{1024,}+")
"""Base64 of pictures, sound and files, in which patterns are looked for as well."""

_FIELD = re.compile(r"[a-z]{1,8}: ?(?=[\[{])")
"""The name of a field of an event, before JSON."""

_BEFORE_BODY: Final = " \t\r\n\ufeff"
"""What the observer drops before a body that is not an answer."""

_NOT_SEEN: Final = frozenset({"observer_limit", "observer_died", "observer_failed"})
"""Anomalies of calls of which not everything is known, such as a credential in the request."""


def find_raw_answer(exchange: Exchange, span: FinishedSpan, rules: SpanRules) -> bytes | None:
    """Find the true bytes of an answer, packed; ``None`` if they are not wanted, or not allowed."""
    raw, mask = exchange.raw, span.mask
    if raw is None or mask is None or exchange.hides_content or not rules.keeps_raw_answers:
        return None
    if rules.raw is RawPolicy.ERRORS and span.status.status_code is not StatusCode.ERROR:
        return None
    if mask.searches and not _is_clean(exchange, raw, mask):
        return None
    return pack_raw_answer(raw)


def _is_clean(exchange: Exchange, raw: RawAnswer, mask: Mask) -> bool:
    """Tell whether nothing in an answer would be masked."""
    if not mask.credentials.are_known or not _NOT_SEEN.isdisjoint(exchange.anomalies):
        return False
    data = _decode(raw)
    if data is None:
        return False
    text = data.decode("utf-8", "replace")
    if any(mask.finds_in_bytes(_decode_begun(one)) for one in _BASE64.findall(text)):
        return False
    shown = exchange.undecoded_body if exchange.error_body is None else exchange.error_body
    if shown is not None or exchange.response is None:
        # In an error the relay has masked some credentials already.
        is_same = shown == text.lstrip(_BEFORE_BODY)
        return is_same and REDACTED not in text and mask.provider_words(text) == text
    searched = [text] if not exchange.streamed else map(_drop_field, text.split("\n"))
    if any(map(mask.changes_answer, searched)):
        return False
    return not mask.changes_answer(compact_text(exchange.response.body))


def _decode(raw: RawAnswer) -> bytes | None:
    """Undo the content coding, as far as the body came; ``None`` if that is not possible."""
    try:
        decoder = ContentDecoder(raw.content_encoding, max_bytes=MAX_SEARCHED_BYTES)
    except UndecodableContent:
        return None
    data = decoder.feed(raw.body)
    return data if decoder.error is None else None


def _decode_begun(base64: str) -> bytes:
    """Decode base64 of JSON, which may break off."""
    plain = base64.replace("\\/", "/").rstrip("=")
    return decode_base64(plain[: len(plain) - len(plain) % 4])


def _drop_field(line: str) -> str:
    """Drop the name of an event's field, so that JSON behind it is read as JSON."""
    name = _FIELD.match(line)
    return line if name is None else line[name.end() :]
