"""The calls that are under way, on their way to whoever asks: from telemetry by the supervisor.

``spantap traces`` asks at the supervisor's door (:mod:`proxy.processes.launch_link`), the
supervisor asks telemetry, which alone knows. Both questions are :class:`AskOpen`, both answers
:class:`OpenCalls`.

Rules:

1. Nobody waits for long: whoever does not answer in time is passed over, and there is no call then
   (:mod:`proxy.processes.open_calls_desk`).
2. Telemetry answers on the thread that hears the supervisor: frames are read meanwhile.
3. An answer has :data:`MAX_OPEN_CALLS` calls at most, and how many there are.
"""

from __future__ import annotations

from typing import Final

import msgspec

from telemetry.observing.open_call import OpenCall

MAX_OPEN_CALLS: Final = 100
"""More is nothing to read, and as many have 60 KB: a line of the door has room for four times
that."""


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
