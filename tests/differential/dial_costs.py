"""Count what a dial costs: ``python -m tests.differential.dial_costs`` prints a JSON object.

Bytecodes, as ``make costs`` counts them: of our dialler and of aiohttp's connector, by an address
on loopback and without TLS.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import ssl
import threading
from typing import TYPE_CHECKING

from yarl import URL

from codec.text.jsontext import encode_json
from proxy.upstream.dialler import Dialler
from proxy.upstream.request import UpstreamTimeouts
from tests.cost.__main__ import WARM_UP_RUNS, count_bytecodes
from tests.differential.aiohttp_dialler import AiohttpDialler

if TYPE_CHECKING:
    from collections.abc import Callable

DIALS = 20


def main() -> None:
    """Count and print."""
    gc.disable()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener,), daemon=True).start()
        origin = URL(f"http://127.0.0.1:{listener.getsockname()[1]}")
        costs = {"ours": _count(Dialler, origin), "aiohttp": _count(AiohttpDialler, origin)}
    print(encode_json(costs), flush=True)


def _count(make_dialler: Callable[..., Dialler | AiohttpDialler], origin: URL) -> int:
    async def make() -> Dialler | AiohttpDialler:
        tls = ssl.create_default_context()
        limits = UpstreamTimeouts()
        return make_dialler(origin, None, tls=tls, timeouts=limits, max_header_bytes=65536)

    async def dial() -> None:
        for _ in range(DIALS):
            (await dialler.dial()).abort()
            await asyncio.sleep(0)

    with asyncio.Runner() as runner:
        dialler = runner.run(make())
        for _ in range(WARM_UP_RUNS):
            runner.run(dial())
        return count_bytecodes(lambda: runner.run(dial())) // DIALS


def _accept(listener: socket.socket) -> None:
    while True:
        listener.accept()[0].close()


if __name__ == "__main__":
    main()
    os._exit(0)  # a thread still accepts
