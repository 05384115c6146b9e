"""The envelope of Code Assist."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from codec.apis.code_assist.peeling import REQUEST, ChunkPeeler, peel_answer, peel_request
from codec.apis.envelope import Envelope

if TYPE_CHECKING:
    from codec.apis.player import Player

__all__ = ("CODE_ASSIST",)


def _enclose_player(player: Player) -> Player:
    module = import_module("codec.apis.code_assist.player")
    enclosed: Player = module.EnclosedPlayer(player)
    return enclosed


CODE_ASSIST: Final = Envelope(
    name="code_assist",
    path="/v1internal",
    request_member=REQUEST,
    peel_request=peel_request,
    peel_answer=peel_answer,
    open_peeler=ChunkPeeler,
    enclose_player=_enclose_player,
)
