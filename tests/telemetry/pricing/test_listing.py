"""What genai-prices lists: whose prices are told, and which."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isclose
from typing import Any

import pytest
from genai_prices.data import providers
from genai_prices.types import (
    ClauseEquals,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    PriceVariant,
    Provider,
    StartDateConstraint,
    Tier,
    TieredPrices,
    TimeOfDateConstraint,
)
from genai_prices.types import Usage as ListedUsage
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from codec.charges import Charges
from codec.usage import Usage
from telemetry.pricing.listing import Listing, find_listing
from telemetry.pricing.span_cost import CostSource, SpanCost

AT = datetime(2026, 11, 5, 12, tzinfo=UTC)
TOKENS = Usage(prompt=1000, cache_read=400, completion=200)


def listing(*variants: PriceVariant, **rates: str | TieredPrices) -> Listing:
    """A model with the given rates at a provider of its own."""
    given = {
        f"{kind}_mtok": Decimal(rate) if isinstance(rate, str) else rate
        for kind, rate in rates.items()
    }
    return listing_of(ModelPrice(**given), *variants)


def listing_of(prices: Any, *variants: PriceVariant) -> Listing:
    model = ModelInfo(id="m", match=ClauseEquals("m"), prices=prices, price_variants=list(variants))
    return Listing(Provider(id="p", name="P", api_pattern="p", models=[model]), model)


def total(found: Listing, tokens: Usage, tier: str | None = None) -> float | None:
    cost = found.price(tokens, tier, AT)
    return None if cost is None else cost.total


@pytest.mark.parametrize(
    ("provider", "model", "id_there"),
    [
        ("openai", "gpt-4o-mini-2024-07-18", "openai"),
        ("OpenAI", "GPT-4o-mini", "openai"),
        ("anthropic", "claude-sonnet-4-5", "anthropic"),
        ("cohere", "command-r", "cohere"),
        ("mistralai", "mistral-large-latest", "mistral"),
        ("google", "gemini-2.5-flash", "google"),
        ("azure", "gpt-4o-2024-08-06", "azure"),
        ("aws", "amazon.nova-lite-v1:0", "aws"),
        ("xai", "grok-4", "x-ai"),
        ("deepseek", "deepseek-chat", "deepseek"),
        ("groq", "llama-3.3-70b-versatile", "groq"),
        ("fireworks", "accounts/fireworks/models/deepseek-v3-0324", "fireworks"),
        ("moonshot", "kimi-k2-0711-preview", "moonshotai"),
        ("cerebras", "gpt-oss-120b", "cerebras"),
        ("perplexity", "sonar", "perplexity"),
        ("together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "together"),
        ("zai", "glm-4.6", "zai"),
        ("minimax", "minimax-m2", "minimax"),
        ("openrouter", "openai/gpt-4o", "openrouter"),
    ],
)
def test_a_named_provider_is_found(provider: str, model: str, id_there: str) -> None:
    """The names of llm.provider, and the package's own; the package spells some in another way."""
    found = find_listing(model, provider, None)
    assert found is not None
    assert found.provider.id == id_there


