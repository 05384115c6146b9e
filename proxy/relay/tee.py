"""The tee: each read of the answer is stamped and copied to the tap, then written and awaited.

The await is the backpressure: a client that reads slowly keeps its own upstream waiting and
nothing else. What the usage filter holds back reaches the client before any broken end.

A read for which nobody has to wait is relayed where it arrives, in that turn of the loop: a busy
worker wakes no task for each event of each stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.upstream.response import UpstreamBroken

if TYPE_CHECKING:
    from codec.usage_filter import UsageFilter
    from proxy.downstream.downstream import Answered, Downstream
    from proxy.relay.tap import Tap
    from proxy.upstream.response import UpstreamResponse

__all__ = ("relay_answer",)


async def relay_answer(
    response: UpstreamResponse,
    downstream: Downstream,
    tap: Tap,
    usage_filter: UsageFilter | None = None,
) -> tuple[Answered, UpstreamBroken | None]:
    """Relay an answer: its head, its body, and its end as it was, clean or broken.

    Returns:
        What the connection's loop wants to know, and how the body broke off.

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
        await _Tee(response, downstream, tap, usage_filter).run()
    except UpstreamBroken as broken:
        return await downstream.cut(), broken
    return await downstream.finish(), None


class _Tee:
    """One body on its way to the client, and to the tap."""

    __slots__ = ("_downstream", "_response", "_tap", "_usage_filter")

    def __init__(
        self,
        response: UpstreamResponse,
        downstream: Downstream,
        tap: Tap,
        usage_filter: UsageFilter | None,
    ) -> None:
        self._response = response
        self._downstream = downstream
        self._tap = tap
        self._usage_filter = usage_filter

    async def run(self) -> None:
        """Relay it to its end.

        Raises:
            UpstreamBroken: where it broke off, after all that arrived was relayed.
            ConnectionError: the client is gone.
        """
        try:
            await self._relay_reads()
        except UpstreamBroken:
            await self._send_held()
            raise
        await self._send_held()

    async def _relay_reads(self) -> None:
        response, downstream, pass_on = self._response, self._downstream, self._pass_on
        data = response.take()
        if not (data or response.at_end):
            await downstream.flush()
        while data := data or await response.read(pass_on):
            if relayed := self._copy(data):
                await downstream.send(relayed)
            else:
                await downstream.flush()
            self._tap.delivered()
            data = response.take()

    def _pass_on(self, data: bytes) -> bool:
        """Pass one read on at once, where the client need not be waited for."""
        downstream, usage_filter = self._downstream, self._usage_filter
        if not downstream.is_free:
            return False
        self._tap.response_data(data, passes=True)
        if usage_filter is not None:
            data = usage_filter.feed(data)
        if data:
            downstream.send_at_once(data)
        return True

    def _copy(self, data: bytes) -> bytes:
        """Tell the tap; what of it the client gets."""
        self._tap.response_data(data)
        return data if self._usage_filter is None else self._usage_filter.feed(data)

    async def _send_held(self) -> None:
        if self._usage_filter is not None and (held := self._usage_filter.finish()):
            await self._downstream.send(held)
