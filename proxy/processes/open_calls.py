"""The question for open calls and its answer, which the supervisor passes on.

``spantap traces`` asks the supervisor at its control socket
(:mod:`proxy.processes.launch_channel`). The supervisor asks telemetry, because only telemetry
knows. Both questions are :class:`AskOpen`, both answers :class:`OpenCalls`. Telemetry answers on
the thread that listens to the supervisor, so frames are read meanwhile. Without an answer in time
the list is empty (:mod:`proxy.processes.launches`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from telemetry.observing.open_call import OpenCall

MAX_OPEN_CALLS: Final = 80
"""The most calls in an answer; nobody would read more. So many calls have 90 KB; a line of the
control socket has room for twice that."""


class AskOpen(msgspec.Struct, frozen=True, tag="ask_open"):
    """Somebody asks which calls are open."""


class OpenCalls(msgspec.Struct, frozen=True, kw_only=True, tag="open_calls"):
    """The open calls.

    Attributes:
        calls: the calls that began last, the oldest of them first.
        count: how many calls are open.
        web_sockets: how many WebSockets are open, observed or not.
    """

    calls: tuple[OpenCall, ...] = ()
    count: int = 0
    web_sockets: int = 0


NO_CALLS: Final = OpenCalls()
