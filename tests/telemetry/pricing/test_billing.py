"""From usage to billed tokens, and from tokens to a cost."""

from __future__ import annotations

from dataclasses import fields
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from codec.usage import Usage
from telemetry.pricing.billing import Rates, bill, count_billed_tokens
from telemetry.pricing.span_cost import CostSource, SpanCost

SOURCE = CostSource.SETTINGS

tokens_of_a_kind = st.integers(0, 10**6)
rates_of_a_kind = st.floats(0, 1000, allow_subnormal=False)
any_rates = st.builds(Rates, **{f.name: st.none() | rates_of_a_kind for f in fields(Rates)})
whole_rates = st.builds(
    Rates,
    **{f.name: st.none() | rates_of_a_kind for f in fields(Rates)}
    | {"input": rates_of_a_kind, "output": rates_of_a_kind},
)


@st.composite
def billed_tokens(draw: st.DrawFn) -> Usage:
    """Counts whose details are subsets."""
    details = draw(st.lists(st.none() | tokens_of_a_kind, min_size=5, max_size=5))
    cache_read, cache_write, prompt_audio, reasoning, completion_audio = details
    return Usage(
        prompt=sum(count or 0 for count in details[:3]) + draw(tokens_of_a_kind),
        cache_read=cache_read,
        cache_write=cache_write,
        prompt_audio=prompt_audio,
        completion=sum(count or 0 for count in details[3:]) + draw(tokens_of_a_kind),
        reasoning=reasoning,
        completion_audio=completion_audio,
    )


def test_the_details_are_billed_at_their_rates_and_the_rest_at_the_plain_one() -> None:
    """The figures of ``docs/contract/spans.md#phoenix-cost``; reasoning costs as output."""
    tokens = Usage(prompt=1000, cache_read=400, completion=200, reasoning=50)
    rates = Rates(input=0.15, cache_read=0.075, output=0.6)
    cost = bill(tokens, rates, SOURCE)
    assert cost.input == pytest.approx(0.00009, rel=1e-12)
    assert cost.cache_read == pytest.approx(0.00003, rel=1e-12)
    assert cost.output == pytest.approx(0.00009, rel=1e-12)
    assert cost.reasoning == pytest.approx(0.00003, rel=1e-12)
    assert cost.total == pytest.approx(0.00024, rel=1e-12)
    assert cost.cache_write is cost.prompt_audio is cost.completion_audio is None


def test_every_kind_has_its_own_rate() -> None:
    """Seven kinds, seven rates, none taken for another."""
    tokens = Usage(
        prompt=10, cache_read=2, cache_write=3, prompt_audio=4, completion=10, reasoning=5,
        completion_audio=4,
    )  # fmt: skip
    million = 1_000_000.0
    rates = Rates(
        input=million, cache_read=10 * million, cache_write=100 * million,
        input_audio=1000 * million, output=million, reasoning=10 * million,
        output_audio=100 * million,
    )  # fmt: skip
    assert bill(tokens, rates, SOURCE) == SpanCost(
        source=SOURCE,
        prompt=1.0 + 20 + 300 + 4000,
        completion=1.0 + 50 + 400,
        total=4321.0 + 451,
        input=1.0,
        cache_read=20.0,
        cache_write=300.0,
        prompt_audio=4000.0,
        output=1.0,
        reasoning=50.0,
        completion_audio=400.0,
        saved=0.0,  # this cache costs more
    )


def test_sound_from_a_cache_is_billed_as_cached() -> None:
    """It is a part of both counts, which together may exceed the prompt."""
    usage = Usage(
        prompt=100, cache_read=80, prompt_audio=90, cache_read_audio=75, completion=0, total=100
    )
    tokens = count_billed_tokens(usage, "openai")
    cost = bill(tokens, Rates(input=4.0, cache_read=0.4, input_audio=32.0, output=1.0), SOURCE)
    assert (cost.cache_read, cost.prompt_audio, cost.input) == pytest.approx(
        (80 * 0.4e-6, 15 * 32e-6, 5 * 4e-6)
    )
    assert cost.prompt == pytest.approx(80 * 0.4e-6 + 15 * 32e-6 + 5 * 4e-6)


@pytest.mark.parametrize(
    ("tokens", "rates", "saved"),
    [
        (Usage(prompt=10, cache_read=4), Rates(input=2.0, cache_read=0.5), 6e-6),
        (Usage(prompt=10, cache_read=0), Rates(input=2.0, cache_read=0.5), 0.0),
        (
            Usage(prompt=10, cache_read=4, prompt_audio=5, cache_read_audio=3),
            Rates(input=2.0, cache_read=0.5, input_audio=8.5),
            25.5e-6,
        ),
        (Usage(prompt=10, cache_read=4), Rates(input=2.0), 0.0),
        (Usage(prompt=10), Rates(input=2.0, cache_read=0.5), None),
        (Usage(prompt=None, cache_read=4), Rates(input=2.0, cache_read=0.5), None),
        (Usage(prompt=10, cache_read=4), Rates(output=2.0), None),
    ],
)
def test_a_cache_saves_the_difference_to_ordinary_input(
    tokens: Usage, rates: Rates, saved: float | None
) -> None:
    """Nothing where its tokens cost as much, and it is unknown where one of the two is."""
    assert bill(tokens, rates, SOURCE).saved == saved


