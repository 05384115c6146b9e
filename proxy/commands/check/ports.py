"""Checks the ports, the inbound keys, and the limit of open files."""

from __future__ import annotations

import errno
import http.client
import itertools
import os
from typing import TYPE_CHECKING, NamedTuple

from proxy.commands.check.findings import bad, good, note
from proxy.commands.healthcheck import ask_admin_port
from proxy.configure import explain_exposed_keys, read_inbound_keys
from proxy.downstream.listening import bind, name_other_port
from proxy.file_limit import hard_file_limit
from proxy.limits import FILES_PER_CONNECTION, MAX_OTHER_FILES, count_room
from proxy.own_address import INTERCEPT_HOST
from proxy.page_access.address import find_page
from proxy.page_access.digests import NO_TOKEN
from proxy.page_access.token_file import read_token, token_path
from telemetry.errors import ConfigurationError
from telemetry.metrics.instruments import SPANS_EXPORTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.commands.check.findings import Finding
    from proxy.settings.settings import Settings

_MAX_LINE_BYTES, _MAX_LINES = 4096, 100_000
"""The limits of an admin port's answer, which is a word or all metrics."""


class _Port(NamedTuple):
    """The ``traffic``, the ``admin`` or the ``interception`` port."""

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
        yield bad("ports", f"{traffic.place} is set for both ports", mend)
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
    """Ask a running spantap how many spans it has sent; ``None`` if none answers."""
    name = SPANS_EXPORTED.prometheus_name
    answer = _ask(settings, "/metrics", f"{name} ")
    value = "" if answer is None else answer[1].removeprefix(name).strip()
    return int(value) if value.isdecimal() else None


def _find_obstacle(port: _Port) -> ConfigurationError | None:
    """Find out what would keep `spantap serve` from the port, without blocking the port itself."""
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
    # A running spantap has both ports; here `spantap serve` would fail on the port that is taken.
    holder = "another spantap, by its admin port" if is_spantap else "another program"
    return bad(what, f"{port.place} is in use by {holder}", f"stop that one, or {other_port}")


def _is_taken(obstacle: ConfigurationError | None) -> bool:
    cause = obstacle.__cause__ if obstacle is not None else None
    return isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE


def _ask(settings: Settings, path: str, wanted: str = "") -> tuple[int, str] | None:
    """Get the status and the first line that begins with `wanted`; ``None`` without an answer."""
    try:
        with ask_admin_port(settings.admin_host, settings.admin_port, path) as answer:
            lines = (answer.readline(_MAX_LINE_BYTES) for _ in range(_MAX_LINES))
            texts = (line.decode("ascii", "replace") for line in itertools.takewhile(bool, lines))
            found = next((text for text in texts if text.startswith(wanted)), "")
            return answer.status, found.strip()
    except (OSError, http.client.HTTPException, ValueError):  # ValueError: a wrong chunk length
        return None


_WHAT = "page"


def check_page(settings: Settings) -> Iterator[Finding]:
    """Check the page's port and its token, without making anything that does not exist yet."""
    if not settings.page:
        return
    found = find_page(settings.store)
    if found is not None:
        yield good(_WHAT, f"the page of this store is at {found.url} (process {found.pid})")
    else:
        yield _look_at_port(settings)
    if settings.page_token == NO_TOKEN:
        mend = "leave SPANTAP_PAGE_TOKEN out, unless you are alone on this machine"
        yield note(_WHAT, "asks for no token: anybody who can connect sees all calls", mend)
    elif settings.page_token is None and os.path.lexists(token_path(settings.store)):
        try:
            read_token(settings.store)
        except ConfigurationError as error:
            yield note(_WHAT, f"there would be none: {error}", "see `spantap help page`")


def _look_at_port(settings: Settings) -> Finding:
    """Find out what would keep the page from its port; `spantap serve` starts without it too."""
    host, port = settings.page_host, settings.page_port
    try:
        bind(_WHAT, host, port).close()
    except ConfigurationError as error:
        mend = f"{name_other_port(_WHAT)}, or do without it (SPANTAP_PAGE=false)"
        return note(_WHAT, f"there would be none: {error}", mend)
    where = f"{host}:{port}" if port else f"any free port of {host}"
    return good(_WHAT, f"{where} is free")


def check_intercept_port(settings: Settings) -> Iterator[Finding]:
    """Check the interception port, if there is to be one."""
    if settings.intercept_port:
        port = _Port("interception", INTERCEPT_HOST, settings.intercept_port)
        obstacle = _find_obstacle(port)
        is_spantap = _is_taken(obstacle) and _ask(settings, "/healthz") == (200, "ok")
        yield _judge(port, obstacle, is_spantap=is_spantap, both_taken=is_spantap)


def check_inbound_keys(settings: Settings) -> Iterator[Finding]:
    """Check that the inbound keys can be read, and that no key of ours is exposed without them."""
    try:
        keys = read_inbound_keys(settings)
    except ConfigurationError as error:
        yield bad("inbound keys", str(error), "correct the entry; no part of a key is shown here")
        return
    if exposed := explain_exposed_keys(settings):
        what_it_is, _, mend = exposed.partition(": ")
        yield note("inbound keys", what_it_is, mend)
    elif keys is not None:
        yield good("inbound keys", f"{len(keys.digests)} known; a caller who shows none gets a 401")


def check_file_limit(settings: Settings) -> Iterator[Finding]:
    """Check that as many connections as the settings allow can be open at once."""
    wanted = settings.max_connections * FILES_PER_CONNECTION + MAX_OTHER_FILES
    limit = hard_file_limit()
    words = f"each process may have {limit:,}, enough for {count_room(limit):,} calls at once"
    if limit >= wanted:
        yield good("open files", words)
    else:
        yield note(
            "open files",
            f"{words}, not for the {settings.max_connections:,} of max_connections",
            f"raise the hard limit to {wanted:,} (ulimit -Hn, LimitNOFILE=, --ulimit nofile), or "
            f"lower SPANTAP_MAX_CONNECTIONS to {count_room(limit):,}",
        )
