"""Reads about the client from headers: its program, its attempt, and the names that agents give.

Coding agents and gateways name their sessions, threads and sub-agents in headers. Names of a
request, a window, a user or a cache are not sessions: ``x-client-request-id``,
``vscode-sessionid``, ``user`` and ``prompt_cache_key``. No name may look like a credential
(:mod:`telemetry.privacy.credential_names`).

Attempts count from 0. OpenAI's and Anthropic's SDKs, and all others that Stainless makes, send
``x-stainless-retry-count: 1``; Amazon's send ``amz-sdk-request: attempt=2; max=3``. Any other value
means a first attempt.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

from openinference.semconv.trace import SpanAttributes

if TYPE_CHECKING:
    from telemetry.frames.frame import Headers

MAX_AGENT_CHARS = 512
"""The longest ``User-Agent`` kept (RFC 9110, section 10.1.5): browsers send 150, SDKs 40."""

_COUNT = re.compile(r"[0-9]{1,4}")

_AMAZON_ATTEMPT = re.compile(r"attempt=([0-9]{1,4})(?:;|\Z)")

SUBAGENT_MEMBER: Final = "subagent"
"""The member of metadata with the name that a client gives an agent."""

SESSIONS_OF_AGENTS: Final = (
    "x-litellm-session-id",
    "x-claude-code-session-id",  # its sub-agents have the same
    "x-opencode-session",
    "x-opencode-session-id",
    "x-kilocode-taskid",
    "x-mux-workspace-id",
    "x-amp-thread-id",
    "x-coder-chat-id",
    "x-factory-session",
    "x-session-affinity",  # opencode, to other companies' providers
    "x-client-session-id",  # Copilot CLI
    "x-interaction-id",  # Copilot in VS Code
    "x-grok-session-id",
    "session-id",  # Codex: that of a tree of threads
    "session_id",  # Codex, older
    "conversation_id",  # Codex, older still
)
"""Names of headers with a session; the first one that is there wins. The first is LiteLLM's, which
people set. Headers with the name of an agent follow, and then headers that anybody might send."""

THREADS_OF_AGENTS: Final = {
    "x-claude-code-agent-id": "agent",
    "x-claude-code-parent-agent-id": "parent_agent",
    "thread-id": "thread",  # Codex
    "x-codex-parent-thread-id": "parent_thread",
    "x-openai-subagent": SUBAGENT_MEMBER,  # Codex: ``review``, ``compact``, ``collab_spawn``
    "x-parent-session-id": "parent_session",  # opencode: a child has another session
}
"""Headers that name a part of a session, or its parent, to members of metadata."""

HEADERS_OF_AGENTS: Final = dict.fromkeys(SESSIONS_OF_AGENTS, SpanAttributes.SESSION_ID) | {
    name: f"{SpanAttributes.METADATA}.{member}" for name, member in THREADS_OF_AGENTS.items()
}
"""All these headers in the form of :class:`telemetry.observing.client_context.HeaderMap`."""


def read_caller(headers: Headers) -> tuple[str | None, int, str]:
    """Read the program that called, which retry this is, and the betas of Anthropic's.

    A program without a name is ``None``. The betas have commas between them.
    """
    agent, retry, betas = None, 0, ""
    for name, value in headers:
        if name == "user-agent":
            agent = _read_agent(value)
        elif name == "x-stainless-retry-count":
            if value != "0" and _COUNT.fullmatch(value):  # most are first attempts
                retry = int(value)
        elif name == "amz-sdk-request" and (found := _AMAZON_ATTEMPT.match(value)):
            retry = max(int(found[1]) - 1, 0)
        elif name == "anthropic-beta":
            betas = f"{betas},{value}" if betas else value
    return agent, retry, betas


def _read_agent(value: str) -> str | None:
    """Decode a value as UTF-8 if possible, else as Latin-1; ``None`` for an empty one."""
    if not value.isascii():
        with contextlib.suppress(UnicodeError):
            value = value.encode("latin-1").decode("utf-8")
    return value.strip()[:MAX_AGENT_CHARS] or None
