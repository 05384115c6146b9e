"""Directions: lines of a question by which its asker decides what the demo upstream answers.

    call read_file {"path": "notes.txt"}
    call run_command {"command": "wc -l notes.txt"}
    say "It has three lines."

Rules:

1. A direction is a line of its own: ``call``, a tool's name and its arguments as JSON, or ``say``
   and a JSON string. A tool that takes free text is called with a JSON string, too. Any other line
   is prose.
2. The newest message of the user that has directions counts, and each of them is one answer. One is
   followed when the one before it is found in the history, whatever else was said in between: there
   are clients that put words into the model's mouth. After the last one comes what the tools told.
3. A call of a tool that is not on offer is passed over: an agent's request for a title repeats the
   question, and offers none.
4. What tools told directs nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from codec.parts import Text, ToolResult
from codec.text.jsontext import decode_json

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from codec.call import Message
    from codec.parts import Part

_DIRECTION = re.compile(
    r"^[ \t]*(?:call (?P<tool>\S+)|say) (?P<value>\S.*?)[ \t\r]*$", re.MULTILINE
)


class Direction(NamedTuple):
    """An answer that is asked for.

    Attributes:
        text: what is said, or the arguments of a call.
        tool: the name of the one that is called; ``None`` where none is.
    """

    text: str
    tool: str | None = None


class Place(NamedTuple):
    """The place in a conversation that is directed.

    Attributes:
        number: how many directions were followed.
        next: the one to be followed, ``None`` after the last one.
        results: what tools told since the question.
    """

    number: int
    next: Direction | None
    results: Sequence[Message]


def find_place(messages: Sequence[Message], offered: Container[str | None]) -> Place | None:
    """Find the place of a conversation, with the names of the tools on offer.

    ``None`` where nothing directs it, or nothing is left to be answered.
    """
    directions, since = _find_directions(messages, offered)
    number, is_over = 0, not directions
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
) -> tuple[Sequence[Direction], Sequence[Message]]:
    """Find the directions that count, and what was said since."""
    for at in reversed(range(len(messages))):
        if messages[at].role == "user":
            found = [it for text in texts_of(messages[at]) for it in _read_directions(text)]
            if found:
                may_follow = [it for it in found if it.tool is None or it.tool in offered]
                return may_follow, messages[at + 1 :]
    return (), ()


def _follows(answer: Message, direction: Direction) -> bool:
    """Tell whether an answer is what a direction asked for; clients may change white space."""
    if direction.tool is not None:
        return direction.tool in {call.name for call in answer.tool_calls}
    return text_of(answer).split() == direction.text.split()


def _read_directions(text: str) -> Iterator[Direction]:
    for line in _DIRECTION.finditer(text):
        tool, written = line["tool"], line["value"]
        try:
            value = decode_json(written)
        except ValueError:  # prose that begins so
            continue
        if isinstance(value, str):
            yield Direction(value, tool)
        elif isinstance(value, dict) and tool is not None:
            yield Direction(written, tool)


_ANSWERING = frozenset({"assistant", "model"})
"""Roles of the model; the latter is Gemini's word."""


def is_result(message: Message) -> bool:
    """Tell whether a message is what a tool answered: by its role, or as Gemini has it."""
    return message.role == "tool" or any(isinstance(it, ToolResult) for it in message.parts)


def is_answer(message: Message) -> bool:
    """Tell whether a message, or a part of one, is the model's."""
    return message.role in _ANSWERING


def text_of(message: Message) -> str:
    """Join the text of all parts of a message, of tools' results too."""
    return " ".join(filter(None, map(_text_of_part, message.parts)))


def texts_of(message: Message) -> Iterator[str]:
    """The texts of a message by themselves, without what tools answered."""
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
