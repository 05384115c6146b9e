"""Finds the pictures of a call that its span has only in short, to be kept beside the span.

A picture has the position that it has among the attributes of the span
(:mod:`telemetry.spans.message_attributes`). One in the result of a tool may have none there; it
comes behind all parts of its message.

What a switch hides, or a mask or a pattern would change, is not kept and not mentioned. Of all
others the place is kept, with the reason where the picture is not. The newest messages come first,
so that a limit leaves out the oldest pictures.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codec.parts import Media, ToolResult
from codec.text.pictures import (
    MAX_PICTURE_BYTES,
    decode_base64,
    find_base64,
    find_picture_type,
)
from telemetry.spans.message_attributes import list_said
from telemetry.store.rows import MAX_CALL_PICTURES, CallPicture, LeftOut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.apis.api import Api
    from codec.parts import Message, Part
    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.mask import Mask
    from telemetry.spans.otlp.writer import FinishedSpan
    from telemetry.spans.rules import SpanRules

_Judged = tuple[str | None, bytes | None, LeftOut | None]
"""Type and bytes of a picture, and why it is left out; ``None`` for what is not known."""

MAX_CALL_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of a call's pictures that wait for the store together, besides its decoded body,
which may have three times as many."""

_MAX_CHARS: Final = MAX_PICTURE_BYTES * 4 // 3 + 1_024
"""Longer base64 is of a picture that is too large; the rest is for line ends."""

_COUNT: Final = re.compile(r"<(\d{1,15}) base64 characters")

_TYPE_CHARS: Final = 16
"""How many characters tell the type: twelve bytes are enough for each."""


def find_pictures(
    exchange: Exchange, span: FinishedSpan, rules: SpanRules
) -> tuple[CallPicture, ...]:
    """Find the pictures of a call, those of its answer first, then the newest of its request."""
    mask, api = span.mask, exchange.api
    if mask is None:
        return ()
    limit = rules.privacy.base64_image_max_length
    response = exchange.response
    is_error = (exchange.response_status or 0) >= 400
    searched = [
        (answer.index, answer.message, True)
        for answer in (() if response is None or is_error else response.answers)
        if type(answer.message.content) is tuple
    ]
    if searched and mask.hides_output_pictures:
        searched.clear()
    if exchange.request_size_bytes > limit and not mask.hides_input_pictures:
        messages = span.messages
        searched += [
            (at, messages[at], False)
            for at in range(len(messages) - 1, -1, -1)
            if type(messages[at].content) is tuple
        ]
    if not searched:
        return ()
    finding = _Finding(mask, api, limit, exchange.made_pictures, is_on=rules.pictures)
    for position, message, is_answer in searched:
        finding.search(position, message, is_answer=is_answer)
    return tuple(finding.found)


class _Finding:
    """What was found so far of one call."""

    def __init__(
        self,
        mask: Mask,
        api: Api,
        limit: int,
        made: Sequence[tuple[str, str]],
        *,
        is_on: bool,
    ) -> None:
        self.found: list[CallPicture] = []
        self._mask = mask
        self._api = api
        self._limit = limit
        self._is_on = is_on
        self._made: dict[str, list[str]] = {}
        for words, text in made:
            self._made.setdefault(words, []).append(text)
        self._kept_bytes = 0
        self._known: dict[str, tuple[str | None, bytes | None, LeftOut | None]] = {}

    def search(self, position: int, message: Message, *, is_answer: bool) -> None:
        """Search a message, which has this position in the span."""
        content = message.content
        if not isinstance(content, tuple):
            return
        for part, media, is_in_span in self._list_images(content, is_answer=is_answer):
            written = media.url or media.data or ""
            text = media.data if media.url is None else find_base64(media.url)
            words = media.shortened or text or ""
            is_made = words[:1] == "<"
            if not words or (is_in_span and not is_made and len(written) <= self._limit):
                continue  # it lies elsewhere, or is in the span
            if len(self.found) >= MAX_CALL_PICTURES:
                return
            if is_made:
                text = written = self._find_made(words)
            if (judged := self._judge(written, text or "", words)) is not None:
                kind, data, left_out = judged
                self.found.append(
                    CallPicture(
                        is_answer=is_answer,
                        message=position,
                        part=part,
                        type=kind,
                        size_bytes=_measure(text or "", words) if data is None else len(data),
                        data=data,
                        left_out=left_out,
                    )
                )

    def _list_images(
        self, content: Sequence[Part], *, is_answer: bool
    ) -> Iterator[tuple[int, Media, bool]]:
        """Yield the images of a message: their positions, and whether the span has short ones."""
        shows_reasoning = is_answer or self._api.shows_past_reasoning
        said = list_said(
            content, shows_reasoning=shows_reasoning, calls_are_parts=self._api.calls_are_parts
        )
        for part, one in enumerate(said):
            if isinstance(one, Media) and one.kind == "image":
                yield part, one, True
        shown = (one for it in content if isinstance(it, ToolResult) for one in it.pictures)
        for part, one in enumerate(shown, start=len(said)):
            yield part, one, False

    def _find_made(self, words: str) -> str:
        """Find the base64 of a picture that was taken out of an answer; empty if it is not kept."""
        known = self._made.get(words, [""])
        return known.pop(0) if len(known) > 1 else known[0]

    def _judge(self, written: str, text: str, words: str) -> _Judged | None:
        """Find type and bytes of a picture, or why it is left out; ``None`` if it is hidden.

        Args:
            written: the picture as the span would have it.
            text: its base64; empty if it was taken out of an answer and not kept.
            words: what the answer has of it.
        """
        if not self._is_on:
            return None, None, LeftOut.OFF
        limit = self._mask.image_limit
        if limit is not None and len(written) > limit:
            return None, None, LeftOut.IMAGE_LIMIT
        if not text:
            is_large = _measure(text, words) > MAX_PICTURE_BYTES
            return None, None, LeftOut.TOO_LARGE if is_large else LeftOut.NO_MEMORY
        if (known := self._known.get(text)) is not None:
            return known
        kind = find_picture_type(decode_base64(text.lstrip()[:_TYPE_CHARS]))
        if kind is None:
            return None, None, LeftOut.TYPE
        if len(text) > _MAX_CHARS:  # no pattern is looked for in 50 MB that are not kept
            return kind, None, LeftOut.TOO_LARGE
        if self._mask.changes(written):
            return None
        judged = self._decode(kind, text)
        data = judged[1]
        if data is not None and self._mask.finds_in_bytes(data):
            self._kept_bytes -= len(data)
            return None
        self._known[text] = judged
        return judged

    def _decode(self, kind: str, text: str) -> _Judged:
        if self._kept_bytes + len(text) * 3 // 4 > MAX_CALL_BYTES:
            return kind, None, LeftOut.NO_MEMORY
        data = decode_base64(text)
        if find_picture_type(data) is None:  # it breaks off
            return None, None, LeftOut.TYPE
        if len(data) > MAX_PICTURE_BYTES:
            return kind, None, LeftOut.TOO_LARGE
        self._kept_bytes += len(data)
        return kind, data, None


def _measure(text: str, words: str) -> int:
    """Measure a picture in bytes, by its base64 or by the number in the words that replace it."""
    count = _COUNT.match(words)
    return (len(text) if text or count is None else int(count[1])) * 3 // 4
