"""Keys of our own that clients must show, so that the proxy can hold the provider's.

Rules:

1. Nothing but SHA-256 digests is kept of a key: the settings hash it as they are read, and a file
   may hold ``sha256:<64 hex digits>`` in its place. Keys are long and random, hence no salt.
2. A request's key is looked up by its digest. That takes as long however many keys there are, and
   how long it takes tells nothing of them: digests are compared where their hashes are equal.
3. It comes as ``x-spantap-key``, as ``Authorization: Bearer``, or as ``api-key`` or ``x-api-key``.
   Whatever field holds an inbound key is told, so that none of them reaches the upstream (R7).
4. What is wrong with an entry is said by its place, never by quoting it (R7).
5. A variable, list or file that is there and holds no key is refused: it would let everybody in.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.certificates import refuse_special_file
from proxy.configuration_error import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from proxy.headers import RawHeaders
    from proxy.worker_settings import RelaySettings

__all__ = (
    "CARRIERS",
    "InboundKeys",
    "explain_exposed_keys",
    "hash_keys",
    "read_inbound_keys",
)

CARRIERS = (b"x-spantap-key", b"authorization", b"api-key", b"x-api-key")
"""Fields in which a key may come, lower case; of ``Authorization`` the scheme ``Bearer``."""

MIN_KEY_CHARS = 16
"""Of a plain key: what is shorter can be guessed, its digest even without asking us."""

MAX_KEYS = 1_000
"""For some hundred users, old and new keys; a start reads and hashes them all."""

MAX_FILE_BYTES = 1024 * 1024
"""Of a file of keys: ten times what :data:`MAX_KEYS` of them need."""

_HASHED = re.compile(r"sha256:([0-9a-fA-F]{64})")
_PLAIN = re.compile(r"[!-~]+")
_BEARER = re.compile(rb"bearer[ \t]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InboundKeys:
    """The keys that open the traffic port.

    Attributes:
        digests: SHA-256 of each, not shown.
    """

    digests: frozenset[bytes] = field(repr=False)

    def find_carriers(self, headers: RawHeaders) -> frozenset[bytes]:
        """The fields of a request that hold one of the keys, lower case (rule 3).

        Empty for a request that is not let in.
        """
        return frozenset(
            key
            for name, value in headers
            if (key := name.lower()) in CARRIERS and self._has(_secret_of(key, value))
        )

    def _has(self, secret: bytes) -> bool:
        return hashlib.sha256(secret).digest() in self.digests


def _secret_of(name: bytes, value: bytes) -> bytes:
    """The key in a field's value; one without its scheme is hashed, and fits nothing."""
    if name != b"authorization":
        return value
    scheme = _BEARER.match(value)
    return value[scheme.end() :] if scheme else b""


def hash_keys(entries: Iterable[object]) -> tuple[str, ...]:
    """Each entry as ``sha256:<64 hex digits>``, as a setting keeps it (rule 1).

    Args:
        entries: plain keys, or such digests.

    Raises:
        ValueError: there is none (rule 5), or one cannot be a key; it is told by its number
            (rule 4).
    """
    hashed = [_hash_key(entry, f"entry {number}") for number, entry in enumerate(entries, start=1)]
    if not hashed:
        raise ValueError("is set, and holds no key: that would let everybody in")
    return tuple(hashed)


def _hash_key(entry: object, place: str) -> str:
    text = entry.strip() if isinstance(entry, str) else ""
    if found := _HASHED.fullmatch(text):
        return f"sha256:{found[1].lower()}"
    if text.startswith("sha256:"):
        raise ValueError(f"{place} begins with 'sha256:', but 64 hexadecimal digits do not follow")
    if len(text) < MIN_KEY_CHARS:
        raise ValueError(f"{place} must be a key of at least {MIN_KEY_CHARS} characters")
    if not _PLAIN.fullmatch(text):
        raise ValueError(f"{place} must be printable ASCII without white space")
    return f"sha256:{hashlib.sha256(text.encode('ascii')).hexdigest()}"


def read_inbound_keys(settings: RelaySettings) -> InboundKeys | None:
    """The keys of the settings and of their file; ``None`` where everybody is let in.

    Raises:
        ConfigurationError: the file cannot be used, or there are too many keys.
    """
    if settings.inbound_keys is None and settings.inbound_keys_file is None:
        return None
    hashed = set(settings.inbound_keys or ())
    if settings.inbound_keys_file is not None:
        hashed.update(_read_file(settings.inbound_keys_file))
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
                hashed.add(_hash_key(entry, f"line {number}"))
            except ValueError as error:
                raise ConfigurationError(f"{where}: {error}") from None
    if not hashed:
        raise ConfigurationError(f"{where} holds no key: that would let everybody in")  # rule 5
    return hashed


def explain_exposed_keys(settings: RelaySettings) -> str | None:
    """The warning for a start where anybody who reaches the port spends a held key, else ``None``.

    So it is where an upstream has ``api_key_env``, the host is more than this machine, and there
    are no inbound keys.
    """
    holders = [table.name for table in settings.upstreams if table.api_key_env is not None]
    asks_for_key = settings.inbound_keys is not None or settings.inbound_keys_file is not None
    if not holders or asks_for_key or _is_loopback(settings.host):
        return None
    return (
        f"whoever reaches {settings.host}:{settings.port} spends the key of "
        f"{', '.join(map(repr, holders))}: set SPANTAP_INBOUND_KEYS_FILE or SPANTAP_INBOUND_KEYS, "
        "or listen on 127.0.0.1"
    )


def _is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches it; of names only ``localhost`` is known."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
