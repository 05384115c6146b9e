"""A turn of the model in Live: messages in, :class:`LiveAnswer` out.

A message is read as the chunk of streamed content that would say the same. What the model spoke is
a text with the mark ``transcript``. Live has no finish reasons: the member that ends a turn stands
for one, unless the message gives a reason itself (``turnCompleteReason``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from codec.apis.gemini.live.asked import NOTICES
from codec.apis.gemini.live.sound import (
    OUTPUT_RATE,
    SoundCount,
    SpokenSound,
    put_sound,
    take_sound,
)
from codec.apis.gemini.names import member_of
from codec.apis.gemini.said import ContentAnswer
from codec.apis.gemini.stream import MAX_WASTED_FRAMES, ContentStream
from codec.apis.session import write_event
from codec.kept_sound import KeptSound
from codec.members import list_of, object_of, text_of
from codec.said import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codec.text.jsontext import JsonObject
    from codec.text.sse import ServerSentEvent

__all__ = ("LiveAnswer", "LiveStream")

_TOOL_CALL: Final = "toolCall"
_INTERRUPTED: Final = "interrupted"
_COMPLETE: Final = "turnComplete"
_NOT_OF_CANDIDATE: Final = frozenset(
    {
        *("modelTurn", "outputTranscription", "inputTranscription", _COMPLETE, _INTERRUPTED),
        *("generationComplete", "turnCompleteReason", "waitingForInput"),
    }
)
_BESIDE_CONTENT: Final = ("usageMetadata", "error", *NOTICES)


class LiveAnswer(ContentAnswer, frozen=True, kw_only=True):
    """A turn of the model.

    Attributes:
        is_interrupted: the user spoke, so that the turn was broken off.
    """

    is_interrupted: bool = False

    def ending(self, *, streamed: bool) -> Ending:  # noqa: ARG002 - it is always streamed
        """Tell how far the turn came."""
        if self.is_interrupted:
            return Ending.CANCELLED
        return Ending.COMPLETE if self.has_end else Ending.OPEN


class LiveStream(ContentStream):
    r"""Reads the messages of one turn. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).
        keeps_sound: what the model says is kept as sound, too.

    Attributes:
        is_interrupted: the turn was broken off; its end may still come.

    >>> stream = LiveStream()
    >>> text = b'{"serverContent": {"outputTranscription": {"text": "Hi"}, "turnComplete": true}}'
    >>> stream.feed_message(text)
    >>> stream.finish().answers[0].message.parts[0].transcript
    'Hi'
    """

    __slots__ = ("_has_end", "_kept", "_sound", "is_interrupted")

    def __init__(
        self,
        *,
        lend: Callable[[int], bool] | None = None,
        keeps_sound: bool = False,
        **_of_other_apis: object,
    ) -> None:
        super().__init__(lend=lend)
        self._wasted = MAX_WASTED_FRAMES  # no message is a chunk, so none is learnt from
        self._has_end = False
        self._sound = SoundCount(OUTPUT_RATE)
        kept = KeptSound(reserve=self._fold.budget.reserve) if keeps_sound else None
        self._kept = None if kept is None else SpokenSound(kept, OUTPUT_RATE)
        self.is_interrupted = False

    @property
    def is_complete(self) -> bool:
        """Whether the message that ends a turn was seen."""
        return self._has_end

    def feed_message(self, text: bytes) -> None:
        """Feed a message."""
        self.feed(write_event(text))

    def feed_cut(self) -> None:
        """Pass over a message that is too large to be read."""
        self._sound.is_known = False
        self._fold.note("observer_limit")

    def finish(self) -> LiveAnswer:
        """End the stream and return what it said. Call it once."""
        said = super().finish()
        answer = LiveAnswer(**{name: getattr(said, name) for name in said.__struct_fields__})
        count = self._sound.describe() or {}
        reasons = {"no_finish_reason", "no_usage"} if answer.finish_reasons else set()
        if any(word == _COMPLETE for _, word in answer.finish_reasons):
            reasons.remove("no_usage")  # only the message that completes a turn has counts
        return replace(
            answer,
            body=self._join_sound(answer.body),
            output_bytes=count.get("bytes"),
            audio_seconds=count.get("seconds"),
            has_end=self._has_end,
            is_interrupted=self.is_interrupted,
            anomalies=tuple([name for name in answer.anomalies if name not in reasons]),
        )

    def _join_sound(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Put the sound beside what the model spoke."""
        blob = None if self._kept is None else self._kept.pop()
        if blob is None:
            return body
        candidate, *others = [*list_of(body.get("candidates"))] or [{}]
        content = object_of(object_of(candidate).get("content"))
        spoken = content | {"parts": put_sound(list_of(content.get("parts")), blob)}
        return {**body, "candidates": [object_of(candidate) | {"content": spoken}, *others]}

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:
        message = object_of(value)
        candidate = self._read_content(object_of(member_of(message, "serverContent")))
        calls = list_of(member_of(object_of(member_of(message, _TOOL_CALL)), "functionCalls"))
        if calls:
            parts = [{"functionCall": call} for call in calls if isinstance(call, dict)]
            content = object_of(candidate.get("content"))
            content["parts"] = [*list_of(content.get("parts")), *parts]
            candidate |= {"content": content, "finishReason": _TOOL_CALL}
            self._has_end = True
        chunk: JsonObject = {"candidates": [candidate]}
        for name in _BESIDE_CONTENT:
            if (beside := member_of(message, name)) is not None:
                chunk[name] = beside
        super()._feed_value(chunk, event)

    def _read_content(self, said: JsonObject) -> JsonObject:
        """Make a candidate of what the model said, and note whether the turn ends."""
        content = {"role": "model"} | object_of(member_of(said, "modelTurn"))
        parts: list[Any] = []
        for part in list_of(content.get("parts")):
            known = self._sound.size_bytes
            taken = take_sound(part, self._sound) if isinstance(part, dict) else part
            if self._sound.size_bytes > known:
                self._fold.has_content = True
                if self._kept is not None:
                    self._kept.add(object_of(member_of(part, "inlineData")))
            elif taken is part:
                parts.append(part)
        spoken = text_of(object_of(member_of(said, "outputTranscription")).get("text"))
        if spoken is not None:
            parts.append({"text": spoken, "transcript": True})
        candidate = {name: value for name, value in said.items() if name not in _NOT_OF_CANDIDATE}
        candidate["content"] = content | {"parts": parts}
        if member_of(said, _INTERRUPTED) is True:
            self.is_interrupted = True
            candidate["finishReason"] = _INTERRUPTED
        if member_of(said, _COMPLETE) is True:
            self._has_end = True
            word = text_of(member_of(said, "turnCompleteReason"))
            candidate["finishReason"] = _INTERRUPTED if self.is_interrupted else word or _COMPLETE
        return candidate
