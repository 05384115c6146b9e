"""``spantap demo``: everything on loopback, without a key or a network, leaving no trace.

It starts the demo upstream and the proxy with a temporary store, makes some real calls, and shows
what was recorded: the last screen has the run as a tree, what it cost, and where a page would be.
The demo has no page itself, because its store is gone when it ends.
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
from proxy.commands.amounts import describe_costs
from proxy.commands.console import open_console
from proxy.commands.render import print_call
from proxy.commands.run_page import print_steps
from proxy.commands.table import print_table
from proxy.commands.traces import latest_calls
from proxy.demo.calls import CALL_COUNT, run_calls
from proxy.demo.clients import is_sdk_installed
from proxy.demo.upstream import serving_demo_upstream
from proxy.own_address import build_url
from proxy.reading.run_tree import build_tree
from proxy.settings.settings import Settings
from proxy.upstream_entry import WebSocketPolicy
from telemetry.in_process import InProcessPipeline
from telemetry.pricing.price_table import Price, PriceTable
from telemetry.pricing.pricing import Pricing
from telemetry.reading.stored_calls import open_calls
from telemetry.reading.sums import NO_SUMS
from telemetry.spans.rules import SpanRules
from telemetry.store.rows import Retention

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from proxy.reading.call import RecordedCall
    from proxy.reading.run_tree import Node
    from telemetry.reading.sums import CallSums

NOTICE_SECONDS = 2.0
"""How long the demo waits for the proxy to notice that the client has left the abandoned chat."""

PRICES = (
    Price(model="*-demo", input=1.25, output=10.0, cache_read=0.125),
    Price(model="gpt-demo-*", input=1.25, output=10.0, cache_read=0.125),
)
"""Made up, since nobody sells the demo's models."""


def run_demo(yours: Settings | None) -> int:
    """Run the demo; 0 if every call was recorded.

    Args:
        yours: the user's settings, for the last screen only; ``None`` for the defaults.
    """
    console = open_console(sys.stdout)
    with tempfile.TemporaryDirectory(prefix="spantap-demo-") as folder:
        store = Path(folder) / "traces.db"
        asyncio.run(_chat(console, store))
        with open_calls(store) as reader:
            calls = list(latest_calls(reader, CALL_COUNT + 1))
            shown = next((call for call in calls if _calls_tools(call)), None)
            run = None if shown is None else shown.summary.columns.run
            tree = None if run is None else reader.run_tree(run)
            sums = reader.aggregate().total or NO_SUMS
    console.print("\nWhat spantap recorded", style="bold")
    print_table(console, [call.summary for call in calls])
    if shown is not None:
        console.print("\nOne of them in full", style="bold")
        print_call(console, shown)
    _end(console, [] if tree is None else build_tree(*tree), sums, yours or Settings())
    return 0 if len(calls) == CALL_COUNT else 1


async def _chat(console: Console, store: Path) -> None:
    async with serving_demo_upstream(0) as upstream:
        settings = Settings(
            upstream=upstream,
            port=0,
            admin_port=0,
            store=store,
            upstreams=(),
            websockets=WebSocketPolicy.RELAY,
        )
        pipeline = InProcessPipeline.open(
            store,
            retention=Retention(),
            environ=os.environ,
            rules=SpanRules(pricing=Pricing(PriceTable(PRICES), catalogue=False)),
        )
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


def _end(console: Console, nodes: Sequence[Node], sums: CallSums, yours: Settings) -> None:
    """Print the last screen: it has to fit on 80 x 24."""
    if nodes:
        console.print("\nThe calls with tools, as the run of an agent", style="bold")
        print_steps(console, nodes)
    cost = describe_costs(sums.totals["cost_usd"], sums.list_usd, sums.unpriced)
    console.print("\nWhat all calls would cost", style="bold")
    console.print(f"{cost}; at prices made up for the demo")
    command = _find_command()
    base_url = build_url(yours.host, yours.port, has_tls=yours.tls_cert is not None) + "/v1"
    page = build_url(yours.page_host, yours.page_port, has_tls=False)
    console.print("\nYours next", style="bold")
    console.print(
        f"`{command} run -- python app.py`, or with `run --page` to see its calls in a browser. "
        f"Or start `{command} serve`, set OPENAI_BASE_URL={base_url}, and look with "
        f"`{command} traces`, or on the page at {page}, which `{command} page` "
        "opens. This demo left nothing to look at there.",
        soft_wrap=not console.is_terminal,
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
