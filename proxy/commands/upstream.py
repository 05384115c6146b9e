"""``spantap upstream``: the demo upstream alone, until it is interrupted."""

from __future__ import annotations

import asyncio
import logging

from codec.dialects import DIALECTS, find_dialect
from proxy.demo.upstream import serving_demo_upstream
from proxy.logging.logs import set_up_logging
from proxy.signals import ShutdownSignals
from telemetry.errors import ConfigurationError

_log = logging.getLogger("spantap.upstream")


def run_upstream(port: int, dialect: str) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit status; ``?`` lists the dialects.

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
    async with serving_demo_upstream(port, dialect=dialect) as url:
        _log.info("the demo upstream listens on %s/v1", url)
        await signals.first.wait()
