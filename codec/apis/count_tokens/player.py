"""The player of token counts: as many tokens as the words of a request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from codec.apis.faults import build_error
from codec.apis.player import PlainPerformance

if TYPE_CHECKING:
    from codec.apis.player import Player, Script
    from codec.asked import Asked
    from codec.dialects import Dialect
    from codec.text.jsontext import JsonObject

__all__ = ("PLAYER",)


class _CountPlayer:
    """Plays counts of tokens."""

    def find_fault(self, body: JsonObject) -> JsonObject | None:
        """The first thing wrong with a request, ``None`` for a good one."""
        if isinstance(body.get("model"), str) and isinstance(body.get("messages"), list):
            return None
        return build_error("model and messages: Field required")

    def write_error(self, error: JsonObject, _: Dialect) -> bytes:
        """Write the body of an error."""
        shaped = {"type": error["type"], "message": error["message"]}
        return json.dumps({"type": "error", "error": shaped}).encode()

    def play(self, _: Asked, script: Script, __: Dialect) -> PlainPerformance:
        """Begin an answer."""
        return PlainPerformance(json.dumps({"input_tokens": script.prompt_tokens}).encode())


PLAYER: Final[Player] = _CountPlayer()
