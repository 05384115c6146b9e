"""Counts, in a process of its own, where no other tracer is, and prints the costs as JSON.

``python -m tests.cost.child COUNTS_FILE GROUP [WORSENED ...]``: the file where callgrind counts,
``-`` where bytecodes are counted; a name of :data:`GROUPS`; and of
:data:`tests.cost.worsened.WORSENED`. Printed are the costs of the product as it is, and then as
each of these has made it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
from typing import TYPE_CHECKING

from tests.cost.codec_paths import codec_paths, filter_paths
from tests.cost.counters import Bytecodes, Instructions
from tests.cost.worsened import WORSENED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.cost.counters import Aside, Counter
    from tests.cost.hot_path import HotPath

__all__ = ("GROUPS", "main")

WARM_UP_RUNS = 3
"""After so many the interpreter has specialised its bytecodes, and caches are filled: ten give the
same counts."""


def _filters(_aside: Aside) -> contextlib.AbstractContextManager[list[HotPath]]:
    return contextlib.nullcontext(filter_paths())


@contextlib.contextmanager
def _all(aside: Aside) -> Iterator[list[HotPath]]:
    from tests.cost.process_paths import process_paths  # noqa: PLC0415 - seconds, under valgrind

    with process_paths(aside) as paths:
        yield codec_paths() + paths


GROUPS = {"filters": _filters, "all": _all}


def main(counts_file: str, group: str, *worsened: str) -> None:
    """Count, print."""
    counter = Bytecodes() if counts_file == "-" else Instructions(counts_file)
    gc.disable()  # when it runs depends on all that ran before
    with GROUPS[group](counter.aside) as paths:
        costs = [_count(paths, counter)]
        for name in worsened:
            WORSENED[name]()
            costs.append(_count(paths, counter))
    print(json.dumps(costs), flush=True)


def _count(paths: Sequence[HotPath], counter: Counter) -> dict[str, int]:
    for _ in range(WARM_UP_RUNS):
        for path in paths:
            path.warm_up()
    counter.begin()
    return {path.name: path.cost(counter) for path in paths}


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # to take everything down takes a second under valgrind
