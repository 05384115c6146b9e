"""``make costs``: count the bytecodes of the hot paths, and record them in ``recorded.json``.

Bytecodes are the same from run to run, at any load, under one version of Python; what C code does
is nothing to them. Without ``--record`` the counts are printed only.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cost.hot_paths import hot_paths

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

WARM_UP_RUNS = 3
"""After so many the interpreter has specialised its bytecodes, and caches are filled."""

_FOLDER = Path(__file__).parent


def main(*, records: bool) -> None:
    """Count and print, or record."""
    gc.disable()  # when it runs depends on all that ran before
    with hot_paths() as paths:
        for path in paths * WARM_UP_RUNS:
            path.cost(_only_run)
        costs = {path.name: path.cost(count_bytecodes) for path in paths}
    record = {"python": ".".join(platform.python_version_tuple()[:2]), "bytecodes": costs}
    text = json.dumps(record, indent=2) + "\n"
    if records:
        (_FOLDER / "recorded.json").write_text(text)
    print(text, flush=True)


def count_bytecodes(run: Callable[[], object]) -> int:
    """How many bytecodes a call executes, those of this folder left out."""
    count = 0

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:
        if Path(frame.f_code.co_filename).parent == _FOLDER:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    def step(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def _only_run(run: Callable[[], object]) -> int:
    run()
    return 0


if __name__ == "__main__":
    main(records="--record" in sys.argv)
    os._exit(0)  # nothing here is worth an orderly end
