"""Orders for the interception ports of a worker, and what it says of them.

One worker serves a port, because what the port has learnt of its clients is in that worker's
memory. The supervisor has the listener, and hands it over with each order to serve it: connections
that come while a worker is started again wait.
"""

from __future__ import annotations

import msgspec

from proxy.interception.interception import Interception, InterceptReport


class OpenIntercept(msgspec.Struct, frozen=True, kw_only=True, tag="open_intercept"):
    """To a worker: serve the port whose listener it was handed before.

    `number` tells this interception from all others of the supervisor.
    """

    number: int
    interception: Interception


class TunnelIntercept(msgspec.Struct, frozen=True, tag="tunnel_intercept"):
    """To a worker: tunnel everything from now on, and report."""

    number: int


class CloseIntercept(msgspec.Struct, frozen=True, tag="close_intercept"):
    """To a worker: end the port with all its connections."""

    number: int


class InterceptNews(msgspec.Struct, frozen=True, kw_only=True, tag="intercept_news"):
    """From a worker: how an interception stands.

    Attributes:
        is_over: everything is tunnelled, as was ordered.
    """

    number: int
    report: InterceptReport
    is_over: bool = False


class OpenedPort(msgspec.Struct, frozen=True, kw_only=True):
    """A port that a launch can use, and a folder for its certificates, which only we can read."""

    number: int
    port: int
    folder: str


class Staying(msgspec.Struct, frozen=True, order=True):
    """A process that outlives its command."""

    pid: int
    name: str


class EndedPort(msgspec.Struct, frozen=True, kw_only=True):
    """What an interception did in its run, and the processes that stay.

    Attributes:
        staying: those of this launch.
        earlier: those of earlier launches.
    """

    report: InterceptReport
    staying: tuple[Staying, ...] = ()
    earlier: tuple[Staying, ...] = ()


InterceptOrder = OpenIntercept | TunnelIntercept | CloseIntercept
