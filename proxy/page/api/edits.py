"""The fewest edits that make one sequence of another, within a bound.

Rules:

1. It is Myers' greedy algorithm (1986): what is common at both ends is cut off first, the rest
   takes time by how much differs, and not by how long it is.
2. Where more than :data:`MAX_EDITS` differ, the middle is told as removed and added whole: a
   hostile text costs no more than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_EDITS: Final = 400
"""At most some 160,000 steps, a tenth of a second; what differs in more is nothing to read word by
word."""

Kind = Literal["same", "added", "removed"]


class Edit(NamedTuple):
    """Members in a row that are the same, or that one side alone has.

    Attributes:
        kind: seen from the later sequence.
        before: the place of the first one in the earlier sequence.
        now: in the later one.
        length: how many.
    """

    kind: Kind
    before: int
    now: int
    length: int


def find_edits(before: Sequence[object], now: Sequence[object]) -> list[Edit]:
    """Find the edits that make `now` of `before`, in their order."""
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
    # From the end back to the beginning, by the furthest points of each round.
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
    """Find the furthest points of each round up to the end; ``None`` past the bound (rule 2)."""
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
    """Join edits of one kind that follow one another, and leave out empty ones."""
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
