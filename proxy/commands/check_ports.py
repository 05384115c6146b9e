"""Are the two ports free, or does a running spantap have them?"""

from __future__ import annotations

import errno
import http.client
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.commands.check_findings import bad, good, note
from proxy.configuration_error import ConfigurationError
from proxy.listening import listen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.commands.check_findings import Finding
    from proxy.settings import Settings

__all__ = ("check_ports",)

_TIMEOUT_SECONDS = 3.0
"""A live admin port answers in milliseconds."""

_MAX_ANSWER_BYTES = 64
"""An admin port's answer is a word."""

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class _Port:
    """One of the two.

    Attributes:
        name: ``traffic`` or ``admin``.
        prefix: what its settings' names begin with.
    """

    name: str
    prefix: str
    host: str
    number: int

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{self.host}:{self.number}" if self.number else f"any free port of {self.host}"

    @property
    def settings(self) -> str:
        """How another one is named."""
        variable = f"SPANTAP_{self.prefix.upper()}PORT"
        return f"name another port with --{self.prefix.replace('_', '-')}port or {variable}"

    def find_obstacle(self) -> ConfigurationError | None:
        """What `spantap serve` would say, found out as it does it."""
        try:
            listen(self.name, self.host, self.number).close()
        except ConfigurationError as error:
            return error
        return None


def check_ports(settings: Settings) -> Iterator[Finding]:
    """A finding for each port, and one about a spantap that runs and is not ready."""
    traffic = _Port(name="traffic", prefix="", host=settings.host, number=settings.port)
    admin = _Port(
        name="admin", prefix="admin_", host=settings.admin_host, number=settings.admin_port
    )
    if traffic.number and (traffic.host, traffic.number) == (admin.host, admin.number):
        yield bad("ports", f"{traffic.place} is to be both ports", f"for admin {admin.settings}")
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


def _judge(
    port: _Port, obstacle: ConfigurationError | None, *, is_spantap: bool, both_taken: bool
) -> Finding:
    what = f"{port.name} port"
    if obstacle is None:
        return good(what, f"{port.place} is free")
    if not _is_taken(obstacle):
        return bad(what, str(obstacle), f"name a host of this machine, or {port.settings}")
    if is_spantap and both_taken:
        return good(what, f"{port.place} is in use, as it should be: a spantap runs there")
    # One that runs has both ports; here `spantap serve` would fail on the one that is taken.
    holder = "another spantap, by its admin port" if is_spantap else "another program"
    return bad(what, f"{port.place} is in use by {holder}", f"end that one, or {port.settings}")


def _is_taken(obstacle: ConfigurationError | None) -> bool:
    cause = obstacle.__cause__ if obstacle is not None else None
    return isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE


def _ask(admin: _Port, path: str) -> tuple[int, str] | None:
    """Status and first bytes of the admin port's answer; ``None`` where it gives none."""
    host = _ANY_ADDRESS.get(admin.host, admin.host)
    connection = http.client.HTTPConnection(host, admin.number, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(_MAX_ANSWER_BYTES).decode("ascii", "replace").strip()
    except (OSError, http.client.HTTPException, ValueError):  # ValueError: a wrong chunk length
        return None
    finally:
        connection.close()
