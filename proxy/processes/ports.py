"""The sockets of the supervisor, bound before anything is started."""

from __future__ import annotations

import contextlib
import http.client
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from proxy.downstream.listening import PortTaken, listen
from proxy.own_address import INTERCEPT_HOST, reach
from proxy.page_access.address import find_page
from proxy.processes.page_listener import PageListener, open_page_listener
from proxy.processes.scratch import frames_socket, make_control_socket
from telemetry.errors import ConfigurationError, StoreError
from telemetry.store.lock import find_holder

if TYPE_CHECKING:
    from collections.abc import Iterator


_ASK_SECONDS = 1.0
"""How long somebody on the admin port may take to say who it is."""

_ANSWER_BYTES = 64


class SupervisorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of :class:`proxy.settings.settings.Settings` that the supervisor needs."""

    host: str
    port: int
    admin_host: str
    admin_port: int
    intercept_port: int
    intercept_hosts: tuple[str, ...]
    tls_cert: str | None
    workers: int
    store: str
    linger_seconds: float
    drain_seconds: float
    log_level: str
    log_format: str


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """The sockets that the supervisor binds.

    Attributes:
        traffic: where clients connect; workers inherit it.
        admin: the socket of the admin port.
        frames: where workers connect; telemetry inherits it.
        control_socket: where launches, and commands with orders for the store, connect.
        first: the connection of the launch for which the proxy is started, if there is one.
        page: where browsers connect; the page's process inherits it.
        intercept: where programs connect whose TLS is opened; a worker gets it.
    """

    traffic: socket.socket
    admin: socket.socket
    frames: socket.socket
    control_socket: socket.socket
    first: socket.socket | None
    page: PageListener
    intercept: socket.socket | None

    @property
    def own_addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of all that listen on TCP."""
        socks = (self.traffic, self.admin, self.page.sock, self.intercept)
        return tuple(sock.getsockname()[:2] for sock in socks if sock is not None)


@contextlib.contextmanager
def open_ports(
    settings: SupervisorSettings, handed: bytes, first: socket.socket | None
) -> Iterator[Ports]:
    """Bind all sockets as long as the block runs.

    Raises:
        ConfigurationError: a socket other than the page's cannot be bound.
    """
    with (
        _listen("traffic", settings.host, settings.port, settings) as traffic,
        _listen("admin", settings.admin_host, settings.admin_port, settings) as admin,
        _listen_to_intercept(settings) as intercept,
        frames_socket(settings.store) as frames,
        contextlib.closing(make_control_socket(frames.getsockname())) as control_socket,
        open_page_listener(handed) as page,
    ):
        yield Ports(
            traffic=traffic,
            admin=admin,
            frames=frames,
            control_socket=control_socket,
            first=first,
            page=page,
            intercept=intercept,
        )


def _listen_to_intercept(
    settings: SupervisorSettings,
) -> contextlib.AbstractContextManager[socket.socket | None]:
    if not settings.intercept_port:
        return contextlib.nullcontext()
    return _listen("interception", INTERCEPT_HOST, settings.intercept_port, settings)


def _listen(
    what: str, host: str, port: int, settings: SupervisorSettings
) -> contextlib.closing[socket.socket]:
    try:
        return contextlib.closing(listen(what, host, port))
    except PortTaken as error:
        if known := _describe_spantap(settings):
            raise ConfigurationError(f"{error.fact}; {known}") from error
        raise


def _describe_spantap(settings: SupervisorSettings) -> str:
    """Say that a spantap runs already, and what to do; empty if there is no sign of one."""
    store, holder = Path(settings.store), None
    with contextlib.suppress(StoreError):
        holder = find_holder(store)
    if holder is not None:
        page = find_page(store)
        where = "" if page is None else f", with a page at {page.url}"
        return (
            f"a spantap uses this store already (process {holder}{where}): "
            "send calls to that one, or stop it first"
        )
    if _is_spantap(settings.admin_host, settings.admin_port):
        return (
            "another spantap, with another store, is running: stop it, "
            "or name other ports with --port, --admin-port and --page-port"
        )
    return ""


def _is_spantap(host: str, port: int) -> bool:
    """Ask an admin port whether a spantap is there."""
    connection = http.client.HTTPConnection(reach(host).strip("[]"), port, timeout=_ASK_SECONDS)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/healthz")
        return connection.getresponse().read(_ANSWER_BYTES) == b"ok\n"
    return False


def describe_port(sock: socket.socket, scheme: str) -> str:
    """Make the URL of a port, with the address that it is bound to."""
    host, port = sock.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
