"""A profile lists departures: what it does not say is OpenAI's way."""

from __future__ import annotations

import dataclasses

import pytest

from codec.dialects import DIALECTS, Dialect, UsagePlace, play_stream
from codec.generator import UsagePolicy
from tests.codec.dialects.scripts import SCRIPTS


def test_a_profile_without_departures_is_openai() -> None:
    """It streams as OpenAI does, details of the usage and a refusal's own member left aside."""
    script = SCRIPTS["text and two calls"]
    plain, openai = (
        b"".join(play_stream(dialect, script.generator().generate(script.answers)))
        for dialect in (Dialect(name="plain"), DIALECTS["openai"])
    )
    assert plain == openai.replace(b',"refusal":null', b"")


def test_profiles_cannot_be_changed() -> None:
    """They are values, shared by all who play them."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        DIALECTS["openai"].name = "mine"  # type: ignore[misc]


def test_whoever_counts_unasked_counts_asked() -> None:
    """No dialect takes a usage back because it was asked for; some move it or copy it."""
    moved = {name for name, d in DIALECTS.items() if d.usage.unasked not in d.usage.asked}
    assert not moved
    unasked = {name for name, d in DIALECTS.items() if d.usage.unasked is not UsagePlace.NOWHERE}
    script = SCRIPTS["text"]
    for name, dialect in DIALECTS.items():
        chunks = script.generator().generate(script.answers)
        stream = b"".join(play_stream(dialect, chunks, policy=UsagePolicy.NONE))
        assert (b'"completion_tokens"' in stream) == (name in unasked)