@pytest.mark.parametrize(
    ("host", "model", "id_there"),
    [
        ("api.openai.com", "gpt-4o", "openai"),
        ("API.OpenAI.com.", "gpt-4o", "openai"),
        ("mine.openai.azure.com", "gpt-4o", "azure"),
        ("openrouter.ai", "openai/gpt-4o", "openrouter"),
        ("api.together.ai", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "together"),
        ("api.together.xyz", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "together"),
        ("api.moonshot.cn", "kimi-k2-0711-preview", "moonshotai"),
        ("generativelanguage.googleapis.com", "gemini-2.5-flash", "google"),
        ("bedrock-runtime.us-east-1.amazonaws.com", "amazon.nova-lite-v1:0", "aws"),
        ("open.bigmodel.cn", "glm-4.7", "zhipuai"),
    ],
)
def test_a_provider_is_told_from_the_host(host: str, model: str, id_there: str) -> None:
    """By the package's patterns, and by what llm.provider says of the host."""
    found = find_listing(model, None, host)
    assert found is not None
    assert found.provider.id == id_there


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "localhost",
        "127.0.0.1",
        "vllm.internal",
        "api.openai.com.mine.example",
        "api.openai.community",
        "openrouter.ai.mine.example",
        "ec2-1-2-3-4.compute-1.amazonaws.com",
        "gateway.azure-api.net",
        "me--vllm.modal.run",
    ],
)
def test_a_host_that_may_be_anybodys_bills_nothing(host: str | None) -> None:
    """R6: a server of somebody's own that calls its model gpt-4o is not billed as OpenAI."""
    models = ("gpt-4o", "openai/gpt-4o", "moonshotai/Kimi-K3", "deepseek.r1-v1:0")
    assert [find_listing(model, None, host) for model in models] == [None] * 4


def test_the_models_tried_above_are_listed_where_they_belong() -> None:
    """So that the test above has something to refuse."""
    belonging = {"azure": "gpt-4o", "openrouter": "openai/gpt-4o", "aws": "deepseek.r1-v1:0"}
    for provider, model in {**belonging, "modal": "moonshotai/Kimi-K3"}.items():
        assert find_listing(model, provider, None) is not None


@pytest.mark.parametrize("provider", ["my-openai", "openai-clone", "ollama", "\udcff", "bedrock"])
def test_a_provider_of_another_name_bills_nothing(provider: str) -> None:
    """R6: names are compared whole, and one that is named is believed, whatever the host."""
    assert find_listing("gpt-4o", provider, "api.openai.com") is None


def test_a_model_that_is_not_listed_is_not_found() -> None:
    """Never by likeness alone."""
    assert find_listing("gpt-4o-of-our-own", "openai", None) is None
    assert find_listing("", "openai", None) is None


def test_the_figure_of_the_contract() -> None:
    """1000 in (400 cached), 200 out is 0.00024 (``docs/contract/spans.md#phoenix-cost``)."""
    found = find_listing("gpt-4o-mini-2024-07-18", "openai", None)
    assert found is not None
    assert found.price(TOKENS, "default", AT) == SpanCost(
        source=CostSource.GENAI_PRICES,
        prompt=0.00012,
        completion=0.00012,
        total=0.00024,
        input=0.00009,
        cache_read=0.00003,
        output=0.00012,
        saved=0.00003,
    )


ALL_LISTINGS = [Listing(provider, model) for provider in providers for model in provider.models]


@st.composite
def billed_tokens(draw: st.DrawFn) -> Usage:
    """Counts with subsets; a cache and audio together are refused by the package."""
    kinds = ("cache_read", "cache_write", "prompt_audio", "reasoning", "completion_audio")
    details: dict[str, Any] = {kind: draw(st.none() | st.integers(0, 10**5)) for kind in kinds}
    if draw(st.booleans()):
        details["prompt_audio"] = None
    else:
        details["cache_read"] = details["cache_write"] = None
    counts = [details[kind] or 0 for kind in kinds]
    more = st.integers(0, 10**6)
    return Usage(
        prompt=sum(counts[:3]) + draw(more), completion=sum(counts[3:]) + draw(more), **details
    )


