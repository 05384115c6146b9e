"""The route of images, and the names of their spans."""

from __future__ import annotations

from functools import partial

from codec.apis.api import Api, load_player
from codec.apis.images.asked import ImageRequest
from codec.apis.images.said import read_images
from codec.apis.images.stream import ImageStream
from codec.text.base64_text import shorten_base64_text

__all__ = ("IMAGES",)

IMAGES = Api(
    name="images",
    path_ends=("/images/generations", "/images/edits", "/images/variations", "/images"),
    operation="image_generation",
    span_name="ImagesResponse",
    gives_reason=False,
    quoted_lists=frozenset({"data"}),
    quoted_item_members=frozenset({"revised_prompt"}),
    takes_forms=True,
    asked=ImageRequest,
    open_stream=ImageStream,
    read_said=read_images,
    shorten=shorten_base64_text,
    open_player=partial(load_player, "codec.apis.images.player", "PLAYER"),
)
"""The name of its spans is that of the answer in OpenAI's SDK, as OpenInference names spans.
The last end is OpenRouter's."""
