r"""Finds credentials under their names in a text, such as a form, literals, headers, YAML or XML.

A name ends like that of a credential (:func:`is_credential_name`). It is followed by ``=``, ``:``
or ``=>``, with or without quotes and escapes, the end of an XML tag, the head of a part of a form
or, in a tuple of Python, a comma. Then comes the value, up to its quote or the end of the word. The
work is linear in the text.

After ``:``, without quotes, a value counts only if it looks like a key
(:func:`~telemetry.privacy.credentials.is_telling`) or if the line has nothing else, because bodies
may have prose. A provider's words are prose: in prose a word such as ``key`` or ``token`` alone is
a name only if the value cannot be a word, in quotes or not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from codec.text.jsontext import decode_json
from telemetry.privacy.credentials import MIN_CREDENTIAL_CHARS, is_telling

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LOOKED_NAMES: Final = 30_000
"""The most names in one text (R5): this many take a sixth of a second. Real texts have dozens."""

_ENDS: Final = (
    *("key", "token", "secret", "password", "passwd", "auth", "authorization", "bearer"),
    *("connection-string", "key-string", "cookie", "credential", "credentials", "jwt", "sig"),
    *("signature", "passphrase", "pwd"),
)
"""Ends of the names of credentials."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME = re.compile(rf"(?:^|-)(?:[a-z]*api)?(?:{'|'.join(_ENDS)})$")

_HARMLESS: Final = re.compile(
    r"(?:cache|public|idempotency|primary|foreign|sort|partition)-key$"
    r"|(?:bos|eos|pad|stop|page)-token$"
)
"""Names with such an end whose values are not secret."""

_WEAK: Final = frozenset({"key", "token", "auth", "sig", "signature", "cookie", "secret", "bearer"})
"""Names that are also words."""

_NAMED: Final = re.compile(
    rb"(%s|string)"
    rb"(?:\\{0,8}+[\"'`]\]?|\]|%%22|%%27|%%5d)?+"  # the name's end: quotes, brackets, escapes
    rb"\s{0,8}+(=>|=|:|%%3a|%%3d|,)\s{0,8}+"
    % "|".join(sorted((end for end in _ENDS if "-" not in end), key=len, reverse=True)).encode()
)
"""In lower case: the end of a name, and the marks between the name and its value."""

_IN_TUPLE: Final = re.compile(rb"(?:^|[\[(,=:\s])\([bru]?[\"']$", re.IGNORECASE)
"""The characters before a name that begins a tuple, and not the arguments of a call."""

_ELEMENT: Final = re.compile(
    rb"<(?:[\w.-]{1,64}+:)?+([\w.-]{1,64}+)(?:\s[^<>]{0,256}+)?+>\s{0,64}+(?:<!\[cdata\[)?+"
    rb"([^<>\]]{1,16384}+)"
)
"""In lower case: an element of XML with its name and its text, in any namespace and with any
attributes."""

_PART: Final = re.compile(rb"name=[\"']?([^\"'\r\n;]{1,64}+)[\"']?")
_TO_PART: Final = re.compile(
    rb"[^\r\n]{0,256}+\r?\n(?:[^\r\n]{1,256}+\r?\n){0,8}+\r?\n([^\r\n]{1,16384}+)"
)
"""Matches from the name of a form's part to its value, across its other headers (RFC 7578)."""

_VALUE: Final = re.compile(
    rb"(?:[bru]{1,2}+(?=\\{0,8}+[\"'])|[|>][-+\d]{0,2}+ {0,8}+\r?\n[ \t]{1,64}+)?+"
    rb"(?:\\{1,8}+[\"']([^\"'\\\r\n]{1,16384}+)"
    rb"|\"((?:[^\"\\\r\n]|\\[^\r\n]){1,16384}+)"
    rb"|'((?:[^'\\\r\n]|\\[^\r\n]){1,16384}+)"
    rb"|((?:(?:bearer|basic|token|apikey|bot)[ +]{1,4}+)?+"
    rb"[^\s\"'<>&,;{}()\[\]\\]{1,16384}+))",
    re.IGNORECASE,
)
"""A value: in escaped quotes, in quotes of either kind, or without quotes, after a scheme (RFC
9110). The letter of a literal of Python, or the mark of a block of YAML and the end of its line,
may come before it. A value has at most 16 KiB: keys have some hundred characters, tokens some
thousand."""

_SCHEME: Final = re.compile(r"(?:bearer|basic|token|apikey|bot)[ +]{1,4}", re.IGNORECASE)

_LINE: Final = re.compile(rb"[^\r\n]{1,16384}+")
_NAME_BYTES: Final = bytes(
    byte for byte in range(256) if (chr(byte).isalnum() and byte < 128) or byte in b"_-.%"
)
_MAX_NAME_BYTES: Final = 64
_RANDOM_CHARS: Final = 16
_MANY_DIGITS: Final = 5
_SAMPLE_BYTES: Final = 256


def plain_name(name: str) -> str:
    """Return a name in the spelling that is searched for: ``accessToken`` as ``access-token``."""
    return _HUMP.sub("-", name).replace("_", "-").lower()


def is_credential_name(name: str) -> bool:
    """Tell whether a plain name is that of a credential."""
    return _NAME.search(name) is not None


