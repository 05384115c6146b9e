"""The players of images, speech and transcriptions: what is played is what is read."""

from __future__ import annotations

import wave
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.images.route import IMAGES
from codec.apis.speech.route import SPEECH
from codec.apis.transcriptions.route import TRANSCRIPTIONS
from codec.dialects import find_dialect
from codec.said import Ending
from codec.text.jsontext import decode_json_object
from proxy.demo.script import FAILING_MODEL, MODEL, write_script

if TYPE_CHECKING:
    from codec.apis.api import Api
    from codec.apis.player import Performance, Player
    from codec.said import Said

PLAIN = find_dialect("openai")
FILE = {"filename": "a.mp3", "content_type": "audio/mpeg", "bytes": 32_000}
ASKED: dict[str, dict[str, Any]] = {
    "images": {"model": MODEL, "prompt": "a cat", "n": "2"},
    "audio.speech": {"model": MODEL, "input": "Hi", "voice": "alloy"},
    "audio.transcriptions": {"model": MODEL, "file": FILE},
}
APIS = pytest.mark.parametrize("api", [IMAGES, SPEECH, TRANSCRIPTIONS], ids=lambda api: api.name)


def player_of(api: Api) -> Player:
    """The API's player."""
    assert api.open_player is not None
    return api.open_player()


def play(api: Api, path: str = "/", **members: Any) -> Performance:
    """An answer that begins."""
    asked = api.asked(ASKED[api.name] | members, path)
    script = write_script(asked, answer_id="1", created=1_795_456_987)
    return player_of(api).play(asked, script, PLAIN)


def read_stream(api: Api, performance: Performance, count: int = 1) -> Said:
    stream = api.open_stream(choice_count=count, hides_usage=False, lend=lambda _: True)
    for events in performance.stream():
        for event in events:
            stream.feed(event)
    return stream.finish()


def test_images_in_a_stream_are_those_of_a_plain_answer() -> None:
    """Each with as many unfinished ones as were asked for."""
    whole = IMAGES.read_said(play(IMAGES).whole())
    streamed = read_stream(IMAGES, play(IMAGES, partial_images="2"), 2)
    assert whole.anomalies == streamed.anomalies == ()
    assert streamed.body["data"] == whole.body["data"]
    assert streamed.partial_images == 4
    assert streamed.ending(streamed=True) is whole.ending(streamed=False) is Ending.COMPLETE
    assert whole.usage is not None
    assert (whole.usage.prompt, whole.usage.completion) == (2, 544)
    edit = b"".join(map(b"".join, play(IMAGES, "/v1/images/edits", n=1).stream()))
    assert edit.startswith(b"event: image_edit.completed\n")


def test_images_at_urls_have_the_prompt_that_they_were_made_of() -> None:
    """As dall-e's, and no usage."""
    whole = IMAGES.read_said(play(IMAGES, response_format="url").whole())
    assert all(image["url"].endswith(".png?REDACTED") for image in whole.body["data"])
    assert whole.body["data"][0]["revised_prompt"].startswith("Hello!")
    assert whole.usage is None


def test_speech_in_events_is_as_long_as_in_bytes() -> None:
    """A frame a word."""
    whole = play(SPEECH).whole()
    streamed = read_stream(SPEECH, play(SPEECH))
    assert streamed.output_bytes == len(whole) == 18 * 96
    assert streamed.ending(streamed=True) is Ending.COMPLETE
    assert streamed.usage is not None
    assert streamed.usage.completion == 18


def test_speech_as_a_file_is_one() -> None:
    """Which the standard library reads; its head says that its length is not known."""
    data = play(SPEECH, response_format="wav").whole()
    with wave.open(BytesIO(data)) as sound:
        assert (sound.getnchannels(), sound.getsampwidth(), sound.getframerate()) == (1, 2, 24_000)
    assert len(play(SPEECH, response_format="pcm").whole()) == len(data) - 44


@pytest.mark.parametrize("form", ["json", "verbose_json", "diarized_json", "text", "srt", "vtt"])
def test_transcriptions_of_all_forms_are_read(form: str) -> None:
    """Each with the same words in it."""
    said = TRANSCRIPTIONS.read_said(play(TRANSCRIPTIONS, response_format=form).whole())
    [answer] = said.answers
    assert isinstance(answer.message.content, str)
    assert "I never leave it, and I cost nothing." in answer.message.content
    assert said.anomalies == ()


def test_a_streamed_transcription_says_what_the_plain_one_says() -> None:
    """Counts included; segments where speakers are wanted."""
    whole = TRANSCRIPTIONS.read_said(play(TRANSCRIPTIONS).whole())
    streamed = read_stream(TRANSCRIPTIONS, play(TRANSCRIPTIONS))
    assert (streamed.answers, streamed.usage) == (whole.answers, whole.usage)
    assert whole.usage is not None
    assert whole.usage.prompt_audio == 11
    spoken = read_stream(TRANSCRIPTIONS, play(TRANSCRIPTIONS, response_format="diarized_json"))
    assert spoken.body["segments"][0]["speaker"] == "A"


def test_whisper_streams_nothing_and_counts_seconds() -> None:
    """Whatever is asked for."""
    performance = play(TRANSCRIPTIONS, model="whisper-1")
    assert performance.content_type == "application/json"
    [[body]] = performance.stream()
    usage = decode_json_object(body)["usage"]
    assert usage == {"type": "duration", "seconds": 8}


@APIS
def test_a_model_that_fails(api: Api) -> None:
    """In a stream after what it said; speech in bytes has no word for it."""
    streamed = read_stream(api, play(api, model=FAILING_MODEL, partial_images=1))
    assert streamed.error is not None
    assert streamed.error.code == "server_error"
    assert streamed.ending(streamed=True) is Ending.OPEN
    whole = play(api, model=FAILING_MODEL).whole()
    if api is SPEECH:
        assert len(whole) == 6 * 96
    else:
        assert api.read_said(whole).error is not None


@pytest.mark.parametrize(
    ("api", "members", "param"),
    [
        (IMAGES, {"prompt": ""}, "prompt"),
        (IMAGES, {"prompt": None}, "prompt"),
        (IMAGES, {"n": "0"}, "n"),
        (IMAGES, {"n": 11}, "n"),
        (IMAGES, {"n": "many"}, "n"),
        (IMAGES, {"partial_images": 4}, "partial_images"),
        (SPEECH, {"input": 7}, "input"),
        (SPEECH, {"voice": ""}, "voice"),
        (SPEECH, {"response_format": "midi"}, "response_format"),
        (TRANSCRIPTIONS, {"model": None}, None),
        (TRANSCRIPTIONS, {"file": None}, "file"),
        (TRANSCRIPTIONS, {"response_format": "xml"}, "response_format"),
    ],
)
def test_faults(api: Api, members: dict[str, Any], param: str | None) -> None:
    """In OpenAI's form."""
    fault = player_of(api).find_fault(ASKED[api.name] | members)
    assert fault is not None
    assert fault["error"]["param"] == param
    assert player_of(api).find_fault(ASKED[api.name]) is None


def test_a_variation_has_no_prompt() -> None:
    """But an image."""
    assert player_of(IMAGES).find_fault({"image": FILE}) is None
    assert player_of(IMAGES).find_fault({"image": FILE, "prompt": 7}) is not None
