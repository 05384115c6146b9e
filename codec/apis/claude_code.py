"""Reads Claude Code's session from the metadata of its requests.

See ``docs/contract/apis.md#claude-code``. The user's id there names a session, and also the user's
account and device. Only the session is taken.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codec.members import object_of, text_of
from codec.text.jsontext import decode_json_object

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("find_session", "read_labels")

MAX_USER_CHARS: Final = 4_096
"""The longest id that is read; real ones have some 200 characters."""

_USER_OF_SESSION: Final = re.compile(r"user_[^_]*_account_[^_]*_session_(?P<session>[^_]+)")


def find_session(body: Mapping[str, Any]) -> str | None:
    """Find the session in the user's id of a request, in either of its forms."""
    user = text_of(object_of(body.get("metadata")).get("user_id")) or ""
    if len(user) > MAX_USER_CHARS:
        return None
    if found := _USER_OF_SESSION.fullmatch(user):
        return found["session"]
    if not user.startswith("{"):
        return None
    try:
        return text_of(decode_json_object(user.encode("utf-8", "surrogatepass")).get("session_id"))
    except ValueError:
        return None


def read_labels(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the metadata of a request, without an id that names a session."""
    labels = object_of(body.get("metadata"))
    if find_session(body) is None:
        return labels
    return {name: value for name, value in labels.items() if name != "user_id"}
