"""Numbers of calls and bytes in words."""

from __future__ import annotations

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def count_calls(count: int) -> str:
    """Count calls.

    >>> count_calls(1), count_calls(12345)
    ('1 call', '12,345 calls')
    """
    return "1 call" if count == 1 else f"{count:,} calls"


def count_spans(calls: int, others: int) -> str:
    """Count spans: of calls, and where there are any, of what was found out about their runs.

    >>> count_spans(2, 0), count_spans(1, 3)
    ('2 calls', '1 call and 3 spans of runs')
    """
    if not others:
        return count_calls(calls)
    return f"{count_calls(calls)} and {others:,} span{'s' if others > 1 else ''} of runs"


def describe_size(size_bytes: int) -> str:
    """Describe a size, in the largest unit that it has one of.

    >>> describe_size(0), describe_size(1536), describe_size(5 << 30)
    ('0 bytes', '1.5 KiB', '5.0 GiB')
    """
    for unit, length in _UNITS:
        if size_bytes >= length:
            return f"{size_bytes / length:,.1f} {unit}"
    return f"{size_bytes} bytes"
