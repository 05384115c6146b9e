"""Recognises, by their bytes, chunks that differ from the one before only in their text.

Most chunks of a stream equal the chunk before, except for one word. After one of them was parsed
and folded, the next one need not be, because only its word is new.

A chunk becomes a template only if folding it a second time would change nothing but append its
text: it has no usage, no finish reason, no log probabilities, no list except the one with its
choice (lists are concatenated), and one piece of text, content or reasoning. No guess about JSON is
trusted, because keys may occur twice, be written with escapes, or stand inside a string. The place
of the text is *tried*: with another text there, the parser must find that only that text changed.

An event matches if every byte outside the places is equal, and the text is a JSON string that the
strict parser accepts. The padding behind the text (``obfuscation`` of OpenAI, ``p`` of Mistral) may
differ, too. A template is forgotten whenever another chunk is folded, because that chunk may have
changed what the template relies on.

The fold of every chunk is the oracle: ``tests/codec/chat/test_template.py`` compares. Without
templates a stream of 200 chunks in large reads costs telemetry twice the CPU (1.46 ms instead of
0.75), and a chunk in a read by itself six times (6.1 µs instead of 1.0).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from codec.chat.reasoning import REASONING_MEMBERS
from codec.text.event_frame import EventFrame
from codec.text.integers import index_of
from codec.text.jsontext import NO_STRING, decode_json, decode_literals, decode_string

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("MAX_RUN", "ChunkTemplate", "decode_line", "learn_template")

_SPOKEN = ("content", *REASONING_MEMBERS)
"""The members of a delta that may have the text of a template."""

_PADDING = ("obfuscation", "p")
_UNSPOKEN = ("refusal", "tool_calls", "function_call", "audio")
_FIND_STRING = {
    name: re.compile(rb'"%b"[ \t]*:[ \t]*"([^"\\]*(?:\\.[^"\\]*)*)"' % name.encode()).search
    for name in (*_SPOKEN, *_PADDING)
}
_TRIAL = "a text that nobody sends"


MAX_RUN = 64
"""Events that are compared together. Those that differ from the template are compared again."""


class ChunkTemplate:
    """The bytes of one event, with a place for its text. Immutable.

    Args:
        index: the choice's index.
        member: the member of its delta that carries the text.
        before: the event's bytes up to and with the quote that opens the text.
        between: the bytes from the text's closing quote to the quote that opens the padding; empty
            if there is no padding.
        behind: the bytes from the last closing quote on.
    """

    __slots__ = ("_before", "_behind", "_between", "_frame", "_frame_bytes", "index", "member")

    def __init__(
        self, index: int, member: str, *, before: bytes, between: bytes, behind: bytes
    ) -> None:
        self.index = index
        self.member = member
        self._before = before
        self._between = between
        self._behind = behind
        self._frame = EventFrame(before, behind)
        self._frame_bytes = len(before) + len(behind)

    def fill(self, text: str) -> bytes:
        """Return the event that has this text in each place."""
        between = self._between + text.encode() if self._between else b""
        return self._before + text.encode() + between + self._behind

    def match(self, event: bytes) -> str | None:
        """The text of an event that matches; ``None`` if it does not."""
        literal = event.removeprefix(self._before).removesuffix(self._behind)
        if len(event) - len(literal) != self._frame_bytes:
            return None
        if self._between:
            literal, found, padding = literal.partition(self._between)
            if not found or not (padding.isalnum() or not padding):
                return None
        try:
            return decode_string(b'"%b"' % literal)
        except NO_STRING:
            return None

    def match_run(self, events: list[bytes], start: int) -> list[str]:
        """The texts of the events from `start` on, up to the first that does not :meth:`match`.

        At most :data:`MAX_RUN` texts are returned; they are decoded as one list.
        """
        if self._frame.cut(events[start]) is None:
            return []
        literals = self._frame.cut_run(events[start : start + MAX_RUN])
        return decode_literals(self._without_padding(literals))

    def _without_padding(self, literals: list[bytes]) -> list[bytes]:
        """Leave out the padding, up to the first event that has something else in its place."""
        if not self._between:
            return literals
        texts = []
        for each in literals:
            literal, found, padding = each.partition(self._between)
            if not found or not (padding.isalnum() or not padding):
                break
            texts.append(literal)
        return texts


def learn_template(event: bytes, chunk: Any) -> ChunkTemplate | None:
    """Make a template of a chunk and its event of one line; ``None`` if it is not suitable.

    Args:
        event: the bytes of the event.
        chunk: what :func:`decode_line` made of them.
    """
    choice = _find_plain_choice(chunk)
    if choice is None or event.count(b"[") != 1:
        return None
    delta = choice["delta"]
    said = [*filter(delta.get, _SPOKEN)]
    text = _FIND_STRING[said[0]](event) if len(said) == 1 else None
    if text is None:
        return None
    member = said[0]
    expected = chunk | {"choices": [choice | {"delta": delta | {member: _TRIAL}}]}
    before, between, behind = event[: text.start(1)], b"", event[text.end(1) :]
    if name := next(filter(chunk.get, _PADDING), None):
        expected[name] = _TRIAL
        padding = _FIND_STRING[name](behind)
        if padding is None:
            return None
        between, behind = behind[: padding.start(1)], behind[padding.end(1) :]
    index = index_of(choice.get("index"))
    template = ChunkTemplate(index or 0, member, before=before, between=between, behind=behind)
    try:
        return template if decode_line(template.fill(_TRIAL)) == expected else None
    except ValueError:
        return None


def decode_line(event: bytes) -> Any:
    """Decode the data of an event that is one ``data`` line and nothing else."""
    return decode_json(event.removeprefix(b"data:"))


def _find_plain_choice(chunk: Any) -> JsonObject | None:
    """The one choice of a chunk that may be a template; its texts and lists are checked later."""
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
