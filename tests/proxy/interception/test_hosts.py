"""Which hosts are opened, and which a user may add."""

from __future__ import annotations

import datetime as dt

import pytest
from yarl import URL

from proxy.interception.hosts import _read, check_host, read_hosts
from proxy.upstream.catalogue import read_catalogue


def test_every_model_host_may_be_opened_and_has_a_source_and_a_date() -> None:
    rows = _read().model_hosts
    assert [row.host for row in rows] == sorted({row.host for row in rows})
    for row in rows:
        assert check_host(row.host) == row.host
        assert row.source
        assert dt.date.fromisoformat(row.date) > dt.date(2026, 1, 1)


def test_the_hosts_of_the_catalogue_are_model_hosts() -> None:
    assert {URL(row.url).host for row in read_catalogue()} <= read_hosts()


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("llm.gateway.example", "llm.gateway.example"),
        ("LLM.Gateway.Example.", "llm.gateway.example"),
        ("mine.openai.azure.com", "mine.openai.azure.com"),
        ("bedrock-runtime.us-east-1.amazonaws.com", "bedrock-runtime.us-east-1.amazonaws.com"),
        ("us-central1-aiplatform.googleapis.com", "us-central1-aiplatform.googleapis.com"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ],
)
def test_an_exact_name_may_be_added(name: str, host: str) -> None:
    assert check_host(name) == host


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("github.com", "login, account or code host"),
        ("api.github.com", "login, account or code host"),
        ("oauth2.googleapis.com", "login, account or code host"),
        ("www.googleapis.com", "login, account or code host"),
        ("AUTH.openai.com.", "login, account or code host"),
        ("platform.claude.com", "login, account or code host"),
        ("claude.ai", "login, account or code host"),
        ("eu.accounts.google.com", "login, account or code host"),
        ("openai.com", "above auth.openai.com"),
        ("claude.com", "above platform.claude.com"),
        ("*.example.com", "wildcard"),
        ("com", "many hosts"),
        ("localhost", "many hosts"),
        ("co.uk", "many hosts"),
        ("openai.azure.com", "many hosts"),
        ("amazonaws.com", "many hosts"),
        ("10.0.0.1", "address"),
        ("10.0x1", "address"),
        ("2130706433", "address"),
        ("::1", "without scheme, port or path"),
        ("[::1]", "without scheme, port or path"),
        ("api.example.com:443", "without scheme, port or path"),
        ("https://api.example.com", "without scheme, port or path"),
        ("bücher.example", "ASCII"),
        ("a..example", "ASCII"),
        ("-a.example", "ASCII"),
        (".example.com", "ASCII"),
        ("", "ASCII"),
        ("a b.example", "ASCII"),
        ("a" * 64 + ".example", "ASCII"),
    ],
)
def test_others_may_not(name: str, says: str) -> None:
    """Each with a sentence that says why."""
    with pytest.raises(ValueError, match=says):
        check_host(name)
