"""Recorded calls of one SDK: the two spans of each, and where these may differ.

Each API's list of allowed differences is data in its own test, judged here in one way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.differential.comparison import ABSENT, find_differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from telemetry.spans.otlp.decoding import DecodedSpan
    from tests.corpus.recordings import Recording
    from tests.differential.comparison import Difference

__all__ = (
    "OF_ALL",
    "OF_MODELS",
    "Allowed",
    "RecordedPair",
    "count_noticed",
    "failed",
    "find_faults",
    "find_needed",
    "is_extra",
    "is_null",
    "is_unread",
)

MAX_FAULTS = 40
"""That are shown."""


@dataclass(frozen=True, kw_only=True)
class RecordedPair:
    """The two spans of one call, both as OTLP carries them.

    Attributes:
        recording: what was answered.
        theirs: of the instrumentation in the client's process.
        ours: of the proxy.
    """

    recording: Recording
    theirs: DecodedSpan
    ours: DecodedSpan


@dataclass(frozen=True)
class Allowed:
    """Why a difference may be.

    Attributes:
        name: what one side does and the other does not.
        source: where that is written.
        paths: of the differences, as a pattern.
        applies: further, what must hold.
    """

    name: str
    source: str
    paths: str
    applies: Callable[[RecordedPair, Difference], bool] = lambda *_: True

    def explains(self, pair: RecordedPair, difference: Difference) -> bool:
        """Whether it is the reason."""
        found = re.fullmatch(self.paths, difference.path)
        return found is not None and self.applies(pair, difference)


def is_extra(_: RecordedPair, difference: Difference) -> bool:
    """Whether only the proxy has it."""
    return difference.theirs is ABSENT


def is_null(_: RecordedPair, difference: Difference) -> bool:
    """Whether only the instrumentation has it, and that is a null."""
    return difference.theirs is None and difference.ours is ABSENT


def failed(pair: RecordedPair, _: Difference) -> bool:
    """Whether the call failed, by the proxy."""
    return pair.ours.status == "ERROR"


def is_unread(pair: RecordedPair, _: Difference) -> bool:
    """Whether the SDK raised an error of its own over an answer that is none."""
    return pair.theirs.status == "ERROR" and pair.ours.status == "OK"


OF_ALL = (
    Allowed("OpenTelemetry's words", "docs/contract/spans.md#opentelemetry",
            r"(gen_ai|openai|server|http|url|user_agent)\..*|error\.type", is_extra),
    Allowed("it has metadata of its own", "docs/contract/spans.md#metadata", "metadata"),
    Allowed("the words of an exception", "docs/contract/spans.md#endings",
            r"exception/.*|status description", failed),
)  # fmt: skip
"""Allowed of every API."""

OF_MODELS = (
    *OF_ALL,
    Allowed("a tool's name and description", "docs/contract/apis.md#tools-on-offer",
            r"llm\.tools\.\d+\.tool\.(name|description)", is_extra),
    Allowed("the first chunk", "docs/contract/spans.md#first-token-event",
            "events/First Token Stream Event"),
)  # fmt: skip
"""Allowed of every API that calls a model and streams."""


def find_faults(pairs: Iterable[RecordedPair], allowed: Sequence[Allowed]) -> list[str]:
    """The first differences that nothing explains, in words."""
    return [
        f"{pair.recording.id}: {_tell(one)}"
        for pair in pairs
        for one in find_differences(pair.theirs, pair.ours)
        if not _explain(pair, one, allowed)
    ][:MAX_FAULTS]


def _tell(one: Difference) -> str:
    return f"{one.path}: {str(one.theirs)[:200]!r} is here {str(one.ours)[:200]!r}"


def find_needed(pairs: Iterable[RecordedPair], allowed: Sequence[Allowed]) -> set[str]:
    """The names of those that explain some difference alone."""
    return {
        names[0]
        for pair in pairs
        for difference in find_differences(pair.theirs, pair.ours)
        if len(names := _explain(pair, difference, allowed)) == 1
    }


def _explain(pair: RecordedPair, difference: Difference, allowed: Sequence[Allowed]) -> list[str]:
    return [one.name for one in allowed if one.explains(pair, difference)]


def count_noticed(
    pairs: Iterable[RecordedPair], allowed: Sequence[Allowed], *, besides: str = "metadata"
) -> int:
    """Change each attribute that both sides have, one by one; how many such faults are found.

    Args:
        pairs: calls of which not much is allowed to differ.
        allowed: the differences that are.
        besides: names of attributes, as a pattern, of which every difference is allowed.
    """
    noticed = 0
    for pair in pairs:
        attributes: dict[str, Any] = dict(pair.ours.attributes)
        for key in pair.theirs.attributes.keys() & attributes.keys():
            if re.fullmatch(besides, key):
                continue
            changed = replace(pair.ours, attributes=attributes | {key: "another"})
            assert find_faults([replace(pair, ours=changed)], allowed), (pair.recording.id, key)
            noticed += 1
    return noticed
