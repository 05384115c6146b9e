"""Images that were made, and what that took (``docs/contract/apis.md#images``).

Rules:

1. Base64 that is long is replaced by its length (:mod:`codec.text.base64_text`).
2. The query of a URL signs it: who has it has the image, for an hour. It is cut off.
3. All images are one message; the prompt that one was made of in the end comes before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.bodies import decode_response_object
from codec.call import Answer, Ending, Message, Said
from codec.cost import decode_cost
from codec.error_objects import find_error
from codec.members import list_of, object_of, text_of
from codec.parts import MAX_READ_PARTS, Media, Text
from codec.text.base64_text import MAX_KEPT_CHARS, find_image_type, shorten_base64
from codec.text.integers import count_of
from codec.usage import decode_token_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.call import ErrorObject
    from codec.parts import Part
    from codec.text.jsontext import JsonObject

__all__ = ("ImageAnswer", "make_images", "read_images", "reduce_image")

_DEFAULT_TYPE: Final = "image/png"
"""The type that dall-e makes, and gpt-image where nobody says otherwise."""


class ImageAnswer(Said, frozen=True, kw_only=True):
    """Images.

    Attributes:
        wanted: how many were asked for, where the answer is a stream.
    """

    wanted: int = 1

    @property
    def images(self) -> Sequence[Any]:
        """The images as they came."""
        return list_of(self.body.get("data"))

    def read_answers(self) -> Sequence[Answer]:
        """Read the one message (rule 3)."""
        form = text_of(self.body.get("output_format"))
        parts = [part for item in self.images for part in _read_image(object_of(item), form)]
        if not parts:
            return ()
        count = len(parts) if len(parts) > MAX_READ_PARTS else 0
        message = Message("assistant", tuple(parts[:MAX_READ_PARTS]), part_count=count)
        return (Answer(index=0, message=message),)

    def ending(self, *, streamed: bool) -> Ending:
        """Whole with all images that were asked for; a plain answer with its list."""
        if not streamed:
            is_answer = isinstance(self.body.get("data"), list)
            return Ending.COMPLETE if is_answer else Ending.STOPPED
        count = len(self.images)
        if count >= self.wanted:
            return Ending.COMPLETE
        return Ending.STOPPED if count and not self.is_cut_off else Ending.OPEN


def _read_image(item: JsonObject, form: str | None) -> Iterator[Part]:
    """The parts that an image is (rule 3)."""
    if (prompt := text_of(item.get("revised_prompt"))) is not None:
        yield Text(prompt)
    url, data = text_of(item.get("url")), text_of(item.get("b64_json"))
    if url is None and data is not None and len(data) <= MAX_KEPT_CHARS and data[0] != "<":
        named = text_of(item.get("mime_type")) or (f"image/{form}" if form else None)
        url = f"data:{named or find_image_type(data) or _DEFAULT_TYPE};base64,{data}"
    if url is not None or data is not None:
        yield Media(kind="image", url=url)


def read_images(body: bytes) -> ImageAnswer:
    """Read the body of an answer, one that reports an error included.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    value = decode_response_object(body)
    for item in list_of(value.get("data")):
        reduce_image(object_of(item))
    error = find_error(value)
    is_answer = isinstance(value.get("data"), list)
    odd = () if is_answer or error is not None else ("foreign_chunk",)
    return make_images(value, error=error, anomalies=odd)


def reduce_image(item: JsonObject) -> None:
    """Remove from an image, in place, what is too long and what signs it (rules 1 and 2)."""
    shorten_base64(item)
    url = text_of(item.get("url"))
    if url is not None and url[:5].lower() != "data:":
        address, mark, _ = url.partition("?")
        item["url"] = f"{address}?REDACTED" if mark else url


def make_images(
    body: JsonObject,
    *,
    error: ErrorObject | None = None,
    anomalies: Sequence[str] = (),
    partial_images: int | None = None,
    wanted: int = 1,
) -> ImageAnswer:
    """Make an answer of its JSON object."""
    usage = decode_token_usage(body.get("usage"))
    odd = () if usage is None else usage.anomalies
    return ImageAnswer(
        model=text_of(body.get("model")),
        created=count_of(body.get("created")),
        usage=usage,
        cost=decode_cost(object_of(body.get("usage")), body),
        error=error,
        partial_images=partial_images,
        anomalies=(*anomalies, *odd),
        body=body,
        wanted=wanted,
    )
