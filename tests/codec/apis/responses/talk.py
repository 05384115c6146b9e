"""A Responses session made by hand: messages of both sides, a nanosecond apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from codec.apis.responses.session import ResponseSession
from codec.parts import Text
from codec.text.jsontext import encode_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.apis.session import SessionCall

__all__ = ("Talk", "call_item", "say", "text_item", "user")


def user(text: str) -> dict[str, Any]:
    """Make a message of the user."""
    return {"type": "message", "role": "user", "content": text}


def text_item(text: str) -> dict[str, Any]:
    """Make an item that says something."""
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "id": f"msg-{text}", "role": "assistant", "content": content}


def call_item(name: str) -> dict[str, Any]:
    """Make an item that calls a tool."""
    return {"type": "function_call", "call_id": name, "name": name, "arguments": "{}"}


@dataclass
class Talk:
    """Feeds a session, and collects the calls that ended.

    Attributes:
        continues: after each message after which it can be, the session is replaced by one that
            continues from its state.
    """

    continues: ClassVar[bool] = False

    session: ResponseSession = field(default_factory=ResponseSession)
    now_ns: int = 0
    ended: list[SessionCall] = field(default_factory=list)

    def feed(self, message: Any, *, from_client: bool, is_whole: bool = True) -> int:
        """Feed a message, and return its time."""
        self.now_ns += 1
        text = message if isinstance(message, bytes) else encode_json(message).encode()
        for call in self.session.feed(
            text, from_client=from_client, at_ns=self.now_ns, is_whole=is_whole
        ):
            if call.end is not None:
                self.ended.append(call)
        if self.continues and (state := self.session.state) is not None:
            self.session = ResponseSession(state=state)
        return self.now_ns

    def ask(self, kind: str, **members: Any) -> int:
        """Send a message of the client."""
        return self.feed({"type": f"response.{kind}", **members}, from_client=True)

    def create(self, text: Any = None, **members: Any) -> int:
        """Ask for a response."""
        given = {} if text is None else {"input": text}
        return self.ask("create", model="m-1", **given, **members)

    def event(self, kind: str, **members: Any) -> int:
        """Send an event of the server."""
        return self.feed({"type": kind, **members}, from_client=False)

    def created(self, response_id: str, previous: str | None = None, **members: Any) -> int:
        """Begin a response."""
        response: dict[str, Any] = {
            "id": response_id, "object": "response", "status": "in_progress", "output": [],
            "previous_response_id": previous,
        }  # fmt: skip
        return self.event("response.created", response=response, **members)

    def delta(self, text: str, **members: Any) -> int:
        """Say a word."""
        return self.event("response.output_text.delta", output_index=0, delta=text, **members)

    def done(self, index: int, item: dict[str, Any], **members: Any) -> int:
        """End an item."""
        kind = "response.output_item.done"
        return self.event(kind, output_index=index, item=item, **members)

    def end(
        self,
        response_id: str,
        output: Sequence[Any] = (),
        status: str = "completed",
        reason: str | None = None,
        **members: Any,
    ) -> int:
        """End a response."""
        response: dict[str, Any] = {
            "id": response_id, "object": "response", "status": status, "output": output,
            "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
            "incomplete_details": reason and {"reason": reason},
        }  # fmt: skip
        return self.event(f"response.{status}", response=response, **members)

    def answer(
        self, response_id: str, text: str, previous: str | None = None, **members: Any
    ) -> SessionCall:
        """Begin a response, say a text and end it; return the call."""
        self.created(response_id, previous, **members)
        self.delta(text, **members)
        self.end(response_id, [text_item(text)], **members)
        return self.ended[-1]


def say(call: SessionCall) -> str:
    """Return what a call's answer says."""
    assert call.said is not None
    parts = [part for answer in call.said.answers for part in answer.message.parts]
    return "".join(part.text for part in parts if isinstance(part, Text))
