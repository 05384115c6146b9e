"""``spantap upstream``: the demo upstream alone, until it is interrupted."""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web

from codec.dialects import DIALECTS, find_dialect
from proxy.demo.upstream import create_demo_upstream
from proxy.downstream.listening import listen
from proxy.logging.logs import set_up_logging
from proxy.settings.settings import ConfigurationError
from proxy.signals import ShutdownSignals

__all__ = ("run_upstream",)

_log = logging.getLogger("spantap.upstream")

HOST = "127.0.0.1"
"""It answers anybody, so it listens to this machine only."""


def run_upstream(port: int, dialect: str) -> int:
    """Serve until SIGTERM or SIGINT; the exit status.

    Raises:
        ConfigurationError: there is no such dialect, or the port is taken.
    """
    if dialect == "?":
        print(*DIALECTS, sep="\n")  # noqa: T201 - what was asked for
        return 0
    try:
        find_dialect(dialect)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    set_up_logging("INFO")
    asyncio.run(_serve(port, dialect))
    return 0


async def _serve(port: int, dialect: str) -> None:
    signals = ShutdownSignals(asyncio.get_running_loop())
    runner = web.AppRunner(
        create_demo_upstream(dialect=dialect), access_log=None, handler_cancellation=True
    )
    await runner.setup()
    try:
        sock = listen("demo upstream", HOST, port)
        await web.SockSite(runner, sock).start()
        _log.info("the demo upstream listens on http://%s:%d/v1", *sock.getsockname()[:2])
        await signals.first.wait()
    finally:
        await runner.cleanup()
