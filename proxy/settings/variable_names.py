"""Variables that begin like ours but are not settings.

A misspelt setting is refused, because otherwise what it should hide would be recorded. Commands
that use the settings report any other such variable, with the nearest name.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_PREFIX = "SPANTAP_"

_SLIP = 0.92
"""How similar (:mod:`difflib`) a misspelt name is to the name that is meant."""

_KUBERNETES = re.compile(
    r"SPANTAP_(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_[0-9]+_[A-Z]+(_.+)?)"
)
_KUBERNETES_URL = re.compile(r"(tcp|udp|sctp)://")
"""Kubernetes makes such variables for a service whose name begins like ours; they are ignored."""


def check_names(environ: Mapping[str, str], settings: Collection[str]) -> None:
    """Refuse a misspelt setting.

    Raises:
        ConfigurationError: there is one.
    """
    known = _variables(settings)
    for name in _unknown(environ, known):
        for meant in get_close_matches(name.upper(), known, n=1, cutoff=_SLIP):
            raise ConfigurationError(f"{name} is not a setting; is {meant} meant?")


def describe_unknown_names(environ: Mapping[str, str], settings: Collection[str]) -> Iterator[str]:
    """Write a sentence for each variable that changes nothing."""
    known = _variables(settings)
    for name in _unknown(environ, known):
        own = name[len(_PREFIX) :].lower()
        nearest = get_close_matches(own, settings, n=1)  # without the common prefix
        advice = (
            f"is {_PREFIX}{nearest[0].upper()} meant?"
            if nearest
            else "`spantap help settings` lists them"
        )
        yield f"{name} is not a setting and changes nothing; {advice}"


def _variables(settings: Collection[str]) -> list[str]:
    return [f"{_PREFIX}{name.upper()}" for name in (*settings, "config")]


def _unknown(environ: Mapping[str, str], known: Collection[str]) -> Iterator[str]:
    for name in sorted(environ):
        is_ours = name.upper().startswith(_PREFIX) and name.upper() not in known
        if is_ours and not (
            _KUBERNETES.fullmatch(name)
            or (name.endswith("_PORT") and _KUBERNETES_URL.match(environ[name]))
        ):
            yield name
