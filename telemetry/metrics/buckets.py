"""The buckets of histograms of durations, apart from what needs the SDK's names."""

from __future__ import annotations

from typing import Final

DURATION_BUCKETS_SECONDS: Final = tuple(0.01 * 2**power for power in range(14))
"""0.01, 0.02, 0.04 ... 81.92: upper bounds of ``gen_ai.client.operation.*``
(``docs/contract/spans.md#metrics``)."""
