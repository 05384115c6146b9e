"""The sockets of the supervisor, bound before anything is started."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import msgspec

from proxy.downstream.listening import listen
from proxy.own_address import is_loopback, reach
from proxy.processes.page_listener import PageListener, open_page_listener
from proxy.processes.scratch import frames_socket, make_control_socket

if TYPE_CHECKING:
    from collections.abc import Iterator


class SupervisorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of :class:`proxy.settings.settings.Settings` that the supervisor needs."""

    host: str
    port: int
    admin_host: str
    admin_port: int
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
    """

    traffic: socket.socket
    admin: socket.socket
    frames: socket.socket
    control_socket: socket.socket
    first: socket.socket | None
    page: PageListener


@contextlib.contextmanager
def open_ports(
    settings: SupervisorSettings, handed: bytes, first: socket.socket | None
) -> Iterator[Ports]:
    """Bind all sockets as long as the block runs.

    Raises:
        ConfigurationError: a socket other than the page's cannot be bound.
    """
    with (
        contextlib.closing(listen("traffic", settings.host, settings.port)) as traffic,
        contextlib.closing(listen("admin", settings.admin_host, settings.admin_port)) as admin,
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
        )


def url_for_launches(settings: SupervisorSettings, address: tuple[str, int]) -> str:
    """Make the URL of the traffic port for commands on this machine.

    Certificates do not name loopback addresses, but may name ``localhost``.
    """
    host = reach(address[0])
    if settings.tls_cert is None:
        return f"http://{host}:{address[1]}"
    return f"https://{'localhost' if is_loopback(host) else host}:{address[1]}"


def describe_port(sock: socket.socket, scheme: str) -> str:
    """Make the URL of a port, with the address that it is bound to."""
    host, port = sock.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
