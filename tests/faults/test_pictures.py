"""Row of a store full of pictures: it loses no span, and takes no more room than it may.

Each call has a picture that no other call has, many times as many bytes as all of them may take.
Its text is large, too: all spans together need some of the room that pictures may have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from telemetry.reading.stored_calls import open_calls
from tests.faults.scene import playing
from tests.faults.stage import is_long, scaled

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

RATE = 20.0


def test_a_store_full_of_pictures_loses_no_span(load_upstream: str, tmp_path: Path) -> None:
    """The oldest pictures go; the spans of all calls arrive, though their backend comes late."""
    limit = {"SPANTAP_STORE_MAX_BYTES": str(STORE_BYTES)}
    with playing(tmp_path, load_upstream, environment=limit) as scene:
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
