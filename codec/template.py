r"""Chunks that differ in one piece of text only, recognised by their bytes.

Most chunks of a stream are the one before with another word in it. Once such a chunk was parsed
and folded, the next one need not be: what its bytes have in common with the first has been folded
already, and only the word is new.

Rules:

1. A chunk becomes a template only if folding it a second time would change nothing but append its
   text: no usage, no finish reason, no log probabilities, no list anywhere but that of its one
   choice (lists are concatenated), and one piece of text (:data:`SPOKEN`).
2. The place of the text is found in the bytes. No guess about JSON is trusted (keys that occur
   twice, or are written with escapes, or stand inside a string): where there is any escape outside
   the text, or the key not just once, it is *tried*. With another text there, the parser must find
   just that text changed.
3. A template matches where every byte outside its places is equal. The text is a JSON string of any
   form; its place ends at its own closing quote.
4. Of events in a row the texts are read together. They are cut out of lines by their places alone,
   and then all of it is proven at once: put together again they are the very bytes that came, and
   each of them is one JSON string. Where that fails they are matched one by one, which says how far
   they go.
5. Padding behind the text (``obfuscation`` of OpenAI, ``p`` of Mistral) may differ, too.
6. What was folded after a template was made may have changed what it stands on, so whoever folds a
   chunk in the general way must forget it.

The general way is the oracle: ``tests/codec/test_template.py`` folds everything in both.
"""

from __future__ import annotations

import re
from io import BytesIO
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from codec.integers import index_of
from codec.jsontext import NO_STRING, decode_json, decode_string

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.jsontext import JsonObject

__all__ = ("SPOKEN", "ChunkTemplate", "learn_template")

SPOKEN = ("content", "reasoning_content", "reasoning")
"""The members of a delta that carry text, one of which a template is about."""

_PADDING = ("obfuscation", "p")
_CONTAINERS = (dict, list)
_LISTS = {"choices", "delta"}
_UNSPOKEN = ("refusal", "tool_calls", "function_call")
_KEYS = {name: b'"%b"' % name.encode() for name in (*SPOKEN, *_PADDING)}
_TO_STRING = {name: re.compile(rb'%b[ \t]*:[ \t]*"' % key).search for name, key in _KEYS.items()}
_TRIAL = "a text that nobody sends"
_ROW_EVENTS = 64
"""At most so many are looked at together, and again, half of them and so on, where one of them is
another; one by one, where one of them cannot be read with the others."""

_USUAL_TEXT_BYTES = 32
_LITERAL = re.compile(rb'(?:[^"\\]|\\.)*', re.DOTALL)
_NO_MATCH = "", 0
_PLAIN = re.compile(rb"[ !#-\[\]-~]*")  # ASCII without quote, backslash and control characters
_EVENT_FIELD = b"data: "
_EVENT_END = b"\n\n"
_LF, _CR, _BACKSLASH, _LIST = b"\n\r\\["  # as numbers, which are searched for as they are
_BETWEEN_TEXTS = "\x7f"
"""Stands for itself in a JSON string, and not behind a backslash; hardly any text has it."""

_BETWEEN_LITERALS = _BETWEEN_TEXTS.encode()
_EMPTY_BETWEEN = 2 * _BETWEEN_TEXTS


