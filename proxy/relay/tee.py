"""The tee: each read of the answer is stamped and copied to the tap, then written and awaited.

The await is the backpressure: a client that reads slowly makes only its own upstream wait. If the
answer breaks off, what a filter of events holds back still reaches the client first.

If the client need not be waited for, a read is relayed at once, in the turn of the loop in which it
arrives: so a busy worker does not wake a task for each event of each stream.

To keep a connection alive, an upstream may send only comments for minutes. A filter holds comments
back because of what may follow; after :data:`COMMENT_WAIT_SECONDS` they are sent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.upstream.response import UpstreamBroken

if TYPE_CHECKING:
    from codec.usage_option import EventFilter
    from proxy.downstream.downstream import Answered, Downstream
    from proxy.relay.tap import Tap
    from proxy.upstream.response import UpstreamResponse

COMMENT_WAIT_SECONDS = 1.0
"""How long comments wait for the rest of their event. Upstreams write an event in one go."""


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
    """Relay everything that arrives; only then raise the error of a body that broke off."""
    comments = None if event_filter is None else _Comments(response, downstream, event_filter)

    def pass_on(data: bytes) -> bool:
        """Relay a read at once, if the client need not be waited for."""
        if not downstream.is_free:
            return False
        tap.response_data(data, passes=True)
        if event_filter is not None and comments is not None:
            data = event_filter.feed(data)
            if event_filter.held:
                comments.watch()
        if data:
            downstream.send_at_once(data)
        return True

    data = response.pop()
    if not (data or response.at_end):
        await downstream.flush()
    try:
        while data := data or await response.read(pass_on):
            tap.response_data(data)
            relayed = data if event_filter is None else event_filter.feed(data)
            if comments is not None:
                comments.watch()
            if relayed:
                await downstream.send(relayed)
            else:
                await downstream.flush()
            tap.delivered()
            data = response.pop()
    finally:
        if comments is not None:
            comments.stop()


class _Comments:
    """Comments that a filter holds back, but not for long."""

    __slots__ = ("_downstream", "_event_filter", "_response", "_timer")

    def __init__(
        self, response: UpstreamResponse, downstream: Downstream, event_filter: EventFilter
    ) -> None:
        self._response = response
        self._downstream = downstream
        self._event_filter = event_filter
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """If what is held back begins with a comment, let it go in a while."""
        if self._timer is None and self._event_filter.held.startswith(b":"):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(COMMENT_WAIT_SECONDS, self._let_go)

    def stop(self) -> None:
        """Let nothing go any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _let_go(self) -> None:
        self._timer = None
        if not (self._response.is_awaited and self._downstream.is_free):
            self.watch()  # what was relayed before is still on its way
        elif comments := self._event_filter.let_go():
            self._downstream.send_at_once(comments)
