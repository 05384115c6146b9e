"""Puts the pictures that a store keeps beside a span into the messages of that span."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from proxy.reading.flat_messages import ContentPart
from telemetry.privacy.json_strings import REDACTED
from telemetry.store.rows import CallPicture, LeftOut

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proxy.reading.flat_messages import RecordedMessage

    Pictures = Mapping[tuple[bool, int], Sequence[CallPicture]]
    """The pictures of a call, by the side and the position of their message."""

_IMAGE: Final = "image"


def group_pictures(pictures: Sequence[CallPicture]) -> Pictures:
    """Group the pictures of a call by their messages."""
    grouped: dict[tuple[bool, int], list[CallPicture]] = {}
    for picture in pictures:
        grouped.setdefault((picture.is_answer, picture.message), []).append(picture)
    return grouped


def add_pictures(
    message: RecordedMessage, pictures: Sequence[CallPicture], *, is_answer: bool
) -> RecordedMessage:
    """Give the parts of a message their pictures; those in results of tools become parts.

    An image of which only the limit of images is left was left out by an older version, or is not
    one that can be kept.
    """
    by_place = {picture.part: picture for picture in pictures}
    if not by_place and not any(map(_is_left_out, message.parts)):
        return message
    parts = [
        replace(part, picture=by_place.pop(part.place, None) or _tell_limit(message, is_answer))
        if part.kind == _IMAGE and (part.place in by_place or _is_left_out(part))
        else part
        for part in message.parts
    ]
    more = (
        ContentPart(kind=_IMAGE, text="", place=picture.part, picture=picture)
        for picture in by_place.values()
    )
    return replace(message, parts=(*parts, *more))


def _is_left_out(part: ContentPart) -> bool:
    return part.kind == _IMAGE and part.text == REDACTED


def _tell_limit(message: RecordedMessage, is_answer: bool) -> CallPicture:  # noqa: FBT001 - private
    return CallPicture(
        is_answer=is_answer, message=message.index, part=0, left_out=LeftOut.IMAGE_LIMIT
    )


def list_pictures(messages: Sequence[RecordedMessage]) -> Iterator[CallPicture]:
    """Yield the pictures of messages."""
    for message in messages:
        for part in message.parts:
            if part.picture is not None:
                yield part.picture
