"""Are the two ports free, or does a running spantap have them?"""

from __future__ import annotations

import errno
import http.client
import itertools
from typing import TYPE_CHECKING, NamedTuple

from proxy.commands.check_findings import bad, good, note
from proxy.commands.healthcheck import ask_admin_port
from proxy.downstream.listening import bind, name_other_port
from telemetry.errors import ConfigurationError
from telemetry.metrics.instruments import SPANS_EXPORTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.commands.check_findings import Finding
    from proxy.settings.settings import Settings

_MAX_LINE_BYTES, _MAX_LINES = 4096, 100_000
"""An admin port's answer is a word, or all metrics."""


class _Port(NamedTuple):
    """The ``traffic`` or the ``admin`` port."""

    name: str
    host: str
    number: int

    @property
    def place(self) -> str:
        """The port's address, for people."""
        return f"{self.host}:{self.number}" if self.number else f"any free port of {self.host}"


def check_ports(settings: Settings) -> Iterator[Finding]:
    """Check each port, and whether a spantap that runs there is ready."""
    traffic = _Port("traffic", settings.host, settings.port)
    admin = _Port("admin", settings.admin_host, settings.admin_port)
    if traffic.number and traffic[1:] == admin[1:]:
        mend = f"for admin {name_other_port(admin.name)}"
        yield bad("ports", f"{traffic.place} is to be both ports", mend)
        return
    obstacles = {port: _find_obstacle(port) for port in (traffic, admin)}
    both_taken = all(map(_is_taken, obstacles.values()))
    is_spantap = _is_taken(obstacles[admin]) and _ask(settings, "/healthz") == (200, "ok")
    for port, obstacle in obstacles.items():
        yield _judge(port, obstacle, is_spantap=is_spantap, both_taken=both_taken)
    if is_spantap and both_taken and _ask(settings, "/readyz") != (200, "ready"):
        yield note(
            "readiness",
            "the spantap that runs says it is not ready for traffic",
            "if it is not being stopped, read its log",
        )


def count_sent_spans(settings: Settings) -> int | None:
    """Ask the spantap that runs how many spans it has sent; ``None`` where none answers."""
    name = SPANS_EXPORTED.prometheus_name
    answer = _ask(settings, "/metrics", f"{name} ")
    value = "" if answer is None else answer[1].removeprefix(name).strip()
    return int(value) if value.isdecimal() else None


def _find_obstacle(port: _Port) -> ConfigurationError | None:
    """Find out what `spantap serve` would say, without being in the way of one that starts."""
    try:
        bind(*port).close()
    except ConfigurationError as error:
        return error
    return None


def _judge(
    port: _Port, obstacle: ConfigurationError | None, *, is_spantap: bool, both_taken: bool
) -> Finding:
    what = f"{port.name} port"
    if obstacle is None:
        return good(what, f"{port.place} is free")
    other_port = name_other_port(port.name)
    if not _is_taken(obstacle):
        return bad(what, str(obstacle), f"name a host of this machine, or {other_port}")
    if is_spantap and both_taken:
        return good(what, f"{port.place} is in use, as it should be: a spantap runs there")
    # One that runs has both ports; here `spantap serve` would fail on the one that is taken.
    holder = "another spantap, by its admin port" if is_spantap else "another program"
    return bad(what, f"{port.place} is in use by {holder}", f"stop that one, or {other_port}")


def _is_taken(obstacle: ConfigurationError | None) -> bool:
    cause = obstacle.__cause__ if obstacle is not None else None
    return isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE


def _ask(settings: Settings, path: str, wanted: str = "") -> tuple[int, str] | None:
    """Get the status and the first line that begins as `wanted`; ``None`` without an answer."""
    try:
        with ask_admin_port(settings.admin_host, settings.admin_port, path) as answer:
            lines = (answer.readline(_MAX_LINE_BYTES) for _ in range(_MAX_LINES))
            texts = (line.decode("ascii", "replace") for line in itertools.takewhile(bool, lines))
            found = next((text for text in texts if text.startswith(wanted)), "")
            return answer.status, found.strip()
    except (OSError, http.client.HTTPException, ValueError):  # ValueError: a wrong chunk length
        return None
