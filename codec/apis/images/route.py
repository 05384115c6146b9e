"""Images: requests for them, and what was made (``docs/contract/apis.md#images``).

Long base64 is replaced by its length (:mod:`codec.text.base64_text`). All images form one message.

The stream keeps the rules of :mod:`codec.typed_stream`. Members of a finished image that are about
all images stand beside the list, as in a plain answer. If several events report usage, the last
value of each member counts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from codec.apis.api import Api, load_player
from codec.bodies import FormRequest, decode_response_object
from codec.budget import Budget, size_bytes
from codec.cost import decode_cost
from codec.error_objects import find_error
from codec.members import list_of, object_of, text_of
from codec.parts import MAX_READ_PARTS, Media, Message, Text
from codec.said import Answer, Ending, Said
from codec.text.base64_text import (
    MAX_KEPT_CHARS,
    TakenPictures,
    find_image_type,
    shorten_base64_text,
)
from codec.text.integers import count_of
from codec.typed_stream import MAX_ANSWER_BYTES, TypedFold, TypedStream
from codec.usage import decode_token_usage
from codec.usage_fold import UsageFold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codec.parts import Part
    from codec.said import ErrorObject
    from codec.text.jsontext import JsonObject

__all__ = ("IMAGES", "ImageStream")

_IMAGES: Final = frozenset({"image", "image[]", "images"})
"""Members with images that are to be edited or varied."""

_MEDIA: Final = _IMAGES | {"mask"}


class ImageRequest(FormRequest, frozen=True, gc=False):
    """A request for images."""

    content_members: ClassVar[frozenset[str]] = frozenset({"prompt", *_MEDIA})
    server_members: ClassVar[frozenset[str]] = _MEDIA  # URLs, which may be signed

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for images; ``None`` if it is one."""
        prompt = self.body.get("prompt")
        if prompt is None and _IMAGES.isdisjoint(self.body):
            return "there is neither a prompt nor an image"
        return None if isinstance(prompt, str | None) else "prompt is not text"

    @property
    def choice_count(self) -> int:
        """The number of images asked for, at least one."""
        return count_of(self.options.get("n")) or 1

    @property
    def parameters(self) -> Mapping[str, Any]:
        """All members but the prompt, including images and what is known of files.

        See ``docs/contract/apis.md#images``.
        """
        return {name: value for name, value in self.body.items() if name != "prompt"}

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters, and that the answer is an image."""
        return {**super().options, "modalities": ["image"]}

    def read_messages(self) -> Sequence[Message]:
        """Read one message, with the prompt; a variation has none."""
        prompt = text_of(self.body.get("prompt"))
        return () if prompt is None else (Message("user", prompt),)


_DEFAULT_TYPE: Final = "image/png"
"""The type that dall-e makes, and gpt-image by default."""


class ImageAnswer(Said, frozen=True, kw_only=True):
    """Images.

    Attributes:
        wanted: how many were asked for, if the answer is a stream.
    """

    wanted: int = 1

    @property
    def images(self) -> Sequence[Any]:
        """The images as they came."""
        return list_of(self.body.get("data"))

    def read_answers(self) -> Sequence[Answer]:
        """Read the one message, with all images."""
        form = text_of(self.body.get("output_format"))
        parts = [part for item in self.images for part in _read_image(object_of(item), form)]
        if not parts:
            return ()
        count = len(parts) if len(parts) > MAX_READ_PARTS else 0
        message = Message("assistant", tuple(parts[:MAX_READ_PARTS]), part_count=count)
        return (Answer(index=0, message=message),)

    def ending(self, *, streamed: bool) -> Ending:
        """Tell how far the answer came.

        A stream is complete with all images that were asked for, a plain answer with its list.
        """
        if not streamed:
            is_answer = isinstance(self.body.get("data"), list)
            return Ending.COMPLETE if is_answer else Ending.STOPPED
        count = len(self.images)
        if count >= self.wanted:
            return Ending.COMPLETE
        return Ending.STOPPED if count and not self.is_cut_off else Ending.OPEN


def _read_image(item: JsonObject, form: str | None) -> Iterator[Part]:
    """Yield the parts of an image: the revised prompt that it was made of, then the image."""
    if (prompt := text_of(item.get("revised_prompt"))) is not None:
        yield Text(prompt)
    url, data = text_of(item.get("url")), text_of(item.get("b64_json"))
    if url is None and data is not None and len(data) <= MAX_KEPT_CHARS and data[0] != "<":
        named = text_of(item.get("mime_type")) or (f"image/{form}" if form else None)
        url = f"data:{named or find_image_type(data) or _DEFAULT_TYPE};base64,{data}"
    if url is not None or data is not None:
        yield Media(kind="image", url=url, shortened=data if url is None else None)


def _read_images(body: bytes, pictures: TakenPictures | None = None) -> ImageAnswer:
    """Read the body of an answer, or of an error; `pictures` gets those that are taken out.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    value = decode_response_object(body)
    pictures = TakenPictures() if pictures is None else pictures
    for item in list_of(value.get("data")):
        _reduce_image(object_of(item), pictures)
    error = find_error(value)
    is_answer = isinstance(value.get("data"), list)
    odd = () if is_answer or error is not None else ("foreign_chunk",)
    return _make_images(value, error=error, anomalies=odd)


