"""Joins the chunks of a streamed answer to one answer, incrementally and within bounds.

See ``docs/contract/apis.md#gemini-stream``. A chunk has the shape of a whole answer, with the new
parts alone. A candidate is known by its index, or by its place if it has none. A call is whole in
one part, unless it says that more will follow: then parts without a name add to its arguments, and
a bare part ends it (:mod:`codec.apis.gemini.calls`). A finish reason does not mark the end of the
answer; the last one that is not empty is taken. The last value of each count is taken, too; counts
are never summed.

Beyond the budget nothing grows (``observer_limit``); how the answer ended, its counts and errors
are still taken (R5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.apis.gemini.calls import join_arguments
from codec.apis.gemini.names import both, member_of
from codec.apis.gemini.said import KNOWN, make_answer, shorten_data
from codec.budget import MEMBER_BYTES, Budget, size_bytes
from codec.error_objects import find_error
from codec.growing_text import GrowingText, TextKind
from codec.members import list_of, object_of, text_of
from codec.text.integers import index_of
from codec.text.jsontext import compact_text, decode_json, join_text
from codec.text_fold import TextFold
from codec.usage_fold import MAX_USAGE_BYTES, merge_usage

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from codec.apis.gemini.said import ContentAnswer
    from codec.text.base64_text import TakenPictures
    from codec.text.jsontext import JsonObject

__all__ = ("ContentFold",)

_PART_BYTES: Final = 1_024
"""The room of a part before it says anything, and of a candidate."""

_MAX_WORD_CHARS: Final = 64
"""Longest finish reason that is taken when there is no room left."""

_KEPT_APART: Final = both("candidates", "usageMetadata")
_OF_CANDIDATE: Final = both("content", "finishReason")
_TEXT: Final = "text"
_OF_TEXT: Final = frozenset({_TEXT, "thought", "transcript"})  # the last one is of Live's
_SILENT: Final = frozenset({*_OF_TEXT, "thoughtSignature"})


class _Part:
    """A part: its first value, and the pieces of its text; ``None`` if no more will be joined."""

    __slots__ = ("pieces", "value")

    def __init__(self, value: JsonObject, pieces: list[str] | None = None) -> None:
        self.value = value
        self.pieces = pieces


class _Candidate:
    """A candidate under way; the call that continues is one of its parts."""

    __slots__ = ("content", "members", "open_call", "parts")

    def __init__(self) -> None:
        self.members: JsonObject = {}
        self.content: JsonObject | None = None
        self.parts: list[_Part] = []
        self.open_call: JsonObject | None = None


class ContentFold(TextFold):
    """Folds the chunks of one stream. Not safe for concurrent calls.

    Attributes:
        budget: of all that is kept.
        has_content: text, a thought, a call or anything else was said.
    """

    __slots__ = ("_body", "_candidates", "_later_counts", "_pictures", "_usage", "_usage_budget")

    def __init__(self, budget: Budget, pictures: TakenPictures) -> None:
        super().__init__(budget)
        self._pictures = pictures
        self._body: JsonObject = {}
        self._candidates: dict[int, _Candidate] = {}
        self._usage: JsonObject = {}
        self._usage_budget = Budget(MAX_USAGE_BYTES)
        self._later_counts = b""  # of words, in the form of those that were merged last

    def add_words(self, texts: Sequence[str], counts: bytes) -> bool:
        """Add texts to the open text, and keep the counts of the last chunk for later.

        Args:
            texts: of chunks that say nothing else, and are otherwise like the one before them.
            counts: the last ``usageMetadata``, in the same form as those before it; empty if there
                are none.

        Returns:
            Whether a text is open; if not, nothing was done.
        """
        if not self._text.kind:
            return False
        self.add_pieces(texts)
        self._later_counts = counts
        return True

    def _merge_counts(self) -> None:
        """Merge the counts of the last word."""
        if counts := self._later_counts:
            self._later_counts = b""
            merge_usage(self._usage, object_of(decode_json(counts)), self._usage_budget)

    def feed(self, chunk: Any, name: str | None = None) -> bool:
        """Fold one chunk, and tell whether it is one; an error is not.

        Args:
            chunk: its decoded JSON, of any type; the fold keeps and changes it.
            name: the event's own name, if it had one.
        """
        self._close_text()
        self._merge_counts()
        if (error := find_error(chunk, name)) is not None:
            self.note_error(error)
            return False
        members = object_of(chunk)
        if KNOWN.isdisjoint(members):
            self.note("foreign_chunk")
            self._put(self._body, members, besides=())  # something was said
            return True
        for place, value in enumerate(list_of(members.get("candidates"))):
            self._feed_candidate(place, object_of(value))
        merge_usage(self._usage, object_of(member_of(members, "usageMetadata")), self._usage_budget)
        self._put(self._body, members, besides=_KEPT_APART)
        return True

    def _is_piece(self, kind: str) -> bool:
        return kind == _TEXT

    def _find_pieces(self, kind: str, index: int, part: int) -> list[str] | None:  # noqa: ARG002
        return self._candidates[index].parts[part].pieces

    def _feed_candidate(self, place: int, value: JsonObject) -> None:
        named = index_of(value.get("index"))
        index = place if named is None else named
        known = self._candidates.get(index)
        if known is None:
            if not self.budget.reserve(_PART_BYTES):
                return
            known = self._candidates[index] = _Candidate()
        if isinstance(content := value.get("content"), dict):
            known.content = {} if known.content is None else known.content
            self._put(known.content, content, besides=("parts",))
            for part in list_of(content.get("parts")):
                if isinstance(part, dict):
                    self._feed_part(index, known, part)
        self._put(known.members, value, besides=_OF_CANDIDATE)
        word = member_of(value, "finishReason")
        if word and len(str(word)) <= _MAX_WORD_CHARS:
            known.members["finishReason"] = word

    def _feed_part(self, index: int, candidate: _Candidate, part: JsonObject) -> None:
        text = part.get(_TEXT)
        if isinstance(text, str) and part.keys() <= _OF_TEXT:
            self._feed_text(index, candidate, part, text)
            return
        call = part.get("functionCall")
        if isinstance(call, dict) and not call.get("name") and part.keys() == {"functionCall"}:
            self._feed_pieces(candidate, call)
            return
        shorten_data(part, self._pictures)
        if part and self.budget.reserve(_PART_BYTES + size_bytes(part)):
            candidate.parts.append(_Part(part))
            if isinstance(call, dict):
                candidate.open_call = call if call.get("willContinue") is True else None
            if text or part.keys() - _SILENT:
                self.has_content = True

    def _feed_text(self, index: int, candidate: _Candidate, part: JsonObject, text: str) -> None:
        """Join a text to the part before it, or begin another part.

        Texts are joined if both are thoughts or neither is, and neither is signed. An empty text
        says nothing, unless it is signed.
        """
        if not text:
            return
        kind = {name: value for name, value in part.items() if name != _TEXT and value}
        last = candidate.parts[-1] if candidate.parts else None
        if last is None or last.pieces is None or last.value != kind:
            if not self.budget.reserve(_PART_BYTES):
                return
            candidate.parts.append(_Part(kind, []))
        self.open_text(_TEXT, index, len(candidate.parts) - 1, text)

    def _feed_pieces(self, candidate: _Candidate, more: JsonObject) -> None:
        """Add to the arguments of the call that continues, or end it."""
        call = candidate.open_call
        if call is None:
            return
        pieces = list_of(more.get("partialArgs"))
        if pieces and self.budget.reserve(size_bytes(pieces) + MEMBER_BYTES):
            call["partialArgs"] = known = list_of(call.get("partialArgs"))
            known += pieces
        if more.get("willContinue") is not True:
            candidate.open_call = None

    def _put(self, into: JsonObject, members: JsonObject, *, besides: Container[str]) -> None:
        """Set members; the last value of each that is not null counts."""
        for name, value in members.items():
            known = into.get(name)
            if name in besides or (name in into and (value is None or value == known)):
                continue
            growth = size_bytes(value) - size_bytes(known)
            if self.budget.reserve(growth + (0 if name in into else len(name) + MEMBER_BYTES)):
                into[name] = value

    def look(self) -> Sequence[GrowingText]:
        """Look at the texts of all parts, and at calls that are whole."""
        return [
            text
            for index, candidate in sorted(self._candidates.items())
            for at, part in enumerate(candidate.parts)
            if (text := _look_at((index, at), part, candidate.open_call)) is not None
        ]

    def answer(self, *, has_end: bool, is_cut: bool) -> ContentAnswer:
        """Return the answer as it stands, after the last chunk.

        Args:
            has_end: the end of the framing came, if the framing has one.
            is_cut: the framing shows that the stream broke off.
        """
        self._close_text()
        self._merge_counts()
        body: JsonObject = {}
        if self._candidates:
            body["candidates"] = [
                _whole(self._candidates[index]) for index in sorted(self._candidates)
            ]
        body |= self._body
        if self._usage:
            body["usageMetadata"] = self._usage
        if self.budget.exceeded or self._usage_budget.exceeded:
            self.note("observer_limit")
        return make_answer(
            body,
            error=self._error,
            anomalies=(*self._anomalies,),
            has_end=has_end,
            is_cut=is_cut,
        )


def _whole(candidate: _Candidate) -> JsonObject:
    """The candidate as far as it is known."""
    if candidate.content is None:
        return candidate.members
    parts = [_whole_part(part) for part in candidate.parts]
    content = candidate.content | ({"parts": parts} if parts else {})
    return {"content": content} | candidate.members


def _look_at(key: tuple[int, int], part: _Part, open_call: JsonObject | None) -> GrowingText | None:
    kind = TextKind.REASONING if part.value.get("thought") else TextKind.TEXT
    if part.pieces is not None:
        return GrowingText(key, kind, part.pieces)
    text, name = text_of(part.value.get(_TEXT)), None
    call = part.value.get("functionCall")
    if isinstance(call, dict) and call is not open_call:
        whole = object_of(_whole_part(part).get("functionCall"))
        kind, name = TextKind.ARGUMENTS, text_of(whole.get("name"))
        text = compact_text(whole["args"]) if whole.get("args") else None
    return None if text is None else GrowingText(key, kind, (text,), name, grows=False)


def _whole_part(part: _Part) -> JsonObject:
    if part.pieces is not None:
        return {_TEXT: join_text(part.pieces)} | part.value
    call = part.value.get("functionCall")
    if not isinstance(call, dict) or call.keys().isdisjoint({"partialArgs", "willContinue"}):
        return part.value
    joined = join_arguments(list_of(call.get("partialArgs")))
    if joined is None:
        return part.value
    kept = {name: call[name] for name in call if name not in {"partialArgs", "willContinue"}}
    if joined:
        kept["args"] = object_of(call.get("args")) | joined
    return part.value | {"functionCall": kept}
