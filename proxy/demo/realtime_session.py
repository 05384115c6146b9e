"""A Realtime session of the demo upstream: settings, a conversation, and one response at a time.

It takes each message of the client, and gives what the server answers. A response is asked for:
nobody listens for a pause in the user's sound, and what the user says is always understood as
:data:`HEARD`.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from codec.apis.faults import build_error
from codec.members import list_of, object_of, string_of, text_of
from codec.text.jsontext import decode_json_object
from proxy.demo.realtime_response import find_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codec.text.jsontext import JsonObject
    from proxy.demo.realtime_response import RealtimeResponse

HEARD: Final = "Hello, who are you?"
"""The transcript of whatever the user says."""

MAX_ITEMS: Final = 1_000
"""The most items of a conversation; the oldest ones are forgotten."""

MAX_RESPONSES: Final = 8
"""The most responses at once; only one of them belongs to the conversation."""

_TOKENS_A_SECOND: Final = 10
"""Tokens of the user's sound, as OpenAI counts them."""

_LEAST_SECONDS: Final = 0.1
"""The shortest sound that OpenAI takes for an item."""

_SETTINGS: Final[JsonObject] = {
    "type": "realtime",
    "object": "realtime.session",
    "output_modalities": ["audio"],
    "instructions": "You are a friendly guide.",
    "tools": [],
    "tool_choice": "auto",
    "max_output_tokens": "inf",
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24_000},
            "transcription": None,
            "noise_reduction": None,
            "turn_detection": None,
        },
        "output": {"format": {"type": "audio/pcm", "rate": 24_000}, "voice": "alloy", "speed": 1.0},
    },
}


