"""Makes foreign text safe for a terminal.

Strangers write messages: models, web pages, people. An escape sequence in one of them could rewrite
the screen, set the window's title, or forge lines of our output. A character that changes the
direction of writing could make a text look like another one.
"""

from __future__ import annotations

import re
from typing import Final

UNSAFE: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f"  # C0, except tab and line feed
    "\x7f-\x9f"  # DEL, and C1: U+009B begins a sequence as ESC [ does
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
    "\u2028\u2029"  # line and paragraph separator: only some programs end a line there
    "\ud800-\udfff"  # halves of a pair, which no encoding accepts
    "]"
)
"""A character that is never written to a terminal or a clipboard."""


def escape(text: str) -> str:
    r"""Escape a text: unsafe characters become visible as ``\x1b`` or ``\u202e``."""
    return UNSAFE.sub(_visible, text.replace("\r\n", "\n"))


def escape_line(text: str) -> str:
    """Make a text one line: escape it, and make line feeds and tabs visible too."""
    return escape(text).replace("\n", "\\n").replace("\t", "\\t")


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
