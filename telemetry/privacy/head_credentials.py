"""Credentials that a request's head carries, found in the places where clients put them (R7).

If the name of a header says that it carries a credential, these values count: the whole header, the
header without its scheme, each cookie, and each ``name=value``, in quotes or not. A member of the
query with such a name, or without a name, is a credential, too. So is a ``name=value`` with such a
name, or a member of a JSON text, in any header. A browser, which cannot set a header on a
WebSocket, puts the key in the name of a subprotocol.

Any other header, and any other member of a query, may carry a credential under an unknown name.
Such values are masked only if a provider quotes them in an error; in content they are ordinary
words. Headers that are known to be harmless, or that are recorded, are not searched.

Callers are distinguished by the masked values, and by any value, however short, of the headers from
which providers read a key.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from codec.text.jsontext import decode_json, is_json
from telemetry.privacy.aws_signature import read_header_signature, read_query_signature
from telemetry.privacy.credential_names import json_bytes, looks_like_credential
from telemetry.privacy.credentials import (
    MAX_CREDENTIALS,
    MIN_CREDENTIAL_CHARS,
    NO_CREDENTIALS,
    Credentials,
    is_telling,
)
from telemetry.privacy.named_credentials import plain_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_PARTS = 1_024
"""The most parts of one head, in all fields together: a browser sends some 50 cookies, of two parts
each. Each part takes some two microseconds, and a worker's other calls wait (R2). The smallest
fields are read first, and cookies last. If there is no room for a field, the credentials are not
all known, so a provider's words of an error are masked as a whole (R5)."""

_JSON_PART_BYTES = 256
"""Memory that counts as one part: a member of JSON and its value."""

_PART_CHARS = 64
"""Characters that count as one part, because reading them takes as long."""

_PART_ESCAPES = 4
"""Escapes of URLs that count as one part."""

QUERY: Final = "?"
"""The name under which the query stands among headers; no header can have this name."""

_HARMLESS: Final = frozenset(
    {
        *("accept", "accept-charset", "accept-encoding", "accept-language", "api-version"),
        *("anthropic-beta", "anthropic-version", "baggage", "cache-control", "connection"),
        *("content-encoding", "content-language", "content-length", "content-type", "date"),
        *("dnt", "expect", "forwarded", "host", "keep-alive", "max-forwards", "openai-beta"),
        *("openai-organization", "openai-project", "origin", "pragma", "priority"),
        *("sec-websocket-extensions", "sec-websocket-key", "sec-websocket-version", "te"),
        *("traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade"),
        *("upgrade-insecure-requests", "user-agent", "via", "x-amzn-trace-id"),
        *("x-client-request-id", "x-correlation-id", "x-real-ip", "x-request-id", "x-title"),
    }
)
_HARMLESS_PREFIXES: Final = (
    "sec-ch-",
    "sec-fetch-",
    "x-b3-",
    "x-forwarded-",
    "x-spantap-",
    "x-stainless-",
)

_LISTS: Final = frozenset({"baggage", "x-forwarded-path", "x-forwarded-uri", "x-forwarded-url"})
"""Harmless headers with members or a query; a member may still have the name of a credential."""

_HARMLESS_MEMBERS: Final = frozenset(
    {
        *("algorithm", "alt", "api-version", "beta", "deployment", "location", "model", "provider"),
        *("realm", "region", "signedheaders", "version"),
    }
)
"""Harmless members of a query, and of a header's value."""

_SUBPROTOCOL: Final = "sec-websocket-protocol"

_KEY_MEMBERS: Final = frozenset({"code", "sig"})
"""Members of a query that are keys only by custom: Azure's functions and storage."""

_OF_PROVIDERS: Final = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key"})
_OF_SIGNATURES: Final = frozenset({"authorization", "x-amz-security-token"})
_OF_PRESIGNED: Final = frozenset({QUERY, "x-amz-security-token"})
_OF_NONE: Final = frozenset[str]()

_NAME_CHARS = 128
"""Longest name in a query or in JSON; real ones are shorter."""

_SEPARATOR = re.compile(r"[&;]")

