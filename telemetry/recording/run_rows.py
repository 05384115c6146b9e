"""Rows of spans that are derived from calls: AGENT, TOOL, and the marker of a first call.

``docs/contract/conversations.md#spans`` has what backends rely on. What a call brings is committed
with it, and so is what changed of open runs: no kill separates them (R8). These rows never
hold what is hidden on the call's span (:mod:`telemetry.spans.run_texts`).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from telemetry.attribute_values import clean_text
from telemetry.conversations.keys import MAX_ID_CHARS
from telemetry.conversations.run import (
    MAX_ARGUMENT_CHARS,
    MAX_TEXT_CHARS,
    MAX_TOOL_NAME_CHARS,
    MAX_TOOLS,
    EndedBy,
    WaitingTool,
    derive_span_id,
)
from telemetry.conversations.runs import EndedRun
from telemetry.facts import CallColumns
from telemetry.observing.client_headers import SUBAGENT_MEMBER
from telemetry.recording.span_row import make_derived_row
from telemetry.spans.call_words import describe_call
from telemetry.spans.columns import MAX_TOOLS_CHARS, fold_text
from telemetry.spans.run_spans import build_agent_span, build_marker_span, build_tool_span
from telemetry.spans.run_texts import list_shown_calls, read_attributes, show_result
from telemetry.spans.size_limits import cut_text
from telemetry.spans.text_tools import find_final_answer, show_code_call
from telemetry.spans.value_texts import find_answer_text, find_asked_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codec.parts import ToolCall
    from telemetry.conversation_position import ConversationPosition
    from telemetry.conversations.conversations import Followed
    from telemetry.conversations.run import Run
    from telemetry.conversations.runs import Runs, RunStep
    from telemetry.observing.exchange import Exchange
    from telemetry.spans.otlp.writer import FinishedSpan
    from telemetry.spans.recorder import DerivedSpan, SpanRecorder
    from telemetry.spans.rules import SpanRules
    from telemetry.store.rows import SpanRow

MAX_NAME_CHARS: Final = 64
"""The longest name of an agent, which is part of its span's name: a word such as ``review``."""


class Derived(NamedTuple):
    """What a call brings besides its own row.

    Attributes:
        rows: the rows of other spans.
        open_runs: the runs that changed, by number, as the store keeps them; ``None`` for a run
            that is over.
    """

    rows: tuple[SpanRow, ...] = ()
    open_runs: Mapping[int, bytes | None] = {}


NOTHING: Final = Derived()


