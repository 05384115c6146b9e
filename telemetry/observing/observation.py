"""One open exchange as an observer sees it: frames as they come, a record at the end.

Rules, which go on from those of :mod:`telemetry.observing.observer`:

3. An exchange holds no more than the limits of the codec and of
   :mod:`telemetry.observing.answer_body`, and all together no more than
   :mod:`telemetry.observing.open_bodies` has room for (R5).
4. Only :func:`telemetry.observing.judgement.judge` judges how an exchange ended.
5. However ``response_data`` is cut, the record is the same but for its times.
6. Credentials in a provider's errors, and in bodies that are not an answer, are masked before
   anything is made of them (:mod:`telemetry.observing.provider_words`, R7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.anomalies import calls_tool_not_offered
from codec.apis.table import get_api
from codec.errors import LimitExceeded, MalformedRequest, MalformedResponse
from codec.text.jsontext import is_json
from codec.text.multipart import FormState
from telemetry.frames.content_header import asks_no_content
from telemetry.frames.ending import CLEAN_ENDS, EndKind
from telemetry.frames.frame import MAX_ERROR_BYTES, ResponseHead
from telemetry.observing.answer_body import (
    MAX_PLAIN_BYTES,
    PlainBody,
    SoundBody,
    StreamBody,
    make_body,
    make_sound_body,
)
from telemetry.observing.client_context import add_body_context, add_run, without_inputs
from telemetry.observing.content_decoding import UNCHANGING, UndecodableContent, make_decoder
from telemetry.observing.exchange import Exchange, Outcome
from telemetry.observing.judgement import judge
from telemetry.observing.open_bodies import Holding
from telemetry.observing.provider_words import drop_last_word, mask_error, read_headers
from telemetry.observing.request_body import CapturedRequest
from telemetry.observing.strikes import LARGE_BYTES

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from codec.call import Said
    from telemetry.frames.frame import Begin, End, RequestBody, ResponseData
    from telemetry.observing.client_context import HeaderMap
    from telemetry.observing.content_decoding import ContentDecoder
    from telemetry.observing.exchange import ClientContext
    from telemetry.observing.open_bodies import OpenBodies
    from telemetry.observing.strikes import Strikes
    from telemetry.privacy.credentials import Credentials

__all__ = ("OBSERVER_DIED", "OBSERVER_FAILED", "Observation")

OBSERVER_FAILED = "observer_failed"
"""The anomaly of a record whose content is missing because of a defect of ours."""

OBSERVER_DIED = "observer_died"
"""The anomaly of a record without bodies, because telemetry has died of them twice."""

_BEFORE_BODY = b" \t\r\n\xef\xbb\xbf"
"""Bytes that may come before a body: blank lines (DeepSeek), a byte order mark."""

MAX_WRITING_NS = 50_000_000
"""From the last read of an answer to the word that it ended: some 1 ms, more on a busy machine."""

_MISSING = frozenset({"event_cut_off", "no_finish_reason", "no_usage"})

_OF_FORMS = {
    FormState.WHOLE: (),
    FormState.CUT: ("observer_limit",),
    FormState.BROKEN: ("request_undecodable",),
}
"""The anomaly of a form that is not known whole."""

_NO_HEAD = ResponseHead(exchange=0, at_ns=0, status=0)
"""The head of an exchange without an answer."""


class Observation:
    """One open exchange, as far as its frames have come.

    It begins with its first frame and the credentials of the request's head. All else is as
    :class:`telemetry.observing.observer.Observer` has it.
    """

    # In most exchanges some of these never change.
    _head: ResponseHead | None = None
    _decoder: ContentDecoder | None = None
    _first = b""  # of the body, while too short to tell its kind
    _body: StreamBody | PlainBody | SoundBody | None = None
    _unread = False
    _reads = 0
    _last_read_ns = 0
    _complete_at_read: int | None = None
    _undecoded_body: str | None = None

    def __init__(
        self,
        begin: Begin,
        header_map: HeaderMap,
        bodies: OpenBodies,
        strikes: Strikes,
        credentials: Credentials,
        *,
        hides_inputs: bool,
    ) -> None:
        self._strikes = strikes
        self._is_out = strikes.is_out(begin.identity.span_id)
        self._api = get_api(begin.endpoint)
        self._asked = CapturedRequest(bodies, self._api, begin.path)
        self._holding = Holding(bodies, self._give_up_answer)
        self._begin = begin
        self._header_map = header_map
        self._credentials = credentials
        self._hides_content = asks_no_content(begin.headers)
        self._hides_inputs = hides_inputs or self._hides_content
        self._anomalies: dict[str, None] = {}  # a set that keeps its order

    @property
    def begin_ns(self) -> int:
        """The time at which the exchange began."""
        return self._begin.at_ns

    @property
    def _is_plain(self) -> bool:
        """Whether the answer's body has no coding."""
        return self._decoder is UNCHANGING

    @property
    def _is_large(self) -> bool:
        return self._asked.held_bytes + self._holding.held_bytes > LARGE_BYTES

    def at_work(self, *, is_large: bool | None = None) -> AbstractContextManager[None]:
        """Note a step that works on bodies; on all that is held, if `is_large` is not given."""
        if is_large is None:
            is_large = self._is_large
        return self._strikes.during(self._begin.identity.span_id, is_large=is_large)

    def give_up(self) -> None:
        """Forget all content: what made us fail once may do so again."""
        self.release()
        self._asked.forget()
        self._give_up_answer(OBSERVER_FAILED)

    def _give_up_answer(self, anomaly: str = "observer_limit") -> None:
        """Forget the answer, by default because others need the room."""
        self._forget_answer()
        self._cut(anomaly)

    def _forget_answer(self) -> None:
        self._decoder = self._body = self._undecoded_body = None
        self._first = b""

    def release(self) -> None:
        """Give back the room for the bodies."""
        self._asked.release()
        self._holding.release()

    def close(self) -> None:
        """Forget all content, for good: a record that was made keeps its own."""
        self._asked.close()
        self._holding.close()
        self._forget_answer()

    def _note(self, *anomalies: str) -> None:
        self._anomalies.update(dict.fromkeys(anomalies))

    def _cut(self, anomaly: str) -> None:
        """Note that the answer is not observed whole."""
        self._unread = True
        self._note(anomaly)

    def feed_request(self, frame: RequestBody) -> None:
        """Gather what the client asked, and decode it once it is whole."""
        captured = self._asked
        if self._is_out:
            captured.size_bytes = frame.size_bytes
            self._note(OBSERVER_DIED)
            return
        if frame.form is not None:
            self._note(*_OF_FORMS[frame.form])
            if frame.data == b"":  # nothing of it could be read
                captured.size_bytes = frame.size_bytes
                return
        try:
            body = captured.gather(frame.data, frame.size_bytes, is_form=frame.form is not None)
            if body is not None:
                decoder = UNCHANGING if frame.form else make_decoder(self._begin.headers)
                is_plain = decoder is UNCHANGING
                # The length of a compressed body says nothing.
                with self.at_work(is_large=not is_plain or len(body) > LARGE_BYTES):
                    captured.decode(body, None if is_plain else decoder)
                request = captured.request
                is_whole = frame.form is not FormState.CUT  # else what is missing may have come
                if is_whole and request is not None and request.fault is not None:
                    self._note("request_undecodable")
        except LimitExceeded:
            captured.give_up()
        except (MalformedRequest, UndecodableContent):
            self._note("request_undecodable")
        if captured.is_cut:
            self._note("observer_limit")

    def feed_head(self, frame: ResponseHead) -> None:
        """Prepare for the answer's body."""
        self._head = frame
        if self._is_out:
            self._cut(OBSERVER_DIED)
            return
        try:
            self._decoder = make_decoder(
                frame.headers, max_bytes=MAX_ERROR_BYTES if frame.status >= 400 else None
            )
        except UndecodableContent:
            self._cut("response_undecodable")
        self._body = make_sound_body(frame, self._api)

    def feed_data(self, frame: ResponseData) -> None:
        """Decode the next read of the answer; skip it if that is not possible."""
        self._reads += 1
        self._last_read_ns = frame.at_ns
        decoder = self._decoder
        if decoder is UNCHANGING and self._holding.held_bytes <= LARGE_BYTES:  # usual
            self._feed_decoded(frame.data, frame.at_ns)
        elif decoder is not None:
            with self.at_work(is_large=True):  # a large event may end here
                if decoder is UNCHANGING:
                    self._feed_decoded(frame.data, frame.at_ns)
                else:
                    self._feed_encoded(frame.data, frame.at_ns, decoder)

    def _feed_encoded(self, data: bytes, at_ns: int, decoder: ContentDecoder) -> None:
        """Decode a read, a piece after the other: a few bytes may become a body's most."""
        size_bytes = len(data) - decoder.remembered_bytes  # encoded bytes are kept, too
        for piece in decoder.decode(data):
            self._feed_decoded(piece, at_ns)
        if not self._holding.reserve(size_bytes + decoder.remembered_bytes):
            self._holding.give_up()
        elif decoder.error is not None:
            limited = isinstance(decoder.error, LimitExceeded)
            self._cut("observer_limit" if limited else "response_undecodable")
            self._decoder = None

    def _feed_decoded(self, data: bytes, at_ns: int) -> None:
        body = self._body
        if body is None:
            data = (self._first + data).lstrip(_BEFORE_BODY)
            self._body = body = self._begin_body(data)
            if body is None:
                return
        if not body.feed(data, at_ns):
            self._complete_at_read = None  # another choice may begin after all others finished
        elif self._complete_at_read is None:
            self._complete_at_read = self._reads

    def _begin_body(self, first: bytes) -> StreamBody | PlainBody | None:
        """Begin a body by its first bytes; keep them if they are too few to tell its kind."""
        if self._head is None:
            return None
        request = self._asked.request
        if request is None:  # what the path tells is told all the same
            request = self._api.asked({}, self._begin.path)
        body = make_body(
            self._head,
            first,
            api=self._api,
            choice_count=request.choice_count,
            asks_stream=request.stream,
            holding=self._holding,
        )
        self._first = first if body is None else b""
        return body

    def end(self, frame: End) -> Exchange:
        """Make the record."""
        if self._first:  # too little for the first line of a stream
            self._body = PlainBody(MAX_PLAIN_BYTES, self._holding)
            self._body.feed(self._first, frame.at_ns)
        begin, body = self._begin, self._body
        head = self._head or _NO_HEAD
        status = None if self._head is None else head.status
        request = self._asked.request
        if self._asked.is_cut:
            self._note("observer_limit")
        if frame.shed_bytes and not (isinstance(body, SoundBody) and self._is_plain):
            self._cut("observer_limit")
        if request is not None:
            self._credentials = self._credentials.without(request.model)
        credentials = self._credentials
        response, error_body = self._finish_body(frame)
        response = mask_error(response, credentials)
        context = self._read_context()
        request_id, rate_limits = read_headers(head.headers, credentials)
        stream = body if type(body) is StreamBody else None
        chunks = stream.clock.read() if stream is not None else None
        judgement = judge(
            end=frame,
            status=status,
            streamed=stream is not None or (body is None and self._lacks_stream()),
            response=response,
            error_body=error_body,
            unread=self._unread,
            delivered=not frame.undelivered_reads or self._is_delivered(frame.undelivered_reads),
        )
        if response and request and calls_tool_not_offered(request, response):
            self._note("tool_not_offered")
        if judgement.outcome is not Outcome.COMPLETED:
            # Anomalies that every answer that broke off has.
            self._anomalies = {a: None for a in self._anomalies if a not in _MISSING}
        elif response is None and status == 200 and not self._unread:
            self._note("response_undecodable")  # an empty body, too
        if judgement.anomaly is not None:
            self._note(judgement.anomaly)
        return Exchange(
            identity=begin.identity,
            endpoint=begin.endpoint,
            method=begin.method,
            path=begin.path,
            upstream=begin.upstream,
            provider=begin.provider,
            server_address=begin.server_address,
            server_port=begin.server_port,
            request=request,
            request_body=self._asked.body,
            request_size_bytes=self._asked.size_bytes,
            response_status=status,
            response=response,
            error_body=error_body,
            undecoded_body=self._undecoded_body,
            request_id=request_id,
            streamed=stream is not None,
            outcome=judgement.outcome,
            error_type=judgement.error_type,
            error_message=judgement.error_message,
            error_is_providers=judgement.error_is_providers,
            start_ns=begin.at_ns,
            end_ns=self._find_end(frame),
            first_chunk_ns=chunks.first_ns if chunks is not None else None,
            first_content_ns=stream.first_content_ns if stream is not None else None,
            resend_count=head.resend_count,
            rewrites=head.rewrites,
            usage_event_not_stripped=head.usage_event_not_stripped,
            on_disconnect=begin.on_disconnect,
            chunks=chunks,
            rate_limits=rate_limits,
            context=add_run(context, begin.run),
            run=begin.run,
            credentials=credentials,
            hides_content=self._hides_content,
            is_large=self._is_large,
            anomalies=tuple(self._anomalies),
        )

    def _find_end(self, frame: End) -> int:
        """Find when it ended: at the last upstream byte, an error or a disconnect.

        A clean end is told once the client was sent the last byte, which may be after the caller's
        own span has ended. An end that comes later than sending takes did come later: the mark
        that ends a chunked body, or a close.
        """
        is_whole = frame.kind in CLEAN_ENDS and not (frame.shed_bytes or frame.undelivered_reads)
        last_ns = self._last_read_ns
        is_writing = is_whole and 0 < frame.at_ns - last_ns < MAX_WRITING_NS
        return last_ns if is_writing else frame.at_ns

    def _read_context(self) -> ClientContext:
        """Read what the client says of the call; nothing from a body that is hidden."""
        context = self._header_map.read(self._begin.headers)
        if self._hides_inputs:
            return without_inputs(context)
        return add_body_context(self._asked.request, context)

    def _is_delivered(self, undelivered_reads: int) -> bool:
        """Tell whether the client got what made the answer complete."""
        last_read = self._reads if self._complete_at_read is None else self._complete_at_read
        return last_read <= self._reads - undelivered_reads

    def _lacks_stream(self) -> bool:
        """Tell whether a stream was asked for and a success brought nothing: it broke off."""
        if self._asked.request is None or self._head is None:
            return False
        return self._asked.request.stream and 200 <= self._head.status < 300

    def _finish_body(self, end: End) -> tuple[Said | None, str | None]:
        """Decode the answer; return it, and the text of an error's body."""
        body, head = self._body, self._head
        if body is None or head is None:
            return None, None
        if isinstance(body, StreamBody):
            response = body.finish()
            if "observer_limit" in response.anomalies:
                self._cut("observer_limit")
            self._note(*response.anomalies)
            return response, None
        if isinstance(body, SoundBody):
            known = None if self._unread else 0
            return body.finish(end.shed_bytes if self._is_plain else known), None
        if body.cut:
            self._cut("observer_limit")
        is_whole = end.kind is EndKind.UPSTREAM_EOF and not self._unread
        return self._finish_plain(body.pop(), head.status, cut=body.cut, is_whole=is_whole)

    def _finish_plain(
        self, data: bytes, status: int, *, cut: bool, is_whole: bool
    ) -> tuple[Said | None, str | None]:
        error_body = self._mask_body(data, is_whole=is_whole) if status >= 400 else None
        if error_body is not None and not is_whole:
            error_body = drop_last_word(error_body)
        if cut:
            return None, error_body
        if self._holding.reserve_decoded(data) is None:
            self._cut("observer_limit")
            return None, error_body
        try:
            response = self._api.read_said(data)
        except MalformedResponse:
            if error_body is None:  # an error may be told in HTML
                self._note("response_undecodable")
                self._undecoded_body = self._mask_body(data, is_whole=is_whole)
            return None, error_body
        if error_body is None and response.anomalies:  # an error lacks all that makes an answer
            self._note(*response.anomalies)
        return response, error_body

    def _mask_body(self, data: bytes, *, is_whole: bool) -> str:
        """Mask the text of a body that is not an answer."""
        text = data.decode("utf-8", "replace")
        if not self._is_plain:
            is_whole = is_whole and is_json(text)  # a missing end is not noticed
        return self._credentials.redact_quote(text, is_whole=is_whole)
