"""The page's modules as one script, and its sheets as one.

A browser asks once instead of forty times, and what it gets takes two thirds of the bytes: the same
words are in all of them. A page that was left open over an update holds all that it needs.

Rules:

1. Each module has a scope of its own, as it would by itself: it stands in a function, which returns
   what it exports. Those that it imports stand before it, once.
2. Imports and exports are written in the forms of ``_IMPORT`` and ``_EXPORT`` alone; another form
   is an error, and so is a module that imports itself by way of others.
3. Comments that have lines of their own are left out: they are a fifth of the bytes.

What Python does not see, ``make page-lint`` does: that the script can be read, that no text has a
line break in the source, and so no line like a comment, and that nothing is imported later on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# A line is found by the break before it, which is looked for faster than its beginning (``^``).
_IMPORT: Final = re.compile(r'\nimport (?:\{ (\w+(?:, \w+)*) \} from )?"\./(\w+)\.js";(?=\n)')
"""``import { one, other } from "./module.js";``, or of an element that a module registers
``import "./module.js";``."""

_EXPORT: Final = re.compile(r"\nexport (?=(?:async )?(?:function|const|class) (\w+))")
"""``export``, before a definition."""

_OTHER_FORM: Final = re.compile(r"\n((?:import|export)\b.*)")

_COMMENT: Final = re.compile(r"\n[ \t]*(?://.*|/\*(?:[^*]|\*(?!/))*\*/[ \t]*)(?=\n)")


def join_modules(sources: Mapping[str, str], first: str) -> str:
    """Join a module and all that it imports to one script.

    Args:
        sources: those of all modules, by their names without an end.
        first: the name of the module that begins.

    Raises:
        ValueError: a module is not written by rule 2.
        KeyError: an imported module does not exist.
    """
    joined: dict[str, str] = {}

    def add(name: str, importing: tuple[str, ...]) -> None:
        if name in importing:
            circle = " and ".join(importing[importing.index(name) :])
            raise ValueError(f"{name}.js imports itself, by {circle}")
        if name in joined:
            return
        source = _leave_out_comments(sources[name])
        for _, imported in _IMPORT.findall(source):
            add(imported, (*importing, name))
        joined[name] = _wrap(name, source)

    add(first, ())
    return "".join(joined.values())


def _wrap(name: str, source: str) -> str:
    """Write a module as a function that is called at once (rule 1)."""
    exported = _EXPORT.findall(source)
    body = _EXPORT.sub("\n", _IMPORT.sub(_take, source))
    if (other := _OTHER_FORM.search(body)) is not None:
        raise ValueError(f"{name}.js has an import or export of another form: {other[1]}")
    given = f"return {{ {', '.join(exported)} }};\n"
    return f"// {name}.js\nconst ${name} = (() => {{{body}{given}}})();\n"


def _take(imported: re.Match[str]) -> str:
    """Write an import as what takes the names from the function's result."""
    names, module = imported.groups()
    return f"\nconst {{ {names} }} = ${module};" if names else ""


def join_sheets(sources: Iterable[str]) -> str:
    """Join sheets of styles to one; a later one counts more."""
    return "".join([_leave_out_comments(source).strip("\n") + "\n" for source in sources])


def _leave_out_comments(source: str) -> str:
    """Leave out comments that have lines of their own (rule 3); a line break is at either end."""
    return _COMMENT.sub("", "\n" + source.rstrip("\n") + "\n")
