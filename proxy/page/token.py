"""Checks who may see the page: by the token, by the cookie in exchange for it, or by a ticket.

Only digests are compared, in constant time; the token itself is not kept here. The cookie is made
from the token and the port, so that it is valid after a restart until the token changes, and nobody
can find out the token from it.

A ticket (:func:`~proxy.page_access.digests.make_ticket`) replaces the token once, for a short time.
A browser is opened with a ticket, because other users of the machine can read the arguments of
every program. If the system says whose a connection is, another user cannot use the ticket.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from proxy.page_access.digests import digest_token, sign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_TICKETS: Final = 1000
"""How many used tickets are remembered; with more, no ticket is accepted. Only the owner can make
tickets."""

_TICKET: Final = re.compile(r"ticket\.([0-9]{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})")


class TokenCheck:
    """The check of tokens, cookies and tickets for one port.

    Args:
        digest: the digest of the token; ``None`` if no token is needed.
        port: the page's port, which distinguishes its cookie from others of the same host.
        now_seconds: the time, since 1970.

    Attributes:
        is_open: no token is needed.
        cookie_name: the name of the cookie.
        cookie: its value.
    """

    def __init__(self, digest: bytes | None, port: int, now_seconds: Callable[[], float]) -> None:
        self.is_open = digest is None
        self.cookie_name = f"spantap-page-{port}"
        # Without a token, cookies and tickets are signed with a key that nobody has.
        self._digest = digest if digest is not None else secrets.token_bytes(32)
        self.cookie = sign(self._digest, f"cookie {port}")
        self._now_seconds = now_seconds
        self._used: dict[str, int] = {}

    def accepts_token(self, shown: str) -> bool:
        """Tell whether this is the token."""
        return self.is_open or hmac.compare_digest(digest_token(shown), self._digest)

    def accepts_cookie(self, shown: str) -> bool:
        """Tell whether this is the cookie's value."""
        return self.is_open or hmac.compare_digest(
            shown.encode(errors="backslashreplace"), self.cookie.encode()
        )

    def takes(self, shown: str, is_strangers: Callable[[], bool] = lambda: False) -> bool:
        """Tell whether this is the token, or a ticket, which is then used up.

        A ticket from a stranger is refused, and stays unused. `is_strangers` is called last.
        """
        return self.accepts_token(shown) or self._takes_ticket(shown, is_strangers)

    def _takes_ticket(self, shown: str, is_strangers: Callable[[], bool]) -> bool:
        if (found := _TICKET.fullmatch(shown)) is None:
            return False
        until, nonce, signature = found.groups()
        expected = sign(self._digest, f"ticket {until} {nonce}")
        if not hmac.compare_digest(signature, expected):
            return False
        now = self._now_seconds()
        self._used = {one: end for one, end in self._used.items() if end >= now}
        if int(until) < now or nonce in self._used or len(self._used) >= MAX_TICKETS:
            return False
        if is_strangers():
            return False
        self._used[nonce] = int(until)
        return True


_TABLES: Final = {
    socket.AF_INET: Path("/proc/net/tcp"),
    socket.AF_INET6: Path("/proc/net/tcp6"),
}

_OWN, _PEER, _USER = 1, 2, 7
"""Columns of a table: the addresses as the socket of the row sees them, and its user's id."""

_ROOT: Final = 0
"""This user can read every file, also the token's, and forwards ports for others."""


def is_of_another_user(peer: tuple[str, int], ours: tuple[str, int]) -> bool:
    """Tell whether the connection from `peer` to `ours` is known to belong to another user."""
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
    """Encode an address as the tables do: words of four bytes, in the machine's byte order."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    packed = socket.inet_pton(family, host.partition("%")[0])
    words = struct.unpack(f">{len(packed) // 4}I", packed)
    order = "<" if sys.byteorder == "little" else ">"
    return struct.pack(f"{order}{len(words)}I", *words).hex().upper() + f":{port:04X}"
