"""What goes on beside a block, on a thread of its own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ("beside",)


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Let `work`, which is handed what ends it, go on while the block runs; wait for its end.

    What it raises is raised after the block.
    """
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work, over)
        try:
            yield
        finally:
            over.set()
        working.result()
