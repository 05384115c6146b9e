r"""Images in events: bytes in, an answer as a plain one has it out.

Rules, beside those of :mod:`codec.typed_stream`:

1. Images that are not finished are counted and not kept.
2. What a finished one says of all of them stands beside the list, as in a plain answer; of several
   usages the last one counts, member by member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codec.apis.images.said import make_images, reduce_image
from codec.budget import Budget, size_bytes
from codec.text.base64_text import shorten_base64_text
from codec.typed_stream import MAX_ANSWER_BYTES, TypedFold, TypedStream
from codec.usage_fold import UsageFold

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.apis.images.said import ImageAnswer
    from codec.text.jsontext import JsonObject

__all__ = ("ImageStream",)

_PARTIALS: Final = frozenset({"image_generation.partial_image", "image_edit.partial_image"})
_FINISHED: Final = frozenset({"image_generation.completed", "image_edit.completed"})
_OF_ALL: Final = {
    "created_at": "created",
    "background": "background",
    "output_format": "output_format",
    "quality": "quality",
    "size": "size",
}
"""Members of an event to those of a plain answer."""


class _ImageFold(TypedFold):
    """Folds the events of one stream."""

    def __init__(self, budget: Budget, wanted: int) -> None:
        super().__init__(budget)
        self._wanted = wanted
        self._partial_count = 0
        self._usage = UsageFold()
        self._body: JsonObject = {}
        self._images: list[JsonObject] = []

    def _fold_event(self, kind: str, event: JsonObject) -> None:
        if kind in _PARTIALS:
            self._partial_count += 1
            self.has_content = True
        elif kind in _FINISHED:
            self._finish_image(event)

    def _finish_image(self, event: JsonObject) -> None:
        self._usage.feed(event.pop("usage", None))
        reduce_image(event)
        if not self.budget.reserve(size_bytes(event)):
            event = {}
        event.pop("type", None)
        for name, plain in _OF_ALL.items():
            if name in event:
                self._body[plain] = event.pop(name)
        self._images.append(event)
        self.has_content = True
        self.is_complete = len(self._images) >= self._wanted

    def answer(self) -> ImageAnswer:
        """The answer as it stands."""
        body = dict(self._body)
        if self._images:
            body["data"] = self._images
        if self._usage.raw:
            body["usage"] = self._usage.raw
        return make_images(
            body,
            error=self.error,
            anomalies=self.anomalies,
            partial_images=self._partial_count,
            wanted=self._wanted,
        )


class ImageStream(TypedStream[_ImageFold]):
    r"""Reads one stream. Not safe for concurrent calls.

    Args:
        choice_count: how many images were asked for.
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).

    >>> stream = ImageStream()
    >>> stream.feed(b'data: {"type": "image_edit.partial_image", "b64_json": "AAAA"}\n\n')
    >>> stream.feed(b'data: {"type": "image_edit.completed", "b64_json": "BBBB"}\n\n')
    >>> stream.is_complete, stream.finish().body
    (True, {'data': [{'b64_json': 'BBBB'}]})
    """

    __slots__ = ()

    def __init__(
        self,
        *,
        choice_count: int = 1,
        lend: Callable[[int], bool] | None = None,
        **_of_other_apis: object,
    ) -> None:
        fold = _ImageFold(Budget(MAX_ANSWER_BYTES, lend), choice_count)
        super().__init__(fold, shorten_base64_text)
