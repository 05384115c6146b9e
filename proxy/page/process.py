"""The process of the page.

Run as ``python -m proxy.page.process CONTROL LISTENER``, two inherited descriptors: the control
channel of the supervisor, and the socket that browsers connect to. It ends when nobody has watched
for ten minutes, or when the supervisor closes the channel or is gone.

Run as ``python -m proxy.page.process SETTINGS LISTENER alone``, without a supervisor: the first is
a file with the settings. It also ends when nobody watches, and at SIGTERM or SIGINT.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from typing import TYPE_CHECKING

from proxy.logging.logs import set_up_logging
from proxy.page.page_settings import PageSettings
from proxy.page.serving import serve_alone, serve_page
from proxy.processes.async_control import AsyncControl
from proxy.processes.control import FAILED_TO_START, begin_child
from proxy.processes.messages import Ready
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from proxy.processes.control import Control

NICENESS = 10
"""Added to our niceness, so that the page slows neither relaying nor observing."""


def main() -> int:
    """Run the page's process, and return its exit status."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    try:
        if sys.argv[3:] == ["alone"]:
            return _run_alone(int(sys.argv[1]), int(sys.argv[2]))
        control, start, (listener,) = begin_child()
        settings = _begin(start.settings)
        control.sock.setblocking(False)  # noqa: FBT003 - its only parameter
        asyncio.run(_serve_supervised(settings, socket.socket(fileno=listener), control))
    except ConfigurationError as error:
        print(f"spantap: {error}", file=sys.stderr)  # noqa: T201 - the command line's voice
        return FAILED_TO_START
    return 0


def _begin(handed: bytes) -> PageSettings:
    settings = PageSettings.decode(handed)
    set_up_logging(settings.log_level, settings.log_format, "page")
    return settings


async def _serve_supervised(
    settings: PageSettings, listener: socket.socket, channel: Control
) -> None:
    """Serve until nobody watches, or the supervisor is gone."""
    control = AsyncControl(channel)
    hanging_up = asyncio.ensure_future(control.receive())
    try:
        async with serve_page(settings, listener) as page:
            await control.send(Ready())
            idle = asyncio.ensure_future(page.wait_until_idle())
            await asyncio.wait({hanging_up, idle}, return_when=asyncio.FIRST_COMPLETED)
            idle.cancel()
    finally:
        hanging_up.cancel()


def _run_alone(settings_file: int, listener: int) -> int:
    with open(settings_file, "rb") as file:
        settings = _begin(file.read())
    asyncio.run(serve_alone(settings, socket.socket(fileno=listener), stays=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
