"""Decides whether the true bytes of an answer may be kept beside its span, and packs them.

They are kept whole or not at all: nothing in them can be masked, because they would not be the true
bytes any more. So none are kept if a switch hides anything, or if a credential of the call or a
pattern is found in them. The bytes are searched as they came and with each content coding undone,
and so is what a stream may break into pieces: the answer that was put together from it, and the
strings that its events have in one place. What cannot be searched is not kept, unless there is
nothing to search for.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import StatusCode

from codec.text.jsontext import compact_text, decode_json
from codec.text.pictures import decode_base64
from telemetry.observing.content_decoding import ContentDecoder, UndecodableContent
from telemetry.privacy.credentials import MIN_CREDENTIAL_CHARS
from telemetry.privacy.json_strings import REDACTED
from telemetry.raw_answer import RawAnswer, pack_raw_answer
from telemetry.spans.rules import RawPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.mask import Mask
    from telemetry.spans.otlp.writer import FinishedSpan
    from telemetry.spans.rules import SpanRules

MAX_SEARCHED_BYTES: Final = 16 * 1024 * 1024
"""The most that is decoded to be searched; a stream shrinks to a tenth when it is encoded."""

MAX_SEARCHED_LINES: Final = 256 * 1024
"""The most lines that are searched, at some microseconds each."""

MAX_JOINED_STRINGS: Final = 512 * 1024
"""The most strings of a stream that are joined, at half a microsecond each."""

_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_=\\-])[A-Za-z0-9+/_=\\-]{1024,}+")
"""Base64 of pictures, sound and files, in which patterns are looked for as well. No search begins
inside of one that is too short, so the time is linear."""

_ESCAPED_LETTER = re.compile(r"\\u00(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA])")
"""No encoder writes it; without it a credential is found as it stands."""

_COMPRESSED: Final = (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd")
"""How gzip and zstd begin. Behind such bytes no head told of that coding."""

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
    if not _NOT_SEEN.isdisjoint(exchange.anomalies):
        return None
    if mask.searches and not _is_clean(exchange, raw, mask):
        return None
    return pack_raw_answer(raw)


def _is_clean(exchange: Exchange, raw: RawAnswer, mask: Mask) -> bool:
    """Tell whether nothing in an answer would be masked."""
    if not mask.credentials.are_known or mask.changes(f"{raw.content_type} {raw.content_encoding}"):
        return False
    data = _decode(raw, mask)
    if data is None or data.startswith(_COMPRESSED):
        return False
    text = data.decode("utf-8", "replace")
    if text.count("\n") > MAX_SEARCHED_LINES or _hides_secret(text, mask):
        return False
    shown = exchange.undecoded_body if exchange.error_body is None else exchange.error_body
    if shown is not None or exchange.response is None:
        # In an error the relay has masked some credentials already.
        is_same = shown == text.lstrip(_BEFORE_BODY)
        return is_same and REDACTED not in text and mask.provider_words(text) == text
    made = compact_text(exchange.response.body)
    if mask.changes_answer(made):
        return False
    if not exchange.streamed:
        return not mask.changes_answer(text)
    lines = [*map(_drop_field, text.split("\n"))]
    if any(map(mask.changes_answer, lines)) or _has_base64_secret(made, mask):
        return False
    joined = _join_strings(lines)
    return joined is not None and not any(map(mask.changes_answer, joined))


def _decode(raw: RawAnswer, mask: Mask) -> bytes | None:
    """Undo the content codings, as far as the body came.

    ``None`` if that is not possible, or if anything is found beside what they encode: in names of
    files, in frames that readers skip, or behind the end.
    """
    data = raw.body
    with contextlib.suppress(UndecodableContent):
        ContentDecoder(raw.content_encoding)  # it knows how many are too many
        for name in reversed(raw.content_encoding.split(",")):
            if name.strip().lower() in {"", "identity"}:
                continue
            if mask.finds_in_bytes(data):
                return None
            decoder = ContentDecoder(name, max_bytes=MAX_SEARCHED_BYTES)
            data = decoder.feed(data)
            if decoder.error is not None:
                return None
        return data
    return None


def _hides_secret(text: str, mask: Mask) -> bool:
    """Tell whether a secret is found in base64, in two bytes a letter, in escapes, or at the end.

    A body that was cut may end within a credential.
    """
    if _has_base64_secret(text, mask) or ("\0" in text and mask.changes(text.replace("\0", ""))):
        return True
    credentials = mask.credentials
    if _ESCAPED_LETTER.search(text) and credentials.redact_quote(text) != text:
        return True
    shown_chars = credentials.measure_shown(text)
    return shown_chars is None or len(text) - shown_chars >= MIN_CREDENTIAL_CHARS


def _has_base64_secret(text: str, mask: Mask) -> bool:
    return any(mask.finds_in_bytes(_decode_begun(one)) for one in _BASE64.findall(text))


def _join_strings(lines: Iterable[str]) -> Iterable[str] | None:
    """Join the strings that the events of a stream have in one place; ``None`` if they are many."""
    found: dict[int, list[str]] = defaultdict(list)
    left = MAX_JOINED_STRINGS
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            for place, string in _walk_strings(decode_json(line)):
                if (left := left - 1) < 0:
                    return None
                found[place].append(string)
    return ["".join(strings) for strings in found.values() if len({*strings}) > 1]


def _walk_strings(value: Any) -> Iterator[tuple[int, str]]:
    """Yield each string of a JSON value with its place: names of members, and a member `index`."""
    waiting = [(0, value)]
    while waiting:
        place, one = waiting.pop()
        if isinstance(one, str):
            yield place, one
        elif isinstance(one, dict):
            index = one.get("index")
            own = hash((place, index)) if isinstance(index, int) else place
            waiting += [(hash((own, name)), item) for name, item in reversed(one.items())]
        elif isinstance(one, list):
            waiting += [(place, item) for item in reversed(one)]


def _decode_begun(base64: str) -> bytes:
    """Decode base64 of JSON, which may break off."""
    plain = base64.replace("\\/", "/").replace("\\n", "").replace("\\r", "").rstrip("=")
    return decode_base64(plain[: len(plain) - len(plain) % 4])


def _drop_field(line: str) -> str:
    """Drop the name of an event's field, so that JSON behind it is read as JSON."""
    name = _FIELD.match(line)
    return line if name is None else line[name.end() :]
