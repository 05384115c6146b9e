"""The body of an error as it may be recorded: without the credentials of its request (R7).

Rules:

1. It is kept until its end, and masked as a whole: a credential may lie across any two reads, and
   a longer one begin as a shorter one does.
2. Of a body that is encoded, what it decodes to is masked, for that is what is recorded.
3. What cannot be searched is not recorded: in a coding that nobody knows, or with more than
   :data:`MAX_CREDENTIALS` in its request. It counts as left out, and so does all past
   :data:`MAX_ERROR_BYTES`, encoded or not (R5).
4. Of a body that is not whole, what may be a part of a credential goes, and the last word with it:
   no pattern would find the half of a secret. So it is with the observer's own cut, and with a body
   that is encoded and no JSON: the end of an encoding that came too early would not be noticed.
"""

from __future__ import annotations

import contextlib
import re

from codec.jsontext import is_json
from proxy.credentials import mask_credentials
from telemetry.content_decoding import ContentDecoder, UndecodableContent

__all__ = ("MAX_CREDENTIALS", "MAX_ERROR_BYTES", "ErrorBody")

MAX_CREDENTIALS = 32
"""Each is looked for in all of the text. Real requests have two or three, a hostile thousands."""

MAX_ERROR_BYTES = 64 * 1024
"""Of a body, encoded and decoded: what an observer keeps of one."""

_LAST_WORD = re.compile(rb"[^\s\"]{1,256}(?:[ -][0-9]{1,16}){0,8}\Z")
_LAST_WORD_BYTES = 512
"""The longest that it can be, and some."""


class ErrorBody:
    """Takes the reads of one body, gives what may be recorded. Raises nothing.

    Args:
        credentials: the request's.
        encoding: the answer's ``Content-Encoding``, empty where it has none.
    """

    def __init__(self, credentials: tuple[bytes, ...], encoding: str) -> None:
        self._credentials = credentials
        self._is_encoded = bool(encoding)
        self._room_bytes = MAX_ERROR_BYTES
        self._left_out_bytes = 0
        self._text = bytearray()
        self._decoder: ContentDecoder | None = None
        if len(credentials) <= MAX_CREDENTIALS:
            with contextlib.suppress(UndecodableContent):  # rule 3
                self._decoder = ContentDecoder(encoding, max_bytes=MAX_ERROR_BYTES)

    def feed(self, data: bytes) -> None:
        """One read, as received."""
        taken = b""
        if self._decoder is not None:
            taken = data[: self._room_bytes]
            self._room_bytes -= len(taken)
            self._text += self._decoder.feed(taken)
            if self._decoder.error is not None:
                self._decoder = None
                taken = b""  # nobody knows how much of it was decoded
        self._left_out_bytes += len(data) - len(taken)

    def finish(self, *, is_whole: bool) -> tuple[bytes, int]:
        """The text, masked, and how many bytes of the answer are not in it.

        Args:
            is_whole: the body came to its end, and all of it was fed.
        """
        text = bytes(self._text)
        if self._left_out_bytes or (
            self._is_encoded and not is_json(text.decode("utf-8", "replace"))
        ):
            is_whole = False
        text = mask_credentials(text, self._credentials, is_whole=is_whole)
        if not is_whole:
            text = text[:-_LAST_WORD_BYTES] + _LAST_WORD.sub(b"", text[-_LAST_WORD_BYTES:])
        return text, self._left_out_bytes
