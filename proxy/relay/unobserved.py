"""Calls that are not observed: counted by path, and logged once for each path.

A path is shown without its query, and with ``…`` for what looks like a key or an id (R7). Requests
for a WebSocket, which are refused before they reach an upstream, have separate numbers and lines.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from codec.apis.table import OBSERVED, calls_model_unobserved, find_api
from proxy.relay.own_prefixes import leave_out_own_prefixes
from telemetry.metrics.instruments import LABEL_OVERFLOWS, REQUESTS_UNOBSERVED, UPGRADES_REFUSED
from telemetry.metrics.label_limit import MAX_LABEL_CHARS, OTHER, LabelLimit
from telemetry.privacy.path_keys import hide_keys

if TYPE_CHECKING:
    from proxy.downstream.downstream import Downstream
    from telemetry.metrics.instruments import Instrument
    from telemetry.metrics.registry import MetricsRegistry

_log = logging.getLogger("spantap.handler")

MAX_PATHS = 32
"""How many paths have their own line and number (R5); the others share one. Applications use a
handful."""

_STORED = frozenset({"batches", "files", "skills", "upload", "uploads"})
"""Parts of paths: a form that is sent there only brings something to store."""

_CALLS_NO_MODEL: Final = ("v1internal:", "client_secrets")
"""How the last segments of paths begin that call no model: methods of Code Assist that ask for
settings and quotas, and keys for a Realtime session, which is itself recorded on a WebSocket."""


class UnobservedCounter:
    """Counts and logs the calls that one worker relays unobserved, and the upgrades it refuses."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._relayed = _Paths(registry, REQUESTS_UNOBSERVED)
        self._refused = _Paths(registry, UPGRADES_REFUSED)

    def note(self, downstream: Downstream, status: int) -> None:
        """Note a request that was relayed unobserved and answered with this status.

        It counts if its path calls a model by another API, whatever the answer, and even if the
        upstream gives none. Any other POST counts if it has JSON, or a form that is not just an
        upload of files, and the upstream accepted it (a status below 400). So a probe for a path
        that no upstream has does not count, and neither do methods that are known to call no model.
        A WebSocket counts.
        """
        target = downstream.target
        if status == 101:
            if (path := self._relayed.count(f"WebSocket {target}")) is not None:
                _log.warning("%s is relayed, and what passes on it is not recorded", path)
            return
        # An API that a setting leaves out does not count: that was set on purpose.
        if downstream.method != "POST" or find_api("POST", target) is not None:
            return
        if _path(target).rpartition("/")[2].startswith(_CALLS_NO_MODEL):
            return
        content_type = (downstream.headers.find(b"content-type") or b"").lower()
        asks = b"json" in content_type or (
            content_type.startswith(b"multipart/") and _STORED.isdisjoint(_path(target).split("/"))
        )
        if not ((asks and status < 400) or calls_model_unobserved(target)):
            return
        if (path := self._relayed.count(target)) is not None:
            _log.warning(
                "POST %s is relayed and not recorded: spans are made of %s", path, OBSERVED
            )

    def note_upgrade(self, target: str) -> None:
        """Note a request for a WebSocket, which was refused.

        It is no warning if the path takes the same call over HTTP: clients that know both, such as
        Codex, continue there.
        """
        target = leave_out_own_prefixes(target)
        if (path := self._refused.count(target)) is not None:
            level = logging.WARNING if find_api("POST", target) is None else logging.INFO
            words = "GET %s asks for a WebSocket, and is refused: SPANTAP_WEBSOCKETS may allow them"
            _log.log(level, words, path)


class _Paths:
    """The paths of one metric."""

    def __init__(self, registry: MetricsRegistry, counter: Instrument) -> None:
        self._registry = registry
        self._counter = counter
        self._limit = LabelLimit(
            MAX_PATHS, lambda: registry.add(LABEL_OVERFLOWS, 1, counter.labels)
        )
        self._logged: set[str] = set()

    def count(self, target: str) -> str | None:
        """Count a request; the first time, return its path for the log."""
        path = self._limit.admit(hide_keys(_path(target), MAX_LABEL_CHARS))
        self._registry.add(self._counter, 1, (path,))
        if path in self._logged:
            return None
        self._logged.add(path)
        return "to further paths" if path == OTHER else path


def _path(target: str) -> str:
    return target.partition("?")[0]
