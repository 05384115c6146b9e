"""Keys of answers: a call that continues an answer is found by one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codec.history_items import ItemKind
from codec.history_states import START
from telemetry.conversations.keys import (
    AFTER,
    AFTER_BARE,
    AFTER_FAILED,
    CALL,
    CALL_ID,
    WINDOW,
    encode_id,
    is_strong,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.history_items import HistoryItem
    from codec.history_states import Digests, States

MAX_TOOL_CALLS: Final = 128
"""How many tool calls of an answer get keys."""

WINDOW_ITEMS: Final = 4
"""How many items in a row are recognised. A client cuts a history at its beginning and sends again
what was said last. Some of the items are of the answer, or everybody would match who asks after the
same examples. Some are not, because the same program calls the same tools every day."""

MIN_KINDS: Final = 3
"""How many of these items must differ: a service that is asked for its state answers the same all
day."""

MIN_WINDOW_HISTORY: Final = 6
"""How many items a conversation needs to be recognised by a window. A shorter one is sent whole."""


class AnswerKeys:
    """Makes the keys of answers.

    Args:
        digests: makes digests of states and items.
    """

    def __init__(self, digests: Digests) -> None:
        self._digests = digests

    def list_keys(
        self,
        answered: Sequence[HistoryItem],
        history: Sequence[HistoryItem],
        states: States,
        scope: bytes,
    ) -> Iterator[bytes]:
        """Yield the keys of one choice of an answer.

        Args:
            answered: the items of the choice.
            history: the items of the request.
            states: the states of that history.
            scope: the scope of the call.
        """
        after = self._digests.go_on(states.last, answered)
        with_ids, without_ids = after.last
        yield AFTER + scope + with_ids
        if without_ids != with_ids:  # else no item has an id
            yield AFTER_BARE + scope + without_ids
        for item in answered[:MAX_TOOL_CALLS]:
            if item.kind == ItemKind.CALL and item.id is not None and is_strong(item.id):
                yield CALL_ID + encode_id(item.id)
                yield CALL + scope + self.key_of_call(item)
        count = len(history) + len(answered)
        if count >= MIN_WINDOW_HISTORY:
            before = history[-(WINDOW_ITEMS - 1) :]
            items = [*map(self._digests.make_of_item, [*before, *answered[: WINDOW_ITEMS - 1]])]
            # Neither the very beginning, which others share, nor the answer alone.
            first = 1 if len(before) == len(history) else 0
            for at in range(first, min(len(before), len(items) - WINDOW_ITEMS + 1)):
                if len({*items[at : at + WINDOW_ITEMS]}) >= MIN_KINDS:
                    yield self.key_of_window(items, at, scope)

    def list_failed_keys(
        self, answered: Sequence[HistoryItem], states: States, scope: bytes
    ) -> Iterator[bytes]:
        """Yield the key by which an answer with tool calls is found if its client leaves them out.

        The arguments are those of :meth:`list_keys`.
        """
        said = [item for item in answered if item.kind != ItemKind.CALL]
        if len(said) < len(answered):
            yield AFTER_FAILED + scope + self._digests.go_on(states.last, said).last[0]

    def digest_calls(self, answered: Sequence[HistoryItem]) -> bytes:
        """Make one digest of all tool calls of an answer, in their order; empty if it has none.

        Ids are left out, and so is what was said beside the calls.
        """
        return b"".join(self.list_calls(answered)[-1:])

    def list_calls(self, items: Sequence[HistoryItem]) -> list[bytes]:
        """List such digests: one for each place where tool calls end, of all calls up to there."""
        places = [at for at, item in enumerate(items) if item.kind == ItemKind.CALL]
        if not places:
            return []
        places = places[:MAX_TOOL_CALLS]
        digests = self._digests.go_on(START, [items[at]._replace(id=None) for at in places])
        ends = zip(places, [*places[1:], 0], digests.without_ids[1:], strict=True)
        return [digest for at, following, digest in ends if following != at + 1]

    def key_of_call(self, item: HistoryItem) -> bytes:
        """Make the digest of a tool call: of its id, name and arguments."""
        return self._digests.make_of_text(f"{item.id}\0{item.text}")

    def key_of_window(self, items: Sequence[bytes], at: int, scope: bytes) -> bytes:
        """Make the key of a window that begins at `at`."""
        return WINDOW + scope + self._digests.make(b"".join(items[at : at + WINDOW_ITEMS]))
