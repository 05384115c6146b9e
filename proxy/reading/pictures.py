"""Puts the pictures that a store keeps beside a span into the messages of that span."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from proxy.reading.flat_messages import ContentPart
from telemetry.privacy.json_strings import REDACTED
from telemetry.store.rows import MAX_CALL_PICTURES, CallPicture, LeftOut

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


def find_common_reason(pictures: Sequence[CallPicture]) -> LeftOut:
    """Find why the images of a call that are not among its pictures were left out.

    If the call has as many pictures as are noted, the others came too late. Else the limit of
    images applied to them, in an older version or because they cannot be kept.
    """
    return LeftOut.TOO_MANY if len(pictures) >= MAX_CALL_PICTURES else LeftOut.IMAGE_LIMIT


def add_pictures(
    message: RecordedMessage,
    pictures: Sequence[CallPicture],
    others: LeftOut,
    *,
    is_answer: bool,
) -> RecordedMessage:
    """Give the parts of a message their pictures; those in results of tools become parts.

    Args:
        message: a message of a span.
        pictures: those of this message.
        others: why other images of the message are left out.
        is_answer: the message stands in the answer.
    """
    by_place = {picture.part: picture for picture in pictures}
    if not by_place and not any(map(_is_left_out, message.parts)):
        return message
    other = CallPicture(is_answer=is_answer, message=message.index, part=0, left_out=others)
    parts = [
        replace(part, picture=by_place.pop(part.place, None) or other)
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


def list_pictures(messages: Sequence[RecordedMessage]) -> Iterator[CallPicture]:
    """Yield the pictures of messages."""
    for message in messages:
        for part in message.parts:
            if part.picture is not None:
                yield part.picture
