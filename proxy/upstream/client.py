"""The upstream's side of an exchange, up to the head of the answer.

Requests are written as bytes, and nothing is added, followed, retried or decompressed (R1). A
request is written once: it is never sent again behind the caller's back, and a connection that the
upstream had dropped is an error that says so (``docs/contract/promises.md#endings``).
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from yarl import URL

from proxy.clock import Clock, SystemClock
from proxy.logging.logs import limit_lines, log_limited
from proxy.upstream.dialler import Dialler
from proxy.upstream.errors import UpstreamError, explain_upstream_error
from proxy.upstream.sending import Sending

if TYPE_CHECKING:
    import asyncio
    import ssl
    from concurrent.futures import Executor

    from proxy.errors import GatewayError
    from proxy.upstream.forward_proxy import ForwardProxy
    from proxy.upstream.request import UpstreamRequest, UpstreamTimeouts
    from proxy.upstream.response import UpstreamResponse
    from proxy.upstream.routes import Upstream
    from telemetry.rate_limit import RateLimit

_log = logging.getLogger("spantap.upstream")

MAX_TUNNEL_LOOKUPS = 8
"""How many names are looked up for tunnels at once. A lookup may take half a minute, and the loop
has a few threads, which are for calls."""


@dataclass(kw_only=True, eq=False, repr=False)
class UpstreamClient:
    """Opens exchanges with upstreams over kept connections."""

    tls: ssl.SSLContext
    timeouts: UpstreamTimeouts
    forward_proxy: ForwardProxy
    max_header_bytes: int
    clock: Clock = field(default_factory=SystemClock)
    failure_count: int = 0
    _failure_lines: dict[str, RateLimit] = field(default_factory=dict)  # by upstream
    _diallers: dict[URL, Dialler] = field(default_factory=dict)  # by origin
    _tunnel_threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(MAX_TUNNEL_LOOKUPS, "look up for tunnels")
    )

    async def close(self) -> None:
        """Drop all connections."""
        for dialler in self._diallers.values():
            await dialler.close()
        self._tunnel_threads.shutdown(wait=False, cancel_futures=True)

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request and read the answer's head.

        Raises:
            GatewayError: there was no connection, or no answer in time, or an invalid one; or the
                client's body broke off or stalled while it was relayed.
        """
        origin = request.upstream.origin
        dialler = self._diallers.get(origin)
        if dialler is None:
            proxy = self.forward_proxy.find(origin)
            dialler = self._diallers[origin] = self._make_dialler(origin, proxy)
        try:
            if request.may_switch:
                connection, authorization = await dialler.dial(may_switch=True), None
            else:
                connection = dialler.idle.pop() or await dialler.dial()
                authorization = dialler.authorization
            sending = Sending(connection, request, self.timeouts, authorization)
            return await sending.run()
        except UpstreamError as error:
            explained = explain_upstream_error(request.upstream, error)
            self._note_failure(request.upstream, explained)
            raise explained from error

    async def dial_for_tunnel(self, host: str, port: int) -> asyncio.Transport:
        """Make a connection for a tunnel: its bytes are the client's own, mostly TLS.

        The caller gives the transport its protocol at once. Nothing is counted or logged.

        Raises:
            UpstreamError: no connection could be made.
        """
        proxy = self.forward_proxy.find(URL.build(scheme="https", host=host, port=port))
        origin = URL.build(scheme="http", host=host, port=port)
        return await self._make_dialler(origin, proxy, self._tunnel_threads).dial_for_tunnel()

    def _make_dialler(
        self, origin: URL, proxy: URL | None, threads: Executor | None = None
    ) -> Dialler:
        return Dialler(
            origin,
            proxy,
            tls=self.tls,
            timeouts=self.timeouts,
            max_header_bytes=self.max_header_bytes,
            threads=threads,
        )

    def _note_failure(self, upstream: Upstream, error: GatewayError) -> None:
        self.failure_count += 1
        lines = self._failure_lines.setdefault(upstream.name, limit_lines(self.clock))
        log_limited(_log, lines, error.message)
