"""``stream_options``, the member with which chats and legacy completions ask for usage."""

from __future__ import annotations

from typing import Final

from codec.chat.rewrite import REQUEST_MEMBERS, names_usage_option, rewrite_request
from codec.chat.usage_filter import UsageFilter
from codec.usage_option import UsageOption

__all__ = ("STREAM_OPTIONS",)

STREAM_OPTIONS: Final = UsageOption(
    members=REQUEST_MEMBERS,
    rewrite=rewrite_request,
    is_blamed=names_usage_option,
    open_filter=UsageFilter,
)
