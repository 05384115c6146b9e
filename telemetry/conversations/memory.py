"""Memory of calls: those that a later call may continue, names of conversations, and known spans.

Nothing can be read back. Content is remembered by keyed digests alone; ids of responses and of tool
calls are remembered as they came, or as digests if they are long.
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
"""How many calls are remembered, some 45 MB. With ten calls a second, a conversation that continues
after an hour is still found."""

BYTES_PER_CALL: Final = 2_048
"""The memory of a call on average: a plain chat takes 850 bytes, an agent's call with eight keys
2,000."""

_CALL_BYTES: Final = 480
_KEY_BYTES: Final = 160
"""The measured memory of a call without keys and session, and of a key without its own bytes."""

_TEXT_BYTES: Final = 64

_WIDE_BYTES: Final = 8
"""The memory of a character outside ASCII: at most four bytes, and four more for its UTF-8."""

MIN_FORGOTTEN_KEYS: Final = 1_000
"""As long as fewer keys were forgotten, the table is not made anew: it has some ten kilobytes."""

MAX_CANDIDATES: Final = 16
"""How many calls the same key finds, the newest ones. If several may be meant, none is chosen."""

MAX_NAMED: Final = 10_000
"""How many names are remembered, at some 250 bytes each: the sessions of a service's day. A long
name is remembered by a digest (R5)."""

MAX_KNOWN_SPANS: Final = 10_000
"""How many spans are recognised when their frames come again, at some 150 bytes each. After a kill
that is what was recorded and not yet acknowledged, less than a second's calls; and the calls of a
spool segment that was not read to its end, some 10,000 small ones."""


class Origin(NamedTuple):
    """What the span of a call says that another one may continue.

    Attributes:
        session: ``session.id`` of its conversation; ``None`` as long as it has none.
        source: where the session comes from: ``header``, ``body`` or ``inferred``.
    """

    trace_id: str
    span_id: str
    session: str | None = None
    source: str = "inferred"


@dataclass(slots=True, eq=False)
class RememberedCall:
    """A call that later ones may continue.

    Attributes:
        number: the number of the call, in the order in which calls ended.
        conversation: the number of its conversation.
        turn: which message of the user's it answers.
        depth: the number of calls from the first one of the conversation to this one.
        origin: what its span says.
        system: a digest of its system messages.
        failed_ns: when it broke off or ended with an error; ``None`` if it did not.
        sketch: the sketch of its answer.
        called: digests of the tool calls in the answer, one for each choice that has some.
        keys: the keys by which it is found.
        run: the number of its run; ``None`` for a call outside any run.
        unmarked_ns: when it ended, if its span has no session and no marker span added one.
        is_sampled: its conversation is recorded.
        words: how many words the answers of the conversation have, up to this one; after some
            hundred they are not counted.
        gave_ids: one of these answers has a tool call with a strong id.
        is_stranger: its caller is unknown.
        root: if it failed, the call that it and the failed calls before it tried to continue.
        is_continued: a later call that did not fail continues it.
        is_kept: it gets another turn before it is forgotten.
        is_forgotten: it is not remembered any more.
        held_bytes: the memory that it takes, more or less.
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
    """The remembered calls by their keys. A call has any number of keys, and so has a key of calls.

    A table that is filled and emptied in turn keeps room for all that was in it, and grows to twice
    that at a time that nobody expects. So the table of keys is made anew, within some milliseconds,
    whenever as many keys were forgotten as an eighth of those that are in it.

    Args:
        max_calls: how many calls are remembered, in :data:`BYTES_PER_CALL` each on average (R5).

    Attributes:
        strangers: how many of them have an unknown caller.
    """

    def __init__(self, max_calls: int = MAX_CALLS) -> None:
        self._max_calls = max_calls
        self._max_bytes = BYTES_PER_CALL * max_calls
        self._held_bytes = 0
        self._forgotten = 0  # keys, since the table was made
        self.strangers = 0
        # Oldest first. An ordered table would grow and shrink by megabytes as calls come and go.
        self._calls: deque[RememberedCall] = deque()
        # Most keys have one call, and need no list.
        self._found: dict[bytes, RememberedCall | tuple[RememberedCall, ...]] = {}

    def __len__(self) -> int:
        """Return how many calls are remembered."""
        return len(self._calls)

    def find(self, key: bytes) -> Sequence[RememberedCall]:
        """Return the calls that have a key, in the order in which they got it."""
        found = self._found.get(key, ())
        return (found,) if isinstance(found, RememberedCall) else found

    def add(self, call: RememberedCall) -> None:
        """Remember a call by its keys, and forget the oldest if there are too many.

        A call that another one continued since its last turn gets another turn.
        """
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
        """Stop finding a call by these keys."""
        if call.is_forgotten:
            return
        self._forget(call, keys)
        left = tuple([key for key in call.keys if key not in keys])
        self._hold(call, _measure_keys(left) - _measure_keys(call.keys))
        call.keys = left

    def adopt(self, call: RememberedCall, keys: tuple[bytes, ...]) -> None:
        """Give a stranger's call the keys of its caller, who is known now."""
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
        if self._forgotten > max(len(self._found) // 8, MIN_FORGOTTEN_KEYS):
            self._found = {**self._found}
            self._forgotten = 0


def _measure_keys(keys: Sequence[bytes]) -> int:
    return _KEY_BYTES * len(keys) + sum(map(len, keys))


def measure_text(text: str) -> int:
    """Measure the memory of a text, or a little more.

    >>> measure_text("call_0")
    70
    """
    return _TEXT_BYTES + len(text) * (1 if text.isascii() else _WIDE_BYTES)


class NamedConversations:
    """The numbers of conversations by the names that clients give them.

    Names are remembered for each caller, because others may use the same; all unknown callers share
    theirs. A name gives a call its conversation and no call before: an agent may ask for a title
    beside its work. After a restart a name is known again with the first call that is found to
    continue another one.
    """

    def __init__(self) -> None:
        self._numbers: OrderedDict[tuple[bytes, bytes], int] = OrderedDict()

    def find(self, caller: bytes, name: str) -> int | None:
        """Return the number of a conversation; ``None`` if no conversation has that name."""
        return self._numbers.get((caller, encode_id(name)))

    def note(self, caller: bytes, name: str, number: int) -> None:
        """Note the number of a named conversation."""
        key = caller, encode_id(name)
        self._numbers[key] = number
        self._numbers.move_to_end(key)
        while len(self._numbers) > MAX_NAMED:
            self._numbers.popitem(last=False)


class SeenSpans:
    """The newest span ids. By them a call is followed once, although frames may come again (R8)."""

    def __init__(self) -> None:
        self._order: deque[str] = deque()
        self._known: set[str] = set()

    def note(self, *span_ids: str) -> bool:
        """Note spans; return whether all of them are new."""
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
