"""Conversations for tests: chats that grow, and a linker that follows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from codec.apis.table import get_api
from telemetry.conversations.continuation_finder import ContinuationFinder
from telemetry.conversations.memory import Memory, Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telemetry.conversations.continuation import Continuation

__all__ = ("SCOPE", "Talk", "answer", "calls", "result", "user")

SCOPE = b"caller-1"
SECOND_NS = 1_000_000_000
_CHAT = get_api("chat.completions")


def user(text: str) -> dict[str, Any]:
    """What a user says."""
    return {"role": "user", "content": text}


def answer(text: str) -> dict[str, Any]:
    """What an assistant says."""
    return {"role": "assistant", "content": text}


def calls(*ids: str, name: str = "read") -> dict[str, Any]:
    """Calls of a tool, each with arguments of its own."""
    made = [
        {"id": one, "type": "function", "function": {"name": name, "arguments": f'{{"n":{n}}}'}}
        for n, one in enumerate(ids)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(call_id: str, text: str = "done") -> dict[str, Any]:
    """What a tool answers."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


class Talk:
    """A linker, and calls in their order."""

    def __init__(self, max_calls: int = 1_000) -> None:
        self.memory = Memory(max_calls)
        self.finder = ContinuationFinder(b"k" * 32, self.memory)
        self._count = 0

    def ask(
        self,
        *messages: dict[str, Any],
        said: dict[str, Any] | None = None,
        scope: bytes | None = SCOPE,
        strangers: bytes | None = None,
        answer_id: str = "",
        later_ns: int = 0,
        more: Sequence[dict[str, Any]] = (),
        breaks_off: bool = False,
        **body: Any,
    ) -> Continuation:
        """Link a call of a chat. Its further choices are `more`.

        It failed without an answer, or where that breaks off.
        """
        self._count += 1
        asked = _CHAT.decode_asked(json.dumps({"messages": messages, **body}).encode())
        messages_said = [] if said is None else [said, *more]
        choices = [
            {"index": index, "message": message, "finish_reason": "stop"}
            for index, message in enumerate(messages_said)
        ]
        told = json.dumps({"id": answer_id or f"a-{self._count}", "choices": choices}).encode()
        return self.finder.find(
            self._count,
            asked,
            None if said is None else _CHAT.read_said(told),
            origin=Origin("ab" * 16, f"{self._count:016x}"),
            scope=scope,
            strangers=strangers,
            start_ns=self._count * SECOND_NS + later_ns,
            end_ns=self._count * SECOND_NS + later_ns + 1,
            failed=said is None or breaks_off,
        )
