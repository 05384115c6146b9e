"""The attributes of a cost."""

from __future__ import annotations

from telemetry.pricing.span_cost import CostSource, SpanCost, build_cost_attributes
from tests.telemetry.exchanges import cleaned


def test_every_known_amount_has_its_attribute() -> None:
    """In US dollars (``docs/contract/spans.md#cost``); no cache_input beside cache_read."""
    cost = SpanCost(
        source=CostSource.SETTINGS,
        prompt=1.0,
        completion=2.0,
        total=3.0,
        input=0.1,
        cache_read=0.2,
        cache_write=0.3,
        prompt_audio=0.4,
        output=0.5,
        reasoning=0.6,
        completion_audio=0.7,
    )
    assert cleaned(build_cost_attributes(cost)) == {
        "llm.cost.prompt": 1.0,
        "llm.cost.completion": 2.0,
        "llm.cost.total": 3.0,
        "llm.cost.prompt_details.input": 0.1,
        "llm.cost.prompt_details.cache_read": 0.2,
        "llm.cost.prompt_details.cache_write": 0.3,
        "llm.cost.prompt_details.audio": 0.4,
        "llm.cost.completion_details.output": 0.5,
        "llm.cost.completion_details.reasoning": 0.6,
        "llm.cost.completion_details.audio": 0.7,
    }


def test_zero_is_an_amount_and_an_unknown_one_has_no_attribute() -> None:
    """No invented zeros and none lost (``docs/contract/sources.md#n6``)."""
    cost = SpanCost(source=CostSource.PROVIDER, total=0.0)
    assert cleaned(build_cost_attributes(cost)) == {"llm.cost.total": 0.0}
    assert cleaned(build_cost_attributes(None)) == {}


def test_a_cost_is_known_by_a_share_or_the_total() -> None:
    """Details stand under a share, so alone they say nothing."""
    assert SpanCost(source=CostSource.PROVIDER, prompt=0.0).known
    assert SpanCost(source=CostSource.PROVIDER, completion=1.0).known
    assert SpanCost(source=CostSource.PROVIDER, total=1.0).known
    assert not SpanCost(source=CostSource.PROVIDER, reasoning=1.0).known


def test_the_sources_are_the_words_of_the_metadata() -> None:
    """``docs/contract/spans.md#cost-source``."""
    assert [str(source) for source in CostSource] == ["provider", "settings", "genai-prices"]
