"""Gathers for telemetry what may be a credential in a request's head (R7).

A worker looks only at names, and remembers the result for each shape of a head. It gathers each
field that is neither known to be harmless nor recorded unchanged, our key that replaces the
client's, and the query. :mod:`telemetry.privacy.head_credentials` finds the credentials in them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from proxy.headers import MAX_SHAPES
from telemetry.privacy.credential_names import looks_like_credential
from telemetry.privacy.head_credentials import QUERY, may_hold_credential

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.headers import Head, Shape

_QUERY = QUERY.encode("ascii")


def gather_fields(
    headers: Head,
    target: str,
    held: Iterable[tuple[bytes, bytes]],
    recorded: tuple[frozenset[bytes], tuple[bytes, ...]],
) -> bytes:
    """Gather names and values, as :class:`telemetry.frames.frame.Begin` has them.

    Args:
        headers: the client's.
        target: raw path and query.
        held: our own fields that hold a key.
        recorded: the fields that are copied unchanged: names, and beginnings of names.
    """
    lines = [
        b"%b:%b" % (name, headers[place][1])
        for name, place in _find_suspects(headers.shape, *recorded)
    ]
    for name, value in held:
        lines.append(b"%b:%b" % (name.lower(), value))
    _, mark, query = target.partition("?")
    if mark:
        lines.append(b"%b:%b" % (_QUERY, query.encode("utf-8", "surrogateescape")))
    return b"\n".join(lines)


@functools.lru_cache(MAX_SHAPES)
def _find_suspects(
    shape: Shape, recorded: frozenset[bytes], prefixes: tuple[bytes, ...]
) -> tuple[tuple[bytes, int], ...]:
    """List the names and places of the fields that may hold a credential."""
    return tuple(
        (name, place)
        for place, name in enumerate(shape.names)
        if _is_suspect(name.decode("latin-1"), name in recorded or name.startswith(prefixes))
    )


def _is_suspect(name: str, is_recorded: bool) -> bool:  # noqa: FBT001 - private, one caller
    if is_recorded:  # except a credential by its name, which is never recorded
        return looks_like_credential(name)
    return may_hold_credential(name)
