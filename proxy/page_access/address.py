"""Where the page of a store is, for commands on this machine.

The file ``<store>.page`` beside the store says it. The process that has the page's port writes the
file and locks it as long as it lives, so that after a kill the file counts no more.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from proxy.page_access.digests import sign
from telemetry.own_files import is_held

if TYPE_CHECKING:
    from collections.abc import Iterator


class PageAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a page.

    Attributes:
        url: without a final slash.
        pid: the process that has its port.
        proof: shows whether a token is the one that the page asks for (:meth:`fits`); empty if it
            asks for none.
    """

    url: str
    pid: int
    proof: str = ""

    @classmethod
    def of(cls, url: str, digest: bytes | None) -> PageAddress:
        """Make the address of a page of this process."""
        proof = "" if digest is None else sign(digest, "proof")
        return cls(url=url, pid=os.getpid(), proof=proof)

    def fits(self, digest: bytes) -> bool:
        """Tell whether this is the digest of the page's token."""
        return hmac.compare_digest(self.proof, sign(digest, "proof"))


@contextlib.contextmanager
def announcing_page(store: Path, address: PageAddress) -> Iterator[None]:
    """Let others on this machine find the page, as long as the block runs.

    Do nothing if the store has another page already, or the file cannot be written.
    """
    path = _address_path(store)
    unnamed = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = None
    with contextlib.suppress(OSError):
        if find_page(store) is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(unnamed, flags, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, msgspec.json.encode(address))
            unnamed.rename(path)
    try:
        yield
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                if path.stat().st_ino == os.fstat(descriptor).st_ino:
                    path.unlink()
            os.close(descriptor)


def find_page(store: Path) -> PageAddress | None:
    """Find the page that is serving a store now; ``None`` if there is none.

    The file counts only if it belongs to our user, because whoever answers there gets a ticket.
    """
    path = _address_path(store)
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor is not a path
            status = os.fstat(descriptor)
            if status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode) and is_held(path):
                return msgspec.json.decode(file.read(4096), type=PageAddress)
    return None


def _address_path(store: Path) -> Path:
    """Name the file; a link to the store has the same one as the store."""
    return Path(f"{store.resolve()}.page")
