"""The signals that end spantap. Apart, because telemetry knows them and loads no event loop."""

from __future__ import annotations

import signal

SHUTDOWN_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The last is for a terminal that was closed; ``nohup`` has it ignored, and so it stays."""
