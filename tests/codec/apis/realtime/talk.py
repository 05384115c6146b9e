"""A Realtime session made by hand: messages of both sides, a nanosecond apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from codec.apis.realtime.session import RealtimeSession
from codec.parts import Media, Text
from codec.text.jsontext import encode_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.apis.session import SessionCall
    from codec.parts import Message

__all__ = ("USAGE", "Talk", "say", "spoken", "user", "words")

USAGE: dict[str, Any] = {
    "total_tokens": 9, "input_tokens": 6, "output_tokens": 3,
    "input_token_details": {
        "text_tokens": 2, "audio_tokens": 4, "cached_tokens": 1,
        "cached_tokens_details": {"text_tokens": 1, "audio_tokens": 0},
    },
    "output_token_details": {"text_tokens": 1, "audio_tokens": 2},
}  # fmt: skip


def user(item_id: str, transcript: str | None = None) -> dict[str, Any]:
    """Make an item that the user spoke."""
    content = [{"type": "input_audio", "transcript": transcript}]
    return {"id": item_id, "type": "message", "role": "user", "content": content}


def spoken(item_id: str, transcript: str) -> dict[str, Any]:
    """Make an item that the model spoke."""
    content = [{"type": "output_audio", "transcript": transcript}]
    return {"id": item_id, "type": "message", "role": "assistant", "content": content}


def words(message: Message) -> str:
    """Join what a message says, in writing or as the transcript of sound."""
    said = []
    for part in message.parts:
        if isinstance(part, str):
            said.append(part)
        elif isinstance(part, Text):
            said.append(part.text)
        elif isinstance(part, Media):
            said.append(part.transcript or "")
    return "".join(said)


def say(call: SessionCall) -> str:
    """Return what a call's answer says."""
    assert call.said is not None
    return "".join(words(answer.message) for answer in call.said.answers)


@dataclass
class Talk:
    """Feeds a session, and collects the calls that ended.

    Attributes:
        continues: after each message after which it can be, the session is replaced by one that
            continues from its state.
    """

    continues: ClassVar[bool] = False

    session: RealtimeSession = field(default_factory=RealtimeSession)
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
            self.session = RealtimeSession(state=state)
        return self.now_ns

    def ask(self, kind: str, **members: Any) -> int:
        """Send an event of the client."""
        return self.feed({"type": kind, **members}, from_client=True)

    def create(self, event_id: str | None = None, **response: Any) -> int:
        """Ask for a response."""
        return self.ask("response.create", event_id=event_id, response=response)

    def event(self, kind: str, **members: Any) -> int:
        """Send an event of the server."""
        return self.feed({"type": kind, **members}, from_client=False)

    def begin(self, **session: Any) -> int:
        """Begin the session."""
        return self.event("session.created", session={"id": "sess-1", "model": "m-1", **session})

    def add(self, item: dict[str, Any], previous: str | None = None) -> int:
        """Add an item to the conversation."""
        return self.event("conversation.item.added", item=item, previous_item_id=previous)

    def created(self, response_id: str, **members: Any) -> int:
        """Begin a response."""
        response = {"id": response_id, "status": "in_progress", "conversation_id": "conv-1"}
        return self.event("response.created", response={**response, "metadata": None, **members})

    def delta(self, response_id: str, text: str, kind: str = "output_audio_transcript") -> int:
        """Say a word."""
        return self.event(
            f"response.{kind}.delta", response_id=response_id, output_index=0, delta=text
        )

    def end(
        self,
        response_id: str,
        output: Sequence[Any] = (),
        status: str = "completed",
        **members: Any,
    ) -> SessionCall:
        """End a response, and return the call."""
        response = {
            "id": response_id, "object": "realtime.response", "status": status,
            "status_details": None, "output": output, "usage": USAGE, **members,
        }  # fmt: skip
        self.event("response.done", response=response)
        return self.ended[-1]

    def answer(self, response_id: str, text: str, **members: Any) -> SessionCall:
        """Begin a response, say a text and end it; return the call."""
        self.created(response_id, **members)
        self.delta(response_id, text)
        return self.end(response_id, [spoken(f"item-{response_id}", text)])
