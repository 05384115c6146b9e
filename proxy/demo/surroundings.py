"""Removes variables of the user's shell that would change the demo or send its calls elsewhere.

This happens before the OpenTelemetry SDK, the HTTP clients and the settings read the environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_PREFIXES = ("OPENAI_", "OPENINFERENCE_", "OTEL_", "SPANTAP_")
_PROXIES = frozenset({"all_proxy", "http_proxy", "https_proxy", "no_proxy"})


def forget_surroundings(environ: MutableMapping[str, str]) -> None:
    """Remove variables that would send spans or chats elsewhere, or change the demo's output."""
    for name in list(environ):
        if name.startswith(_PREFIXES) or name.lower() in _PROXIES:
            del environ[name]