class RunRows:
    """Makes the rows of runs.

    Args:
        runs: the open runs.
        recorder: makes the spans.
        rules: what the settings say about every span.
    """

    def __init__(self, runs: Runs, recorder: SpanRecorder, rules: SpanRules) -> None:
        self._runs = runs
        self._recorder = recorder
        self._rules = rules

    def add_usage(self, run: Run, followed: Followed, exchange: Exchange) -> ConversationPosition:
        """Add a call to the usage of its run; return its position with what that says."""
        position = followed.position
        shows_names = self._shows_names(exchange)
        usage = self._runs.use(run, exchange, followed.request, shows_names=shows_names)
        return replace(position, usage=usage) if usage else position

    def _shows_names(self, exchange: Exchange) -> bool:
        """Tell whether the names of the tools that an answer calls may be shown as they are."""
        mask, said = self._rules.mask(exchange), exchange.response
        if not mask.hides_nothing or said is None:
            return False
        names = "\n".join([call.name or "" for call in said.tool_calls])
        return mask.text(names) == names  # a model may write a credential anywhere

    def derive(
        self, followed: Followed, exchange: Exchange, span: FinishedSpan, row: SpanRow
    ) -> Derived:
        """Make the rows that a call brings, and note in its run what the call said.

        Args:
            followed: what is known of the call.
            exchange: the call, with its position.
            span: the call's span.
            row: the row of that span. The other rows are recorded at the same time.
        """
        step, now_ns = followed.step, row.recorded_ns
        rows: list[SpanRow] = []
        changed: dict[int, bytes | None] = {}
        if step.parent is not None and (above := self._runs.find(step.parent[0].number)):
            changed[above.number] = self._runs.save(above, keeps=True)  # its tool has a sub-agent
        if step.answered_in is not None and step.results:
            rows += self._make_tool_rows(step, exchange, span, now_ns)
        if step.run is not None:
            self._note(followed, exchange, span, row.columns)
        ended = [*step.ended]
        if step.run is not None and step.is_last and not self._runs.is_held(step.run):
            ended.append(EndedRun(step.run, EndedBy.ANSWER))
        elif step.run is not None:
            if step.is_last:
                step.run.ended_by = EndedBy.ANSWER
            changed[step.run.number] = self._runs.save(step.run, keeps=followed.keeps)
        others = (
            step.attached if step.answered_in is step.run else (step.answered_in, *step.attached)
        )
        for run in others:
            if run is not None:  # a helper call brought results, or they named a sub-agent
                changed[run.number] = self._runs.save(run, keeps=True)
        if ended:
            ended += self._runs.release(ended)
        rows += self._make_agent_rows(ended, now_ns)
        for run, by in ended:
            self._runs.end(run, by)
            if (above := self._runs.find(run.parent_run)) is not None:  # it did not rest until now
                changed[above.number] = self._runs.save(above, keeps=True)
        changed |= {run.number: None for run, _ in ended}
        unmarked, session = followed.unmarked, row.columns.session
        if unmarked is not None and session is not None:
            marker = self._recorder.derive(build_marker_span(*unmarked, session))
            columns = CallColumns(
                kind="MARKER",
                parent_span_id=unmarked.span_id,
                conversation=row.columns.conversation,
                session=session,
            )
            rows.append(make_derived_row(marker, columns, exchange.launch, now_ns))
        return Derived(tuple(rows), changed)

    def end(self, ended: EndedRun, now_ns: int) -> Derived:
        """Make the row of a run that rested too long, or that is one too many.

        The run is over even if this fails.
        """
        if self._runs.find(ended.run.number) is not ended.run:
            return NOTHING  # it was over with the run above it
        over = [ended, *self._runs.release([ended])]
        try:
            rows = self._make_agent_rows(over, now_ns)
        finally:
            for run, by in over:
                self._runs.end(run, by)
        return Derived(tuple(rows), {run.number: None for run, _ in over})

    def _make_tool_rows(
        self, step: RunStep, exchange: Exchange, span: FinishedSpan, now_ns: int
    ) -> list[SpanRow]:
        """Make the rows of the tool calls whose results a call brings."""
        run, mask = step.answered_in, span.mask
        if run is None or mask is None:
            raise TypeError("no recorder made this span")
        position = exchange.position
        rule = None if position is None else position.rule
        rows = [
            self._make_tool_row(
                run,
                build_tool_span(
                    run,
                    tool,
                    show_result(result, mask),
                    end_ns=exchange.start_ns,
                    failed=result.is_error,
                    rule=rule,
                    naming=self._rules.naming,
                    shows_content=self._rules.shows_genai_content,
                ),
                tool,
                now_ns,
            )
            for tool, result in step.results
        ]
        answered = {tool.span_id for tool, _ in step.results}
        run.tools = [tool for tool in run.tools if tool.span_id not in answered]
        run.tool_calls += len(answered)
        return rows

    def _make_tool_row(
        self, run: Run, derived: DerivedSpan, tool: WaitingTool, now_ns: int
    ) -> SpanRow:
        columns = CallColumns(
            kind="TOOL",
            parent_span_id=run.agent_id,
            conversation=run.conversation,
            run=run.number,
            turn=run.turn,
            client=run.client,
            session=run.session,
            user=run.user,
            tools=None if tool.name is None else _fit_name(tool.name),
            step=describe_call(tool.name, tool.arguments),
        )
        return make_derived_row(self._recorder.derive(derived), columns, run.launch, now_ns)

    def _make_left_rows(self, run: Run, now_ns: int) -> Iterator[SpanRow]:
        """Yield the rows of tool calls without a result that have a sub-agent below them."""
        for tool in run.tools:
            if tool.has_agent:
                derived = build_tool_span(
                    run,
                    tool,
                    None,
                    end_ns=run.end_ns,
                    failed=None,
                    rule=None,
                    naming=self._rules.naming,
                )
                yield self._make_tool_row(run, derived, tool, now_ns)

    def _make_agent_rows(self, ended: Iterable[EndedRun], now_ns: int) -> list[SpanRow]:
        rows: list[SpanRow] = []
        for run, by in ended:
            rows += self._make_left_rows(run, now_ns)
            usage = self._runs.summarise_usage(run)
            derived = build_agent_span(run, by, naming=self._rules.naming, usage=usage)
            made = self._recorder.derive(derived)
            columns = CallColumns(
                kind="AGENT",
                parent_span_id=run.parent_span_id,
                conversation=run.conversation,
                run=run.number,
                turn=run.turn,
                finish_reason=by,
                client=run.client,
                session=run.session,
                user=run.user,
                tool_calls=run.tool_calls,
                preview=None if run.asked is None else fold_text(run.asked),
            )
            rows.append(make_derived_row(made, columns, run.launch, now_ns))
        return rows

    def _note(
        self, followed: Followed, exchange: Exchange, span: FinishedSpan, columns: CallColumns
    ) -> None:
        """Note what a call of a run said, and which tools its answer calls."""
        step, request = followed.step, followed.request
        run = step.run
        if run is None:
            return
        get = read_attributes(span)
        run.calls += 1
        run.end_ns = max(run.end_ns, exchange.end_ns)
        run.failed = exchange.error_type is not None
        if run.calls == 1:
            run.session, run.user, run.client = columns.session, columns.user, columns.client
            run.agent_name = _find_agent_name(exchange, span)
            asked = find_asked_text(exchange, span.messages, get)
            run.asked = _cut(asked, MAX_TEXT_CHARS)
        said = exchange.response
        answered = None if said is None else find_answer_text(said.answers, get)
        if step.is_last and said is not None and said.tool_calls:  # by a tool
            run.answered = find_final_answer(said, get)
        elif step.is_last:  # the whole text on the call's span; none if that is hidden
            run.answered = answered
        elif answered is not None:
            run.answered = _cut(answered, MAX_TEXT_CHARS)
        room = max(0, MAX_TOOLS - len(run.tools))
        tools = [*islice(_list_tools(step, exchange, span), room)] if step.calls else []
        run.tools += [tool for tool, _ in tools]
        messages = exchange.read_messages() if request is None else request.parsed
        has_text_tools = request is not None and request.has_text_tools
        self._runs.hold(
            run, followed.caller, tools, messages, step=step, has_text_tools=has_text_tools
        )


