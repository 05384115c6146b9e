"""``spantap healthcheck``: is the proxy of this machine alive? For a container's HEALTHCHECK.

It runs every few seconds, so it imports only the standard library, and the settings only if a
configuration file is named.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_ADDRESS = ("127.0.0.1", 4001)
"""The defaults of ``admin_host`` and ``admin_port``; a test compares them with the settings'."""

_PORT = re.compile(r"[0-9]{1,5}")

TIMEOUT_SECONDS = 3.0
"""A live admin port answers in milliseconds; orchestrators give up after some seconds."""

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound


def find_admin_port(flags: Mapping[str, Any]) -> tuple[str, int]:
    """Find host and port where :func:`proxy.settings.settings.load_settings` does.

    Args:
        flags: ``admin_host`` and ``admin_port``, if they were given on the command line.

    Raises:
        ConfigurationError: a value or the configuration file is wrong.
    """
    default_host, default_port = DEFAULT_ADDRESS
    host = flags.get("admin_host", os.environ.get("SPANTAP_ADMIN_HOST", default_host))
    port = str(flags.get("admin_port", os.environ.get("SPANTAP_ADMIN_PORT", default_port)))
    if not os.environ.get("SPANTAP_CONFIG") and _PORT.fullmatch(port) and int(port) <= 65535:
        return host, int(port)
    from proxy.settings.settings import load_settings  # noqa: PLC0415 - it also says what is wrong

    # Without the upstreams: this command needs none of their keys, which may not be here.
    settings = load_settings({**flags, "upstreams": ()})
    return settings.admin_host, settings.admin_port


def run_healthcheck(host: str, port: int) -> int:
    """Return 0 if the admin port says that the proxy is alive; else print the reason, return 1."""
    try:
        with ask_admin_port(host, port, "/healthz") as answer:
            if answer.status == 200:
                return 0
            why = f"status {answer.status}"
    except (OSError, http.client.HTTPException) as error:
        why = str(error)
    print(f"spantap healthcheck: {host}:{port}: {why}", file=sys.stderr)  # noqa: T201
    return 1


@contextlib.contextmanager
def ask_admin_port(host: str, port: int, path: str) -> Iterator[http.client.HTTPResponse]:
    """Get a page of the admin port; a host that means all addresses is reached by loopback.

    Raises:
        OSError, http.client.HTTPException: nobody answers, or the answer is not HTTP.
    """
    connection = http.client.HTTPConnection(
        _ANY_ADDRESS.get(host, host), port, timeout=TIMEOUT_SECONDS
    )
    try:
        connection.request("GET", path)
        yield connection.getresponse()
    finally:
        connection.close()
