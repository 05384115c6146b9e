"""The hosts that may be opened: a list of model hosts, and what a user may add to it.

The lists are data, in ``hosts.json`` beside this module. A row of ``model_hosts`` has the source of
the name and when it was written. Login, account and code hosts are never opened: refresh tokens and
passwords pass there. Names are exact; those with a region or a customer's name in them can only be
added by the user.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

_LABEL = re.compile(r"[0-9a-z]([0-9a-z-]{0,61}[0-9a-z])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_NAME_CHARS = 253

_SECOND_LEVEL = frozenset({"ac", "co", "com", "edu", "go", "gov", "mil", "ne", "net", "or", "org"})
"""Labels that registries of countries put before their own, as in ``co.uk``."""


class ModelHost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A host that only serves models, or serves models beside a website."""

    host: str
    source: str
    date: str


class _Lists(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file.

    Attributes:
        never: login, account and code hosts; hosts below them are never opened either.
        shared: names below which different customers have hosts.
    """

    model_hosts: tuple[ModelHost, ...]
    never: tuple[str, ...]
    shared: tuple[str, ...]


@cache
def _read() -> _Lists:
    data = Path(__file__).with_name("hosts.json").read_bytes()
    return msgspec.json.decode(data, type=_Lists)


def read_hosts() -> frozenset[str]:
    """Return the names of the model hosts."""
    return frozenset(row.host for row in _read().model_hosts)


def check_hosts(names: Iterable[str], named_by: str) -> frozenset[str]:
    """Check hosts that a user adds; `named_by` is the flag or the setting.

    Raises:
        ConfigurationError: one may not be opened.
    """
    try:
        return frozenset(map(check_host, names))
    except ValueError as error:
        raise ConfigurationError(f"{named_by}: {error}") from error


def check_host(name: str) -> str:
    """Check a host that a user adds, and return it in lower case.

    An authority that may sign for a name may also sign for all names below it (RFC 5280). So a name
    above a login host, or above hosts of different owners, is refused as well.

    Raises:
        ValueError: it may not be opened; the sentence says why.
    """
    host = name.lower().removesuffix(".")
    labels = host.split(".")
    if "*" in host:
        raise ValueError(f"{name!r} has a wildcard; name each host exactly")
    if ":" in host or "/" in host:
        raise ValueError(f"{name!r} is not a host name; give it without scheme, port or path")
    if _NUMBER.fullmatch(labels[-1]):
        raise ValueError(f"{name!r} is an address; only host names can be opened")
    if len(host) > _MAX_NAME_CHARS or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{name!r} is not a valid host name in ASCII")
    lists = _read()
    is_registry = len(labels) == 2 and len(labels[1]) == 2 and labels[0] in _SECOND_LEVEL
    if len(labels) == 1 or is_registry or host in lists.shared:
        raise ValueError(f"{name!r} stands for many hosts; name each host exactly")
    if any(f".{host}".endswith(f".{never}") for never in lists.never):
        raise ValueError(
            f"{name!r} is a login, account or code host; these are never opened, because passwords "
            "and refresh tokens pass there"
        )
    for never in lists.never:
        if never.endswith(f".{host}"):
            raise ValueError(f"{name!r} is above {never}, which is never opened; name a host below")
    return host
