"""The items of a conversation's history, the same for all APIs.

A request repeats the conversation so far, and every client repeats it in a different way. Items
stay the same: the same words, calls and results give the same items.

Rules (``docs/contract/conversations.md#c4``):

1. A message has an item for its text and one for each call, each result and each thing of another
   kind, in the order in which they came. The plain texts of a message are joined to one, without
   white space at its ends; a list of texts equals their joined text.
2. These are left out: reasoning, media that a model made beside its content, signatures, marks for
   a cache, ids of items, authors' names, empty and null values, and the parts of a text that are
   not compared (:mod:`codec.compared_text`).
3. Arguments that are JSON are compared as JSON: neither the order of members nor white space
   counts. Media are compared by the digest of their bytes, and spoken words like written ones.
4. System messages at the beginning are separate (:attr:`RequestItems.system`), because programs
   change them between two turns.
5. The id of a call is separate from the item's text, so that items can be compared without it:
   some clients rename calls.
6. The work is bounded (R5): a history of more than :data:`MAX_HISTORY_ITEMS` has no items, and a
   long text or value is compared as it came (:data:`MAX_CANONICAL_CHARS`).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from codec.compared_text import FORM_MARK, SYSTEM_ROLES, compare_as
from codec.members import text_of
from codec.parts import Media, Other, Reasoning, Refusal, Text, ToolCall, ToolResult
from codec.text.jsontext import decode_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codec.parts import Message, Part

__all__ = (
    "ASSISTANT",
    "MAX_HISTORY_ITEMS",
    "USER",
    "HistoryItem",
    "ItemKind",
    "RequestItems",
    "find_message",
    "is_media",
    "list_history_items",
    "make_canonical",
    "read_history_items",
)

MAX_HISTORY_ITEMS: Final = 20_000
"""The most items of a history, and the most messages: an agent's longest have some thousands."""

MAX_CANONICAL_CHARS: Final = 65_536
"""The longest JSON text that is brought into one form. Arguments have some hundred characters;
decoded, a text of small values takes many times its size in memory."""

MAX_TRIMMED_CHARS: Final = 1_048_576
"""The longest text whose ends are trimmed, and that is searched for parts that are not compared."""

ASSISTANT: Final = "assistant"
USER: Final = "user"

_ROLES: Final = {"model": ASSISTANT, "human": USER, "function": "tool"}
"""Other APIs' words for the roles of chats."""

_UNTOLD: Final = frozenset(
    {"cache_control", "id", "signature", "status", "annotations", "logprobs"}
)
"""Members of parts that clients drop or add (rule 2)."""

_NO_JSON: Final = "\0"
"""Separates the words about media; it never occurs in JSON."""

_EMPTY: Final[tuple[Any, ...]] = ("", [])

_UNREADABLE: Final = (
    msgspec.MsgspecError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
)
"""The exceptions of reading and writing JSON."""

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class ItemKind:
    """Kinds of items, a letter each."""

    TEXT: Final = "t"
    CALL: Final = "c"
    RESULT: Final = "r"
    OTHER: Final = "i"


class HistoryItem(NamedTuple):
    """A text, a call, a result or another thing of a history.

    Attributes:
        kind: one of :class:`ItemKind`.
        role: the role of its message.
        id: the id of the call, for calls and results only.
        text: its content in the canonical form.
    """

    kind: str
    role: str
    id: str | None
    text: str


class RequestItems(NamedTuple):
    """The items of a request.

    Attributes:
        system: the texts of the system messages that it begins with.
        history: all that follows.
    """

    system: str
    history: list[HistoryItem]


def read_history_items(messages: Sequence[Message]) -> RequestItems | None:
    """Read the items of a request's messages; ``None`` if there are too many (rule 6)."""
    if len(messages) > MAX_HISTORY_ITEMS:
        return None
    system: list[str] = []
    history: list[HistoryItem] = []
    for message in messages:
        items = list_history_items(message)
        if not history and message.role in SYSTEM_ROLES:
            system += [item.text for item in items]
        else:
            history += items
            if len(history) > MAX_HISTORY_ITEMS:
                return None
    return RequestItems("\n".join(system), history)


def list_history_items(message: Message) -> list[HistoryItem]:
    """List the items of one message (rule 1)."""
    role = message.role or ""
    role = _ROLES.get(role, role)
    content = message.content
    if type(content) is str:  # as most are
        text = _trim(content, role)
        return [HistoryItem(ItemKind.TEXT, role, None, text)] if text else []
    return [] if content is None else [*_read_parts(content, role)]


