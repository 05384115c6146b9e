"""The label of a launch: its name and its number, as they stand in a path and in the store.

A launch is a command that ``spantap run`` has started. Other programs may call under a name, too.

A label consists of ASCII letters and digits, ``-``, ``.``, ``_`` and ``~``. No client, proxy or
terminal encodes, decodes or shortens any of these (RFC 3986, section 2.3). In the name, each byte
of UTF-8 that is not a letter, digit, ``-``, ``.`` or ``_`` becomes ``~`` and two hexadecimal
digits. So does a first dot, because a segment of dots would be taken for a folder. ``~~`` and the
number of a launch may follow, because two launches may have one name.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

MAX_NAME_CHARS: Final = 64
"""Longer names are cut. Nobody types such a name twice; its label takes at most some 800 bytes of a
path."""

_NUMBER_MARK = "~~"

_NUMBER = re.compile(r"[0-9a-z]{1,16}")


def build_label(name: str, number: str = "") -> str:
    """Build the label of a launch.

    >>> build_label("app.py", "4f2a")
    'app.py~~4f2a'
    >>> build_label("../a b")
    '~2E.~2Fa~20b'
    """
    text = quote(name[:MAX_NAME_CHARS].encode("utf-8", "replace"), safe="")
    text = text.replace("~", "%7E").replace("%", "~")
    if text.startswith("."):
        text = f"~2E{text[1:]}"
    return text + _NUMBER_MARK + number if number else text


def read_name(label: str) -> str:
    """Read the name of a launch, also if somebody wrote percent signs.

    >>> read_name("~2E.~2Fa%20b~~4f2a")
    '../a b'
    """
    text = label.partition(_NUMBER_MARK)[0].replace("~", "%")
    return unquote(text, errors="replace")[:MAX_NAME_CHARS]


def find_name(label: object) -> str | None:
    """Find the name in the launch column of a row; ``None`` if it has none, or a disk damaged it.

    >>> find_name("app.py~~4f2a")
    'app.py'
    """
    return read_name(label) or None if isinstance(label, str) else None


def write_title(label: object, words: str | None) -> str | None:
    """Write the name of a launch before what the user asked; each may be absent.

    >>> write_title("app.py~~4f2a", "Fix it")
    'app.py · Fix it'
    """
    return " · ".join(one for one in (find_name(label), words) if one) or None


def clean_label(label: str) -> str:
    """Build the label that is meant; empty if it has no name."""
    number = label.partition(_NUMBER_MARK)[2]
    name = read_name(label)
    return build_label(name, number if _NUMBER.fullmatch(number) else "") if name else ""


def find_range(name: str) -> tuple[str, str]:
    """Find the range of labels that have this name and a number: the first label and the end."""
    first = build_label(name) + _NUMBER_MARK
    return first, f"{first}\x7f"
