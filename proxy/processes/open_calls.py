"""The calls that are under way, on their way to whoever asks: from telemetry by the supervisor.

``spantap traces`` asks at the supervisor's door (:mod:`proxy.processes.launch_link`), the
supervisor asks telemetry, which alone knows. Both questions are :class:`AskOpen`, both answers
:class:`OpenCalls`.

Rules:

1. Nobody waits for long: whoever does not answer in time is passed over, and there is no call then.
2. Telemetry answers on the thread that hears the supervisor: frames are read meanwhile.
3. An answer has :data:`MAX_OPEN_CALLS` calls at most, and how many there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from telemetry.observing.open_call import OpenCall

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ("MAX_OPEN_CALLS", "NO_CALLS", "AskOpen", "OpenCalls", "OpenCallsDesk")

MAX_OPEN_CALLS: Final = 100
"""More is nothing to read, and as many have 60 KB: a line of the door has room for four times
that."""

ANSWER_SECONDS: Final = 0.15
"""How long telemetry may take: it does in a millisecond, unless it is busy with a large body."""


class AskOpen(msgspec.Struct, frozen=True, tag="ask_open"):
    """Somebody asks which calls are under way."""


class OpenCalls(msgspec.Struct, frozen=True, kw_only=True, tag="open_calls"):
    """The calls that are under way.

    Attributes:
        calls: those that began last, the oldest of them first.
        count: how many there are.
    """

    calls: tuple[OpenCall, ...] = ()
    count: int = 0


NO_CALLS: Final = OpenCalls()


class OpenCallsDesk:
    """The supervisor's part: it asks telemetry once for all who ask at a time.

    Args:
        ask: sends the question to the present telemetry process; false where there is none.
    """

    def __init__(self, ask: Callable[[AskOpen], bool]) -> None:
        self._ask = ask
        self._answer: asyncio.Future[OpenCalls] | None = None

    def hear(self, answer: OpenCalls) -> None:
        """Hear telemetry's answer; one that comes late is nobody's."""
        waiting, self._answer = self._answer, None
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def tell(self) -> OpenCalls:
        """Tell the calls that are under way; none where telemetry does not answer (rule 1)."""
        import asyncio  # noqa: PLC0415 - commands that read an answer do without

        waiting = self._answer
        if waiting is None:
            if not self._ask(AskOpen()):
                return NO_CALLS
            waiting = self._answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(waiting)
        except TimeoutError:
            if self._answer is waiting:
                self._answer = None
            return NO_CALLS
