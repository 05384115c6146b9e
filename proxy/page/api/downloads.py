"""``GET /api/calls/ID/raw``: bodies and the span of a call as files; and what a file is here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.page.api.found_calls import find_call
from proxy.page.api.json_text import encode
from proxy.page.api.rows import build_row
from proxy.page.errors import PageError
from proxy.reading.record import build_call_record

if TYPE_CHECKING:
    from proxy.page.api.parameters import Parameters
    from proxy.reading.call import RecordedCall
    from telemetry.reading.sqlite.paged_reader import PagedReader

RAW_PARAMETERS: Final = ("part",)


class Download(NamedTuple):
    """Bytes that are no JSON of the API.

    Attributes:
        kind: the content type; never one that a browser would run.
        name: of the file that they are saved as; ``None`` for what is shown in its place.
    """

    kind: str
    data: bytes
    name: str | None = None


def read_raw(reader: PagedReader, parameters: Parameters) -> Download:
    """Read the request or the answer as it was recorded, or all of the span as JSON."""
    part = parameters.word("part", ("request", "response", "span"))
    call = find_call(reader, parameters)
    span_id = call.summary.span_id
    if part == "span":
        return Download("application/json", _encode_span(call), f"{span_id}-span.json")
    text = call.request_text if part == "request" else call.response_text
    if text is None:
        raise PageError("not_found", f"the {part} was not recorded, or is hidden")
    data = text.encode("utf-8", "backslashreplace")
    is_json = not isinstance(call.request if part == "request" else call.response, str)
    kind, ending = ("application/json", "json") if is_json else ("text/plain", "txt")
    return Download(kind, data, f"{span_id}-{part}.{ending}")


def _encode_span(call: RecordedCall) -> bytes:
    """Encode all that is known of a call; of a row that is damaged that is little."""
    try:
        return encode(build_call_record(call))
    except (TypeError, ValueError, OverflowError, AttributeError):
        return encode(build_row(call.summary))
