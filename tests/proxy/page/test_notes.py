"""What the page tells of a call in sentences."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from proxy.page.api.notes import write_notes
from proxy.reading.call import RecordedCall
from tests.proxy.recorded_calls import make_exchange, read_call

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("rewrites", "told"),
    [
        (
            ["stream_options.include_usage"],
            (
                "spantap asked for token counts (stream_options.include_usage);"
                " the application had not"
            ),
        ),
        (["model", "stop"], "spantap changed the request on its way: model, stop"),
    ],
)
def test_notes_say_what_the_proxy_changed(tmp_path: Path, rewrites: list[str], told: str) -> None:
    """What is asked for in every stream is told as what it is, the rest by its name."""
    call = read_call(tmp_path / "traces.db", make_exchange())
    metadata = json.dumps({**call.metadata, "proxy_rewrites": rewrites})
    attributes = {**call.span.attributes, "metadata": metadata}
    changed = RecordedCall(summary=call.summary, span=replace(call.span, attributes=attributes))
    assert told in write_notes(changed)
