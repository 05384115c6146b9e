"""Sub-agents: whose tool a conversation is that begins with what an agent wrote.

Rules (``docs/contract/conversations.md#c11``):

1. A call that goes on from none, also in a conversation that its client names, is a sub-agent of
   the same caller's call of a tool that waits and has its first text, of at least
   :data:`MIN_PROMPT_CHARS`, as a string in the arguments. Of several calls with one text each gets
   one, in their order.
2. None begins before the answer ended that calls the tool, and none with what a user asked the
   agent itself, or the one above it: a search has it as it was said, and who asks the same
   meanwhile is nobody's sub-agent.
3. What is known of texts is a keyed digest in memory alone.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from codec.history_items import USER, ItemKind, list_history_items
from codec.members import object_of
from codec.text.jsontext import decode_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from codec.call import Message
    from codec.history_states import Digests
    from codec.parts import ToolCall
    from telemetry.conversations.run import Run, WaitingTool

MIN_PROMPT_CHARS: Final = 32
"""Shorter strings are said by chance: ``yes``, a path, a name."""

MAX_PROMPTS: Final = 8
"""Strings of a call that may be a prompt; a call that begins a sub-agent has one or two."""

MAX_PROMPT_ARGUMENT_CHARS: Final = 65_536
"""Characters of arguments that are searched for prompts."""

MAX_WAITING_PROMPTS: Final = 4_096
"""Prompts that are remembered, those that were said last."""

MAX_CALLS_OF_PROMPT: Final = 256
"""Calls that wait with the same prompt, the newest: agents read the same long path all day, and
nobody takes it away."""

MAX_WAITING_CALLS: Final = 16_384
"""Calls that wait with prompts, all together, some 2 MB: else those of many paths are a million."""

MAX_FIRST_MESSAGES: Final = 16
"""Messages at the beginning of a request among which the first text of the user's is."""


MAX_LAST_MESSAGES: Final = 16
"""Messages at the end of one that are searched for what users say."""

MAX_QUESTIONS: Final = 16
"""Texts of users in a request that no sub-agent begins with; of a run those of one are kept."""


class WaitingPrompts:
    """The texts with which sub-agents may begin, and the calls of tools that wait with them.

    Args:
        digests: of texts.
    """

    def __init__(self, digests: Digests) -> None:
        self._digests = digests
        self._prompts: OrderedDict[bytes, deque[tuple[int, str]]] = OrderedDict()
        self._calls = 0  # of all prompts
        self._questions: dict[int, set[bytes]] = {}  # what users said first, by run

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
    ) -> None:
        """Let calls of tools wait for their sub-agents.

        Args:
            run: that of their answer.
            caller: a digest of who calls.
            calls: the calls.
            messages: of the request: none begins with what a user says in it (rule 2).
        """
        prompts = [(tool, prompt) for tool, call in calls for prompt in _list_prompts(call)]
        if not prompts and run.calls > 1:
            return
        texts = islice(_list_user_texts(messages), MAX_QUESTIONS)
        asked = {self._tell(caller, text) for text in texts}
        # The first ones stay: a request that names a response has the newest alone.
        first = self._questions.setdefault(run.number, asked)
        above = self._questions.get(run.parent_run or 0, set())
        for tool, prompt in prompts:
            key = self._tell(caller, prompt)
            if key not in asked | first | above:
                self._add(key, (run.number, tool.span_id))

    def _add(self, key: bytes, call: tuple[int, str]) -> None:
        """Let a call wait with a text, which is the newest then."""
        waiting = self._prompts.pop(key, None) or deque(maxlen=MAX_CALLS_OF_PROMPT)
        self._calls -= len(waiting)
        waiting.append(call)
        self._prompts[key] = waiting
        self._calls += len(waiting)
        while len(self._prompts) > MAX_WAITING_PROMPTS or self._calls > MAX_WAITING_CALLS:
            _, oldest = self._prompts.popitem(last=False)
            self._calls -= len(oldest)

    def find(
        self,
        messages: Sequence[Message],
        caller: bytes,
        begin_ns: int,
        open_runs: Mapping[int, Run],
        *,
        keeps: bool,
    ) -> tuple[Run, str] | None:
        """Find the call of a tool whose sub-agent begins with a call, and note that it has one.

        Args:
            messages: of the request.
            caller: a digest of who calls; empty for one that cannot be told.
            begin_ns: when the call began.
            open_runs: by number.
            keeps: it failed, and is tried again: what is found stays for the next one.

        Returns:
            The run, and the span id of the tool.
        """
        if not self._prompts or not caller:
            return None
        text = _find_first_text(messages)
        if text is None or len(text) < MIN_PROMPT_CHARS:
            return None
        key = self._tell(caller, text)
        waiting = self._prompts.get(key, deque())
        found = None
        while waiting and found is None:
            number, span_id = waiting[0]
            run = open_runs.get(number)
            tools = [] if run is None else [one for one in run.tools if one.span_id == span_id]
            if tools and begin_ns < tools[0].start_ns:
                return None  # nor do the others, which are newer
            if run is not None and tools:
                tools[0].has_agent = True
                found = (run, span_id)
            if found is None or not keeps:
                waiting.popleft()
                self._calls -= 1
        if not waiting:
            self._prompts.pop(key, None)
        return found

    def _tell(self, caller: bytes, text: str) -> bytes:
        return self._digests.make(caller + text.encode("utf-8", "surrogatepass"))


def _find_first_text(messages: Sequence[Message]) -> str | None:
    """Find what a user says first in a request, without what programs put in."""
    for message in messages[:MAX_FIRST_MESSAGES]:
        for item in list_history_items(message):
            if item.role == USER and item.kind == ItemKind.TEXT:
                return item.text
    return None


def _list_user_texts(messages: Sequence[Message]) -> Iterator[str]:
    """Yield what users say in a request, long enough for a prompt; the last ones first."""
    for message in (*messages[: -MAX_LAST_MESSAGES - 1 : -1], *messages[:MAX_FIRST_MESSAGES]):
        for item in list_history_items(message):
            may_be_prompt = MIN_PROMPT_CHARS <= len(item.text) <= MAX_PROMPT_ARGUMENT_CHARS
            if item.role == USER and item.kind == ItemKind.TEXT and may_be_prompt:
                yield item.text


def _list_prompts(call: ToolCall) -> Iterator[str]:
    """Yield the strings of a call's arguments that may be what a sub-agent is asked."""
    text = call.arguments.strip()
    if not MIN_PROMPT_CHARS <= len(text) <= MAX_PROMPT_ARGUMENT_CHARS:
        return
    try:
        arguments: Mapping[str, Any] = object_of(decode_json(text))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return
    strings = [value.strip() for value in arguments.values() if isinstance(value, str)]
    yield from [one for one in strings if len(one) >= MIN_PROMPT_CHARS][:MAX_PROMPTS]
