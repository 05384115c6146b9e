"""Tools in texts: smolagents sends neither calls nor results as such.

Its agents write the calls that they ran into the assistant's text, as a list in Python's notation
behind ``Calling tools:``, and their results into the user's text behind ``Observation:``. Calls
that were made together have one text as their result. If a tool failed, its call is not repeated,
and the user's text has a block ``Error:``. Blocks in a row are one message, so the user's next task
(``New task:``) may stand behind an observation. Code of agents that act by code is in
:mod:`codec.agent_code`.

A user may write such words, too. So a request is read in this way only if the user's first text
begins with ``New task:``; an observation counts only behind calls, and an error only with the
sentence that smolagents adds to it. A new task behind an observation counts only if the agent gave
its final answer there. Every other text of the user's stays the user's.

The parsing is bounded (R5): :data:`MAX_CALLS_CHARS`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec.structs

from codec.agent_code import CODE_TOOL, FINAL_TOOL, cut_code_end, may_be_final
from codec.compared_text import SYSTEM_ROLES
from codec.parts import Other, Text, ToolCall, ToolResult
from codec.text.jsontext import compact_text
from codec.text.python_notation import decode_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.parts import Message, Part

__all__ = (
    "PROMPT_FOR_ANSWER",
    "PROMPT_FOR_PLAN",
    "find_delegated_task",
    "find_own_prompt",
    "find_task",
    "has_words",
    "read_observations",
    "repeat_answer",
)

MAX_CALLS_CHARS: Final = 1_048_576
"""How many characters of a request are parsed as lists of calls; lists beyond stay texts."""

MAX_LIST_CHARS: Final = 65_536
"""The longest list of calls that is parsed: a file that is written has some thousands."""

MAX_SHARED_CHARS: Final = 1_048_576
"""How many characters of an observation all its calls together have."""

_TASK: Final = "New task:\n"
_CALLING: Final = "Calling tools:\n"
_OBSERVATION: Final = "Observation:\n"
_AGAIN: Final = (
    "\nNow let's retry: take care not to repeat previous errors! If you have retried several"
    " times, try a completely different approach.\n"
)
_GO_ON: Final = "Now proceed and carry out this plan."
PROMPT_FOR_ANSWER: Final = (
    "Based on the above, please provide an answer to the following user task:\n"
)
"""What the agent itself asks behind the last observation when it has used up its steps."""
PROMPT_FOR_PLAN: Final = (
    "Now write your updated facts below, taking into account the above history:\n"
)
_PROMPTS: Final = (PROMPT_FOR_ANSWER, PROMPT_FOR_PLAN)
_PROMPT: Final = re.compile("\n(?=" + "|".join(map(re.escape, _PROMPTS)) + ")")

_ERROR: Final = re.compile(r"(?:^|\n)(?P<call>Call id: [^\n]*\n)?Error:\n")
_KNOWN_ERROR: Final = re.compile(
    rf"{_ERROR.pattern}(?=Error |Unknown tool |Code execution failed |Reached max steps"
    r"|Argument |Check |If you want to return |You returned )"
)
_TOOL_ERROR: Final = re.compile(
    r"Error executing (?:tool|request to team member) '(?P<ran>[^'\n]*)' with arguments "
    r"|Unknown tool (?P<unknown>[^,\n]*), should be one of: "
    r"|Argument "
)
"""The beginning of an error of a tool. Other errors are the agent's, such as an answer that it
cannot parse."""

_MANAGED: Final = re.compile(
    r"You're a helpful agent named '(?P<name>[^'\n]*)'\.\n"
    r"You have been submitted this task by your manager\.\n---\nTask:\n"
)
_MANAGED_END: Final = "\n---\nYou're helping your manager solve a wider task:"


def read_observations(messages: Sequence[Message]) -> Sequence[Message]:
    """Read the calls and results in texts as calls and results.

    Args:
        messages: those of a request.

    Returns:
        As many messages, each in its place, with the calls and results as parts; `messages`
        themselves if this is no request of smolagents'.
    """
    begin = 0
    while begin < len(messages) and messages[begin].role in SYSTEM_ROLES:
        begin += 1
    if begin == len(messages) or not _begins_with_task(messages[begin]):
        return messages
    read = [*messages[:begin]]
    room = MAX_CALLS_CHARS
    calls: Sequence[ToolCall] = ()
    for message in messages[begin:]:
        parts: list[Part] = []
        if message.role == "user":
            for part in message.parts:
                found = [*_read_user(part, calls)]
                parts += found
                if any(isinstance(one, ToolResult) for one in found):
                    calls = ()  # if each part had their results, they would be millions
            calls = ()
        elif message.role == "assistant":
            for part in message.parts:
                text = _text_of(part)
                parts += [part] if text is None else _read_answer(text, room)
                room -= len(text) if text is not None and _CALLING in text else 0
            calls = [part for part in parts if isinstance(part, ToolCall)]
        else:
            parts += message.parts
        read.append(msgspec.structs.replace(message, content=tuple(parts)))
    return read


def find_task(text: str) -> str:
    """Find the user's words in a text that has some, also if a part of it is masked.

    The words of an agent above are those of the task that it gives.
    """
    calls = [ToolCall(name=FINAL_TOOL)]
    words = [part.text for part in _read_user(text, calls) if isinstance(part, Text)]
    task = words[-1] if words else text
    delegated = find_delegated_task(task)
    return task if delegated is None else delegated[0]


def has_words(message: Message) -> bool:
    """Tell whether a message of the user's has more than results and what an agent itself asks.

    Args:
        message: one that :func:`read_observations` returned.
    """
    parts = message.parts
    if any(isinstance(part, (str, Text)) for part in parts):
        return True
    return not any(isinstance(part, (ToolResult, Other)) for part in parts)


def find_delegated_task(text: str) -> tuple[str, str] | None:
    """Find the task that an agent got from the agent above it, and the name that it has there.

    Args:
        text: a task, without what is before it.
    """
    found = _MANAGED.match(text)
    end = text.rfind(_MANAGED_END)
    return None if found is None or end < 0 else (text[found.end() : end].strip(), found["name"])


def find_own_prompt(messages: Sequence[Message]) -> str | None:
    """Find what the agent itself asks for at the end of its request: a plan, or an answer.

    Args:
        messages: those of the request, as :func:`read_observations` returned them.

    Returns:
        :data:`PROMPT_FOR_PLAN`, :data:`PROMPT_FOR_ANSWER` or ``None``.
    """
    last = messages[-1].parts[-1:] if messages else ()
    text = last[0].value if last and isinstance(last[0], Other) else None
    if not isinstance(text, str):
        return None
    return next((one for one in _PROMPTS if text.startswith(one)), None)


def repeat_answer(message: Message, *calls: ToolCall) -> Message:
    """Return the message of an answer as :func:`read_observations` will read it from a request.

    Args:
        message: the message.
        calls: those of code in its text.
    """
    said = [
        part if (text := _text_of(part)) is None else Text(cut_code_end(text))
        for part in message.parts
    ]
    return msgspec.structs.replace(message, content=(*said, *calls))


def _begins_with_task(message: Message) -> bool:
    content = message.content
    if message.role != "user" or not content:
        return False
    text = content if type(content) is str else _text_of(content[0])
    return text is not None and text.startswith(_TASK)


def _text_of(part: Part) -> str | None:
    if isinstance(part, Text):
        return part.text
    return part if isinstance(part, str) else None


def _read_answer(text: str, room: int) -> list[Part]:
    """Read an assistant's text: what it said, and the calls that the agent ran."""
    said, mark, listed = text.rpartition(_CALLING)
    calls: list[ToolCall] = []
    fits = len(text) <= room and len(listed) <= MAX_LIST_CHARS
    if mark and (not said or said[-1] == "\n") and fits:
        calls = _parse_calls(listed)
    said = cut_code_end(said if calls else text)
    return [Text(said), *calls] if said or not calls else [*calls]