@pytest.mark.parametrize(
    ("tokens", "rates"),
    [
        (Usage(prompt=1), Rates(input=1, output=1)),
        (Usage(prompt=1, completion=1), Rates(input=1)),
        (Usage(prompt=1, completion=1, reasoning=1), Rates(input=1)),
        (Usage(prompt=1, completion=3, reasoning=1), Rates(input=1, reasoning=1)),
    ],
)
def test_a_share_without_count_or_rate_has_no_cost(tokens: Usage, rates: Rates) -> None:
    """Nor has the total then; the other share has."""
    cost = bill(tokens, rates, SOURCE)
    assert (cost.prompt, cost.completion, cost.total) == (1e-6, None, None)
    mirrored = Usage(prompt=tokens.completion, completion=tokens.prompt)
    other = bill(mirrored, Rates(input=rates.output, output=rates.input), SOURCE)
    assert (other.prompt, other.completion, other.total) == (None, 1e-6, None)


def test_no_tokens_cost_nothing_whatever_the_rate() -> None:
    """Zero of them is zero dollars, without a rate too; a detail not reported is none."""
    cost = bill(Usage(prompt=0, completion=0, reasoning=0), Rates(), SOURCE)
    assert cost == SpanCost(
        source=SOURCE, prompt=0, completion=0, total=0, input=0, output=0, reasoning=0
    )


@given(billed_tokens(), whole_rates)
def test_the_shares_sum_to_the_total_and_the_details_to_the_shares(
    tokens: Usage, rates: Rates
) -> None:
    """Every token is billed once."""
    cost = bill(tokens, rates, SOURCE)
    assert cost.prompt is not None
    assert cost.completion is not None
    assert cost.total == cost.prompt + cost.completion
    prompt = (cost.input, cost.cache_read, cost.cache_write, cost.prompt_audio)
    completion = (cost.output, cost.reasoning, cost.completion_audio)
    assert isclose(sum(amount or 0 for amount in prompt), cost.prompt)
    assert isclose(sum(amount or 0 for amount in completion), cost.completion)


@given(billed_tokens(), whole_rates, tokens_of_a_kind, tokens_of_a_kind)
def test_more_tokens_never_cost_less(
    tokens: Usage, rates: Rates, more_prompt: int, more_completion: int
) -> None:
    """A longer prompt or answer, details as they were."""
    more = replace(
        tokens,
        prompt=(tokens.prompt or 0) + more_prompt,
        completion=(tokens.completion or 0) + more_completion,
    )
    before, after = bill(tokens, rates, SOURCE).total, bill(more, rates, SOURCE).total
    assert before is not None
    assert after is not None
    assert after >= before


@given(billed_tokens(), any_rates)
def test_an_amount_is_unknown_or_not_negative(tokens: Usage, rates: Rates) -> None:
    """And the total is known only where both shares are."""
    cost = bill(tokens, rates, SOURCE)
    amounts = [getattr(cost, name) for name in SpanCost.__struct_fields__ if name != "source"]
    assert all(amount is None or amount >= 0 for amount in amounts)
    assert (cost.total is None) == (cost.prompt is None or cost.completion is None)


@pytest.mark.parametrize(
    ("usage", "provider", "completion"),
    [
        (Usage(prompt=10, completion=5), None, 5),
        (Usage(prompt=10, completion=5, total=15, reasoning=4), None, 5),
        (Usage(prompt=10, completion=5, total=90), "google", 80),
        (Usage(prompt=10, completion=5, total=90), "together", None),
        (Usage(prompt=10, completion=5, total=90, reasoning=4), "xai", None),
        (Usage(prompt=10, total=10), "openai", 0),
        (Usage(prompt=10, total=12), "google", None),
        (Usage(prompt=10), None, None),
        (Usage(completion=5, total=7), None, 5),
    ],
)
def test_what_only_the_total_counts_is_googles_thoughts(
    usage: Usage, provider: str | None, completion: int | None
) -> None:
    """Of anybody else's rest nothing is known."""
    assert count_billed_tokens(usage, provider).completion == completion


def test_counts_that_contradict_each_other_are_not_billed() -> None:
    """A detail was left out, and which of the numbers is wrong is not known."""
    usage = Usage(prompt=10, completion=5, anomalies=("details_inconsistent",))
    tokens = count_billed_tokens(usage, None)
    assert (tokens.prompt, tokens.completion) == (None, None)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(prompt=10, completion=5, cache_read=11),
        Usage(prompt=10, completion=5, cache_read=6, cache_write=5),
        Usage(prompt=10, completion=5, cache_read=6, prompt_audio=5),
    ],
)
def test_details_that_exceed_the_prompt_contradict_it(usage: Usage) -> None:
    """Which number is right is not known, so the share is not."""
    tokens = count_billed_tokens(usage, None)
    assert (tokens.prompt, tokens.completion) == (None, 5)
    assert tokens.cache_read == usage.cache_read


@pytest.mark.parametrize(
    "usage",
    [
        Usage(prompt=10, completion=5, reasoning=6, total=15),
        Usage(prompt=10, completion=5, reasoning=3, completion_audio=3),
    ],
)
def test_details_that_exceed_the_completion_contradict_it(usage: Usage) -> None:
    """Vercel's reasoning may exceed the completion.

    See ``docs/contract/wire.md#counts``.
    """
    tokens = count_billed_tokens(usage, None)
    assert (tokens.prompt, tokens.completion) == (10, None)
