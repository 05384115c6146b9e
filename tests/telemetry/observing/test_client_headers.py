"""``telemetry.observing.client_headers``: who called, and at which attempt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.observing.client_headers import MAX_AGENT_CHARS, read_caller


@pytest.mark.parametrize(
    ("value", "agent"),
    [
        ("OpenAI/Python 2.8.0", "OpenAI/Python 2.8.0"),
        ("GrÃ¶Ã\x9fe/1", "Größe/1"),
        ("Gr\xf6\xdfe/1", "Größe/1"),
        ("  ", None),
        ("x" * 2_000, "x" * MAX_AGENT_CHARS),
    ],
)
def test_the_program_is_told_as_it_came(value: str, agent: str | None) -> None:
    """As text, within its limit."""
    assert read_caller((("content-type", "x"), ("user-agent", value))) == (agent, 0, "")


@pytest.mark.parametrize(
    ("name", "value", "retry"),
    [
        ("x-stainless-retry-count", "0", 0),
        ("x-stainless-retry-count", "1", 1),
        ("x-stainless-retry-count", "9999", 9_999),
        ("amz-sdk-request", "attempt=1; max=3", 0),
        ("amz-sdk-request", "attempt=2; max=3", 1),
        ("amz-sdk-request", "attempt=3", 2),
        ("amz-sdk-request", "attempt=0", 0),
        ("x-retry-after", "1", 0),
    ],
)
def test_which_retry_it_is(name: str, value: str, retry: int) -> None:
    """By the headers of the two kinds of SDKs that say so."""
    assert read_caller(((name, value),)) == (None, retry, "")


NAMES = st.sampled_from(["user-agent", "x-stainless-retry-count", "amz-sdk-request", "accept"])
VALUES = st.text(st.characters(max_codepoint=255), max_size=30) | st.sampled_from(
    ["-1", "1.0", "1e3", "10000", "true", "²", "attempt=99999", "attempt=2x", "attempt="]
)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=4))
def test_what_is_no_number_is_a_first_attempt(headers: list[tuple[str, str]]) -> None:
    """Whatever stands there, often too."""
    agent, retry, _ = read_caller(tuple(headers))
    assert 0 <= retry <= 9_999
    assert agent is None or 0 < len(agent) <= MAX_AGENT_CHARS
    if not any(value.isdecimal() or value.startswith("attempt=") for _, value in headers):
        assert retry == 0


def test_betas_are_joined() -> None:
    """A client may send several headers."""
    headers = (("anthropic-beta", "a,b"), ("x", "y"), ("anthropic-beta", "oauth-1"))
    assert read_caller(headers) == (None, 0, "a,b,oauth-1")
