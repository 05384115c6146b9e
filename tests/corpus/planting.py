"""A canary in every member of an exchange: all texts at once, and then the words that shape it.

What says of what kind a thing is (``type``, ``role`` and their like) is planted in turn: changed
all together, an exchange would be another one, of which nothing is read.
"""

from __future__ import annotations

import copy
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.corpus.oracle import parse_json
from tests.telemetry.canaries import CANARY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.corpus.recordings import Recording

__all__ = ("Member", "Planted", "find_images", "plant_all", "plant_in_turn")

Member = tuple[str, ...]
"""Where a text is: ``asked`` or ``said``, and then names; ``*`` stands for the places of a list."""

SHAPING = {
    *("type", "role", "object", "status", "mimeType", "mime_type", "media_type", "modality"),
    *("finishReason", "blockReason", "finish_reason", "stop_reason", "done_reason"),
    *("model", "modelVersion", "id"),
}
_DATA = "data:"

_KINDS = ("type", "mimeType", "mime_type", "media_type", "content_type")
"""Members that say that their object is an image."""


class Planted:
    """An exchange with canaries in it.

    Attributes:
        words: the members by the canary in them.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.asked, self.said = recording.request, recording.text
        self.words: dict[str, Member] = {}

    def plant(self, member: Member) -> str:
        """A canary of its own for a member."""
        word = _letters(len(self.words))
        self.words[word] = member
        return f"c4n4ry_{word}_"


def _letters(number: int) -> str:
    """A number in letters alone."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def plant_all(recording: Recording) -> Planted:
    """All texts, but for those that shape it; JSON in a text is gone into."""
    planted = Planted(recording)
    planted.asked = _rewrite(planted.asked, lambda value: _plant(planted, value, ("asked",)))
    planted.said = _rewrite(planted.said, lambda value: _plant(planted, value, ("said",)))
    return planted


def _rewrite(body: bytes, change: Callable[[Any], Any]) -> bytes:
    """A body with its JSON changed: one value, or one a line."""
    if (value := parse_json(body)) is not None:
        return json.dumps(change(value)).encode()
    lines = body.decode("utf-8", "replace").split("\n")
    return "\n".join(_rewrite_line(line, change) for line in lines).encode()


def _rewrite_line(line: str, change: Callable[[Any], Any]) -> str:
    name = _DATA if line.startswith(_DATA) else ""
    value = parse_json(line.removeprefix(name).strip())
    return name + json.dumps(change(value)) if isinstance(value, dict | list) else line


def _plant(planted: Planted, value: Any, at: Member) -> Any:
    match value:
        case dict():
            return {
                name: one
                if name in SHAPING and isinstance(one, str)
                else _plant(planted, one, (*at, name))
                for name, one in value.items()
            }
        case list():
            return [_plant(planted, one, (*at, "*")) for one in value]
        case str():
            inner = parse_json(value) if value.startswith(("{", "[")) else None
            return json.dumps(_plant(planted, inner, at)) if inner else planted.plant(at)
        case _:
            return value


def plant_in_turn(recording: Recording, known: set[Member]) -> Iterator[Planted]:
    """Each text that shapes it, where no exchange before had one in such a member.

    Args:
        recording: the exchange.
        known: members that were planted; these are added.
    """
    for side in ("asked", "said"):
        members: set[Member] = set()
        body = recording.request if side == "asked" else recording.text
        _rewrite(body, partial(_collect, at=(side,), members=members))
        for member in sorted(members - known):
            known.add(member)
            planted = Planted(recording)
            word = planted.plant(member)
            setattr(planted, side, _rewrite(body, partial(_put, member=member[1:], word=word)))
            yield planted


def _collect(value: Any, at: Member, members: set[Member]) -> Any:
    if isinstance(value, dict):
        for name, one in value.items():
            if name in SHAPING and isinstance(one, str):
                members.add((*at, name))
            else:
                _collect(one, (*at, name), members)
    elif isinstance(value, list):
        for one in value:
            _collect(one, (*at, "*"), members)
    return value


def _put(value: Any, member: Member, word: str) -> Any:
    """The value with a word in all such members."""
    if not member:
        return word if isinstance(value, str) else value
    if member[0] == "*":
        return [_put(one, member[1:], word) for one in value] if isinstance(value, list) else value
    if not isinstance(value, dict) or member[0] not in value:
        return value
    changed = copy.copy(value)
    changed[member[0]] = _put(value[member[0]], member[1:], word)
    return changed


def find_images(planted: Planted) -> set[str]:
    """The canaries in images of the request: their names, their places, their data."""
    return {word.decode() for word in CANARY.findall(_write_images(parse_json(planted.asked)))}


def _write_images(value: Any) -> bytes:
    """The images in a value, one after the other."""
    if isinstance(value, list):
        return b"".join(map(_write_images, value))
    if not isinstance(value, dict):
        return b""
    if any("image" in str(value.get(kind)) for kind in _KINDS):
        return json.dumps(value).encode()
    return b"".join(
        json.dumps(one).encode()
        if "image" in name.lower() or name == "mask"
        else _write_images(one)
        for name, one in value.items()
    )
