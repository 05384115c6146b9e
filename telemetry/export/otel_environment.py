"""Checks the standard variables that the SDK reads by itself, before it reads them.

The SDK reads the limits while it is imported, and raises. So this module does not import it, and a
process calls :func:`check_otel_environment` before it does (OpenTelemetry specification, "General
SDK configuration" and "Attribute limits").

An empty variable is not an error: to the SDK an empty limit means no limit, and an empty sampler
the default.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT_VARIABLES = (
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
)
"""The limits of a span and of its contents."""

_MAX_LIMIT = sys.maxsize
"""The SDK makes queues of these lengths; a longer one cannot be made."""

_RATIO_SAMPLERS = ("traceidratio", "parentbased_traceidratio")
"""Samplers that read ``OTEL_TRACES_SAMPLER_ARG``."""

_SAMPLERS = (
    "always_on",
    "always_off",
    "parentbased_always_on",
    "parentbased_always_off",
    *_RATIO_SAMPLERS,
)
"""The standard names that the SDK knows."""


def check_otel_environment(environ: Mapping[str, str]) -> None:
    """Check that the limits and the sampler in `environ` can be followed.

    Raises:
        ConfigurationError: one cannot; the message names the variable.
    """
    for name in LIMIT_VARIABLES:
        _check_limit(name, environ.get(name, ""))
    # White space is not removed, because the SDK does not do so. It replaces an unknown sampler by
    # one that samples everything, with a line in the log; but the user asked for less, so that is
    # an error here.
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").lower()
    if sampler and sampler not in _SAMPLERS:
        known = ", ".join(_SAMPLERS)
        raise ConfigurationError(f"OTEL_TRACES_SAMPLER is {sampler!r}, but only {known} are known")
    if sampler in _RATIO_SAMPLERS:
        _check_ratio("OTEL_TRACES_SAMPLER_ARG", environ.get("OTEL_TRACES_SAMPLER_ARG", ""))


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Tell whether ``OTEL_SDK_DISABLED`` turns all spans off."""
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def find_reason_for_no_spans(environ: Mapping[str, str], *, keeps: bool = False) -> str | None:
    """Name the variable that turns all recording off, ``None`` if none does.

    `keeps`: rules keep some calls that are not sampled (:mod:`telemetry.spans.keep_rules`).
    """
    if is_disabled(environ):
        return "OTEL_SDK_DISABLED is true"
    sampler, ratio = _read_sampler(environ)
    if keeps or ratio:
        return None
    said = describe_sampler(environ)
    # Such a sampler still samples the calls of a parent that was sampled.
    return f"{said}, except for calls of a sampled parent" if sampler.startswith("parent") else said


def describe_sampler(environ: Mapping[str, str]) -> str | None:
    """Name the sampler, ``None`` if it leaves out no calls."""
    sampler, ratio = _read_sampler(environ)
    if ratio == 1:
        return None
    said = f"OTEL_TRACES_SAMPLER is {sampler}"
    return f"{said} with {ratio:g}" if sampler in _RATIO_SAMPLERS else said


def _read_sampler(environ: Mapping[str, str]) -> tuple[str, float]:
    """Read the sampler's name, and the ratio of calls without a parent that it samples."""
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").lower()
    if sampler in _RATIO_SAMPLERS:
        return sampler, float(environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip() or 1)
    return sampler, 0.0 if sampler.endswith("always_off") else 1.0


def _check_limit(name: str, value: str) -> None:
    try:
        limit = int(value.strip() or 0)
    except ValueError:
        limit = -1
    if not 0 <= limit <= _MAX_LIMIT:
        raise ConfigurationError(
            f"{name} is {value!r}, but must be a whole number from 0 to {_MAX_LIMIT}"
        )


def _check_ratio(name: str, value: str) -> None:
    try:
        ratio = float(value.strip() or 1)
    except ValueError:
        ratio = math.nan
    if not 0 <= ratio <= 1:
        raise ConfigurationError(f"{name} is {value!r}, but must be a number from 0 to 1")
