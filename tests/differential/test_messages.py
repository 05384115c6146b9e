"""The proxy's span of a message says what the client's own instrumentation says.

The real ``anthropic`` SDK with OpenInference's real instrumentation makes the recorded calls,
through the proxy: each leaves two spans. Every difference has a reason in :data:`ALLOWED`.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anthropic
import pytest
from openinference.instrumentation.anthropic import AnthropicInstrumentor

from tests.corpus.oracle import parse_json
from tests.corpus.recordings import NEEDS_RECORDINGS, load_all, load_messages
from tests.differential.comparison import ABSENT
from tests.differential.recorded import (
    OF_MODELS,
    Allowed,
    RecordedPair,
    count_noticed,
    find_faults,
    find_needed,
    is_extra,
    is_null,
)
from tests.differential.sdk_stage import Sdk, run_recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.spans.otlp.decoding import DecodedSpan
    from tests.corpus.recordings import Recording
    from tests.differential.comparison import Difference

pytestmark = [*NEEDS_RECORDINGS, pytest.mark.timeout(240)]

CALLS = 399
"""Those that this SDK can make: not those of Vertex AI, nor those to a gateway's path."""

REQUIRED = {"model", "messages", "max_tokens"}
ODD = ("several_responses", '"mcp_tool')
"""Calls of which much is allowed to differ."""

OUR_PARTS = {"text", "image", "document", "reasoning", "tool_use"}
_PART = re.compile(r"(llm\.(?:in|out)put_messages\.\d+\.message\.contents)\.(\d+)\.(.*)")
_AS_JSON = re.compile(r".*(tool_call\.function\.arguments|message\.content)")


def _has(*words: str) -> Callable[[RecordedPair, Difference], bool]:
    return lambda pair, _: any(word in str(pair.ours.attributes) for word in words)


def _was_cut(pair: RecordedPair, _: Difference) -> bool:
    return pair.ours.attributes.get("llm.finish_reason") == "max_tokens"


def _has_two_messages(pair: RecordedPair, _: Difference) -> bool:
    return "several_responses" in str(pair.ours.attributes.get("metadata"))


ALLOWED = (
    *OF_MODELS,
    Allowed("the SDK's method is not on the wire", "docs/contract/apis.md#differences", "name"),
    Allowed("its parameters for the SDK alone", "docs/contract/apis.md#messages-request",
            r".*/(timeout|extra_body)"),
    Allowed("what it puts aside with them", "docs/contract/apis.md#messages-request",
            r"input\.value/.*", is_extra),
    Allowed("it takes out the model and the form", "docs/contract/apis.md#messages-request",
              r"llm\.invocation_parameters/(model|output_format)", is_extra),
    Allowed("its classes have members that did not come",
            "docs/contract/spans.md#accumulated-object", r"output\.value/.*", is_null),
    Allowed("its classes leave out members", "docs/contract/spans.md#accumulated-object",
              r"output\.value/(context_management|usage/iterations)", is_extra),
    Allowed("names of models that are the same", "docs/contract/spans.md#model-name",
              r"llm\.(request|response)\.model_name"),
    Allowed("zeros and details that it leaves out", "docs/contract/apis.md#differences",
              r"llm\.token_count\.\w+_details\.\w+", is_extra),
    Allowed("Claude Code's session", "docs/contract/apis.md#claude-code", r"session\.id", is_extra),
    Allowed("documents", "docs/contract/apis.md#messages-request",
            r".*\.message_content\.(document\..*|type)", is_extra),
    Allowed("a document as text", "docs/contract/apis.md#messages-request",
            r"llm\.input_messages\..*message_content\.text",
              lambda _, difference: difference.ours is ABSENT),
    Allowed("empty text", "docs/contract/apis.md#messages-answer",
            r"llm\.output_messages\..*message_content\.text",
              lambda _, difference: difference.theirs == ""),
    Allowed("it hides base64 in results", "docs/contract/apis.md#long-base64",
            r"llm\.input_messages\..*\.content",
              lambda _, difference: "__REDACTED__" in str(difference.theirs)),
    Allowed("results of MCP servers are messages", "docs/contract/apis.md#messages-request",
            r"llm\.input_messages\..*", _has('"mcp_tool_result"')),
    Allowed("events without a name", "docs/contract/apis.md#framing", r"(llm|output)\..*",
              lambda pair, _: "output.value" not in pair.theirs.attributes),
    Allowed("another model goes on", "docs/contract/apis.md#messages-stream",
            r"output\.value/model|llm\..*model_name", _has('"fallback"')),
    Allowed("half of the arguments of a call that was cut", "docs/contract/apis.md#messages-stream",
              r"output\.value/content/\d+/input|.*function\.arguments", _was_cut),
    Allowed("arguments for an MCP server's tool", "docs/contract/apis.md#messages-stream",
              r"output\.value/content/\d+/input/.*|.*function\.arguments", _has('"mcp_tool_use"')),
    Allowed("compactions are billed, but not in the top-level counts", "docs/apis.md#messages",
              r"llm\.token_count\.(prompt|completion|total)", _has('"compaction"')),
    Allowed("a second message in a stream", "docs/contract/apis.md#several-messages",
            r"(llm|output)\..*", _has_two_messages),
)  # fmt: skip


