"""A part of a form (``multipart/form-data``): its head, and what is kept of its content."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("FormPart", "read_parameters", "read_part")

_FOLD: Final = re.compile(rb"\r\n[ \t]+")
_PARAMETER: Final = re.compile(
    rb';[ \t]*+([A-Za-z0-9_*-]{1,64}+)[ \t]*+=[ \t]*+(?:"((?:[^"\\]|\\.)*+)"|([^;]*+))', re.DOTALL
)
_ESCAPE: Final = re.compile(rb'\\(["\\])')
_TEXT_TYPES: Final = ("text/", "application/json")


class FormPart:
    """A part under way; the bytes before the first part are one without a name.

    Attributes:
        name: the name; empty if it has none.
        text: the text that was kept; ``None`` for a file.
        size_bytes: how many bytes came.
    """

    def __init__(
        self, name: str = "", filename: str | None = None, content_type: str | None = None
    ) -> None:
        self.name = name
        self._filename = filename
        self._content_type = content_type
        kind = (content_type or "text/plain").lower()
        is_text = bool(name) and filename is None and kind.startswith(_TEXT_TYPES)
        self.text: bytearray | None = bytearray() if is_text else None
        self.size_bytes = 0

    @property
    def is_cut(self) -> bool:
        """Whether it is a text that was not kept whole."""
        return self.text is not None and len(self.text) < self.size_bytes

    def read(self, *, is_whole: bool) -> str | JsonObject:
        """Read the value: a text, or what is known of a file."""
        text = None if self.text is None else _read_text(self.text, self.is_cut or not is_whole)
        if text is not None:
            return text
        size_bytes = self.size_bytes if is_whole else None
        values = (self._filename, self._content_type, size_bytes)
        names = ("filename", "content_type", "bytes")
        return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def _read_text(text: bytearray, may_lack_end: bool) -> str | None:  # noqa: FBT001 - private
    """Read UTF-8, whose last character may be cut off; ``None`` if the bytes are not UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        if may_lack_end and error.reason == "unexpected end of data":
            return text[: error.start].decode()
        return None


def read_part(head: bytes) -> FormPart:
    """Begin a part with its head; the part has no name if the head has none."""
    fields: dict[bytes, bytes] = {}
    for line in _FOLD.sub(b" ", head).split(b"\r\n"):
        name, _, value = line.partition(b":")
        fields.setdefault(name.strip().lower(), value.strip())
    parameters = read_parameters(fields.get(b"content-disposition", b""))
    filename = parameters.get(b"filename")
    if (coded := parameters.get(b"filename*")) is not None:  # RFC 5987
        filename = unquote_to_bytes(coded.rpartition(b"'")[2])
    content_type = fields.get(b"content-type", b"").partition(b";")[0].strip()
    return FormPart(
        name=_decode(parameters.get(b"name", b"")),
        filename=None if filename is None else _decode(filename),
        content_type=_decode(content_type) or None,
    )


def read_parameters(value: bytes) -> dict[bytes, bytes]:
    """The parameters of a header's value, by their names in lower case; the first of each."""
    found: dict[bytes, bytes] = {}
    for name, quoted, plain in _PARAMETER.findall(value):
        text = _ESCAPE.sub(rb"\1", quoted) if quoted else plain.strip()
        found.setdefault(name.lower(), text)
    return found


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")
