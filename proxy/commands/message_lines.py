"""Messages, documents and tools of a call as lines for a terminal: whole, or folded to one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rich.text import Text

from codec.compared_text import SYSTEM_ROLES, compare_as
from codec.text.jsontext import decode_json
from proxy.commands.page_lines import write_compact
from proxy.commands.store_command import describe_size
from proxy.escape import escape, escape_line
from telemetry.privacy.json_strings import REDACTED
from telemetry.spans.wrappers import split_added

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codec.asked import Tool
    from codec.parts import ToolCall
    from proxy.commands.page_lines import Line
    from proxy.reading.flat_messages import ContentPart, RecordedDocument, RecordedMessage
    from telemetry.spans.wrappers import Piece
    from telemetry.store.rows import CallPicture

MAX_URL_CHARACTERS: Final = 120
"""A longer URL is cut, because nobody can read an image in a ``data:`` URL."""

MAX_DOCUMENT_CHARACTERS: Final = 200
"""A longer document is cut: there may be a hundred, and the request has them whole."""

MAX_VALUE_CHARACTERS: Final = 1_000
"""A longer body of an unknown form is cut."""

MAX_FOLDED_CHARACTERS: Final = 100
"""How much of a folded text is shown: about a line of a terminal."""

MAX_TEXT_LINES: Final = 24
MAX_TEXT_CHARACTERS: Final = 4_000
"""A longer result of a tool is cut, because a file of a thousand lines hides what is around it."""

HEAD_LINES: Final = 14
HEAD_CHARACTERS: Final = 2_000
TAIL_LINES: Final = 6
TAIL_CHARACTERS: Final = 1_000
"""How much of a cut text is shown. Its end is shown, too: errors are often there."""

MAX_ARGUMENT_CHARACTERS: Final = 400
"""A longer line of a call's arguments is cut: it may be a whole file that the call writes."""

MAX_FOLDED_CALLS: Final = 8
"""How many tools a folded message names: an agent calls a few at once."""

_ANSWERERS: Final = frozenset({"assistant", "model"})
"""Roles of messages to which no agent adds anything."""

_WORDS: Final = frozenset({"reasoning", "refusal", "transcript"})
"""Kinds of parts that are text, but not the message's own text."""

_FOLD_GAP: Final = "  "
"""What stands before a folded text, which follows a title."""


def message_lines(
    message: RecordedMessage, place: str = "", *, name: str = "", whole: bool = True
) -> Iterator[Line]:
    """Write a message.

    Args:
        message: the message.
        place: shown beside its role.
        name: of the tool whose result it is.
        whole: leave nothing out; else what agents added is folded, and long results and arguments
            are cut.
    """
    yield 2, _title(message, place, name)
    folds = not whole and message.role not in _ANSWERERS
    pieces = iter(split_added([one.text for one in _list_texts(message)]) if folds else [])
    for part in message.parts:
        if part.kind == "text" and folds:
            yield from _piece_lines(next(pieces, ()), is_result=message.tool_call_id is not None)
        elif part.kind == "text":
            yield 4, Text(escape(part.text))
        elif part.call is not None:
            yield from _tool_call_lines(part.call, whole=whole)
        elif part.kind in _WORDS:
            yield 4, Text(f"({part.kind}) ", style="italic").append(escape(part.text))
        elif part.picture is not None:
            yield 4, Text(f"(image) {_describe(part.picture)}", style="italic")
        else:
            yield 4, Text(f"({escape_line(part.kind)}) {_short_url(part.text)}", style="italic")
    for call in _calls_behind(message):
        yield from _tool_call_lines(call, whole=whole)


def _list_texts(message: RecordedMessage) -> list[ContentPart]:
    return [part for part in message.parts if part.kind == "text"]


def _piece_lines(pieces: Iterable[Piece], *, is_result: bool) -> Iterator[Line]:
    """Write a text whose pieces are known: what agents added in a line each."""
    for piece in pieces:
        if piece.is_added:
            folded = _fold(piece.text, style="dim")
            yield 4, folded[len(_FOLD_GAP) :]
        elif text := piece.text.strip("\n"):
            yield from long_text_lines(text) if is_result else [(4, Text(escape(text)))]


def long_text_lines(text: str, *, whole: bool = False) -> Iterator[Line]:
    """Write a text; of a long one the beginning and the end, with how much is between."""
    lines = text.split("\n")
    if whole or (len(lines) <= MAX_TEXT_LINES and len(text) <= MAX_TEXT_CHARACTERS):
        yield 4, Text(escape(text))
        return
    if len(lines) > MAX_TEXT_LINES:
        head, tail = "\n".join(lines[:HEAD_LINES]), "\n".join(lines[-TAIL_LINES:])
    else:
        head, tail = text, ""
    head, tail = head[:HEAD_CHARACTERS], tail[-TAIL_CHARACTERS:]
    left_out = f"{len(text) - len(head) - len(tail):,} characters"
    if len(lines) > MAX_TEXT_LINES:
        left_out = f"{len(lines) - HEAD_LINES - TAIL_LINES:,} lines, {left_out}"
    yield 4, Text(escape(head))
    yield 4, Text(f"(+ {left_out}: --full)", style="dim")
    if tail:
        yield 4, Text(escape(tail))


