"""Runs of ``spantap traces`` in this process."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json_object
from proxy.commands.show import ShowOptions, run_show
from proxy.commands.traces import TracesOptions, run_traces

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ("Ran", "Terminal")


class Terminal(io.StringIO):
    """What takes itself for a terminal; ``COLUMNS`` is its width."""

    def isatty(self) -> bool:
        """It is one."""
        return True


class Ran:
    """What one run of the command gave; with a `call_id`, one of ``show``."""

    def __init__(
        self,
        store: Path,
        *,
        wait: Callable[[float], object] | None = None,
        now_ns: int | None = None,
        out: io.StringIO | None = None,
        err: io.StringIO | None = None,
        **options: Any,
    ) -> None:
        self._out, self._err = out or io.StringIO(), err or io.StringIO()
        given: dict[str, Any] = {"wait": wait} if wait is not None else {}
        if now_ns is not None:
            given["now_ns"] = lambda: now_ns
        call_id = options.pop("call_id", None)
        if call_id is not None:
            shown = ShowOptions(**options)
            self.status = run_show(store, call_id, shown, out=self._out, err=self._err)
            return
        self.status = run_traces(
            store, TracesOptions(**options), out=self._out, err=self._err, **given
        )

    @property
    def out(self) -> str:
        """Its output."""
        return self._out.getvalue()

    @property
    def err(self) -> str:
        """What else it said."""
        return self._err.getvalue()

    @property
    def records(self) -> list[dict[str, Any]]:
        """The JSON lines of its output."""
        return [decode_json_object(line) for line in self.out.splitlines()]

    @property
    def span_ids(self) -> list[str]:
        """The calls that it listed as JSON."""
        return [record["span_id"] for record in self.records]
