"""The row of many dials: ten thousand connections to upstreams, made, refused and given up."""

from __future__ import annotations

import pytest

from tests.faults.stage import is_long, scaled
from tests.proxy.upstream.test_dialling import dial_many

pytestmark = pytest.mark.timeout(600 if is_long() else 120)


async def test_ten_thousand_dials_leave_nothing_behind() -> None:
    """Neither a file nor a task, nor a warning of one."""
    await dial_many(scaled(10_000))