_PART = re.compile(r"""(?<![^\s,;&?="])([^\s,;&?="]++)=(?:"([^"]*)|([^\s,;&"]*))""")
"""A name and its value, in quotes or not, as in parameters of a scheme or entries of a list. Other
text is skipped at once, however long it is."""


@lru_cache(maxsize=1_024)
def is_harmless(name: str) -> bool:
    """Tell whether a header, in lower case, is known to carry no credential."""
    if looks_like_credential(name):
        return False
    return name in _HARMLESS or name.startswith(_HARMLESS_PREFIXES)


def may_hold_credential(name: str) -> bool:
    """Tell whether a header, in lower case, is to be searched."""
    return name in _LISTS or not is_harmless(name)


def find_head_credentials(fields: Iterable[tuple[str, str]]) -> Credentials:
    """Find the credentials of a head.

    Args:
        fields: names in lower case and values of headers; also :data:`QUERY` with the query.
    """
    everywhere: dict[str, None] = {}  # sets that keep their order
    quoted: dict[str, None] = {}
    looked_at, unknown = _choose(list(fields))
    signer, signed = _find_signer(looked_at)
    telling = {} if signer is None else {signer: None}
    for name, value in looked_at:
        if name in _OF_PROVIDERS and name not in signed:
            telling[value.strip()] = None
        for is_named, text in _find_values(name, value):
            if len(text) >= MIN_CREDENTIAL_CHARS:
                is_one = is_named and is_telling(text) and len(everywhere) < MAX_CREDENTIALS
                (everywhere if is_one else quoted)[text] = None
                if is_one and name not in signed:
                    telling[text] = None
    if everywhere or quoted or telling or unknown:
        return Credentials(everywhere, quoted, telling=telling, unknown=unknown)
    return NO_CREDENTIALS


def _find_signer(fields: list[tuple[str, str]]) -> tuple[str | None, frozenset[str]]:
    """Find the id of the key that made Amazon's signature, and the fields of the signature.

    The signature differs in each request of a caller, and the token in each session: the id of the
    access key distinguishes callers instead.
    """
    for name, value in fields:
        if name == "authorization" and (signature := read_header_signature(value)):
            return signature.key_id, _OF_SIGNATURES
        if name == QUERY and (signature := read_query_signature(value)):
            return signature.key_id, _OF_PRESIGNED
    return None, _OF_NONE


def _choose(fields: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], bool]:
    """Choose the fields to search, in this order, and tell whether others are left."""
    # The usual case: there cannot be more parts than characters.
    if sum([len(value) for _, value in fields]) <= MAX_PARTS:
        fields.sort(key=_is_cookie)
        return fields, False
    left_parts = MAX_PARTS
    chosen: list[tuple[str, str]] = []
    counted = [(_is_cookie(field), _count_parts(*field), field) for field in fields]
    for _, parts, field in sorted(counted, key=itemgetter(0, 1)):
        if parts <= left_parts:
            left_parts -= parts
            chosen.append(field)
    return chosen, len(chosen) < len(fields)


def _is_cookie(field: tuple[str, str]) -> bool:
    """Tell whether a field comes last: if there are many values, only the first are masked."""
    return field[0] == "cookie"


def _count_parts(name: str, value: str) -> int:
    """Count the parts of a field by the marks between them; in JSON such marks are text."""
    parts = 1 + len(value) // _PART_CHARS + value.count("%") // _PART_ESCAPES
    if _looks_like_json(value.strip()) and name not in {QUERY, "cookie"}:
        parts += json_bytes(value) // _JSON_PART_BYTES
        if parts > MAX_PARTS or is_json(value):
            return parts
    return parts + sum(map(value.count, "=&;,"))


def _looks_like_json(value: str) -> bool:
    return value.startswith(("{", "["))


def read_fields(text: bytes) -> Iterator[tuple[str, str]]:
    """Read names and values, a line for each (:class:`telemetry.frames.frame.Begin`)."""
    for line in text.split(b"\n"):
        name, _, value = line.decode("utf-8", "replace").partition(":")
        yield name, value


