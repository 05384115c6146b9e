"""Rows of conversations: each call has the history of the one before, and some words more."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from telemetry.facts import CallColumns
from tests.telemetry.span_rows import make_row

if TYPE_CHECKING:
    from telemetry.store.rows import SpanRow

__all__ = ("make_turn", "make_turns", "make_words")

_WORDS = ("the", "store", "keeps", "every", "span", "until", "it", "é「」", "is\nout\n\nthen")


def make_words(dice: random.Random, size: int) -> str:
    """Some `size` characters of a text that has not been before."""
    words = []
    while size > 0:
        words += [dice.choice(_WORDS), f"{dice.randrange(1 << 30):x}"]
        size -= len(words[-1]) + len(words[-2]) + 2
    return " ".join(words)


def make_turn(
    number: int, messages: list[dict[str, str]], *, conversation: int = 1, own: str = ""
) -> SpanRow:
    """The row of a call that continues another, as a span has it: as a body and as attributes.

    `own` is text that no other call has.
    """
    row = make_row(number)
    request = ExportTraceServiceRequest.FromString(row.span)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    body: dict[str, Any] = {"model": "m", "messages": messages, "tools": _TOOLS}
    texts = {"spantap.request.body": json.dumps(body), "own": f"{own} {number}"}
    for at, message in enumerate(messages):
        for key, text in message.items():
            texts[f"llm.input_messages.{at}.message.{key}"] = text
    texts["llm.tools.0.tool.json_schema"] = json.dumps(_TOOLS)
    texts["metadata"] = json.dumps({"number": number})
    for key, text in texts.items():
        span.attributes.add(key=key).value.string_value = text
    columns = CallColumns(conversation=conversation, link_rule="state")
    return replace(row, span=request.SerializeToString(), columns=columns)


_TOOLS = [{"name": f"tool_{number}", "about": "looks for " * 20} for number in range(20)]


def make_turns(
    count: int, turn_bytes: int, *, first: int = 1, conversation: int = 1, start_bytes: int = 20_000
) -> list[SpanRow]:
    """So many calls, which begin with some text and add some each."""
    dice = random.Random(conversation)
    messages = [{"role": "system", "content": make_words(dice, start_bytes)}]
    rows = []
    for number in range(first, first + count):
        messages.append({"role": "user", "content": make_words(dice, turn_bytes)})
        rows.append(make_turn(number, [*messages], conversation=conversation))
    return rows
