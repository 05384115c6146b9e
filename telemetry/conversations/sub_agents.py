"""Sub-agents: which tool call started a conversation (``docs/contract/conversations.md#c11``).

A sub-agent is a conversation that begins with a text that an agent wrote into the arguments of a
tool call of the same caller, while that call waits for its result. If several calls have one text,
each gets one conversation, in their order. A conversation that its client names may be one too.

A tool that starts its sub-agent in the background answers at once, and its agent may be done before
the sub-agent's first call ends. So a call waits on for :data:`LAUNCH_NS` after its result.

A sub-agent starts only after the answer that called its tool has ended. A conversation that begins
with the user's own question to the agent or its parent is not a sub-agent: tools often receive that
question verbatim, and somebody else may ask the same meanwhile.

smolagents puts more words around the text, with the name under which the agent above knows this
one. So there the text counts together with the name of the tool, and may be the user's question.

CrewAI puts every task into a frame, also one that an agent left to another; the text is then what
is inside the frame.

Texts are known by keyed digests, in memory alone.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from codec.agent_code import CODE_TOOL, find_delegations
from codec.history_items import USER, ItemKind, list_history_items
from codec.members import object_of
from codec.observations import find_delegated_task
from codec.text.jsontext import decode_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from codec.history_states import Digests
    from codec.parts import Message, ToolCall
    from telemetry.conversations.run import Run, WaitingTool

MIN_PROMPT_CHARS: Final = 32
"""Shorter strings come again by chance: ``yes``, a path, a name."""

MAX_PROMPTS: Final = 8
"""How many strings of a tool call may be prompts. One that starts a sub-agent has one or two."""

MAX_PROMPT_ARGUMENT_CHARS: Final = 65_536
"""The longest arguments that are searched for prompts."""

MAX_WAITING_PROMPTS: Final = 4_096
"""How many prompts are remembered, the newest ones."""

MAX_CALLS_OF_PROMPT: Final = 256
"""How many calls wait with the same prompt, the newest ones: agents read the same long path all
day, and no sub-agent takes these calls away."""

MAX_WAITING_CALLS: Final = 16_384
"""How many calls wait with prompts in all, some 2 MB: many paths would make a million."""

MAX_FIRST_MESSAGES: Final = 16
"""How many messages at the beginning of a request are searched for the user's first text."""

MAX_LAST_MESSAGES: Final = 16
"""How many messages at the end of a request are searched for texts of the user's."""

MAX_QUESTIONS: Final = 16
"""How many of the user's texts in a request are kept as those that start no sub-agent."""

LAUNCH_NS: Final = 1_000_000_000
"""How long after the result of its tool a sub-agent may begin. Claude Code sends both requests
within 30 ms."""

MAX_ANSWERED: Final = 1_024
"""How many tool calls with a result are remembered for that, the newest ones, in some 1 MB."""

_CREWAI_TASK: Final = re.compile(
    r"Current Task: (.*?)\n\nThis is the expected criteria for your final answer: ", re.DOTALL
)
"""The beginning of a task by CrewAI 1.15 (``task`` and ``expected_output`` of its prompts)."""


