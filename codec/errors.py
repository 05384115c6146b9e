"""The codec's own error tree.

::

    CodecError                 (never raised itself)
    ├── MalformedRequest       the client's body is not what the endpoint takes
    ├── MalformedResponse      the provider's plain answer is not what was promised
    └── LimitExceeded          a named limit was passed (R5)

``MalformedRequest`` says that the client was wrong, ``MalformedResponse`` that the provider was; it
comes from :func:`codec.response.decode_response` alone. What is wrong with an event stream becomes
an anomaly of its answer (:mod:`codec.stream`).
Whoever catches them decides what follows; the relay never depends on it (R2).
"""

from __future__ import annotations

__all__ = ("CodecError", "LimitExceeded", "MalformedRequest", "MalformedResponse")


class CodecError(Exception):
    """Base of everything the codec raises; catch it, raise one of its children."""


class MalformedRequest(CodecError):  # noqa: N818 - names the condition, as h11 does
    """The client's request body cannot be decoded."""


class MalformedResponse(CodecError):  # noqa: N818 - as MalformedRequest
    """The body of a provider's plain answer cannot be decoded."""


class LimitExceeded(CodecError):  # noqa: N818 - as MalformedRequest
    """A buffer would pass its named limit.

    Attributes:
        limit: the name of the limit, e.g. ``MAX_EVENT_BYTES``.
        limit_bytes: its value.
    """

    def __init__(self, limit: str, limit_bytes: int) -> None:
        super().__init__(f"{limit} of {limit_bytes} bytes exceeded")
        self.limit = limit
        self.limit_bytes = limit_bytes
