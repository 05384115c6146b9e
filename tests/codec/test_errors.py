"""The codec's error tree."""

from __future__ import annotations

import pytest

from codec.errors import (
    ContentFiltered,
    IncompleteAnswer,
    LengthReached,
    LimitExceeded,
    MalformedEvent,
)


def test_a_passed_limit_names_itself() -> None:
    """The name and the value, for the record and for whoever reads the message."""
    error = LimitExceeded("MAX_EVENT_BYTES", 1_024)
    assert (error.limit, error.limit_bytes) == ("MAX_EVENT_BYTES", 1_024)
    assert str(error) == "MAX_EVENT_BYTES of 1024 bytes exceeded"


@pytest.mark.parametrize("kind", [LengthReached, ContentFiltered])
def test_an_incomplete_answer_names_its_choice(kind: type[IncompleteAnswer]) -> None:
    """Which choice it was, and what its finish reason said (``docs/contract/sources.md#s1-9``)."""
    error = kind(1, "length")
    assert isinstance(error, IncompleteAnswer)
    assert (error.choice_index, error.finish_reason) == (1, "length")
    assert str(error) == "choice 1 ended with finish reason 'length'"


def test_a_malformed_event_keeps_its_data_out_of_the_message() -> None:
    """R7: who handles it may look; a log line of it shows nothing of a chat."""
    error = MalformedEvent("event data: no JSON", b"secret words")
    assert error.data == b"secret words"
    assert "secret" not in str(error)