class WaitingPrompts:
    """The texts with which sub-agents may begin, and the tool calls that wait with them.

    Args:
        digests: makes the digests of texts.
    """

    def __init__(self, digests: Digests) -> None:
        self._digests = digests
        self._prompts: OrderedDict[bytes, deque[tuple[int, str]]] = OrderedDict()
        self._calls = 0  # of all prompts
        self._questions: dict[int, set[bytes]] = {}  # what users said first, by run
        # The run of a tool call, when the answer that made it ended, and when its result came.
        self._answered: OrderedDict[str, tuple[Run, int, int]] = OrderedDict()

    def __len__(self) -> int:
        """Count the texts."""
        return len(self._prompts)

    def forget(self, run: int) -> None:
        """Forget what users said in a run that is over."""
        self._questions.pop(run, None)

    def wait(
        self,
        run: Run,
        caller: bytes,
        calls: Iterable[tuple[WaitingTool, ToolCall]],
        messages: Sequence[Message],
        *,
        has_text_tools: bool,
    ) -> None:
        """Let tool calls wait for their sub-agents.

        Args:
            run: the run of their answer.
            caller: a digest of the caller.
            calls: the tool calls.
            messages: the messages of the request. No sub-agent begins with what the user says in
                them.
            has_text_tools: calls and results were parsed from the texts of these messages
                (:mod:`codec.observations`).
        """
        calls = [*calls]
        prompts = [(tool, prompt) for tool, call in calls for prompt in _list_prompts(call)]
        if has_text_tools:
            for tool, call in calls:
                for name, task in islice(_list_delegated_tasks(call), MAX_PROMPTS):
                    self._add(self._digest(caller, f"{name}\0{task}"), (run.number, tool.span_id))
        if not prompts and run.calls > 1:
            return
        texts = islice(_list_user_texts(messages), MAX_QUESTIONS)
        asked = {self._digest(caller, text) for text in texts}
        # The texts of the first request stay: one that names a response has the newest alone.
        first = self._questions.setdefault(run.number, asked)
        above = self._questions.get(run.parent_run or 0, set())
        for tool, prompt in prompts:
            key = self._digest(caller, prompt)
            if key not in asked | first | above:
                self._add(key, (run.number, tool.span_id))

    def _add(self, key: bytes, call: tuple[int, str]) -> None:
        """Let a call wait with a text, and make that text the newest."""
        waiting = self._prompts.pop(key, None) or deque(maxlen=MAX_CALLS_OF_PROMPT)
        self._calls -= len(waiting)
        waiting.append(call)
        self._prompts[key] = waiting
        self._calls += len(waiting)
        while len(self._prompts) > MAX_WAITING_PROMPTS or self._calls > MAX_WAITING_CALLS:
            _, oldest = self._prompts.popitem(last=False)
            self._calls -= len(oldest)

    def answer(self, run: Run, tools: Iterable[WaitingTool], at_ns: int) -> None:
        """Note that a request, which began at a time, brings the results of tool calls of a run."""
        if not self._prompts:
            return
        known = None
        for tool in tools:
            if tool.arguments is None or len(tool.arguments) >= MIN_PROMPT_CHARS:
                known = known or replace(run, tools=[], asked=None, answered=None, usage=b"")
                self._answered[tool.span_id] = (known, tool.start_ns, at_ns)
        while len(self._answered) > MAX_ANSWERED:
            self._answered.popitem(last=False)

    def find(
        self,
        messages: Sequence[Message],
        caller: bytes,
        begin_ns: int,
        open_runs: Mapping[int, Run],
        tried: Mapping[str, Run],
        *,
        keeps: bool,
    ) -> tuple[Run, str] | None:
        """Find the tool call whose sub-agent begins with a request, and note that it has one.

        Args:
            messages: the messages of the request.
            caller: a digest of the caller; empty for an unknown one.
            begin_ns: when the call began.
            open_runs: the open runs by their numbers.
            tried: the runs of sub-agents whose calls have all failed, by the span ids of their tool
                calls. What began before such a call had failed is another sub-agent.
            keeps: the call failed and will be tried again, so the tool call waits on.

        Returns:
            The run, which may be over, and the span id of the tool call; ``None`` for nothing.
        """
        key = self._find_key(messages, caller) if self._prompts and caller else None
        waiting = () if key is None else self._prompts.get(key, ())
        if key is None or not waiting:
            return None
        left: list[tuple[int, str]] = []
        found = None
        for entry in waiting:
            number, span_id = entry
            if found is not None or (
                span_id in tried and begin_ns < tried[span_id].end_ns
            ):  # not this one
                left.append(entry)
                continue
            known = self._find_tool(open_runs.get(number), span_id, begin_ns)
            if known is None:
                continue
            run, start_ns, tool = known
            if begin_ns < start_ns:
                return None  # the other tool calls are newer still
            if tool is not None:
                tool.has_agent = True
            found = (run, span_id)
            if keeps:
                left.append(entry)
        self._put(key, left)
        return found

    def find_in(
        self, run: Run, messages: Sequence[Message], caller: bytes, begin_ns: int
    ) -> str | None:
        """Find the tool call of a run whose sub-agent begins with a request, as :meth:`find` does.

        The sub-agent is known to be of this run, so the only tool call with its text is meant. A
        sub-agent that works already may get a message by a tool, which is then its newest text.

        Returns:
            The span id of the tool call; ``None`` if several calls have the text, or none.
        """
        newest = next(_list_user_texts(messages), None)
        first = self._find_key(messages, caller)
        keys = set() if first is None else {first}
        if newest is not None:
            keys.add(self._digest(caller, newest))
        found: dict[str, tuple[bytes, WaitingTool | None]] = {}
        for key in keys:
            for number, span_id in self._prompts.get(key, ()):
                known = self._find_tool(run, span_id, begin_ns) if number == run.number else None
                if known is not None and begin_ns >= known[1]:
                    found[span_id] = (key, known[2])
        if len(found) != 1:
            return None
        [(span_id, (key, tool))] = found.items()
        if tool is not None:
            tool.has_agent = True
        self._put(key, [entry for entry in self._prompts[key] if entry[1] != span_id])
        return span_id

    def drop(self, messages: Sequence[Message], caller: bytes, span_id: str) -> None:
        """Let a tool call wait no more, because its sub-agent's request had an answer at last."""
        key = self._find_key(messages, caller)
        if key is not None and key in self._prompts:
            self._put(key, [entry for entry in self._prompts[key] if entry[1] != span_id])

    def _find_key(self, messages: Sequence[Message], caller: bytes) -> bytes | None:
        """Find the digest of the text with which a request begins; ``None`` if it is too short."""
        text = _find_first_text(messages)
        if text is not None and (delegated := find_delegated_task(text)) is not None:
            text = f"{delegated[1]}\0{delegated[0]}"
        elif text is None or len(text) < MIN_PROMPT_CHARS:
            return None
        return self._digest(caller, text)

    def _find_tool(
        self, run: Run | None, span_id: str, begin_ns: int
    ) -> tuple[Run, int, WaitingTool | None] | None:
        """Find the run of a tool call that waits for its sub-agent, and when its answer ended.

        The tool call itself is ``None`` if its result has come.
        """
        for tool in () if run is None else run.tools:
            if run is not None and tool.span_id == span_id:
                return run, tool.start_ns, tool
        if span_id not in self._answered:
            return None
        known, start_ns, answered_ns = self._answered[span_id]
        return None if begin_ns > answered_ns + LAUNCH_NS else (run or known, start_ns, None)

    def _put(self, key: bytes, calls: Sequence[tuple[int, str]]) -> None:
        """Let only these of the tool calls that wait with a text wait on."""
        waiting = self._prompts[key]
        self._calls -= len(waiting) - len(calls)
        if calls:
            waiting.clear()
            waiting.extend(calls)
        else:
            del self._prompts[key]

    def _digest(self, caller: bytes, text: str) -> bytes:
        return self._digests.make(caller + text.encode("utf-8", "surrogatepass"))