def fold_message(message: RecordedMessage, name: str = "") -> Line:
    """Write a message as one line: its first line, and how much is left out.

    `name` is that of the tool whose result it is.
    """
    line = _title(message, name=name)
    texts = [part.text for part in _list_texts(message)]
    if message.role in SYSTEM_ROLES:  # without whom to bill, which says nothing
        texts = [compare_as(text, message.role) for text in texts]
    if texts:
        line.append_text(_fold("\n".join(texts)))
    else:
        for part in message.parts[:1]:
            line.append_text(_fold_part(part))
    calls = [call for part in message.parts if (call := part.call) is not None]
    calls += _calls_behind(message)
    if calls:
        names = ", ".join(escape_line(call.name or "no name") for call in calls[:MAX_FOLDED_CALLS])
        more = f" and {len(calls) - MAX_FOLDED_CALLS} more" if calls[MAX_FOLDED_CALLS:] else ""
        line.append("  -> ", style="not bold magenta").append(
            f"{names}{more}", style="not bold default"
        )
    return 2, line


def document_lines(document: RecordedDocument) -> Iterator[Line]:
    """Write a document as one line, which a narrow terminal may wrap."""
    number = "document" if document.index is None else f"document {document.index}"
    line = Text(number, style="bold cyan")
    if document.score is not None:
        line.append(f"  {document.score:.4g}", style="not bold")
    if document.text:
        text = _beginning(document.text, MAX_DOCUMENT_CHARACTERS)
        line.append(f"  {text}", style="not bold default")
    yield 2, line


def value_lines(value: object, *, whole: bool = False) -> Iterator[Line]:
    """Write a body as it came; nothing if it was hidden or not kept."""
    if value is None or value == REDACTED:
        return
    if isinstance(value, str):
        yield from ((2, text) for _, text in long_text_lines(value, whole=whole))
    else:
        text = write_compact(value)
        yield 2, Text(escape_line(text) if whole else _beginning(text, MAX_VALUE_CHARACTERS))


def tool_line(tool: Tool, *, whole: bool = False) -> Line:
    """Write a tool with its parameters' names, and its description or the first line of that."""
    schema = tool.parameters
    properties = schema.get("properties") if isinstance(schema, dict) else None
    names = ", ".join(properties) if isinstance(properties, dict) else ""
    line = Text(escape_line(f"{tool.name or tool.type}({names})"), style="bold")
    if tool.description and whole:
        line.append(f"  {escape_line(tool.description)}", style="not bold dim")
    elif tool.description:
        line.append_text(_fold(tool.description, style="not bold dim"))
    return 2, line


def _describe(picture: CallPicture) -> str:
    """Describe a picture that the page shows, or say why it is not kept."""
    words = escape_line(picture.type or "picture")
    if picture.size_bytes:
        words += f", {describe_size(picture.size_bytes)}"
    if picture.left_out is None:
        return f"{words}, shown on the page"
    return f"{words}, not kept: {picture.left_out.words}"


def _title(message: RecordedMessage, place: str = "", name: str = "") -> Text:
    title = Text(escape_line(message.role or "no role"), style="bold cyan")
    if name:
        title.append(f"  {escape_line(name)}")
    for note in (message.name, message.tool_call_id, place):
        if note:
            title.append(f"  {escape_line(note)}", style="not bold dim")
    return title


def _calls_behind(message: RecordedMessage) -> list[ToolCall]:
    """Return the calls of a message that are not among its parts."""
    in_place = [part.call for part in message.parts]
    return [call for call in message.tool_calls if call not in in_place]


def _fold(text: str, style: str = "not bold default") -> Text:
    """Write the first line of a text that is not blank, and how much is left out."""
    lines = text.split("\n")
    at = next((at for at, line in enumerate(lines) if line.strip()), len(lines))
    first = lines[at].strip() if at < len(lines) else ""
    folded = Text(f"{_FOLD_GAP}{escape_line(first[:MAX_FOLDED_CHARACTERS])}", style=style)
    more = [line for line in lines[at + 1 :] if line.strip()]
    left_out = len(first[MAX_FOLDED_CHARACTERS:]) + sum(map(len, more))
    if left_out:
        of_lines = f"{len(more)} line{'s' if len(more) > 1 else ''}, " if more else ""
        folded.append(f"  (+ {of_lines}{left_out} characters)", style="not bold dim")
    return folded


def _fold_part(part: ContentPart) -> Text:
    """Write a part that is not text: its kind, and its first line if it has words.

    A call gives nothing, because calls are named at the end.
    """
    if part.call is not None:
        return Text()
    kind = Text(f"  ({escape_line(part.kind)})", style="not bold italic default")
    if part.kind in _WORDS:
        return kind.append_text(_fold(part.text))
    return kind


def _beginning(text: str, limit: int) -> str:
    """Write a text as one line; of a long one the beginning and its length."""
    if len(text) <= limit:
        return escape_line(text)
    return f"{escape_line(text[:limit])}... ({len(text)} characters)"


def _tool_call_lines(call: ToolCall, *, whole: bool) -> Iterator[Line]:
    title = Text("-> ", style="magenta").append(escape_line(call.name or "no name"), style="bold")
    if call.id:
        title.append(f"  {escape_line(call.id)}", style="not bold dim")
    yield 4, title
    for line in _pretty(call.arguments).split("\n"):
        left_out = 0 if whole else len(line) - MAX_ARGUMENT_CHARACTERS
        if left_out <= 0:
            yield 7, Text(escape(line))
            continue
        words = f"  (+ {left_out:,} characters: --full)"
        yield 7, Text(escape(line[:MAX_ARGUMENT_CHARACTERS])).append(words, style="dim")


def _pretty(arguments: str) -> str:
    """Spread JSON arguments over several lines; leave anything else as it is."""
    try:
        return json.dumps(decode_json(arguments), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return arguments


def _short_url(url: str) -> str:
    return _beginning(url, MAX_URL_CHARACTERS)
