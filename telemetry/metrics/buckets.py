"""The buckets of histograms of durations."""

from __future__ import annotations

from typing import Final

__all__ = ("DURATION_BUCKETS_SECONDS",)

DURATION_BUCKETS_SECONDS: Final = (
    0.01,
    0.02,
    0.04,
    0.08,
    0.16,
    0.32,
    0.64,
    1.28,
    2.56,
    5.12,
    10.24,
    20.48,
    40.96,
    81.92,
)
"""Upper bounds of ``gen_ai.client.operation.*`` (``span-contract.md`` 7.3)."""
