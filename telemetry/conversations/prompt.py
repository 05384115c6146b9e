"""Prompts: what is kept of a call's prompt to compare it with the next, and its estimated parts.

Nothing of the content is kept, only sizes, and digests that say nothing without their key, of at
most :data:`MAX_COMPARED_ITEMS` items (R5).
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

import msgspec

from codec.history_items import ASSISTANT, ItemKind, is_media, read_history_items
from codec.history_states import START
from codec.members import object_of
from codec.parts import ToolCall
from codec.text.jsontext import compact_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from codec.asked import Asked
    from codec.history_items import HistoryItem, RequestItems
    from codec.history_states import Digests, States
    from codec.said import Said

MARK_BYTES: Final = 8
"""How many bytes of a digest are kept: two calls are compared, not millions."""

MAX_COMPARED_ITEMS: Final = 2_048
"""How many items of a history are compared, 32 KiB of states: an agent's has some hundreds."""

OUTSIDE: Final = ("model", "response_format", "tools", "system")
"""What a provider reads before the history, in that order. Each model has its own cache. OpenAI
puts schemas and tools before the instructions (cookbook, "Prompt Caching 201", 4.3); Anthropic
reads tools, the system prompt, then messages (platform.claude.com, "Prompt caching")."""

OPTIONS: Final = (
    *("tool_choice", "toolConfig", "thinking", "reasoning", "reasoning_effort"),
    "prompt_cache_key",
)
"""Members that are not text of the prompt, and may still cost its cache. Anthropic's cache is lost
from the first message on if the tool choice or thinking changes; OpenAI looks for a cache on the
machine to which the key leads."""

MARKED: Final = (*OUTSIDE, *OPTIONS)
"""What gets a separate digest."""

_NO_TOOLS: Final = frozenset({"", "mcp_approval_request"})
"""Types of parts that stand where a tool call would, but run no tool."""

Chars = tuple[int, int, int, int]
"""The number of characters of each of :data:`PARTS`."""

PARTS: Final = ("system", "tools", "history", "new")

MEDIA_CHARS: Final = 3_000
"""How many characters a picture counts as: OpenAI counts 765 tokens for one of 1,024 by 1,024
pixels, and four characters are about a token. The length of its base64 says nothing about that."""

_get_kind, _get_text = itemgetter(0), itemgetter(3)

_encode = msgspec.json.Encoder().encode


