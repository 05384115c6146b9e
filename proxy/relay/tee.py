"""The tee: each read of the answer is stamped and copied to the tap, then written and awaited.

The await is the backpressure: a client that reads slowly keeps its own upstream waiting and
nothing else. What a filter of events holds back reaches the client before any broken end.

A read for which nobody has to wait is relayed where it arrives, in that turn of the loop: a busy
worker wakes no task for each event of each stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.upstream.response import UpstreamBroken

if TYPE_CHECKING:
    from codec.usage_option import EventFilter
    from proxy.downstream.downstream import Answered, Downstream
    from proxy.relay.tap import Tap
    from proxy.upstream.response import UpstreamResponse

__all__ = ("relay_answer",)


async def relay_answer(
    response: UpstreamResponse,
    downstream: Downstream,
    tap: Tap,
    event_filter: EventFilter | None = None,
) -> tuple[Answered, UpstreamBroken | None]:
    """Relay an answer: its head, its body, and its end as it was, clean or broken.

    Returns:
        What becomes of the client's connection, and how the body broke off.

    Raises:
        ConnectionError: the client is gone.
    """
    downstream.begin_answer(
        response.status,
        response.reason,
        response.headers,
        has_body=response.has_body,
        keeps_length=event_filter is None,
    )
    broken = None
    try:
        await _relay_body(response, downstream, tap, event_filter)
    except UpstreamBroken as error:
        broken = error
    if event_filter is not None and (held := event_filter.finish()):
        await downstream.send(held)
    return await (downstream.finish() if broken is None else downstream.cut()), broken


async def _relay_body(
    response: UpstreamResponse, downstream: Downstream, tap: Tap, event_filter: EventFilter | None
) -> None:
    """Relay all that arrives, before the error of a body that broke off is raised."""

    def pass_on(data: bytes) -> bool:
        """Relay a read at once, where the client need not be waited for."""
        if not downstream.is_free:
            return False
        tap.response_data(data, passes=True)
        if event_filter is not None:
            data = event_filter.feed(data)
        if data:
            downstream.send_at_once(data)
        return True

    data = response.pop()
    if not (data or response.at_end):
        await downstream.flush()
    while data := data or await response.read(pass_on):
        tap.response_data(data)
        relayed = data if event_filter is None else event_filter.feed(data)
        if relayed:
            await downstream.send(relayed)
        else:
            await downstream.flush()
        tap.delivered()
        data = response.pop()
