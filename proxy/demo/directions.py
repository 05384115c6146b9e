"""Directions: lines of a question that decide what the demo upstream answers.

    call read_file {"path": "notes.txt"}
    call run_command {"command": "wc -l notes.txt"}
    say "It has three lines."

A direction is a whole line: ``call``, a tool's name and its arguments as JSON, or ``say`` and a
JSON string. A tool that takes free text is called with a JSON string too. A call that ends with
``&`` is made together with the next one. Any other line is prose, and results of tools direct
nothing.

The user's newest message that has directions counts. Each direction is one answer, and so are calls
that are joined. After the last one comes a summary of the tools' results.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from codec.observations import read_observations
from codec.parts import Message, Text, ToolCall, ToolResult
from codec.text.jsontext import decode_json

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from codec.parts import Part

_DIRECTION = re.compile(
    r"^[ \t]*(?:call (?P<tool>\S+)|say) (?P<value>\S.*?)(?P<joined> &)?[ \t\r]*$", re.MULTILINE
)


class Direction(NamedTuple):
    """An answer that the question asks for.

    Attributes:
        text: the text of the answer, or the arguments of a call.
        tool: the name of the tool to call, or ``None``.
        is_joined: the next call is made together with this one.
    """

    text: str
    tool: str | None = None
    is_joined: bool = False


class Place(NamedTuple):
    """The place in a conversation with directions.

    Attributes:
        number: how many answers followed directions.
        next: the directions to follow now, several if they are joined; ``None`` after the last one.
        results: the results of tools since the question.
    """

    number: int
    next: Sequence[Direction] | None
    results: Sequence[Message]


def restore_answers(messages: Sequence[Message]) -> Sequence[Message]:
    """Parse the calls and results in the texts of messages (:mod:`codec.observations`).

    Each result gets its own message, and so does a call that failed, because it is not repeated.
    """
    read = read_observations(messages)
    return messages if read is messages else [one for it in read for one in _restore(it)]


def _restore(message: Message) -> Iterator[Message]:
    if not any(isinstance(part, ToolResult) for part in message.parts):
        yield message
        return
    for part in message.parts:
        if isinstance(part, ToolResult) and part.id is None and part.is_error:
            yield Message("assistant", (ToolCall(name=part.name),))
        yield Message("tool" if isinstance(part, ToolResult) else message.role, (part,))


def find_place(messages: Sequence[Message], offered: Container[str | None]) -> Place | None:
    """Find the place in a conversation, with the names of the offered tools.

    ``None`` if there are no directions, or nothing is left to answer.
    """
    directions, since = _find_directions(messages, offered)
    number, is_over = 0, not directions
    # Other answers may stand between those that follow directions: some clients write answers into
    # the history that the model never gave.
    for message in filter(is_answer, since):
        if number == len(directions):
            is_over = True
        elif _follows(message, directions[number]):
            number += 1
    results = [*filter(is_result, since)]
    if number < len(directions):
        return Place(number, directions[number], results)
    return None if is_over or not results else Place(number, None, results)


def _find_directions(
    messages: Sequence[Message], offered: Container[str | None]
) -> tuple[Sequence[Sequence[Direction]], Sequence[Message]]:
    """Find the directions that count, those of one answer together, and the messages after them.

    A call of a tool that is not offered does not count: an agent's request for a title repeats the
    question, and offers no tools.
    """
    for at in reversed(range(len(messages))):
        if messages[at].role == "user":
            found = [it for text in texts_of(messages[at]) for it in _read_directions(text)]
            if found:
                may_follow = [it for it in found if it.tool is None or it.tool in offered]
                return _join(may_follow), messages[at + 1 :]
    return (), ()


def _join(directions: Sequence[Direction]) -> Sequence[Sequence[Direction]]:
    """Put joined calls together."""
    joined: list[list[Direction]] = []
    is_joined = False
    for direction in directions:
        if is_joined and direction.tool is not None:
            joined[-1].append(direction)
        else:
            joined.append([direction])
        is_joined = direction.is_joined
    return joined


def _follows(answer: Message, directions: Sequence[Direction]) -> bool:
    """Tell whether an answer follows directions; clients may change white space.

    Of calls that were made together, a client may repeat only the one that failed.
    """
    called = {call.name for call in answer.tool_calls}
    if directions[0].tool is not None:
        follows = (direction.tool in called for direction in directions)
        return any(follows) if [call.id for call in answer.tool_calls] == [None] else all(follows)
    return text_of(answer).split() == directions[0].text.split()


def _read_directions(text: str) -> Iterator[Direction]:
    for line in _DIRECTION.finditer(text):
        tool, written = line["tool"], line["value"]
        is_joined = tool is not None and line["joined"] is not None
        try:
            value = decode_json(written)
        except ValueError:  # prose that only begins like a direction
            continue
        if isinstance(value, str):
            yield Direction(value, tool, is_joined)
        elif isinstance(value, dict) and tool is not None:
            yield Direction(written, tool, is_joined)


_ANSWERING = frozenset({"assistant", "model"})
"""Roles of the model; the latter is Gemini's word."""


def is_result(message: Message) -> bool:
    """Tell whether a message has the result of a tool: by its role, or by its parts (Gemini)."""
    return message.role == "tool" or any(isinstance(it, ToolResult) for it in message.parts)


def is_answer(message: Message) -> bool:
    """Tell whether a message, or a part of one, comes from the model."""
    return message.role in _ANSWERING


def text_of(message: Message) -> str:
    """Join the text of all parts of a message, including results of tools."""
    return " ".join(filter(None, map(_text_of_part, message.parts)))


def texts_of(message: Message) -> Iterator[str]:
    """Yield the texts of a message one by one, without results of tools."""
    for part in message.parts:
        if not isinstance(part, ToolResult):
            yield _text_of_part(part)


def _text_of_part(part: Part) -> str:
    if isinstance(part, ToolResult):
        content = part.content
        if content is None or isinstance(content, str):
            return content or ""
        return " ".join(filter(None, map(_text_of_part, content)))
    if isinstance(part, Text):
        return part.text
    return part if isinstance(part, str) else ""