@given(st.sampled_from(ALL_LISTINGS), billed_tokens(), st.sampled_from([None, "default"]))
def test_the_details_make_up_the_packages_own_shares(
    found: Listing, tokens: Usage, tier: str | None
) -> None:
    """Whatever is listed: either no cost, or the package's, with details that sum to its shares."""
    cost = found.price(tokens, tier, AT)
    if cost is None:
        return
    usage = ListedUsage(
        input_tokens=tokens.prompt,
        cache_read_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
        input_audio_tokens=tokens.prompt_audio,
        output_tokens=tokens.completion,
        output_reasoning_tokens=tokens.reasoning,
        output_audio_tokens=tokens.completion_audio,
    )
    context = {"service_tier": tier} if tier else None
    theirs = found.model.calc_price(
        usage, found.provider, genai_request_timestamp=AT, price_context=context
    )
    assert cost.total == float(theirs.total_price)
    assert cost.prompt == float(theirs.input_price)
    assert cost.completion == float(theirs.output_price)
    prompt = (cost.input, cost.cache_read, cost.cache_write, cost.prompt_audio)
    completion = (cost.output, cost.reasoning, cost.completion_audio)
    assert isclose(sum(amount or 0 for amount in prompt), cost.prompt)
    assert isclose(sum(amount or 0 for amount in completion), cost.completion)


def test_most_of_what_is_listed_for_chat_has_a_price() -> None:
    """So that the test above has something to say."""
    priced = [found for found in ALL_LISTINGS if total(found, TOKENS) is not None]
    assert len(priced) > 0.8 * len(ALL_LISTINGS) > 1000


@pytest.mark.parametrize(
    "tokens",
    [Usage(), Usage(prompt=1), Usage(completion=1)],
)
def test_a_missing_count_has_no_cost(tokens: Usage) -> None:
    """R6: nor have the others, for a rate may depend on the length of the prompt."""
    assert listing(input="1", output="1").price(tokens, None, AT) is None


def test_every_kind_has_its_own_rate() -> None:
    """Seven kinds, seven rates: shares and details."""
    text = listing(input="1", cache_read="10", cache_write="100", output="1", output_reasoning="10")
    cost = text.price(
        Usage(prompt=9, cache_read=2, cache_write=3, completion=9, reasoning=4), None, AT
    )
    assert cost is not None
    assert [cost.prompt, cost.input, cost.cache_read, cost.cache_write] == pytest.approx(
        [324e-6, 4e-6, 20e-6, 300e-6]
    )
    assert [cost.completion, cost.output, cost.reasoning] == pytest.approx([45e-6, 5e-6, 40e-6])
    audio = listing(input="1", input_audio="1000", output="1", output_audio="100")
    cost = audio.price(Usage(prompt=9, prompt_audio=4, completion=9, completion_audio=5), None, AT)
    assert cost is not None
    assert [cost.prompt, cost.input, cost.prompt_audio] == pytest.approx([4005e-6, 5e-6, 4000e-6])
    assert [cost.completion, cost.output, cost.completion_audio] == pytest.approx(
        [504e-6, 4e-6, 500e-6]
    )


def test_a_response_of_realtime_has_a_cost() -> None:
    """Of text and sound, from a cache or not; of a request without images."""
    realtime = find_listing("gpt-realtime", "openai", None)
    assert realtime is not None
    tokens = Usage(
        prompt=119, cache_read=64, prompt_audio=100, cache_read_audio=60, prompt_image=0,
        completion=100, completion_audio=76,
    )  # fmt: skip
    expected = (15 * 4 + 64 * 0.4 + 40 * 32 + 24 * 16 + 76 * 64) / 1e6
    assert total(realtime, tokens) == pytest.approx(expected)
    for images in (None, 7):
        assert total(realtime, replace(tokens, prompt_image=images)) is None


def test_a_missing_rate_has_no_cost() -> None:
    """R6: the package takes it for zero; no tokens of that kind need none."""
    assert total(listing(input="1"), TOKENS) is None
    assert total(listing(output="1"), TOKENS) is None
    assert total(listing(), TOKENS) is None
    assert total(listing(input="1"), Usage(prompt=10, completion=0)) == 10e-6
    assert total(listing(input="0", output="0"), TOKENS) == 0.0


def test_a_rate_for_tokens_that_nobody_counts_leaves_the_cost_open() -> None:
    """R6: an answer of images would be billed as text."""
    assert total(listing(input="1", output="1", output_image="30"), TOKENS) is None
    image = find_listing("gemini-2.5-flash-image", "google", None)
    assert image is not None
    assert total(image, TOKENS) is None


