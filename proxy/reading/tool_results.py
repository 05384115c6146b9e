"""Results of tools among the messages of a call: of which call each is, and which failed, and why.

A message of a span does not say whether its tool failed: the row of the tool does. Rows of failed
tools are few, so only their spans are read.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

from openinference.semconv.trace import SpanAttributes, ToolCallAttributes

from codec.text.jsontext import decode_json
from proxy.reading.call import decode_call
from telemetry.conversations.keys import is_strong
from telemetry.finding.where import ALL_ROWS, ask_word
from telemetry.privacy.json_strings import REDACTED
from telemetry.reading.engine import LAST_SEQ
from telemetry.spans.call_words import cut_end, describe_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from proxy.reading.flat_messages import RecordedMessage
    from telemetry.reading.calls import Calls
    from telemetry.store.rows import SpanSummary

MAX_FAILED: Final = 200
"""How many failed tools of a conversation are looked up, the newest."""

FAILED_SECONDS: Final = 0.1
"""How long they are looked for."""

_TOOLS_OF_A_CALL: Final = 512
"""Rows of tools follow the row of the call that brings their results."""

_COMPARED_CHARS: Final = 64

_ERROR_TAG: Final = re.compile(
    r"<(?=\w{0,64}error)(\w{1,80}+)>(.*)</\1>", re.DOTALL | re.IGNORECASE
)
"""Claude Code puts ``<tool_use_error>`` around the words of some errors."""

_ERROR_MEMBERS: Final = ("error", "message", "stderr", "output", "content", "text")

_BARE: Final = re.compile(
    r"(?:error|stderr|output|exit (?:code|status)[: ]*-?\d*|command failed.{0,40})[:.]?"
    r"|(?:chunk id: \w+|wall time: [\d.]+ seconds|process exited with code -?\d+)"  # Codex
    r"|original token count: \d+|\W+",
    re.IGNORECASE,
)
"""A line that says that there was an error, and not which."""

MAX_LINE_CHARS: Final = 1_000
"""How much is said of an error in one line."""

_TRACEBACK: Final = "Traceback (most recent call last)"


def name_calls(
    messages: Sequence[RecordedMessage], earlier: Iterable[RecordedMessage] = ()
) -> list[str | None]:
    """Name the call that each message answers: ``Read store.py``; ``None`` if it answers none.

    `earlier` are messages whose calls may be answered, and which the request does not repeat.
    """
    called: dict[str, str] = {}
    found: list[str | None] = []
    for message in (*earlier, *messages):
        for call in message.tool_calls:
            if call.id is not None and (words := describe_call(call.name, call.arguments)):
                called[call.id] = words
        found.append(None if message.tool_call_id is None else called.get(message.tool_call_id))
    return found[len(found) - len(messages) :]


def read_failed_beside(reader: Calls, row: SpanSummary) -> Mapping[str, Sequence[str]] | None:
    """Read the results of failed tools for a call; ``None`` if it is in no run: none is known."""
    conversation = row.columns.conversation
    if conversation is None or row.columns.run is None:
        return None
    return read_failed(reader, conversation, row.seq)


def read_failed(reader: Calls, conversation: int, last_seq: int) -> Mapping[str, Sequence[str]]:
    """Read the beginnings of the results of failed tools, by the ids of their calls.

    They are those of a conversation, up to the results that the call `last_seq` brings.
    """
    found: dict[str, list[str]] = {}
    where = ALL_ROWS.also(
        ask_word("kind", "TOOL"), ask_word("status", "ERROR"), conversation=conversation
    )
    before = min(last_seq + _TOOLS_OF_A_CALL, LAST_SEQ)
    rows = reader.that(where).page(MAX_FAILED, before=before, seconds=FAILED_SECONDS).rows
    for stored in reader.with_bytes(rows):
        tool = decode_call(stored.summary, stored.span)
        if (call_id := tool.text(ToolCallAttributes.TOOL_CALL_ID)) is not None:
            result = tool.text(SpanAttributes.OUTPUT_VALUE) or ""
            found.setdefault(call_id, []).append(result[:_COMPARED_CHARS])
    return found


def find_error(message: RecordedMessage, failed: Mapping[str, Sequence[str]]) -> str | None:
    """Find the words of the error in a failed tool's result; ``None`` if nothing failed.

    Clients may give an id such as ``call_0`` again and again; then the result has to be the same.
    """
    if message.tool_call_id is None or message.tool_call_id not in failed:
        return None
    text = "\n".join(part.text for part in message.parts if part.kind == "text")
    known = failed[message.tool_call_id]
    is_it = is_strong(message.tool_call_id) or text[:_COMPARED_CHARS] in known
    return read_error(text) if is_it else None


def read_error(text: str | None) -> str:
    r"""Return the words of a failed tool's result, with real line breaks.

    >>> read_error('{"error": "not found\\nin main"}')
    'not found\nin main'
    >>> read_error("<tool_use_error>Read it first.</tool_use_error>")
    'Read it first.'
    """
    text = text or ""
    if text.lstrip()[:1] in {"{", "[", '"'}:
        with contextlib.suppress(ValueError, RecursionError):  # it may be no JSON after all
            text = "\n".join(_list_words(decode_json(text))) or text
    found = _ERROR_TAG.fullmatch(text.strip())
    return text if found is None else found[2].strip()


def summarize_error(text: str | None) -> str | None:
    r"""Return the first line of an error that says what it was; ``None`` if there is none.

    >>> summarize_error("Exit code 1\nFAILED tests/test_store.py::test_total")
    'FAILED tests/test_store.py::test_total'
    >>> summarize_error("Process exited with code 1\nOutput:\n=====\nERROR: test_phase")
    'ERROR: test_phase'
    """
    lines = [line.strip() for line in read_error(text).splitlines() if line.strip()]
    if not lines or text == REDACTED:
        return None
    found = lines[-1] if lines[0].startswith(_TRACEBACK) else None
    found = found or next((line for line in lines if not _BARE.fullmatch(line)), lines[0])
    return cut_end(found, MAX_LINE_CHARS)


def _list_words(value: object) -> list[str]:
    """List the texts of a JSON value that may be words of an error."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [words for item in value for words in _list_words(item)]
    if isinstance(value, dict):
        named = [value[name] for name in _ERROR_MEMBERS if value.get(name)]
        return _list_words(named)
    return []
