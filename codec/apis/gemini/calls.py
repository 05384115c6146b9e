"""Joins the arguments of a call that come in pieces to one object (Vertex AI).

See ``docs/contract/apis.md#gemini-stream``. Each piece names the place of its value by a JSON path.
Strings with the same path are joined; if other values have the same path, the last one counts. If a
path is not understood, or two paths contradict each other, the arguments stay in pieces: nothing is
guessed (R6).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codec.members import object_of
from codec.text.jsontext import join_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.text.jsontext import JsonObject

__all__ = ("join_arguments",)

_MAX_STEPS: Final = 64
"""Deeper arguments are hostile; a dozen is much."""

_PATH: Final = re.compile(r"\$((?:\.[^.\[\]]+|\[[^\[\]]+\])+)")
_STEP: Final = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\[(?:'([^']*)'|"([^"]*)")\]|(.)""")


def join_arguments(pieces: Sequence[Any]) -> JsonObject | None:
    """Join the pieces of a call's arguments; ``None`` if they do not make an object.

    >>> join_arguments([{"jsonPath": "$.a[0].b", "numberValue": 1}])
    {'a': [{'b': 1}]}
    """
    values: dict[str, Any] = {}  # only a text's value is a list: its pieces
    for piece in map(object_of, pieces):
        path = piece.get("jsonPath")
        if not isinstance(path, str):
            return None
        known = values.get(path)
        if isinstance(text := piece.get("stringValue"), str):
            values[path] = known = known if isinstance(known, list) else []
            known.append(text)
        elif "nullValue" in piece:
            values[path] = None
        else:
            value = piece.get("numberValue", piece.get("boolValue"))
            if not isinstance(value, int | float):
                return None
            values[path] = value
    joined: JsonObject = {}
    for path, value in values.items():
        steps = _read_path(path)
        whole = join_text(value) if isinstance(value, list) else value
        if steps is None or not _put(joined, steps, whole):
            return None
    return joined


def _read_path(path: str) -> list[str | int] | None:
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    steps: list[str | int] = []
    for dotted, number, quoted, double, other in _STEP.findall(found[1]):
        if other or len(steps) == _MAX_STEPS:
            return None
        steps.append(int(number) if number else dotted or quoted or double)
    return steps


def _put(into: Any, steps: Sequence[str | int], value: Any) -> bool:
    """Put a value in its place, and make the containers around it; false if it has no place."""
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        is_last = following is None
        made: Any = value if is_last else [] if isinstance(following, int) else {}
        if isinstance(into, list) and isinstance(step, int) and step <= len(into):
            if step == len(into):
                into.append(made)
            elif is_last:
                into[step] = value
        elif isinstance(into, dict) and isinstance(step, str):
            if is_last:
                into[step] = value
            else:
                into.setdefault(step, made)
        else:
            return False
        into = into[step]
    return True
