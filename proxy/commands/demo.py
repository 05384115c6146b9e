"""``spantap demo``: everything on loopback, without a key or a network, leaving no trace.

It starts the demo upstream and the proxy with a temporary store, makes some real calls, and shows
what was recorded.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.app import Proxy
from proxy.commands.console import open_console
from proxy.commands.render import print_call
from proxy.commands.table import print_table
from proxy.commands.traces import latest_calls
from proxy.demo.calls import CALL_COUNT, run_calls
from proxy.demo.clients import is_sdk_installed
from proxy.demo.upstream import serving_demo_upstream
from proxy.settings.settings import Settings
from telemetry.in_process import InProcessPipeline
from telemetry.reading.stored_calls import open_calls
from telemetry.store.rows import Retention

if TYPE_CHECKING:
    from rich.console import Console

    from proxy.reading.call import RecordedCall

NOTICE_SECONDS = 2.0
"""How long the demo waits for the proxy to notice that the client has left the abandoned chat."""


def run_demo() -> int:
    """Run the demo; 0 if every call was recorded."""
    console = open_console(sys.stdout)
    with tempfile.TemporaryDirectory(prefix="spantap-demo-") as folder:
        store = Path(folder) / "traces.db"
        asyncio.run(_chat(console, store))
        with open_calls(store) as reader:
            calls = list(latest_calls(reader, CALL_COUNT + 1))
    _show(console, calls)
    return 0 if len(calls) == CALL_COUNT else 1


async def _chat(console: Console, store: Path) -> None:
    async with serving_demo_upstream(0) as upstream:
        settings = Settings(upstream=upstream, port=0, admin_port=0, store=store, upstreams=())
        pipeline = InProcessPipeline.open(store, retention=Retention(), environ=os.environ)
        pipeline.start()
        proxy = Proxy(settings, pipeline)
        await proxy.start()
        try:
            await _talk(console, proxy, upstream)
        finally:
            await proxy.close()
            await asyncio.to_thread(pipeline.close, 0.0)  # it has no backend


async def _talk(console: Console, proxy: Proxy, upstream: str) -> None:
    base_url = "http://{}:{}/v1".format(*proxy.address)
    client = "the openai SDK" if is_sdk_installed() else "aiohttp (the openai SDK is not installed)"
    console.print(
        f"demo upstream  {upstream}/v1\nspantap        {base_url}\nclient         {client}"
    )
    console.print("\nWhat the client saw", style="bold")
    async for title, summary in run_calls(base_url):
        console.print(f"  {title:<15} {summary}", no_wrap=True, overflow="ellipsis")
    await proxy.open_exchanges.wait_until_none(NOTICE_SECONDS)


def _show(console: Console, calls: list[RecordedCall]) -> None:
    console.print("\nWhat spantap recorded", style="bold")
    print_table(console, [call.summary for call in calls])
    shown = next((call for call in calls if _calls_tools(call)), None)
    if shown is not None:
        console.print("\nOne of them in full", style="bold")
        print_call(console, shown)
    command = _find_command()
    console.print(
        f"\nYours next: `{command} run -- python app.py`, or with `run --page` to see its calls in "
        f"a browser. Or start `{command} serve`, set OPENAI_BASE_URL=http://localhost:4000/v1, "
        f"and look with `{command} traces` or `{command} page`.",
        soft_wrap=True,
    )


def _calls_tools(call: RecordedCall) -> bool:
    return any(message.tool_calls for message in call.output_messages)


def _find_command() -> str:
    """Find out how the user can call this program from the current folder."""
    script = Path(sys.argv[0])
    if script.name != "spantap":  # started as a module
        script = Path(sys.executable).with_name("spantap")
    if not script.is_file():
        return f"{shlex.quote(sys.executable)} -m spantap"
    found = shutil.which("spantap")
    if found is not None and Path(found).samefile(script):
        return "spantap"
    path, here = script.absolute(), Path.cwd()
    inside = path.is_relative_to(here) and path.parent != here
    return shlex.quote(str(path.relative_to(here) if inside else path))
