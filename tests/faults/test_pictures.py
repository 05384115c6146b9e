"""Rows of a store full of pictures, and of raw answers: it loses no span, and takes its room only.

Each call has a picture that no other call has, many times as many bytes as all of them may take.
Its text is large, too: all spans together need some of the room that pictures may have. True bytes
of answers are kept as well (``SPANTAP_RAW``). In the second row each answer has bytes that hardly
shrink, and all of them together more than raw answers may take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from telemetry.reading.stored_calls import open_calls
from telemetry.store.description import describe_store
from telemetry.store.rows import SpanState
from tests.faults.scene import playing
from tests.faults.stage import is_long, scaled
from tests.faults.upstreams import answer_body, running_load_upstream

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(900 if is_long() else 120)

STORE_BYTES = 32 << 20

PICTURE_BYTES = 400_000

TEXT_BYTES = 26_000_000
"""What all spans take, about: with the pictures they would be too many."""

_COPIES = 3
"""How often the store has the text of a span, about."""

COUNT = 400

CALM_COUNT = 100

RAW_BYTES = 6_000_000
"""What all answers take, about; a tenth of the store is 3.4 MB."""

SETTINGS = {"SPANTAP_STORE_MAX_BYTES": str(STORE_BYTES), "SPANTAP_RAW": "all"}

RATE = 20.0


def test_a_store_full_of_pictures_loses_no_span(load_upstream: str, tmp_path: Path) -> None:
    """The oldest pictures go; the spans of all calls arrive, though their backend comes late."""
    with playing(tmp_path, load_upstream, environment=SETTINGS) as scene:
        calm = scene.calm_load(scaled(CALM_COUNT), rate=RATE, pad_bytes=PICTURE_BYTES)
        count = scaled(COUNT, least=60)
        during = scene.load(
            count,
            rate=RATE,
            pad_bytes=TEXT_BYTES // _COPIES // count,
            picture_bytes=PICTURE_BYTES,
        )
        # Now, while all spans wait: delivered ones go before pictures, and take theirs with them.
        scene.wait_for_pending(count)
        with open_calls(scene.spantap.store) as calls:
            found = [one for row in scene.stored() for one in calls.pictures(row.seq)]
        with scene.backend():
            scene.wait_for_all()
        kept = sum(one.left_out is None for one in found)
        scene.finish(
            "a store full of pictures",
            during,
            calm,
            {"pictures kept": kept, "left out": len(found) - kept},
        )
        assert len(found) == count
        assert 0 < kept * PICTURE_BYTES <= STORE_BYTES // 4
        assert kept < count


def test_a_store_full_of_raw_answers_loses_no_span(tmp_path: Path) -> None:
    """The oldest go; those that are kept are what the upstream sent, and take their tenth."""
    count = scaled(COUNT, least=60)
    noise_bytes = RAW_BYTES // count
    with (
        running_load_upstream(noise_bytes=noise_bytes) as upstream,
        playing(tmp_path, upstream, environment=SETTINGS) as scene,
    ):
        scene.noise_bytes = noise_bytes
        calm = scene.calm_load(scaled(CALM_COUNT), rate=RATE)
        during = scene.load(count, rate=RATE)
        scene.wait_for_pending(count)
        with open_calls(scene.spantap.store) as calls:
            newest = [row for row in scene.stored() if row.state == SpanState.PENDING]
            answers = [calls.raw_answer(row.seq) for row in newest]
        taken = describe_store(scene.spantap.store).raw_answer_bytes
        with scene.backend():
            scene.wait_for_all()
        kept = [answer is not None for answer in answers]
        scene.finish(
            "a store full of raw answers",
            during,
            calm,
            {"raw answers kept": sum(kept), "removed": count - sum(kept)},
        )
        assert {answer.body for answer in answers if answer} == {answer_body(noise_bytes)}
        assert kept == sorted(kept)
        assert STORE_BYTES // 20 < taken <= STORE_BYTES // 10
        assert 0 < sum(kept) < count
