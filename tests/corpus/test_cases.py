"""Every case of a public bug report, through a running proxy and beside it directly."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.corpus.cases import load_cases, play
from tests.corpus.recordings import explain_absence

pytestmark = pytest.mark.corpus

NOT_YET = {
    "a-compaction-summary": "a session does not go on behind a summary",
}
"""The cases that still fail, and why."""

_CASES = load_cases()


def _mark(case: dict[str, Any]) -> Any:
    reason = NOT_YET.get(case["id"])
    marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
    return pytest.param(case, id=case["id"], marks=marks)


@pytest.mark.asyncio
@pytest.mark.parametrize("case", [_mark(case) for case in _CASES])
async def test_a_reported_case_is_relayed_and_told_truly(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets what it gets directly, and the span says what the provider said."""
    needed = case.get("needs")
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    for name, text in (case.get("env") or {}).items():
        monkeypatch.setenv(name, text)
    assert not await play(case)


def test_every_case_that_fails_is_a_case() -> None:
    """A name in the table that no case has would hide nothing, and mislead."""
    if not _CASES:
        pytest.skip(explain_absence())
    assert not NOT_YET.keys() - {case["id"] for case in _CASES}
