"""Binds the page's listening socket, lets others find it, and logs its address.

If the page cannot be served, the reason is logged once everything else runs; relaying is not
affected.
"""

from __future__ import annotations

import contextlib
import logging
import socket
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
    from collections.abc import Iterator

_log = logging.getLogger("spantap")

_OF_PAGE = (
    *("store", "host", "port", "tls_cert", "page_host", "page_hosts", "page_token"),
    *("log_level", "log_format", "shown"),
)
"""Settings that :class:`proxy.page.page_settings.PageSettings` has."""


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


class PageListener(msgspec.Struct, frozen=True, kw_only=True):
    """The listener, or why there is none.

    Attributes:
        sock: bound and listening; ``None`` if there is no page.
        complaint: why there is no page although there should be one; else empty.
    """

    sock: socket.socket | None = None
    complaint: str = ""


@contextlib.contextmanager
def open_page_listener(handed: bytes) -> Iterator[PageListener]:
    """Bind the settings' port as long as the block runs, and let others find it."""
    settings = _Settings.decode(handed)
    if not settings.page:
        yield PageListener()
        return
    try:
        digest = find_digest(settings.page_token, settings.store)
        sock = listen("page", settings.page_host, settings.page_port)
    except ConfigurationError as error:
        other = find_page(settings.store)
        where = f"; that of this store is at {other.url} already" if other is not None else ""
        yield PageListener(complaint=f"{error}{where}")
        return
    address = PageAddress.of(page_url(sock), digest)
    with contextlib.closing(sock), announcing_page(settings.store, address):
        yield PageListener(sock=sock)


def pick_page_settings(handed: bytes) -> bytes:
    """Pick the settings that the page's process gets, which have nothing of clients' keys."""
    settings: dict[str, object] = msgspec.json.decode(handed)
    return msgspec.json.encode({name: settings[name] for name in _OF_PAGE if name in settings})


def page_url(listener: socket.socket) -> str:
    """Make the page's URL for browsers on this machine, without a final slash."""
    host, port = listener.getsockname()[:2]
    return f"http://{reach(host)}:{port}"


def announce_page(handed: bytes, page: PageListener) -> None:
    """Log where the page is, how to get in, and whether others can; or why there is no page."""
    if page.complaint:
        _log.warning("this proxy has no page: %s", page.complaint)
    if page.sock is None:
        return
    settings = _Settings.decode(handed)
    has_reader = sys.stderr.isatty() and settings.log_format == "human"
    way_in = describe_way_in(
        settings.page_token, settings.store, page_url(page.sock), to_person=has_reader
    )
    is_open = settings.page_token == NO_TOKEN
    _log.log(logging.WARNING if is_open else logging.INFO, "the page is at %s", way_in)
    if not is_loopback(page.sock.getsockname()[0]):
        _log.warning(
            "the page is reached from other machines, and speaks plain HTTP: its token and all "
            "that is recorded can be read on the way, unless a reverse proxy before it speaks TLS"
        )
