"""Images, speech and transcriptions on a terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

from codec.apis.speech.route import read_sound
from codec.apis.table import get_api
from codec.text.jsontext import encode_json
from proxy.commands.console import open_console
from proxy.commands.render import print_call
from telemetry.store.rows import CallPicture, LeftOut
from tests.proxy.recorded_calls import make_exchange, read_call

if TYPE_CHECKING:
    from pathlib import Path

    from codec.said import Said
    from proxy.reading.call import RecordedCall

FILE = {"filename": "a.mp3", "content_type": "audio/mpeg", "bytes": 9}


def read(endpoint: str, answered: Any) -> Said:
    return get_api(endpoint).read_said(encode_json(answered).encode())


def record(folder: Path, endpoint: str, asked: dict[str, Any], said: Said) -> RecordedCall:
    exchange = make_exchange(
        endpoint=endpoint, request_json=asked, response=said, streamed=False, first_chunk_ns=None
    )
    return read_call(folder / "traces.db", exchange)


def show(call: RecordedCall) -> list[str]:
    """The lines of a recorded call in full."""
    out = io.StringIO()
    print_call(open_console(out), call, zone=UTC)
    return out.getvalue().splitlines()


def after(lines: list[str], title: str) -> list[str]:
    """What follows a title, up to the facts about the call."""
    return lines[lines.index(title) + 1 : lines.index("call") - 1]


def test_images_in_full(tmp_path: Path) -> None:
    """Where each is, the prompt that it was made of, the counts; no reason to end."""
    data = [{"revised_prompt": "A cat.", "url": "https://x.test/a.png?sig=1"}, {"b64_json": "A"}]
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    said = read("images", {"data": data, "usage": usage})
    lines = show(record(tmp_path, "images", {"model": "m-1", "prompt": "a cat"}, said))
    assert lines[0].startswith("ImagesResponse m-1  completed")
    assert after(lines, "request")[:2] == ["  user", "    a cat"]
    assert after(lines, "answer") == [
        "  assistant",
        "    A cat.",
        "    (image) https://x.test/a.png?REDACTED",
        "    (image) data:image/png;base64,A",
    ]
    assert any("3 in, 4 out, 7 total" in line for line in lines)
    assert not any("finish" in line for line in lines)


def test_speech_in_full(tmp_path: Path) -> None:
    """How much came, and what it is."""
    asked = {"model": "tts-1", "input": "Good day", "stream_format": "sse"}
    call = record(tmp_path, "audio.speech", asked, read_sound("audio/mpeg", 1_728))
    lines = show(call)
    assert after(lines, "request")[:2] == ["  user", "    Good day"]
    assert after(lines, "answer") == ["    (audio) 1728 bytes, audio/mpeg"]
    assert call.requested_streaming
    unknown = record(tmp_path / "b", "audio.speech", asked, read_sound("audio/mpeg", None))
    assert after(show(unknown), "answer") == ["  nothing that could be recorded"]


def test_a_transcription_in_full(tmp_path: Path) -> None:
    """The recording's type, and the text."""
    said = read("audio.transcriptions", {"text": "Hello."})
    lines = show(record(tmp_path, "audio.transcriptions", {"model": "m", "file": FILE}, said))
    assert after(lines, "request")[:2] == ["  user", "    (audio) audio/mpeg"]
    assert after(lines, "answer") == ["  assistant", "    Hello."]


def test_a_picture_of_a_request_is_named_with_its_size_or_why_it_is_not_kept(
    tmp_path: Path,
) -> None:
    """A terminal cannot draw it; the limit and the setting are named."""
    url = "data:image/png;base64,iVBORw0KGgo" + "A" * 40_000
    content = [{"type": "image_url", "image_url": {"url": url}}] * 2
    asked = {"model": "m", "messages": [{"role": "user", "content": content}]}
    call = read_call(tmp_path / "traces.db", make_exchange(request_json=asked))
    places = [
        CallPicture(is_answer=False, message=0, part=0, type="image/png", size_bytes=2_097_152),
        CallPicture(is_answer=False, message=0, part=1, size_bytes=9, left_out=LeftOut.TOO_LARGE),
    ]
    lines = [line.strip() for line in show(replace(call, pictures=places))]
    assert "(image) image/png, 2.0 MiB, shown on the page" in lines
    assert f"(image) picture, 9 bytes, not kept: {LeftOut.TOO_LARGE.words}" in lines
