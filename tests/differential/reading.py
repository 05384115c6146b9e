"""What the traffic of a call says, read without the codec: the facts that allowances go by."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from codec.apis.responses.route import RESPONSES
from tests.corpus.oracle import expect_outcome, fold_answer, is_stream, parse_json
from tests.corpus.recordings import Recording
from tests.corpus.response_oracle import expect_span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.differential.calls import Call

__all__ = (
    "at",
    "expect_end",
    "find_calls",
    "find_choices",
    "find_objects",
    "find_said",
    "find_usages",
    "in_events",
    "read_by_call",
    "read_response",
)

Json = dict[str, Any]


def in_events(call: Call) -> bool:
    """Whether the answer is an event stream."""
    return call.answer is not None and _is_stream(call.answer)


# Asked by most allowances, of each difference.
_is_stream = cache(is_stream)


def find_objects(call: Call) -> list[Json]:
    """The JSON objects of the answer: one for each event, or the body."""
    return [value for value in _values(call.answer) if isinstance(value, dict)]


@cache
def _values(answer: bytes | None) -> list[Any]:
    if not answer:
        return []
    if not _is_stream(answer):
        return [parse_json(answer)]
    lines = (line for line in answer.splitlines() if line.startswith(b"data:"))
    return [parse_json(line.removeprefix(b"data:")) for line in lines]


def find_choices(call: Call) -> list[Json]:
    """The choices, of every chunk."""
    return _choices(call.answer)


@cache
def _choices(answer: bytes | None) -> list[Json]:
    objects = (value for value in _values(answer) if isinstance(value, dict))
    choices = (choice for value in objects for choice in value.get("choices") or ())
    return [choice for choice in choices if isinstance(choice, dict)]


def find_said(call: Call) -> Iterator[Json]:
    """The deltas of a stream, the messages of a body."""
    return (choice.get("delta") or choice.get("message") or {} for choice in find_choices(call))


def find_calls(call: Call) -> Iterator[Json]:
    """The entries of ``tool_calls``."""
    for said in find_said(call):
        yield from said.get("tool_calls") or ()


def read_by_call(call: Call, of: Callable[[Json], Any]) -> list[list[Any]]:
    """What the entries of ``tool_calls`` say, in order, for each index."""
    by_index: dict[Any, list[Any]] = {}
    for entry in find_calls(call):
        if "index" in entry:
            by_index.setdefault(entry["index"], []).append(of(entry))
    return [*by_index.values()]


def find_usages(call: Call) -> list[Json]:
    """The ``usage`` objects, where OpenAI has them."""
    usages = (value.get("usage") for value in find_objects(call))
    return [usage for usage in usages if isinstance(usage, dict)]


def expect_end(call: Call) -> str:
    """The outcome that its answer tells of."""
    answer = call.answer or b""
    if call.api is RESPONSES:
        return str(_expect_response(answer, call.status)["outcome"])
    return expect_outcome(call.status, answer, fold_answer(answer))


def read_response(call: Call) -> Json:
    """The response object that a call of the Responses API is answered."""
    output = _expect_response(call.answer or b"", call.status)["output.value"]
    return output if isinstance(output, dict) else {}


@cache
def _expect_response(answer: bytes, status: int) -> Json:
    return expect_span(Recording(id="", status=status, body=answer))


def at(value: Any, *path: str) -> Any:
    """A member of a member, ``None`` where there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
