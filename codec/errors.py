"""The codec's own error tree.

::

    CodecError                 (never raised itself)
    ├── MalformedRequest       the client's body is not what the endpoint accepts
    ├── MalformedResponse      the provider's plain answer is not what was promised
    ├── MalformedEvent         one event of the provider's stream is not what was promised
    ├── MalformedWebSocket     the bytes of a WebSocket connection break its protocol
    ├── IncompleteAnswer       the answer is well-formed, but not whole (never raised itself)
    │   ├── LengthReached      a choice reached the limit of tokens
    │   └── ContentFiltered    a content filter ended a choice
    └── LimitExceeded          a named limit was passed (R5)

``MalformedRequest`` says that the client was wrong, ``MalformedResponse`` that the provider was; it
comes from :func:`codec.chat.response.decode_response` alone. Faults of an event stream become
anomalies of its answer (:mod:`codec.chat.stream`). Only code that decodes single events gets a
``MalformedEvent``, and only code that asks for a checked final answer an ``IncompleteAnswer``. The
caller decides what follows; the relay never depends on it (R2).
"""

from __future__ import annotations

__all__ = (
    "CodecError",
    "ContentFiltered",
    "IncompleteAnswer",
    "LengthReached",
    "LimitExceeded",
    "MalformedEvent",
    "MalformedRequest",
    "MalformedResponse",
    "MalformedWebSocket",
)


class CodecError(Exception):
    """Base of everything that the codec raises: code catches it, and raises one of its children."""


class MalformedRequest(CodecError):  # noqa: N818 - names the condition, as h11 does
    """The client's request body cannot be decoded."""


class MalformedResponse(CodecError):  # noqa: N818 - as MalformedRequest
    """The body of a provider's plain answer cannot be decoded."""


class MalformedEvent(CodecError):  # noqa: N818 - as MalformedRequest
    """The data of one event is not a JSON object.

    Attributes:
        data: the data; the message does not quote it (R7).
    """

    def __init__(self, reason: str, data: bytes) -> None:
        super().__init__(reason)
        self.data = data


class MalformedWebSocket(CodecError):  # noqa: N818 - as MalformedRequest
    """Bytes of a WebSocket connection break its protocol; the message does not quote them (R7)."""


class IncompleteAnswer(CodecError):  # noqa: N818 - as MalformedRequest
    """A choice is not whole, by its own finish reason."""

    def __init__(self, choice_index: int, finish_reason: str) -> None:
        super().__init__(f"choice {choice_index} ended with finish reason {finish_reason!r}")
        self.choice_index = choice_index
        self.finish_reason = finish_reason


class LengthReached(IncompleteAnswer):
    """The limit of tokens was reached: ask for more tokens, or for a shorter answer."""


class ContentFiltered(IncompleteAnswer):
    """A content filter ended the choice."""


class LimitExceeded(CodecError):  # noqa: N818 - as MalformedRequest
    """A buffer would pass its named limit, e.g. ``MAX_EVENT_BYTES``."""

    def __init__(self, limit: str, limit_bytes: int) -> None:
        super().__init__(f"{limit} of {limit_bytes} bytes exceeded")
        self.limit = limit
        self.limit_bytes = limit_bytes
