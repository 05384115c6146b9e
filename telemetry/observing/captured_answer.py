"""One answer as an observer keeps it: its body is decoded read by read, and joined at the end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codec.errors import LimitExceeded, MalformedResponse
from codec.text.base64_text import TakenPictures
from codec.text.jsontext import is_json, is_utf8
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import MAX_ERROR_BYTES
from telemetry.observing.answer_body import (
    MAX_PLAIN_BYTES,
    PlainBody,
    SoundBody,
    StreamBody,
    find_type,
    make_body,
    make_sound_body,
)
from telemetry.observing.content_decoding import UNCHANGING, UndecodableContent, make_decoder
from telemetry.observing.crash_counter import LARGE_BYTES
from telemetry.observing.open_bodies import Holding
from telemetry.observing.provider_words import (
    BROKEN_OFF,
    NOTHING,
    drop_last_word,
    find_foreign,
    find_undecoded,
)
from telemetry.privacy.body_credentials import redact_named

if TYPE_CHECKING:
    from codec.apis.api import Api
    from codec.said import Said
    from telemetry.frames.frame import Begin, End, ResponseData, ResponseHead
    from telemetry.observing.content_decoding import ContentDecoder
    from telemetry.observing.crash_counter import CrashCounter
    from telemetry.observing.open_bodies import OpenBodies
    from telemetry.observing.provider_words import Lack
    from telemetry.observing.request_body import CapturedRequest
    from telemetry.privacy.credentials import Credentials

_BEFORE_BODY = b" \t\r\n\xef\xbb\xbf"
"""Bytes that may come before a body: blank lines (DeepSeek), a byte order mark."""

_BEGINS_TEXT = re.compile(rb'\s*(?:\{\s*"|<(?:!doctype|html|\?xml))', re.IGNORECASE).match
"""Matches the beginning of JSON or of a page."""


class CapturedAnswer:
    """One answer, as far as its frames have come.

    Args:
        bodies: the room for its body.
        begin: how the exchange began.
        api: of the exchange.
        asked: its request.
        crashes: notes work on a large body.
        anomalies: gets the names of what is odd about the answer.
        keeps_pictures: pictures that are taken out of the answer are kept.
        keeps_sound: the sound of a session's answer is kept.

    Attributes:
        head: ``None`` while it has not come.
        body: ``None`` while its kind is not known.
        undecoded: the text of a body that is not an answer, credentials masked.
        lack: what came in the place of an answer; ``None`` if an answer came, or if that is not
            known.
        is_unread: it is not observed whole.
        last_read_ns: when the last read came.
        reads: how many have come.
        pictures: those that were taken out.
    """

    # In most exchanges some of these never change.
    head: ResponseHead | None = None
    body: StreamBody | PlainBody | SoundBody | None = None
    undecoded: str | None = None
    lack: Lack | None = None
    is_unread = False
    last_read_ns = 0
    _decoder: ContentDecoder | None = None
    _first = b""  # of the body, while too short to tell its kind
    reads = 0
    _complete_at_read: int | None = None
    _picture_holding: Holding | None = None

    def __init__(
        self,
        bodies: OpenBodies,
        *,
        begin: Begin,
        api: Api,
        asked: CapturedRequest,
        crashes: CrashCounter,
        anomalies: dict[str, None],
        keeps_pictures: bool = False,
        keeps_sound: bool = False,
    ) -> None:
        self._holding = Holding(bodies, self.give_up)
        self._bodies = bodies
        self.pictures = TakenPictures(self._lend if keeps_pictures else None)
        self._keeps_sound = keeps_sound
        self._api = api
        self._asked = asked
        self._begin = begin
        self._crashes = crashes
        self._anomalies = anomalies

    @property
    def held_bytes(self) -> int:
        """The room that the answer takes now, in bytes."""
        return self._holding.held_bytes

    @property
    def stream(self) -> StreamBody | None:
        """The body, if it is a stream."""
        return self.body if type(self.body) is StreamBody else None

    @property
    def _is_plain(self) -> bool:
        """Whether the body has no coding."""
        return self._decoder is UNCHANGING

    def cut(self, anomaly: str) -> None:
        """Note that the answer is not observed whole."""
        self.is_unread = True
        self._anomalies[anomaly] = None

    def give_up(self, anomaly: str = "observer_limit") -> None:
        """Forget the answer, by default because others need the room."""
        self._forget()
        self.cut(anomaly)

    def _lend(self, size_bytes: int) -> bool:
        """Reserve room for a picture; most answers have none."""
        if self._picture_holding is None:
            self._picture_holding = Holding(self._bodies, self.pictures.forget, is_spare=True)
        return self._picture_holding.reserve(size_bytes)

    def _forget(self) -> None:
        self._decoder = self.body = self.undecoded = None
        self._first = b""

    def release(self) -> None:
        """Give back the room that it takes."""
        self._holding.release()
        if self._picture_holding is not None:
            self._picture_holding.release()

    def close(self) -> None:
        """Forget the answer, for good; a record that was made keeps its pictures."""
        self._holding.close()
        if self._picture_holding is not None:
            self._picture_holding.close()
        self.pictures.forget()
        self._forget()

    def begin(self, head: ResponseHead) -> None:
        """Prepare for the body."""
        try:
            self._decoder = make_decoder(
                head.headers, max_bytes=MAX_ERROR_BYTES if head.status >= 400 else None
            )
        except UndecodableContent:
            self.cut("response_undecodable")
        self.body = make_sound_body(head, self._api)

    def feed(self, frame: ResponseData) -> None:
        """Decode the next read; skip it if that is not possible."""
        self.reads += 1
        self.last_read_ns = frame.at_ns
        decoder = self._decoder
        if decoder is UNCHANGING and self._holding.held_bytes <= LARGE_BYTES:  # usual
            self._feed_decoded(frame.data, frame.at_ns)
        elif decoder is not None:
            # A large event may end here.
            with self._crashes.during(self._begin.identity.span_id, is_large=True):
                if decoder is UNCHANGING:
                    self._feed_decoded(frame.data, frame.at_ns)
                else:
                    self._feed_encoded(frame.data, frame.at_ns, decoder)

    def _feed_encoded(self, data: bytes, at_ns: int, decoder: ContentDecoder) -> None:
        """Decode a read piece by piece, because a few bytes may become a very large body."""
        size_bytes = len(data) - decoder.remembered_bytes  # encoded bytes are kept, too
        for piece in decoder.decode(data):
            self._feed_decoded(piece, at_ns)
        if not self._holding.reserve(size_bytes + decoder.remembered_bytes):
            self._holding.give_up()
        elif decoder.error is not None:
            limited = isinstance(decoder.error, LimitExceeded)
            self.cut("observer_limit" if limited else "response_undecodable")
            self._decoder = None

    def _feed_decoded(self, data: bytes, at_ns: int) -> None:
        body = self.body
        if body is None:
            data = (self._first + data).lstrip(_BEFORE_BODY)
            self.body = body = self._begin_body(data)
            if body is None:
                return
        elif type(body) is SoundBody and body.is_empty and _begins_text(data):
            self.body = body = PlainBody(MAX_PLAIN_BYTES, self._holding)
        if not body.feed(data, at_ns):
            self._complete_at_read = None  # another choice may begin after all others finished
        elif self._complete_at_read is None:
            self._complete_at_read = self.reads

    def _begin_body(self, first: bytes) -> StreamBody | PlainBody | None:
        """Begin a body by its first bytes; keep them if they are too few to show its kind."""
        if self.head is None:
            return None
        request = self._asked.request
        if request is None:  # the path still says something
            request = self._api.ask({}, self._begin.path)
        body = make_body(
            self.head,
            first,
            api=self._api,
            asked=request,
            holding=self._holding,
            pictures=self.pictures,
            keeps_sound=self._keeps_sound,
        )
        self._first = first if body is None else b""
        return body

    def is_delivered(self, undelivered_reads: int) -> bool:
        """Tell whether the client got the bytes that made the answer complete."""
        last_read = self.reads if self._complete_at_read is None else self._complete_at_read
        return last_read <= self.reads - undelivered_reads

    def finish(self, end: End, credentials: Credentials) -> tuple[Said | None, str | None]:
        """Put the answer together; return it, and the text of an error's body."""
        if self._first:  # too little for the first line of a stream
            self.body = PlainBody(MAX_PLAIN_BYTES, self._holding)
            self.body.feed(self._first, end.at_ns)
        body, head = self.body, self.head
        if end.shed_bytes and not (isinstance(body, SoundBody) and self._is_plain):
            self.cut("observer_limit")
        if head is None:
            return None, None
        if body is None:
            return self._read_nothing(), None
        if isinstance(body, StreamBody):
            response = body.finish()
            if "observer_limit" in response.anomalies:
                self.cut("observer_limit")
            self._anomalies.update(dict.fromkeys(response.anomalies))
            self.lack = find_foreign(response, credentials, streamed=True)
            return response, None
        if isinstance(body, SoundBody):
            known = None if self.is_unread else 0
            response = body.finish(end.shed_bytes if self._is_plain else known)
            if response.output_bytes == 0:
                self.lack = NOTHING
            return response, None
        if body.cut:
            self.cut("observer_limit")
        is_whole = end.kind is EndKind.UPSTREAM_EOF and not self.is_unread
        data = body.pop()
        text = self._mask(data, credentials, is_whole=is_whole) if head.status >= 400 else None
        if text is not None and not is_whole:
            text = drop_last_word(text)
        return (None if body.cut else self._read_plain(data, text, credentials, is_whole)), text

    def _read_nothing(self) -> Said | None:
        """Read an answer without a byte: an empty text, if a bare text was asked for."""
        if self._wants_text:
            return self._decode(b"")
        self.lack = NOTHING
        return None

    @property
    def _wants_text(self) -> bool:
        """Whether a bare text was asked for."""
        request = self._asked.request
        return request is not None and request.wants_text

    def _read_plain(
        self,
        data: bytes,
        error_body: str | None,
        credentials: Credentials,
        is_whole: bool,  # noqa: FBT001 - private, one caller
    ) -> Said | None:
        """Read a whole body; ``None`` if it is not an answer, or there is no room."""
        if self._holding.reserve_decoded(data) is None:
            self.cut("observer_limit")
            return None
        response = self._decode(data)
        if response is None and error_body is None and _may_be_sound(data):
            response = self._read_sound()
        if error_body is not None:  # it may be HTML, and has nothing of an answer
            return response
        if response is None:
            self._anomalies["response_undecodable"] = None
            self.undecoded = self._mask(data, credentials, is_whole=is_whole)
            # Less than the first line of a stream broke off there.
            is_begun = bool(self._first)
            self.lack = (
                BROKEN_OFF if is_begun else find_undecoded(data, self.undecoded, credentials)
            )
            self.is_unread = self.is_unread or self.lack is None
            return None
        self._anomalies.update(dict.fromkeys(response.anomalies))
        if response.body or not self._wants_text:
            self.lack = find_foreign(response, credentials, streamed=False)
        return response

    def _read_sound(self) -> Said | None:
        """Read sound of an unknown type, and of an unknown length, because spaces may be gone."""
        read, head = self._api.read_sound, self.head
        return None if read is None or head is None else read(find_type(head), None)

    def _decode(self, data: bytes) -> Said | None:
        """Decode a whole body; ``None`` if it is not an answer, such as a redirect's."""
        if self.head is None or 300 <= self.head.status < 400:
            return None
        try:
            if self._api.read_pictured is not None:
                return self._api.read_pictured(data, self.pictures)
            return self._api.read_said(data)
        except MalformedResponse:
            return None

    def _mask(self, data: bytes, credentials: Credentials, *, is_whole: bool) -> str:
        """Mask the text of a body that is not an answer."""
        text = data.decode("utf-8", "replace")
        if not self._is_plain:
            is_whole = is_whole and is_json(text)  # a missing end is not noticed
        return redact_named(credentials.redact_quote(text, is_whole=is_whole))


def _begins_text(data: bytes) -> bool:
    """Tell whether the first read of a body with a type of sound begins JSON or a page."""
    return _BEGINS_TEXT(data) is not None and b"\0" not in data and is_utf8(data)


def _may_be_sound(data: bytes) -> bool:
    """Tell whether bytes are not text. A page or JSON is text, in any encoding.

    Silence is valid UTF-8, but it consists of NULs, which no text has.
    """
    return not data.startswith((b"<", b"{", b"[")) and (b"\0" in data or not is_utf8(data))
