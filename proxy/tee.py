"""The tee: each read of the answer is stamped and copied to the tap, then written and awaited.

The await is the backpressure: a client that reads slowly keeps its own upstream waiting and
nothing else. What the usage filter holds back reaches the client before any broken end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.upstream_response import UpstreamBroken

if TYPE_CHECKING:
    from codec.usage_filter import UsageFilter
    from proxy.downstream import Downstream
    from proxy.tap import Tap
    from proxy.upstream_response import UpstreamResponse

__all__ = ("tee",)


async def tee(
    response: UpstreamResponse,
    downstream: Downstream,
    tap: Tap,
    usage_filter: UsageFilter | None = None,
) -> None:
    """Relay a body to its end.

    Raises:
        UpstreamBroken: it broke off; all that arrived was relayed.
        ConnectionError: the client is gone.
    """
    try:
        while data := await response.read():
            tap.response_data(data)
            relayed = data if usage_filter is None else usage_filter.feed(data)
            if relayed:
                await downstream.send(relayed)
            tap.delivered()
    except UpstreamBroken:
        await _send_held(downstream, usage_filter)
        raise
    await _send_held(downstream, usage_filter)


async def _send_held(downstream: Downstream, usage_filter: UsageFilter | None) -> None:
    if usage_filter is not None and (held := usage_filter.finish()):
        await downstream.send(held)
