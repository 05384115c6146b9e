"""Requests for images: the prompt, and what is to be edited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from codec.call import Message
from codec.form_request import FormRequest
from codec.members import text_of
from codec.text.integers import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ("ImageRequest",)

_IMAGES: Final = frozenset({"image", "image[]", "images"})
"""Members that are to be edited, or varied."""

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
        """All members but the prompt, images and what is known of files too.

        See ``docs/contract/apis.md#images``.
        """
        return {name: value for name, value in self.body.items() if name != "prompt"}

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters; what comes is an image."""
        return {**super().options, "modalities": ["image"]}

    def read_messages(self) -> Sequence[Message]:
        """Read one message, with the prompt; a variation has none."""
        prompt = text_of(self.body.get("prompt"))
        return () if prompt is None else (Message("user", prompt),)
