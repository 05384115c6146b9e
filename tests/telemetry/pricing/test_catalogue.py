"""The catalogue: late, calm, bounded, and without a network."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from codec.charges import NO_CHARGES, Step
from codec.usage import Usage
from telemetry.pricing import listing
from telemetry.pricing.catalogue import MAX_CACHED_LOOKUPS, Catalogue
from tests.telemetry.exchanges import make_exchange, make_response

if TYPE_CHECKING:
    from telemetry.pricing.span_cost import SpanCost

TOKENS = Usage(prompt=1000, cache_read=400, completion=200)
AT_NS = 1_793_880_000_000_000_000  # November 2026


def price(catalogue: Catalogue, *models: str, **members: Any) -> SpanCost | None:
    """The price at OpenAI, with the given members of the exchange otherwise."""
    tokens = members.pop("tokens", TOKENS)
    response = make_response(service_tier=members.pop("service_tier", None))
    at = {"provider": "openai", "start_ns": AT_NS, "response": response}
    exchange = make_exchange(**{**at, **members})
    return catalogue.find([Step(None, tokens)], models, exchange, NO_CHARGES).cost


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that were looked up; no cache had them."""
    models: list[str] = []
    find = listing.find_listing

    def note(model: str, provider: str | None, host: str | None) -> listing.Listing | None:
        models.append(model)
        return find(model, provider, host)

    monkeypatch.setattr(listing, "find_listing", note)
    return models


def test_the_first_model_that_is_listed_counts() -> None:
    """One that is not is passed over; of none there is no price."""
    catalogue = Catalogue()
    mini, whole = price(catalogue, "gpt-4o-mini"), price(catalogue, "gpt-4o")
    assert mini is not None
    assert mini.total == 0.00024
    assert price(catalogue, "of-our-own", "gpt-4o-mini") == mini
    assert price(catalogue, "gpt-4o", "gpt-4o-mini") == whole != mini
    assert price(catalogue, "of-our-own") is None
    assert price(catalogue) is None


def test_where_and_when_it_was_asked_matters() -> None:
    """The host where no provider is named, the tier, the time."""
    catalogue = Catalogue()
    assert price(catalogue, "gpt-4.1", provider=None, server_address="api.openai.com") is not None
    assert price(catalogue, "gpt-4.1", provider=None, server_address="vllm.internal") is None
    assert price(catalogue, "gpt-4.1", service_tier="priority") is not None
    assert price(catalogue, "gpt-4.1", service_tier="priority", start_ns=AT_NS // 2) is None


def test_a_look_up_is_remembered(looks: list[str]) -> None:
    """Found or not."""
    catalogue = Catalogue()
    for _ in range(3):
        assert price(catalogue, "gpt-4o") is not None
        assert price(catalogue, "of-our-own") is None
    assert looks == ["gpt-4o", "of-our-own"]


def test_no_more_look_ups_are_remembered_than_the_limit(looks: list[str]) -> None:
    """A client that asks for ever new models fills nothing; the package remembers none of them."""
    catalogue = Catalogue()
    for number in range(MAX_CACHED_LOOKUPS + 1):
        price(catalogue, f"nobody/model-{number}", provider="cohere")
    price(catalogue, f"nobody/model-{MAX_CACHED_LOOKUPS}", provider="cohere")
    price(catalogue, "nobody/model-0", provider="cohere")
    assert looks[MAX_CACHED_LOOKUPS + 1 :] == ["nobody/model-0"]


def test_what_the_package_raises_is_no_cost_and_one_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without content, and how many there were."""
    now_ns = 0
    catalogue = Catalogue(now_ns=lambda: now_ns)

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret words")

    monkeypatch.setattr(listing.Listing, "price", fail)
    with caplog.at_level(logging.WARNING):
        for now_ns in (0, 1, 59 * 10**9, 60 * 10**9):  # noqa: B007 - the catalogue reads it
            assert price(catalogue, "gpt-4o") is None
    assert [record.getMessage() for record in caplog.records] == [
        f"genai-prices failed (RuntimeError), {count} times since the last such line;"
        " no cost is recorded"
        for count in (1, 3)
    ]


@pytest.mark.parametrize("at_ns", [10**40, -(10**40), 10**21])
def test_a_time_beyond_the_calendar_is_no_cost(at_ns: int) -> None:
    """Nothing raises."""
    assert price(Catalogue(), "gpt-4o", start_ns=at_ns) is None


def test_what_the_package_refuses_is_no_cost() -> None:
    """Cached tokens and audio, where the two have a rate together."""
    tokens = Usage(prompt=9, cache_read=2, prompt_audio=2, completion=1)
    assert price(Catalogue(), "gemini-2.5-flash", provider="google", tokens=tokens) is None


def test_a_package_that_cannot_be_read_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Some other version, perhaps."""
    monkeypatch.delattr(listing, "find_listing")
    catalogue = Catalogue()
    assert [price(catalogue, "gpt-4o") for _ in range(3)] == [None] * 3
    assert ["ImportError" in record.getMessage() for record in caplog.records] == [True]


_OFFLINE = """
import socket, sys
def refuse(*_, **__):
    raise AssertionError("the network was asked")
socket.socket.connect = socket.socket.bind = socket.getaddrinfo = socket.create_connection = refuse
from telemetry.pricing.pricing import Pricing
from telemetry.pricing.price_table import PriceTable
from codec.usage import Usage
from tests.telemetry.exchanges import make_exchange, make_response
pricing = Pricing(PriceTable())
assert "genai_prices" not in sys.modules, "imported before its time"
usage = Usage(prompt=1000, cache_read=400, completion=200)
answer = make_response(model="gpt-4o-mini-2024-07-18", usage=usage, service_tier="default")
at_ns = 1_793_880_000_000_000_000
cost = pricing.price(
    make_exchange(server_address="api.openai.com", response=answer, start_ns=at_ns)
)
assert "genai_prices" in sys.modules
print(cost.total)
"""


def test_it_is_imported_late_and_asks_no_network() -> None:
    """In its own process, with the figure of ``docs/contract/spans.md#phoenix-cost``."""
    done = subprocess.run(
        [sys.executable, "-c", _OFFLINE], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("0.00024\n", "")
