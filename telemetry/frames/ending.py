"""The end of an exchange, as the relay saw it."""

from __future__ import annotations

from enum import StrEnum


class EndKind(StrEnum):
    """The end of an exchange as the relay saw it, before anybody judges it."""

    UPSTREAM_EOF = "upstream_eof"
    """The upstream ended its body where its framing said it would."""
    UPSTREAM_UNFRAMED_END = "upstream_unframed_end"
    """The upstream closed the connection, and nothing else marks where its body ends."""
    UPSTREAM_BROKEN = "upstream_broken"
    """The upstream's body broke off: reset, FIN inside a chunk, too few bytes."""
    CLIENT_GONE = "client_gone"
    """The client closed, reset or half-closed its connection."""
    CLIENT_STALLED = "client_stalled"
    """The client did not read its answer for so long that we closed its connection."""
    REQUEST_TIMEOUT = "request_timeout"
    """The client paused in the middle of its request for so long that we refused it."""
    CONNECT_ERROR = "connect_error"
    """No connection to the upstream could be made."""
    UPSTREAM_CLOSED = "upstream_closed"
    """The upstream closed the connection before any byte of an answer."""
    UPSTREAM_INVALID = "upstream_invalid"
    """The upstream's answer was not valid HTTP."""
    TIMEOUT = "timeout"
    """One of our timeouts ran out: connect, first byte or idle."""
    DRAIN_DEADLINE = "drain_deadline"
    """We ended the exchange at shutdown."""
    WORKER_LOST = "worker_lost"
    """The worker process that relayed it died."""
    RELAY_ERROR = "relay_error"
    """A defect of spantap."""


CLEAN_ENDS = frozenset({EndKind.UPSTREAM_EOF, EndKind.UPSTREAM_UNFRAMED_END})
"""Ends after which no more was expected."""
