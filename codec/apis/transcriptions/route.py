"""The routes of transcriptions and translations, and the names of their spans."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from codec.apis.api import Api, load_player
from codec.apis.transcriptions.asked import TranscriptionRequest
from codec.apis.transcriptions.said import read_transcription
from codec.apis.transcriptions.stream import TranscriptionStream

__all__ = ("TRANSCRIPTIONS", "TRANSLATIONS")

TRANSCRIPTIONS = Api(
    name="audio.transcriptions",
    path_ends=("/audio/transcriptions",),
    operation="transcription",
    span_name="Transcription",
    takes_forms=True,
    gives_reason=False,
    asked=TranscriptionRequest,
    open_stream=TranscriptionStream,
    read_said=read_transcription,
    open_player=partial(load_player, "codec.apis.transcriptions.player", "PLAYER"),
)
"""OpenTelemetry has no operation for it; span name and operation are those of Envoy's gateway."""

TRANSLATIONS = replace(
    TRANSCRIPTIONS,
    name="audio.translations",
    path_ends=("/audio/translations",),
    operation="translation",
    span_name="Translation",
)
"""A recording, translated into English."""
