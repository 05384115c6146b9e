"""``spantap traces show --raw``: the request and the answer of a call.

If the store has the true bytes of the answer (``SPANTAP_RAW``), they are printed as they came, each
line with its time since the call began and, behind a plus sign, the wait for it. Else the answer is
that of the record, which was put together from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.commands.store_command import describe_size
from proxy.escape import escape
from proxy.reading.raw_stream import measure_time, walk_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from proxy.reading.call import RecordedCall
    from proxy.reading.raw_stream import StreamLine
    from telemetry.raw_answer import RawAnswer

_LONG_PAUSE_NS: Final = 1_000_000_000
"""A pause from this length on stands out on a terminal."""

_NO_TIME: Final = " " * 22


def print_raw(console: Console, call: RecordedCall, answer: RawAnswer | None) -> Iterator[str]:
    """Print both bodies; yield the name of each that is missing: ``request`` or ``answer``."""
    if call.request_text is None:
        yield "request"
    else:
        _print_body(console, "request, as it was recorded", call.request_text)
    if answer is not None:
        _print_stream(console, answer, call.summary.start_ns)
    elif call.response_text is None:
        yield "answer"
    else:
        _print_body(console, "answer, put together from the record", call.response_text)


def _print_body(console: Console, title: str, body: str) -> None:
    _print_title(console, title)
    # Not through the console, because a body has megabytes and its lines are not wrapped.
    console.file.write(f"{escape(body) if console.is_terminal else body}\n")


def _print_title(console: Console, title: str) -> None:
    if console.is_terminal:
        console.print(Text(escape(title), style="bold underline"), soft_wrap=True)


def _print_stream(console: Console, answer: RawAnswer, start_ns: int) -> None:
    _print_title(console, f"answer, as it came: {_describe(answer)}")
    for line in walk_lines(answer):
        text = f"[{line.size_bytes:,} bytes]" if line.text is None else line.text
        if console.is_terminal:
            text = escape(text)
        time = _format_time(line, start_ns)
        if console.is_terminal and (line.wait_ns or 0) >= _LONG_PAUSE_NS:
            console.print(Text(time, style="bold yellow"), end="")
            time = ""
        console.file.write(f"{time}{text}".rstrip() + "\n")
    if answer.left_bytes:
        console.file.write(f"{_NO_TIME}[{describe_size(answer.left_bytes)} more came, not kept]\n")


def _describe(answer: RawAnswer) -> str:
    """Describe an answer in short."""
    said = (answer.content_type, answer.content_encoding)
    size = f"{describe_size(len(answer.body))} in {len(answer.sizes_bytes):,} reads"
    words = (*filter(None, said), size, f"{measure_time(answer) / 1e9:.3f} s")
    return " · ".join(words)


def _format_time(line: StreamLine, start_ns: int) -> str:
    """Write the time of a line; blanks if it came with the line before.

    >>> from proxy.reading.raw_stream import StreamLine
    >>> _format_time(StreamLine(2_500_000_000, 1_250_000_000, ""), 1_000_000_000)
    '   1.500 s  +1.250 s  '
    """
    if line.wait_ns is None:
        return _NO_TIME
    return f"{(line.at_ns - start_ns) / 1e9:8.3f} s {line.wait_ns / 1e9:+7.3f} s  "
