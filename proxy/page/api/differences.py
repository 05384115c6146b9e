"""``GET /api/calls/ID/diff``: the messages of two requests, side by side.

Rules:

1. Messages are compared by all that is recorded of them. One that was removed and one that was
   added in its place, of the same role, is one that changed.
2. Words are compared where both texts have :data:`MAX_WORDS_CHARACTERS` at most, and for
   :data:`WORDS_SECONDS` in all; messages that come later are told as changed, without words.
3. Messages that are the same are told together, by their number.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from proxy.page.api.edits import find_edits
from proxy.page.api.found_calls import find_before, find_call
from proxy.page.api.messages import digest_exactly, write_message
from proxy.page.errors import PageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from proxy.reading.flat_messages import RecordedMessage
    from telemetry.store.paged_reader import PagedReader

MAX_WORDS_CHARACTERS: Final = 8_192

WORDS_SECONDS: Final = 0.25
"""Two texts that have nothing in common take as long, and there may be hundreds of them."""

MAX_OPERATIONS: Final = 2_000
"""Operations that are told: what is behind them is told as one that changed whole."""

DIFF_PARAMETERS: Final = ("with",)

_WORD: Final = re.compile(r"\s+|\w+|[^\w\s]")


def compare_calls(reader: PagedReader, parameters: Parameters) -> JsonObject:
    """Compare the request of a call with that of another, by default the one that it goes on from.

    Raises:
        PageError: one of them is not there.
    """
    call = find_call(reader, parameters)
    if parameters.text("with"):
        other = find_call(reader, parameters, "with")
    elif (before := find_before(reader, call)) is not None:
        other = before
    else:
        raise PageError("not_found", "this call goes on from none; name one: with=ID")
    operations = [*_compare(other.input_messages, call.input_messages)]
    return {
        "with": other.summary.span_id,
        "same": sum(one["count"] for one in operations if one["op"] == "same"),
        "operations": operations[:MAX_OPERATIONS],
        "left_out": max(0, len(operations) - MAX_OPERATIONS),
    }


def compare_words(before: str, now: str) -> list[list[str]] | None:
    """Compare texts word by word; ``None`` where one of them is too long (rule 2)."""
    if max(len(before), len(now)) > MAX_WORDS_CHARACTERS:
        return None
    old, new = _WORD.findall(before), _WORD.findall(now)
    told = []
    for kind, at_old, at_new, count in find_edits(old, new):
        words = old[at_old : at_old + count] if kind == "removed" else new[at_new : at_new + count]
        told.append([kind, "".join(words)])
    return told


def _compare(
    before: Sequence[RecordedMessage], now: Sequence[RecordedMessage]
) -> Iterator[JsonObject]:
    edits = find_edits([*map(digest_exactly, before)], [*map(digest_exactly, now)])
    until_seconds = time.monotonic() + WORDS_SECONDS
    at = 0
    while at < len(edits):
        edit = edits[at]
        if edit.kind == "same":
            yield _tell("same", edit.now, edit.before, now[edit.now], count=edit.length)
            at += 1
            continue
        run = [one for one in edits[at : at + 2] if one.kind != "same"]
        at += len(run)
        removed: Sequence[int] = ()
        added: Sequence[int] = ()
        for one in run:
            if one.kind == "removed":
                removed = range(one.before, one.before + one.length)
            else:
                added = range(one.now, one.now + one.length)
        yield from _pair(before, now, removed, added, until_seconds)


def _pair(
    before: Sequence[RecordedMessage],
    now: Sequence[RecordedMessage],
    removed: Sequence[int],
    added: Sequence[int],
    until_seconds: float,
) -> Iterator[JsonObject]:
    """Tell removed and added messages, in pairs where they have the same role (rules 1 and 2)."""
    common = min(len(removed), len(added))
    for old, new in zip(removed[:common], added[:common], strict=True):
        if before[old].role == now[new].role:
            words = None
            if time.monotonic() < until_seconds:
                words = compare_words(write_message(before[old]), write_message(now[new]))
            yield _tell("changed", new, old, now[new], words=words)
        else:
            yield _tell("removed", None, old, before[old])
            yield _tell("added", new, None, now[new])
    for old in removed[common:]:
        yield _tell("removed", None, old, before[old])
    for new in added[common:]:
        yield _tell("added", new, None, now[new])


def _tell(
    op: str,
    index: int | None,
    with_index: int | None,
    message: RecordedMessage,
    *,
    count: int = 1,
    words: list[list[str]] | None = None,
) -> JsonObject:
    return {
        "op": op,
        "index": index,
        "with_index": with_index,
        "role": message.role,
        "count": count,
        "words": words,
    }
