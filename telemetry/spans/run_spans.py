"""Spans of runs: an AGENT for a run, a TOOL for each result, a mark for a call without a session.

They have neither tokens nor cost, because backends sum up those of the calls below
(``docs/contract/conversations.md#spans``). Their texts are already hidden, masked and cut, because
they come from the calls' spans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import (
    OpenInferenceMimeTypeValues,
    OpenInferenceSpanKindValues,
    SpanAttributes,
    ToolCallAttributes,
)
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.trace import Status, StatusCode

from telemetry.attribute_values import strict_json_text
from telemetry.conversations.run import EndedBy, derive_span_id
from telemetry.spans.recorder import DerivedSpan
from telemetry.spans.rules import SpanNaming

if TYPE_CHECKING:
    from collections.abc import Mapping

    from telemetry.conversations.run import Run, WaitingTool

MARKER_NAME: Final = "conversation continued"

AGENT_NAME: Final = "agent"
"""Name of a run whose agent has no name."""

TOOL_NAME: Final = "tool"
"""Name of a tool whose name is hidden."""

_INVOKE: Final = "invoke_agent"
_EXECUTE: Final = "execute_tool"
"""Operations of the GenAI conventions."""

_JSON: Final[str] = OpenInferenceMimeTypeValues.JSON.value
_KIND: Final = SpanAttributes.OPENINFERENCE_SPAN_KIND

_OK: Final = Status(StatusCode.OK)
_UNSET: Final = Status(StatusCode.UNSET)
_ERROR: Final = Status(StatusCode.ERROR)


def build_tool_span(
    run: Run,
    tool: WaitingTool,
    result: str | None,
    *,
    end_ns: int,
    failed: bool | None,
    rule: str | None,
    naming: SpanNaming,
    shows_content: bool = False,
) -> DerivedSpan:
    """Build the span of a tool's call that has its result.

    It lasts from the answer that calls the tool to the request that brings its result: an upper
    bound, as ``metadata.times`` says (C10). Its status is ERROR if the result says so, else OK.

    Args:
        run: the run in which the tool was called.
        tool: the call.
        result: the part of the result that may be shown.
        end_ns: when the request began that brings the result.
        failed: the client says that the tool failed; ``None`` if there is no result.
        rule: the rule that found that the request continues the answer.
        naming: how spans are named.
        shows_content: arguments and result also have the names of the GenAI conventions.
    """
    name, arguments = tool.name or TOOL_NAME, tool.arguments
    is_object = arguments is not None and arguments.lstrip()[:1] == "{"
    attributes: dict[str, Any] = {
        _KIND: OpenInferenceSpanKindValues.TOOL.value,
        gen_ai.GEN_AI_OPERATION_NAME: _EXECUTE,
        gen_ai.GEN_AI_TOOL_NAME: name,
        gen_ai.GEN_AI_TOOL_CALL_ID: tool.shown_id,
        gen_ai.GEN_AI_TOOL_TYPE: "function",
        gen_ai.GEN_AI_CONVERSATION_ID: run.session,
        SpanAttributes.TOOL_NAME: name,
        ToolCallAttributes.TOOL_CALL_ID: tool.shown_id,
        SpanAttributes.SESSION_ID: run.session,
        SpanAttributes.USER_ID: run.user,
        SpanAttributes.METADATA: _write({"inferred": True, "times": "between_calls", "rule": rule}),
        SpanAttributes.TOOL_PARAMETERS: arguments if is_object else None,
        SpanAttributes.INPUT_VALUE: arguments,
        SpanAttributes.INPUT_MIME_TYPE: _JSON if is_object else None,
        SpanAttributes.OUTPUT_VALUE: result,
    }
    if shows_content:
        attributes[gen_ai.GEN_AI_TOOL_CALL_ARGUMENTS] = arguments
        attributes[gen_ai.GEN_AI_TOOL_CALL_RESULT] = result
    return DerivedSpan(
        name=name if naming is SpanNaming.OPENINFERENCE else f"{_EXECUTE} {name}",
        trace_id=run.trace_id,
        span_id=tool.span_id,
        parent_span_id=run.agent_id,
        start_ns=tool.start_ns,
        end_ns=max(tool.start_ns, end_ns),
        attributes=attributes,
        status=_UNSET if failed is None else _ERROR if failed else _OK,
    )


def build_agent_span(
    run: Run, ended_by: str, *, naming: SpanNaming, usage: Mapping[str, Any] | None = None
) -> DerivedSpan:
    """Build the span of a run that is over.

    Its status is that of its last answer, and unset if the run has no proper end.

    Args:
        run: the run after its last call.
        ended_by: why it is over (:class:`telemetry.conversations.run.EndedBy`).
        naming: how spans are named.
        usage: how its calls used their tokens, for the metadata.
    """
    metadata = {
        "inferred": True,
        "run": run.number,
        "calls": run.calls,
        "tools": run.tool_calls,
        "tool_calls_unanswered": len(run.tools) or None,
        "ended_by": ended_by,
        "usage": usage or None,
    }
    name = run.agent_name
    operation = AGENT_NAME if naming is SpanNaming.OPENINFERENCE else _INVOKE
    return DerivedSpan(
        name=f"{operation} {name}" if name else operation,
        trace_id=run.trace_id,
        span_id=run.agent_id,
        parent_span_id=run.parent_span_id,
        start_ns=run.start_ns,
        end_ns=max(run.start_ns, run.end_ns),
        attributes={
            _KIND: OpenInferenceSpanKindValues.AGENT.value,
            gen_ai.GEN_AI_OPERATION_NAME: _INVOKE,
            gen_ai.GEN_AI_AGENT_NAME: name,
            gen_ai.GEN_AI_CONVERSATION_ID: run.session,
            SpanAttributes.AGENT_NAME: name,
            SpanAttributes.SESSION_ID: run.session,
            SpanAttributes.USER_ID: run.user,
            SpanAttributes.METADATA: _write(metadata),
            SpanAttributes.INPUT_VALUE: run.asked,
            SpanAttributes.OUTPUT_VALUE: run.answered,
        },
        status=_ERROR if run.failed else _OK if ended_by == EndedBy.ANSWER else _UNSET,
    )


def build_marker_span(trace_id: str, span_id: str, at_ns: int, session: str) -> DerivedSpan:
    """Build the span that adds a call's trace to a session afterwards (C12).

    It is the last nanosecond of the call: Jaeger warns of a span without length, and of one that
    its parent does not cover.
    """
    return DerivedSpan(
        name=MARKER_NAME,
        trace_id=trace_id,
        span_id=derive_span_id(span_id, "continued"),
        parent_span_id=span_id,
        start_ns=at_ns - 1,
        end_ns=at_ns,
        attributes={
            _KIND: OpenInferenceSpanKindValues.CHAIN.value,
            gen_ai.GEN_AI_CONVERSATION_ID: session,
            SpanAttributes.SESSION_ID: session,
            SpanAttributes.METADATA: _write({"inferred": True}),
        },
        status=_OK,
    )


def _write(members: dict[str, Any]) -> str | None:
    return strict_json_text({name: v for name, v in members.items() if v is not None})
