"""``GET /api/calls/ID/copy``: a command, or a program, that makes a call again.

Rules:

1. It has the request as it was recorded, whole. Where that was cut or hidden, in part or all, there
   is nothing to copy, and the error says why.
2. The key is a variable of whoever runs it. None that was recorded is told: none is.
3. No word of a client's leaves its quotes: a command is quoted for a shell, a program has literals.
   Both are printable ASCII, with line ends of ours alone; JSON has no control character but these,
   and no mark that turns the direction of writing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from codec.apis.table import get_api
from codec.members import object_of
from proxy.escape import UNSAFE, escape
from proxy.page.api.commands import write_curl
from proxy.page.api.found_calls import find_call
from proxy.page.api.programs import write_plain, write_sdk
from proxy.page.api.targets import find_target
from proxy.page.errors import PageError
from telemetry.privacy.json_strings import REDACTED
from telemetry.semconv import REQUEST_BODY, MetadataMember

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from proxy.page.api.targets import Target
    from proxy.reading.call import RecordedCall
    from telemetry.store.paged_reader import PagedReader

COPY_PARAMETERS: Final = ("as",)


def copy_call(reader: PagedReader, parameters: Parameters) -> JsonObject:
    """Write a call as something that makes it again.

    Raises:
        PageError: the request is not there whole.
    """
    form = parameters.word("as", ("curl", "python", "json"))
    call = find_call(reader, parameters)
    text = _read_body(call)
    if form == "json":
        return {"text": _write_json(call.request)}
    target = find_target(call)
    headers, is_streamed = _headers(target), call.requested_streaming
    if form == "curl":
        body = text.encode("utf-8", "backslashreplace")
        return {"text": write_curl(target, headers, body, is_streamed=is_streamed)}
    api = call.summary.columns.api or ""
    program = write_sdk(target, api, call.request)
    if program is None:
        program = write_plain(target, headers, text, call.request, is_streamed=is_streamed)
    return {"text": program}


def _read_body(call: RecordedCall) -> str:
    """Read the request's text, where it is whole (rule 1)."""
    text = call.request_text
    cut = object_of(call.metadata.get(MetadataMember.CUT))
    if REQUEST_BODY in cut or "input.value" in cut:
        raise PageError("not_found", "the request was too large to be recorded whole")
    if text is None or text == REDACTED:
        raise PageError("not_found", "the request was not recorded, or is hidden by the settings")
    if REDACTED in text:
        raise PageError("not_found", "parts of the request are hidden by the settings")
    if get_api(call.summary.columns.api or "").takes_forms:
        raise PageError("not_found", "the request may have been a form, whose file is not recorded")
    return text


def _write_json(body: Any) -> str:
    if isinstance(body, str):
        return escape(body)
    text = json.dumps(body, ensure_ascii=False, indent=2)
    return UNSAFE.sub(lambda one: f"\\u{ord(one[0]):04x}", text)  # all are in strings


def _headers(target: Target) -> dict[str, str]:
    return {"Content-Type": "application/json", **target.headers}
