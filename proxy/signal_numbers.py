"""The signals that end spantap.

They have their own module because the telemetry process uses them and loads no event loop.
"""

from __future__ import annotations

import signal

SHUTDOWN_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGHUP comes when a terminal is closed. If ``nohup`` ignores it, it stays ignored."""