class _RefusedError(Exception):
    """A message that cannot be obeyed."""

    def __init__(self, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.error = build_error(message, code=code, param=param)["error"]


class RealtimeSession:
    """The session of a connection.

    Args:
        name: makes its ids unique.
        model: the one that the handshake names.
        perform: begins the response to a request, whose ``input`` is the conversation so far; with
            the number of tokens that the user's sound in it is.
    """

    def __init__(
        self, name: str, model: str, perform: Callable[[JsonObject, int], RealtimeResponse]
    ) -> None:
        self._perform = perform
        self._name = name
        self._settings = {**_SETTINGS, "id": f"sess_{name}", "model": model}
        self._items: dict[str, JsonObject] = {}  # in their order, by their ids
        self._sound_bytes: dict[str, int] = {}  # by the id of the item that it is in
        self._buffered_bytes = 0
        self._numbers = count()
        self._open: list[RealtimeResponse] = []
        self._active: RealtimeResponse | None = None  # the one that belongs to the conversation

    def begin(self) -> JsonObject:
        """The first message of the server."""
        return {"type": "session.created", "session": self._settings}

    def read(self, text: str) -> tuple[list[JsonObject], Iterator[JsonObject] | None]:
        """Read a message of the client.

        Returns:
            The events that answer it at once, and those of the response that it asked for.
        """
        event: JsonObject = {}
        try:
            event = _decode(text)
            if event.get("type") == "response.create":
                return [], self._respond(object_of(event.get("response")))
            return [*self._obey(event)], None
        except _RefusedError as refused:
            error = refused.error | {"event_id": event.get("event_id")}
            return [{"type": "error", "error": error}], None

    def _obey(self, event: JsonObject) -> Iterator[JsonObject]:
        kind = string_of(event.get("type"))
        if kind == "session.update":
            self._settings = _merge(self._settings, object_of(event.get("session")))
            yield {"type": "session.updated", "session": self._settings}
        elif kind == "conversation.item.create":
            yield from self._create(event)
        elif kind in {"conversation.item.retrieve", "conversation.item.delete"}:
            item = self._find(event)
            if kind == "conversation.item.retrieve":
                yield {"type": "conversation.item.retrieved", "item": item}
                return
            self._forget(item["id"])
            yield {"type": "conversation.item.deleted", "item_id": item["id"]}
        elif kind == "conversation.item.truncate":
            item_id = self._find(event)["id"]
            place = {name: event.get(name, 0) for name in ("content_index", "audio_end_ms")}
            yield {"type": "conversation.item.truncated", "item_id": item_id, **place}
        elif kind == "input_audio_buffer.append":
            self._buffered_bytes += _count_sound(event.get("audio"))
        elif kind == "input_audio_buffer.clear":
            self._buffered_bytes = 0
            yield {"type": "input_audio_buffer.cleared"}
        elif kind == "input_audio_buffer.commit":
            yield from self._commit()
        elif kind == "response.cancel":
            self._cancel(text_of(event.get("response_id")))
        else:
            message = f"Invalid value: '{kind}'. The demo upstream knows no such event."
            raise _RefusedError(message, "invalid_value", "type")

    def _create(self, event: JsonObject) -> Iterator[JsonObject]:
        given = event.get("item")
        if not isinstance(given, dict) or not isinstance(given.get("type"), str):
            message = "Missing required parameter: 'item.type'."
            raise _RefusedError(message, "missing_required_parameter", "item")
        after = text_of(event.get("previous_item_id"))
        if after not in {None, "root", *self._items}:
            message = f"Item with item_id '{after}' not found."
            raise _RefusedError(message, "item_create_invalid_previous_item_id")
        item_id = text_of(given.get("id")) or self._new_id()
        parts = [_without_sound(part) for part in list_of(given.get("content"))]
        sound = sum(size for _, size in parts)
        item = {"object": "realtime.item", "status": "completed", **given, "id": item_id}
        if parts:
            item["content"] = [part for part, _ in parts]
        yield from self._add(item, after, sound_bytes=sound)

    def _commit(self) -> Iterator[JsonObject]:
        """Make an item of the sound that came."""
        size, seconds = self._buffered_bytes, self._buffered_bytes / self._rate()
        if seconds < _LEAST_SECONDS:
            message = (
                "Error committing input audio buffer: buffer too small. Expected at least 100ms of "
                f"audio, but buffer only has {seconds * 1000:.2f}ms of audio."
            )
            raise _RefusedError(message, "input_audio_buffer_commit_empty")
        self._buffered_bytes = 0
        item_id, previous = self._new_id(), self._last_id()
        named = {"previous_item_id": previous, "item_id": item_id}
        yield {"type": "input_audio_buffer.committed", **named}
        item: JsonObject = {"id": item_id, "object": "realtime.item", "type": "message"}
        said = {"type": "input_audio", "transcript": None}
        item |= {"status": "completed", "role": "user", "content": [said]}
        yield from self._add(item, None, sound_bytes=size)
        if object_of(object_of(self._settings["audio"]).get("input")).get("transcription"):
            item["content"] = [said | {"transcript": HEARD}]
            place = {"item_id": item_id, "content_index": 0}
            kind = "conversation.item.input_audio_transcription"
            yield {"type": f"{kind}.delta", **place, "delta": HEARD}
            usage = {"type": "duration", "seconds": round(seconds, 3)}
            yield {"type": f"{kind}.completed", **place, "transcript": HEARD, "usage": usage}

    def _cancel(self, response_id: str | None) -> None:
        for response in self._open:
            if response is self._active if response_id is None else response.id == response_id:
                response.cancel()
                return
        message = "Cancellation failed: no active response found"
        raise _RefusedError(message, "response_cancel_not_active")

    def _respond(self, asked: JsonObject) -> Iterator[JsonObject]:
        """Begin a response; its settings count before those of the session."""
        is_outside = asked.get("conversation") == "none"
        if (self._active and not is_outside) or len(self._open) == MAX_RESPONSES:
            message = "Conversation already has an active response in progress."
            raise _RefusedError(message, "conversation_already_has_active_response")
        body = _merge(self._settings, asked)
        given = asked.get("input")
        if isinstance(given, list):
            items = [it for it in given if isinstance(it, dict)]
            body["input"] = [self._items.get(str(it.get("id")), it) for it in items]
        else:
            body["input"] = [*self._items.values()]
        if body.get("max_output_tokens") == "inf":
            del body["max_output_tokens"]
        body["conversation_id"] = None if is_outside else f"conv_{self._name}"
        heard = sum(self._sound_bytes.get(str(it.get("id")), 0) for it in body["input"])
        response = self._perform(body, round(_TOKENS_A_SECOND * heard / self._rate()))
        self._open.append(response)
        if not is_outside:
            self._active = response
        return self._play(response, is_outside=is_outside)

    def _play(self, response: RealtimeResponse, *, is_outside: bool) -> Iterator[JsonObject]:
        """Play a response, whose items become part of the conversation."""
        for event in response.play():
            kind = event["type"]
            if kind == "response.done":  # the next one may be asked for when this is heard
                self._open.remove(response)
                self._active = None if self._active is response else self._active
            if kind == "response.output_item.done" and not is_outside:
                self._items[event["item"]["id"]] = event["item"]
                yield {"type": "conversation.item.done", "item": event["item"]}
            yield event
            if kind == "response.output_item.added" and not is_outside:
                yield self._put(event["item"], None)
        limit = {"name": "tokens", "limit": 1_000_000, "remaining": 999_000, "reset_seconds": 0.06}
        yield {"type": "rate_limits.updated", "rate_limits": [limit]}

    def _add(
        self, item: JsonObject, after: str | None, *, sound_bytes: int
    ) -> Iterator[JsonObject]:
        """Add an item that is there at once."""
        if sound_bytes:
            self._sound_bytes[item["id"]] = sound_bytes
        added = self._put(item, after)
        yield added
        yield added | {"type": "conversation.item.done"}

    def _put(self, item: JsonObject, after: str | None) -> JsonObject:
        """Put an item behind another one, or behind all; return the event that says so."""
        previous = after or self._last_id()
        items = [it for it in self._items.items() if it[0] != item["id"]]
        names = [name for name, _ in items]
        at = names.index(previous) + 1 if previous in names else 0
        items.insert(at, (item["id"], item))
        self._items = dict(items)
        while len(self._items) > MAX_ITEMS:
            self._forget(next(iter(self._items)))
        before = names[at - 1] if at else None
        return {"type": "conversation.item.added", "previous_item_id": before, "item": item}

    def _find(self, event: JsonObject) -> JsonObject:
        item_id, verb = event.get("item_id"), str(event["type"]).rpartition(".")[2]
        if (item := self._items.get(str(item_id))) is None:
            message = f"Error: item with item_id '{item_id}' not found."
            raise _RefusedError(message, f"item_{verb}_invalid_item_id")
        return item

    def _forget(self, item_id: str) -> None:
        self._items.pop(item_id, None)
        self._sound_bytes.pop(item_id, None)

    def _last_id(self) -> str | None:
        return next(reversed(self._items), None)

    def _new_id(self) -> str:
        return f"item_user{self._name[:20]}{next(self._numbers)}"

    def _rate(self) -> int:
        return find_rate(self._settings, "input")


def _decode(text: str) -> JsonObject:
    try:
        return decode_json_object(text.encode())
    except ValueError:
        raise _RefusedError("We could not parse the JSON body of your message.") from None


def _merge(into: JsonObject, members: JsonObject) -> JsonObject:
    """Merge settings; a null says that there is no such setting."""
    merged = dict(into)
    for name, value in members.items():
        known: Any = merged.get(name)
        both = isinstance(known, dict) and isinstance(value, dict)
        merged[name] = _merge(known, value) if both else value
    return merged


def _without_sound(part: Any) -> tuple[Any, int]:
    """Return a part of an item without its sound, and the size of that."""
    if not isinstance(part, dict) or "audio" not in part:
        return part, 0
    kept = {name: value for name, value in part.items() if name != "audio"}
    return {"transcript": None, **kept}, _count_sound(part["audio"])


def _count_sound(base64: Any) -> int:
    """Count the bytes that a text is base64 of."""
    return len((string_of(base64) or "").rstrip("=")) * 3 // 4
