"""An answer of a Realtime session: messages in, :class:`RealtimeAnswer` out.

The beta of the API has other names for the same events, and Azure and gateways still send them. All
are read under the names by which the fold of the Responses API knows them. xAI gives the usage
beside the response instead of within it. Within, it has an empty object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from codec.apis.realtime.said import RealtimeAnswer
from codec.apis.realtime.sound import (
    count_seconds,
    find_rate,
    make_sound,
    name_format,
    put_sound,
    take_sound,
)
from codec.apis.responses.stream import MessageStream
from codec.budget import MEMBER_BYTES, size_bytes
from codec.error_objects import find_error
from codec.kept_sound import MAX_SOUND_BYTES, KeptSound
from codec.media import count_sound
from codec.members import list_of, object_of, string_of, text_of
from codec.text.integers import index_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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

_PART_BYTES: Final = 1_024
"""The room of a sound before anything of it came."""

_OF_TRANSCRIPT: Final[tuple[str, ...]] = ("item_id", "content_index", "transcript", "usage")


class RealtimeStream(MessageStream):
    r"""Reads the events of one response. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).
        rate: how many bytes a second of sound has, if the response does not say that itself.
        keeps_sound: what the model says is kept as sound, too, in the part that it belongs to.
        form: the format of sound, likewise (:func:`~codec.apis.realtime.sound.name_format`).

    >>> stream = RealtimeStream()
    >>> stream.feed_message(b'{"type": "response.output_audio.delta", "delta": "aGVsbG8="}')
    >>> stream.finish().output_bytes
    5
    """

    __slots__ = ("_form", "_is_uncounted", "_kept", "_rate", "_sound_bytes", "_transcriptions")

    names: ClassVar[frozenset[str]] = MessageStream.names | _NAMES.keys()

    def __init__(
        self,
        *,
        lend: Callable[[int], bool] | None = None,
        rate: int | None = None,
        keeps_sound: bool = False,
        form: str | None = None,
        **_of_other_apis: object,
    ) -> None:
        super().__init__(lend=lend)
        self._rate = rate
        self._form = form
        self._sound_bytes = 0
        self._is_uncounted = False
        self._kept: dict[tuple[str | int, int], KeptSound] | None = {} if keeps_sound else None
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
            body=self._join_sound(said.body) if self._kept else said.body,
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
            self._keep_sound(members)
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

    def _keep_sound(self, event: JsonObject) -> None:
        """Keep a piece of sound; of all parts together as much as of one sound."""
        if self._kept is None:
            return
        item = text_of(event.get("item_id")) or index_of(event.get("output_index")) or 0
        key = item, index_of(event.get("content_index")) or 0
        if key not in self._kept:
            if not self.reserve(_PART_BYTES):
                return
            limit_bytes = MAX_SOUND_BYTES - sum(map(len, self._kept.values()))
            self._kept[key] = KeptSound(limit_bytes=limit_bytes, reserve=self.reserve)
        self._kept[key].add(string_of(event.get("delta")) or "")

    def _join_sound(self, body: Mapping[str, Any]) -> JsonObject:
        """Put the sound into the items of the answer."""
        output = [*list_of(body.get("output"))]
        named = {text_of(object_of(item).get("id")): at for at, item in enumerate(output)}
        form = name_format(body, "output") or self._form
        for (item, part), kept in (self._kept or {}).items():
            at = item if isinstance(item, int) else named.get(item)
            if at is not None and at < len(output):
                output[at] = put_sound(output[at], make_sound(kept, form), part)
        return {**body, "output": output}

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
