"""A request says ``model``, ``say`` and ``tools``, an answer ``words`` and what it cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from codec.apis.api import Api
from codec.asked import Asked, Tool
from codec.errors import MalformedResponse
from codec.growing_text import GrowingText, TextKind
from codec.parts import Message
from codec.said import Answer, Ending, Said, Stop
from codec.text.jsontext import decode_json_object
from codec.text.sse import SseDecoder
from codec.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.apis.player import Script
    from codec.text.jsontext import JsonObject


class ToyAsked(Asked, frozen=True, gc=False):
    """What is to be said."""

    content_members: ClassVar[frozenset[str]] = frozenset({"say", "tools"})
    tool_members: ClassVar[frozenset[str]] = frozenset({"tools"})
    server_members: ClassVar[frozenset[str]] = frozenset({"larder"})
    context_members: ClassVar[frozenset[str]] = frozenset({"who", "talk"})

    @property
    def user_id(self) -> str | None:
        """Who asks."""
        return self.body.get("who")

    @property
    def conversation_id(self) -> str | None:
        """Where it is said."""
        return self.body.get("talk")

    def read_messages(self) -> Sequence[Message]:
        """One message."""
        return (Message("user", self.body.get("say")),)

    def read_tools(self) -> Sequence[Tool]:
        """Names."""
        return [Tool(type="function", name=name, value=name) for name in self.body.get("tools", ())]


class ToySaid(Said, frozen=True, kw_only=True):
    """What was said; the counts are the end."""

    def read_answers(self) -> Sequence[Answer]:
        """Read the one answer."""
        message = Message("assistant", self.body.get("words"))
        return [Answer(index=0, message=message, finish_reason="sated", stop=Stop.STOP)]

    @property
    def finish_reasons(self) -> Sequence[tuple[int, str]]:
        """The one there is."""
        return [(0, "sated")] if self.usage else []

    def ending(self, *, streamed: bool) -> Ending:
        """Complete with the counts."""
        return Ending.COMPLETE if self.usage else Ending.OPEN


def read_toy(body: bytes) -> ToySaid:
    """Read a whole answer."""
    try:
        value = decode_json_object(body)
    except ValueError as error:
        raise MalformedResponse("no toy") from error
    ate, spoke = value.get("ate"), value.get("spoke")
    counts = {"ate": ate, "spoke": spoke}
    usage = Usage(prompt=ate, completion=spoke, raw=counts) if spoke is not None else None
    return ToySaid(model=value.get("model"), usage=usage, body=value)


class ToyStream:
    """Events with a word each, and one with the counts."""

    def __init__(self, **_: Any) -> None:
        self._decoder = SseDecoder()
        self._whole: dict[str, Any] = {"words": ""}
        self.chunk_count, self.has_content, self.is_complete = 0, False, False

    def feed(self, data: bytes) -> None:
        """Take a read."""
        for event in self._decoder.feed(data):
            said = decode_json_object(event.data or b"{}")
            self._whole |= said | {"words": self._whole["words"] + said.get("words", "")}
            self.chunk_count += 1
            self.has_content = self.has_content or "words" in said
            self.is_complete = "spoke" in said

    def look(self) -> Sequence[GrowingText]:
        """All words."""
        return (GrowingText("words", TextKind.TEXT, (self._whole["words"],), grows=False),)

    def finish(self) -> ToySaid:
        """The answer."""
        return read_toy(json.dumps(self._whole).encode())


class ToyPlayer:
    """Speaks it."""

    def find_fault(self, body: JsonObject) -> JsonObject | None:
        """Nothing to say."""
        return None if "say" in body else {"error": {"message": "say something"}}

    def write_error(self, error: JsonObject, _: object) -> bytes:
        """What went wrong."""
        return json.dumps({"error": error}).encode()

    def play(self, asked: Asked, script: Script, _: object) -> ToyPerformance:
        """Begin an answer."""
        return ToyPerformance(asked, script)


@dataclass
class ToyPerformance:
    """An answer."""

    asked: Asked
    script: Script
    content_type: str = "text/event-stream"

    def stream(self) -> Iterator[Sequence[bytes]]:
        """Word by word."""
        words = [delta.content for delta in self.script.answers[0].deltas]
        said: list[JsonObject] = [{"model": self.asked.model, "words": word} for word in words]
        for event in (*said, {"ate": self.script.prompt_tokens, "spoke": len(words)}):
            yield [f"data: {json.dumps(event)}\n\n".encode()]

    def whole(self) -> bytes:
        """At once."""
        stream = ToyStream()
        for events in self.stream():
            stream.feed(events[0])
        return json.dumps(stream.finish().body).encode()


TOY = Api(
    name="toy",
    path_ends=("/toy",),
    operation="play",
    span_name="Toy",
    asked=ToyAsked,
    open_stream=ToyStream,
    read_said=read_toy,
    open_player=ToyPlayer,
)
