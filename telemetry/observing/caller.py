"""Who called: the client's program, and which of its attempts a call is, by its headers.

Rules:

1. The program is its ``User-Agent`` (RFC 9110, section 10.1.5), as it came, of at most
   :data:`MAX_AGENT_CHARS`.
2. An attempt counts from 0. OpenAI's and Anthropic's SDKs, and all others that Stainless makes, say
   ``x-stainless-retry-count: 1``; Amazon's say ``amz-sdk-request: attempt=2; max=3``.
3. What is no number, or none that a client means, is a first attempt.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry.frames.frame import Headers

MAX_AGENT_CHARS = 512
"""Browsers need 150, SDKs 40."""

MAX_RETRIES = 9_999
"""More is not a count of attempts."""

_COUNT = re.compile(r"[0-9]{1,4}")

_AMAZON_ATTEMPT = re.compile(r"attempt=([0-9]{1,4})(?:;|\Z)")


def read_caller(headers: Headers) -> tuple[str | None, int]:
    """Read the program that called, ``None`` where it does not say, and which retry it is."""
    agent, retry = None, 0
    for name, value in headers:
        if name == "user-agent":
            agent = _read_agent(value)
        elif name == "x-stainless-retry-count":
            if value != "0" and _COUNT.fullmatch(value):  # most are first attempts
                retry = int(value)
        elif name == "amz-sdk-request" and (found := _AMAZON_ATTEMPT.match(value)):
            retry = max(int(found[1]) - 1, 0)
    return agent, retry


def _read_agent(value: str) -> str | None:
    """Decode a value as UTF-8 if it is that, else as Latin-1; an empty one is absent."""
    if not value.isascii():
        with contextlib.suppress(UnicodeError):
            value = value.encode("latin-1").decode("utf-8")
    return value.strip()[:MAX_AGENT_CHARS] or None
