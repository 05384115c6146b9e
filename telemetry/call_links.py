"""What is kept of calls beside their spans, so that conversations go on after a restart.

The room of conversations makes and reads it (:mod:`telemetry.conversations.saved_calls`), the store
keeps it (:mod:`telemetry.store.links`), and neither looks into what the other knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class KeptLink(NamedTuple):
    """What is kept of one call.

    Of a damaged row a value may have any type.

    Attributes:
        span_id: of its span, as it was recorded; so are the next two.
        trace_id: of its span.
        session: ``session.id``, ``None`` where the span has none.
        data: bytes that the room of conversations made.
    """

    span_id: str
    trace_id: str
    session: str | None
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLinks:
    """What a store gives at a start.

    Attributes:
        key: of all digests; it is as old as the store, and leaves it for no other place.
        links: those of the newest calls, oldest first.
        open_runs: by number, the bytes of each run that was not over.
        span_ids: of the newest spans, oldest first, whether something is kept of them or not.
    """

    key: bytes = field(repr=False)
    links: Sequence[KeptLink] = ()
    open_runs: Mapping[int, bytes] = field(default_factory=dict)
    span_ids: Sequence[str] = ()
