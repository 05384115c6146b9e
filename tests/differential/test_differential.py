"""The proxy's span and the client's own one say the same (``docs/contract/spans.md#comparison``).

The real ``openai`` SDK with OpenInference's real instrumentation talks through the proxy to an
upstream that plays answers. Each call leaves two spans; every difference between the two has a
reason in the closed list (:mod:`tests.differential.allowances`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.chat import CHAT
from codec.apis.completions import COMPLETIONS
from codec.apis.embeddings.route import EMBEDDINGS
from codec.apis.responses.route import RESPONSES
from telemetry.spans.otlp.decoding import DecodedEvent
from tests.corpus.recordings import explain_absence, find_folder
from tests.differential.allowances import ALLOWANCES, find_explanations, is_explained
from tests.differential.calls import load_recorded_calls
from tests.differential.comparison import find_differences
from tests.differential.generated import generate_calls
from tests.differential.stage import Pair, run_calls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from telemetry.spans.otlp.decoding import DecodedSpan

# A thousand real calls come first: some minutes, where coverage is measured beside other work.
# The SDK leaves an abandoned stream to the garbage collector, which may find it at work.
pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.filterwarnings(
        "ignore:.*Response.aiter_raw:pytest.PytestUnraisableExceptionWarning"
    ),
]

RECORDED = {CHAT: 297, COMPLETIONS: 18, EMBEDDINGS: 34, RESPONSES: 500}
"""What the recordings held when this was written: fewer would be a loss nobody noticed."""

GENERATED = 600
"""Fewer than there are; likewise."""

SAMPLES = {
    "stream: three choices, usage asked for",
    "stream: parallel tools, usage asked for",
    "stream: reasoning and tools, usage asked for",
    "stream by hand: function call",
    "plain: images",
    "plain: tool calls",
    "plain: legacy, texts",
    "embedding: texts",
    "left after 5 chunks: tools",
    "status 429",
    "response: items",
    "response: stream tools",
    "response: stream reasoning",
}
"""Generated calls in whose spans every attribute is tried."""

MAX_FAULTS = 40
"""That are shown."""


@pytest.fixture(scope="module", name="generated")
def _generated() -> list[Pair]:
    return run_calls(generate_calls())


@pytest.fixture(scope="module", name="recorded")
def _recorded() -> list[Pair]:
    folder = find_folder()
    if folder is None:
        pytest.skip(explain_absence())
    return run_calls(load_recorded_calls(folder))


def _find_faults(pairs: Iterable[Pair]) -> list[str]:
    """The differences that nothing explains, in words."""
    return [
        f"{pair.call.id}: {one.path}: {str(one.theirs)[:200]!r} is here {str(one.ours)[:200]!r}"
        for pair in pairs
        for one in find_differences(pair.theirs, pair.ours)
        if not is_explained(pair, one)
    ]


@pytest.mark.corpus
def test_a_recorded_call_has_the_span_of_the_instrumentation(recorded: list[Pair]) -> None:
    """All recordings that the SDK can make."""
    assert _find_faults(recorded)[:MAX_FAULTS] == []
    counts = Counter(pair.call.api for pair in recorded)
    assert all(counts[api] >= count for api, count in RECORDED.items()), counts


def test_a_generated_call_has_the_span_of_the_instrumentation(generated: list[Pair]) -> None:
    """Dialects, shapes of requests and answers, failures, abandoned streams, and chance."""
    assert _find_faults(generated)[:MAX_FAULTS] == []
    assert len(generated) >= GENERATED
    assert {pair.ours.status for pair in generated} == {"OK", "ERROR", "UNSET"}


def test_every_allowance_is_needed(generated: list[Pair]) -> None:
    """Some difference has no other explanation, or the list is too long (rule 2 of the list)."""
    needed = {
        explanations[0].name
        for pair in generated
        for difference in find_differences(pair.theirs, pair.ours)
        if len(explanations := find_explanations(pair, difference)) == 1
    }
    assert {one.name for one in ALLOWANCES} == needed


def test_nothing_may_be_missing_or_another(generated: list[Pair]) -> None:
    """Whatever the instrumentation says is looked for: without it, or changed, it is a fault."""
    samples = [pair for pair in generated if pair.call.id in SAMPLES]
    assert len(samples) == len(SAMPLES)
    for pair in samples:
        attributes = dict(pair.ours.attributes)
        for key in pair.theirs.attributes.keys() & attributes.keys():
            missing = {other: value for other, value in attributes.items() if other != key}
            for changed in (missing, attributes | {key: "another"}):
                assert _find_faults([_with(pair, attributes=changed)]), (pair.call.id, key)
        assert _find_faults([_with(pair, name="another")])
        assert _find_faults([_with(pair, status="another")])
        assert _find_faults([_with(pair, events=(*pair.ours.events, *_EXCEPTION))])


_EXCEPTION = (DecodedEvent(name="exception", at_ns=1, attributes={}),)


def _with(pair: Pair, **changes: Any) -> Pair:
    ours: DecodedSpan = replace(pair.ours, **changes)
    return replace(pair, ours=ours)
