"""The interception ports of a worker: opened, tunnelled and closed as the supervisor orders."""

from __future__ import annotations

import asyncio
import socket
from importlib import import_module
from typing import TYPE_CHECKING

from proxy.processes.intercept_orders import InterceptNews, OpenIntercept, TunnelIntercept

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.app import Proxy
    from proxy.interception.port import InterceptPort
    from proxy.processes.intercept_orders import InterceptOrder


class WorkerIntercepts:
    """The ports of one worker, by the number of their interception.

    Args:
        proxy: opens and closes them.
        hand: by this socket their listeners come, one with each order to open one.
        send: sends news to the supervisor.
    """

    def __init__(
        self,
        proxy: Proxy,
        hand: socket.socket,
        send: Callable[[InterceptNews], Awaitable[None]],
    ) -> None:
        self._proxy = proxy
        self._hand = hand
        self._send = send
        self._ports: dict[int, InterceptPort] = {}
        self._said: dict[int, InterceptNews] = {}
        self._over: set[int] = set()

    async def obey(self, order: InterceptOrder) -> None:
        """Carry an order out, and say how the port stands."""
        if isinstance(order, OpenIntercept):
            await self._open(order)
            return
        port = self._ports.get(order.number)
        if port is None:
            return
        if isinstance(order, TunnelIntercept):
            port.tunnel_all()
            self._over.add(order.number)
            await self._tell(order.number, port)
            return
        del self._ports[order.number]
        self._said.pop(order.number, None)
        self._over.discard(order.number)
        await self._proxy.end_intercept(port)

    async def report(self) -> None:
        """Tell the supervisor what has changed since the last report."""
        for number, port in tuple(self._ports.items()):
            await self._tell(number, port)

    async def _open(self, order: OpenIntercept) -> None:
        # The listener was sent before the order.
        _, descriptors, _, _ = socket.recv_fds(self._hand, 1, 1)
        # The first import takes a tenth of a second, in which the loop serves calls.
        await asyncio.to_thread(import_module, "proxy.interception.port")
        listener = socket.socket(fileno=descriptors[0])
        port = self._ports[order.number] = await self._proxy.intercept(order.interception, listener)
        await self._tell(order.number, port)

    async def _tell(self, number: int, port: InterceptPort) -> None:
        news = InterceptNews(
            number=number,
            is_over=number in self._over,
            report=port.report(),
        )
        if news != self._said.get(number):
            self._said[number] = news
            await self._send(news)
