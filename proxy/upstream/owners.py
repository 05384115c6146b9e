"""Owners of paths: if no upstream is set, each API goes to its own provider.

A path is compared raw, in whole segments from its beginning, however many slashes that has: Code
Assist's clients put their paths behind a base URL as it was set. It only chooses among five fixed
hosts, so that no request can name the host that it goes to. A path without an owner goes to OpenAI.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proxy.headers import Head


class Owner(Enum):
    """A provider that has its own API; the value is its name."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GOOGLE = "google"
    CODE_ASSIST = "code_assist"
    OLLAMA = "ollama"

    @property
    def provider(self) -> str:
        """The ``llm.provider`` of its calls."""
        return Owner.GOOGLE.value if self is Owner.CODE_ASSIST else self.value


BASE_URLS: Final = {
    Owner.OPENAI: "https://api.openai.com",
    Owner.ANTHROPIC: "https://api.anthropic.com",
    Owner.GOOGLE: "https://generativelanguage.googleapis.com",
    Owner.CODE_ASSIST: "https://cloudcode-pa.googleapis.com",
    Owner.OLLAMA: "http://127.0.0.1:11434",
}
"""The origin of each. ``OLLAMA_HOST`` is not read, because users set it to send Ollama's clients to
us."""


EXAMPLES: Final = {
    Owner.OPENAI: "/v1/chat/completions",
    Owner.ANTHROPIC: "/v1/messages",
    Owner.GOOGLE: "/v1beta/models/MODEL:generateContent",
    Owner.CODE_ASSIST: "/v1internal:generateContent",
    Owner.OLLAMA: "/api/chat",
}
"""An example path of each, for people."""

LISTS: Final = {
    Owner.OPENAI: "/v1/models",
    Owner.ANTHROPIC: "/v1/models",
    Owner.GOOGLE: "/v1beta/models",
    Owner.CODE_ASSIST: "/$discovery/rest?version=v1internal",
    Owner.OLLAMA: "/api/version",
}
"""A path of each that answers ``GET`` and costs nothing."""

_LIVE_OF_VERTEX: Final = (
    "/ws/google.cloud.aiplatform.v1.LlmBidiService",
    "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService",
)

_STARTS = {
    # With the last one Claude Code checks whether the server is there.
    Owner.ANTHROPIC: ("/v1/messages", "/v1/complete", "/v1/organizations", "/api/hello"),
    Owner.GOOGLE: (
        *("/v1beta", "/v1alpha", "/upload/v1beta", "/download/v1beta"),
        # Vertex AI's hosts depend on the region. At least its logins go to no other provider.
        *("/v1/projects", "/v1/publishers", "/v1beta1", *_LIVE_OF_VERTEX),
        *(
            f"/ws/google.ai.generativelanguage.{version}.GenerativeService.{method}"
            for version in ("v1", "v1alpha", "v1beta")
            for method in ("BidiGenerateContent", "BidiGenerateContentConstrained")
        ),
    ),
    Owner.CODE_ASSIST: ("/v1internal",),
    Owner.OLLAMA: ("/api",),
}
"""Beginnings of paths (``docs/contract/apis.md#owners``); OpenAI has the rest."""

_BARE = "/messages"
"""If a client of Anthropic asks for this, it means ``/v1/messages``. The Vercel AI SDK wants
``/v1`` in the base URL, Anthropic's own clients do not, and both read the same variable."""

_SHARED = ("/v1/models", "/v1/files", "/v1/skills")
"""Beginnings that several providers have: lists of models, files, skills. The request's head
decides among them."""

_GOOGLE_VERBS = (
    *(":generateContent", ":streamGenerateContent", ":countTokens", ":predict"),
    *(":embedContent", ":batchEmbedContents", ":batchGenerateContent", ":predictLongRunning"),
)
"""Ends of Gemini's paths under ``/v1/models``; a model name of OpenAI may have colons too."""


def find_owner(target: str, asker: Owner) -> Owner:
    """Find the owner of a path.

    Args:
        target: raw path and query.
        asker: the provider whose client asks: see :func:`find_asker`.
    """
    path = f"/{target.partition('?')[0].strip('/')}"  # a base URL may have ended in a slash
    if asker is Owner.ANTHROPIC and _is_under(path, (_BARE,)):
        return Owner.ANTHROPIC
    for owner, starts in _STARTS.items():
        if _is_under(path, starts):
            return owner
    if _is_under(path, _SHARED):
        return Owner.GOOGLE if path.endswith(_GOOGLE_VERBS) else asker
    return Owner.OPENAI


def complete_target(target: str, owner: Owner) -> str:
    """Complete the path of a client that has left out its beginning."""
    if owner is Owner.ANTHROPIC and target.startswith(_BARE):
        return f"/v1{target}"
    return target


def find_asker(head: Head) -> Owner:
    """Find out from the head which provider's client asks.

    ``anthropic-version``, or ``x-api-key`` without ``Authorization``, is Anthropic's;
    ``x-goog-api-key`` is Google's.
    """
    if head.has(b"anthropic-version"):
        return Owner.ANTHROPIC
    if head.has(b"authorization"):
        return Owner.OPENAI
    if head.has(b"x-api-key"):
        return Owner.ANTHROPIC
    return Owner.GOOGLE if head.has(b"x-goog-api-key") else Owner.OPENAI


def _is_under(path: str, starts: tuple[str, ...]) -> bool:
    return any(
        path.startswith(start) and path[len(start) : len(start) + 1] in {"", "/", ":"}
        for start in starts
    )
