"""The fuzzer's saved inputs, each run once (``make fuzz`` looks for new ones)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.dialects import DIALECTS, Dialect
from tests.fuzz.targets import TARGETS, run

INPUTS = sorted((Path(__file__).parent / "corpus").iterdir())


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_a_saved_input_keeps_the_promises(path: Path) -> None:
    """What was found once stays mended, and what shows a branch goes on reaching it."""
    run(path.read_bytes())


def test_every_target_has_saved_inputs() -> None:
    """A target that is added brings some along."""
    assert {path.read_bytes()[0] % len(TARGETS) for path in INPUTS} == set(range(len(TARGETS)))


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
def test_every_dialect_keeps_the_promises(dialect: Dialect) -> None:
    """Each dialect's stream through each target, cut small."""
    for number in range(len(TARGETS)):
        run(bytes([number, 7]) + dialect.stream)
