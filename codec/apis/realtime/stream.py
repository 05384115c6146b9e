"""An answer of a Realtime session: messages in, :class:`RealtimeAnswer` out.

The beta of the API has other names for the same events, and Azure and gateways still send them. All
are read under the names by which the fold of the Responses API knows them. xAI gives the usage
beside the response instead of within it. Within, it has an empty object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from codec.apis.realtime.said import RealtimeAnswer
from codec.apis.realtime.sound import count_seconds, find_rate, take_sound
from codec.apis.responses.stream import MessageStream
from codec.budget import MEMBER_BYTES, size_bytes
from codec.error_objects import find_error
from codec.media import count_sound
from codec.members import list_of, object_of, string_of, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.delta_reader import Piece
    from codec.text.jsontext import JsonObject
    from codec.text.sse import ServerSentEvent
    from codec.text_fold import OpenText

__all__ = ("TRANSCRIBED", "RealtimeStream")

_SOUND: Final = frozenset({"response.output_audio.delta", "response.audio.delta"})

_TRANSCRIPT: Final = "response.audio.transcript"
_NAMES: Final = {
    f"{theirs}.{end}": f"{ours}.{end}"
    for theirs, ours in (
        ("response.output_audio_transcript", _TRANSCRIPT),
        ("response.audio_transcript", _TRANSCRIPT),
        ("response.text", "response.output_text"),
    )
    for end in ("delta", "done")
}
"""Names of events, and the names by which the fold knows them."""

TRANSCRIBED: Final = "conversation.item.input_audio_transcription.completed"
"""The event with the transcript of what the user said."""

_OF_TRANSCRIPT: Final[tuple[str, ...]] = ("item_id", "content_index", "transcript", "usage")


class RealtimeStream(MessageStream):
    r"""Reads the events of one response. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).
        rate: how many bytes a second of sound has, if the response does not say that itself.

    >>> stream = RealtimeStream()
    >>> stream.feed_message(b'{"type": "response.output_audio.delta", "delta": "aGVsbG8="}')
    >>> stream.finish().output_bytes
    5
    """

    __slots__ = ("_is_uncounted", "_rate", "_sound_bytes", "_transcriptions")

    names: ClassVar[frozenset[str]] = MessageStream.names | _NAMES.keys()

    def __init__(
        self,
        *,
        lend: Callable[[int], bool] | None = None,
        rate: int | None = None,
        **_of_other_apis: object,
    ) -> None:
        super().__init__(lend=lend)
        self._rate = rate
        self._sound_bytes = 0
        self._is_uncounted = False
        self._transcriptions: dict[str, JsonObject] = {}

    def feed_cut(self, kind: str) -> None:
        """Feed the type of an event that is too large to be read."""
        self._is_uncounted = self._is_uncounted or kind in _SOUND
        super().feed_cut(_NAMES.get(kind, kind))

    def finish(self) -> RealtimeAnswer:
        """End the stream and return what it said. Call it once."""
        said = super().finish()
        answer = RealtimeAnswer(**{name: getattr(said, name) for name in said.__struct_fields__})
        is_known = "observer_limit" not in said.anomalies and not self._is_uncounted
        size = self._sound_bytes if is_known and self._sound_bytes else None
        failed = answer.details.get("error")
        return msgspec.structs.replace(
            answer,
            output_bytes=size,
            audio_seconds=count_seconds(size, find_rate(said.body, "output") or self._rate),
            transcriptions=(*self._transcriptions.values(),),
            error=said.error or (find_error({"error": failed}) if failed else None),
        )

    def _read_delta(self, data: bytes) -> Piece | None:
        if (piece := super()._read_delta(data)) is None:
            return None
        kind, *rest = piece
        return (_NAMES.get(kind, kind), *rest)  # type: ignore[return-value]

    def _read_run(self, lines: Sequence[bytes], text: OpenText) -> list[str]:  # noqa: ARG002
        """Read no events together, because each comes in its own message."""
        return []

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:
        members = object_of(value)
        kind = text_of(members.get("type")) or ""
        if kind in _SOUND:
            self._count(string_of(members.get("delta")) or "")
            self.chunk_count += 1
            return
        if kind == TRANSCRIBED:
            self._keep_transcript(members)
            return
        if kind.startswith("conversation."):
            return  # it is about the request
        if kind in _NAMES:
            members["type"] = _NAMES[kind]
        if isinstance(item := members.get("item"), dict):
            members["item"], _ = take_sound(item)
        if isinstance(response := members.get("response"), dict):
            _complete(response, members)
        super()._feed_value(value, event)

    def _count(self, sound: str) -> None:
        self._sound_bytes += count_sound(sound)
        self._fold.has_content = self._fold.has_content or bool(sound)

    def _keep_transcript(self, event: JsonObject) -> None:
        """Keep the last transcript of an item; xAI sends it while the user still speaks."""
        kept: JsonObject = {name: event[name] for name in _OF_TRANSCRIPT if name in event}
        name = text_of(event.get("item_id")) or ""
        before = self._transcriptions.get(name)
        growth = size_bytes(kept) - (0 if before is None else size_bytes(before) + MEMBER_BYTES)
        if self.reserve(MEMBER_BYTES + growth):
            self._transcriptions[name] = kept


def _complete(response: JsonObject, event: JsonObject) -> None:
    """Give a response the usage that stands beside it, and take sound out of its items."""
    if not response.get("usage") and event.get("usage"):
        response["usage"] = event["usage"]
    output = response.get("output")
    if isinstance(output, list):
        response["output"] = [
            take_sound(item)[0] if isinstance(item, dict) else item for item in list_of(output)
        ]