class ChunkTemplate:
    """The bytes of one event, with a place for its text. Immutable.

    Args:
        index: the choice's index.
        member: which of :data:`SPOKEN` carries the text.
        before: the chunk's bytes up to and with the quote that opens the text.
        between: the bytes from the text's closing quote on to the one that opens the padding;
            empty where there is no padding.
        behind: the bytes from the last closing quote on.
        padding_member: the padding's name, ``None`` where there is none.
    """

    __slots__ = (
        "_before",
        "_before_bytes",
        "_behind",
        "_behind_bytes",
        "_between",
        "_cut",
        "_frame_bytes",
        "_row_bytes",
        "_seam",
        "index",
        "member",
        "padding_member",
    )

    def __init__(
        self,
        index: int,
        member: str,
        *,
        before: bytes,
        between: bytes,
        behind: bytes,
        padding_member: str | None,
    ) -> None:
        self.index = index
        self.member = member
        self.padding_member = padding_member
        self._before = _EVENT_FIELD + before
        self._between = between
        self._behind = behind + _EVENT_END
        self._before_bytes = len(self._before)
        self._behind_bytes = len(self._behind)
        self._seam = self._behind + self._before  # between the texts of two events in a row
        self._cut = itemgetter(slice(self._before_bytes, 1 - self._behind_bytes))  # of a line
        self._frame_bytes = self._before_bytes + self._behind_bytes
        self._row_bytes = _ROW_EVENTS * (len(self._seam) + len(between) + _USUAL_TEXT_BYTES)

    def fill(self, text: bytes, padding: bytes = b"") -> bytes:
        """Return the event that has this text and padding, both as in a JSON string."""
        between = self._between + padding if self._between else b""
        return self._before + text + between + self._behind

    def match_whole(self, data: bytes) -> str | None:
        """Match bytes that are one event and nothing more: its text, else ``None``."""
        literal = data.removeprefix(self._before).removesuffix(self._behind)
        if len(data) - len(literal) == self._frame_bytes:  # both were there
            if self._between:
                literal, found, padding = literal.partition(self._between)
                if not (found and _is_plain_padding(padding)):
                    literal = b'"'  # which is no string
            try:
                return decode_string(b'"%b"' % literal)
            except NO_STRING:
                pass  # it may be one for the lenient parser
        text, end = self.match(data, 0)
        return text if end and end == len(data) else None

    def match(self, data: bytes, start: int) -> tuple[str, int]:
        """Match the event that begins at an offset.

        Returns:
            Its text, and the offset behind it; that is 0 where it is another or incomplete.
        """
        if not data.startswith(self._before, start):
            return _NO_MATCH
        start += self._before_bytes
        end = data.find(b'"', start)
        literal = data[start:end]
        try:
            if _BACKSLASH not in literal:
                text = literal.decode()
            else:
                end = _end_of_literal(data, start)
                literal = data[start:end]
                text = decode_json(b'"%b"' % literal)
        except ValueError:
            return _NO_MATCH  # no UTF-8 or a bad escape: the general way says what it is
        if _LF in literal or _CR in literal:
            return _NO_MATCH  # the line ends there, whatever JSON would make of it
        if between := self._between:
            if not data.startswith(between, end):
                return _NO_MATCH
            start = end + len(between)
            end = data.find(b'"', start)
            if not _is_plain_padding(data[start:end]):
                return _NO_MATCH
        if end < 0 or not data.startswith(self._behind, end):
            return _NO_MATCH
        return text, end + self._behind_bytes

    def match_all(self, data: bytes, start: int) -> tuple[list[str], int, int]:
        """Match all events from an offset on, up to another or an incomplete one.

        Returns:
            Their texts, of which some may be put together (:func:`_put_together`); how many events
            these are; and the offset behind the last of them.
        """
        texts: list[str] = []
        count = 0
        single_up_to = start  # what is before it was looked at as a row, in vain
        while True:
            if start >= single_up_to:
                literals, end = self._find_row(data, start)
                if literals and (row := _read_literals(literals)) is not None:
                    texts += _put_together(row)
                    count += len(literals)
                    start = end
                else:
                    single_up_to = end
            text, end = self.match(data, start)
            if not end:
                return texts, count, start
            texts.append(text)
            count += 1
            start = end

    def _find_row(self, data: bytes, start: int) -> tuple[Sequence[bytes], int]:
        """Find events in a row (rule 4).

        Returns:
            Their literals, and where the last of them ends.
        """
        if not data.startswith(self._before, start):
            return (), start
        rest = BytesIO(data)  # shares the bytes; no other way to lines takes as few steps
        rest.seek(start)
        lines = rest.readlines(self._row_bytes)
        events = lines[: min(len(lines) // 2, _ROW_EVENTS) * 2 : 2]  # a blank line behind each
        self._drop_others(events)
        pieces = [*map(self._cut, events)]
        begin = start + self._before_bytes
        while pieces:
            # Put together again they must be what is there: this proves all that is between them.
            row = self._seam.join(pieces)
            end = begin + len(row)
            if data.startswith(row, begin) and data.startswith(self._behind, end):
                return self._take_apart(pieces), end + self._behind_bytes
            del events[len(events) // 2 :]
            self._drop_others(events)
            del pieces[len(events) :]
        return (), start

    def _drop_others(self, events: list[bytes]) -> None:
        """Leave out the last ones that begin otherwise: the usual others are a stream's end."""
        while events and not events[-1].startswith(self._before):
            events.pop()

    def _take_apart(self, pieces: list[bytes]) -> Sequence[bytes]:
        """The literals of what is between seams; none where a piece has another form."""
        if not self._between:
            return pieces
        literals, between, paddings = zip(
            *map(bytes.partition, pieces, repeat(self._between)), strict=True
        )
        return literals if all(between) and _is_plain_padding(b"".join(paddings)) else ()

    def may_begin(self, data: bytes) -> bool:
        """Whether bytes without an event's end may be the beginning of an event that matches."""
        before = self._before
        alike = data.startswith(before) or before.startswith(data)
        return alike and _CR not in data  # a line may end in it, and an event with that

    def padding_of(self, data: bytes) -> str:
        """Return the padding of the last event, one that was matched."""
        end = len(data) - self._behind_bytes
        return data[data.rindex(b'"', 0, end) + 1 : end].decode()


def learn_template(data: bytes, chunk: Any) -> ChunkTemplate | None:
    """Make a template of a chunk; ``None`` where it cannot be one.

    Args:
        data: the chunk's bytes, of an event that is one ``data:`` line and nothing else.
        chunk: what they decode to; it is not changed.
    """
    try:
        return _learn(data, chunk)
    except RecursionError:  # nested just within what the parser takes
        return None


def _learn(data: bytes, chunk: Any) -> ChunkTemplate | None:
    choice = _find_plain_choice(chunk)
    if choice is None:
        return None
    delta = choice["delta"]
    said = [*filter(delta.get, SPOKEN)]
    if len(said) != 1 or not isinstance(delta[said[0]], str):
        return None
    if data.count(_LIST) > 1 and any(map(_has_other_list, (chunk, choice, delta))):
        return None
    (member,) = said
    padding_member = next((name for name in _PADDING if isinstance(chunk.get(name), str)), None)
    text = _find_literal(data, member, 0)
    if text is None:
        return None
    start, end = text
    before, between, behind = data[:start], b"", data[end:]
    if padding_member is not None:
        padding = _find_literal(data, padding_member, end)
        if padding is None:
            return None
        between, behind = data[end : padding[0]], data[padding[1] :]
    index = index_of(choice.get("index"))
    template = ChunkTemplate(
        0 if index is None else index,
        member,
        before=before,
        between=between,
        behind=behind,
        padding_member=padding_member,
    )
    around = before + between + behind
    is_sure = _has_once(around, member)
    if padding_member is not None:
        is_sure = is_sure and _has_once(around, padding_member)
    return template if is_sure or _holds(template, chunk, member) else None


def _find_plain_choice(chunk: Any) -> JsonObject | None:
    """The one choice of a chunk that rule 1 allows, but for its texts and for other lists."""
    if not isinstance(chunk, dict) or chunk.get("usage") or "x_groq" in chunk:
        return None
    choices = chunk.get("choices")
    if not (isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict)):
        return None
    choice: JsonObject = choices[0]
    delta = choice.get("delta")
    if not isinstance(delta, dict) or "usage" in choice:
        return None
    if choice.get("finish_reason") or choice.get("logprobs") or any(map(delta.get, _UNSPOKEN)):
        return None
    return choice


def _has_once(around: bytes, member: str) -> bool:
    """Whether a member that was decoded can only be that of the one key with its name (rule 2)."""
    return _BACKSLASH not in around and around.count(_KEYS[member]) == 1


def _has_other_list(members: JsonObject) -> bool:
    for name, value in members.items():
        if isinstance(value, _CONTAINERS) and name not in _LISTS and _has_list(value):
            return True
    return False


def _has_list(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_list, value.values()))
    return isinstance(value, list)


def _find_literal(data: bytes, member: str, start: int) -> tuple[int, int] | None:
    """Return where a member's string begins and ends inside its quotes, behind an offset."""
    match = _TO_STRING[member](data, start)
    return None if match is None else (match.end(), _end_of_literal(data, match.end()))


def _is_plain_padding(padding: bytes) -> bool:
    return not padding or padding.isalnum() or _PLAIN.fullmatch(padding) is not None


def _read_literals(literals: Sequence[bytes]) -> str | None:
    """Read what may be the insides of JSON strings; ``None`` where that is not sure of each.

    They are read as one string, which no quote in one of them ends too early. What is between them
    cannot be escaped by the end of one, and if one has it in it, there is one too many.

    Returns:
        The texts with :data:`_BETWEEN_TEXTS` between them.
    """
    try:
        row = decode_string(b'"%b"' % _BETWEEN_LITERALS.join(literals))
    except NO_STRING:
        return None
    return row if row.count(_BETWEEN_TEXTS) == len(literals) - 1 else None


def _put_together(row: str) -> list[str]:
    """The texts of a row, as one but for the first two, which tell that none is all so far.

    They are left apart where the second begins with the first, or where any is empty.
    """
    first, _, rest = row.partition(_BETWEEN_TEXTS)
    second, _, rest = rest.partition(_BETWEEN_TEXTS)
    if not (first and second and rest) or second.startswith(first):
        return row.split(_BETWEEN_TEXTS)
    if _EMPTY_BETWEEN in row or row.endswith(_BETWEEN_TEXTS):
        return row.split(_BETWEEN_TEXTS)
    return [first, second, rest.replace(_BETWEEN_TEXTS, "")]


def _end_of_literal(data: bytes, start: int) -> int:
    match = _LITERAL.match(data, start)
    return match.end() if match is not None else start


def _holds(template: ChunkTemplate, chunk: JsonObject, member: str) -> bool:
    """Try the template (rule 2)."""
    event = template.fill(_TRIAL.encode(), _TRIAL.encode())
    try:
        tried = decode_json(event[len(_EVENT_FIELD) : -len(_EVENT_END)])
    except ValueError:
        return False
    delta = tried["choices"][0]["delta"]  # nothing but the text of some string is another one
    expected = {template.padding_member: _TRIAL} if template.padding_member else {}
    if delta.get(member) != _TRIAL:
        return False
    delta[member] = chunk["choices"][0]["delta"][member]
    return bool(tried == chunk | expected)
