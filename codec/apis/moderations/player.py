"""The player of moderations: it flags an input that has one of the phrases of a category.

The categories are OpenAI's. The same input always gets the same judgement.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from codec.apis.faults import build_error
from codec.apis.player import PlainPerformance
from codec.members import list_of, object_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.apis.player import Player, Script
    from codec.asked import Asked
    from codec.dialects import Dialect
    from codec.text.jsontext import JsonObject

__all__ = ("PLAYER",)

_PHRASES: Final[Mapping[str, tuple[str, ...]]] = {
    "harassment": ("you are worthless",),
    "harassment/threatening": (),
    "sexual": (),
    "hate": (),
    "hate/threatening": (),
    "illicit": ("break into", "pick a lock"),
    "illicit/violent": (),
    "self-harm/intent": (),
    "self-harm/instructions": (),
    "self-harm": (),
    "sexual/minors": (),
    "violence": ("hurt someone",),
    "violence/graphic": (),
}
"""The phrases that each category looks for."""

_HIGH, _LOW = 0.97, 0.000125


class _ModerationsPlayer:
    """Plays moderations."""

    def find_fault(self, body: JsonObject) -> JsonObject | None:
        """The first thing wrong with a request, ``None`` for a good one."""
        given = body.get("input")
        if isinstance(given, str) or (isinstance(given, list) and given):
            return None
        code = "missing_required_parameter"
        return build_error("Missing required parameter: 'input'.", param="input", code=code)

    def write_error(self, error: JsonObject, dialect: Dialect) -> bytes:  # noqa: ARG002
        """Write the body of an error."""
        return json.dumps({"error": error}).encode()

    def play(self, asked: Asked, script: Script, _: Dialect) -> PlainPerformance:
        """Begin an answer."""
        answer = {
            "id": f"modr-{script.answer_id}",
            "model": asked.model or "omni-moderation-latest",
            "results": [_judge(text.lower()) for text in _list_texts(asked.body.get("input"))],
        }
        return PlainPerformance(json.dumps(answer).encode())


PLAYER: Final[Player] = _ModerationsPlayer()


def _list_texts(given: Any) -> Sequence[str]:
    """The inputs as texts: a list of parts is one input, each text of a list is one."""
    values = [given] if isinstance(given, str) else list_of(given)
    if any(isinstance(value, dict) for value in values):
        return [" ".join(str(object_of(part).get("text", "")) for part in values)]
    return [str(value) for value in values]


def _judge(text: str) -> JsonObject:
    found = {name: any(one in text for one in phrases) for name, phrases in _PHRASES.items()}
    return {
        "flagged": any(found.values()),
        "categories": found,
        "category_scores": {name: _HIGH if is_found else _LOW for name, is_found in found.items()},
        "category_applied_input_types": {name: ["text"] for name in found},
    }
