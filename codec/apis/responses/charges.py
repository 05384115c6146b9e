"""Reads by what a response is billed besides its counts: the provider's own tools.

Rules:

1. A search of the web is billed by the call, and so is one of files. Opening a page is not, nor is
   a call that failed. Where the provider counts its searches itself, that count is taken.
2. The preview of the web search has prices of its own, pictures that a tool drew have those of
   their model, containers those of their time: they are named as unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from codec.charges import Charges, read_charges
from codec.members import list_of, object_of, text_of
from codec.text.integers import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("read_response_charges",)

_WEB: Final = "web_search_call"
_FILES: Final = "file_search_call"
_PREVIEW: Final = "web_search_preview"
_UNKNOWN: Final = frozenset({"code_interpreter_call", "image_generation_call"})
_SHELL: Final = "shell_call"
_NOT_SEARCHED: Final = frozenset({"open_page", "find_in_page", "find"})


def read_response_charges(body: Mapping[str, Any], raw: Mapping[str, Any]) -> Charges:
    """Read what a response is billed by.

    Args:
        body: the response.
        raw: its usage.
    """
    items = [object_of(item) for item in list_of(body.get("output"))]
    kinds = [text_of(item.get("type")) or "" for item in items if item.get("status") != "failed"]
    unknown = [kind for kind in kinds if kind in _UNKNOWN]
    unknown += [_SHELL for item in items if item.get("type") == _SHELL and _is_hosted(item)]
    told = object_of(body.get("tool_usage"))
    counted = count_of(object_of(told.get("web_search")).get("num_requests"))
    searches = sum(map(_searches, items)) if counted is None else counted
    if searches and any(map(_is_preview, list_of(body.get("tools")))):
        unknown.append(_PREVIEW)
    charges = read_charges(raw, unknown=tuple(unknown))
    files = kinds.count(_FILES)
    if not searches and not files:
        return charges
    searches = max(searches, charges.web_searches)
    return replace(charges, web_searches=searches, file_searches=files)


def _searches(item: Mapping[str, Any]) -> bool:
    if item.get("type") != _WEB or item.get("status") == "failed":
        return False
    return object_of(item.get("action")).get("type") not in _NOT_SEARCHED


def _is_preview(tool: Any) -> bool:
    return (text_of(object_of(tool).get("type")) or "").startswith(_PREVIEW)


def _is_hosted(item: Mapping[str, Any]) -> bool:
    kind = text_of(object_of(item.get("environment")).get("type")) or ""
    return kind.startswith("container")
