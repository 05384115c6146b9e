"""One open exchange as an observer sees it: frames as they come, a record at the end.

Each exchange holds at most what the codec and :mod:`telemetry.observing.answer_body` allow, and all
exchanges together at most what :mod:`telemetry.observing.open_bodies` has room for (R5). However
``response_data`` is cut, the record is the same except for its times. Credentials in a provider's
errors, and in bodies that are not an answer, are masked before anything else is done with them
(:mod:`telemetry.observing.provider_words`, R7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from codec.apis.table import get_api
from codec.errors import LimitExceeded, MalformedRequest
from codec.text.multipart import FormState
from codec.tools import calls_tool_not_offered
from telemetry.frames.ending import CLEAN_ENDS
from telemetry.frames.frame import ResponseHead, asks_no_content
from telemetry.observing.agent_ids import read_agent_ids
from telemetry.observing.captured_answer import CapturedAnswer
from telemetry.observing.client_context import add_body_context, add_launch, without_inputs
from telemetry.observing.client_headers import read_caller
from telemetry.observing.content_decoding import UNCHANGING, UndecodableContent, make_decoder
from telemetry.observing.crash_counter import LARGE_BYTES
from telemetry.observing.exchange import INPUT_PARTIAL, Exchange, Outcome
from telemetry.observing.judgement import judge
from telemetry.observing.masked_heads import read_headers
from telemetry.observing.open_call import OpenExchange
from telemetry.observing.provider_words import mask_error
from telemetry.observing.request_body import CapturedRequest
from telemetry.privacy.body_credentials import find_body_credentials
from telemetry.provider import is_paid_by_subscription
from telemetry.semconv import WEBSOCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from codec.growing_text import GrowingText
    from codec.said import Said
    from telemetry.frames.frame import Begin, End, RequestBody, ResponseData
    from telemetry.observing.client_context import HeaderMap
    from telemetry.observing.crash_counter import CrashCounter
    from telemetry.observing.exchange import ClientContext
    from telemetry.observing.heads import AllowedFields
    from telemetry.observing.judgement import Judgement
    from telemetry.observing.open_bodies import OpenBodies
    from telemetry.observing.raw_answer import RawCapture
    from telemetry.privacy.credentials import Credentials
    from telemetry.span_identity import SpanIdentity

OBSERVER_FAILED = "observer_failed"
"""The anomaly of a record whose content is missing because of a defect of ours."""

OBSERVER_DIED = "observer_died"
"""The anomaly of a record without bodies, because telemetry died of them twice."""

MAX_WRITING_NS = 50_000_000
"""The longest time from the last read of an answer to its end: usually 1 ms, more on a busy
machine."""

_MISSING = frozenset({"event_cut_off", "no_finish_reason", "no_usage"})

_OF_FORMS = {
    FormState.WHOLE: (),
    FormState.CUT: ("observer_limit",),
    FormState.BROKEN: ("request_undecodable",),
}
"""The anomalies of forms of which not everything is known."""

_NO_HEAD = ResponseHead(exchange=0, at_ns=0, status=0)
"""The head of an exchange without an answer."""


class Observation:
    """One open exchange, as far as its frames have come.

    It begins with its first frame and the credentials of the request's head. The other arguments
    are those of :class:`telemetry.observing.observer.Observer`.

    Attributes:
        span_id: the id that the exchange's span will have.
    """

    def __init__(
        self,
        begin: Begin,
        header_map: HeaderMap,
        allowed_fields: AllowedFields,
        bodies: OpenBodies,
        crashes: CrashCounter,
        *,
        credentials: Credentials,
        hides_inputs: bool,
        keeps_pictures: bool,
        keeps_sound: bool = False,
        capture_raw: Callable[[OpenBodies], RawCapture] | None = None,
    ) -> None:
        self._crashes = crashes
        self.span_id = begin.identity.span_id
        self._is_given_up = crashes.is_given_up(self.span_id)
        api = get_api(begin.endpoint)
        self._asked = CapturedRequest(bodies, api, begin.path)
        self._begin = begin
        self._header_map = header_map
        self._allowed_fields = allowed_fields
        self._credentials = credentials
        self._hides_content = asks_no_content(begin.headers)
        self._hides_inputs = hides_inputs or self._hides_content
        self._anomalies: dict[str, None] = {}  # a set that keeps its order
        self._answer = CapturedAnswer(
            bodies,
            begin=begin,
            api=api,
            asked=self._asked,
            crashes=crashes,
            anomalies=self._anomalies,
            keeps_pictures=keeps_pictures and not self._hides_content,
            keeps_sound=keeps_sound,
        )
        self._raw: RawCapture | None = None
        if capture_raw is not None and not self._hides_content and not self._is_given_up:
            self._raw = capture_raw(bodies)

    @property
    def begin_ns(self) -> int:
        """The time at which the exchange began."""
        return self._begin.at_ns

    @property
    def _is_large(self) -> bool:
        return self._asked.held_bytes + self._answer.held_bytes > LARGE_BYTES

    def look(self) -> OpenExchange:
        """Look at the exchange as it is; any thread may, because nothing is changed."""
        head, request = self._answer.head, self._asked.request
        return OpenExchange(
            begin=self._begin,
            credentials=self._credentials,
            hides_inputs=self._hides_inputs,
            request=request,
            body=self._asked.body,
            status=None if head is None else head.status,
            reads=self._answer.reads,
            first_ns=None if (stream := self._answer.stream) is None else stream.clock.first_ns,
        )

    @property
    def hides_content(self) -> bool:
        """Whether the client asked that no content of the call be shown."""
        return self._hides_content

    def look_at_texts(self) -> Sequence[GrowingText] | None:
        """Look at the texts of the answer so far; ``None`` unless it is a stream."""
        stream = self._answer.stream
        return None if stream is None else stream.stream.look()

    def find_credentials(self) -> Credentials | None:
        """Find the credentials to mask in the answer; ``None`` while the request is not known."""
        asked = self._asked
        if asked.request is None:
            return None
        in_body = find_body_credentials(asked.request.body, asked.body)
        return self._credentials.without(asked.request.model).joined(in_body)

    def at_work(self, *, is_large: bool | None = None) -> AbstractContextManager[None]:
        """Note a step that works on bodies; without `is_large` it works on all held bodies."""
        if is_large is None:
            is_large = self._is_large
        return self._crashes.during(self.span_id, is_large=is_large)

    def give_up(self) -> None:
        """Forget all content: it made us fail, and may do so again."""
        self.release()
        self._asked.forget()
        self._answer.give_up(OBSERVER_FAILED)
        if self._raw is not None:
            self._raw.give_up()

    def release(self) -> None:
        """Give back the room for the bodies."""
        self._asked.release()
        self._answer.release()
        if self._raw is not None:
            self._raw.release()

    def close(self) -> None:
        """Forget all content for good; a record that was made keeps its content."""
        self._asked.close()
        self._answer.close()
        if self._raw is not None:
            self._raw.close()

    def _note(self, *anomalies: str) -> None:
        self._anomalies.update(dict.fromkeys(anomalies))

    def feed_request(self, frame: RequestBody) -> None:
        """Gather the request's body, and decode it once it is whole."""
        captured = self._asked
        if self._is_given_up:
            captured.size_bytes = frame.size_bytes
            self._note(OBSERVER_DIED)
            return
        if frame.is_partial:
            self._note(INPUT_PARTIAL)
        if frame.form is not None:
            self._note(*_OF_FORMS[frame.form])
            if frame.data == b"":  # nothing of the form could be read
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
                is_whole = frame.form is not FormState.CUT  # else missing bytes may have come
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
        self._answer.head = frame
        if self._is_given_up:
            self._answer.cut(OBSERVER_DIED)
        else:
            self._answer.begin(frame)

    def feed_data(self, frame: ResponseData) -> None:
        """Decode the next read of the answer."""
        if self._raw is not None:
            self._raw.feed(frame)
        self._answer.feed(frame)

    def end(self, frame: End) -> Exchange:
        """Judge how the exchange ended, and make the record."""
        answer, request = self._answer, self._asked.request
        if self._asked.is_cut:
            self._note("observer_limit")
        if request is not None:
            self._credentials = self._credentials.without(request.model)
        response, error_body = answer.finish(frame, self._credentials)
        is_answer = error_body is None and answer.lack is None
        response = mask_error(response, self._credentials, is_answer=is_answer)
        status = None if answer.head is None else answer.head.status
        judgement = judge(
            end=frame,
            status=status,
            streamed=answer.stream is not None,
            response=response,
            error_body=error_body,
            unread=answer.is_unread,
            delivered=not frame.undelivered_reads or answer.is_delivered(frame.undelivered_reads),
            lack=answer.lack,
            due="request_undecodable" not in self._anomalies,
        )
        if response and request and calls_tool_not_offered(request, response):
            self._note("tool_not_offered")
        if judgement.outcome is not Outcome.COMPLETED:
            for anomaly in _MISSING:  # every answer that broke off has these
                self._anomalies.pop(anomaly, None)
        if judgement.anomaly is not None:
            self._note(judgement.anomaly)
        return self._make_record(frame, judgement, response, error_body)

    def _find_wait(self, first_ns: int | None) -> int | None:
        """Find the end of the wait for an answer; ``None`` if a server began to talk by itself.

        In a session that is spoken, nobody knows since when it was waited for.
        """
        begins_itself = self._begin.is_socket and first_ns == self._begin.at_ns
        return None if begins_itself else first_ns

    def _make_record(
        self, frame: End, judgement: Judgement, response: Said | None, error_body: str | None
    ) -> Exchange:
        begin, answer, stream = self._begin, self._answer, self._answer.stream
        head = answer.head or _NO_HEAD
        chunks = stream.clock.read() if stream is not None else None
        user_agent, client_retry, betas = read_caller(begin.headers)
        read = read_headers(
            begin.headers, head.headers, self._allowed_fields, self._credentials, user_agent
        )
        agent_ids = read_agent_ids(begin.headers, self._asked.request)
        identity, traced_by = begin.identity, None
        if agent_ids is not None and agent_ids.traces_itself:
            identity, traced_by = _make_root(identity)
        return Exchange(
            identity=identity,
            endpoint=begin.endpoint,
            method=begin.method,
            protocol=WEBSOCKET if begin.is_socket else None,
            path=begin.path,
            upstream=begin.upstream,
            provider=begin.provider,
            server_address=begin.server_address,
            server_port=begin.server_port,
            request=self._asked.request,
            request_body=self._asked.body,
            request_size_bytes=self._asked.size_bytes,
            response_status=None if answer.head is None else head.status,
            response=response,
            made_pictures=tuple(answer.pictures.kept),
            raw=None if self._raw is None else self._raw.finish(head.headers, frame.shed_bytes),
            error_body=error_body,
            undecoded_body=answer.undecoded,
            request_id=read.request_id,
            streamed=stream is not None,
            outcome=judgement.outcome,
            error_type=judgement.error_type,
            error_message=judgement.error_message,
            error_is_providers=judgement.error_is_providers,
            start_ns=begin.at_ns,
            end_ns=self._find_end(frame),
            first_chunk_ns=self._find_wait(chunks.first_ns if chunks is not None else None),
            first_content_ns=self._find_wait(
                stream.first_content_ns if stream is not None else None
            ),
            resend_count=head.resend_count,
            rewrites=head.rewrites,
            usage_event_not_stripped=head.usage_event_not_stripped,
            on_disconnect=begin.on_disconnect,
            chunks=chunks,
            rate_limits=read.rate_limits,
            heads=read.heads,
            context=add_launch(self._read_context(), begin.launch),
            agent_ids=agent_ids,
            traced_by=traced_by,
            user_agent=read.agent,
            client_retry=client_retry,
            is_subscription=is_paid_by_subscription(begin.server_address, betas),
            launch=begin.launch,
            credentials=self._credentials,
            hides_content=self._hides_content,
            is_large=self._is_large,
            anomalies=tuple(self._anomalies),
        )

    def _find_end(self, frame: End) -> int:
        """Find when the exchange ended: at the last upstream byte, an error or a disconnect.

        A clean end is reported when the last byte was sent to the client, which may be after the
        caller's span has ended. If it comes later than sending takes, the upstream ended later: by
        the mark that ends a chunked body, or by a close.
        """
        is_whole = frame.kind in CLEAN_ENDS and not (frame.shed_bytes or frame.undelivered_reads)
        last_ns = self._answer.last_read_ns
        is_writing = is_whole and 0 < frame.at_ns - last_ns < MAX_WRITING_NS
        return last_ns if is_writing else frame.at_ns

    def _read_context(self) -> ClientContext:
        """Read the context that the client gives; nothing is read from a hidden body."""
        context = self._header_map.read(self._begin.headers)
        if self._hides_inputs:
            return without_inputs(context)
        return add_body_context(self._asked.request, context)


def _make_root(identity: SpanIdentity) -> tuple[SpanIdentity, tuple[str, str] | None]:
    """Make a root of a span whose caller traces each call by itself; return the caller's, too."""
    caller = identity.linked
    if identity.parent_span_id is not None:
        caller = (identity.trace_id, identity.parent_span_id)
    return replace(identity, parent_span_id=None, linked=None), caller
