"""``GET /api/calls/ID/diff``: the messages of two requests, side by side.

Messages are compared by everything that is recorded of them. If one was removed and one of the same
role was added in its place, it is one that changed. Equal messages in a row are one operation with
their number.

The fewest edits are found by Myers' greedy algorithm (1986), after what is common at both ends is
cut off. The time depends on how much differs, not on how long the texts are.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from proxy.page.api.found_calls import find_call
from proxy.page.api.messages import write_message
from proxy.page.errors import PageError
from proxy.reading.growth import find_before
from proxy.reading.message_digests import digest_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from proxy.reading.flat_messages import RecordedMessage
    from telemetry.reading.calls import Calls

MAX_WORDS_CHARACTERS: Final = 8_192
"""The longest text whose words are compared."""

WORDS_SECONDS: Final = 0.25
"""How long words are compared in all; messages after that are shown as changed, without words. Two
texts with nothing in common take as long, and there may be hundreds of them."""

MAX_OPERATIONS: Final = 2_000
"""The most operations in an answer; the others are counted as left out."""

DIFF_PARAMETERS: Final = ("with",)

_WORD: Final = re.compile(r"\s+|\w+|[^\w\s]")


def compare_calls(reader: Calls, parameters: Parameters) -> JsonObject:
    """Compare the request of a call with that of another, by default the one that it continues.

    Raises:
        PageError: one of the calls does not exist.
    """
    call = find_call(reader, parameters)
    if parameters.text("with"):
        other = find_call(reader, parameters, "with")
    elif (before := find_before(reader, call)) is not None:
        other = before
    else:
        raise PageError("not_found", "this call continues no other one; name one: with=ID")
    operations = [*_compare(other.input_messages, call.input_messages)]
    return {
        "with": other.summary.span_id,
        "same": sum(one["count"] for one in operations if one["op"] == "same"),
        "operations": operations[:MAX_OPERATIONS],
        "left_out": max(0, len(operations) - MAX_OPERATIONS),
    }


def _compare_words(before: str, now: str) -> list[list[str]] | None:
    """Compare texts word by word; ``None`` if one of them is too long."""
    if max(len(before), len(now)) > MAX_WORDS_CHARACTERS:
        return None
    old, new = _WORD.findall(before), _WORD.findall(now)
    pieces = []
    for kind, at_old, at_new, count in _find_edits(old, new):
        words = old[at_old : at_old + count] if kind == "removed" else new[at_new : at_new + count]
        pieces.append([kind, "".join(words)])
    return pieces


def _compare(
    before: Sequence[RecordedMessage], now: Sequence[RecordedMessage]
) -> Iterator[JsonObject]:
    edits = _find_edits([*map(digest_exactly, before)], [*map(digest_exactly, now)])
    until_seconds = time.monotonic() + WORDS_SECONDS
    at = 0
    while at < len(edits):
        edit = edits[at]
        if edit.kind == "same":
            yield _build_operation("same", edit.now, edit.before, now[edit.now], count=edit.length)
            at += 1
            continue
        differing = [one for one in edits[at : at + 2] if one.kind != "same"]
        at += len(differing)
        removed: Sequence[int] = ()
        added: Sequence[int] = ()
        for one in differing:
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
    """Yield removed and added messages; two of the same role are one that changed."""
    common = min(len(removed), len(added))
    for old, new in zip(removed[:common], added[:common], strict=True):
        if before[old].role == now[new].role:
            words = None
            if time.monotonic() < until_seconds:
                words = _compare_words(write_message(before[old]), write_message(now[new]))
            yield _build_operation("changed", new, old, now[new], words=words)
        else:
            yield _build_operation("removed", None, old, before[old])
            yield _build_operation("added", new, None, now[new])
    for old in removed[common:]:
        yield _build_operation("removed", None, old, before[old])
    for new in added[common:]:
        yield _build_operation("added", new, None, now[new])


def _build_operation(
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


MAX_EDITS: Final = 400
"""If more members differ, all of them are shown as removed and added, because nobody reads that
word by word. This bounds the cost of a hostile text: 160,000 steps, a tenth of a second."""

Kind = Literal["same", "added", "removed"]


class Edit(NamedTuple):
    """Members in a row that are the same, or that only one side has.

    Attributes:
        kind: seen from the later sequence.
        before: the place of the first member in the earlier sequence.
        now: its place in the later one.
        length: how many members.
    """

    kind: Kind
    before: int
    now: int
    length: int


def _find_edits(before: Sequence[object], now: Sequence[object]) -> list[Edit]:
    """Find the edits that make `now` from `before`, in their order."""
    start = 0
    most = min(len(before), len(now))
    while start < most and before[start] == now[start]:
        start += 1
    end = 0
    while end < most - start and before[-1 - end] == now[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], now[start : len(now) - end]
    steps: list[Edit] = [Edit("same", 0, 0, start)]
    steps += [
        edit._replace(before=edit.before + start, now=edit.now + start)
        for edit in _find_middle(old, new)
    ]
    steps.append(Edit("same", len(before) - end, len(now) - end, end))
    return [*_join(steps)]


def _find_middle(old: Sequence[object], new: Sequence[object]) -> list[Edit]:
    trail = _search(old, new) if old and new else None
    if trail is None:
        return [Edit("removed", 0, 0, len(old)), Edit("added", len(old), 0, len(new))]
    # Follow the furthest points of each round from the end back to the beginning.
    steps: list[Edit] = []
    x, y = len(old), len(new)
    for depth in range(len(trail) - 1, 0, -1):
        furthest = trail[depth - 1]
        k = x - y
        down = _goes_down(k, depth, furthest)
        k_before = k + 1 if down else k - 1
        x_before = furthest[k_before]
        y_before = x_before - k_before
        x_start, y_start = (x_before, y_before + 1) if down else (x_before + 1, y_before)
        steps.append(Edit("same", x_start, y_start, x - x_start))
        steps.append(Edit("added" if down else "removed", x_before, y_before, 1))
        x, y = x_before, y_before
    steps.append(Edit("same", 0, 0, x))
    return steps[::-1]


def _search(old: Sequence[object], new: Sequence[object]) -> list[dict[int, int]] | None:
    """Find the furthest points of each round up to the end; ``None`` if too much differs."""
    trail: list[dict[int, int]] = []
    furthest = {1: 0}
    for depth in range(MAX_EDITS + 1):
        reached: dict[int, int] = {}
        for k in range(-depth, depth + 1, 2):
            down = _goes_down(k, depth, furthest)
            x = furthest.get(k + 1, 0) if down else furthest.get(k - 1, 0) + 1
            y = x - k
            if x > len(old) or y > len(new) or y < 0:
                continue
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            reached[k] = x
            if x == len(old) and y == len(new):
                trail.append(reached)
                return trail
        trail.append(reached)
        furthest = reached
    return None


def _goes_down(k: int, depth: int, furthest: Mapping[int, int]) -> bool:
    """Tell whether a diagonal is reached by an addition, and not by a removal."""
    return k == -depth or (k != depth and furthest.get(k - 1, -1) < furthest.get(k + 1, -1))


def _join(steps: Sequence[Edit]) -> Iterator[Edit]:
    """Join consecutive edits of the same kind, and leave out empty ones."""
    held: Edit | None = None
    for step in steps:
        if not step.length:
            continue
        if held is not None and held.kind == step.kind:
            held = held._replace(length=held.length + step.length)
            continue
        if held is not None:
            yield held
        held = step
    if held is not None:
        yield held
