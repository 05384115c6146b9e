"""``codec.rate_limits``: what is left of a provider's limits, by the heads of its answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.rate_limits import MAX_LIMITS, RateLimit, read_rate_limits

OPENAI = {
    "x-ratelimit-limit-requests": "10000",
    "x-ratelimit-limit-tokens": "200000",
    "x-ratelimit-remaining-requests": "9999",
    "x-ratelimit-remaining-tokens": "150000",
    "x-ratelimit-reset-requests": "8.64s",
    "x-ratelimit-reset-tokens": "6m0s",
}
ANTHROPIC = {
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-requests-reset": "2026-01-31T08:00:00Z",
    "anthropic-ratelimit-input-tokens-limit": "30000",
    "anthropic-ratelimit-input-tokens-remaining": "0",
    "anthropic-ratelimit-input-tokens-reset": "2026-01-31T08:01:00Z",
    "retry-after": "20",
}
CLAUDE = {
    "anthropic-ratelimit-unified-status": "allowed",
    "anthropic-ratelimit-unified-reset": "1769846400",
    "anthropic-ratelimit-unified-5h-status": "allowed",
    "anthropic-ratelimit-unified-5h-reset": "1769846400",
    "anthropic-ratelimit-unified-5h-utilization": "0.42",
    "anthropic-ratelimit-unified-fallback-percentage": "0.5",
}
CODEX = {
    "x-codex-primary-used-percent": "12.5",
    "x-codex-primary-window-minutes": "300",
    "x-codex-primary-reset-after-seconds": "901",
}
COPILOT = {
    "x-quota-snapshot-chat": "ent=-1&ov=0.0&rem=100.0&rst=2026-02-01T00%3A00%3A00Z",
    "x-quota-snapshot-premium_models": "ent=300&ov=0.0&rem=83.3&rst=2026-02-01T00%3A00%3A00Z",
}


@pytest.mark.parametrize(
    ("headers", "limits"),
    [
        (
            OPENAI,
            [
                RateLimit("tokens", 0.75, 150_000, 200_000, "6m0s"),
                RateLimit("requests", 0.9999, 9_999, 10_000, "8.64s"),
            ],
        ),
        (
            ANTHROPIC,
            [
                RateLimit("input-tokens", 0, 0, 30_000, "2026-01-31T08:01:00Z"),
                RateLimit("requests", 0.98, 49, 50, "2026-01-31T08:00:00Z"),
            ],
        ),
        (CLAUDE, [RateLimit("unified-5h", 0.58, reset="1769846400")]),
        (CODEX, [RateLimit("codex-primary", 0.875, reset="901")]),
        (
            COPILOT,
            [RateLimit("premium_models", 0.833, limit=300, reset="2026-02-01T00:00:00Z")],
        ),
        (
            {"x-ratelimit-limit": "20", "x-ratelimit-remaining": "5", "x-ratelimit-reset": "1769"},
            [RateLimit("limit", 0.25, 5, 20, "1769")],
        ),
        (
            {
                "ratelimitbysize-limit": "500000",
                "ratelimitbysize-remaining": "250000",
                "ratelimitbysize-reset": "1",
            },
            [RateLimit("bysize", 0.5, 250_000, 500_000, "1")],
        ),
        (
            {"x-rate-limit-limit": "100, 100;w=60", "x-rate-limit-remaining": "1"},
            [RateLimit("limit", 0.01, 1, 100)],
        ),
        (
            {"x-ratelimit-limit-req-minute": "60", "x-ratelimit-remaining-req-minute": "30"},
            [RateLimit("req-minute", 0.5, 30, 60)],
        ),
        (
            {"ratelimit-policy": '"burst";q=100;w=60', "ratelimit": '"burst";r=50;t=30'},
            [RateLimit("burst", 0.5, 50, 100, "30")],
        ),
        (
            {"ratelimit": "limit=100, remaining=50, reset=5"},
            [RateLimit("limit", 0.5, 50, 100, "5")],
        ),
        (
            {"x-trial-endpoint-call-limit": "10", "x-trial-endpoint-call-remaining": "9"},
            [RateLimit("trial-calls", 0.9, 9, 10)],
        ),
    ],
    ids=[
        *("openai", "anthropic", "claude", "codex", "copilot", "unnamed", "mistral", "list"),
        *("minute", "ietf", "older ietf", "cohere"),
    ],
)
def test_limits_are_read_in_the_words_of_each_provider(
    headers: dict[str, str], limits: list[RateLimit]
) -> None:
    """The nearest one comes first."""
    assert read_rate_limits({"content-type": "text/plain", **headers}) == limits


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-ratelimit-remaining-tokens": "5"},
        {"x-ratelimit-limit-tokens": "5"},
        {"x-ratelimit-limit-tokens": "0", "x-ratelimit-remaining-tokens": "0"},
        {"x-ratelimit-limit-tokens": "many", "x-ratelimit-remaining-tokens": "few"},
        {"x-ratelimit-limit-tokens": "__REDACTED__", "x-ratelimit-remaining-tokens": "5"},
        {"anthropic-ratelimit-unified-5h-utilization": "2026-01-31"},
        {"x-ratelimit-over-limit": "no", "x-ratelimit-resource": "core"},
    ],
)
def test_a_limit_of_which_it_is_not_known_how_much_is_left_is_none(
    headers: dict[str, str],
) -> None:
    """Nothing is guessed (R6)."""
    assert read_rate_limits(headers) == []


def test_a_share_is_from_nothing_to_all() -> None:
    """Whatever a provider counts."""
    fields = {"x-ratelimit-limit-a": "10", "x-ratelimit-remaining-a": "-5"}
    fields |= {"x-ratelimit-limit-b": "10", "x-ratelimit-remaining-b": "50"}
    assert [limit.left for limit in read_rate_limits(fields)] == [0, 1]


def test_the_number_of_limits_is_bounded() -> None:
    """And so is the length of a name (R5)."""
    many = {
        f"x-ratelimit-{kind}-{number}-{'x' * 500}": "1"
        for number in range(1_000)
        for kind in ("limit", "remaining")
    }
    limits = read_rate_limits(many)
    assert len(limits) == MAX_LIMITS
    assert max(len(limit.name) for limit in limits) == 64


@given(
    st.dictionaries(
        st.sampled_from([*OPENAI, *ANTHROPIC, *CLAUDE, *CODEX, *COPILOT, "ratelimit"])
        | st.from_regex(r"x-ratelimit-[a-z-]*", fullmatch=True),
        st.text() | st.sampled_from([*OPENAI.values(), *COPILOT.values(), '"a";r=1;t=x']),
    )
)
def test_no_head_raises(headers: dict[str, str]) -> None:
    """Whatever it says; a share is always one."""
    assert all(0 <= limit.left <= 1 for limit in read_rate_limits(headers))
