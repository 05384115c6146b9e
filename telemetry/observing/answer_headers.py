"""What the recorded headers of an answer say: its id, and what is left of its limits."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from telemetry.frames.frame import RECORDED_RESPONSE_PREFIXES

if TYPE_CHECKING:
    from telemetry.frames.frame import Headers

__all__ = ("MAX_RATE_LIMITS", "read_rate_limits", "read_request_id")

MAX_RATE_LIMITS = 32
"""Rate-limit headers of one answer: OpenAI sends six, Anthropic sixteen."""

_RATE_LIMIT_PREFIXES = tuple(prefix.decode("ascii") for prefix in RECORDED_RESPONSE_PREFIXES)

_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-ms-request-id", "cf-ray")
"""In order of preference (OpenAI, Anthropic, Azure, Azure, behind Cloudflare)."""


def read_request_id(headers: Headers) -> str | None:
    """The provider's id of the call, by the header that says it best; ``None`` where none does."""
    values = dict(headers)
    for name in _REQUEST_ID_HEADERS:
        if value := values.get(name):
            return value
    return None


def read_rate_limits(headers: Headers) -> dict[str, str]:
    """Headers about limits, by name: the first :data:`MAX_RATE_LIMITS`, and when to try again."""
    limits = {
        name: value
        for name, value in headers
        if name.startswith(_RATE_LIMIT_PREFIXES) or name == "retry-after"
    }
    return (
        limits if len(limits) <= MAX_RATE_LIMITS else dict(islice(limits.items(), MAX_RATE_LIMITS))
    )
