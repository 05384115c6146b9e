"""The table of the APIs that are observed (``docs/contract/promises.md#observed``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codec.apis.api import Api
from codec.apis.chat import CHAT
from codec.apis.code_assist.route import CODE_ASSIST
from codec.apis.completions import COMPLETIONS
from codec.apis.count_tokens.route import COUNT_TOKENS
from codec.apis.embeddings.route import EMBEDDINGS
from codec.apis.gemini.live.route import GEMINI_LIVE
from codec.apis.gemini.live.session import LiveSession
from codec.apis.gemini.route import GEMINI, GEMINI_COUNT, GEMINI_EMBED, GEMINI_STREAM
from codec.apis.images.route import IMAGES
from codec.apis.messages.route import MESSAGES
from codec.apis.moderations.route import MODERATIONS
from codec.apis.ollama.route import OLLAMA_CHAT, OLLAMA_EMBED, OLLAMA_GENERATE
from codec.apis.realtime.route import REALTIME
from codec.apis.realtime.session import RealtimeSession
from codec.apis.rerank.route import RERANK
from codec.apis.responses.route import RESPONSES
from codec.apis.responses.session import ResponseSession
from codec.apis.speech.route import SPEECH
from codec.apis.transcriptions.route import TRANSCRIPTIONS, TRANSLATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codec.apis.session import OpenSession

__all__ = (
    "APIS",
    "COUNTS",
    "ENCLOSED_REQUESTS",
    "GIVE_NO_REASON",
    "OBSERVED",
    "POSTED",
    "SESSIONS",
    "TOOL_LISTS",
    "calls_model_unobserved",
    "find_api",
    "find_session_api",
    "get_api",
)

APIS: Final = (
    *(CHAT, COMPLETIONS, OLLAMA_EMBED, EMBEDDINGS, RESPONSES, COUNT_TOKENS, MESSAGES),
    *(GEMINI, GEMINI_STREAM, GEMINI_COUNT, GEMINI_EMBED, OLLAMA_CHAT, OLLAMA_GENERATE),
    *(RERANK, MODERATIONS, IMAGES, SPEECH, TRANSCRIPTIONS, TRANSLATIONS),
    *(REALTIME, GEMINI_LIVE),
    *map(CODE_ASSIST.enclose, (GEMINI, GEMINI_STREAM, GEMINI_COUNT)),
)
"""All APIs. If a path may end with the ends of two APIs, the longer end comes first."""

SESSIONS: Final[Mapping[str, OpenSession]] = {
    RESPONSES.name: ResponseSession,
    REALTIME.name: RealtimeSession,
    GEMINI_LIVE.name: LiveSession,
}
"""By the name of an API, how a WebSocket is read whose messages carry calls of it."""

COUNTS: Final = frozenset(api.name for api in APIS if api.span_name == COUNT_TOKENS.span_name)
"""Names of the APIs that only count, and call no model."""

GIVE_NO_REASON: Final = frozenset(api.operation for api in APIS if not api.gives_reason)
"""Operations (``gen_ai.operation.name``) whose answers never say why they ended."""

TOOL_LISTS: Final = frozenset[str]().union(*(api.tool_lists for api in APIS))
"""Members of a request or an answer that are lists whose items may bring tools, in any API."""

ENCLOSED_REQUESTS: Final = frozenset({CODE_ASSIST.request_member})
"""Members of a request that hold the request of another API, in any envelope."""

_UNKNOWN: Final = replace(
    CHAT, name="", path_ends=(), operation=None, span_name="LLM", api_type=None
)


class _ByName(dict[str, Api]):
    """The APIs by their names."""

    def __missing__(self, name: str) -> Api:
        return _UNKNOWN


get_api: Callable[[str], Api] = _ByName({api.name: api for api in APIS}).__getitem__
"""Gets an API by its name. For an unknown name it gets an API that says only that a model was
called.

A spool may come from a later version, which knows more APIs. This is called a dozen times for each
span, so it runs no Python code."""

POSTED: Final = [api for api in APIS if not api.sockets_only]
"""The APIs that are called by ``POST``."""

_TALKED: Final = [api for api in APIS if api.name in SESSIONS]

_PATHS: Final = [f"…{api.path_ends[0]}" for api in POSTED]
_SOCKETS: Final = [f"…{api.path_ends[0]}" for api in _TALKED]

OBSERVED: Final = (
    f"POST {', '.join(_PATHS[:-1])} and {_PATHS[-1]}, and of WebSockets to {' and '.join(_SOCKETS)}"
)
"""The list of what is observed, for people."""

_UNOBSERVED_ENDS: Final = (
    "/converse",  # Bedrock
    "/converse-stream",
    "/invoke",
    "/invoke-with-response-stream",
)
"""Ends of paths of other APIs that call models."""


def find_api(method: str, target: str) -> Api | None:
    """Find the API of a request; ``None`` for a request that is relayed without being observed.

    Methods are case-sensitive (RFC 9110, section 9.1). The target may have escapes and a query, and
    slashes at the end of its path: most servers take them.
    """
    return _find(target, POSTED) if method == "POST" else None


def find_session_api(target: str) -> Api | None:
    """Find the API of a WebSocket to this target; ``None`` for one that is only relayed."""
    return _find(target, _TALKED)


def _find(target: str, apis: Sequence[Api]) -> Api | None:
    path = target.partition("?")[0].rstrip("/")
    for api in apis:
        if path.endswith(api.path_ends) and (api.owns is None or api.owns(path)):
            return api
    return None


def calls_model_unobserved(target: str) -> bool:
    """Tell whether a ``POST`` to this target calls a model by an API that is not observed."""
    return target.partition("?")[0].rstrip("/").endswith(_UNOBSERVED_ENDS)