class Prompt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is kept of a call's prompt.

    Attributes:
        tokens: the provider's count of the prompt, including cached tokens.
        cached: how many of these came from a cache; ``None`` if the provider did not say.
        written: how many of these were written to a cache; ``None`` if the provider did not say.
        is_whole: the request has the whole prompt, and the counts cover nothing else.
        marks: the digests of :data:`MARKED`; empty for what the request does not have.
        states: the states of the history, before the first item and after each, joined.
        items: the number of items of the history.
        chars: the size of each part.
        was_cached: this call or an earlier one of the run used a cache.
    """

    tokens: int
    cached: int | None = None
    written: int | None = None
    is_whole: bool = False
    marks: tuple[bytes, ...] = ()
    states: bytes = b""
    items: int = msgspec.field(default=0, name="units")
    chars: Chars = (0, 0, 0, 0)
    was_cached: bool = False


def read_prompt(
    asked: Asked,
    said: Said,
    digests: Digests,
    *,
    items: RequestItems | None = None,
    states: States | None = None,
) -> Prompt | None:
    """Read the prompt of a call; ``None`` if the provider did not count it.

    Args:
        asked: what was asked.
        said: what was answered.
        digests: makes the digests by which prompts are compared.
        items: the items of the request, if they were read already.
        states: the states of the history by the same digests, if they were made already.
    """
    usage = said.usage
    if usage is None or usage.prompt is None:
        return None
    cached, written = usage.cache_read, usage.cache_write
    was_cached = bool(cached or written)
    items = read_history_items(asked.read_messages()) if items is None else items
    if items is None or not _is_whole(asked, said):
        return Prompt(tokens=usage.prompt, cached=cached, written=written, was_cached=was_cached)
    history = items.history
    if states is None:
        states = digests.go_on(START, history[:MAX_COMPARED_ITEMS])
    tools = _write_tools(asked)
    said_before, new = _measure_history(history)
    return Prompt(
        tokens=usage.prompt,
        cached=cached,
        written=written,
        is_whole=True,
        marks=_list_marks(asked, tools, items.system, digests),
        states=b"".join(states.with_ids[: MAX_COMPARED_ITEMS + 1]),
        items=len(history),
        chars=(
            len(items.system),
            len(tools) if tools.isascii() else len(tools.decode()),
            said_before,
            new,
        ),
        was_cached=was_cached,
    )


def _is_whole(asked: Asked, said: Said) -> bool:
    """Tell whether the request has the whole prompt, and the counts cover nothing else.

    It does not if the provider keeps the rest (an earlier response, a conversation, a stored
    prompt, cached content), changed it (edits of the context), or asked its model several times and
    counts all of these (tools that it runs itself, compactions). Such a prompt has no parts, and no
    other is compared with it.
    """
    if asked.conversation_id or asked.prompt_id or "previous_response_id" in asked.references:
        return False
    body = asked.body
    if body.get("cachedContent") or body.get("cached_content"):
        return False
    if object_of(said.body.get("context_management")).get("applied_edits"):
        return False
    if said.read_charges().steps:  # the count covers the prompts of all steps
        return False
    contents = [answer.message.content for answer in said.answers]
    parts = (part for content in contents if type(content) is tuple for part in content)
    calls = [part for part in parts if isinstance(part, ToolCall)]
    return all(call.is_clients or call.type in _NO_TOOLS for call in calls)


def _write_tools(asked: Asked) -> bytes:
    """Write the definitions of tools as they came, because the order of members counts too."""
    body = asked.body
    definitions = [
        body[name] for name in asked.content_members & asked.tool_members if body.get(name)
    ]
    return _write(definitions) if definitions else b""


def _list_marks(asked: Asked, tools: bytes, system: str, digests: Digests) -> tuple[bytes, ...]:
    """List the digests of :data:`MARKED`."""
    body = asked.body
    form = asked.options.get("response_format")
    return (
        _mark(digests, asked.model),
        _mark(digests, form) if form else b"",
        _mark(digests, tools) if tools else b"",
        _mark(digests, system) if system else b"",
        *[_mark(digests, body[name]) if body.get(name) else b"" for name in OPTIONS],
    )


def _mark(digests: Digests, value: Any) -> bytes:
    if isinstance(value, str):
        return digests.make_of_text(value)[:MARK_BYTES]
    return digests.make(value if isinstance(value, bytes) else _write(value))[:MARK_BYTES]


def _write(value: Any) -> bytes:
    try:
        return _encode(value)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return compact_text(value).encode("utf-8", "replace")


def estimate_parts(tokens: int, chars: Chars) -> dict[str, int]:
    """Estimate the tokens of each part; return nothing for a prompt without characters.

    The provider's count is exact, but does not say how it divides. It is divided by characters, and
    the parts together are the count (R6).
    """
    if not any(chars):
        return {}
    shares = zip(PARTS, apportion(tokens, chars), chars, strict=True)
    return {name: share for name, share, size in shares if size}


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Divide a count by weights, which are not all 0. The shares add up to the count.

    >>> apportion(10, (1, 2, 1))
    [2, 6, 2]
    """
    whole = sum(weights)
    shares = [total * weight // whole for weight in weights]
    shares[weights.index(max(weights))] += total - sum(shares)
    return shares


def _measure_history(history: Sequence[HistoryItem]) -> tuple[int, int]:
    """Count the characters of a request's history, and of what is new in it.

    New is what no answer follows: the user's text and results of tools. Everything before it, and
    what the model answered, is history.
    """
    known = len(history) - _count_new(history)
    # In as few steps as possible: there may be thousands of items.
    chars = [*map(len, map(_get_text, history))]
    if ItemKind.OTHER in map(_get_kind, history):
        for at, item in enumerate(history):
            if is_media(item):
                chars[at] = MEDIA_CHARS
    return sum(chars[:known]), sum(chars[known:])


def _count_new(history: Sequence[HistoryItem]) -> int:
    """Count the items that no answer follows, and what a client began of the next answer."""
    at = len(history)
    while at and history[at - 1].role == ASSISTANT:
        at -= 1
    while at and history[at - 1].role != ASSISTANT:
        at -= 1
    return len(history) - at
