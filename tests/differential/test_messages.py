"""The proxy's span of a message says what the client's own instrumentation says.

The real ``anthropic`` SDK with OpenInference's real instrumentation makes the recorded calls,
through the proxy: each leaves two spans. Every difference has a reason in :data:`ALLOWED`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.corpus.oracle import parse_json
from tests.corpus.recordings import NEEDS_RECORDINGS, load_all, load_messages
from tests.differential.comparison import ABSENT, Difference, find_differences
from tests.differential.message_stage import MessagePair, run_message_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.spans.otlp.encoding import DecodedSpan

pytestmark = [*NEEDS_RECORDINGS, pytest.mark.timeout(240)]

CALLS = 399
"""Those that this SDK can make: not those of Vertex AI, nor those to a gateway's path."""

REQUIRED = {"model", "messages", "max_tokens"}
ODD = ("several_responses", '"mcp_tool')
"""Calls of which much is allowed to differ."""

MAX_FAULTS = 40
"""That are shown."""

OUR_PARTS = {"text", "image", "document", "reasoning", "tool_use"}
_PART = re.compile(r"(llm\.(?:in|out)put_messages\.\d+\.message\.contents)\.(\d+)\.(.*)")
_AS_JSON = re.compile(r".*(tool_call\.function\.arguments|message\.content)")


@dataclass(frozen=True)
class Allowance:
    """Why a difference may be.

    Attributes:
        name: what one side does and the other does not.
        source: where that is written.
        paths: of the differences, as a pattern.
        applies: further, what must hold.
    """

    name: str
    source: str
    paths: str
    applies: Callable[[MessagePair, Difference], bool] = lambda *_: True

    def explains(self, pair: MessagePair, difference: Difference) -> bool:
        """Whether it is the reason."""
        found = re.fullmatch(self.paths, difference.path)
        return found is not None and self.applies(pair, difference)


def _is_extra(_: MessagePair, difference: Difference) -> bool:
    return difference.theirs is ABSENT


def _is_null(_: MessagePair, difference: Difference) -> bool:
    return difference.theirs is None and difference.ours is ABSENT


def _failed(pair: MessagePair, _: Difference) -> bool:
    return pair.ours.status == "ERROR"


def _has(*words: str) -> Callable[[MessagePair, Difference], bool]:
    return lambda pair, _: any(word in str(pair.ours.attributes) for word in words)


def _was_cut(pair: MessagePair, _: Difference) -> bool:
    return pair.ours.attributes.get("llm.finish_reason") == "max_tokens"


def _has_two_messages(pair: MessagePair, _: Difference) -> bool:
    return "several_responses" in str(pair.ours.attributes.get("metadata"))


ALLOWED = (
    Allowance("the SDK's method is not on the wire", "apis.md section 11", "name"),
    Allowance("its parameters for the SDK alone", "apis.md 3.1", r".*/(timeout|extra_body)"),
    Allowance("what it puts aside with them", "apis.md 3.1", r"input\.value/.*", _is_extra),
    Allowance("it takes out the model and the form", "apis.md 3.1",
              r"llm\.invocation_parameters/(model|output_format)", _is_extra),
    Allowance("its classes have members that did not come", "span-contract.md 1.5",
              r"output\.value/.*", _is_null),
    Allowance("its classes leave out members", "span-contract.md 1.5",
              r"output\.value/(context_management|usage/iterations)", _is_extra),
    Allowance("it has metadata of its own", "span-contract.md 1.8", "metadata"),
    Allowance("names of models that are the same", "span-contract.md 1.1",
              r"llm\.(request|response)\.model_name"),
    Allowance("a tool's name and description", "apis.md 1.4",
              r"llm\.tools\.\d+\.tool\.(name|description)", _is_extra),
    Allowance("zeros and details that it leaves out", "apis.md section 11",
              r"llm\.token_count\.\w+_details\.\w+", _is_extra),
    Allowance("OpenTelemetry's words", "span-contract.md 7.1",
              r"(gen_ai|openai|server|http)\..*|error\.type", _is_extra),
    Allowance("Claude Code's session", "apis.md 1.6", r"session\.id", _is_extra),
    Allowance("the first chunk", "span-contract.md 2.2", "events/First Token Stream Event"),
    Allowance("the words of an exception", "span-contract.md 2.1",
              r"exception/.*|status description", _failed),
    Allowance("documents", "apis.md 3.1", r".*\.message_content\.(document\..*|type)", _is_extra),
    Allowance("a document as text", "apis.md 3.1", r"llm\.input_messages\..*message_content\.text",
              lambda _, difference: difference.ours is ABSENT),
    Allowance("empty text", "apis.md 3.3", r"llm\.output_messages\..*message_content\.text",
              lambda _, difference: difference.theirs == ""),
    Allowance("it hides base64 in results", "apis.md 1.3", r"llm\.input_messages\..*\.content",
              lambda _, difference: "__REDACTED__" in str(difference.theirs)),
    Allowance("results of MCP servers are messages", "apis.md 3.1", r"llm\.input_messages\..*",
              _has('"mcp_tool_result"')),
    Allowance("events without a name", "apis.md 1.3", r"(llm|output)\..*",
              lambda pair, _: "output.value" not in pair.theirs.attributes),
    Allowance("another model goes on", "apis.md 3.2", r"output\.value/model|llm\..*model_name",
              _has('"fallback"')),
    Allowance("half of the arguments of a call that was cut", "apis.md 3.2",
              r"output\.value/content/\d+/input|.*function\.arguments", _was_cut),
    Allowance("arguments for an MCP server's tool", "apis.md 3.2",
              r"output\.value/content/\d+/input/.*|.*function\.arguments", _has('"mcp_tool_use"')),
    Allowance("a second message in a stream", "apis.md section 0, 8", r"(llm|output)\..*",
              _has_two_messages),
)  # fmt: skip


