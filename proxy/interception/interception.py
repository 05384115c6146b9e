"""What an interception needs, and what it reports.

The secret and the authority's key are never shown (R7).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

_Key = TypeVar("_Key", bound=str)


class TunnelReason(StrEnum):
    """Why a connection was tunnelled and not opened."""

    NOT_LISTED = "the host is not on the list"
    OTHER_PORT = "the port is not 443"
    HTTP2_ONLY = "the client speaks HTTP/2 only"
    NO_TLS = "the client does not speak TLS"
    DISTRUST = "a client does not trust its certificate"
    CLIENT_CERTIFICATE = "the host wants a client certificate"
    NOT_COVERED = "the certificate authority does not cover the host"
    ENDED = "the certificate authority is too old"
    RUN_OVER = "the run is over"


USUAL: Final = frozenset({TunnelReason.NOT_LISTED, TunnelReason.OTHER_PORT, TunnelReason.RUN_OVER})
"""Reasons that need no sentence for each host: nothing was to be seen there."""


class Refusal(StrEnum):
    """Why a connection, or a request on an opened one, was refused."""

    NO_SECRET = "no secret was shown"  # noqa: S105 - a sentence
    WRONG_SECRET = "the secret was wrong"  # noqa: S105 - likewise
    NO_CONNECT = "the request was not CONNECT"
    BAD_CONNECT = "the CONNECT was not valid"
    OWN_PORT = "the port is spantap's"
    SERVER_NAME = "TLS named another host than CONNECT"
    BAD_HELLO = "TLS began with an invalid message"
    HOST = "the request named another host than CONNECT"
    TOO_MANY = "too many tunnels were open"
    UNREACHABLE = "there was no connection to the host"


class Interception(msgspec.Struct, frozen=True, kw_only=True):
    """What a port may open, for one run or for all who know its secret.

    Attributes:
        secret: the password that each CONNECT must show.
        ca_certificate: the run's authority, as PEM.
        ca_key: its key, as PEM.
        hosts: the exact names that are opened, in lower case.
        label: the label of the launch that the calls belong to; empty for none.
        tunnelled: hosts of the list that are tunnelled from the start, and why.
        own_ports: host and port of spantap's other listeners. No tunnel reaches one.
    """

    secret: str
    ca_certificate: bytes
    ca_key: bytes
    hosts: frozenset[str]
    label: str = ""
    tunnelled: Mapping[str, TunnelReason] = {}
    own_ports: tuple[tuple[str, int], ...] = ()

    def __repr__(self) -> str:
        """Show neither the secret nor the authority (R7)."""
        return f"Interception({len(self.hosts)} hosts, label={self.label!r})"


class TunnelledHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host that was reached by tunnels.

    Attributes:
        host: its name, with the port if that is not 443.
        tunnel_count: how many tunnels there were.
        total_bytes: what they carried, both ways.
    """

    host: str
    reason: TunnelReason
    tunnel_count: int
    total_bytes: int

    def plus(self, later: TunnelledHost) -> TunnelledHost:
        """Add later tunnels to the same host."""
        return TunnelledHost(
            host=self.host,
            reason=self.reason,
            tunnel_count=self.tunnel_count + later.tunnel_count,
            total_bytes=self.total_bytes + later.total_bytes,
        )


class InterceptReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a port did so far.

    Attributes:
        opened: connections that were opened, by host.
        tunnelled: hosts that were tunnelled, once for each reason.
        distrusted: failed handshakes, by host, of hosts for which none ever succeeded.
        refused: connections and requests that were refused, by reason.
    """

    opened: dict[str, int] = {}
    tunnelled: tuple[TunnelledHost, ...] = ()
    distrusted: dict[str, int] = {}
    refused: dict[Refusal, int] = {}

    def plus(self, later: InterceptReport) -> InterceptReport:
        """Add the report of a port that was opened again."""
        tunnelled = {(row.host, row.reason): row for row in self.tunnelled}
        for row in later.tunnelled:
            before = tunnelled.get((row.host, row.reason))
            tunnelled[row.host, row.reason] = row if before is None else before.plus(row)
        return InterceptReport(
            opened=_add(self.opened, later.opened),
            tunnelled=tuple(tunnelled.values()),
            distrusted=_add(self.distrusted, later.distrusted),
            refused=_add(self.refused, later.refused),
        )


def _add(one: Mapping[_Key, int], other: Mapping[_Key, int]) -> dict[_Key, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *other)}
