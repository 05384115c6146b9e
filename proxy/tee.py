"""The tee: each read of the answer is stamped and copied to the tap, then written and awaited.

The await is the backpressure: a client that reads slowly keeps its own upstream waiting and
nothing else. What the usage filter holds back reaches the client before any broken end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.upstream_response import UpstreamBroken

if TYPE_CHECKING:
    from aiohttp import web

    from codec.usage_filter import UsageFilter
    from proxy.downstream import Downstream
    from proxy.tap import Tap
    from proxy.upstream_response import UpstreamResponse

__all__ = ("relay_answer",)


async def relay_answer(
    response: UpstreamResponse,
    downstream: Downstream,
    tap: Tap,
    usage_filter: UsageFilter | None = None,
) -> tuple[web.StreamResponse, UpstreamBroken | None]:
    """Relay an answer: its head, its body, and its end as it was, clean or broken.

    Returns:
        What aiohttp's connection loop wants to know, and how the body broke off.

    Raises:
        ConnectionError: the client is gone.
    """
    downstream.begin_answer(
        response.status,
        response.reason,
        response.headers,
        has_body=response.has_body,
        keeps_length=usage_filter is None,
    )
    try:
        await _tee(response, downstream, tap, usage_filter)
    except UpstreamBroken as broken:
        return await downstream.cut(), broken
    return await downstream.finish(), None


async def _tee(
    response: UpstreamResponse,
    downstream: Downstream,
    tap: Tap,
    usage_filter: UsageFilter | None,
) -> None:
    """Relay a body to its end; raises where it broke off, after all that arrived was relayed."""
    try:
        data = response.take()
        if not (data or response.at_end):
            await downstream.flush()
        while data := data or await response.read():
            tap.response_data(data)
            relayed = data if usage_filter is None else usage_filter.feed(data)
            if relayed:
                await downstream.send(relayed)
            else:
                await downstream.flush()
            tap.delivered()
            data = response.take()
    except UpstreamBroken:
        await _send_held(downstream, usage_filter)
        raise
    await _send_held(downstream, usage_filter)


async def _send_held(downstream: Downstream, usage_filter: UsageFilter | None) -> None:
    if usage_filter is not None and (held := usage_filter.finish()):
        await downstream.send(held)
