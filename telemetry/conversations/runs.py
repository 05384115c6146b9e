"""The open runs: which calls are in one, from a user's message to the answer that calls no tool.

``docs/contract/conversations.md#c8`` and ``#c9`` say when a run begins and ends.
:mod:`telemetry.conversations.sub_agents` finds the tool call whose sub-agent a call is.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

import msgspec
import msgspec.structs

from codec.history_states import Digests
from telemetry.conversations.continuation import Rule
from telemetry.conversations.launches import Launches, find_by_call_id
from telemetry.conversations.run import ENDINGS, EndedBy, Run, derive_span_id
from telemetry.conversations.run_usage import RunUsage
from telemetry.conversations.steps import Step, read_step
from telemetry.conversations.sub_agents import WaitingPrompts
from telemetry.conversations.tool_results import match_results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from codec.parts import Message, ToolCall, ToolResult
    from telemetry.conversations.continuation import Continuation
    from telemetry.conversations.launches import AgentKeys
    from telemetry.conversations.matcher import ComparableRequest
    from telemetry.conversations.run import WaitingTool
    from telemetry.observing.exchange import Exchange

MAX_OPEN_RUNS: Final = 1_000
"""How many runs are open at once: those of an hour, in a service with ten agents at work."""

MAX_HELD_BYTES: Final = 67_108_864
"""The memory of all open runs, their usage included: 64 KiB each if there are a thousand."""

MAX_UNHELD: Final = 64
"""How many runs that are not open keep their usage until the next cleaning, which is rare."""


class EndedRun(NamedTuple):
    """A run that is over, and the reason (:class:`telemetry.conversations.run.EndedBy`)."""

    run: Run
    by: str


class RunStep(NamedTuple):
    """What a call means for runs.

    Attributes:
        run: the run that the call is in; ``None`` for a call outside any run.
        parent: for a sub-agent's first call, the run and the id of the TOOL span above it, or of
            the run's AGENT span if the tool is not known.
        answered_in: the run whose tool calls get results from this call.
        results: these results, each with the tool call that waited for it.
        calls: the tools of the client's that the answer calls.
        ended: runs that are over before this call.
        is_last: the run is over with this call.
        attached: runs of sub-agents whose tool call is known by these results.
        keys: the agents that the call names; ``None`` for most.
        is_held: the run begins, and the tool call above it is not known yet.
    """

    run: Run | None = None
    parent: tuple[Run, str] | None = None
    answered_in: Run | None = None
    results: tuple[tuple[WaitingTool, ToolResult], ...] = ()
    calls: tuple[ToolCall, ...] = ()
    ended: tuple[EndedRun, ...] = ()
    is_last: bool = False
    attached: tuple[Run, ...] = ()
    keys: AgentKeys | None = None
    is_held: bool = False


_BEGINNINGS: Final = frozenset({Rule.NEW, Rule.RETRY, Rule.HEADER, Rule.BODY})
"""The rules of continuations with which a sub-agent may begin."""

NO_STEP: Final = RunStep()

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Run).decode

_CHECKSUM_BYTES: Final = 4


class Runs:
    """The runs that are open. Not safe for concurrent calls.

    Args:
        idle_ns: how long a run rests before it is over.
        steady_ns: nanoseconds since the epoch, by a clock that never steps.

    Attributes:
        ended: how many runs are over, by the reason; any thread may ask.
        launches: the agents of open runs.
    """

    def __init__(self, idle_ns: int, steady_ns: Callable[[], int]) -> None:
        self._digests = Digests(b"")
        self._idle_ns = idle_ns
        self._steady_ns = steady_ns
        self._touched_ns: dict[int, int] = {}
        self._open: OrderedDict[int, Run] = OrderedDict()
        self._bytes: dict[int, int] = {}
        self._usages: dict[int, RunUsage] = {}
        self.ended = dict.fromkeys(ENDINGS, 0)
        self._held_bytes = 0
        self._prompts = WaitingPrompts(Digests(b""))
        self.launches = Launches()
        # Runs of sub-agents whose calls have all failed, by the span ids of their tool calls.
        self._tried: dict[str, Run] = {}

    def __len__(self) -> int:
        """Count the runs that are open."""
        return len(self._open)

    def begin(self, digests: Digests, kept: Mapping[int, bytes]) -> int:
        """Continue the runs that were open when an earlier process ended, the oldest first.

        Args:
            digests: makes the digests of prompts.
            kept: what :meth:`save` wrote, by number. A run that cannot be read is left out, and its
                calls stay without a root.

        Returns:
            How many runs cannot be read.
        """
        self._digests = digests
        self._prompts = WaitingPrompts(digests)
        runs: list[Run] = []
        for number, data in kept.items():
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                if (run := _load(data)).number == number:
                    runs.append(run)
        now_ns = self._steady_ns()
        for run in sorted(runs, key=attrgetter("end_ns")):
            self._keep(run, min(run.end_ns, now_ns))
        for run in runs:
            self._keep_busy(run.parent_run, run.end_ns, min(run.end_ns, now_ns))
        return len(kept) - len(runs)

    def take(
        self,
        exchange: Exchange,
        continuation: Continuation,
        caller: bytes,
        *,
        request: ComparableRequest | None,
        failed: bool,
        keys: AgentKeys | None = None,
        is_aside: bool = False,
    ) -> RunStep:
        """Find the run of a call that has ended.

        A call that continues one of an open run is in that run, unless the user said something new
        or another call continued from there before: then it begins a new run. A failed call
        ends no run, because it is tried again; the first call of a sub-agent begins one for that.

        The caller of this method calls :meth:`end` for each run that is over.

        Args:
            exchange: the call.
            continuation: which call it continues.
            caller: a digest of the caller, the same for all upstreams; empty for an unknown caller,
                whose sub-agents are not found.
            request: the request in the form in which it was compared; ``None`` if it was not.
            failed: the call broke off or has an error.
            keys: the agents that the call names; ``None`` for most.
            is_aside: it is a helper call, which is in no run.
        """
        if not exchange.identity.is_root:  # a client that sends a ``traceparent`` has its own spans
            return NO_STEP
        asked, said = exchange.request, exchange.response
        has_text_tools = request is not None and request.has_text_tools
        called = () if said is None or failed else said.tool_calls
        is_child = keys is not None and keys.ids.is_child
        if not (called or continuation.run is not None or is_child) and not (
            self._prompts or has_text_tools
        ):
            return NO_STEP  # as most calls that are no agent's
        messages = exchange.read_messages() if request is None else request.parsed
        done = Step((), is_last=not failed)
        if asked is not None and said is not None and not failed:
            done = read_step(asked, messages, said, has_text_tools=has_text_tools)
        calls = done.calls
        before = self.find(continuation.run)
        if before is not None and continuation.is_fork:
            # A call that was recorded late came of the same message.
            is_late = keys is not None and self.launches.is_same_prompt(keys, before.number)
            before = before if is_late else None
        ended: list[EndedRun] = []
        if before is not None and (over := self._find_end(before)) is not None:
            ended.append(EndedRun(before, over))
            before = None
        results = () if before is None else _find_results(messages, before, continuation)
        attached: Sequence[Run] = ()
        if before is not None and results:
            self._prompts.answer(before, [tool for tool, _ in results], exchange.start_ns)
            if keys is not None:
                attached = self.launches.note_results(keys, before, results, self._open)
                ended += [EndedRun(one, one.ended_by) for one in attached if one.ended_by]
        if is_aside:
            answered_in = before if results else None
            return RunStep(
                None, None, answered_in, results, (), tuple(ended), attached=(*attached,)
            )
        if keys is not None and before is not None:
            self.launches.note_notices(keys, before.number, messages)
        run, parent, is_held = before, None, False
        if before is not None and continuation.begins_turn:
            ended.append(EndedRun(before, EndedBy.NEW_MESSAGE))
            run = None
        begins = (
            continuation.depth == 1
            and continuation.rule in _BEGINNINGS
            and not continuation.is_ambiguous
        )
        if run is None and keys is not None and is_child:
            run, parent, is_held = self._find_above(
                keys, before, messages, caller, exchange, begins_turn=continuation.begins_turn
            )
        elif run is None and begins:
            parent = self._prompts.find(
                messages, caller, exchange.start_ns, self._open, self._tried, keeps=failed
            )
            if parent is not None:
                self._keep_busy(parent[0].number, exchange.end_ns, self._steady_ns())
                run = self._tried.get(parent[1])  # a sub-agent that tries again
        if run is None and (
            (parent is not None and (failed or is_held))
            or (calls and (results or not _is_forced(exchange)))
        ):
            run = self._begin(exchange, continuation, parent)
        if run is not None and run.parent_span_id is not None and keys is None:
            self._note_try(run, run.parent_span_id, messages, caller, failed=failed)
        is_last = run is not None and done.is_last and not self.launches.is_waiting(run.number)
        return RunStep(
            run,
            parent,
            before,
            results,
            calls,
            tuple(ended),
            is_last,
            attached=(*attached,),
            keys=keys,
            is_held=is_held,
        )

    def _find_end(self, run: Run) -> str | None:
        """Find why an open run is over; ``None`` if it is not."""
        if run.ended_by is None and self._has_rested(run, self._steady_ns()):
            return EndedBy.IDLE
        return run.ended_by

    def _find_above(
        self,
        keys: AgentKeys,
        before: Run | None,
        messages: Sequence[Message],
        caller: bytes,
        exchange: Exchange,
        *,
        begins_turn: bool,
    ) -> tuple[Run | None, tuple[Run, str] | None, bool]:
        """Find what is above a sub-agent that says who it is.

        Returns:
            Its own run, if that is open already, as after a call that failed; else ``None``. The
            run above, and the span id of the tool call, or else of that run's AGENT span. And
            whether the run of the sub-agent is held until the tool call is known.
        """
        own = self.find(self.launches.find_run(keys.own))
        if own is not None and own is not before and not begins_turn and not self._find_end(own):
            return own, None, False
        found, is_held = self.launches.find_tool(keys), False
        if found is None:
            above = self.find(self.launches.find_run(keys.make(keys.ids.parent or "")))
            if above is None:
                return None, None, False
            tool = find_by_call_id(above, keys.ids.agent)
            if tool is not None:
                tool.has_agent = True
                found = (above, tool.span_id)
            elif tool_id := self._prompts.find_in(above, messages, caller, exchange.start_ns):
                found = (above, tool_id)
            else:
                found, is_held = (above, above.agent_id), True
        self._keep_busy(found[0].number, exchange.end_ns, self._steady_ns())
        return None, found, is_held

    def is_held(self, run: Run) -> bool:
        """Tell whether the span of a run waits for the tool call that is above it."""
        return self.launches.is_held(run.number) and self.find(run.parent_run) is not None

    def release(self, ended: Iterable[EndedRun]) -> list[EndedRun]:
        """Stop holding the runs below some that are over; return those that are over, too."""
        released: list[EndedRun] = []
        waiting = [run for run, _ in ended]
        while waiting:
            for run in self.launches.list_held(waiting.pop().number, self._open):
                if run.ended_by is not None:
                    released.append(EndedRun(run, run.ended_by))
                    waiting.append(run)
        return released

    def _note_try(
        self, run: Run, tool_id: str, messages: Sequence[Message], caller: bytes, *, failed: bool
    ) -> None:
        """Note how a call of a sub-agent ended: one whose first call failed tries again."""
        if failed and not run.calls:
            self._drop_tried()
            self._tried[tool_id] = run
        elif not failed and self._tried.get(tool_id) is run:
            del self._tried[tool_id]
            self._prompts.drop(messages, caller, tool_id)

    def _drop_tried(self) -> None:
        """Drop runs that were never kept open: their first call has no span."""
        if len(self._tried) > len(self._open) + MAX_UNHELD:
            self._tried = {one: run for one, run in self._tried.items() if run.number in self._open}

    def _begin(
        self, exchange: Exchange, continuation: Continuation, parent: tuple[Run, str] | None
    ) -> Run:
        identity = exchange.identity
        return Run(
            number=continuation.call,
            agent_id=derive_span_id(identity.span_id, "run"),
            trace_id=identity.trace_id if parent is None else parent[0].trace_id,
            parent_span_id=None if parent is None else parent[1],
            parent_run=None if parent is None else parent[0].number,
            conversation=continuation.conversation,
            turn=continuation.turn,
            session=None,
            start_ns=exchange.start_ns,
            end_ns=exchange.end_ns,
            launch=exchange.launch,
        )

    def find(self, number: int | None) -> Run | None:
        """Find an open run by its number."""
        return None if number is None else self._open.get(number)

    def hold(
        self,
        run: Run,
        caller: bytes,
        calls: Iterable[tuple[WaitingTool, ToolCall]],
        messages: Sequence[Message],
        *,
        step: RunStep,
        has_text_tools: bool,
    ) -> None:
        """Keep a run open after a call with these messages, whose answer made these tool calls.

        `has_text_tools`: calls and results were parsed from the texts of these messages.
        """
        now_ns = self._steady_ns()
        if step.keys is not None:
            self.launches.note(run, step.keys, is_held=step.is_held)
        self._keep(run, now_ns)
        self._keep_busy(run.parent_run, run.end_ns, now_ns)
        if caller:
            self._prompts.wait(run, caller, calls, messages, has_text_tools=has_text_tools)

    def use(
        self, run: Run, exchange: Exchange, request: ComparableRequest | None, *, shows_names: bool
    ) -> dict[str, object]:
        """Add a call to the usage of its run; return what the call's own span may show of it."""
        if exchange.request is None:
            return {}
        usage = self._usages.get(run.number)
        if usage is None:
            self._drop_usages()
            self._usages[run.number] = usage = RunUsage.load(run.usage, self._digests)
            run.usage = b""  # it is not held twice
        return usage.add(
            exchange.request,
            exchange.response,
            items=None if request is None else request.items,
            states=None if request is None else request.states,
            shows_names=shows_names,
        )

    def _drop_usages(self) -> None:
        """Drop the usage of runs that were never kept open: their first call has no span."""
        if len(self._usages) > len(self._open) + MAX_UNHELD:
            for number in self._usages.keys() - self._open.keys():
                del self._usages[number]

    def summarise_usage(self, run: Run) -> dict[str, object]:
        """Return how the calls of a run used their tokens."""
        usage = self._usages.get(run.number)
        return (RunUsage.load(run.usage, self._digests) if usage is None else usage).summarise()

    def save(self, run: Run, *, keeps: bool) -> bytes:
        """Write an open run as bytes.

        Args:
            run: an open run.
            keeps: what is derived from content that is not shown, digests and ids of calls, may be
                in the bytes.
        """
        usage = self._usages.get(run.number)
        if not keeps:
            run.is_secret = True
        used = run.usage if usage is None else usage.save()
        tools = [_hide_id(tool, hides=run.is_secret) for tool in run.tools]
        used = b"" if run.is_secret else used
        data = _encode(msgspec.structs.replace(run, tools=tools, usage=used))
        return data + crc32(data).to_bytes(_CHECKSUM_BYTES)

    def _keep(self, run: Run, touched_ns: int) -> None:
        """Keep a run open, as the one that rested least."""
        self._open.pop(run.number, None)
        self._open[run.number] = run
        self._touched_ns[run.number] = touched_ns
        held_bytes, usage = run.held_bytes, self._usages.get(run.number)
        if usage is not None:
            held_bytes += usage.held_bytes
        self._held_bytes += held_bytes - self._bytes.get(run.number, 0)
        self._bytes[run.number] = held_bytes

    def _keep_busy(self, number: int | None, end_ns: int, touched_ns: int) -> None:
        """Let no run rest while a sub-agent of it is at work, at any depth."""
        while number is not None and (run := self._open.get(number)) is not None:
            run.end_ns = max(run.end_ns, end_ns)
            self._touched_ns[number] = max(self._touched_ns[number], touched_ns)
            self._open.move_to_end(number)
            above = run.parent_run
            # A run above began before, unless what was kept is damaged.
            number = above if above is not None and above < number else None

    def end(self, run: Run, by: str) -> None:
        """Forget a run that is over, and count it by the reason."""
        self.ended[by] += 1
        self.forget(run.number)

    def forget(self, number: int) -> None:
        """Forget a run. A run of which somebody deleted a span gets no agent span."""
        if (run := self._open.pop(number, None)) is not None:
            self._held_bytes -= self._bytes.pop(number)
            del self._touched_ns[number]
            if run.parent_span_id is not None and self._tried.get(run.parent_span_id) is run:
                del self._tried[run.parent_span_id]
        self._usages.pop(number, None)
        self._prompts.forget(number)
        self.launches.forget(number)

    def _has_rested(self, run: Run, now_ns: int) -> bool:
        return now_ns - self._touched_ns[run.number] > self._idle_ns

    def list_rested(self) -> list[EndedRun]:
        """List the runs that rested too long, and those that are too many (R5).

        A run rests while no call of it or of its sub-agents comes. That time is measured with a
        clock that never steps, from when the last call was recorded: so neither a step of the
        machine's clock ends a run, nor a call that waited in the spool. After a restart the times
        of spans count. If more than :data:`MAX_OPEN_RUNS` are open, or they take more than
        :data:`MAX_HELD_BYTES`, those that rested longest are listed.

        They stay open until :meth:`end` is called.
        """
        rested: list[EndedRun] = []
        count, held_bytes, now_ns = len(self._open), self._held_bytes, self._steady_ns()
        for run in self._open.values():
            if self._has_rested(run, now_ns):
                rested.append(EndedRun(run, run.ended_by or EndedBy.IDLE))
            elif count > MAX_OPEN_RUNS or held_bytes > MAX_HELD_BYTES:
                rested.append(EndedRun(run, run.ended_by or EndedBy.LIMIT))
            else:
                break
            count -= 1
            held_bytes -= self._bytes[run.number]
        return rested


def _find_results(
    messages: Sequence[Message], run: Run, continuation: Continuation
) -> tuple[tuple[WaitingTool, ToolResult], ...]:
    rewritten_items = continuation.new_items if continuation.rule is Rule.PREFIX else 0
    return tuple(match_results(messages, run.tools, rewritten_items)) if run.tools else ()


def _hide_id(tool: WaitingTool, *, hides: bool) -> WaitingTool:
    """Leave out an id that is hidden, or that is not shown as it came."""
    if tool.call_id is None or (tool.call_id == tool.shown_id and not hides):
        return tool
    return msgspec.structs.replace(tool, call_id=None)


def _is_forced(exchange: Exchange) -> bool:
    return exchange.request is not None and exchange.request.forces_tool


def _load(data: bytes) -> Run:
    """Read a run. One that a version without checksums wrote has none.

    Raises:
        msgspec.MsgspecError: the bytes are not what was written.
        UnicodeDecodeError: the same.
    """
    written = memoryview(data)[:-_CHECKSUM_BYTES]
    if crc32(written) == int.from_bytes(data[-_CHECKSUM_BYTES:]):
        return _decode(written)
    return _decode(data)  # only data without a checksum ends with a run