def test_hours_of_sound_leave_the_cost_open() -> None:
    """R6: no usage counts them, so what tokens cost may be a part."""
    sound = find_listing("voxtral-small-24b-2507", "mistral", None)
    assert sound is not None
    assert total(sound, TOKENS) is None


@pytest.mark.parametrize(
    ("provider", "model", "is_known"),
    [
        ("openai", "gpt-4o-audio-preview", False),
        ("openai", "gpt-audio", True),
        ("google", "gemini-2.5-flash-preview-tts", True),
    ],
)
def test_sound_without_a_rate_leaves_the_cost_open(
    provider: str, model: str, *, is_known: bool
) -> None:
    """It costs many times what text does, but at Google, where there is one rate for both."""
    found = find_listing(model, provider, None)
    assert found is not None
    for sound in (Usage(prompt=9, completion=9, completion_audio=9),):
        assert (total(found, sound) is not None) is is_known
    assert total(found, Usage(prompt=9, completion=9, completion_audio=0)) is not None


def test_searches_have_their_own_price_or_none() -> None:
    """By the thousand; a call without any costs nothing more."""
    found = listing_of(ModelPrice(input_mtok=Decimal(1), web_searches_kcount=Decimal(10)))
    assert found.fee(Charges(), AT) == 0.0
    assert found.fee(Charges(web_searches=3), AT) == 0.03
    assert found.fee(Charges(file_searches=1), AT) is None
    assert found.fee(Charges(unknown=("x",)), AT) is None


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({"cache_write": "2", "cache_write_1h": "4"}, (10 + 5 * 2 + 4 * 4) / 1e6),
        ({"cache_write": "2"}, None),
        ({"cache_write": "2", "cache_write_1h": TieredPrices(base=Decimal(4), tiers=[])},
         (10 + 5 * 2 + 4 * 4) / 1e6),
    ],
)  # fmt: skip
def test_writes_for_an_hour_have_their_own_rate_or_none(
    rates: dict[str, Any], expected: float | None
) -> None:
    """Reckoned here or by the package, it is the same."""
    tokens = Usage(prompt=19, cache_write=9, cache_write_1h=4, completion=0)
    assert total(listing(input="1", output="1", **rates), tokens) == expected


def test_a_fee_for_the_request_is_in_the_total_alone() -> None:
    """Perplexity's: 12 dollars per thousand requests."""
    found = find_listing("sonar", "perplexity", None)
    assert found is not None
    cost = found.price(Usage(prompt=1000, completion=1000), None, AT)
    assert cost is not None
    assert (cost.prompt, cost.completion, cost.total) == (0.001, 0.001, 0.014)


@pytest.mark.parametrize(("prompt", "rate"), [(100, 1), (101, 2), (200, 2), (201, 3)])
def test_a_long_prompt_has_the_rate_of_its_length(prompt: int, rate: int) -> None:
    """For all of its tokens, and for the answer's; the details follow."""
    tiers = [Tier(start=100, price=Decimal(2)), Tier(start=200, price=Decimal(3))]
    tiered = TieredPrices(base=Decimal(1), tiers=tiers)
    cost = listing(input=tiered, output=tiered).price(
        Usage(prompt=prompt, completion=10, reasoning=4), None, AT
    )
    assert cost is not None
    assert (cost.prompt, cost.input) == (prompt * rate / 1e6, prompt * rate / 1e6)
    assert (cost.completion, cost.reasoning) == (rate * 10 / 1e6, rate * 4 / 1e6)


def test_the_price_is_that_of_the_time() -> None:
    """Prices change, some by the hour."""
    night = TimeOfDateConstraint(start_time=time(16, tzinfo=UTC), end_time=time(0, tzinfo=UTC))
    found = listing_of(
        [
            ConditionalPrice(prices=ModelPrice(input_mtok=Decimal(2), output_mtok=Decimal(2))),
            ConditionalPrice(
                constraint=night, prices=ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(1))
            ),
        ]
    )
    tokens = Usage(prompt=1, completion=1)
    day, evening = (found.price(tokens, None, AT.replace(hour=hour)) for hour in (12, 17))
    assert day is not None
    assert evening is not None
    assert (day.total, evening.total) == (4e-6, 2e-6)