def _find_first_text(messages: Sequence[Message]) -> str | None:
    """Find the user's first text in a request, without what programs put into it."""
    for message in messages[:MAX_FIRST_MESSAGES]:
        for item in list_history_items(message):
            if item.role == USER and item.kind == ItemKind.TEXT:
                return _without_frame(item.text)
    return None


def _list_user_texts(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the user's texts that are long enough for a prompt, the last ones first."""
    for message in (*messages[: -MAX_LAST_MESSAGES - 1 : -1], *messages[:MAX_FIRST_MESSAGES]):
        for item in list_history_items(message):
            if item.role != USER or item.kind != ItemKind.TEXT:
                continue
            text = _without_frame(item.text)
            if MIN_PROMPT_CHARS <= len(text) <= MAX_PROMPT_ARGUMENT_CHARS:
                yield text


def _without_frame(text: str) -> str:
    """Return what is inside CrewAI's frame, or the text itself."""
    found = _CREWAI_TASK.match(text)
    return text if found is None else found[1].strip()


def _list_prompts(call: ToolCall, least_chars: int = MIN_PROMPT_CHARS) -> Iterator[str]:
    """Yield the strings of a tool call's arguments with which a sub-agent may begin."""
    text = call.arguments.strip()
    if not least_chars <= len(text) <= MAX_PROMPT_ARGUMENT_CHARS:
        return
    try:
        arguments: Mapping[str, Any] = object_of(decode_json(text))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return
    strings = map(str.strip, _list_strings(arguments))
    yield from islice((one for one in strings if len(one) >= least_chars), MAX_PROMPTS)


def _list_strings(value: Any) -> Iterator[str]:
    """Yield all strings of a value of JSON, in their order: some tools take a list of messages."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as members:
                waiting += reversed(members.values())
            case list() as members:
                waiting += reversed(members)
            case _:
                pass


def _list_delegated_tasks(call: ToolCall) -> Iterator[tuple[str, str]]:
    """Yield the tasks that smolagents may give to an agent: its name, and the text."""
    if len(call.arguments) > MAX_PROMPT_ARGUMENT_CHARS:
        return
    if call.name == CODE_TOOL:
        for name, task in find_delegations(call.arguments):
            yield name, task.strip()
    else:
        for task in _list_prompts(call, least_chars=1):
            yield call.name or "", task
