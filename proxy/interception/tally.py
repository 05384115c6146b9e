"""What a port has done, by host, and which hosts it tunnels because of that.

A client that does not trust the certificate of the run ends the handshake, or the connection right
after it. No single such end proves distrust: some clients drop their first connection and succeed
with the next. So a host is tunnelled after :data:`MAX_FAILURES` ends of that kind, and only if no
connection to it has ever carried a request. A host that wants a client certificate is tunnelled at
once. Both stay so until the run is over.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from proxy.interception.interception import InterceptReport, Refusal, TunnelledHost, TunnelReason

MAX_FAILURES = 2
"""How many connections to a host a client may end before the host is tunnelled. A client that
distrusts us pays with these."""

MAX_TUNNELLED_HOSTS = 256
"""How many tunnelled hosts are reported by name: a command may reach any number of them."""

OTHER_HOSTS = "other hosts"


@dataclass(slots=True, eq=False)
class TunnelCount:
    """The tunnels to one host."""

    tunnels: int = 0
    total_bytes: int = 0


class Tally:
    """Counts what a port does."""

    def __init__(self) -> None:
        self._opened: Counter[str] = Counter()
        self._trusted: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._wanting: set[str] = set()
        self._tunnelled: dict[tuple[str, TunnelReason], TunnelCount] = {}
        self._refused: Counter[Refusal] = Counter()

    def note_opened(self, host: str) -> None:
        """Note a handshake that succeeded."""
        self._opened[host] += 1

    def note_trusted(self, host: str) -> None:
        """Note that a client sent something on an opened connection."""
        self._trusted.add(host)

    def note_failure(self, host: str) -> None:
        """Note a connection that ended in its handshake, or right after it with nothing sent."""
        if host not in self._trusted:
            self._failures[host] += 1

    def is_distrusted(self, host: str) -> bool:
        """Tell whether clients have shown that they do not trust us for this host."""
        return self._failures[host] >= MAX_FAILURES and host not in self._trusted

    def note_wants_certificate(self, host: str) -> None:
        """Note that a host refused us because it wants a client certificate."""
        self._wanting.add(host)

    def find_tunnel_reason(self, host: str) -> TunnelReason | None:
        """Return why a host is tunnelled because of what happened so far."""
        if host in self._wanting:
            return TunnelReason.CLIENT_CERTIFICATE
        return TunnelReason.DISTRUST if self.is_distrusted(host) else None

    def count_tunnel(self, host: str, port: int, reason: TunnelReason) -> TunnelCount:
        """Count a tunnel; what it carries is added to the count that this returns."""
        name = host if port == 443 else f"{host}:{port}"
        if (name, reason) not in self._tunnelled and len(self._tunnelled) >= MAX_TUNNELLED_HOSTS:
            name = OTHER_HOSTS
        count = self._tunnelled.setdefault((name, reason), TunnelCount())
        count.tunnels += 1
        return count

    def note_refused(self, refusal: Refusal) -> None:
        """Note a refusal."""
        self._refused[refusal] += 1

    def report(self) -> InterceptReport:
        """Report what happened so far."""
        return InterceptReport(
            opened=dict(self._opened),
            tunnelled=tuple(
                TunnelledHost(
                    host=host,
                    reason=reason,
                    tunnel_count=count.tunnels,
                    total_bytes=count.total_bytes,
                )
                for (host, reason), count in self._tunnelled.items()
            ),
            distrusted={
                host: count for host, count in self._failures.items() if host not in self._trusted
            },
            refused=dict(self._refused),
        )
