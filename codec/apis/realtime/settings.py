"""The settings of a Realtime session, the request that they make, and the limits of its rate."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codec.members import list_of, object_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.text.jsontext import JsonObject

__all__ = ("make_body", "merge_settings", "read_limits")

_NO_SETTINGS: Final = frozenset({"id", "object", "type", "expires_at", "client_secret"})
"""Members of a session that describe it. The last one is a credential."""

_MAX_LIMITS: Final = 8
"""The most limits that are read; OpenAI has two."""

_NAME: Final = re.compile(r"[a-z_]{1,32}").fullmatch
_OF_LIMIT: Final = (
    ("limit", "limit", ""),
    ("remaining", "remaining", ""),
    ("reset_seconds", "reset", "s"),
)


def merge_settings(known: Mapping[str, Any], session: Mapping[str, Any]) -> JsonObject:
    """Add what a server reports of its session; a null says that there is no such setting.

    xAI leaves out some of the settings when it reports a change, and wraps functions as chats do.
    """
    settings = {
        name: value
        for name, value in {**known, **session}.items()
        if name not in _NO_SETTINGS and value is not None
    }
    if isinstance(tools := settings.get("tools"), list):
        settings["tools"] = [_unwrap(tool) for tool in tools]
    return settings


def _unwrap(tool: Any) -> Any:
    function = object_of(object_of(tool).get("function"))
    return {"type": "function"} | function if function else tool


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
