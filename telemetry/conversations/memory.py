"""What is remembered of calls: those that a later call may continue, names and spans.

Rules:

1. At most so many calls are remembered as are allowed, in :data:`BYTES_PER_CALL` on average; the
   oldest is forgotten first, with all by which it was found, but one that another call followed
   since its last turn has another turn (R5).
2. Nothing can be read back: content is remembered by keyed digests alone, and ids of responses and
   of tools' calls as they came, which say nothing, or by digests where they are long.
3. The table of keys is as large as its keys need: one that is filled and emptied in turn keeps the
   place of all that was in it, and grows to twice that, at a time that nobody expects. It is made
   anew, within some milliseconds, each time that as many keys were forgotten as an eighth of those
   that are in it: for so many more it has room, mostly.
4. Names that clients give conversations (``docs/contract/conversations.md#names``) are remembered
   for each caller: others may use the same. Callers that cannot be told apart share theirs. A name
   gives a call its conversation and no predecessor: an agent asks for a title beside its work.
   After a restart a name is known again with the first call that is found to continue another.
5. Frames may come again after a kill: the spans whose calls were followed lately are remembered
   (R8).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry.conversations.keys import encode_id

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from telemetry.conversations.sketch import Sketch

MAX_CALLS: Final = 50_000
"""Calls that are remembered, some 45 MB when all are: a service with ten calls a second finds what
goes on after an hour."""

BYTES_PER_CALL: Final = 2_048
"""Memory of a call on average: a plain chat's takes 850 bytes, an agent's with eight keys 2,000."""

_CALL_BYTES: Final = 480
_KEY_BYTES: Final = 160
"""Memory of a call without keys and session, and of a key beside its own bytes, as measured."""

_TEXT_BYTES: Final = 64

_WIDE_BYTES: Final = 8
"""Memory of a character outside ASCII: four bytes at most, and four more for its UTF-8."""

MIN_FORGOTTEN_KEYS: Final = 1_000
"""Keys for which no table is made anew: it has some ten kilobytes."""

MAX_CANDIDATES: Final = 16
"""Calls that are remembered by the same key, the newest: where several may be meant, none is."""

MAX_NAMED: Final = 10_000
"""Names at some 250 bytes each: the sessions of a service's day. Long ones are remembered
by a digest (R5)."""

MAX_KNOWN_SPANS: Final = 10_000
"""Spans that are known again, at some 150 bytes each. What comes again is what was recorded and not
yet acknowledged, less than a second's calls; and the calls of a segment of the spool that was not
read to its end, some 10,000 small ones."""


class Origin(NamedTuple):
    """What spans tell of a call that another one goes on from.

    Attributes:
        session: ``session.id`` of its conversation, ``None`` where nobody has named one yet.
        source: who named it.
    """

    trace_id: str
    span_id: str
    session: str | None = None
    source: str = "inferred"


@dataclass(slots=True, eq=False)
class RememberedCall:
    """A call that later ones may go on from.

    Attributes:
        number: its number, in the order in which calls began.
        conversation: the number of its conversation.
        turn: which word of the user's it answers.
        depth: how many calls led to it, itself included.
        origin: what spans tell of it.
        system: a digest of its system messages.
        failed_ns: when it broke off, or ended with an error; ``None`` where it did not.
        sketch: of its answer.
        called: digests of the calls of tools in it, one for each choice that has some.
        keys: by what it is found.
        run: the number of its run, ``None`` where it is in none.
        unmarked_ns: when it ended, where its span has no session, and nobody said so yet.
        is_sampled: its conversation is recorded.
        words: how many words the answers of the conversation have, up to its own; after some
            hundred they are not counted.
        gave_ids: one of these answers has a call with a strong id.
        is_stranger: its caller cannot be told.
        root: where it failed, the call that it went on from, first of all.
        is_continued: a later call goes on from it, and did not fail.
        is_kept: it has another turn before it is forgotten.
        is_forgotten: it is not remembered any more.
        held_bytes: what it takes in memory, more or less.
    """

    number: int
    conversation: int
    turn: int
    depth: int
    origin: Origin
    system: bytes
    failed_ns: int | None
    sketch: Sketch
    keys: tuple[bytes, ...]
    called: bytes = b""
    run: int | None = None
    unmarked_ns: int | None = None
    is_sampled: bool = True
    words: int = 0
    gave_ids: bool = False
    is_stranger: bool = False
    root: RememberedCall | None = None
    is_continued: bool = False
    is_kept: bool = False
    is_forgotten: bool = False
    held_bytes: int = 0


class Memory:
    """Calls by keys: any number of keys for a call, and of calls for a key.

    Args:
        max_calls: how many are remembered.

    Attributes:
        strangers: how many of them have a caller that cannot be told.
    """

    def __init__(self, max_calls: int = MAX_CALLS) -> None:
        self._max_calls = max_calls
        self._max_bytes = BYTES_PER_CALL * max_calls
        self._held_bytes = 0
        self._forgotten = 0  # keys, since the table was made
        self.strangers = 0
        # In turn: a table that is ordered would grow and shrink by megabytes as calls come and go.
        self._calls: deque[RememberedCall] = deque()
        # Most keys are those of one call: no list is kept for them.
        self._found: dict[bytes, RememberedCall | tuple[RememberedCall, ...]] = {}

    def __len__(self) -> int:
        """Return how many calls are remembered."""
        return len(self._calls)

    def find(self, key: bytes) -> Sequence[RememberedCall]:
        """Return the calls that have a key, in the order in which they got it."""
        found = self._found.get(key, ())
        return (found,) if isinstance(found, RememberedCall) else found

    def add(self, call: RememberedCall) -> None:
        """Remember a call by its keys, and forget the oldest where there are too many (rule 1)."""
        self._calls.append(call)
        self.strangers += call.is_stranger
        call.held_bytes = _CALL_BYTES
        if (session := call.origin.session) is not None:
            call.held_bytes += measure_text(session)
        self._held_bytes += call.held_bytes
        self._file(call)
        while len(self._calls) > self._max_calls or self._held_bytes > self._max_bytes:
            oldest = self._calls.popleft()
            if oldest.is_kept:
                oldest.is_kept = False
                self._calls.append(oldest)
                continue
            oldest.is_forgotten = True
            self.strangers -= oldest.is_stranger
            self._held_bytes -= oldest.held_bytes
            self._forget(oldest, oldest.keys)

    def keep(self, call: RememberedCall) -> None:
        """Give a call another turn before it is forgotten."""
        call.is_kept = True

    def drop(self, call: RememberedCall, keys: Collection[bytes]) -> None:
        """Find a call by these keys no longer."""
        if call.is_forgotten:
            return
        self._forget(call, keys)
        left = tuple([key for key in call.keys if key not in keys])
        self._hold(call, _measure_keys(left) - _measure_keys(call.keys))
        call.keys = left

    def adopt(self, call: RememberedCall, keys: tuple[bytes, ...]) -> None:
        """Find a stranger's call by other keys, for now its caller is known."""
        if call.is_forgotten or not call.is_stranger:
            return
        self._forget(call, call.keys)
        self._hold(call, -_measure_keys(call.keys))
        self.strangers -= 1
        call.is_stranger = False
        call.keys = keys
        self._file(call)

    def _file(self, call: RememberedCall) -> None:
        """Make a call be found by its keys."""
        self._hold(call, _measure_keys(call.keys))
        found = self._found
        for key in call.keys:
            if key not in found:  # as most are not
                found[key] = call
            else:
                found[key] = (*self.find(key)[1 - MAX_CANDIDATES :], call)

    def _hold(self, call: RememberedCall, more_bytes: int) -> None:
        """Note that a call takes more memory, or less."""
        call.held_bytes += more_bytes
        self._held_bytes += more_bytes

    def _forget(self, call: RememberedCall, keys: Collection[bytes]) -> None:
        for key in keys:
            left = tuple([one for one in self.find(key) if one is not call])
            if len(left) > 1:
                self._found[key] = left
            elif left:
                self._found[key] = left[0]
            elif self._found.pop(key, None) is not None:
                self._forgotten += 1
        if self._forgotten > max(len(self._found) // 8, MIN_FORGOTTEN_KEYS):  # rule 3
            self._found = {**self._found}
            self._forgotten = 0


def _measure_keys(keys: Sequence[bytes]) -> int:
    return _KEY_BYTES * len(keys) + sum(map(len, keys))


def measure_text(text: str) -> int:
    """Measure a text, or a little more.

    >>> measure_text("call_0")
    70
    """
    return _TEXT_BYTES + len(text) * (1 if text.isascii() else _WIDE_BYTES)


class NamedConversations:
    """The numbers of conversations by their names."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[tuple[bytes, bytes], int] = OrderedDict()

    def find(self, caller: bytes, name: str) -> int | None:
        """The number of a conversation; ``None`` where nobody named one so."""
        return self._numbers.get((caller, encode_id(name)))

    def note(self, caller: bytes, name: str, number: int) -> None:
        """Note the number of a named conversation: that of its newest call."""
        key = caller, encode_id(name)
        self._numbers[key] = number
        self._numbers.move_to_end(key)
        while len(self._numbers) > MAX_NAMED:
            self._numbers.popitem(last=False)


class SeenSpans:
    """The newest span ids, up to :data:`MAX_KNOWN_SPANS`."""

    def __init__(self) -> None:
        self._order: deque[str] = deque()
        self._known: set[str] = set()

    def note(self, *span_ids: str) -> bool:
        """Note spans; true if none of them was known."""
        are_new = True
        for span_id in span_ids:
            if span_id in self._known:
                are_new = False
                continue
            self._known.add(span_id)
            self._order.append(span_id)
            if len(self._order) > MAX_KNOWN_SPANS:
                self._known.discard(self._order.popleft())
        return are_new
