"""TLS for opened hosts: a context for each, made when a client first asks for the host.

Python loads a certificate and its key from a file only. On Linux that file is in memory; elsewhere
it is on the disk for a moment, and only its user can read it.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.interception.authority import Authority
    from proxy.interception.interception import Interception


class LeafContexts:
    """The TLS contexts of one interception."""

    def __init__(self, interception: Interception) -> None:
        self._interception = interception
        self._authority: Authority | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    def find(self, host: str) -> ssl.SSLContext:
        """Return the context of a host that is on the list."""
        context = self._contexts.get(host)
        if context is None:
            context = self._contexts[host] = self._make(host)
        return context

    def _make(self, host: str) -> ssl.SSLContext:
        if self._authority is None:
            # Imported here because it takes a tenth of a second.
            from proxy.interception.authority import Authority  # noqa: PLC0415

            given = self._interception
            self._authority = Authority(given.ca_certificate, given.ca_key)
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
