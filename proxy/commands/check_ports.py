"""Are the two ports free, or does a running spantap have them?"""

from __future__ import annotations

import errno
import http.client
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from proxy.commands.check_findings import bad, good, note
from proxy.downstream.listening import bind, name_other_port
from telemetry.errors import ConfigurationError
from telemetry.metrics.instruments import SPANS_EXPORTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.commands.check_findings import Finding
    from proxy.settings.settings import Settings

__all__ = ("check_ports", "count_sent_spans")

_TIMEOUT_SECONDS = 3.0
"""A live admin port answers in milliseconds."""

_MAX_LINE_BYTES, _MAX_LINES = 4096, 100_000
"""An admin port's answer is a word, or all metrics."""

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class _Port:
    """One of the two.

    Attributes:
        name: ``traffic`` or ``admin``.
    """

    name: str
    host: str
    number: int

    @property
    def place(self) -> str:
        """The port's address, for people."""
        return f"{self.host}:{self.number}" if self.number else f"any free port of {self.host}"

    def find_obstacle(self) -> ConfigurationError | None:
        """What `spantap serve` would say, found out without being in the way of one that starts."""
        try:
            bind(self.name, self.host, self.number).close()
        except ConfigurationError as error:
            return error
        return None

    @classmethod
    def admin_of(cls, settings: Settings) -> Self:
        """The admin port."""
        return cls(name="admin", host=settings.admin_host, number=settings.admin_port)


def check_ports(settings: Settings) -> Iterator[Finding]:
    """A finding for each port, and one about a spantap that runs and is not ready."""
    traffic = _Port(name="traffic", host=settings.host, number=settings.port)
    admin = _Port.admin_of(settings)
    if traffic.number and (traffic.host, traffic.number) == (admin.host, admin.number):
        yield bad(
            "ports",
            f"{traffic.place} is to be both ports",
            f"for admin {name_other_port(admin.name)}",
        )
        return
    obstacles = [(port, port.find_obstacle()) for port in (traffic, admin)]
    both_taken = all(map(_is_taken, (obstacle for _, obstacle in obstacles)))
    is_spantap = _is_taken(obstacles[1][1]) and _ask(admin, "/healthz") == (200, "ok")
    for port, obstacle in obstacles:
        yield _judge(port, obstacle, is_spantap=is_spantap, both_taken=both_taken)
    if is_spantap and both_taken and _ask(admin, "/readyz") != (200, "ready"):
        yield note(
            "readiness",
            "the spantap that runs says it is not ready for traffic",
            "if it is not being stopped, look into its log",
        )


def count_sent_spans(settings: Settings) -> int | None:
    """How many spans the spantap that runs has sent to its backend; ``None`` where none answers."""
    name = SPANS_EXPORTED.prometheus_name
    answer = _ask(_Port.admin_of(settings), "/metrics", f"{name} ")
    value = "" if answer is None else answer[1].removeprefix(name).strip()
    return int(value) if value.isdecimal() else None


def _judge(
    port: _Port, obstacle: ConfigurationError | None, *, is_spantap: bool, both_taken: bool
) -> Finding:
    what = f"{port.name} port"
    if obstacle is None:
        return good(what, f"{port.place} is free")
    if not _is_taken(obstacle):
        return bad(
            what, str(obstacle), f"name a host of this machine, or {name_other_port(port.name)}"
        )
    if is_spantap and both_taken:
        return good(what, f"{port.place} is in use, as it should be: a spantap runs there")
    # One that runs has both ports; here `spantap serve` would fail on the one that is taken.
    holder = "another spantap, by its admin port" if is_spantap else "another program"
    return bad(
        what,
        f"{port.place} is in use by {holder}",
        f"end that one, or {name_other_port(port.name)}",
    )


def _is_taken(obstacle: ConfigurationError | None) -> bool:
    cause = obstacle.__cause__ if obstacle is not None else None
    return isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE


def _ask(admin: _Port, path: str, wanted: str = "") -> tuple[int, str] | None:
    """Status and a line of the admin port's answer; ``None`` where it gives none.

    Args:
        admin: the port.
        path: of the page.
        wanted: how the line begins; the first one where empty.
    """
    host = _ANY_ADDRESS.get(admin.host, admin.host)
    connection = http.client.HTTPConnection(host, admin.number, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        lines = (answer.readline(_MAX_LINE_BYTES) for _ in range(_MAX_LINES))
        texts = (line.decode("ascii", "replace") for line in itertools.takewhile(bool, lines))
        found = next((text for text in texts if text.startswith(wanted)), "")
        return answer.status, found.strip()
    except (OSError, http.client.HTTPException, ValueError):  # ValueError: a wrong chunk length
        return None
    finally:
        connection.close()
