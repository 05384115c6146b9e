"""The route of speech, and the names of its spans."""

from __future__ import annotations

from functools import partial

from codec.apis.api import Api, load_player
from codec.apis.speech.asked import SpeechRequest
from codec.apis.speech.said import read_sound, read_speech
from codec.apis.speech.stream import SpeechStream

__all__ = ("SPEECH",)

SPEECH = Api(
    name="audio.speech",
    path_ends=("/audio/speech",),
    operation="speech",
    span_name="AudioSpeech",
    gives_reason=False,
    asked=SpeechRequest,
    open_stream=SpeechStream,
    read_said=read_speech,
    read_sound=read_sound,
    open_player=partial(load_player, "codec.apis.speech.player", "PLAYER"),
)
"""OpenTelemetry has no operation for it; span name and operation are those of Envoy's gateway."""