def find_named(text: bytes, *, is_prose: bool = False) -> Iterator[str]:
    """Yield the values that a text has under the names of credentials.

    Args:
        text: of any form.
        is_prose: the text is a provider's words.

    Raises:
        OverflowError: it has more than :data:`MAX_LOOKED_NAMES` such names.
    """
    decoded = _decode_wide(text)
    plain = text if decoded is None else decoded.encode("utf-8", "replace")
    for value in _find(plain, is_prose=is_prose):
        yield value
        if decoded is not None:
            yield "\0".join(value)


def _decode_wide(text: bytes) -> str | None:
    """Decode UTF-16, with or without its mark; ``None`` for any other text.

    Credentials in it are found with and without the NULs between the characters, because the text
    may be shown either way.
    """
    sample = text[:_SAMPLE_BYTES]
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return text.decode("utf-16", "replace")
    nuls = [sample[at::2].count(0) for at in (0, 1)]
    if 2 * max(nuls) <= len(sample) // 2:
        return None
    return text.decode("utf-16-be" if nuls[0] > nuls[1] else "utf-16-le", "replace")


def _find(text: bytes, *, is_prose: bool) -> Iterator[str]:
    lowered = text.lower()  # ASCII only, so that places stay
    looked = end = 0
    for found in _NAMED.finditer(lowered):
        if found.start() < end:  # inside the value before, which was read
            continue
        if (looked := looked + 1) > MAX_LOOKED_NAMES:
            raise OverflowError
        before, name = _split_name(text, *found.span(1))
        if is_prose and name.endswith("signature"):  # from a model's thoughts, not secret
            continue
        if _names(name) and (found[2] != b"," or _IN_TUPLE.search(before)):
            values, end = _read_value(text, found, before, name, is_prose=is_prose)
            yield from values
    for pattern in (_ELEMENT, _PART):
        for found in pattern.finditer(lowered):
            path = text[found.start(1) : found.end(1)].decode("utf-8", "replace")
            if not _names(_last_name(path)):
                continue
            if (looked := looked + 1) > MAX_LOOKED_NAMES:
                raise OverflowError
            if pattern is _ELEMENT:
                content = text[found.start(2) : found.end(2)]
            else:
                value = _TO_PART.match(text, found.end())
                content = value[1] if value else b""
            yield from _forms(content.decode("utf-8", "replace").strip())


def _names(name: str) -> bool:
    return is_credential_name(name) and not _HARMLESS.search(name)


def _split_name(text: bytes, start: int, end: int) -> tuple[bytes, str]:
    """Return the text before a name, and the name in its plain spelling."""
    piece = text[max(0, start - _MAX_NAME_BYTES) : end]
    before = piece[: len(piece) - (end - start)].rstrip(_NAME_BYTES)
    name = unquote(piece[len(before) :].decode("ascii", "replace"))
    return before, _last_name(name)


def _last_name(path: str) -> str:
    """Return the last name of a path such as ``litellm[api_key]``, in its plain spelling."""
    names = re.split(r"[^\w-]+", path.rstrip("]"))
    return plain_name(names[-1])


def _read_value(
    text: bytes, found: re.Match[bytes], before: bytes, name: str, *, is_prose: bool
) -> tuple[set[str], int]:
    """Read the forms of a value, empty if it is not a credential, and where it ends."""
    has_colon = found[2] == b":"  # prose never has `=`
    if has_colon and name.endswith("cookie") and (line := _LINE.match(text, found.end())):
        return _forms(line[0].decode("utf-8", "replace").strip()), line.end()
    value = _VALUE.match(text, found.end())
    if value is None:
        return set(), found.end()
    written = value[value.lastindex or 0].decode("utf-8", "replace")
    if scheme := _SCHEME.match(written):
        written = written[scheme.end() :]
    is_bare = value[4] is not None
    if has_colon and is_prose and name in _WEAK:
        is_meant = _is_random(written)
    elif has_colon and is_bare and not _is_alone(text, before, value.end()):
        is_meant = not written.isdecimal() and is_telling(written)
    else:
        is_meant = True
    if not is_meant:
        return set(), found.end()
    forms = _forms(written.rstrip(".,;:!?") if is_bare else written)
    if not is_bare and "\\" in written:
        forms |= _forms(_unquote_json(f'"{written}"'))
    return forms, value.end()


def _is_random(value: str) -> bool:
    """Tell whether a value looks random, like a key, and not like the name of a member."""
    digits = sum(map(str.isdigit, value))
    is_mixed = digits > 0 and any(map(str.isupper, value))
    return len(value) >= _RANDOM_CHARS and (is_mixed or digits >= _MANY_DIGITS)


def _is_alone(text: bytes, before: bytes, end: int) -> bool:
    """Tell whether a line has nothing except a name and its value."""
    if text[end : end + 1] not in {b"", b"\r", b"\n"}:
        return False
    indent = before.rstrip(b" \t-\"'")
    return indent.endswith(b"\n") if indent else len(before) < _MAX_NAME_BYTES


def _forms(value: str) -> set[str]:
    """Return a credential as written, its last word, and all of it without escapes of URLs."""
    last = value.rpartition(" ")[2]  # after an unknown scheme
    return {form for form in (value, last, unquote(value)) if len(form) >= MIN_CREDENTIAL_CHARS}


def _unquote_json(literal: str) -> str:
    try:
        return str(decode_json(literal))
    except ValueError:
        return literal[1:-1]
