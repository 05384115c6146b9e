"""Calls that are relayed and not observed: counted by path, and each path told of once.

Rules:

1. A request counts by its path where that calls a model by another API, whatever the answer; any
   other POST of JSON where the upstream accepted it (a status below 400). So probes for paths that
   no upstream has are not told of.
2. A path is told without its query, and with ``…`` for what looks like a key or an id (R7).
3. No more than :data:`MAX_PATHS` paths have a line and a number of their own (R5); the others share
   one.
4. A call of an API that is left out by a setting is not mentioned: that was set on purpose.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from codec.apis.table import OBSERVED, calls_model_unobserved, find_api
from telemetry.metrics.instruments import LABEL_OVERFLOWS, REQUESTS_UNOBSERVED
from telemetry.metrics.label_limit import MAX_LABEL_CHARS, OTHER, LabelLimit

if TYPE_CHECKING:
    from proxy.downstream.downstream import Downstream
    from telemetry.metrics.registry import MetricsRegistry

__all__ = ("MAX_PATHS", "UnobservedCounter")

_log = logging.getLogger("spantap.handler")

MAX_PATHS = 32
"""Applications use a handful; rule 3."""

_KEY_OR_ID = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{16,}|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-").search
"""A part of a path with a long word of letters and digits, or a UUID; names of models have none."""


class UnobservedCounter:
    """Counts and logs the calls that one worker relays unobserved."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._paths = LabelLimit(
            MAX_PATHS, lambda: registry.add(LABEL_OVERFLOWS, 1, REQUESTS_UNOBSERVED.labels)
        )
        self._told: set[str] = set()

    def note(self, downstream: Downstream, status: int) -> None:
        """Note a request that was relayed unobserved and answered with this status."""
        if downstream.method != "POST" or find_api("POST", downstream.target) is not None:
            return
        content_type = downstream.headers.find(b"content-type") or b""
        was_accepted = status < 400 and b"json" in content_type.lower()
        if not (was_accepted or calls_model_unobserved(downstream.target)):
            return
        path = downstream.target.partition("?")[0]
        if len(path) > MAX_LABEL_CHARS:  # half a key looks like none
            path = f"{path[:MAX_LABEL_CHARS].rpartition('/')[0]}/…"
        parts = ("…" if _KEY_OR_ID(part) else part for part in path.split("/"))
        path = self._paths.admit("/".join(parts))
        self._registry.add(REQUESTS_UNOBSERVED, 1, (path,))
        if path not in self._told:
            self._told.add(path)
            _log.warning(
                "POST %s is relayed and not recorded: spans are made of %s",
                "to further paths" if path == OTHER else path,
                OBSERVED,
            )
