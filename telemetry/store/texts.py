"""Reads texts that a disk may have damaged: SQLite does not check whether they are UTF-8.

Python would raise for a whole statement, and the row of one flipped bit would hide all others.
"""

from __future__ import annotations


class DamagedText(str):
    """A text with bytes that are not UTF-8, each of which became U+FFFD.

    The reader of a row recognises it by its type; for all others it is a text.
    """

    __slots__ = ()


def read_text(data: bytes) -> str:
    r"""Read a text of SQLite's, for ``text_factory``.

    >>> read_text(b"gpt-5"), type(read_text(b"gpt-\xff")).__name__
    ('gpt-5', 'DamagedText')
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return DamagedText(data.decode("utf-8", "replace"))
