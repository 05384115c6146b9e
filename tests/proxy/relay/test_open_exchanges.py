"""The open exchanges: counted, waited for, cut."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from proxy.relay.open_exchanges import OpenExchange, OpenExchanges

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def opened(exchanges: OpenExchanges) -> Iterator[OpenExchange]:
    exchange = exchanges.begin()
    try:
        yield exchange
    finally:
        exchanges.discard(exchange)


async def test_an_exchange_is_open_for_as_long_as_its_block_runs() -> None:
    """Whatever ends the block."""
    exchanges = OpenExchanges()
    with contextlib.suppress(ZeroDivisionError), opened(exchanges) as exchange:
        assert len(exchanges) == 1
        assert not exchange.cut
        raise ZeroDivisionError
    assert len(exchanges) == 0
    assert await exchanges.wait_until_none(0)


async def test_the_last_one_ends_the_wait() -> None:
    """And a time-out says that some are left."""
    exchanges = OpenExchanges()
    go = [asyncio.Event(), asyncio.Event()]

    async def exchange(event: asyncio.Event) -> None:
        with opened(exchanges):
            await event.wait()

    tasks = [asyncio.ensure_future(exchange(event)) for event in go]
    await asyncio.sleep(0)
    assert not await exchanges.wait_until_none(0.01)
    go[0].set()
    assert not await exchanges.wait_until_none(0.01)
    waiting = asyncio.ensure_future(exchanges.wait_until_none(1))
    go[1].set()
    assert await waiting
    await asyncio.gather(*tasks)


async def test_several_may_wait_for_the_last_one_each_time() -> None:
    """Whoever waits later waits for those that are open then."""
    exchanges = OpenExchanges()
    for _ in range(2):
        with opened(exchanges):
            waiting = [asyncio.ensure_future(exchanges.wait_until_none(1)) for _ in range(2)]
            await asyncio.sleep(0)
            assert not await exchanges.wait_until_none(0.01)
            assert not any(task.done() for task in waiting)
        assert await asyncio.gather(*waiting) == [True, True]


async def test_cutting_cancels_each_and_says_so_first() -> None:
    """Whoever is cancelled can tell whether it was us."""
    exchanges = OpenExchanges()
    seen: list[OpenExchange] = []

    async def run() -> None:
        with opened(exchanges) as exchange:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                assert exchange.cut
                seen.append(exchange)
                raise

    tasks = [asyncio.ensure_future(run()) for _ in range(3)]
    await asyncio.sleep(0)
    assert exchanges.cut_all() == 3
    assert await exchanges.wait_until_none(1)
    assert len(seen) == 3
    await asyncio.gather(*tasks, return_exceptions=True)
    assert exchanges.cut_all() == 0