_PARAMETERS = frozenset(inspect.signature(anthropic.resources.Messages.create).parameters)


def _open_client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key="k",
        base_url=url,
        max_retries=0,
        http_client=anthropic.DefaultHttpxClient(trust_env=False),
    )


def _make(client: anthropic.Anthropic, recording: Recording) -> None:
    asked = parse_json(recording.request)
    known: dict[str, Any] = {name: asked[name] for name in asked if name in _PARAMETERS}
    extra = {name: asked[name] for name in asked if name not in _PARAMETERS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of models that are no more
        answer: Any = client.messages.create(**known, extra_body=extra or None, timeout=60)
        if known.get("stream"):
            for _ in answer:
                pass


SDK = Sdk(
    provider="anthropic",
    instrumentor=AnthropicInstrumentor,
    open_client=_open_client,
    make=_make,
    errors=(anthropic.AnthropicError, ValueError),
)


@pytest.fixture(scope="module", name="pairs")
def _pairs() -> list[RecordedPair]:
    recordings = [
        one
        for one in load_all(load_messages)
        if one.target.startswith(b"/v1/messages") and parse_json(one.request).keys() >= REQUIRED
    ]
    return [
        replace(pair, theirs=_normalise(pair.theirs), ours=_normalise(pair.ours))
        for pair in run_recorded(SDK, recordings)
    ]


def _normalise(span: DecodedSpan) -> DecodedSpan:
    """Without parts that we do not write, and JSON without its white space.

    See ``docs/contract/apis.md#messages-request``.
    """
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


def test_a_recorded_call_has_the_span_of_the_instrumentation(pairs: list[RecordedPair]) -> None:
    """All recordings that the SDK can make, streamed or not."""
    assert find_faults(pairs, ALLOWED) == []
    assert len(pairs) >= CALLS
    assert {pair.ours.status for pair in pairs} == {"OK", "ERROR"}


def test_every_allowance_is_needed(pairs: list[RecordedPair]) -> None:
    """Some difference has no other reason, or the list is too long."""
    assert {one.name for one in ALLOWED} == find_needed(pairs, ALLOWED)


def test_nothing_may_be_missing_or_another(pairs: list[RecordedPair]) -> None:
    """Whatever the instrumentation says is looked for: changed, it is a fault."""
    samples = [
        pair
        for pair in pairs
        if pair.ours.status == "OK"
        and "output.value" in pair.theirs.attributes
        and not any(word in str(pair.ours.attributes) for word in ODD)
    ]
    assert count_noticed(samples[::25], ALLOWED, besides="metadata|.*model_name") > 200