PRIORITY = PriceVariant(
    when={"service_tier": "priority"},
    prices=ModelPrice(input_mtok=Decimal(10), output_mtok=Decimal(10)),
)
LATER = PriceVariant(
    when={"service_tier": "flex"},
    prices=ModelPrice(input_mtok=Decimal("0.5"), output_mtok=Decimal("0.5")),
    constraint=StartDateConstraint(start_date=date(2026, 12, 1)),
)
OF_TWO = PriceVariant(when={"service_tier": "scale", "processing": "batch"}, prices=PRIORITY.prices)


@pytest.mark.parametrize(
    ("tier", "expected"),
    [
        (None, 2e-6),
        ("default", 2e-6),
        ("standard", 2e-6),
        ("on_demand", 2e-6),
        ("priority", 20e-6),
        ("flex", None),
        ("scale", None),
        ("auto", None),
        ("provisioned", None),
        ("", None),
    ],
)
def test_a_service_tier_has_its_own_price_or_none(tier: str | None, expected: float | None) -> None:
    """No guess: one that the entry does not know, or not yet, has no cost."""
    found = listing(PRIORITY, LATER, OF_TWO, input="1", output="1")
    assert total(found, Usage(prompt=1, completion=1), tier) == expected


def test_another_providers_tiers_are_not_used() -> None:
    """Azure's models stand under OpenAI, whose tiers are not Azure's; the package leaves them."""
    own, azure = (find_listing("gpt-4.1", name, None) for name in ("openai", "azure"))
    assert own is not None
    assert azure is not None
    assert azure.model is own.model
    assert total(own, TOKENS, "priority") is not None
    assert total(azure, TOKENS, "priority") is None
    assert total(azure, TOKENS, "default") == total(own, TOKENS, "default")


def test_details_that_do_not_make_up_the_shares_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shares are the package's: whatever it may come to reckon, nothing contradicts them."""
    monkeypatch.setattr(
        ModelPrice,
        "calc_price",
        lambda *_: {
            "input_price": Decimal(1),
            "output_price": Decimal(2),
            "total_price": Decimal(4),
        },
    )
    cost = listing(input="1", output="1").price(TOKENS, None, AT)
    assert cost == SpanCost(
        source=CostSource.GENAI_PRICES, prompt=1.0, completion=2.0, total=4.0, saved=0.0
    )
    given = {f.name for f in fields(SpanCost) if getattr(cost, f.name) is not None}
    assert given == {"source", "prompt", "completion", "total", "saved"}


TIERED = TieredPrices(base=Decimal(1), tiers=[Tier(start=100, price=Decimal(9))])


@pytest.mark.parametrize(
    ("rates", "asked"),
    [
        ({"input": "1", "output": "2", "cache_read": "0.5"}, 1),
        ({"input": TIERED, "output": "2"}, 3),
        ({"input": "1", "output": "2", "input_audio": "9"}, 3),
    ],
)
def test_the_package_is_asked_once_where_the_rates_are_plain(
    monkeypatch: pytest.MonkeyPatch, rates: dict[str, Any], asked: int
) -> None:
    """One rate for each kind of token: from then on the sums are done here; else by the package."""
    usages: list[object] = []
    calc_price = ModelPrice.calc_price

    def count(price: ModelPrice, usage: object) -> Any:
        usages.append(usage)
        return calc_price(price, usage)

    monkeypatch.setattr(ModelPrice, "calc_price", count)
    found = listing(**rates)
    costs = [total(found, Usage(prompt=prompt, completion=1)) for prompt in (7, 700)]
    assert None not in costs
    assert len(usages) == asked
