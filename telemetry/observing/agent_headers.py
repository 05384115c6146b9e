"""The headers by which coding agents and gateways name their sessions, threads and sub-agents.

Rules:

1. Of several sessions the first in :data:`SESSIONS_OF_AGENTS` wins: one that people set for
   LiteLLM, then one with its agent's name in it, then those that anybody might send.
2. A name of a request, a window, a user or a cache is no session: ``x-client-request-id``,
   ``vscode-sessionid``, ``user`` and ``prompt_cache_key`` are none.
3. No name looks like a credential (:mod:`telemetry.privacy.credential_names`).
"""

from __future__ import annotations

from typing import Final

from openinference.semconv.trace import SpanAttributes

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
    "x-session-affinity",  # opencode, to providers that are not its own
    "x-client-session-id",  # Copilot CLI
    "x-interaction-id",  # Copilot in VS Code
    "session-id",  # Codex: that of a tree of threads
    "session_id",  # Codex, older
    "conversation_id",  # Codex, older still
)
"""Names of headers with a session, the one that wins first."""

THREADS_OF_AGENTS: Final = {
    "x-claude-code-agent-id": "agent",
    "x-claude-code-parent-agent-id": "parent_agent",
    "thread-id": "thread",  # Codex
    "x-codex-parent-thread-id": "parent_thread",
    "x-openai-subagent": SUBAGENT_MEMBER,  # Codex: ``review``, ``compact``, ``collab_spawn``
    "x-parent-session-id": "parent_session",  # opencode: a child has a session of its own
}
"""Names of headers with a part of a session, or what it is a part of, to members of metadata."""

HEADERS_OF_AGENTS: Final = dict.fromkeys(SESSIONS_OF_AGENTS, SpanAttributes.SESSION_ID) | {
    name: f"{SpanAttributes.METADATA}.{member}" for name, member in THREADS_OF_AGENTS.items()
}
"""All of them as a header map has them (:class:`telemetry.observing.client_context.HeaderMap`)."""
