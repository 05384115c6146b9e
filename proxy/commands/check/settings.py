"""Lists the settings: the value of each, where it comes from, and how to set it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from proxy.escape import escape_line
from proxy.settings.shown import list_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from proxy.settings.settings import Settings
    from proxy.settings.shown import ShownSetting

_HEAD = """\
A setting is a variable, `name = value` in the TOML file, and some have a flag.
`spantap help settings` says what each does.
"""


def print_settings(settings: Settings, environ: Mapping[str, str], out: TextIO) -> int:
    """Print the settings that somebody set, then the others; return the exit status."""
    rows = list_settings(settings, environ)
    out.write(_HEAD)
    _print("set", [row for row in rows if row.source != "default"], out)
    _print("defaults", [row for row in rows if row.source == "default"], out)
    return 0


def _print(title: str, rows: Iterable[ShownSetting], out: TextIO) -> None:
    lines = [
        (
            row.name,
            f"{row.variable}, {row.flag}" if row.flag else row.variable,
            escape_line(row.source),
            "not set" if row.value is None else escape_line(row.value),
        )
        for row in rows
    ]
    if not lines:
        return
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    out.write(f"\n{title}\n")
    for line in lines:
        padded = [text.ljust(width) for text, width in zip(line, widths, strict=False)]
        out.write(f"  {'  '.join(padded)}  {line[3]}\n")
