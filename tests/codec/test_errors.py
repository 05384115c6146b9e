"""The codec's error tree."""

from __future__ import annotations

import pytest

from codec.errors import CodecError, LimitExceeded, MalformedRequest, MalformedResponse


@pytest.mark.parametrize("kind", [LimitExceeded, MalformedRequest, MalformedResponse])
def test_every_error_is_a_codec_error(kind: type[Exception]) -> None:
    """One name catches all, and no kind is another kind."""
    assert kind.__bases__ == (CodecError,)


def test_a_passed_limit_names_itself() -> None:
    """The name and the value, for the record and for whoever reads the message."""
    error = LimitExceeded("MAX_EVENT_BYTES", 1_024)
    assert (error.limit, error.limit_bytes) == ("MAX_EVENT_BYTES", 1_024)
    assert str(error) == "MAX_EVENT_BYTES of 1024 bytes exceeded"
