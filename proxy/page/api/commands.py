"""A call as a command for a shell that makes it again: printable ASCII, whatever was recorded.

Rules:

1. A word is in quotes. One that is not printable ASCII is what ``printf`` writes, with three octal
   digits for each other byte: all shells read that alike, and ``$'…'`` only some do.
2. A body that no word can hold, or that is too long for one, is Base64 on the command's input.
3. So a terminal that a command is pasted into, or a shell that reads it, finds no control
   character, no mark that turns the direction of writing, and no line end but ours.
"""

from __future__ import annotations

import base64
import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.page.api.targets import Target

MAX_ARGUMENT_BYTES: Final = 100_000
"""Linux takes 128 KiB for one argument of a command."""

_LINE_CHARACTERS: Final = 76
"""Characters of Base64 in a line, as ``base64`` itself writes it."""

_END: Final = "SPANTAP"
"""The line behind the Base64; no line of that has seven characters."""

_ESCAPES: Final = {ord("\n"): "\\n", ord("\r"): "\\r", ord("%"): "%%", ord("\\"): "\\\\"}
"""What ``printf`` reads as a character."""

_MEANT: Final = frozenset(b"'!`")
"""Characters that a shell, or its history, does not take as they are."""


def write_curl(
    target: Target, headers: Mapping[str, str], body: bytes, *, is_streamed: bool
) -> str:
    """Write a command; its key is the one thing that the shell fills in."""
    command = f"curl {_quote(target.url.encode())}"
    if any(mark in target.url for mark in "[]{}"):
        command += " --globoff"
    if "/." in target.url:
        command += " --path-as-is"
    if is_streamed:
        command += " --no-buffer"
    lines = [command]
    lines += [f"-H {_quote(f'{name}: {value}'.encode())}" for name, value in headers.items()]
    lines.append(f'-H "{target.key_header}: {target.key_prefix}${target.variable}"')
    if _fits_word(body):
        lines.append(f"--data-raw {_quote(body)}")  # whatever it begins with is no file's name
        return " \\\n  ".join(lines)
    lines[0] = f"base64 -d <<'{_END}' | {lines[0]}"
    lines.append("--data-binary @-")
    text = base64.b64encode(body).decode()
    starts = range(0, len(text), _LINE_CHARACTERS)
    encoded = "\n".join(text[at : at + _LINE_CHARACTERS] for at in starts)
    return " \\\n  ".join(lines) + f"\n{encoded}\n{_END}\n"


def _fits_word(body: bytes) -> bool:
    """Tell whether a word of a command can be a body: a shell drops line ends behind ``printf``."""
    return len(body) <= MAX_ARGUMENT_BYTES and b"\0" not in body and not body.endswith(b"\n")


def _quote(word: bytes) -> str:
    """Quote a word for a shell (rule 1)."""
    if all(_is_printable(byte) for byte in word):
        return shlex.quote(word.decode("ascii"))
    return "\"$(printf -- '" + "".join(map(_escape, word)) + "')\""


def _escape(byte: int) -> str:
    if _is_printable(byte) and byte not in _MEANT and byte not in _ESCAPES:
        return chr(byte)
    return _ESCAPES.get(byte, f"\\{byte:03o}")


def _is_printable(byte: int) -> bool:
    return 0x20 <= byte < 0x7F
