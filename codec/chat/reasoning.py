"""Reads a model's reasoning before its answer, under all the names that chats have for it.

Reasoning comes as ``reasoning_content``, ``reasoning`` (vLLM's new name), ``reasoning_text``
(Copilot), in thinking parts of the content, or in ``reasoning_details`` (OpenRouter, MiniMax,
Snowflake). Entries of these have a ``text``, a ``summary``, or encrypted ``data``, which nobody can
read.

The same reasoning may come in several of these ways. Equal texts count once: within a delta, and
within the whole answer if each way sent the same text in different deltas. Texts that differ are
all kept.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from codec.budget import FRAGMENT_BYTES
from codec.chat.fragments import are_cumulative, look_at_pieces
from codec.growing_text import GrowingText, TextKind
from codec.members import list_of, text_of
from codec.parts import MAX_READ_PARTS
from codec.text.jsontext import join_text

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from codec.budget import Budget
    from codec.text.jsontext import JsonObject

__all__ = ("ALL_MEMBERS", "REASONING_MEMBERS", "ReasoningFold", "read_reasoning")

REASONING_MEMBERS: Final = ("reasoning_content", "reasoning", "reasoning_text")
"""The members of a message, or of a delta, that are reasoning as text."""

_DETAILS = "reasoning_details"

ALL_MEMBERS: Final = frozenset({*REASONING_MEMBERS, _DETAILS})
"""All members that are reasoning, as text or as objects."""


class ReasoningFold:
    """The reasoning of one choice, as far as it has come.

    Args:
        budget: the room from which its growth is taken.

    Attributes:
        pieces: texts of all ways except details, in order; the choice adds thinking parts.
    """

    __slots__ = ("_budget", "_by_name", "_details", "pieces")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.pieces: list[str] = []
        self._by_name: dict[str, list[str]] = {}
        self._details: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.pieces or self._details)

    def feed(self, delta: JsonObject, thinking: str) -> bool:
        """Fold the reasoning of a delta, and tell whether it says something.

        Args:
            delta: a delta or a whole message.
            thinking: the text of the thinking parts in its content.
        """
        said, speaks = {thinking}, False
        for name in REASONING_MEMBERS:
            text = delta.get(name)
            if not text or not isinstance(text, str):
                continue
            if self._budget.reserve_text(text):
                self._by_name.setdefault(name, []).append(text)
                if text not in said:
                    self.pieces.append(text)
            said.add(text)
            speaks = True
        details = [*_list_details(delta[_DETAILS])] if _DETAILS in delta else []
        if details and self._budget.reserve(FRAGMENT_BYTES * len(details)):
            self._details += details  # the texts are those of the body
        return speaks or bool(details)

    def feed_texts(self, name: str, text: str) -> None:
        """Fold the joined texts of several deltas, for which there is room."""
        self._by_name.setdefault(name, []).append(text)
        self.pieces.append(text)

    def look(self, key: Hashable, pending: Sequence[str]) -> Iterator[GrowingText]:
        """Look at the text so far, and at pieces that are still to be folded."""
        if self.pieces or pending:
            yield GrowingText(key, TextKind.REASONING, self.pieces, pending=pending)
        elif self._details:
            yield look_at_pieces(key, TextKind.REASONING, self._details)

    def read(self, thinking: Sequence[str]) -> str:
        """Read the whole text.

        Args:
            thinking: the texts of the thinking parts, which are among the pieces, too.
        """
        ways = [*self._by_name.values(), thinking]
        said = {join_text(texts) for texts in ways if texts}
        text = said.pop() if len(said) == 1 else join_text(self.pieces)
        return _join_details(text, self._details) if self._details else text

    def members(self) -> JsonObject:
        """Return the members of the message, but for details."""
        return {name: join_text(texts) for name, texts in self._by_name.items()}


def read_reasoning(message: JsonObject) -> str | None:
    """Read the reasoning of a message that a client sends back, under the first of its names."""
    for name in REASONING_MEMBERS:
        if text := text_of(message.get(name)):
            return text
    return "".join(_list_details(message[_DETAILS])) or None if _DETAILS in message else None


def _list_details(value: Any) -> Iterator[str]:
    for detail in islice(list_of(value), MAX_READ_PARTS):
        if isinstance(detail, dict):
            text = text_of(detail.get("text")) or text_of(detail.get("summary"))
            if text is not None:
                yield text


def _join_details(text: str, details: Sequence[str]) -> str:
    """Join the text of the other ways and that of details.

    Details repeat the reasoning of the other ways in another form, so their text counts only if it
    differs by more than white space. Details may each repeat the text so far (MiniMax), as content
    may (:mod:`codec.chat.fragments`).
    """
    detailed = details[-1] if are_cumulative(details) else join_text(details)
    bare, bare_details = "".join(text.split()), "".join(detailed.split())
    if bare_details in bare:
        return text
    return detailed if bare in bare_details else text + detailed
