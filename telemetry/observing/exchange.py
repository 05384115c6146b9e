"""The record of one exchange: what the relay saw and what the codec made of it.

An :class:`Exchange` is made exactly once, when its ``end`` frame arrives (R3), never changes
afterwards, and holds everything that a span needs. All times are integer nanoseconds since the
epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import msgspec.structs

from codec.apis.table import get_api
from codec.asked import Asked
from codec.observations import read_observations
from codec.said import Said
from telemetry.conversation_position import ConversationPosition
from telemetry.observing.agent_ids import AgentIds
from telemetry.observing.chunk_timing import ChunkTiming
from telemetry.privacy.credentials import NO_CREDENTIALS, Credentials
from telemetry.raw_answer import RawAnswer
from telemetry.span_identity import SpanIdentity

if TYPE_CHECKING:
    from codec.apis.api import Api
    from codec.parts import Message


class Outcome(StrEnum):
    """The outcome of an exchange (``docs/contract/spans.md#outcome``)."""

    COMPLETED = "completed"
    UPSTREAM_ERROR = "upstream_error"
    STREAM_ERROR = "stream_error"
    TRUNCATED = "truncated"
    NOT_AN_ANSWER = "not_an_answer"
    CLIENT_DISCONNECTED = "client_disconnected"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    CONNECT_ERROR = "connect_error"
    DRAIN_DEADLINE = "drain_deadline"
    WORKER_LOST = "worker_lost"
    RELAY_ERROR = "relay_error"


class ClientContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the client says of its call (``docs/contract/spans.md#client-context``).

    Attributes:
        conversation_id: the provider's, of the conversation that the request continues.
        metadata: further members of ``metadata``; values are strings, or any JSON of a body.
        attributes: further attributes by name, such as ``prompt.id``.
    """

    session_id: str | None = None
    conversation_id: str | None = None
    user_id: str | None = None
    metadata: Mapping[str, object] = msgspec.field(default_factory=dict)
    tags: tuple[str, ...] = ()
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict)


INPUT_PARTIAL: Final = "input_partial"
"""The anomaly of a call of a WebSocket whose input lacks something: it was said on another
connection, or had no room."""


class ReadMessages(NamedTuple):
    """The messages of a request, read once: an agent's request has hundreds.

    Attributes:
        request: the request that has them.
        messages: the result of :meth:`codec.asked.Asked.read_messages`.
        parsed: what :func:`codec.observations.read_observations` makes of them.
    """

    request: Asked
    messages: Sequence[Message]
    parsed: Sequence[Message]


class Exchange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request and its answer.

    Fields with the name of one of :class:`telemetry.frames.frame.Begin`,
    :class:`~telemetry.frames.frame.ResponseHead` or
    :class:`telemetry.observing.judgement.Judgement` mean the same here.

    Attributes:
        protocol: ``websocket`` if it came over one.
        request: the decoded request, ``None`` if it could not be decoded.
        read: its messages, if they were read already.
        request_body: the client's own body, content coding undone; ``None`` if it was not captured
            (R5) or is not encoded as it says.
        request_size_bytes: how many bytes the client sent.
        response_status: ``None`` if no head came.
        response: the decoded answer, ``None`` if there was nothing to decode.
        made_pictures: pictures that were taken out of the answer
            (:class:`codec.text.base64_text.TakenPictures`): the words in the answer, and base64.
        raw: the true bytes of the answer, if they are wanted.
        error_body: the text of a body with status >= 400, cut to a limit. Like all words of the
            provider except its answer, it has no credentials of the request's head.
        undecoded_body: the text of a plain answer that its API does not know: broken off, or of
            some other kind.
        request_id: the provider's, from its headers.
        streamed: the answer was an event stream.
        end_ns: last upstream byte, error or disconnect.
        first_chunk_ns: arrival of the first event with data.
        first_content_ns: arrival of the first delta with text, reasoning, refusal or tool call.
        chunks: when the chunks of a stream came; ``None`` if none came.
        rate_limits: the provider's rate-limit headers, lower-case names to values.
        heads: the recorded fields of both heads, as ``metadata.headers`` has them
            (:mod:`telemetry.observing.heads`).
        context: what the client's headers and body say of the call.
        agent_ids: what the client says of its agent; ``None`` for most programs.
        traced_by: trace and span id of a caller that traces each call by itself.
        user_agent: the client's program, as it calls itself.
        client_retry: which retry of its client it is, from 1; 0 for a first attempt.
        is_subscription: a subscription pays for it, and so its price is not what the user pays.
        attempt_before: trace and span id of the attempt that it retries, if that is known.
        credentials: those of the request's head, to be masked wherever the provider is quoted.
        hides_content: the client asked us not to record any content of this call.
        position: where it stands in its conversation; ``None`` if that is not known.
        kept_by: the keep-rule that wants the span of an unsampled exchange.
        is_large: its bodies take more memory than those of a few calls together.
        anomalies: the codec's and the observer's, each once. Those of the observer are
            ``observer_limit`` (R5: not all was observed), ``request_undecodable``,
            ``response_undecodable`` (a coding or JSON that cannot be read), ``observer_died``
            (telemetry died of the bodies twice: they are missing) and ``observer_failed`` (a
            defect of ours: the content is missing), ``input_partial`` (:data:`INPUT_PARTIAL`).
    """

    identity: SpanIdentity
    endpoint: str
    method: str
    path: str
    upstream: str
    protocol: str | None = None
    provider: str | None = None
    server_address: str | None = None
    server_port: int | None = None
    request: Asked | None = None
    read: ReadMessages | None = None
    request_body: bytes | None = None
    request_size_bytes: int = 0
    response_status: int | None = None
    response: Said | None = None
    made_pictures: tuple[tuple[str, str], ...] = ()
    raw: RawAnswer | None = None
    error_body: str | None = None
    undecoded_body: str | None = None
    request_id: str | None = None
    streamed: bool = False
    outcome: Outcome = Outcome.COMPLETED
    error_type: str | None = None
    error_message: str | None = None
    error_is_providers: bool = False
    start_ns: int
    end_ns: int
    first_chunk_ns: int | None = None
    first_content_ns: int | None = None
    resend_count: int = 0
    rewrites: tuple[str, ...] = ()
    usage_event_not_stripped: bool = False
    on_disconnect: str = "cancel"
    chunks: ChunkTiming | None = None
    rate_limits: Mapping[str, str] = msgspec.field(default_factory=dict)
    heads: Mapping[str, object] = msgspec.field(default_factory=dict)
    context: ClientContext = ClientContext()
    agent_ids: AgentIds | None = None
    traced_by: tuple[str, str] | None = None
    user_agent: str | None = None
    client_retry: int = 0
    is_subscription: bool = False
    attempt_before: tuple[str, str] | None = None
    launch: str = ""
    credentials: Credentials = NO_CREDENTIALS
    hides_content: bool = False
    position: ConversationPosition | None = None
    kept_by: str | None = None
    is_large: bool = False
    anomalies: tuple[str, ...] = ()

    @property
    def api(self) -> Api:
        """The API that was called."""
        return get_api(self.endpoint)

    def read_messages(self) -> Sequence[Message]:
        """Read the messages of the request; nothing if there is no request.

        They are read once, and again only after something of the request was hidden.
        """
        if self.request is None:
            return ()
        if self.read is not None and self.read.request is self.request:
            return self.read.messages
        return self.request.read_messages()

    def read_observations(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Read the calls and results in texts; `messages` are those of the span."""
        if self.read is not None and self.read.messages is messages:
            return self.read.parsed
        return read_observations(messages)

    def without_content(self, anomaly: str) -> Exchange:
        """Return the exchange without the content of client and provider, marked `anomaly`."""
        return msgspec.structs.replace(
            self,
            request=None,
            read=None,
            request_body=None,
            response=None,
            made_pictures=(),
            raw=None,
            error_body=None,
            undecoded_body=None,
            error_message=None,
            anomalies=(*self.anomalies, anomaly),
        )
