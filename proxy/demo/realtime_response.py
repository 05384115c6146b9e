"""A response of the demo upstream's Realtime sessions, as the events that OpenAI's servers send.

A response says its answer as text, or as sound with its transcript: each word is 10 ms of silence.
A word is a token, and so is its sound. Items and events have the names that they have had since the
beta of the API ended.
"""

from __future__ import annotations

from base64 import b64encode
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any, Final

from codec.members import list_of, object_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codec.apis.player import Script
    from codec.asked import Asked
    from codec.generator import Delta
    from codec.text.jsontext import JsonObject

_FAILURE: Final = {
    "type": "server_error",
    "code": "server_error",
    "message": "The demo model was asked to fail, and did.",
}
_G711: Final = frozenset({"audio/pcmu", "audio/pcma"})


def find_rate(settings: JsonObject, side: str) -> int:
    """Find the bytes of sound a second: of G.711, or of samples of 16 bits.

    Args:
        settings: of a session, or of a response.
        side: ``input`` or ``output``.
    """
    form = object_of(object_of(object_of(settings.get("audio")).get(side)).get("format"))
    return 8_000 if form.get("type") in _G711 else 48_000


class RealtimeResponse:
    """Plays one response.

    Args:
        asked: the request: the settings of the session, what the client asked for, and as its
            ``input`` the items of the conversation.
        script: what it says.
        heard_tokens: how many tokens the sound in its input is.
        error: why it fails at once; ``None`` for one that does not.
    """

    def __init__(
        self, asked: Asked, script: Script, *, heard_tokens: int, error: JsonObject | None = None
    ) -> None:
        body = asked.body
        self._script = script
        self._heard_tokens = heard_tokens
        self._error = error
        modalities = list_of(body.get("output_modalities")) or ["audio"]
        self._speaks = modalities != ["text"]
        self._sound = b64encode(bytes(find_rate(body, "output") // 100)).decode()
        self._text_tokens = self._sound_tokens = 0
        self._is_cancelled = False
        self._output: list[JsonObject] = []
        self._response: JsonObject = {
            "object": "realtime.response",
            "id": f"resp_{script.answer_id}",
            "status": "in_progress",
            "status_details": None,
            "output": self._output,
            "conversation_id": body.get("conversation_id"),
            "output_modalities": modalities,
            "max_output_tokens": body.get("max_output_tokens") or "inf",
            "audio": {"output": object_of(object_of(body.get("audio")).get("output"))},
            "usage": None,
            "metadata": body.get("metadata"),
        }

    @property
    def id(self) -> str:
        """The id of the response."""
        return str(self._response["id"])

    def cancel(self) -> None:
        """Say nothing more: the events that end what has begun are all that follows."""
        self._is_cancelled = True

    def play(self) -> Iterator[JsonObject]:
        """The events, up to ``response.done``."""
        yield {"type": "response.created", "response": self._response | {"output": []}}
        [answer] = self._script.answers
        said = [] if self._error else [it for it in answer.deltas if it.reasoning is None]
        for call, deltas in groupby(said, key=lambda it: it.call and it.call.index):
            words = [*deltas]  # a group is read once
            if not self._is_cancelled:
                yield from self._say(words) if call is None else self._call(words)
        status, details = self._find_status(answer.finish_reason)
        self._response |= {"status": status, "status_details": details, "usage": self._count()}
        yield {"type": "response.done", "response": self._response}

    def _find_status(self, finish_reason: str | None) -> tuple[str, JsonObject | None]:
        if self._is_cancelled:
            return "cancelled", {"type": "cancelled", "reason": "client_cancelled"}
        if self._error is not None or finish_reason == "error":
            return "failed", {"type": "failed", "error": self._error or _FAILURE}
        if finish_reason == "length":
            return "incomplete", {"type": "incomplete", "reason": "max_output_tokens"}
        return "completed", None

    def _count(self) -> JsonObject:
        script = self._script
        read = script.prompt_tokens + self._heard_tokens
        said = self._text_tokens + self._sound_tokens
        cached = {"text_tokens": script.cached_tokens, "audio_tokens": 0, "image_tokens": 0}
        return {
            "total_tokens": read + said,
            "input_tokens": read,
            "output_tokens": said,
            "input_token_details": {
                "text_tokens": script.prompt_tokens,
                "audio_tokens": self._heard_tokens,
                "image_tokens": 0,
                "cached_tokens": script.cached_tokens,
                "cached_tokens_details": cached,
            },
            "output_token_details": {
                "text_tokens": self._text_tokens,
                "audio_tokens": self._sound_tokens,
            },
        }

    def _take(self, deltas: Iterable[Delta]) -> Iterator[Delta]:
        """Take deltas, and count them, until somebody cancels the response."""
        for delta in takewhile(lambda _: not self._is_cancelled, deltas):
            self._text_tokens += delta.tokens
            yield delta

    def _item(self, kind: str, **members: Any) -> tuple[JsonObject, JsonObject]:
        """Begin an item; return it, and where events say that it is."""
        index = len(self._output)
        item: JsonObject = {
            "id": f"item_{self._script.answer_id[:24]}{index}",
            "object": "realtime.item",
            "type": kind,
            "status": "in_progress",
            **members,
        }
        self._output.append(item)
        return item, {"response_id": self.id, "item_id": item["id"], "output_index": index}

    def _item_event(self, step: str, item: JsonObject) -> JsonObject:
        place = {"response_id": self.id, "output_index": len(self._output) - 1}
        return {"type": f"response.output_item.{step}", **place, "item": dict(item)}

    def _end_item(self, item: JsonObject, **members: Any) -> JsonObject:
        item |= {"status": "incomplete" if self._is_cancelled else "completed", **members}
        return self._item_event("done", item)

    def _say(self, deltas: Sequence[Delta]) -> Iterator[JsonObject]:
        item, own = self._item("message", role="assistant", content=[])
        place = own | {"content_index": 0}
        kind, member = ("audio", "transcript") if self._speaks else ("text", "text")
        name = "response.output_audio_transcript" if self._speaks else "response.output_text"
        yield self._item_event("added", item)
        part = {"type": kind, member: ""}
        yield {"type": "response.content_part.added", **place, "part": part}
        text = ""
        for delta in self._take(deltas):
            word = delta.content or delta.refusal or ""
            text += word
            yield {"type": f"{name}.delta", **place, "delta": word}
            if self._speaks:
                self._sound_tokens += 1
                yield {"type": "response.output_audio.delta", **place, "delta": self._sound}
        if self._speaks:
            yield {"type": "response.output_audio.done", **place}
        yield {"type": f"{name}.done", **place, member: text}
        yield {"type": "response.content_part.done", **place, "part": part | {member: text}}
        yield self._end_item(item, content=[{"type": f"output_{kind}", member: text}])

    def _call(self, deltas: Sequence[Delta]) -> Iterator[JsonObject]:
        first, *rest = [delta.call for delta in self._take(deltas) if delta.call is not None]
        name = {"name": first.name or "", "call_id": first.id}
        item, own = self._item("function_call", **name, arguments="")
        yield self._item_event("added", item)
        place = own | {"call_id": first.id}
        for fragment in rest:
            piece = {"delta": fragment.arguments}
            yield {"type": "response.function_call_arguments.delta", **place, **piece}
        arguments = "".join(fragment.arguments for fragment in rest)
        said = {"name": first.name, "arguments": arguments}
        yield {"type": "response.function_call_arguments.done", **place, **said}
        yield self._end_item(item, arguments=arguments)
