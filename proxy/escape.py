"""Foreign text made safe for a terminal.

Messages are written by strangers: models, web pages, people. An escape sequence in one of them
could rewrite the screen, set the window's title or forge lines of our own output; a character that
turns the direction of writing could make a text read as another one.
"""

from __future__ import annotations

import re
from typing import Final

UNSAFE: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f"  # C0 but tab and line feed
    "\x7f-\x9f"  # DEL, and C1: U+009B begins a sequence as ESC [ does
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
    "\u2028\u2029"  # line ends that are none
    "\ud800-\udfff"  # halves of a pair, which no encoding accepts
    "]"
)
"""A character that no terminal and no clipboard gets."""


def escape(text: str) -> str:
    r"""Escape a text; what is unsafe in it becomes visible as ``\x1b`` or ``\u202e``."""
    return UNSAFE.sub(_visible, text.replace("\r\n", "\n"))


def escape_line(text: str) -> str:
    """Make a text one line: escaped, with line feeds and tabs made visible as well."""
    return escape(text).replace("\n", "\\n").replace("\t", "\\t")


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
