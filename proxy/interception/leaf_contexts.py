"""TLS for opened hosts: a context for each, made when a client first asks for the host.

A process may run longer than a leaf is valid, so a host gets a new one in good time.

Python loads a certificate and its key from a file only. On Linux that file is in memory; elsewhere
it is on the disk for a moment, and only its user can read it.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.interception.authority import Authority
    from proxy.interception.interception import Interception


LEAF_SECONDS: Final = 15 * 86_400
"""How long a leaf is used: half as long as it is valid."""

LAST_SECONDS: Final = 3600
"""How long before its end an authority is used no more: clocks of clients differ from ours."""


class LeafContexts:
    """The TLS contexts of one interception; `now` is the time of day, as ``time.time`` says it."""

    def __init__(self, interception: Interception, now: Callable[[], float] = time.time) -> None:
        self._interception = interception
        self._now = now
        self._contexts: dict[str, tuple[ssl.SSLContext, float]] = {}

    def find(self, host: str) -> ssl.SSLContext:
        """Return the context of a host that is on the list."""
        now = self._now()
        context, made_at = self._contexts.get(host, (None, 0.0))
        if context is None or not 0 <= now - made_at < LEAF_SECONDS:
            context = self._make(host)
            self._contexts[host] = context, now
        return context

    def cover(self, host: str) -> bool:
        """Tell whether clients accept the authority's certificates for a host."""
        return self._authority.covers(host)

    def have_ended(self) -> bool:
        """Tell whether clients refuse the authority, or are just about to, because it is old."""
        return self._now() > self._authority.ends_at.timestamp() - LAST_SECONDS

    @cached_property
    def _authority(self) -> Authority:
        # Imported here because it takes a tenth of a second.
        from proxy.interception.authority import Authority  # noqa: PLC0415

        return Authority(self._interception.ca_certificate, self._interception.ca_key)

    def _make(self, host: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION  # it costs us more than the client
        context.set_alpn_protocols(["http/1.1"])
        with _as_file(self._authority.make_leaf(host)) as path:
            context.load_cert_chain(path)
        return context


@contextlib.contextmanager
def _as_file(secret: bytes) -> Iterator[str]:
    """Put bytes into a file that is gone at the end."""
    file = _open_in_memory()
    if file is not None:
        try:
            path = f"/proc/self/fd/{file}"  # absent in some sandboxes
            os.write(file, secret)
            if os.path.exists(path):  # noqa: PTH110 - a Path would follow it to its target
                yield path
                return
        finally:
            os.close(file)
    # mkdtemp makes a folder of mode 0700.
    with tempfile.TemporaryDirectory(prefix="spantap-") as folder:
        on_disk = Path(folder) / "leaf.pem"
        opened = os.open(on_disk, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "wb") as stream:
            stream.write(secret)
        yield str(on_disk)


def _open_in_memory() -> int | None:
    """Open a file in memory; ``None`` if the system has none, as macOS, or refuses."""
    create: Callable[[str], int] | None = getattr(os, "memfd_create", None)
    try:
        return None if create is None else create("leaf")
    except OSError:
        return None
