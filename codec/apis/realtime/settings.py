"""The settings of a Realtime session, the request that they make, and the limits of its rate."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codec.budget import size_bytes
from codec.members import list_of, object_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.text.jsontext import JsonObject

__all__ = ("find_servers", "make_body", "merge_settings", "read_limits")

_NO_SETTINGS: Final = frozenset({"id", "object", "type", "expires_at", "client_secret"})
"""Members of a session that describe it. The last one is a credential."""

_MAX_SERVERS_BYTES: Final = 64 * 1024
"""The most memory that what a client says of MCP servers may take: an address and credentials."""

_MAX_LIMITS: Final = 8
"""The most limits that are read; OpenAI has two."""

_NAME: Final = re.compile(r"[a-z_]{1,32}").fullmatch
_OF_LIMIT: Final = (
    ("limit", "limit", ""),
    ("remaining", "remaining", ""),
    ("reset_seconds", "reset", "s"),
)


def find_servers(session: Mapping[str, Any]) -> JsonObject:
    """Find what a client says of MCP servers, by their labels."""
    tools = [object_of(tool) for tool in list_of(session.get("tools"))]
    named = ((text_of(tool.get("server_label")), tool) for tool in tools)
    servers = {label: tool for label, tool in named if label is not None}
    return servers if size_bytes(servers) <= _MAX_SERVERS_BYTES else {}


def merge_settings(
    known: Mapping[str, Any], session: Mapping[str, Any], servers: Mapping[str, Any]
) -> JsonObject:
    """Add what a server reports of its session; a null says that there is no such setting.

    xAI leaves out some of the settings when it reports a change, and wraps functions as chats do.
    What the client said of MCP `servers` may have credentials that are not reported. They belong to
    the settings, because whatever is known as a credential is masked wherever it is quoted.
    """
    settings = {
        name: value
        for name, value in {**known, **session}.items()
        if name not in _NO_SETTINGS and value is not None
    }
    if isinstance(tools := settings.get("tools"), list):
        settings["tools"] = [_complete(tool, servers) for tool in tools]
    return settings


def _complete(tool: Any, servers: Mapping[str, Any]) -> Any:
    if function := object_of(object_of(tool).get("function")):
        return {"type": "function"} | function
    server = servers.get(text_of(object_of(tool).get("server_label")) or "")
    return tool if server is None else server | tool


def make_body(settings: JsonObject, asked: Mapping[str, Any], items: list[Any]) -> JsonObject:
    """Make the body of a request.

    Args:
        settings: of the session.
        asked: what the request says itself, which counts before them.
        items: its input.
    """
    own = {name: value for name, value in asked.items() if value is not None and name != "input"}
    body = settings | own
    audio = object_of(settings.get("audio")) | object_of(own.get("audio"))
    return body | ({"audio": audio} if audio else {}) | {"input": items}


def read_limits(limits: Any) -> tuple[tuple[str, str], ...]:
    """Read limits of a rate as the fields by which OpenAI's other APIs report them.

    >>> read_limits([{"name": "tokens", "remaining": 7, "reset_seconds": 1.5}])
    (('x-ratelimit-remaining-tokens', '7'), ('x-ratelimit-reset-tokens', '1.5s'))
    """
    fields = []
    for limit in map(object_of, list_of(limits)[:_MAX_LIMITS]):
        name = text_of(limit.get("name"))
        if name is None or _NAME(name) is None:
            continue
        for member, word, unit in _OF_LIMIT:
            value = limit.get(member)
            if isinstance(value, int | float) and not isinstance(value, bool):
                fields.append((f"x-ratelimit-{word}-{name}", f"{value}{unit}"))
    return tuple(fields)
