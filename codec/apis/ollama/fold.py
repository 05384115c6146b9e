"""The lines of a streamed answer to one answer, incrementally and within bounds.

Rules (``docs/contract/apis.md#ollama``):

1. Text and thinking come in pieces and are joined; calls of tools, and all else that comes in
   lists, are gathered in their order. Of other members the last value stands that is not null.
2. ``"done": true`` is the end. What comes behind it is a chunk and passed over, but for an error.
3. Past its budget nothing grows (``observer_limit``); how it ended, counts and errors are still
   taken (R5).
4. A line that is not part of an answer is a chunk, and noted (``foreign_chunk``). Its members are
   the answer's all the same: something was said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.apis.ollama.said import count_context, is_answer, is_of_end, make_said
from codec.budget import MEMBER_BYTES, Budget
from codec.error_objects import find_error
from codec.growing_text import GrowingText, TextKind
from codec.members import list_of, merge_members, object_of, text_of
from codec.text.jsontext import compact_text, join_text
from codec.text_fold import TextFold
from codec.usage_fold import MAX_USAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.apis.ollama.said import OllamaSaid
    from codec.text.jsontext import JsonObject

__all__ = ("LineFold",)

_OF_MESSAGE: Final = {"thinking": "message.thinking", "content": "message.content"}
_OF_LINE: Final = {"thinking": "thinking", "response": "response"}
"""The members that come in pieces, of a chat's message and of any other line, and how their texts
are called here."""

_CALLS: Final = "tool_calls"
_KINDS: Final = {"message.thinking": TextKind.REASONING, "thinking": TextKind.REASONING}


class LineFold(TextFold):
    """Folds the lines of one stream. Not safe for concurrent calls.

    Args:
        budget: of all that is kept.
        kind: what it is an answer to.

    Attributes:
        has_content: text, thinking or a call was seen.
        is_complete: the line was seen that ends an answer.
    """

    __slots__ = (
        "_end_budget",
        "_kind",
        "_members",
        "_message",
        "_texts",
        "is_complete",
    )

    def __init__(self, budget: Budget, kind: type[OllamaSaid]) -> None:
        super().__init__(budget)
        self.is_complete = False
        self._kind = kind
        self._members: JsonObject = {}
        self._message: JsonObject | None = None  # what it says besides its texts
        self._texts: dict[str, list[str]] = {}
        self._end_budget = Budget(MAX_USAGE_BYTES)

    def feed(self, line: Any) -> bool:
        """Fold one line; whether it is a chunk, which an error is not.

        Args:
            line: its decoded JSON, of any type, which is the fold's from here on.
        """
        if (error := find_error(line)) is not None:
            self.note_error(error)
            return False
        members = object_of(line)
        if not is_answer(members):
            self.note("foreign_chunk")
        if not self.is_complete:
            self._add(members)
        return True

    def _is_piece(self, kind: str) -> bool:  # noqa: ARG002 - none but ours are opened
        return True

    def _find_pieces(self, kind: str, index: int, part: int) -> list[str] | None:  # noqa: ARG002
        pieces = self._texts.get(kind)
        if pieces is None and self.budget.reserve(MEMBER_BYTES):
            pieces = self._texts[kind] = []
        return pieces

    def _add(self, line: JsonObject) -> None:
        count_context(line)
        said = line.pop("message") if isinstance(line.get("message"), dict) else None
        if said is not None:
            if self._message is None:
                self._message = {}
            self._add_texts(said, _OF_MESSAGE)
            self._merge(self._message, said)
        self._add_texts(line, _OF_LINE)
        if line.get("done") is True:
            self.is_complete = True
            end = {name: value for name, value in line.items() if is_of_end(name)}
            merge_members(self._members, end, skip=(), budget=self._end_budget, extend_lists=True)
        self._merge(self._members, line)

    def _add_texts(self, members: JsonObject, kinds: dict[str, str]) -> None:
        """Pick the texts from among these members, and add them to what came before."""
        for name, kind in kinds.items():
            if isinstance(members.get(name), str):
                piece = members.pop(name)
                if piece or kind not in self._texts:
                    self.open_text(kind, 0, 0, piece)
        if members.get(_CALLS):
            self.has_content = True

    def _merge(self, into: JsonObject, members: JsonObject) -> None:
        merge_members(into, members, skip=(), budget=self.budget, extend_lists=True)

    def look(self) -> Sequence[GrowingText]:
        """Look at the texts, and the arguments of calls, which come whole."""
        texts = [
            GrowingText(kind, _KINDS.get(kind, TextKind.TEXT), pieces)
            for kind, pieces in self._texts.items()
        ]
        for at, call in enumerate(list_of((self._message or {}).get(_CALLS))):
            function = object_of(object_of(call).get("function"))
            if function.get("arguments"):
                pieces, name = (compact_text(function["arguments"]),), text_of(function.get("name"))
                texts.append(GrowingText(at, TextKind.ARGUMENTS, pieces, name, grows=False))
        return texts

    def answer(self) -> OllamaSaid:
        """Return the answer as it stands, after the last line."""
        self._close_text()
        body = dict(self._members)
        texts = {kind: join_text(pieces) for kind, pieces in self._texts.items()}
        if self._message is not None:
            said = {name: texts[kind] for name, kind in _OF_MESSAGE.items() if kind in texts}
            body["message"] = self._message | said
        body |= {name: texts[kind] for name, kind in _OF_LINE.items() if kind in texts}
        if self.budget.exceeded or self._end_budget.exceeded:
            self.note("observer_limit")
        return make_said(
            self._kind,
            body,
            error=self._error,
            anomalies=(*self._anomalies,),
        )
