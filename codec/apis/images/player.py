"""The player of images: each image is one dot, whatever the prompt.

Images come in base64, or at a signed URL if ``response_format`` asks for that. Images at a URL name
the prompt that they were made of, as dall-e revises it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from codec.apis.event_player import FAILURE, EventPlayer, list_words, write_event
from codec.apis.faults import build_error
from codec.text.integers import index_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.apis.player import Player, Script
    from codec.asked import Asked
    from codec.text.jsontext import JsonObject

__all__ = ("PLAYER",)

_PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
"""An image of one dot."""

_MAX_IMAGES: Final = 10
_MAX_PARTIALS: Final = 3
"""OpenAI's own limits."""

_TOKENS: Final = 272
"""The tokens that OpenAI counts for a small image."""


def _find_fault(body: JsonObject) -> JsonObject | None:
    """The first thing wrong with a request, ``None`` for a good one; a variation has no prompt."""
    prompt = body.get("prompt")
    if not (isinstance(prompt, str) and prompt) and (prompt is not None or not body.get("image")):
        message = "Missing required parameter: 'prompt'."
        return build_error(message, param="prompt", code="missing_required_parameter")
    for name, least, most in (("n", 1, _MAX_IMAGES), ("partial_images", 0, _MAX_PARTIALS)):
        count = body.get(name)
        number = index_of(count)
        if count is not None and not (number is not None and least <= number <= most):
            message = f"Invalid '{name}': expected an integer from {least} to {most}."
            return build_error(message, param=name, code="invalid_value")
    return None


class _Performance:
    """Plays one answer."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, asked: Asked, script: Script) -> None:
        self._asked = asked
        self._script = script
        self._fails = script.answers[0].finish_reason == "error"
        self._head = {"background": "opaque", "output_format": "png"}
        self._head |= {"quality": "low", "size": "1024x1024"}

    def whole(self) -> bytes:
        """The body of the plain answer."""
        if self._fails:
            return json.dumps(FAILURE).encode()
        body: JsonObject = {"created": self._script.created}
        if self._asked.body.get("response_format") == "url":
            body["data"] = [*self._list_urls()]
        else:
            images = [{"b64_json": _PNG} for _ in self._script.answers]
            body |= {**self._head, "data": images, "usage": self._usage(len(images))}
        return json.dumps(body, ensure_ascii=False).encode()

    def _list_urls(self) -> Iterator[JsonObject]:
        for index, answer in enumerate(self._script.answers):
            url = f"https://images.invalid/{self._script.answer_id}-{index}.png?sig=demo"
            yield {"revised_prompt": "".join(list_words(answer)), "url": url}

    def stream(self) -> Iterator[Sequence[bytes]]:
        """The events: each image, after as many unfinished ones as ``partial_images`` asks for."""
        kind = "image_edit" if "/edits" in self._asked.path else "image_generation"
        head = {"created_at": self._script.created, **self._head}
        partials = index_of(self._asked.body.get("partial_images")) or 0
        for _ in self._script.answers:
            for index in range(partials):
                event: Any = {"b64_json": _PNG, "partial_image_index": index, **head}
                yield [write_event(f"{kind}.partial_image", event)]
            if self._fails:
                yield [write_event("error", FAILURE)]
                return
            event = {"b64_json": _PNG, **head, "usage": self._usage(1)}
            yield [write_event(f"{kind}.completed", event)]

    def _usage(self, images: int) -> JsonObject:
        read, made = self._script.prompt_tokens, _TOKENS * images
        return {
            "input_tokens": read,
            "input_tokens_details": {"image_tokens": 0, "text_tokens": read},
            "output_tokens": made,
            "output_tokens_details": {"image_tokens": made, "text_tokens": 0},
            "total_tokens": read + made,
        }


PLAYER: Final[Player] = EventPlayer(find_fault=_find_fault, perform=_Performance)