def _list_tools(
    step: RunStep, exchange: Exchange, span: FinishedSpan
) -> Iterator[tuple[WaitingTool, ToolCall]]:
    """Yield the tool calls of an answer, each as it waits and as it came."""
    said, span_id = exchange.response, exchange.identity.span_id
    if said is None:
        return
    get = read_attributes(span)
    shown = (
        list_shown_calls(said, get) if said.tool_calls else show_code_call(step.calls, said, get)
    )
    for index, one in enumerate(shown):
        if one.call.is_clients:
            tool = WaitingTool(
                span_id=derive_span_id(span_id, f"tool {index}"),
                call_id=_fit_id(one.call.id),
                name=None if one.name is None else one.name[:MAX_TOOL_NAME_CHARS],
                arguments=_cut(one.arguments, MAX_ARGUMENT_CHARS),
                start_ns=exchange.end_ns,
                shown_id=_fit_id(one.id),
                shows_name=one.name is not None
                and one.name == one.call.name
                and len(one.name) <= MAX_TOOL_NAME_CHARS,
                shows_arguments=one.arguments == one.call.arguments
                and len(one.call.arguments) < MAX_ARGUMENT_CHARS,
            )
            yield tool, one.call


def _fit_id(call_id: str | None) -> str | None:
    return None if call_id is None else call_id[:MAX_ID_CHARS]


def _cut(text: str | None, most_chars: int) -> str | None:
    return None if text is None else cut_text(text, most_chars)


def _find_agent_name(exchange: Exchange, span: FinishedSpan) -> str | None:
    """Find the client's name for the agent, as it may be shown."""
    name = exchange.context.metadata.get(SUBAGENT_MEMBER)
    if not isinstance(name, str) or span.mask is None:
        return None
    return span.mask.text(clean_text(name))[:MAX_NAME_CHARS] or None


def _fit_name(name: str) -> str:
    return " ".join(name.split())[:MAX_TOOLS_CHARS]
