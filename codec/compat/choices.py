"""The text of a choice, wherever it stands (``docs/contract/sources.md#s3-2``)."""

from __future__ import annotations

from typing import Any

from codec.members import object_of

__all__ = ("text_of_choice",)


def text_of_choice(choice: Any) -> str | None:
    """Return the delta's content, else the message's, else the text of any entry of ``choices``."""
    members = object_of(choice)
    contents = [object_of(members.get(name)).get("content") for name in ("delta", "message")]
    return next((text for text in (*contents, members.get("text")) if isinstance(text, str)), None)
