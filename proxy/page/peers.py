"""Whose program is at the other end of a connection from this machine, where the system tells.

Linux lists all connections with the user that each end belongs to. Elsewhere nothing is known, and
nothing of a connection from another machine.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLES: Final = {
    socket.AF_INET: Path("/proc/net/tcp"),
    socket.AF_INET6: Path("/proc/net/tcp6"),
}

_OWN, _PEER, _USER = 1, 2, 7
"""Columns of a table: the ends as whoever the row is about has them, and its user's id."""

_ROOT: Final = 0
"""This user reads every file, the token's too, and forwards ports for others."""


def is_of_another_user(peer: tuple[str, int], ours: tuple[str, int]) -> bool:
    """Tell whether the connection from `peer` to `ours` is known to be another user's."""
    wanted = _encode(*peer), _encode(*ours)
    return any(
        (row[_OWN], row[_PEER]) == wanted and int(row[_USER]) not in {os.geteuid(), _ROOT}
        for row in _read_rows(socket.AF_INET6 if ":" in peer[0] else socket.AF_INET)
    )


def _read_rows(family: socket.AddressFamily) -> Iterator[list[str]]:
    try:
        lines = _TABLES[family].read_text("ascii").splitlines()
    except OSError:
        return
    for line in lines[1:]:
        if len(row := line.split()) > _USER:
            yield row


def _encode(host: str, port: int) -> str:
    """Encode an address as the tables have it: words of four bytes, in the machine's order."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    packed = socket.inet_pton(family, host.partition("%")[0])
    words = struct.unpack(f">{len(packed) // 4}I", packed)
    order = "<" if sys.byteorder == "little" else ">"
    return struct.pack(f"{order}{len(words)}I", *words).hex().upper() + f":{port:04X}"
