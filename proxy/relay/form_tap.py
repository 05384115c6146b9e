"""The form in a request's body, read while it is relayed, and tapped without its files.

:mod:`codec.text.multipart` says why this is here and not in telemetry. The form's reader only sees
each read of the body: whatever it does, the relay passes on the same bytes at the same time (R2).
A form that is compressed, or has no boundary, cannot be read here, and is relayed like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from codec.text.multipart import Form, FormReader, FormState, find_boundary, is_form

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.apis.api import Api
    from proxy.downstream.downstream import Downstream
    from proxy.relay.tap import Tap
    from proxy.request_body import RequestBody

_UNREADABLE = Form({}, FormState.BROKEN)


class FormTap:
    """Reads one form. No method raises.

    `reader` is ``None`` for a body that cannot be read.
    """

    def __init__(self, tap: Tap, body: RequestBody, reader: FormReader | None) -> None:
        self._tap = tap
        self._body = body
        self._reader = reader
        self._size_bytes = 0
        self._is_recorded = False
        body.watch(self._feed)

    def _feed(self, data: bytes) -> None:
        """Read the next bytes of the body."""
        self._size_bytes += len(data)
        if self._reader is not None:
            try:
                self._reader.feed(data)
            except Exception:  # noqa: BLE001 - the relay must continue after any error
                self._reader = None
                self._tap.lose_form()
        if self._body.at_eof():
            self.record()

    def record(self) -> None:
        """Record what came so far; a second call does nothing.

        That is after the form's last byte, or earlier if the upstream answers or the call fails.
        """
        if self._is_recorded:
            return
        self._is_recorded = True
        reader, self._reader = self._reader, None
        form = _UNREADABLE if reader is None else reader.finish()
        if reader is not None and form.state is FormState.BROKEN and not self._body.at_eof():
            form = msgspec.structs.replace(form, state=FormState.CUT)
        self._tap.request_form(form, self._size_bytes)


def open_form(
    api: Api, downstream: Downstream, tap: Tap, lend: Callable[[int], bool]
) -> FormTap | None:
    """Begin to read the form in a request's body; ``None`` if the body is not a form.

    Args:
        api: the API that is called.
        downstream: has the body.
        tap: records the form.
        lend: says whether so many more bytes of the form may be held.
    """
    headers = downstream.headers
    content_type = headers.find(b"content-type") or b""
    if not (api.takes_forms and is_form(content_type)):
        return None
    is_readable = tap.is_open and not headers.is_encoded  # else not observed, or compressed
    boundary = find_boundary(content_type) if is_readable else None
    reader = None if boundary is None else FormReader(boundary, lend)
    return FormTap(tap, downstream.body, reader)