def _find_values(name: str, value: str) -> Iterator[tuple[bool, str]]:
    """Yield each value, and whether a name says that it is a credential."""
    if name == QUERY:
        yield from _in_query(value)
        return
    if name == _SUBPROTOCOL:
        yield from _in_subprotocols(value)
        return
    is_named = looks_like_credential(name)
    value = value.strip()
    if _looks_like_json(value) and (members := _decode(value)) is not None:
        shows_others = is_harmless(name)
        for is_one, text in _in_json(members, is_named):
            if is_one or not shows_others:
                yield is_one, text
        return
    is_url = "://" in value and not _looks_like_json(value)
    if "?" in value and (is_url or value.startswith("/")):
        yield from _in_query(value.partition("?")[2])
    if is_url and not is_named:
        return
    if is_named or not is_harmless(name):
        yield is_named, value
    if is_named:
        scheme, _, rest = value.rpartition(" ")
        yield True, rest.strip('"')
        if scheme.lower() == "basic":
            yield from ((True, text) for text in _in_basic(rest))
    if name == "cookie":
        for cookie in value.split(";"):
            text = cookie.partition("=")[2].strip().strip('"')
            yield True, text
            if "%" in text:
                yield True, unquote(text)
    elif "=" in value:
        yield from _in_parts(value, is_named=is_named, shows_others=is_harmless(name))


def _in_query(query: str) -> Iterator[tuple[bool, str]]:
    for member in _SEPARATOR.split(query.partition("#")[0]):
        spelled, equals, value = member.partition("=")
        if not equals:
            yield True, spelled
            yield True, unquote(spelled)
        elif (is_named := _is_named_member(spelled)) is not None:
            yield is_named, value
            yield is_named, unquote(value)


def _in_parts(value: str, *, is_named: bool, shows_others: bool) -> Iterator[tuple[bool, str]]:
    """Yield values in a header's list: ``token="..."``, ``sr=...&sig=...``, ``a=..., b=...``."""
    for spelled, quoted, plain in _PART.findall(value):
        says_so = _is_named_member(spelled)
        if says_so is None or (shows_others and not says_so):
            continue
        text = quoted or plain
        yield is_named or says_so, text
        if "%" in text:
            yield is_named or says_so, unquote(text)


def _is_named_member(spelled: str) -> bool | None:
    """Tell whether a member's name says that it is a credential; ``None`` if it is harmless."""
    name = _plain_end(unquote(spelled))
    if name in _HARMLESS_MEMBERS:
        return None
    return name in _KEY_MEMBERS or looks_like_credential(name)


def _in_subprotocols(value: str) -> Iterator[tuple[bool, str]]:
    """Yield text after names: ``openai-insecure-api-key.sk-...`` (OpenAI), ``bearer, sk-..``."""
    follows_name = False
    for protocol in map(str.strip, value.split(",")):
        kind, dot, key = protocol.rpartition(".")
        if follows_name:
            yield True, protocol
        elif dot and not is_harmless(kind.lower()):
            is_named = looks_like_credential(kind.lower())
            yield is_named, key
            yield is_named, protocol.partition(".")[2]
        elif not dot and is_telling(protocol):
            yield False, protocol
        follows_name = not dot and looks_like_credential(protocol.lower())


def _in_json(members: Any, is_named: bool) -> Iterator[tuple[bool, str]]:  # noqa: FBT001 - private
    """Yield the strings of a JSON text; the name of a member may make them credentials."""
    waiting = [(is_named, members)]
    while waiting:
        is_named, value = waiting.pop()
        if isinstance(value, str):
            yield is_named, value
        elif isinstance(value, dict):
            waiting += (
                (is_named or looks_like_credential(_plain_end(name)), item)
                for name, item in value.items()
            )
        elif isinstance(value, list):
            waiting += ((is_named, item) for item in value)


def _plain_end(name: str) -> str:
    """Return the end of a name, which shows its meaning, in the spelling that is searched for."""
    return plain_name(name[-_NAME_CHARS:])


def _in_basic(text: str) -> Iterator[str]:
    """Yield the user and password of basic authentication (RFC 7617)."""
    try:
        pair = b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return
    yield pair
    yield pair.partition(":")[2]


def _decode(text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError:
        return None
