"""Keys of our own that clients must show, so that the proxy can hold the provider's.

Only the SHA-256 digest of a key is kept: the settings hash it as they are read, and a file may have
``sha256:<64 hex digits>`` instead of the key. Keys are long and random, so that no salt is needed.
A message about a wrong entry names its place, and never quotes it (R7).

A key comes in one of the fields of :data:`CARRIERS`, as the member ``key`` of the query, as
Gemini's clients may send theirs, or in a subprotocol of a WebSocket, because browsers can set no
other field.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, unquote_to_bytes

from proxy.certificates import refuse_special_file
from proxy.headers import Head
from proxy.key_hashes import hash_key
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from proxy.headers import RawHeaders

CARRIERS = (b"x-spantap-key", b"authorization", b"api-key", b"x-api-key", b"x-goog-api-key")
"""Fields in which a key may come, in lower case; in ``Authorization``, with the scheme
``Bearer``."""

MAX_KEYS = 1_000
"""For some hundred users, old and new keys; a start reads and hashes them all."""

MAX_FILE_BYTES = 1024 * 1024
"""The largest file of keys: ten times what :data:`MAX_KEYS` keys need."""

_PROTOCOL = b"sec-websocket-protocol"
_PROTOCOL_KEY = re.compile(rb"[ \t]*openai-insecure-api-key\.([^ \t]*)[ \t]*")
"""The subprotocol in which OpenAI's clients in browsers send their key."""

_BEARER = re.compile(rb"bearer[ \t]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InboundKeys:
    """The keys that open the traffic port, as SHA-256 digests that are not shown.

    A request's key is looked up by its digest. How long that takes depends neither on how many keys
    there are nor on what they are: digests are compared only if their hashes are equal.
    """

    digests: frozenset[bytes] = field(repr=False)

    def find_carriers(self, headers: RawHeaders) -> frozenset[bytes]:
        """Return the names of the fields of a request that have one of the keys, in lower case.

        None of them may reach the upstream (R7). Empty if no field has a key.
        """
        return frozenset(
            key
            for name, value in headers
            if (key := name.lower()) in CARRIERS and self.has(_secret_of(key, value))
        )

    def has(self, secret: bytes) -> bool:
        """Tell whether it is one of the keys."""
        return hashlib.sha256(secret).digest() in self.digests


def drop_query_keys(target: str, is_spent: Callable[[bytes], bool]) -> str:
    """Return the target without the members ``key`` of its query whose value is one of our keys.

    `is_spent` says whether it is. Everything else stays as it is, byte for byte.

    >>> drop_query_keys("/v1beta/models?a=%41&key=k&b", lambda key: key == b"k")
    '/v1beta/models?a=%41&b'
    """
    path, _, query = target.partition("?")
    if "=" not in query:
        return target
    members = [(member, *member.partition("=")[::2]) for member in query.split("&")]
    kept = [
        member
        for member, name, value in members
        if unquote(name) != "key" or not is_spent(unquote_to_bytes(value))
    ]
    if len(kept) == len(members):
        return target
    return f"{path}?{'&'.join(kept)}" if kept else path


def drop_protocol_keys(headers: Head, is_spent: Callable[[bytes], bool]) -> Head:
    """Return a handshake's fields without the subprotocols that hold one of our keys.

    `is_spent` says whether a key is one. The other subprotocols stay; the client gets the one that
    the upstream chooses among them.
    """
    if not headers.has(_PROTOCOL):
        return headers
    fields = []
    for name, value in headers:
        if name.lower() == _PROTOCOL:
            members = value.split(b",")
            kept = [
                member
                for member in members
                if not (found := _PROTOCOL_KEY.fullmatch(member)) or not is_spent(found[1])
            ]
            if len(kept) < len(members):
                value = b",".join(kept).strip(b", \t")  # noqa: PLW2901 - the field's new value
                if not value:
                    continue
        fields.append((name, value))
    return Head(fields)


def _secret_of(name: bytes, value: bytes) -> bytes:
    """Return the key in a field's value; empty, which is no key, if the scheme is not Bearer."""
    if name != b"authorization":
        return value
    scheme = _BEARER.match(value)
    return value[scheme.end() :] if scheme else b""


def read_keys(keys: Iterable[str], file: Path | None) -> InboundKeys:
    """Read the keys of the settings, which are hashed, and of a file with a key on each line.

    Raises:
        ConfigurationError: the file cannot be used, or there are too many keys.
    """
    hashed = set(keys)
    if file is not None:
        hashed.update(_read_file(file))
    if len(hashed) > MAX_KEYS:
        raise ConfigurationError(f"there are more than {MAX_KEYS} inbound keys")
    return InboundKeys(frozenset(bytes.fromhex(entry.removeprefix("sha256:")) for entry in hashed))


def _read_file(path: Path) -> set[str]:
    refuse_special_file("inbound_keys_file", path)
    where = f"setting 'inbound_keys_file': {path}"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError(f"{where} cannot be read: {reason}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{where} is larger than {MAX_FILE_BYTES} bytes")
    hashed = set()
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        entry = line.strip()
        if entry and not entry.startswith("#"):
            try:
                hashed.add(hash_key(entry, f"line {number}"))
            except ValueError as error:
                raise ConfigurationError(f"{where}: {error}") from None
    if not hashed:
        raise ConfigurationError(f"{where} holds no key: that would let everybody in")
    return hashed
