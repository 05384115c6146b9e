"""What the page tells of a call in sentences."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from proxy.page.api.notes import write_notes
from proxy.reading.call import RecordedCall
from telemetry.store.rows import MAX_CALL_PICTURES, CallPicture, LeftOut
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


def test_a_call_over_a_websocket_says_so(tmp_path: Path) -> None:
    """Others say nothing of how they came."""
    words = "it came over a WebSocket"
    assert words in write_notes(read_call(tmp_path / "1.db", make_exchange(protocol="websocket")))
    assert words not in write_notes(read_call(tmp_path / "2.db", make_exchange()))


LONG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40_000)).decode()


def test_a_limit_is_named_where_no_setting_hides_a_picture(tmp_path: Path) -> None:
    """The span lacks the picture by its default limit; the reason of each place is told once."""
    content = [{"type": "image_url", "image_url": {"url": LONG}}] * 4
    asked = {"model": "m", "messages": [{"role": "user", "content": content}]}
    call = read_call(tmp_path / "traces.db", make_exchange(request_json=asked))
    places = [
        CallPicture(is_answer=False, message=0, part=0, digest="00" * 32),
        *(
            CallPicture(is_answer=False, message=0, part=part, left_out=LeftOut.NO_ROOM)
            for part in (1, 2)
        ),
    ]
    told = write_notes(RecordedCall(summary=call.summary, span=call.span, pictures=places))
    pictures = [line for line in told if "picture" in line]
    assert pictures == [
        f"2 pictures not kept: {LeftOut.NO_ROOM.words}",
        f"1 picture not kept: {LeftOut.IMAGE_LIMIT.words}",
    ]
    assert not any("hidden" in line for line in told)


def test_a_picture_beyond_those_of_a_call_is_left_out_by_their_number(tmp_path: Path) -> None:
    """Nothing is noted of it, and the limit of the span is not its reason."""
    content = [{"type": "image_url", "image_url": {"url": LONG}}] * 3
    asked = {"model": "m", "messages": [{"role": "user", "content": content}]}
    call = read_call(tmp_path / "traces.db", make_exchange(request_json=asked))
    places = [
        CallPicture(is_answer=True, message=0, part=part, digest="00" * 32)
        for part in range(MAX_CALL_PICTURES - 1)
    ]
    places.append(CallPicture(is_answer=False, message=0, part=2, digest="00" * 32))
    told = write_notes(RecordedCall(summary=call.summary, span=call.span, pictures=places))
    assert [line for line in told if "picture" in line] == [
        f"2 pictures not kept: {LeftOut.TOO_MANY.words}"
    ]
    assert f"{MAX_CALL_PICTURES} pictures" in LeftOut.TOO_MANY.words
