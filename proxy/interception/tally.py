"""What a port has done, by host, and which hosts it leaves alone because of that.

A client that does not trust the certificate of the run ends the handshake, or the connection right
after it. No single such end proves distrust: some clients drop their first connection and succeed
with the next. So a host becomes blind after :data:`MAX_FAILURES` ends of that kind, and only if no
connection to it has ever carried a request. A host that wants a client certificate becomes blind at
once. Both stay so until the run is over.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from proxy.interception.interception import BlindHost, BlindReason, InterceptReport, Refusal

MAX_FAILURES = 2
"""How many connections to a host a client may end before the host becomes blind. A client that
distrusts us pays with these."""

MAX_BLIND_HOSTS = 256
"""How many tunnelled hosts are reported by name: a command may reach any number of them."""

OTHER_HOSTS = "other hosts"


@dataclass(slots=True, eq=False)
class BlindCount:
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
        self._blind: dict[tuple[str, BlindReason], BlindCount] = {}
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

    def find_blindness(self, host: str) -> BlindReason | None:
        """Return why a host is left alone because of what happened so far."""
        if host in self._wanting:
            return BlindReason.CLIENT_CERTIFICATE
        return BlindReason.DISTRUST if self.is_distrusted(host) else None

    def count_blind(self, host: str, port: int, reason: BlindReason) -> BlindCount:
        """Count a tunnel; what it carries is added to the count that this returns."""
        name = host if port == 443 else f"{host}:{port}"
        if (name, reason) not in self._blind and len(self._blind) >= MAX_BLIND_HOSTS:
            name = OTHER_HOSTS
        count = self._blind.setdefault((name, reason), BlindCount())
        count.tunnels += 1
        return count

    def note_refused(self, refusal: Refusal) -> None:
        """Note a refusal."""
        self._refused[refusal] += 1

    def report(self) -> InterceptReport:
        """Report what happened so far."""
        return InterceptReport(
            opened=dict(self._opened),
            blind=tuple(
                BlindHost(
                    host=host,
                    reason=reason,
                    tunnel_count=count.tunnels,
                    total_bytes=count.total_bytes,
                )
                for (host, reason), count in self._blind.items()
            ),
            distrusted={
                host: count for host, count in self._failures.items() if host not in self._trusted
            },
            refused=dict(self._refused),
        )
