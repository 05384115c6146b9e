"""What is fuzzed: functions of bytes that raise where a promise of the codec does not hold.

Needs nothing but the codec, so that a fuzzer can instrument just that. The first byte of an input
chooses the target, the second one where it is cut.
"""

from __future__ import annotations

from contextlib import suppress
from unittest import mock

from codec.apis.images.route import IMAGES
from codec.apis.speech.route import SPEECH
from codec.apis.transcriptions.route import TRANSCRIPTIONS
from codec.chat import stream as stream_module
from codec.chat.completion import build_completion
from codec.chat.response import decode_response
from codec.chat.rewrite import REQUEST_MEMBERS, rewrite_request
from codec.chat.stream import ChatStream
from codec.chat.usage_filter import UsageFilter
from codec.errors import MalformedRequest, MalformedResponse
from codec.events.partial_json import parse_partial_json
from codec.text.jsontext import decode_json
from codec.text.multipart import Form, FormReader
from codec.text.scan import RequestScanner, scan_request
from codec.text.sse import ServerSentEvent, SseDecoder
from codec.usage_option import UsagePolicy
from codec.values.requests import decode_request_values, encode_request_values
from codec.values.responses import decode_response_values, encode_response_values

__all__ = ("TARGETS", "run")


def fold_stream(data: bytes, cut: int) -> None:
    """A stream folds alike however it is cut, with templates and without; nothing raises."""
    whole = _fold([data])
    assert _fold(_cut(data, cut)) == whole
    with mock.patch.object(stream_module, "MAX_WASTED_TEMPLATES", 0):
        assert _fold([data]) == whole


def decode_events(data: bytes, cut: int) -> None:
    """Events do not depend on the cuts, and their raw bytes stand in the stream in order."""
    events = _decode([data])
    assert _decode(_cut(data, cut)) == events
    place = 0
    for event in events:
        place = data.index(event.raw, place) + len(event.raw)


def rewrite(data: bytes, cut: int) -> None:
    """All but the splice stays, and the rewritten body asks for usage and says all it said."""
    scanner = RequestScanner(REQUEST_MEMBERS)
    for piece in _cut(data, cut):
        scanner.feed(piece)
    scan, whole = scanner.finish(), scan_request(data, REQUEST_MEMBERS)
    # A body with several problems is told for the one that is met first, which the cuts decide.
    assert scan == whole or (scan.problem is not None and whole.problem is not None)
    rewritten = rewrite_request(data, scan, UsagePolicy.ALWAYS)
    if not rewritten.asked:
        assert rewritten.body is data
        return
    try:
        was = decode_json(data)
    except ValueError:  # values are not looked into: the upstream is to refuse it
        return
    now = decode_json(b"".join((rewritten.body, *rewritten.more)))
    options = now.pop("stream_options")
    assert options.pop("include_usage") is True
    before = was.pop("stream_options", None) or {}
    before.pop("include_usage", None)
    assert repr(options) == repr(before)
    assert repr(now) == repr(was)  # NaN is not equal to itself


def decode_bodies(data: bytes, cut: int) -> None:
    """Bodies decode and encode to what they were, or raise what is documented."""
    del cut
    with suppress(MalformedResponse):
        build_completion(decode_response(data))
        values = decode_response_values(data)
        with suppress(ValueError):  # arguments nested some 990 deep are read, and not written
            assert encode_response_values(values, data) == data
    with suppress(MalformedRequest):
        assert encode_request_values(decode_request_values(data), data) == data


def filter_usage(data: bytes, cut: int) -> None:
    """What passes does not depend on the cuts, and is what came but for whole events."""
    whole = _filter([data])
    assert _filter(_cut(data, cut)) == whole
    assert len(whole) <= len(data)
    assert whole == data or b"usage" in data


def parse_partial(data: bytes, cut: int) -> None:
    """Every beginning of a text parses or is nothing; what is whole parses as JSON does."""
    text = data.decode("utf-8", "replace")
    parse_partial_json(text[:cut])
    partial = parse_partial_json(text)
    try:
        value = decode_json(text)
    except ValueError:
        return
    if partial is not None:
        assert repr(partial.value) == repr(value)


def read_form(data: bytes, cut: int) -> None:
    """A form says the same however it is cut, and never more than came; nothing raises."""
    whole = _read_form([data])
    assert _read_form(_cut(data, cut)) == whole
    assert _read_form(_cut(data, 0)) == whole


def fold_typed(data: bytes, cut: int) -> None:
    """Streams of images, speech and transcriptions fold alike however they are cut."""
    for api in (IMAGES, SPEECH, TRANSCRIPTIONS):
        answers = []
        for pieces in ([data], _cut(data, cut)):
            stream = api.open_stream(choice_count=2, hides_usage=False, lend=lambda _: True)
            for piece in pieces:
                stream.feed(piece)
            answers.append(repr(stream.finish()))
        assert answers[0] == answers[1]


TARGETS = (
    *(fold_stream, decode_events, rewrite, decode_bodies, filter_usage, parse_partial),
    *(read_form, fold_typed),
)
"""Eight of them: a digit as the first byte of an input chooses its own."""


def run(data: bytes) -> None:
    """Run the target that an input chooses."""
    if len(data) >= 2:
        TARGETS[data[0] % len(TARGETS)](data[2:], data[1])


def _cut(data: bytes, cut: int) -> list[bytes]:
    """Pieces of a length; of one byte for 0."""
    size = cut or 1
    return [data[start : start + size] for start in range(0, len(data), size)]


def _fold(pieces: list[bytes]) -> str:
    stream = ChatStream()
    for piece in pieces:
        stream.feed(piece)
    return repr(stream.finish())


def _read_form(pieces: list[bytes]) -> Form:
    reader = FormReader(b"x")
    for piece in pieces:
        reader.feed(piece)
    return reader.finish()


def _decode(pieces: list[bytes]) -> list[ServerSentEvent]:
    decoder = SseDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    last = decoder.finish()
    return events if last is None else [*events, last]


def _filter(pieces: list[bytes]) -> bytes:
    usage_filter = UsageFilter()
    passed = b"".join(usage_filter.feed(piece) for piece in pieces)
    return passed + usage_filter.finish()
