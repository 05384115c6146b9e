r"""A streamed answer, line by line: bytes in, :class:`~codec.apis.ollama.said.OllamaSaid` out.

It keeps the rules of :mod:`codec.event_reader`. An event is a line; a line that is not JSON does
not affect the others.

The fold joins the lines to one answer (``docs/contract/apis.md#ollama``). Text and thinking come in
pieces and are joined; calls of tools, and all else that comes in lists, are collected in their
order. For any other member the last value that is not null counts. Beyond the budget nothing grows
(``observer_limit``); how the answer ended, its counts and errors are still taken (R5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.apis.ollama.said import count_context, is_answer, is_of_end, make_said
from codec.budget import MAX_ANSWER_BYTES, MEMBER_BYTES, Budget
from codec.error_objects import find_error
from codec.event_reader import SMALL_PENDING_BYTES, EventReader
from codec.growing_text import GrowingText, TextKind
from codec.members import list_of, merge_members, object_of, text_of
from codec.text.jsontext import compact_text, join_text
from codec.text.lines import LineDecoder
from codec.text.sse import ServerSentEvent
from codec.text_fold import TextFold
from codec.usage_fold import MAX_USAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.apis.ollama.said import OllamaSaid
    from codec.text.jsontext import JsonObject

__all__ = ("MAX_LINE_BYTES", "LineStream")

_OF_MESSAGE: Final = {"thinking": "message.thinking", "content": "message.content"}
_OF_LINE: Final = {"thinking": "thinking", "response": "response"}
"""The members that come in pieces, in a chat's message and in any other line, each with the kind of
its text."""

_CALLS: Final = "tool_calls"
_KINDS: Final = {"message.thinking": TextKind.REASONING, "thinking": TextKind.REASONING}


class _LineFold(TextFold):
    """Folds the lines of one stream. Not safe for concurrent calls.

    Args:
        budget: of all that is kept.
        kind: the kind of answer.

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
        """Fold one line, and tell whether it is a chunk; an error is not one.

        A line that is not part of an answer is a chunk, and noted (``foreign_chunk``). Its members
        belong to the answer all the same. Chunks behind the end are ignored, errors are not.

        Args:
            line: its decoded JSON, of any type; the fold keeps and changes it.
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


MAX_LINE_BYTES = 16 * 1024 * 1024
"""Largest line: the last one of a long text has the tokens of its whole context."""


class LineStream(EventReader[_LineFold]):
    r"""Reads one stream of lines. Not safe for concurrent calls.

    Args:
        kind: the kind of answer.
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).

    >>> from codec.apis.ollama.said import GenerateSaid
    >>> stream = LineStream(kind=GenerateSaid)
    >>> stream.feed(b'{"response": "Good", "done": false}\n{"response": "bye", ')
    >>> stream.feed(b'"done": true}')
    >>> stream.finish().answers[0].message.parts
    ('Goodbye',)
    """

    __slots__ = ()

    def __init__(
        self,
        *,
        kind: type[OllamaSaid],
        lend: Callable[[int], bool] | None = None,
        **_of_other_apis: object,
    ) -> None:
        fold = _LineFold(Budget(MAX_ANSWER_BYTES, lend), kind)
        super().__init__(fold, LineDecoder(limit_bytes=MAX_LINE_BYTES))

    @property
    def is_complete(self) -> bool:
        """Whether the line that ends an answer was seen."""
        return self._fold.is_complete

    def feed(self, data: bytes) -> None:
        """Feed one read of the (decompressed) body, cut anywhere."""
        for line in self._split(data):
            self._feed_event(ServerSentEvent(data=line))
        if self._decoder.pending_bytes > SMALL_PENDING_BYTES:
            self._fold.settle()  # before the line under way takes the room
        self._reserve_pending()

    def finish(self) -> OllamaSaid:
        """End the stream and return what it said. Call it once."""
        self._read_end()
        return self._fold.answer()

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:  # noqa: ARG002
        self.chunk_count += self._fold.feed(value)
