"""Every recorded request and answer as values, and back: not a byte is changed.

And an answer has the values of its fold, which is what a stream of it has.
"""

from __future__ import annotations

from contextlib import suppress

from codec.chat.response import decode_response
from codec.errors import MalformedRequest, MalformedResponse
from codec.values.requests import decode_request_values, encode_request_values
from codec.values.responses import (
    decode_response_values,
    encode_response_values,
    read_response_values,
)
from tests.codec.values.test_responses import as_streamed
from tests.corpus.oracle import is_stream
from tests.corpus.recordings import NEEDS_RECORDINGS, load_all, load_chats, load_completions

pytestmark = NEEDS_RECORDINGS

_RECORDINGS = load_all(load_chats, load_completions)


def test_every_request_survives() -> None:
    """Decoded and encoded, each body is what it was (``docs/contract/sources.md#s4-4``)."""
    count = 0
    for recording in _RECORDINGS:
        with suppress(MalformedRequest):
            values = decode_request_values(recording.request)
            encoded = encode_request_values(values, recording.request)
            assert encoded == recording.request, recording.id
            count += 1
    assert count > 250


def test_every_plain_answer_survives_and_has_the_values_of_its_fold() -> None:
    """Errors included: rule 1 of :mod:`codec.values.responses`, but for bare chunks.

    See ``docs/contract/sources.md#s4-19``.
    """
    count = 0
    for recording in _RECORDINGS:
        if is_stream(recording.body):
            continue
        with suppress(MalformedResponse):
            values = decode_response_values(recording.body)
            assert encode_response_values(values, recording.body) == recording.body, recording.id
            folded = read_response_values(decode_response(recording.body))
            is_chunk = values.extra.get("object") == "chat.completion.chunk"
            assert is_chunk or folded == as_streamed(values), recording.id
            count += not is_chunk
    assert count > 120
