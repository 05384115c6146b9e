"""The listener of one interception, its end, and its report."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.downstream.listening import ACCEPTED_AT_ONCE, LISTEN_BACKLOG
from proxy.interception.connection import InterceptConnection
from proxy.interception.state import InterceptState
from proxy.own_address import is_loopback
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from proxy.downstream.downstream import Answered, Downstream
    from proxy.downstream.server import DownstreamServer
    from proxy.interception.interception import Interception, InterceptReport


class InterceptPort:
    """The port that one command has as its HTTPS proxy.

    Args:
        interception: what may be opened.
        server: counts and limits connections, together with those of the traffic port.
        relay: answers a request: the URL of its origin, the label of the launch, the request.
        dial: makes a connection for a tunnel.
        own_ports: ports of spantap beside those that the interception names. This one is among
            them as long as it listens, so that no port has a tunnel to another.

    Attributes:
        address: where it listens.
    """

    address: tuple[str, int]

    def __init__(
        self,
        interception: Interception,
        *,
        server: DownstreamServer,
        relay: Callable[[str, str, Downstream], Awaitable[Answered]],
        dial: Callable[[str, int], Awaitable[asyncio.Transport]],
        own_ports: list[tuple[str, int]],
    ) -> None:
        self._state = InterceptState(
            interception=interception,
            server=server,
            relay=relay,
            dial=dial,
            own_ports=own_ports,
        )
        self._listener: asyncio.Server | None = None

    async def open(self, bound: socket.socket) -> None:
        """Accept connections on a bound listener.

        Raises:
            ConfigurationError: other machines reach it.
        """
        self.address = bound.getsockname()[:2]
        if not is_loopback(host := self.address[0]):
            raise ConfigurationError(
                f"interception listens on loopback only, and {host!r} is not: other machines would "
                "reach the network behind this one"
            )
        self._state.own_ports.append(self.address)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: InterceptConnection(self._state), sock=bound, backlog=ACCEPTED_AT_ONCE
        )
        bound.listen(LISTEN_BACKLOG)  # create_server has set it to its own argument

    def report(self) -> InterceptReport:
        """Report what was opened, tunnelled and refused so far."""
        return self._state.tally.report()

    def tunnel_all(self) -> None:
        """Tunnel everything from now on, because the run is over.

        An opened connection is closed now, or with its next answer. Programs that outlive the run
        connect again, and get a tunnel.
        """
        self._state.is_over = True
        for connection in tuple(self._state.opened):
            connection.close_if_idle()

    def stop_accepting(self) -> None:
        """Accept no more connections."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            self._state.own_ports.remove(self.address)

    async def close(self) -> None:
        """End everything at once."""
        self.stop_accepting()
        serving = [connection.end() for connection in self._state.opened]
        for task in serving:
            task.cancel()
        for transport in tuple(self._state.transports):
            transport.abort()
        await asyncio.gather(*serving, return_exceptions=True)
        while self._state.transports:  # noqa: ASYNC110 - each takes a turn of the loop or two
            await asyncio.sleep(0)
