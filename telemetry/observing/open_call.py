"""A call that is under way: as an observer sees it, and as others may see it.

It is light to import, because the supervisor passes :class:`OpenCall` on and observes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from codec.asked import Asked
    from telemetry.frames.frame import Begin
    from telemetry.privacy.credentials import Credentials


class OpenExchange(NamedTuple):
    """An open exchange at one moment, before anything is masked.

    Attributes:
        begin: the first frame of the exchange.
        credentials: the credentials in its head.
        hides_inputs: nothing of the request's body may be shown.
        request: the decoded request; ``None`` while it is not known.
        body: its body, if it is kept.
        status: of the answer; ``None`` while its head has not come.
        reads: how many reads of the answer's body came so far.
        first_ns: when the first chunk of a stream came.
    """

    begin: Begin
    credentials: Credentials
    hides_inputs: bool
    request: Asked | None
    body: bytes | None
    status: int | None
    reads: int
    first_ns: int | None = None

    @property
    def model(self) -> str | None:
        """The model asked for; ``None`` while that is not known."""
        return None if self.request is None else self.request.model


class OpenCall(msgspec.Struct, frozen=True, kw_only=True):
    """An open call as people see it: hidden and masked as its span will be.

    Attributes:
        span_id: that its span will have; 16 lower-case hexadecimal digits.
        trace_id: 32 such digits.
        start_ns: when it began, since the epoch.
        api: the API that is called.
        model: the model asked for.
        what: what is new in it: the user's words, or else the tools that have answered.
        client: the program that called.
        launch: the label of the launch that it belongs to.
        http_status: of the answer; ``None`` while its head has not come.
        chunks: how many reads of the answer's body came so far.
    """

    span_id: str
    trace_id: str
    start_ns: int
    api: str
    upstream: str
    model: str | None = None
    what: str | None = None
    client: str | None = None
    launch: str | None = None
    http_status: int | None = None
    chunks: int = 0