def _reduce_image(item: JsonObject, pictures: TakenPictures) -> None:
    """Remove long base64 and the query of the URL from an image, in place.

    The query signs the URL: for an hour it lets anybody load the image.
    """
    pictures.shorten(item)
    url = text_of(item.get("url"))
    if url is not None and url[:5].lower() != "data:":
        address, mark, _ = url.partition("?")
        item["url"] = f"{address}?REDACTED" if mark else url


def _make_images(
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


_PARTIALS: Final = frozenset({"image_generation.partial_image", "image_edit.partial_image"})
_FINISHED: Final = frozenset({"image_generation.completed", "image_edit.completed"})
_OF_ALL: Final = {
    "created_at": "created",
    "background": "background",
    "output_format": "output_format",
    "quality": "quality",
    "size": "size",
}
"""Members of an event, and what a plain answer calls them."""


class _ImageFold(TypedFold):
    """Folds the events of one stream. Unfinished images are counted, and not kept."""

    def __init__(self, budget: Budget, wanted: int, pictures: TakenPictures) -> None:
        super().__init__(budget)
        self._pictures = pictures
        self._wanted = wanted
        self._partial_count = 0
        self._usage = UsageFold()
        self._body: JsonObject = {}
        self._images: list[JsonObject] = []

    def _fold_event(self, kind: str, event: JsonObject) -> None:
        if kind in _PARTIALS:
            self._partial_count += 1
            self._pictures.drop(event)
            self.has_content = True
        elif kind in _FINISHED:
            self._finish_image(event)

    def _finish_image(self, event: JsonObject) -> None:
        self._usage.feed(event.pop("usage", None))
        _reduce_image(event, self._pictures)
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
        return _make_images(
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
        pictures: gets the pictures that are taken out.

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
        pictures: TakenPictures | None = None,
        **_of_other_apis: object,
    ) -> None:
        pictures = TakenPictures() if pictures is None else pictures
        fold = _ImageFold(Budget(MAX_ANSWER_BYTES, lend), choice_count, pictures)
        super().__init__(fold, pictures.shorten_text)


IMAGES = Api(
    name="images",
    path_ends=("/images/generations", "/images/edits", "/images/variations", "/images"),
    operation="image_generation",
    span_name="ImagesResponse",
    noun="image",
    gives_reason=False,
    quoted_lists=frozenset({"data"}),
    quoted_item_members=frozenset({"revised_prompt"}),
    takes_forms=True,
    asked=ImageRequest,
    open_stream=ImageStream,
    read_said=_read_images,
    open_pictured=ImageStream,
    read_pictured=_read_images,
    shorten=shorten_base64_text,
    open_player=partial(load_player, "codec.apis.images.player", "PLAYER"),
)
"""Images. Their spans have the name of the answer in OpenAI's SDK, which OpenInference uses, too.
The last end of a path is OpenRouter's."""
