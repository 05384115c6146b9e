"""Every recorded request and answer as values, and back: not a byte is changed.

And an answer has the values of its fold, which is what a stream of it has.
"""

from __future__ import annotations

import pytest

from codec.errors import MalformedRequest, MalformedResponse
from codec.response import decode_response
from codec.values.requests import decode_request_values, encode_request_values
from codec.values.responses import (
    decode_response_values,
    encode_response_values,
    read_response_values,
)
from tests.codec.values.test_responses import as_streamed
from tests.corpus.oracle import is_stream
from tests.corpus.recordings import explain_absence, find_folder, load_chats, load_completions

pytestmark = pytest.mark.corpus

_FOLDER = find_folder()


def test_every_request_survives() -> None:
    """S4.4, S4.T12: decoded and encoded, each body is what it was."""
    if _FOLDER is None:
        pytest.skip(explain_absence())
    count = 0
    for recording in (*load_chats(_FOLDER), *load_completions(_FOLDER)):
        try:
            values = decode_request_values(recording.request)
        except MalformedRequest:
            continue
        assert encode_request_values(values, recording.request) == recording.request, recording.id
        count += 1
    assert count > 250


def test_every_plain_answer_survives() -> None:
    """Likewise, errors included."""
    if _FOLDER is None:
        pytest.skip(explain_absence())
    count = 0
    for recording in (*load_chats(_FOLDER), *load_completions(_FOLDER)):
        if is_stream(recording.body):
            continue
        try:
            values = decode_response_values(recording.body)
        except MalformedResponse:
            continue
        assert encode_response_values(values, recording.body) == recording.body, recording.id
        count += 1
    assert count > 120


def test_every_plain_answer_has_the_values_of_its_fold() -> None:
    """N3, S4.19, rule 1 of :mod:`codec.values.responses`; chunks sent for an answer left out."""
    if _FOLDER is None:
        pytest.skip(explain_absence())
    count = 0
    for recording in (*load_chats(_FOLDER), *load_completions(_FOLDER)):
        if is_stream(recording.body):
            continue
        try:
            values = decode_response_values(recording.body)
        except MalformedResponse:
            continue
        if values.extra.get("object") == "chat.completion.chunk":
            continue
        folded = read_response_values(decode_response(recording.body))
        assert folded == as_streamed(values), recording.id
        count += 1
    assert count > 120
