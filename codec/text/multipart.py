r"""Forms (``multipart/form-data``, RFC 7578): their fields as one JSON object, without their files.

A form is read while it passes through the relay, and little of it is kept: an image or an hour of
sound never goes to the observer. The fields of a form are known wherever they stand in it, even if
the body is too large to be kept. So the reader keeps little and does little at a time; a reader
that has the whole body would need neither.

Rules:

1. A field is its text. A file becomes ``filename``, ``content_type`` and ``bytes``, as far as
   known; its content is counted and not kept. A part is a file if it has a file name, if its type
   is neither text nor JSON, or if it is not UTF-8. Fields with the same name become a list.
2. The object is the same however the bytes are cut. Nothing raises, whatever the bytes are.
3. A delimiter is a whole line; a line that only begins with one is content (RFC 2046, section
   5.1.1).
4. At most :data:`MAX_FIELD_BYTES` of a field and :data:`MAX_FORM_BYTES` in all are kept, and as
   much as the lender has; the rest is cut off, and the form says so. A head over
   :data:`MAX_HEAD_BYTES`, a part without a name and a form without its end break the form; it says
   that, and still has the fields before (R5).
5. A read costs a search for the delimiter. Everything that costs more is counted, and after
   :data:`MAX_DELIMITERS` nothing more is read (R2).
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from codec.text.form_part import FormPart, read_parameters, read_part
from codec.text.jsontext import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("Form", "FormReader", "FormState", "find_boundary", "is_form")

MAX_FIELD_BYTES: Final = 128 * 1024
"""The most bytes that are kept of a field: OpenAI accepts prompts of 32,000 characters, each of at
most four bytes."""

MAX_FORM_BYTES: Final = 4 * MAX_FIELD_BYTES
"""The most bytes that are kept of a form, including the heads of its parts."""

MAX_HEAD_BYTES: Final = 8 * 1024
"""Longest head of a part: a name, a file's name and its type."""

MAX_DELIMITERS: Final = 128
"""The most lines that are delimiters or begin like one: OpenAI accepts 16 images and some ten
fields. As many in one read take a millisecond."""

MAX_BOUNDARY_BYTES: Final = 70
"""Longest boundary (RFC 2046, section 5.1.1)."""

_DELIMITER_END: Final = re.compile(rb"--|[ \t]{0,64}+\r\n")
_MAY_END: Final = re.compile(rb"(?:-|[ \t]{0,64}+\r?)?\Z")
_HEAD_END: Final = b"\r\n\r\n"


class FormState(StrEnum):
    """How much of a form is known."""

    WHOLE = "whole"
    """All of the form."""
    CUT = "cut"
    """A part was left out (rule 4), or had not come."""
    BROKEN = "broken"
    """The body is not a form, or stops being one."""