def find_message(messages: Sequence[Message], at: int) -> tuple[int, Message] | None:
    """Find the message of an item of the history.

    Args:
        messages: the messages whose items were read.
        at: the place of the item in :attr:`RequestItems.history`.

    Returns:
        The place of the message, which counts system messages too, and the message; ``None`` if
        the history has no such item.
    """
    known = 0
    for place, message in enumerate(messages):
        count = len(list_history_items(message))
        if not known and message.role in SYSTEM_ROLES:
            continue
        known += count
        if known > at:
            return place, message
    return None


def is_media(item: HistoryItem) -> bool:
    """Tell whether an item is a picture, a sound or a document; it does not have their content."""
    return item.kind == ItemKind.OTHER and _NO_JSON in item.text


def _read_parts(parts: Iterable[Part], role: str) -> Iterator[HistoryItem]:
    texts: list[str] = []
    is_system = role in SYSTEM_ROLES
    for part in parts:
        if isinstance(part, Reasoning):
            continue
        if (text := _find_words(part)) is not None:
            texts.append(compare_as(text, role) if is_system else text)  # each block by itself
            continue
        item = _read_part(part, role)
        if item is not None:
            if text := _trim("".join(texts), role):
                yield HistoryItem(ItemKind.TEXT, role, None, text)
            texts.clear()
            yield item
    if text := _trim("".join(texts), role):
        yield HistoryItem(ItemKind.TEXT, role, None, text)


def _find_words(part: Part) -> str | None:
    """Find the words of a part that was written or spoken."""
    if isinstance(part, str):
        return part
    if isinstance(part, (Text, Refusal)):
        return part.text
    return part.words if isinstance(part, Media) else None


def _read_part(part: Part, role: str) -> HistoryItem | None:
    """Read a part that is not text; ``None`` for a part that says nothing."""
    match part:
        case ToolCall(type=""):
            return None
        case ToolCall():
            said = f"{part.name or ''}\0{make_canonical(part.arguments)}"
            return HistoryItem(ItemKind.CALL, ASSISTANT, part.id, said)
        case ToolResult():
            return HistoryItem(ItemKind.RESULT, "tool", part.id, _read_result(part))
        case Media(is_beside_content=True):
            return None
        case Media():
            return HistoryItem(ItemKind.OTHER, role, None, _read_media(part))
        case Other():
            return HistoryItem(ItemKind.OTHER, role, None, _write(part.value))
    return None


def _trim(text: str, role: str) -> str:
    """Leave out white space at the ends and what is not compared; a very long text stays."""
    if len(text) > MAX_TRIMMED_CHARS:
        return text
    # Other texts are compared whole.
    if "<" in text or text.startswith(FORM_MARK) or role in SYSTEM_ROLES:
        text = compare_as(text, role)
    return text.strip()


def make_canonical(text: str) -> str:
    """Write JSON in one form; a text that is not JSON stays as it is (rule 3)."""
    if len(text) > MAX_CANONICAL_CHARS:  # a file, perhaps
        return text
    stripped = text.strip()
    if stripped in {"", "{}"}:  # of a call without arguments some say this, some that
        return ""
    if stripped[0] not in "{[":  # a word, a number
        return stripped
    try:
        return _encode_sorted(decode_json(stripped)).decode()
    except _UNREADABLE:
        return stripped


def _read_result(result: ToolResult) -> str:
    """Read the result of a tool: its text if it is text, else its JSON."""
    value = result.value
    if isinstance(value, str):
        return make_canonical(value)
    texts = _list_texts(value)
    if texts is not None:
        return make_canonical("".join(texts))
    return _write(value)


def _list_texts(value: Any) -> list[str] | None:
    """List the texts of a list of parts; ``None`` if it is not such a list."""
    if not isinstance(value, list):
        return None
    texts: list[str] = []
    for part in value:
        text = text_of(part.get("text")) if isinstance(part, dict) else None
        if text is None:
            return None
        texts.append(text)
    return texts


def _read_media(media: Media) -> str:
    """Identify media by their kind, and by the digest of their bytes or by their address."""
    _, is_inline, data = (media.url or "").partition(";base64,")
    data = data if is_inline else media.data or ""
    if data and not media.is_of_session:
        digest = hashlib.blake2b(data.encode("utf-8", "replace"), digest_size=16).hexdigest()
        return f"{media.kind}\0{digest}"
    return f"{media.kind}\0{media.url or media.file_id or media.name or ''}"


def _write(value: Any) -> str:
    """Write a value as JSON, members sorted and without what clients drop or add."""
    try:
        text = _encode_sorted(value).decode()
        return text if len(text) > MAX_CANONICAL_CHARS else _encode_sorted(_strip(value)).decode()
    except _UNREADABLE:
        return ""


def _strip(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _strip(member)
            for name, member in value.items()
            if name not in _UNTOLD and member is not None and member not in _EMPTY
        }
    return [_strip(one) for one in value] if isinstance(value, list) else value