def _parse_calls(listed: str) -> list[ToolCall]:
    """Parse a list of calls in Python's notation; nothing if it is not one."""
    if not listed.startswith("[{'id': "):
        return []
    try:
        return [_read_call(one) for one in decode_python(listed)]
    except (ValueError, TypeError, KeyError):
        return []


def _read_call(call: Any) -> ToolCall:
    """Read a call.

    Raises:
        KeyError, TypeError: it is not a call.
    """
    function = call["function"]
    name, arguments, call_id = function["name"], function["arguments"], call["id"]
    if type(name) is not str or not isinstance(call_id, str | None):
        raise TypeError("no call")
    if name == CODE_TOOL and type(arguments) is str:
        return ToolCall(id=call_id, name=name, arguments=arguments, type="custom")
    text = arguments if type(arguments) is str else compact_text(arguments)
    return ToolCall(id=call_id, name=name, arguments=text)


def _read_user(part: Part, calls: Sequence[ToolCall]) -> Iterator[Part]:
    """Read a part of a user's message; `calls` are those of the message before."""
    if (text := _text_of(part)) is None:
        yield part
        return
    *failed, rest = text.split(_AGAIN)
    for block in failed:
        own = block.removeprefix("\n")
        known = _KNOWN_ERROR.search(own)
        if (found := known or next(reversed([*_ERROR.finditer(own)]), None)) is None:
            yield Text(block + _AGAIN)
            continue
        before, error = own[: found.start()], own[found.end() :]
        if found["call"] and calls:
            observed = before.removeprefix(_OBSERVATION)
            yield from _share(f"{observed}\n{error}".lstrip(), calls, is_error=True)
        else:
            yield from _read_block(before, calls)
            yield _read_error(error)
        calls = ()
    yield from _read_block(rest.removeprefix("\n") if failed else rest, calls)


def _read_block(block: str, calls: Sequence[ToolCall]) -> Iterator[Part]:
    """Read a block without an error: a task, an observation, or what the agent itself asks."""
    own, *prompts = _PROMPT.split(block, maxsplit=1)
    if own.startswith(_TASK):
        yield Text(own.removeprefix(_TASK))
    elif own.startswith(_OBSERVATION) and calls:
        observed, task = own.removeprefix(_OBSERVATION), ""
        if any(map(may_be_final, calls)):
            observed, _, task = observed.partition(f"\n{_TASK}")
        yield from _share(observed, calls)
        yield from [Text(task)] if task else []
    elif block == _GO_ON or block.startswith(_PROMPTS):
        own, prompts = "", [block]
    elif block:
        own, prompts = "", []
        yield Text(block)
    yield from map(Other, prompts)


def _share(text: str, calls: Sequence[ToolCall], *, is_error: bool = False) -> Iterator[Part]:
    """Yield the result of each call: all have the whole text, because nothing says how to divide.

    If they are many, each has as much of it as there is room for.
    """
    shown = text[: MAX_SHARED_CHARS // len(calls)] if len(calls) > 1 else text
    for call in calls:
        yield ToolResult(id=call.id, content=shown, value=shown, is_error=is_error, name=call.name)


def _read_error(error: str) -> Part:
    """Read an error of a call that is not repeated; it may name the tool."""
    found = _TOOL_ERROR.match(error)
    if found is None:
        return Other(error)
    name = found["ran"] or found["unknown"]
    return ToolResult(id=None, content=error, value=error, is_error=True, name=name)