@pytest.fixture(scope="module", name="pairs")
def _pairs() -> list[MessagePair]:
    recordings = [
        one
        for one in load_all(load_messages)
        if one.target.startswith(b"/v1/messages") and parse_json(one.request).keys() >= REQUIRED
    ]
    return [
        replace(pair, theirs=_normalise(pair.theirs), ours=_normalise(pair.ours))
        for pair in run_message_calls(recordings)
    ]


def _normalise(span: DecodedSpan) -> DecodedSpan:
    """Without parts that we do not write (``apis.md`` 3.1), and JSON without its white space."""
    shown: dict[str, Any] = {}
    places: dict[str, dict[str, int]] = defaultdict(dict)
    types = {key: value for key, value in span.attributes.items() if key.endswith("content.type")}
    for key, value in sorted(span.attributes.items(), key=_by_place):
        named = key
        if found := _PART.fullmatch(key):
            before, place, rest = found.groups()
            if types.get(f"{before}.{place}.message_content.type") not in OUR_PARTS:
                continue
            known = places[before]
            named = f"{before}.{known.setdefault(place, len(known))}.{rest}"
        decoded = parse_json(value) if isinstance(value, str) and _AS_JSON.fullmatch(key) else None
        shown[named] = value if decoded is None else str(decoded)
    return replace(span, attributes=shown)


def _by_place(pair: tuple[str, Any]) -> tuple[str, int]:
    found = _PART.fullmatch(pair[0])
    return (found[1], int(found[2])) if found else (pair[0], 0)


def _explain(pair: MessagePair, difference: Difference) -> list[str]:
    return [one.name for one in ALLOWED if one.explains(pair, difference)]


def _find_faults(pairs: list[MessagePair]) -> list[str]:
    return [
        f"{pair.id}: {one.path}: {str(one.theirs)[:200]!r} is here {str(one.ours)[:200]!r}"
        for pair in pairs
        for one in find_differences(pair.theirs, pair.ours)
        if not _explain(pair, one)
    ]


def test_a_recorded_call_has_the_span_of_the_instrumentation(pairs: list[MessagePair]) -> None:
    """All recordings that the SDK can make, streamed or not."""
    assert _find_faults(pairs)[:MAX_FAULTS] == []
    assert len(pairs) >= CALLS
    assert {pair.ours.status for pair in pairs} == {"OK", "ERROR"}


def test_every_allowance_is_needed(pairs: list[MessagePair]) -> None:
    """Some difference has no other reason, or the list is too long."""
    needed = {
        names[0]
        for pair in pairs
        for difference in find_differences(pair.theirs, pair.ours)
        if len(names := _explain(pair, difference)) == 1
    }
    assert {one.name for one in ALLOWED} == needed


def test_nothing_may_be_missing_or_another(pairs: list[MessagePair]) -> None:
    """Whatever the instrumentation says is looked for: without it, or changed, it is a fault."""
    samples = [
        pair
        for pair in pairs
        if pair.ours.status == "OK"
        and "output.value" in pair.theirs.attributes
        and not any(word in str(pair.ours.attributes) for word in ODD)
    ]
    tried = 0
    for pair in samples[::25]:
        for key in pair.theirs.attributes.keys() & pair.ours.attributes.keys():
            if key == "metadata" or key.endswith("model_name"):
                continue
            changed = replace(pair.ours, attributes=dict(pair.ours.attributes) | {key: "another"})
            assert _find_faults([replace(pair, ours=changed)]), (pair.id, key)
            tried += 1
    assert tried > 200