class Form(msgspec.Struct, frozen=True):
    """The fields of a form, and what is known of its files.

    Attributes:
        members: names to texts, to descriptions of files, or to lists of these.
    """

    members: JsonObject
    state: FormState

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the form is missing."""
        return self.state is FormState.WHOLE


def is_form(content_type: bytes) -> bool:
    """Tell whether a body of this type consists of parts, of any kind."""
    return content_type.lstrip()[:10].lower() == b"multipart/"


def find_boundary(content_type: bytes) -> bytes | None:
    """Find the boundary in a content type; ``None`` if it has none that can be searched for.

    >>> find_boundary(b'multipart/form-data; boundary="a b"')
    b'a b'
    """
    boundary = read_parameters(content_type).get(b"boundary", b"")
    return boundary if 0 < len(boundary) <= MAX_BOUNDARY_BYTES else None


class FormReader:
    r"""Reads one form. Not safe for concurrent calls.

    Args:
        boundary: the boundary from the content type.
        lend: whether that many more bytes may be reserved beside all others.

    >>> reader = FormReader(b"x")
    >>> reader.feed(b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisp')
    >>> reader.feed(b"er-1\r\n--x--")
    >>> reader.finish().members
    {'model': 'whisper-1'}
    """

    def __init__(
        self, boundary: bytes, lend: Callable[[int], bool] = lambda _size_bytes: True
    ) -> None:
        self._delimiter = b"\r\n--" + boundary
        self._lend = lend
        self._members: JsonObject = {}
        self._repeated: set[str] = set()
        self._pending = b"\r\n"  # the first delimiter may begin the body
        self._part = FormPart()
        self._step: Callable[[bytes, int], int] | None = self._read_content
        self._delimiter_count = self._kept_bytes = 0
        self._is_cut = False
        self._is_broken = False

    def feed(self, data: bytes) -> None:
        """Feed one read of the body, cut anywhere."""
        if self._step is None:
            return
        data, at = self._pending + data, 0
        while at >= 0:
            at = self._step(data, at)

    def finish(self) -> Form:
        """Return what the form says, after the last read. Call it once."""
        if self._step is not None:
            if self._step == self._read_content:
                self._keep(self._pending, 0, len(self._pending))
            self._end_part(is_whole=False)
            self._is_broken = True
            self._stop()
        state = FormState.CUT if self._is_cut else FormState.WHOLE
        return Form(self._members, FormState.BROKEN if self._is_broken else state)

    def _read_content(self, data: bytes, at: int) -> int:
        """Read content to the next delimiter; return where to continue, -1 if more must come."""
        start = at
        while (found := data.find(self._delimiter, at)) >= 0:
            at = found + len(self._delimiter)
            if _MAY_END.match(data, at) is not None:
                return self._wait(data, start, found)
            self._delimiter_count += 1
            if self._delimiter_count > MAX_DELIMITERS:
                self._is_cut = True
                return self._stop()
            if (end := _DELIMITER_END.match(data, at)) is not None:
                self._keep(data, start, found)
                self._end_part(is_whole=True)
                if end[0] == b"--":
                    return self._stop()
                self._step = self._read_head
                return end.end() - 2
        return self._wait(data, start, max(start, len(data) - len(self._delimiter) + 1))

    def _wait(self, data: bytes, start: int, end: int) -> int:
        """Feed content up to an offset from which on a delimiter may begin."""
        self._keep(data, start, end)
        self._pending = data[end:]
        return -1

    def _keep(self, data: bytes, start: int, end: int) -> None:
        """Count content, and keep it if it is text."""
        part = self._part
        if part.text is not None and not part.is_cut:
            size_bytes = min(end - start, MAX_FIELD_BYTES - len(part.text))
            part.text += data[start : start + self._reserve(size_bytes)]
        part.size_bytes += end - start

    def _reserve(self, size_bytes: int) -> int:
        """Reserve room, and return for how many of these bytes there is some (rule 4)."""
        room = min(size_bytes, MAX_FORM_BYTES - self._kept_bytes)
        if room and not self._lend(room):
            room = 0
        self._kept_bytes += room
        return room

    def _read_head(self, data: bytes, at: int) -> int:
        """Read the head of a part; it begins with the end of the delimiter's line."""
        end = data.find(_HEAD_END, at)
        size_bytes = (len(data) if end < 0 else end) - at
        if size_bytes > MAX_HEAD_BYTES:
            self._is_broken = True
            return self._stop()
        if end < 0:
            self._pending = data[at:]
            return -1
        if self._reserve(size_bytes) < size_bytes:
            self._is_cut = True
            return self._stop()
        self._part = read_part(data[at:end])
        self._is_broken = self._is_broken or not self._part.name
        self._step = self._read_content
        return end + len(_HEAD_END)

    def _end_part(self, *, is_whole: bool) -> None:
        part, self._part = self._part, FormPart()
        if not part.name:
            return
        name, value = part.name, part.read(is_whole=is_whole)
        self._is_cut = self._is_cut or (part.is_cut and isinstance(value, str))
        if name not in self._members:
            self._members[name] = value
        elif name in self._repeated:
            self._members[name].append(value)
        else:
            self._repeated.add(name)
            self._members[name] = [self._members[name], value]

    def _stop(self) -> int:
        """Read nothing more, and return -1."""
        self._step = None
        self._pending = b""
        self._part = FormPart()
        return -1
