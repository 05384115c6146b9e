"""``spantap healthcheck``: is the proxy of this machine alive? For a container's HEALTHCHECK.

It asks the admin port with the standard library alone: it runs every few seconds, so it must not
cost a server's imports.
"""

from __future__ import annotations

import http.client
import sys

__all__ = ("run_healthcheck",)

TIMEOUT_SECONDS = 3.0
"""A live admin port answers in milliseconds; orchestrators give up after some seconds."""

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound


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
