"""The bodies of a recorded call as they were recorded, for whoever wants to see or send them again.

Rules:

1. Into a pipe or a file go the bodies alone, the request's and then the answer's, byte by byte, a
   line end behind each.
2. On a terminal each has a title, and what is unsafe there is escaped (:mod:`proxy.escape`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from proxy.escape import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from proxy.reading.call import RecordedCall


def print_raw(console: Console, call: RecordedCall) -> Iterator[str]:
    """Print both bodies; yields what there is none of: ``request`` or ``answer``."""
    for title, body in (("request", call.request_text), ("answer", call.response_text)):
        if body is None:
            yield title
            continue
        if console.is_terminal:
            console.print(Text(title, style="bold underline"))
            body = escape(body)  # noqa: PLW2901 - it is not needed any more
        # Past the console's own measures: a body has megabytes, and no line of it is wrapped.
        console.file.write(f"{body}\n")
