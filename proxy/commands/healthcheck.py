"""``spantap healthcheck``: is the proxy of this machine alive? For a container's HEALTHCHECK.

It asks the admin port with the standard library alone: it runs every few seconds, so it must not
cost a server's imports. The settings are read, with theirs, only where a file is named.
"""

from __future__ import annotations

import http.client
import os
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("find_admin_port", "run_healthcheck")

DEFAULT_ADDRESS = ("127.0.0.1", 4001)
"""The defaults of ``admin_host`` and ``admin_port``; a test compares them with the settings'."""

_PORT = re.compile(r"[0-9]{1,5}")

TIMEOUT_SECONDS = 3.0
"""A live admin port answers in milliseconds; orchestrators give up after some seconds."""

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound


def find_admin_port(flags: Mapping[str, Any]) -> tuple[str, int]:
    """Host and port, where :func:`proxy.settings.settings.load_settings` finds them.

    Args:
        flags: ``admin_host`` and ``admin_port`` where they were given on the command line.

    Raises:
        ConfigurationError: a value is wrong, or the file that is named.
    """
    default_host, default_port = DEFAULT_ADDRESS
    host = flags.get("admin_host", os.environ.get("SPANTAP_ADMIN_HOST", default_host))
    port = str(flags.get("admin_port", os.environ.get("SPANTAP_ADMIN_PORT", default_port)))
    if not os.environ.get("SPANTAP_CONFIG") and _PORT.fullmatch(port) and int(port) <= 65535:
        return host, int(port)
    from proxy.settings.settings import load_settings  # noqa: PLC0415 - it also says what is wrong

    # Without the upstreams: their keys are no matter of this command, and may not be here.
    settings = load_settings({**flags, "upstreams": ()})
    return settings.admin_host, settings.admin_port


def run_healthcheck(host: str, port: int) -> int:
    """0 if the admin port answers that the proxy is alive, else 1 and a line on standard error."""
    connection = http.client.HTTPConnection(
        _ANY_ADDRESS.get(host, host), port, timeout=TIMEOUT_SECONDS
    )
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        print(f"spantap healthcheck: {host}:{port}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    finally:
        connection.close()
    if status != 200:
        print(f"spantap healthcheck: {host}:{port}: status {status}", file=sys.stderr)  # noqa: T201
        return 1
    return 0
