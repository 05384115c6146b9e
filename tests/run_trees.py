"""Trees of runs: what an agent did by its own word, and what spans tell of it, in one form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from codec.text.jsontext import decode_json
from telemetry.reading.stored_calls import open_calls
from telemetry.spans.otlp.decoding import decode_spans
from tests.e2e.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

__all__ = (
    "Node",
    "SeenSpan",
    "build_trees",
    "read_arguments",
    "read_printed",
    "read_seen_spans",
    "read_trees",
    "tell_answer",
    "tell_id",
)

_MAX_SPANS = 10_000
_SECONDS = 10.0
_OF_ANSWER = r"llm\.output_messages\.\d+\.message\."
_TEXT = re.compile(_OF_ANSWER + r"content(s\.\d+\.message_content\.text)?")
_CALLED = re.compile(_OF_ANSWER + r"tool_calls\.\d+\.tool_call\.function\.name")


class Node(NamedTuple):
    """A span, or what it is to tell of, with all that is below it.

    Attributes:
        kind: ``AGENT``, ``LLM`` or ``TOOL``.
        told: of a run the question and the answer, of a call the answer's id or what it says, of
            a tool its name, arguments and result.
        below: calls in their order, then the rest in that of what they tell.
    """

    kind: str
    told: tuple[Any, ...]
    below: tuple[Any, ...] = ()

    @staticmethod
    def of_run(asked: str | None, answered: str | None, *below: Node) -> Node:
        """A run."""
        return Node("AGENT", (asked, answered), _arrange(below))

    @staticmethod
    def of_call(answer_id: object) -> Node:
        """A call."""
        return Node("LLM", (answer_id,))

    @staticmethod
    def of_tool(name: str, arguments: Any, result: str | None, *below: Node) -> Node:
        """A tool that was called; arguments are those that JSON tells."""
        return Node("TOOL", (name, arguments, result), _arrange(below))

    @property
    def size(self) -> int:
        """How many there are, this one and all below it."""
        size: int = 1 + sum([node.size for node in self.below])
        return size


def read_printed(printed: Any) -> Node:
    """What a program printed as a list of kind, what is told, and what is below."""
    kind, told, below = printed
    return Node(kind, tuple(told), _arrange(map(read_printed, below)))


def _arrange(nodes: Iterable[Node]) -> tuple[Any, ...]:
    """Calls stay in their order; tools are run at once."""
    given = [*nodes]
    others = [node for node in given if node.kind != "LLM"]
    return (*(node for node in given if node.kind == "LLM"), *sorted(others, key=repr))


class SeenSpan(NamedTuple):
    """A span as some reader has it.

    Attributes:
        attributes: by their names.
        status: ``UNSET``, ``OK`` or ``ERROR``, if the reader has it.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    start_ns: int
    attributes: Mapping[str, Any]
    status: str = "UNSET"

    @property
    def kind(self) -> str:
        """OpenInference's."""
        return str(self.attributes["openinference.span.kind"])


def tell_id(span: SeenSpan) -> tuple[Any, ...]:
    """Of a call: the answer's id."""
    return (span.attributes.get("gen_ai.response.id"),)


def tell_answer(span: SeenSpan) -> tuple[Any, ...]:
    """Of a call: the text of the answer, and the names of the tools that it calls."""
    texts, names = [], []
    for name, value in span.attributes.items():
        if _TEXT.fullmatch(name):
            texts.append(value)
        elif _CALLED.fullmatch(name):
            names.append(value)
    return "".join(texts), names


def read_arguments(text: str) -> Any:
    """The arguments of a call: what JSON says, or the text of a tool that takes free text."""
    try:
        return decode_json(text)
    except ValueError:
        return text


def build_trees(
    spans: Sequence[SeenSpan], tell_call: Callable[[SeenSpan], tuple[Any, ...]] = tell_id
) -> list[Node]:
    """Build the tree below each root, oldest first; each span is below one of its own trace.

    Args:
        spans: of any number of traces.
        tell_call: what a call's span is to tell.
    """
    traces = {span.span_id: span.trace_id for span in spans}
    assert len(traces) == len(spans), "a span is there twice"
    below: dict[str | None, list[SeenSpan]] = {}
    for span in sorted(spans, key=lambda one: one.start_ns):
        if span.parent_id is not None:
            assert traces.get(span.parent_id) == span.trace_id, f"the parent of {span} is absent"
        below.setdefault(span.parent_id, []).append(span)

    def build(span: SeenSpan) -> Node:
        children = map(build, below.get(span.span_id, ()))
        told = tell_call(span) if span.kind == "LLM" else _tell(span)
        return Node(span.kind, told, _arrange(children))

    return [build(root) for root in below.get(None, ())]


def _tell(span: SeenSpan) -> tuple[Any, ...]:
    get = span.attributes.get
    match span.kind:
        case "AGENT":
            return get("input.value"), get("output.value")
        case "TOOL":
            arguments = get("input.value")
            if isinstance(arguments, str):
                arguments = read_arguments(arguments)
            return get("tool.name"), arguments, get("output.value")
        case _:
            return ()


def read_seen_spans(store: Path) -> list[SeenSpan]:
    """All spans of a store."""
    with open_calls(store).all_rows() as reader:
        stored = [decode_spans(one.span)[0] for one in reader.newest(_MAX_SPANS)]
    return [
        SeenSpan(
            one.trace_id,
            one.span_id,
            one.parent_span_id,
            one.start_ns,
            one.attributes,
            one.status,
        )
        for one in stored
    ]


def read_trees(
    store: Path, count: int, tell_call: Callable[[SeenSpan], tuple[Any, ...]] = tell_id
) -> list[Node]:
    """The trees of a store, once they are of so many spans."""
    wait_until(lambda: len(read_seen_spans(store)) >= count, _SECONDS, f"{count} spans are stored")
    return build_trees(read_seen_spans(store), tell_call)
