"""The page's listening socket: bound, found by others, and told to whoever starts the proxy.

Whatever keeps the page from being served is logged, and keeps nobody from relaying.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from proxy.downstream.listening import listen
from proxy.own_address import is_loopback, reach
from proxy.page_access.address import PageAddress, announcing_page, find_page
from proxy.page_access.digests import NO_TOKEN, describe_way_in, find_digest
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

__all__ = ("announce_page", "open_page_listener", "page_url")

_log = logging.getLogger("spantap")


class _Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of :class:`proxy.settings.settings.Settings` that is needed here."""

    page: bool
    page_host: str
    page_port: int
    page_token: str | None
    store: Path
    log_format: str

    @classmethod
    def decode(cls, handed: bytes) -> _Settings:
        return msgspec.json.decode(handed, type=cls, dec_hook=lambda kind, text: kind(text))


@contextlib.contextmanager
def open_page_listener(handed: bytes) -> Iterator[socket.socket | None]:
    """Bind the port that the settings name, as long as the block runs, and let others find it.

    Yields:
        The listener; ``None`` where there is no page.
    """
    settings = _Settings.decode(handed)
    if not settings.page:
        yield None
        return
    try:
        digest = find_digest(settings.page_token, settings.store)
        listener = listen("page", settings.page_host, settings.page_port)
    except ConfigurationError as error:
        other = find_page(settings.store)
        where = f"; that of this store is at {other.url} already" if other is not None else ""
        _log.warning("this proxy has no page: %s%s", error, where)
        yield None
        return
    address = PageAddress.of(page_url(listener), digest)
    with contextlib.closing(listener), announcing_page(settings.store, address):
        yield listener


def page_url(listener: socket.socket) -> str:
    """Tell the URL by which this machine reaches the page, without a final slash."""
    host, port = listener.getsockname()[:2]
    return f"http://{reach(host)}:{port}"


def announce_page(handed: bytes, listener: socket.socket) -> None:
    """Say where the page is, how one gets in, and who else could."""
    settings = _Settings.decode(handed)
    has_reader = sys.stderr is not None and sys.stderr.isatty() and settings.log_format == "human"
    way_in = describe_way_in(
        settings.page_token, settings.store, page_url(listener), to_person=has_reader
    )
    is_open = settings.page_token == NO_TOKEN
    _log.log(logging.WARNING if is_open else logging.INFO, "the page is at %s", way_in)
    if not is_loopback(listener.getsockname()[0]):
        _log.warning(
            "the page is reached from other machines, and speaks plain HTTP: its token and all "
            "that is recorded can be read on the way, unless a reverse proxy before it speaks TLS"
        )
